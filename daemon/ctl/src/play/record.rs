//! Record of what happened when while a pod was launched, for `--timeline` and `-o json`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use berth_proto::cri::ContainerStatus;
use serde::Serialize;
use tokio::time::Instant;

use crate::manifest::Manifest;
use crate::timeline::{self, Phase, Row};

/// The launch of a pod. Milliseconds since the beginning of the launch, which is before the sandbox.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    pod_sandbox_id: String,
    namespace: String,
    name: String,
    uid: String,
    /// When the sandbox was up.
    sandbox_milliseconds: Option<u64>,
    /// In spec order.
    containers: Vec<Times>,
    #[serde(skip)]
    began: Option<Instant>,
    /// The same moment on the clock of the CRI.
    #[serde(skip)]
    epoch: SystemTime,
}

/// The launch of a container.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Times {
    name: String,
    priority: Option<i32>,
    /// The container, once it is created.
    pub container_id: Option<String>,
    pull_milliseconds: Option<u64>,
    pulled_milliseconds: Option<u64>,
    created_milliseconds: Option<u64>,
    started_milliseconds: Option<u64>,
    ready_milliseconds: Option<u64>,
    ended_milliseconds: Option<u64>,
    exit_code: Option<i32>,
    /// How often CreateContainer was refused.
    pub refusals: u32,
}

/// A moment in the launch of a container.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LaunchMoment {
    /// Its image is looked for.
    Pull,
    /// Its image is there.
    Pulled,
    /// CreateContainer was answered.
    Created,
    /// StartContainer was answered.
    Started,
    /// Its probes succeeded, or it has none.
    Ready,
}

impl Record {
    /// Begins now.
    pub(crate) fn new(manifest: &Manifest) -> Self {
        let times = |name: &String| Times {
            name: name.clone(),
            priority: manifest.order.as_ref().and_then(|order| order.priority(&name.as_str().into())),
            ..Times::default()
        };
        Self {
            pod_sandbox_id: String::new(),
            namespace: manifest.namespace().to_owned(),
            name: manifest.name().to_owned(),
            uid: manifest.uid.clone(),
            sandbox_milliseconds: None,
            containers: manifest.pod.spec.containers.iter().map(|container| times(&container.name)).collect(),
            began: Some(Instant::now()),
            epoch: SystemTime::now(),
        }
    }

    /// The sandbox is up.
    pub(crate) fn sandbox(&mut self, id: &str) {
        id.clone_into(&mut self.pod_sandbox_id);
        self.sandbox_milliseconds = Some(self.since(Instant::now()));
    }

    /// Notes a moment of the container at this place in the spec; returns the milliseconds since the
    /// beginning.
    pub(crate) fn mark(&mut self, index: usize, mark: LaunchMoment, at: Instant) -> u64 {
        let since = self.since(at);
        let times = &mut self.containers[index];
        let field = match mark {
            LaunchMoment::Pull => &mut times.pull_milliseconds,
            LaunchMoment::Pulled => &mut times.pulled_milliseconds,
            LaunchMoment::Created => &mut times.created_milliseconds,
            LaunchMoment::Started => &mut times.started_milliseconds,
            LaunchMoment::Ready => &mut times.ready_milliseconds,
        };
        *field = Some(since);
        since
    }

    /// The container at this place in the spec has ended by itself.
    pub(crate) fn ended(&mut self, index: usize, status: &ContainerStatus) {
        let at = UNIX_EPOCH
            .checked_add(Duration::from_nanos(status.finished_at.try_into().unwrap_or(0)))
            .unwrap_or(UNIX_EPOCH);
        let since = at.duration_since(self.epoch).unwrap_or_default();
        let times = &mut self.containers[index];
        times.ended_milliseconds = Some(u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
        times.exit_code = Some(status.exit_code);
    }

    /// The container at this place in the spec.
    pub(crate) fn container(&mut self, index: usize) -> &mut Times {
        &mut self.containers[index]
    }

    fn since(&self, at: Instant) -> u64 {
        let began = self.began.unwrap_or(at);
        u64::try_from(at.saturating_duration_since(began).as_millis()).unwrap_or(u64::MAX)
    }

    /// The picture, those first that started first.
    pub(crate) fn picture(&self) -> String {
        let latest =
            self.containers.iter().filter_map(|times| times.marks().iter().flatten().max().copied()).max();
        // A little room behind the last event, so that it is seen.
        let total = match self.containers.iter().all(|times| times.ready_milliseconds.is_some()) {
            true => latest.map_or(0, |latest| latest + latest / 10),
            false => self.since(Instant::now()),
        };
        let mut rows: Vec<_> = self
            .containers
            .iter()
            .map(|times| (times.started_milliseconds.unwrap_or(u64::MAX), times.row(total)))
            .collect();
        rows.sort_by_key(|(started, _)| *started);
        let rows: Vec<Row> = rows.into_iter().map(|(_, row)| row).collect();
        timeline::draw(&rows, total, timeline::LINE, "READY", timeline::ascii_only())
    }
}

impl Times {
    fn marks(&self) -> [Option<u64>; 5] {
        [
            self.pull_milliseconds,
            self.pulled_milliseconds,
            self.created_milliseconds,
            self.started_milliseconds,
            self.ready_milliseconds,
        ]
    }

    fn row(&self, total: u64) -> Row {
        let phases = [Phase::Pull, Phase::Wait, Phase::Create, Phase::Start, Phase::Ready];
        let marks = self.marks();
        let spans = phases.into_iter().enumerate().filter_map(|(index, phase)| {
            let from = marks[index]?;
            let to = marks.get(index + 1).copied().flatten().unwrap_or(total);
            let to = self.ended_milliseconds.map_or(to, |ended| to.min(ended));
            (index == 4 || to > from).then_some((from, to.max(from), phase))
        });
        Row {
            name: self.name.clone(),
            priority: self.priority,
            phases: spans.collect(),
            note: match (self.exit_code, self.ready_milliseconds, self.started_milliseconds) {
                (Some(code), ..) => format!("exit {code}"),
                (None, Some(ready), _) => format!("{ready} ms"),
                (None, None, Some(_)) => "not ready".to_owned(),
                (None, None, None) => "not started".to_owned(),
            },
        }
    }
}
