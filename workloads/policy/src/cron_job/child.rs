//! Jobs that an AdvancedCronJob has made, reduced to what is decided by.

use berth_proto::crd::BroadcastJob;
use jiff::Timestamp;
use k8s_openapi::{api::batch::v1::Job, apimachinery::pkg::apis::meta::v1::ObjectMeta};

use super::SCHEDULED_AT;
use crate::{
    action::Target,
    jobs::Kind,
    revision::controller,
    store::{Stored, version},
    time::whole_second,
};

/// Where a job is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChildState {
    /// It goes on.
    #[default]
    Active,
    /// It is over, and done.
    Succeeded,
    /// It is over, and not done.
    Failed,
}

/// A job.
#[derive(Clone, Debug, PartialEq)]
pub struct ChildView {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Which one of that name.
    pub uid: String,
    /// Its version.
    pub version: String,
    /// UID of its owner.
    pub owner: String,
    /// Where it is.
    pub state: ChildState,
    /// Time that it was made for.
    pub scheduled_at: Option<Timestamp>,
    /// When it began.
    pub started: Timestamp,
    /// It is being deleted.
    pub terminating: bool,
}

impl ChildView {
    /// Reads a Job.
    pub fn of_job(job: &Job) -> Self {
        let status = job.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
        let state = state(conditions.map(|one| (one.type_.as_str(), one.status.as_str())));
        let started = status.and_then(|status| status.start_time.as_ref()).map(|time| time.0);
        Self::of(Kind::Job, &job.metadata, state, started)
    }

    /// Reads a BroadcastJob.
    pub fn of_broadcast_job(job: &BroadcastJob) -> Self {
        let status = job.status.as_ref();
        let conditions = status.into_iter().flat_map(|status| &status.conditions);
        let state = state(conditions.map(|one| (one.type_.as_str(), one.status.as_str())));
        let started = status.and_then(|status| status.start_time.as_ref()).map(|time| time.0);
        Self::of(Kind::BroadcastJob, &job.metadata, state, started)
    }

    fn of(kind: Kind, meta: &ObjectMeta, state: ChildState, started: Option<Timestamp>) -> Self {
        let created = meta.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
        let owners = meta.owner_references.as_deref().unwrap_or_default();
        let name = meta.name.clone().unwrap_or_default();
        Self {
            kind,
            namespace: meta.namespace.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            version: meta.resource_version.clone().unwrap_or_default(),
            owner: controller(owners).to_owned(),
            state,
            scheduled_at: scheduled_at(meta, &name),
            started: started.unwrap_or(created),
            terminating: meta.deletion_timestamp.is_some(),
            name,
        }
    }

    /// Names it for a write.
    pub fn target(&self) -> Target {
        Target { name: self.name.clone(), uid: self.uid.clone(), version: self.version.clone() }
    }
}

impl Stored for ChildView {
    fn uid(&self) -> &str {
        &self.uid
    }

    fn version(&self) -> u64 {
        version(&self.version)
    }
}

fn state<'a>(conditions: impl Iterator<Item = (&'a str, &'a str)>) -> ChildState {
    let mut states = conditions.filter_map(|(type_, status)| match (type_, status) {
        ("Complete", "True") => Some(ChildState::Succeeded),
        ("Failed", "True") => Some(ChildState::Failed),
        _ => None,
    });
    states.next().unwrap_or_default()
}

/// Time of a job, as the status can have it: in whole seconds. One whose annotation somebody took away has it
/// in its name.
fn scheduled_at(meta: &ObjectMeta, name: &str) -> Option<Timestamp> {
    let annotation = meta.annotations.as_ref().and_then(|all| all.get(SCHEDULED_AT)?.parse().ok());
    annotation
        .map(whole_second)
        .or_else(|| Timestamp::from_second(name.rsplit_once('-')?.1.parse().ok()?).ok())
}
