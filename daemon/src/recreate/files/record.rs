//! Record of a file: its status, and what of the file was accepted.
//!
//! The status file is the `status` of a `ContainerRecreateRequest`, with two fields of the object it belongs
//! to: `metadata` (when the file was first seen; its name) and `spec` as it was accepted. With them a restart
//! changes nothing: the file may have been edited meanwhile, the request goes on as it was.

use std::path::Path;

use berth_policy::{
    Assigned, FailureReason, Origin, Outcome, RecreateReport, RecreateRequest, RequestId, RequestPhase,
};
use berth_proto::crd::{
    ContainerRecreateRequest, ContainerRecreateRequestSpec, ContainerRecreateRequestStatus, RecreatePhase,
    StatusContext,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime, Time};
use serde::{Deserialize, Serialize};

use crate::{
    base::{
        clock::Clock,
        status::{bounded, said, whole_second},
        yaml::{self, YamlError},
    },
    recreate::codec::{self, Refused, Shown},
};

/// Condition: False while the file as it is now is not followed.
const ACCEPTED: &str = "Accepted";

/// Message about a file that was changed after its request was accepted.
pub(super) const IMMUTABLE: &str =
    "spec is immutable: make a new file; the request goes on as it was accepted";

/// The identity of the request in a file.
pub(super) fn id(path: &Path) -> RequestId {
    format!("file:{}", path.display()).into()
}

/// Record of a file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Record {
    /// When it was first seen: the creation of the request.
    pub(super) created: Timestamp,
    /// Request as it was accepted, from the moment on that it cannot be changed any more.
    pub(super) accepted: Option<Accepted>,
    /// Status of the request.
    pub(super) status: ContainerRecreateRequestStatus,
}

/// Request of a file, as accepted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Accepted {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) spec: ContainerRecreateRequestSpec,
}

impl Record {
    /// Makes the record of a file that is seen for the first time.
    pub(super) fn new(now: Timestamp) -> Self {
        Self { created: now, accepted: None, status: ContainerRecreateRequestStatus::default() }
    }

    /// Reads a status file.
    pub(super) fn parse(text: &str) -> Result<Self, YamlError> {
        let Wire { status, metadata, spec } = yaml::from_str(text)?;
        let accepted = match (metadata.namespace, metadata.name, spec) {
            (Some(namespace), Some(name), Some(spec)) => Some(Accepted { namespace, name, spec }),
            _ => None,
        };
        Ok(Self { created: metadata.creation_timestamp.0, accepted, status })
    }

    /// Writes a status file.
    pub(super) fn text(&self) -> Result<String, serde_saphyr::ser::Error> {
        let accepted = self.accepted.as_ref();
        let wire = Wire {
            status: self.status.clone(),
            metadata: Metadata {
                creation_timestamp: MicroTime(self.created),
                namespace: accepted.map(|accepted| accepted.namespace.clone()),
                name: accepted.map(|accepted| accepted.name.clone()),
            },
            spec: accepted.map(|accepted| accepted.spec.clone()),
        };
        Ok(format!("# Written by berthd; what is changed here is lost.\n{}", serde_saphyr::to_string(&wire)?))
    }

    /// Tells whether it has a pod, or has ended without one: nothing of what it asks for changes any more.
    pub(super) fn is_accepted(&self) -> bool {
        self.accepted.is_some()
    }

    /// Tells whether it ended; it is not run again.
    pub(super) fn has_ended(&self) -> bool {
        codec::has_ended(&self.status)
    }

    /// The file as it is now is no request.
    pub(super) fn refuse(&mut self, why: &str, now: Timestamp) {
        if !self.is_accepted() {
            self.status.phase = None;
            self.status.message = said(why);
        }
        self.object(Some(("Invalid", why)), now);
    }

    /// The file is a request, and cannot be assigned yet.
    pub(super) fn wait(&mut self, why: &str, now: Timestamp) {
        self.status.phase = Some(RecreatePhase::Pending);
        self.status.message = said(why);
        self.object(None, now);
    }

    /// The request is about these instances, now and for ever.
    pub(super) fn accept(
        &mut self,
        accepted: Accepted,
        assigned: &Assigned,
        contexts: Vec<StatusContext>,
        now: Timestamp,
    ) {
        self.status.phase = None;
        self.status.message = None;
        self.object(None, now);
        self.status.pod_uid = Some(assigned.pod.uid.as_str().to_owned());
        self.status.container_status_contexts = contexts;
        self.accepted = Some(accepted);
    }

    /// Ends it, as nothing was assigned in time.
    pub(super) fn expire(&mut self, accepted: Accepted, now: Timestamp) {
        let why = self.status.message.take().unwrap_or_default();
        self.report(
            &RecreateReport {
                phase: Some(RequestPhase::Completed),
                message: format!("activeDeadlineSeconds are over: {why}"),
                outcome: Some(Outcome::Failed(FailureReason::DeadlineExceeded)),
                ..RecreateReport::default()
            },
            now,
        );
        self.accepted = Some(accepted);
    }

    /// Tells whether the deadline of a request that is not assigned yet is over.
    pub(super) fn is_late(&self, spec: &ContainerRecreateRequestSpec, now: Timestamp) -> bool {
        let age = now.duration_since(self.created);
        spec.active_deadline_seconds.is_some_and(|seconds| age >= SignedDuration::from_secs(seconds))
    }

    /// The file says this now, after it was accepted; whether that is something else.
    pub(super) fn compare(&mut self, said: &Accepted, now: Timestamp) -> bool {
        let changed = self.accepted.as_ref().is_some_and(|accepted| accepted != said);
        self.object(changed.then_some(("SpecChanged", IMMUTABLE)), now);
        changed
    }

    /// The policy says this of the request.
    pub(super) fn report(&mut self, report: &RecreateReport, now: Timestamp) {
        self.status = codec::merged(report, &self.status, now);
    }

    /// The request for the policy; `None` before it was accepted.
    pub(super) fn request(&self, path: &Path, clock: &Clock) -> Option<Result<RecreateRequest, Refused>> {
        let accepted = self.accepted.as_ref()?;
        let shown = Shown {
            id: id(path),
            origin: Origin::File,
            key: accepted.key(),
            created: self.created,
            spec: Ok(&accepted.spec),
            status: &self.status,
        };
        Some(codec::request(shown, clock))
    }

    /// Says why the file as it is now is not followed.
    pub(super) fn objection(&self) -> Option<&str> {
        let mut conditions = self.status.conditions.iter();
        let objection = conditions.find(|found| found.type_ == ACCEPTED && found.status == "False");
        objection.map(|condition| condition.message.as_str())
    }

    /// Says why the file is not followed as it is now, or takes that back.
    fn object(&mut self, why: Option<(&str, &str)>, now: Timestamp) {
        let conditions = &mut self.status.conditions;
        let place = conditions.iter().position(|condition| condition.type_ == ACCEPTED);
        let before = place.map(|place| conditions.remove(place));
        let Some((reason, message)) = why else { return };
        let before = before.filter(|before| before.status == "False");
        let since = before.map_or_else(|| Time(whole_second(now)), |before| before.last_transition_time);
        conditions.push(Condition {
            type_: ACCEPTED.to_owned(),
            status: "False".to_owned(),
            reason: reason.to_owned(),
            message: bounded(message),
            last_transition_time: since,
            observed_generation: None,
        });
    }
}

impl Accepted {
    /// Takes the request of a file; `stem` is its name where it gives none.
    pub(super) fn of(request: &ContainerRecreateRequest, stem: &str) -> Self {
        Self {
            namespace: request.metadata.namespace.clone().unwrap_or_else(|| "default".to_owned()),
            name: request.metadata.name.clone().unwrap_or_else(|| stem.to_owned()),
            spec: request.spec.clone(),
        }
    }

    /// `namespace/name`.
    pub(super) fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// `namespace/name` of the pod.
    pub(super) fn pod(&self) -> String {
        format!("{}/{}", self.namespace, self.spec.pod_name)
    }
}

/// The status file.
#[derive(Serialize, Deserialize)]
struct Wire {
    #[serde(flatten)]
    status: ContainerRecreateRequestStatus,
    metadata: Metadata,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    spec: Option<ContainerRecreateRequestSpec>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    creation_timestamp: MicroTime,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

#[cfg(test)]
mod tests {
    use berth_policy::PodRef;
    use berth_proto::crd::{FailurePolicy, RecreateContainer, RecreateStrategy};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::new(1_800_000_000 + second, 123_456_000).unwrap()
    }

    fn accepted() -> Accepted {
        let container = RecreateContainer { name: "app".into(), ..RecreateContainer::default() };
        Accepted {
            namespace: "shop".into(),
            name: "again".into(),
            spec: ContainerRecreateRequestSpec {
                pod_name: "web".into(),
                containers: vec![container],
                strategy: Some(RecreateStrategy {
                    failure_policy: Some(FailurePolicy::Ignore),
                    ordered_recreate: true,
                    ..RecreateStrategy::default()
                }),
                active_deadline_seconds: Some(60),
                ttl_seconds_after_finished: None,
            },
        }
    }

    fn assigned() -> (Assigned, Vec<StatusContext>) {
        let pod = PodRef { uid: "123e4".into(), namespace: "shop".into(), name: "web".into() };
        let context =
            StatusContext { name: "app".into(), container_id: "containerd://12".into(), restart_count: 3 };
        (Assigned { pod, containers: Vec::new() }, vec![context])
    }

    #[test]
    fn what_is_written_reads_the_same() {
        let mut record = Record::new(at(0));
        let read = |record: &Record| Record::parse(&record.text().unwrap()).unwrap();
        assert_eq!(read(&record), record);
        for nasty in
            ["yes", "1e3", "null", "~", "a: b # c", "- x", "two\nlines\n", " blank ", "\"'", "{", "…"]
        {
            record.wait(nasty, at(1));
            assert_eq!(read(&record), record);
            record.refuse(nasty, at(2));
            assert_eq!(read(&record), record);
        }
        let (pod, contexts) = assigned();
        record.accept(accepted(), &pod, contexts, at(3));
        assert_eq!(read(&record), record);
        let text = record.text().unwrap();
        let plain: ContainerRecreateRequestStatus = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(plain, record.status, "it is a status to those who know no more\n{text}");
        let request = record.request(Path::new("/d/web.yaml"), &Clock::read()).unwrap().unwrap();
        assert_eq!((request.id.as_str(), request.key.as_str()), ("file:/d/web.yaml", "shop/again"));
        assert_eq!(request.containers[0].instance.as_str(), "12");
    }

    #[test]
    fn from_waiting_to_accepted() {
        let mut record = Record::new(at(0));
        record.refuse("spec.podName: is empty", at(1));
        assert_eq!((record.status.phase, record.is_accepted()), (None, false));
        assert!(record.objection().is_some());
        record.wait("pod shop/web is not on this node", at(2));
        assert_eq!(record.status.phase, Some(RecreatePhase::Pending));
        assert!(record.objection().is_none());
        let (pod, contexts) = assigned();
        record.accept(accepted(), &pod, contexts, at(3));
        assert_eq!(record.status.message, None);
        assert_eq!(record.status.pod_uid.as_deref(), Some("123e4"));
    }

    #[test]
    fn a_change_after_that_is_told_and_does_nothing_else() {
        let mut record = Record::new(at(0));
        let (pod, contexts) = assigned();
        record.accept(accepted(), &pod, contexts, at(3));
        let before = record.clone();
        record.compare(&accepted(), at(4));
        assert_eq!(record, before);
        let mut other = accepted();
        other.spec.pod_name = "api".into();
        record.compare(&other, at(5));
        assert!(record.objection().unwrap().starts_with("spec is immutable"));
        assert_eq!(record.accepted, before.accepted);
        record.refuse("no YAML", at(6));
        assert_eq!(record.status.message, None, "what the request says stays");
        record.compare(&accepted(), at(7));
        assert_eq!(record, before);
    }

    #[test]
    fn a_deadline_ends_what_never_had_a_pod() {
        let mut record = Record::new(at(0));
        record.wait("pod shop/web is not on this node", at(0));
        assert!(!record.is_late(&accepted().spec, at(59)));
        assert!(record.is_late(&accepted().spec, at(60)));
        record.expire(accepted(), at(60));
        assert!(record.has_ended() && record.is_accepted());
        let late = Outcome::Failed(FailureReason::DeadlineExceeded);
        assert_eq!(codec::outcome(&record.status), Some(late));
        let message = record.status.message.unwrap();
        assert_eq!(message, "activeDeadlineSeconds are over: pod shop/web is not on this node");
    }

    #[test]
    fn an_objection_comes_and_goes_beside_the_rest() {
        let (pod, contexts) = assigned();
        let mut record = Record::new(at(0));
        record.accept(accepted(), &pod, contexts, at(0));
        let begun = RecreateReport {
            phase: Some(RequestPhase::Recreating),
            unready: true,
            ..RecreateReport::default()
        };
        record.report(&begun, at(1));
        let plain = record.clone();
        record.object(Some(("SpecChanged", "no")), at(1));
        record.object(Some(("SpecChanged", "no, really")), at(2));
        let said = record.status.conditions.iter().find(|condition| condition.type_ == ACCEPTED).unwrap();
        assert_eq!(said.last_transition_time, Time(whole_second(at(1))));
        assert_eq!(record.objection(), Some("no, really"));
        record.report(&begun, at(3));
        assert!(record.objection().is_some(), "a report leaves it");
        assert_eq!(record.status.pod_uid.as_deref(), Some("123e4"), "and the assignment");
        record.object(None, at(4));
        assert_eq!(record, plain);
    }
}
