//! The writer against an API server that says what the test wants.

mod bodies;
mod size;

use std::{
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use berth_proto::crd::DesiredImage;
use http::{Request, Response};
use http_body_util::BodyExt;
use jiff::Timestamp;
use kube::client::Body as KubeBody;
use prometheus_client::registry::Registry;
use rstest::rstest;
use serde_json::{Value, json};
use tokio::sync::watch;
use tower::service_fn;

use tokio::time::sleep;

use super::*;
use crate::{
    images::{NodeImageWrite, Seal, Wish},
    lease::Term,
    requests::{Assignment, RequestAct, RequestId, StatusPatch},
    sidecarsets::SetWrite,
    store::Key,
};

pub(super) fn patch(name: &str, resource_version: &str) -> Write {
    request(name, resource_version).into()
}

pub(super) fn patch_in(namespace: &str, name: &str, resource_version: &str) -> Write {
    let mut patch = request(name, resource_version);
    patch.id.key.namespace = namespace.into();
    patch.into()
}

/// Nothing is wanted of a node.
pub(super) fn node(name: &str) -> Write {
    Write::Node(NodeImageWrite {
        node: name.into(),
        uid: "u".into(),
        resource_version: "7".into(),
        sealing_key: None,
        wishes: Vec::new(),
    })
}

/// Status of a set.
pub(super) fn set(name: &str) -> Write {
    let (name, uid, resource_version) = (name.into(), "u".into(), "7".into());
    Write::SidecarSet(SetWrite { name, uid, resource_version, status: Box::default() })
}

fn request(name: &str, resource_version: &str) -> StatusPatch {
    let assignment = Assignment { node: "node-1".into(), pod_uid: "uid".to_owned(), contexts: Vec::new() };
    let key = Key { namespace: "default".into(), name: name.into() };
    StatusPatch {
        id: RequestId { kind: RequestKind::Recreate, key },
        uid: "uid-of-the-request".into(),
        resource_version: resource_version.into(),
        write: RequestAct::Assign(assignment),
        at: Timestamp::UNIX_EPOCH,
        by: None,
    }
}

/// Requests that arrived: path with query, and body.
type Seen = Arc<Mutex<Vec<(String, Value)>>>;

struct Bench {
    writer: Writer,
    tenure: watch::Sender<Option<Term>>,
    registry: Registry,
    seen: Seen,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

/// A writer that leads. `answer` gives the status of the n-th request; 0 is no answer at all.
fn bench(answer: impl Fn(usize) -> u16 + Send + Sync + 'static) -> Bench {
    bench_of(move |number, _| (answer(number), String::new()))
}

/// The same, where the path counts too, and the answer says something.
fn bench_of(answer: impl Fn(usize, &str) -> (u16, String) + Send + Sync + 'static) -> Bench {
    let (seen, count, answer) = (Seen::default(), Arc::new(AtomicUsize::new(0)), Arc::new(answer));
    let kept = seen.clone();
    let service = service_fn(move |request: Request<KubeBody>| {
        let (seen, count, answer) = (kept.clone(), count.clone(), answer.clone());
        async move {
            let uri = request.uri().to_string();
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let body: Value = serde_json::from_slice(&body).unwrap();
            let (code, message) = answer(count.fetch_add(1, Ordering::Relaxed), &uri);
            let reply = match code {
                200 => body.clone(),
                code => json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
                    "reason": "Any", "message": message }),
            };
            seen.lock().unwrap().push((uri, body));
            if code == 0 {
                std::future::pending::<()>().await;
            }
            let reply = KubeBody::from(serde_json::to_vec(&reply).unwrap());
            Ok::<_, Infallible>(Response::builder().status(code).body(reply).unwrap())
        }
    });
    let (tenure, held) = Tenure::of_test();
    let mut registry = Registry::default();
    let writer = Writer::new(held, Metrics::register(&mut registry), Vault::default());
    let stop = CancellationToken::new();
    let task = tokio::spawn(writer.clone().run(Client::new(service, "default"), stop.clone()));
    let bench = Bench { writer, tenure, registry, seen, stop, task };
    bench.lead(true);
    bench
}

impl Bench {
    fn lead(&self, leads: bool) {
        self.tenure.send_replace(leads.then(|| Term::of_test(Instant::now() + Duration::from_secs(3600))));
    }

    /// How often a write had this outcome.
    fn count(&self, outcome: &str) -> usize {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let wanted = format!("outcome=\"{outcome}\"");
        let line = text.lines().find(|line| line.contains(&wanted));
        line.map_or(0, |line| line.rsplit_once(' ').unwrap().1.parse().unwrap())
    }

    /// Time passes by itself (it is stopped) until the outcome is there.
    async fn until(&self, outcome: &str, times: usize) {
        let wait = async {
            while self.count(outcome) < times {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_secs(600), wait).await.expect(outcome);
    }

    fn seen(&self) -> Vec<(String, Value)> {
        self.seen.lock().unwrap().clone()
    }
}

/// Not tried again: the object has changed, is gone, or the answer would be the same for ever.
#[rstest]
#[case::conflict(409, "conflict")]
#[case::gone(404, "gone")]
#[case::invalid(422, "refused")]
#[tokio::test(start_paused = true)]
async fn an_answer_that_lasts(#[case] code: u16, #[case] outcome: &str) {
    let bench = bench(move |_| code);
    bench.writer.submit(patch("r", "1")).unwrap();
    bench.until(outcome, 1).await;
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(bench.seen().len(), 1);
}

/// By an API server that has not read the roles yet, or by one that has.
#[tokio::test(start_paused = true)]
async fn what_is_forbidden_is_tried_some_times() {
    let bench = bench(|number| if number < 3 { 403 } else { 200 });
    bench.writer.submit(patch("r", "1")).unwrap();
    bench.until("written", 1).await;
    let refused = self::bench(|_| 403);
    let begun = Instant::now();
    refused.writer.submit(patch("r", "1")).unwrap();
    refused.until("refused", 1).await;
    assert!(begun.elapsed() > Duration::from_secs(20));
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(refused.seen().len(), answer::TRIES_OF_FORBIDDEN + 1);
}

/// Rows: code and words of a refusal. Nothing of the object changes when a right is given back, or a policy
/// mended.
#[rstest]
#[case::right(403, "requests.apps.kruise.io is forbidden")]
#[case::webhook(400, "admission webhook \"x\" denied the request: no")]
#[case::policy(422, "ValidatingAdmissionPolicy 'x' with binding 'y' denied request: no")]
#[tokio::test(start_paused = true)]
async fn what_a_right_or_a_rule_keeps_out_is_written_when_it_may_pass(
    #[case] code: u16,
    #[case] words: &'static str,
) {
    let may_pass = Arc::new(AtomicBool::new(false));
    let passes = may_pass.clone();
    let bench = bench_of(move |_, _| {
        let code = if passes.load(Ordering::Relaxed) { 200 } else { code };
        (code, words.to_owned())
    });
    let target = patch("r", "1").target();
    bench.writer.submit(patch("r", "1")).unwrap();
    bench.until("refused", 1).await;
    let (asked, begun) = (bench.seen().len(), Instant::now());
    assert_eq!(bench.writer.given_back().await, std::slice::from_ref(&target));
    assert!(begun.elapsed() >= Duration::from_secs(290), "after a long pause");
    // The index decides the same.
    bench.writer.submit(patch("r", "1")).unwrap();
    bench.until("refused", 2).await;
    assert_eq!(bench.seen().len(), asked + 1, "it is known what keeps it out");
    may_pass.store(true, Ordering::Relaxed);
    assert_eq!(bench.writer.given_back().await, [target]);
    bench.writer.submit(patch("r", "1")).unwrap();
    bench.until("written", 1).await;
    assert_eq!(bench.seen().len(), asked + 2);
}

/// A permit holds for a while; a write that would come after it is decided anew.
#[tokio::test(start_paused = true)]
async fn what_has_a_time_is_written_in_it_or_not_at_all() {
    let bench = bench(|_| 503);
    let mut limited = request("r", "1");
    limited.by = Some((Instant::now() + Duration::from_secs(3)).into_std());
    let target = Write::from(limited.clone()).target();
    bench.writer.submit(limited).unwrap();
    let begun = Instant::now();
    assert_eq!(bench.writer.given_back().await, [target]);
    assert!(begun.elapsed() >= Duration::from_secs(3), "{:?}", begun.elapsed());
    // After 0.1, 0.3 and 1 s; the next one would be after its time.
    assert_eq!((bench.seen().len(), bench.count("late")), (4, 1));
}

#[rstest]
#[case::unavailable(503)]
#[case::too_many(429)]
#[case::broken(500)]
#[case::expired_token(401)]
#[case::no_answer(0)]
#[tokio::test(start_paused = true)]
async fn an_answer_for_now_is_asked_for_again(#[case] code: u16) {
    let bench = bench(move |number| if number < 3 { code } else { 200 });
    let begun = Instant::now();
    bench.writer.submit(patch("r", "1")).unwrap();
    bench.until("written", 1).await;
    assert_eq!((bench.seen().len(), bench.count("retried")), (4, 3));
    let waited = begun.elapsed();
    let without_answer = if code == 0 { 3 * ANSWER_WITHIN } else { Duration::ZERO };
    let pauses: Duration = PAUSES[..3].iter().sum();
    assert!(waited >= pauses + without_answer, "{waited:?}");
    assert!(waited < pauses + without_answer + Duration::from_secs(1), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_without_the_lease() {
    let bench = bench(|_| 200);
    bench.lead(false);
    bench.writer.submit(patch("r", "1")).unwrap();
    sleep(Duration::from_secs(60)).await;
    assert_eq!((bench.seen().len(), bench.count("not_leading")), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_lost_ends_the_tries() {
    let bench = bench(|_| 503);
    bench.writer.submit(patch("r", "1")).unwrap();
    bench.until("retried", 2).await;
    bench.lead(false);
    bench.until("not_leading", 1).await;
    let seen = bench.seen().len();
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(bench.seen().len(), seen);
}

#[tokio::test(start_paused = true)]
async fn a_tenure_ends_by_itself() {
    let bench = bench(|_| 200);
    bench.tenure.send_replace(Some(Term::of_test(Instant::now() + Duration::from_secs(10))));
    sleep(Duration::from_secs(10)).await;
    bench.writer.submit(patch("r", "1")).unwrap();
    assert_eq!(bench.count("not_leading"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_newer_write_takes_the_place_of_one_that_is_tried_again() {
    let bench = bench(|number| if number == 0 { 503 } else { 200 });
    bench.writer.submit(patch("r", "1")).unwrap();
    bench.until("retried", 1).await;
    bench.writer.submit(patch("r", "2")).unwrap();
    bench.until("written", 1).await;
    assert_eq!(bench.count("superseded"), 1);
    let versions: Vec<_> =
        bench.seen().into_iter().map(|(_, body)| body["metadata"]["resourceVersion"].clone()).collect();
    assert_eq!(versions, ["1", "2"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_does_not_answer_holds_up_no_other() {
    let bench = bench(|number| if number == 0 { 0 } else { 200 });
    bench.writer.submit(patch("stuck", "1")).unwrap();
    while bench.seen().is_empty() {
        sleep(Duration::from_millis(1)).await;
    }
    for number in 0..100 {
        bench.writer.submit(patch(&number.to_string(), "1")).unwrap();
    }
    let begun = Instant::now();
    bench.until("written", 100).await;
    assert!(begun.elapsed() < ANSWER_WITHIN);
}

#[tokio::test(start_paused = true)]
async fn it_stops_while_it_tries_again() {
    let bench = bench(|_| 503);
    bench.writer.submit(patch("r", "1")).unwrap();
    bench.until("retried", 1).await;
    bench.stop.cancel();
    timeout(Duration::from_secs(1), bench.task).await.expect("stops").unwrap();
}
