//! A controller with little room.

use berth_base::lease::Term;
use prometheus_client::registry::Registry;
use tokio::time::timeout;

use super::*;
use crate::{
    notes,
    store::{JobSeen, Weight},
};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// A job that takes so many KiB.
fn job(name: &str, kib: usize) -> Input {
    let spec_weight = Weight { memory: kib << 10, text: 0 };
    let seen = JobSeen::of_test("shop", name, Err("not read".to_owned()));
    Input::Apply(Box::new(Object::ImagePullJob(Box::new(JobSeen { spec_weight, ..seen }))))
}

#[tokio::test]
async fn what_has_no_room_is_told_and_comes_back_by_a_list() {
    let (lease, tenure) = Tenure::of_test();
    lease.send_replace(Some(Term::of_test(tokio::time::Instant::now() + Duration::from_secs(3600))));
    let metrics = Metrics::register(&mut Registry::default());
    let (sender, inputs) = mpsc::channel(16);
    let (relists, mut asked) = watch::channel(Relists::default());
    let (notes, mut told) = notes::channel(tenure.clone());
    let vault = Vault::default();
    let controller = Controller {
        indexes: Indexes::default(),
        room: Room::new(800 << 10),
        relists,
        fetches: mpsc::unbounded_channel().0,
        answers: mpsc::channel(1).1,
        vault: vault.clone(),
        asks: mpsc::unbounded_channel().0,
        replies: mpsc::channel(1).1,
        steps: mpsc::unbounded_channel().0,
        facts: mpsc::channel(1).1,
        spread_steps: mpsc::unbounded_channel().0,
        replicas: mpsc::channel(1).1,
        pod_state_steps: mpsc::unbounded_channel().0,
        annotations: mpsc::channel(1).1,
        inputs,
        webhooks: watch::channel(Webhooks::default()).1,
        entered: watch::channel(Entered::default()).1,
        filed: mpsc::channel(1).1,
        writer: Writer::new(tenure.clone(), metrics.clone(), vault),
        tenure,
        notes,
        listed: watch::channel(Listed::default()).0,
        metrics,
    };
    let task = tokio::spawn(controller.run());
    for input in [Input::ListBegins(Kind::ImagePullJob), job("large", 500), job("other", 400)] {
        sender.send(input).await.unwrap();
    }
    let note = timeout(PATIENCE, told.recv()).await.unwrap().unwrap();
    assert_eq!((&*note.key.name, note.reason, note.warning), ("large", "SetAside", true));
    let (namespace, name) = ("shop".to_owned(), "other".to_owned());
    sender.send(Input::Delete { kind: Kind::ImagePullJob, namespace, name }).await.unwrap();
    let lists = asked.wait_for(|asked| asked[Kind::ImagePullJob as usize] > 0);
    let lists = timeout(PATIENCE, lists).await.unwrap().unwrap();
    let by_leader = [Kind::SidecarSet, Kind::PodProbeMarker].map(|kind| lists[kind as usize]);
    assert_eq!(by_leader, [1, 1], "by who begins to lead");
    assert_eq!(lists.iter().sum::<u32>(), 3, "no other kind is listed");
    task.abort();
}
