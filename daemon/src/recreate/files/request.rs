//! A request as the policy takes it, made of what is written down of its file.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use berth_policy::{
    Origin, RecreateRequest, RecreateStrategy, RecreateTarget, RequestId,
    time::{later, seconds},
};
use berth_proto::crd::{FailurePolicy, RecreateStrategy as Strategy};
use jiff::Timestamp;

use super::{record::Record, status};

/// The same moment on both clocks: files speak of days, the policy of durations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// The policy's clock.
    pub(super) now: Instant,
    /// The clock on the wall.
    pub(super) wall: Timestamp,
}

impl Clock {
    /// A moment on the policy's clock, which begins when the node does: what was before is then.
    fn instant(self, at: Timestamp) -> Option<Instant> {
        let away = at.duration_since(self.wall);
        let distance =
            Duration::from_nanos(u64::try_from(away.as_nanos().unsigned_abs()).unwrap_or(u64::MAX));
        if away.is_negative() {
            let mut distance = distance;
            loop {
                match self.now.checked_sub(distance) {
                    Some(then) => return Some(then),
                    None => distance /= 2,
                }
            }
        }
        self.now.checked_add(distance)
    }
}

/// The identity of the request in a file.
pub(super) fn id(path: &Path) -> RequestId {
    format!("file:{}", path.display()).into()
}

/// The request in a file; `None` before it was accepted.
pub(super) fn of(path: &Path, record: &Record, clock: Clock) -> Option<RecreateRequest> {
    let accepted = record.accepted.as_ref()?;
    let spec = &accepted.spec;
    let created = clock.instant(record.created).unwrap_or(clock.now);
    let deadline = spec.active_deadline_seconds.map(|limit| later(created, seconds(limit)));
    let targets =
        record.instances().map(|(name, instance)| RecreateTarget { name, instance: instance.into() });
    Some(RecreateRequest {
        id: id(path),
        origin: Origin::File,
        key: accepted.key(),
        created,
        pod: record.status.pod_uid.as_deref().unwrap_or_default().into(),
        containers: targets.collect(),
        strategy: strategy(&spec.strategy.clone().unwrap_or_default()),
        deadline,
        delete_after: spec.ttl_seconds_after_finished.map(seconds),
        reported: status::read(&record.status),
        ended: record.status.completion_time.as_ref().and_then(|ended| clock.instant(ended.0)),
        unready_since: status::unready_since(&record.status).and_then(|since| clock.instant(since)),
    })
}

fn strategy(strategy: &Strategy) -> RecreateStrategy {
    RecreateStrategy {
        ignore_failures: strategy.failure_policy == Some(FailurePolicy::Ignore),
        ordered: strategy.ordered_recreate,
        force: strategy.force_recreate,
        grace: strategy.termination_grace_period_seconds.map(seconds),
        unready_grace: strategy.unready_grace_period_seconds.map(seconds),
        min_started: seconds(strategy.min_started_seconds.unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use berth_policy::{Assigned, Outcome, PodRef, RecreateReport, RequestPhase, time::LONGEST};
    use berth_proto::crd::{ContainerRecreateRequestSpec, RecreateContainer, StatusContext};

    use super::{super::record::Accepted, *};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn record() -> Record {
        let mut record = Record::new(at(0));
        let spec = ContainerRecreateRequestSpec {
            pod_name: "web".into(),
            containers: vec![RecreateContainer { name: "app".into(), ..RecreateContainer::default() }],
            strategy: Some(Strategy {
                failure_policy: Some(FailurePolicy::Ignore),
                force_recreate: true,
                termination_grace_period_seconds: Some(7),
                min_started_seconds: Some(2),
                ..Strategy::default()
            }),
            active_deadline_seconds: Some(30),
            ttl_seconds_after_finished: Some(60),
        };
        let pod = PodRef { uid: "u-1".into(), namespace: "shop".into(), name: "web".into() };
        let context =
            StatusContext { name: "app".into(), container_id: "containerd://c1".into(), restart_count: 0 };
        let accepted = Accepted { namespace: "shop".into(), name: "again".into(), spec };
        record.accept(accepted, &Assigned { pod, containers: Vec::new() }, vec![context], at(1));
        record
    }

    #[test]
    fn every_field_reaches_the_policy() {
        let now = Instant::now();
        let request = of(Path::new("/d/web.yaml"), &record(), Clock { now, wall: at(0) }).unwrap();
        let expected = RecreateRequest {
            id: "file:/d/web.yaml".into(),
            origin: Origin::File,
            key: "shop/again".into(),
            created: now,
            pod: "u-1".into(),
            containers: vec![RecreateTarget { name: "app".into(), instance: "c1".into() }],
            strategy: RecreateStrategy {
                ignore_failures: true,
                ordered: false,
                force: true,
                grace: Some(Duration::from_secs(7)),
                unready_grace: None,
                min_started: Duration::from_secs(2),
            },
            deadline: Some(now + Duration::from_secs(30)),
            delete_after: Some(Duration::from_secs(60)),
            reported: RecreateReport::default(),
            ended: None,
            unready_since: None,
        };
        assert_eq!(request, expected);
        assert_eq!(of(Path::new("/d/web.yaml"), &Record::new(at(0)), Clock { now, wall: at(0) }), None);
    }

    #[test]
    fn after_a_restart_the_deadline_and_the_end_are_where_they_were() {
        let now = Instant::now();
        let mut record = record();
        let begun = RecreateReport {
            phase: Some(RequestPhase::Recreating),
            unready: true,
            ..RecreateReport::default()
        };
        record.status = status::written(&record.status, &begun, at(1));
        let later = of(Path::new("/d/web.yaml"), &record, Clock { now, wall: at(2) }).unwrap();
        assert_eq!(later.created, now - Duration::from_secs(2));
        assert_eq!(later.deadline, Some(now + Duration::from_secs(28)));
        assert_eq!((later.reported, later.ended), (begun, None));
        assert_eq!(later.unready_since, Some(now - Duration::from_secs(1)));

        let done = RecreateReport {
            phase: Some(RequestPhase::Completed),
            outcome: Some(Outcome::Complete),
            ..RecreateReport::default()
        };
        record.status = status::written(&record.status, &done, at(1));
        let ended = of(Path::new("/d/web.yaml"), &record, Clock { now, wall: at(2) }).unwrap();
        assert_eq!(ended.ended, Some(now - Duration::from_secs(1)));
    }

    #[test]
    fn times_beyond_the_clock_are_no_panic() {
        let clock = Clock { now: Instant::now(), wall: at(0) };
        assert!(clock.instant(Timestamp::MIN).unwrap() < clock.now);
        assert!(clock.instant(at(-100_000_000_000 / 100)).unwrap() <= clock.now);
        assert!(clock.instant(Timestamp::MAX).is_none_or(|then| then > clock.now));
        let mut record = record();
        record.accepted.as_mut().unwrap().spec.active_deadline_seconds = Some(i64::MAX);
        assert_eq!(of(Path::new("/d"), &record, clock).unwrap().deadline, Some(later(clock.now, LONGEST)));
    }
}
