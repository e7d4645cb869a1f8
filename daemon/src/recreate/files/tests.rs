//! Files on a disk, a runtime that is a list, and the policy itself.

mod sources;

use std::fs;

use berth_policy::{
    Container, ContainerPhase, ContainerProgress, ContainerState, Declared, Effect, ListedSandbox, Origin,
    Outcome, PodRef, RequestPhase, Source, Step,
};
use berth_proto::crd::{
    ContainerRecreateRequest, ContainerRecreateRequestSpec, ContainerRecreateRequestStatus,
    RecreateContainer, RecreatePhase,
};
use prometheus_client::registry::Registry;

use super::watch::Watch;
use super::*;
use crate::{
    agent::{metrics::AgentMetrics, store::Store},
    files::Submitted,
};

/// A node with a pod or none, and two directories.
struct World {
    runtime: berth_fake::Node,
    dir: tempfile::TempDir,
    life: Life,
}

/// One process of berthd.
struct Life {
    agent: Arc<Agent>,
    files: Files,
    watch: Watch,
}

impl World {
    async fn new() -> Self {
        let runtime = berth_fake::Node::new(|_, _| Ok(()));
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("desired")).unwrap();
        let life = Life::new(&runtime, dir.path(), None).await;
        Self { runtime, dir, life }
    }

    /// With pod `shop/web`, container `app` of which this is the instance.
    async fn with_pod(instance: &str) -> Self {
        let world = Self::new().await;
        world.runtime.put(instance, "app", 3);
        world.life.pod(instance);
        world
    }

    /// berthd is killed, and another one finds this instance.
    async fn restart(&mut self, instance: Option<&str>) {
        self.life = Life::new(&self.runtime, self.dir.path(), instance).await;
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("desired").join(name)
    }

    async fn put(&mut self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
        self.look().await;
    }

    /// A file counts when two looks see the same.
    async fn look(&mut self) {
        self.life.watch.turn().await;
        self.life.watch.turn().await;
    }

    fn status(&self, name: &str) -> ContainerRecreateRequestStatus {
        let path = self.path(&format!("{name}.status.yaml"));
        serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    }

    fn id(&self, name: &str) -> RequestId {
        record::id(&self.path(name))
    }
}

impl Life {
    async fn new(runtime: &berth_fake::Node, dir: &Path, instance: Option<&str>) -> Self {
        // The store of the life before is locked for as long as that one lives; this one has its own.
        let store = Store::open(tempfile::tempdir().unwrap().path()).unwrap();
        let metrics = AgentMetrics::register(&mut Registry::default());
        let agent = Arc::new(Agent::new(berth_policy::Config::default(), Arc::new(store), metrics));
        let endpoint = format!("unix://{}", runtime.socket().display()).parse().unwrap();
        let files = Files::new(agent.clone(), Runtime::new(&endpoint), dir.join("desired"), dir);
        let watch = files.watch().await;
        let life = Self { agent, files, watch };
        if let Some(instance) = instance {
            life.pod(instance);
        }
        life
    }

    fn pod(&self, instance: &str) {
        let pod = PodRef { uid: "u-1".into(), namespace: "shop".into(), name: "web".into() };
        let app =
            Container { id: instance.into(), name: "app".into(), attempt: 3, state: ContainerState::Running };
        let sandbox = ListedSandbox { sandbox: "s-1".into(), pod, declared: Declared::default() };
        self.agent.observe(Event::ListingStarted);
        self.agent.observe(Event::RuntimeListed {
            sandboxes: vec![sandbox],
            containers: vec![("s-1".into(), app)],
        });
    }

    /// Lists the keys of the requests that the policy has been told of.
    fn told(&self) -> Vec<String> {
        self.agent.read(|node, now| node.requests(now).into_iter().map(|request| request.key).collect())
    }
}

fn manifest(pod: &str, more: &str) -> String {
    format!(
        "apiVersion: apps.kruise.io/v1alpha1\nkind: ContainerRecreateRequest\nmetadata: {{name: again, namespace: shop}}\n\
         spec:\n  podName: {pod}\n  containers: [{{name: app}}]\n{more}"
    )
}

fn report(phase: RequestPhase, outcome: Option<Outcome>) -> RecreateReport {
    let app = ContainerProgress {
        name: "app".into(),
        phase: if outcome.is_some() { ContainerPhase::Succeeded } else { ContainerPhase::Recreating },
        message: String::new(),
        killed: true,
    };
    RecreateReport { phase: Some(phase), containers: vec![app], outcome, ..RecreateReport::default() }
}

#[tokio::test]
async fn a_file_waits_for_its_pod_and_is_about_that_instance_for_ever() {
    let mut world = World::new().await;
    world.put("web.yaml", &manifest("web", "")).await;
    let waits = world.status("web.yaml");
    assert_eq!(waits.phase, Some(RecreatePhase::Pending));
    assert!(waits.message.unwrap().contains("pod shop/web is not on this node"));
    assert!(world.life.told().is_empty());

    world.runtime.put("c-1", "app", 3);
    world.life.pod("c-1");
    world.look().await;
    let assigned = world.status("web.yaml");
    assert_eq!(assigned.pod_uid.as_deref(), Some("u-1"));
    let context = &assigned.container_status_contexts[0];
    assert_eq!((context.container_id.as_str(), context.restart_count), ("fake://c-1", 3));
    assert_eq!(world.life.told(), ["shop/again"]);

    // Killed before the policy could do anything; meanwhile another instance came.
    world.restart(Some("c-2")).await;
    assert_eq!(world.life.told(), ["shop/again"], "told before anything else is done");
    world.look().await;
    assert_eq!(world.status("web.yaml"), assigned, "not assigned anew");

    let id = world.id("web.yaml");
    let recreating = RequestEffect::Report(report(RequestPhase::Recreating, None));
    assert_eq!(world.life.files.change(&id, &recreating).await, StepOutcome::Done);
    assert_eq!(world.status("web.yaml").container_recreate_states[0].phase, RecreatePhase::Recreating);
    let complete = report(RequestPhase::Completed, Some(Outcome::Complete));
    let complete = RequestEffect::Report(complete);
    assert_eq!(world.life.files.change(&id, &complete).await, StepOutcome::Done);
    let ended = world.status("web.yaml");
    assert!(ended.completion_time.is_some() && ended.pod_uid.is_some());

    world.restart(Some("c-2")).await;
    world.look().await;
    assert_eq!(world.status("web.yaml"), ended, "not run again");
    let view = world.life.agent.read(|node, now| node.requests(now));
    assert_eq!(view[0].outcome, Some(Outcome::Complete));

    assert_eq!(world.life.files.change(&id, &RequestEffect::Delete).await, StepOutcome::Done);
    assert_eq!(world.life.files.change(&id, &RequestEffect::Delete).await, StepOutcome::Gone);
    assert_eq!(world.life.files.change(&id, &complete).await, StepOutcome::Gone);
    assert_eq!(fs::read_dir(world.path("")).unwrap().count(), 0, "the file and its status");
    assert!(world.life.told().is_empty());
}

#[tokio::test]
async fn the_policy_answers_in_the_status() {
    let mut world = World::with_pod("c-1").await;
    world.life.agent.observe(Event::MarksLoaded(Vec::new()));
    world.life.agent.observe(Event::RecreatesListed(Origin::Api, Vec::new()));
    world.put("web.yaml", &manifest("web", "")).await;
    let (steps, _) = world.life.agent.plan();
    let id = world.id("web.yaml");
    let report = steps.iter().find_map(|step| match step {
        Step::Effect(Effect::Request(Source::File, of, report)) if *of == id => Some(report),
        _ => None,
    });
    let report = report.unwrap_or_else(|| panic!("{steps:?}"));
    assert_eq!(world.life.files.change(&id, report).await, StepOutcome::Done);
    assert_eq!(world.status("web.yaml").phase, Some(RecreatePhase::Recreating));
    assert_eq!(world.life.files.list().await[0].report.containers[0].name.as_str(), "app");
}

#[tokio::test]
async fn a_bad_file_says_why_and_can_be_mended() {
    let mut world = World::with_pod("c-1").await;
    world.put("web.yml", &manifest("web", "  deadline: 5\n")).await;
    let refused = world.status("web.yml");
    assert_eq!((refused.phase, refused.conditions[0].reason.as_str()), (None, "Invalid"));
    let message = refused.message.unwrap();
    assert!(message.contains("deadline") && message.contains("line 7"), "{message}");
    assert!(world.life.told().is_empty());
    world.put("web.yml", &manifest("web", "  activeDeadlineSeconds: 1\n")).await;
    let message = world.status("web.yml").message.unwrap();
    assert_eq!(
        message,
        "spec.activeDeadlineSeconds is 1: give 3 or more, at most 315360000, or leave it out"
    );
    world.put("web.yml", &manifest("web", "")).await;
    assert_eq!(world.status("web.yml").conditions, []);
    assert_eq!(world.life.told(), ["shop/again"]);
}

#[tokio::test]
async fn a_change_afterwards_is_refused_also_when_nobody_looked() {
    let mut world = World::with_pod("c-1").await;
    world.put("web.yaml", &manifest("web", "")).await;
    let accepted = world.status("web.yaml");
    world.put("web.yaml", &manifest("web", "  ttlSecondsAfterFinished: 5\n")).await;
    let objects = world.status("web.yaml");
    assert_eq!(objects.conditions[0].message, record::IMMUTABLE);
    assert_eq!(objects.container_status_contexts, accepted.container_status_contexts);
    world.put("web.yaml", &manifest("web", "")).await;
    assert_eq!(world.status("web.yaml"), accepted);

    fs::write(world.path("web.yaml"), manifest("api", "")).unwrap();
    world.restart(Some("c-1")).await;
    world.look().await;
    assert_eq!(world.status("web.yaml").conditions[0].reason, "SpecChanged");
    assert_eq!(world.life.files.list().await[0].pod, "web", "as it was accepted");
    assert_eq!(world.life.told(), ["shop/again"]);
}

#[tokio::test]
async fn a_file_that_goes_takes_its_status_with_it() {
    let mut world = World::with_pod("c-1").await;
    world.put("web.yaml", &manifest("web", "")).await;
    // An editor that replaces it is not somebody who removes it.
    fs::rename(world.path("web.yaml"), world.path("web.bak")).unwrap();
    world.life.watch.turn().await;
    fs::rename(world.path("web.bak"), world.path("web.yaml")).unwrap();
    world.look().await;
    assert_eq!(world.life.told(), ["shop/again"]);

    fs::remove_file(world.path("web.yaml")).unwrap();
    world.look().await;
    assert!(!world.path("web.yaml.status.yaml").exists());
    assert!(world.life.told().is_empty() && world.life.files.list().await.is_empty());

    // The same while nobody looks.
    world.put("web.yaml", &manifest("web", "")).await;
    fs::remove_file(world.path("web.yaml")).unwrap();
    world.restart(Some("c-1")).await;
    assert!(!world.path("web.yaml.status.yaml").exists());
    assert!(world.life.told().is_empty());
}

#[tokio::test]
async fn what_cannot_be_written_down_is_not_done() {
    let mut world = World::with_pod("c-1").await;
    // In the way of the status.
    fs::create_dir_all(world.path("web.yaml.status.yaml/x")).unwrap();
    world.put("web.yaml", &manifest("web", "")).await;
    assert!(world.life.told().is_empty());
    let listed = world.life.files.list().await;
    assert!(!listed[0].objection.is_empty(), "{listed:?}");
}

#[tokio::test]
async fn a_damaged_status_is_left_alone_until_it_is_mended() {
    let mut accepted = String::new();
    for remedy in ["removed", "written again"] {
        let mut world = World::with_pod("c-1").await;
        let status = world.path("web.yaml.status.yaml");
        fs::write(&status, "").unwrap();
        world.put("web.yaml", &manifest("web", "")).await;
        world.look().await;
        assert!(world.life.told().is_empty());
        assert_eq!(fs::read_to_string(&status).unwrap(), "");
        assert!(!world.life.files.list().await[0].objection.is_empty());

        match remedy {
            "removed" => fs::remove_file(&status).unwrap(),
            _ => fs::write(&status, &accepted).unwrap(),
        }
        world.look().await;
        assert_eq!(world.life.told(), ["shop/again"], "{remedy}");
        assert!(world.life.files.list().await[0].objection.is_empty(), "{remedy}");
        accepted = fs::read_to_string(&status).unwrap();
    }
}

#[tokio::test]
async fn two_files_of_one_name_go_one_after_the_other() {
    let mut world = World::with_pod("c-1").await;
    world.put("a.yaml", &manifest("web", "")).await;
    world.put("b.yaml", &manifest("web", "")).await;
    let message = world.status("b.yaml").message.unwrap();
    assert!(message.contains("a.yaml") && message.contains("metadata.name"), "{message}");
    fs::remove_file(world.path("a.yaml")).unwrap();
    world.look().await;
    world.look().await;
    assert_eq!(world.status("b.yaml").pod_uid.as_deref(), Some("u-1"));
    assert_eq!(world.life.told(), ["shop/again"]);
}

#[tokio::test]
async fn a_deadline_counts_from_the_first_sight_and_over_restarts() {
    let mut world = World::new().await;
    let late = record::Record::new(Timestamp::now() - jiff::SignedDuration::from_secs(60));
    fs::write(world.path("web.yaml.status.yaml"), late.text().unwrap()).unwrap();
    fs::write(world.path("web.yaml"), manifest("web", "  activeDeadlineSeconds: 30\n")).unwrap();
    world.restart(None).await;
    world.look().await;
    let ended = world.status("web.yaml");
    assert_eq!(
        (ended.phase, ended.conditions[0].reason.as_str()),
        (Some(RecreatePhase::Completed), "DeadlineExceeded")
    );
    assert_eq!(world.life.told(), ["shop/again"], "for its deletion");
}

#[tokio::test]
async fn a_request_of_the_admin_socket_is_kept_or_refused_at_once() {
    let mut world = World::with_pod("c-1").await;
    let ask = |container: &str| {
        let container = RecreateContainer { name: container.to_owned(), ..RecreateContainer::default() };
        let spec = ContainerRecreateRequestSpec { containers: vec![container], ..Default::default() };
        ContainerRecreateRequest { metadata: Default::default(), spec, status: None }
    };
    let files = world.life.files.clone();
    let refused = |pod: &'static str, container: &'static str| {
        let files = files.clone();
        async move { files.submit(pod, ask(container)).await.unwrap_err().to_string() }
    };
    assert!(refused("api", "app").await.contains("pod api is not on this node"));
    assert!(refused("web", "log").await.contains("no container log; it has app"));
    assert!(refused("web", "").await.starts_with("spec.containers[0].name is empty"));
    assert!(refused("", "app").await.starts_with("spec.podName is empty"));
    let kept = world.dir.path().join("requests");
    assert!(!kept.exists(), "nothing of it stays");

    let Submitted { namespace, name } = files.submit("web", ask("app")).await.unwrap();
    assert_eq!(world.life.told(), [format!("{namespace}/{name}")]);
    assert!(name.starts_with("web-") && namespace == "shop");
    let read = manifest::read(&fs::read_to_string(kept.join(format!("{name}.yaml"))).unwrap()).unwrap();
    assert_eq!((read.spec.pod_name.as_str(), read.metadata.namespace.as_deref()), ("web", Some("shop")));
    let status = kept.join(format!("{name}.yaml.status.yaml"));
    let written = fs::read_to_string(&status).unwrap();
    world.look().await;
    assert_eq!(fs::read_to_string(&status).unwrap(), written, "a look finds nothing new");

    // Killed between the two files: a status alone is no request. Killed after both: nothing is lost.
    fs::write(kept.join("half.yaml.status.yaml"), &written).unwrap();
    fs::write(kept.join(".berthd-half"), "").unwrap();
    world.restart(Some("c-1")).await;
    assert_eq!(world.life.told(), [format!("{namespace}/{name}")]);
    assert_eq!(fs::read_dir(&kept).unwrap().count(), 2);
    let listed = world.life.files.list().await;
    assert!(listed[0].origin == "admin" && listed[0].name == name, "{listed:?}");
}

#[tokio::test]
async fn nothing_is_told_before_everything_was_read() {
    let mut world = World::with_pod("c-1").await;
    world.put("web.yaml", &manifest("web", "")).await;
    let aside = world.dir.path().join("aside");
    fs::rename(world.path(""), &aside).unwrap();
    fs::write(world.dir.path().join("desired"), "not a directory").unwrap();
    world.restart(Some("c-1")).await;
    assert!(!world.life.files.is_listed());
    let error = world.life.files.submit(
        "web",
        serde_json::from_value(serde_json::json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "ContainerRecreateRequest", "metadata": {},
            "spec": {"podName": "", "containers": [{"name": "app"}]},
        }))
        .unwrap(),
    );
    assert!(matches!(error.await, Err(SubmitError::Early)));
    fs::remove_file(world.dir.path().join("desired")).unwrap();
    fs::rename(&aside, world.path("")).unwrap();
    world.look().await;
    assert_eq!(world.life.told(), ["shop/again"]);
}
