//! Sequences of facts about updates, with the largest and smallest numbers: whatever authors write and in
//! whatever order it comes, no evaluation panics. The bytes choose what happens next.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use berth_policy::{
    Config, ContainerId, ContainerState, Event, InstanceView, Node, Path, PodRef, RequestId, RestartPolicy,
    RestartRule, StepOutcome,
    in_place_update::{
        ContainerStatusView, CreatedWith, DeclaredContainer, DeclaredHook, EnvHash, EnvReference, Failure,
        Fetched, GateView, Liveness, MergePatch, MetadataKey, NodeView, PodView, Presence, Record,
        StoredRequest, UpdateAction, UpdateEvent, UpdateOwner, UpdatePermission, UpdateReport, UpdateRequest,
        UpdateSource, Updates, WantedSwap, WriteOutcome,
    },
    time::later,
};

use crate::base::extremes::{LENGTHS, MOST};

/// The longest time that passes at once.
const PASSES: Duration = Duration::from_secs(400 * 24 * 3600);

/// Plays what the bytes say.
pub fn updates(data: &[u8]) {
    let mut bytes = data.iter().copied();
    let path = if bytes.next().is_some_and(|first| first > 127) { Path::Beside } else { Path::Inline };
    let mut play = Play::new(path);
    for _ in 0..MOST {
        let (Some(what), Some(which)) = (bytes.next(), bytes.next()) else { break };
        play.next(what, which);
        play.look(which);
    }
    assert_eq!(play.updates.panics(), 0, "an evaluation of updates panicked");
}

struct Play {
    updates: Updates,
    /// Gives the moments of the node.
    node: Node,
    now: Instant,
    version: u64,
    seen: u32,
}

impl Play {
    fn new(path: Path) -> Self {
        let now = crate::agent::now();
        Self { updates: Updates::new(path), node: Node::new(Config::default()), now, version: 0, seen: 0 }
    }

    fn next(&mut self, what: u8, which: u8) {
        let (now, length) = (self.now, LENGTHS[usize::from(which) % LENGTHS.len()]);
        let pod = pod_of(which).uid;
        let source = UpdateSource::ALL[usize::from(which) % UpdateSource::ALL.len()];
        self.seen = self.seen.saturating_add(1);
        let event = match what % 13 {
            0 | 1 => UpdateEvent::RequestSeen(Box::new(self.stored(which, source, length))),
            2 => UpdateEvent::RequestGone(id_of(which)),
            3 if which > 128 => UpdateEvent::RequestsListed(source, Vec::new()),
            3 => UpdateEvent::RequestsListed(source, vec![self.stored(which, source, length)]),
            4 if which > 240 => UpdateEvent::PermissionKnown(UpdatePermission::Denied("no".to_owned())),
            4 => UpdateEvent::PermissionKnown(UpdatePermission::Given),
            5 | 6 => UpdateEvent::PodShown(Box::new(self.view(which, length))),
            7 => match which % 8 {
                0 => UpdateEvent::PodGone(pod),
                1 => UpdateEvent::WatchLost,
                2 => UpdateEvent::ExecutorLost,
                _ => UpdateEvent::PodsListed(BTreeSet::new()),
            },
            8 | 9 => UpdateEvent::NodeSeen(pod, Box::new(self.node_view(which))),
            10 => UpdateEvent::Written(pod, self.outcome(which, length)),
            11 => UpdateEvent::Inspected(pod, None),
            _ => {
                self.now = later(now, length.min(PASSES));
                return;
            }
        };
        self.updates.apply(event, now);
    }

    /// Plans, and carries out what is due, or lets it fail, or never ends it.
    fn look(&mut self, which: u8) {
        let (now, length) = (self.now, LENGTHS[usize::from(which / 7) % LENGTHS.len()]);
        let wall = if which > 250 { Duration::MAX } else { LENGTHS[usize::from(which / 11) % 4] };
        let outcome = [StepOutcome::Done, StepOutcome::Gone, StepOutcome::Failed][usize::from(which) % 3];
        for action in self.updates.plan(now, wall) {
            let answer = match action {
                _ if which.is_multiple_of(5) => continue,
                UpdateAction::Fetch(pod) if which.is_multiple_of(7) => {
                    UpdateEvent::Fetched(pod.uid, Fetched::Failed)
                }
                UpdateAction::Fetch(pod) => {
                    let view = Box::new(self.view(which, length));
                    UpdateEvent::Fetched(pod.uid, Fetched::Found(view))
                }
                UpdateAction::Inspect { pod, instances } => {
                    let created = |finished| CreatedWith {
                        definition: Some(u32::from(which)),
                        env: Some(EnvHash(u64::MAX)),
                        finished,
                        exited: which > 128,
                    };
                    let answers = instances.into_iter().map(|one| (one.instance, created(Some(length))));
                    UpdateEvent::Inspected(pod, Some(answers.collect()))
                }
                UpdateAction::Clear(pod, instances) => {
                    let failed = if which > 200 { instances } else { BTreeSet::new() };
                    UpdateEvent::Cleared { pod, failed, moment: self.node.moment() }
                }
                UpdateAction::Stop(pod, _) => UpdateEvent::Stopped(pod, which < 128),
                UpdateAction::Write { pod, .. } => UpdateEvent::Written(pod.uid, self.outcome(which, length)),
                UpdateAction::Report(request, report) => UpdateEvent::Reported(request.id, report, outcome),
                UpdateAction::Delete(request) => UpdateEvent::Deleted(request.id, outcome),
                _ => continue,
            };
            self.updates.apply(answer, now);
        }
        let _ = self.updates.next_deadline();
    }

    fn outcome(&mut self, which: u8, length: Duration) -> WriteOutcome {
        match which % 7 {
            0..=2 => WriteOutcome::Done(Box::new(self.view(which, length))),
            3 => WriteOutcome::Outdated,
            4 => WriteOutcome::Refused { why: "no".to_owned(), for_good: which > 128 },
            5 => WriteOutcome::Held { why: "not now".to_owned() },
            _ => WriteOutcome::Failed,
        }
    }

    fn stored(&mut self, which: u8, source: UpdateSource, length: Duration) -> StoredRequest {
        self.version = self.version.saturating_add(1);
        let version = if which == 255 { u64::MAX } else { self.version };
        let flaw = which.is_multiple_of(31).then(|| Failure::invalid("it makes no sense"));
        StoredRequest { request: request(which, source, length, self.now), flaw, version }
    }

    fn view(&mut self, which: u8, length: Duration) -> PodView {
        self.version = self.version.saturating_add(1);
        let liveness =
            [Liveness::Alive, Liveness::Alive, Liveness::Gone, Liveness::Ended][usize::from(which / 64)];
        let gates = [GateView::Absent, GateView::Ready, GateView::NotReady { since: Some(length) }];
        let policies = [RestartPolicy::Never, RestartPolicy::OnFailure, RestartPolicy::Always];
        PodView {
            uids: vec![pod_of(which).uid],
            version: if which == 254 { u64::MAX } else { self.version },
            named: which.is_multiple_of(7).then(|| format!("ns/p{}", which % 3)),
            controller: (!which.is_multiple_of(17)).then(|| "set".into()),
            liveness,
            generation: Some(i64::MAX),
            observed_generation: Some(if which > 100 { i64::MIN } else { i64::MAX }),
            restart_policy: policies[usize::from(which) % policies.len()],
            has_pull_secrets: which > 250,
            metadata: BTreeMap::from([(MetadataKey::Label("k".to_owned()), format!("{}", which % 3))]),
            gate: gates[usize::from(which / 3) % gates.len()],
            records: [UpdateOwner::Workload, set(which)]
                .into_iter()
                .filter(|_| which.is_multiple_of(11))
                .map(|owner| (owner, record()))
                .collect(),
            containers: ["m", "s", "twin-1", "twin-2"].map(|name| self.declared(name, which, length)).into(),
        }
    }

    fn declared(&self, name: &str, which: u8, length: Duration) -> DeclaredContainer {
        let priorities = [None, Some(i32::MIN), Some(0), Some(i32::MAX)];
        let key = MetadataKey::Label("k".to_owned());
        let status = ContainerStatusView {
            id: Some(instance(name, self.seen)),
            image_id: format!("sha256:{}", which % 2),
            ready: which.is_multiple_of(2),
            restarts: u32::MAX,
            runs: !which.is_multiple_of(3),
            started: Some(length),
            backs_off: which.is_multiple_of(13),
            last_started: Some(Duration::MAX),
        };
        DeclaredContainer {
            name: name.into(),
            image: format!("{name}:{}", which % 3).into(),
            definition: u32::from(which),
            restart_policy: which.is_multiple_of(5).then_some(RestartPolicy::Never),
            restart_rules: if which > 240 { vec![RestartRule::In(vec![i32::MIN])] } else { Vec::new() },
            priority: priorities[usize::from(which) % priorities.len()],
            references: BTreeMap::from([("K".to_owned(), EnvReference { key, is_expanded: which > 128 })]),
            env: EnvHash(u64::from(which)),
            is_probed: which > 64,
            hook: [DeclaredHook::None, DeclaredHook::Command, DeclaredHook::Other][usize::from(which) % 3],
            status: (which < 250).then_some(status),
        }
    }

    fn node_view(&mut self, which: u8) -> NodeView {
        self.node.apply(Event::ViewFresh(true), self.now);
        let state = match which % 3 {
            0 => ContainerState::Exited { code: Some(i32::MIN) },
            _ => ContainerState::Running,
        };
        let view = |name: &str| InstanceView {
            id: instance(name, self.seen),
            attempt: u32::MAX,
            state,
            stopping: which > 200,
            hooked: which % 5 == 4,
        };
        let exited = BTreeSet::from([instance("m", 0), instance("m", 1)]);
        let presences = [Presence::Present, Presence::Unknown, Presence::Failed("no".to_owned())];
        let presence = |image: &str| (Arc::from(image), presences[usize::from(which / 2) % 3].clone());
        NodeView {
            instances: ["m", "s"].map(|name| (name.into(), view(name))).into(),
            exited: if which > 128 { BTreeMap::from([("m".into(), exited)]) } else { BTreeMap::new() },
            relisted: (!which.is_multiple_of(4)).then(|| self.node.moment()),
            images: ["m:0", "m:1", "m:2", "s:0", "s:1", "s:2"].map(presence).into(),
        }
    }
}

fn pod_of(which: u8) -> PodRef {
    let name = format!("p{}", which % 2);
    PodRef { uid: name.as_str().into(), namespace: "ns".to_owned(), name }
}

fn id_of(which: u8) -> RequestId {
    format!("r{}", which % 5).as_str().into()
}

fn instance(name: &str, attempt: u32) -> ContainerId {
    format!("{name}-{attempt}").as_str().into()
}

fn set(which: u8) -> UpdateOwner {
    UpdateOwner::SidecarSet(format!("s{}", which % 3))
}

fn merges(which: u8) -> BTreeMap<String, MergePatch> {
    let patch = MergePatch::parse(r#"{"a":{"b":null},"c":[1]}"#).unwrap_or_default();
    BTreeMap::from([(format!("k{}", which % 3), patch)])
}

fn record() -> Record {
    Record {
        revision: "old".to_owned(),
        update_timestamp: i64::MIN,
        last_container_statuses: BTreeMap::from([("m".into(), "sha256:0".to_owned())]),
        update_env_from_metadata: true,
        update_images: true,
        next_container_images: BTreeMap::from([("s".into(), Arc::from("s:1"))]),
        next_container_ref_metadata: BTreeMap::new(),
        containers_required_ready: BTreeSet::from(["m".into()]),
        container_batches_record: Vec::new(),
    }
}

/// A swap of containers that the pod has, or has not.
fn swaps(which: u8, limit: Duration) -> BTreeMap<String, WantedSwap> {
    let image = Arc::from(format!("m:{}", which % 3));
    let wanted = WantedSwap { image: Some(image), empty_image: "m:0".into(), version: u64::MAX, limit };
    BTreeMap::from([(if which > 100 { "m" } else { "twin" }.to_owned(), wanted)])
}

fn request(which: u8, source: UpdateSource, length: Duration, now: Instant) -> UpdateRequest {
    let image = |name: &str| (name.into(), Arc::from(format!("{name}:{}", which % 3)));
    let label = (MetadataKey::Label("k".to_owned()), format!("{}", which % 4));
    UpdateRequest {
        id: id_of(which),
        source,
        key: format!("ns/r{}", which % 5),
        created: now,
        pod: pod_of(which),
        revision: format!("v{}", which % 7),
        images: BTreeMap::from([image("m"), image(if which > 250 { "unknown" } else { "s" })]),
        metadata: BTreeMap::from([label]),
        merges: if which.is_multiple_of(4) { merges(which) } else { BTreeMap::new() },
        defaults: BTreeMap::from([("d".to_owned(), which.to_string())]),
        swaps: if which.is_multiple_of(5) { swaps(which, length) } else { BTreeMap::new() },
        owner: if which.is_multiple_of(2) { set(which) } else { UpdateOwner::Workload },
        controller: which.is_multiple_of(9).then(|| "set".into()),
        injected_by: which.is_multiple_of(10).then(|| "s".to_owned()),
        keeps_service: which.is_multiple_of(3),
        leaves_pull: which.is_multiple_of(5),
        shown_as: which.is_multiple_of(7).then_some(i32::MAX),
        grace: length,
        ignore_failures: which > 200,
        rollback_on_failure: which.is_multiple_of(3),
        deadline: if which > 60 { now.checked_add(length) } else { None },
        rollback_limit: length,
        delete_after: Some(length),
        reported: UpdateReport::default(),
        ended: (which == 253).then_some(now),
    }
}
