//! The writes of a plan of jobs, in their order; what was answered goes back to the picture.
//!
//! An object that the API server refuses to make or to delete, or has an error of its own for, holds none of
//! the others up: it may be the one of a node that nobody may use, and it comes last in the next plan. Any
//! other failure ends the plan: the rest is decided anew. A name follows from what an object is for, so one
//! that is taken is read: it is the object that was to be made, or somebody else's, and then that is told.

use std::fmt::Debug;

use berth_proto::crd::BroadcastJob;
use berth_workloads_policy::{
    action::Target,
    broadcast_job::{self, PodView},
    cron_job::ChildView,
    jobs::{Action, Kind as Made},
};
use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::{
    NamespaceResourceScope,
    api::{batch::v1::Job, core::v1::Pod},
};
use kube::{
    Api, Resource, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, PropagationPolicy},
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tracing::debug;

use super::{
    failed,
    failures::{Failures, errors_of},
    object::{AnyJob, Filed, Kind},
    picture::Jobs,
    watches,
};
use crate::{
    object::Object,
    planner::{End, MOST_ERRORS, Plan, Work},
    trimmed::{TrimmedJob, TrimmedPod},
    write::{Failure, params, stays, typed},
};

/// The most objects that are made at once for one job.
const MOST_AT_ONCE: usize = 32;
/// Refusals of one plan after which the rest is not asked for: a quota that is used up refuses all, and a
/// policy may.
pub(super) const MOST_REFUSED: usize = 16;

/// Objects as the API server answered them.
#[derive(Debug)]
pub(super) enum Wrote {
    Pod(PodView),
    Job(ChildView),
    Object(Box<Filed>),
    /// Not the job's any more, or gone: UIDs.
    PodGone(String),
    JobGone(String),
    ObjectGone(String),
    /// All pods of a BroadcastJob, read at once.
    Pods(Vec<PodView>),
    /// All Jobs and BroadcastJobs of an AdvancedCronJob, read at once.
    Jobs(Vec<ChildView>, Vec<Filed>),
}

impl Work<Jobs> {
    pub(super) async fn run(&mut self, plan: Plan<Action>) -> End {
        let (first, last) = if plan.status_first { (plan.status, None) } else { (None, plan.status) };
        if let Some(status) = first
            && let Err(end) = self.status(status).await
        {
            return end;
        }
        let mut last = last;
        let mut failed = Failures::default();
        let mut actions = plan.actions.into_iter().peekable();
        while let Some(action) = actions.next() {
            if failed.leave_out(&action) {
                continue;
            }
            let is_past = matches!(action, Action::Forget(..));
            let done = match action {
                Action::Create(kind, object) => {
                    let mut new = vec![(kind, object)];
                    while let Some(Action::Create(kind, object)) =
                        actions.next_if(|one| matches!(one, Action::Create(..)))
                    {
                        new.push((kind, object));
                    }
                    self.create(new).await
                }
                Action::Delete(kind, target) | Action::Forget(kind, target) => {
                    match self.delete(kind, &target).await {
                        Ok(()) => Ok(()),
                        Err(failure) => {
                            failed.count(&failure);
                            if kind == Made::Pod {
                                self.put_off.push(target.uid);
                            }
                            Err(self.failed(failure, "FailedDelete", None))
                        }
                    }
                }
            };
            match done {
                Ok(()) => {}
                Err(end @ (End::Failed { .. } | End::Held { .. })) => {
                    failed.blocks |= !is_past;
                    failed.take(end);
                }
                Err(end) => return end,
            }
        }
        if let Some(end) = failed.end() {
            match (&end, last.take()) {
                (End::Failed { text, .. }, status) => self.say(status, text).await,
                // What is held back for long keeps no count from being told.
                (_, Some(status)) => drop(self.status(status).await),
                (_, None) => {}
            }
            return end;
        }
        match last {
            Some(status) => self.status(status).await.err().unwrap_or(End::Done),
            None => End::Done,
        }
    }

    /// Says in the status that the plan was not carried out. What fails now goes on counting.
    async fn say(&mut self, status: Option<Value>, text: &str) {
        let before = self.object.status();
        let status = failed::told(status.unwrap_or_else(|| before.clone()), &before, text, Timestamp::now());
        if status != before && self.status(status).await.is_err() {
            debug!(object = self.object.title(), "Failure not told in the status");
        }
    }

    /// Writes the status.
    async fn status(&mut self, status: Value) -> Result<(), End> {
        let kind = self.object.kind();
        match self.patch_status("job_status", &kind.resource(), &self.object.status(), status).await {
            Ok(object) => self.take_object(kind, object),
            Err(failure) => Err(self.failed(failure, "FailedUpdate", None)),
        }
    }

    /// Takes in the object itself, as it was answered.
    fn take_object(&mut self, kind: Kind, object: DynamicObject) -> Result<(), End> {
        let filed = kind.read(object).map_err(End::failed)?;
        self.object = filed.object.clone();
        self.wrote.push(Wrote::Object(Box::new(filed)));
        Ok(())
    }

    /// Makes objects: first one, then twice as many each time until one is refused, so that a quota that is
    /// used up is not asked for a thousand. What could not be made comes last in the next plan.
    async fn create(&mut self, new: Vec<(Made, Value)>) -> Result<(), End> {
        let (mut new, mut at_once) = (new.into_iter(), 1);
        let (mut first_refused, mut refusals, mut errors) = (None, 0_usize, 0_usize);
        loop {
            let batch: Vec<_> = new.by_ref().take(at_once).collect();
            if batch.is_empty() || refusals >= MOST_REFUSED || errors >= MOST_ERRORS {
                return first_refused.map_or(Ok(()), Err);
            }
            let made = join_all(batch.iter().map(|(kind, object)| self.make(*kind, object))).await;
            let (mut end, before) = (None, refusals);
            for ((kind, object), made) in batch.iter().zip(made) {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                match made {
                    Ok((wrote, is_new)) => {
                        if is_new {
                            let kind = kind.name().to_lowercase();
                            self.tell("SuccessfulCreate", format!("created {kind} {name}"));
                        }
                        self.made = true;
                        self.wrote.push(wrote);
                    }
                    Err(failure) => {
                        errors = errors.saturating_add(errors_of(&failure));
                        // An admission webhook may fail on this one alone.
                        if matches!(
                            failure,
                            Failure::Refused(_) | Failure::ServerError(_) | Failure::Unknown(_)
                        ) {
                            self.put_off.push(name.to_owned());
                        }
                        match self.failed(failure, "FailedCreate", Some(name)) {
                            refused @ End::Failed { .. } => {
                                refusals = refusals.saturating_add(1);
                                first_refused.get_or_insert(refused);
                            }
                            failed => drop(end.get_or_insert(failed)),
                        }
                    }
                }
            }
            if let Some(end) = end {
                let is_pause = matches!(end, End::Held { .. });
                return Err(first_refused.filter(|_| is_pause).unwrap_or(end));
            }
            at_once = if refusals > before { 1 } else { at_once.saturating_mul(2).min(MOST_AT_ONCE) };
        }
    }

    /// Makes an object as it is given, a field that no type knows with it; tells whether it was not there.
    async fn make(&self, kind: Made, object: &Value) -> Result<(Wrote, bool), Failure> {
        let resource = match kind {
            Made::Pod => ApiResource::erase::<Pod>(&()),
            Made::Job => ApiResource::erase::<Job>(&()),
            Made::BroadcastJob => ApiResource::erase::<BroadcastJob>(&()),
        };
        let api = self.objects(&resource);
        let object: DynamicObject = typed(object.clone())?;
        let (made, is_new) = match self.writer.ask("create", api.create(&params::post(), &object)).await {
            Err(Failure::Taken) => {
                let name = object.name_any();
                let there = self.writer.fetch("read", api.get(&name)).await?;
                if !self.owns(&there.metadata) {
                    let text = format!("{} {name} is there already, and of another owner", kind.name());
                    return Err(Failure::Refused(format!("{text}: delete or rename it")));
                }
                (there, false)
            }
            made => (made?, true),
        };
        let unknown = |error: String| Failure::Unknown(error);
        let typed = |error: kube::core::dynamic::ParseDynamicObjectError| unknown(error.to_string());
        let wrote = match kind {
            Made::Pod => Wrote::Pod(PodView::of(&made.try_parse::<Pod>().map_err(typed)?)),
            Made::Job => Wrote::Job(ChildView::of_job(&made.try_parse::<Job>().map_err(typed)?)),
            Made::BroadcastJob => Wrote::Object(Box::new(Kind::Broadcast.read(made).map_err(unknown)?)),
        };
        Ok((wrote, is_new))
    }

    async fn delete(&mut self, kind: Made, target: &Target) -> Result<(), Failure> {
        let gone = match kind {
            Made::Pod => Wrote::PodGone(target.uid.clone()),
            Made::Job => Wrote::JobGone(target.uid.clone()),
            Made::BroadcastJob => Wrote::ObjectGone(target.uid.clone()),
        };
        let deleted = match kind {
            Made::Pod => self.end::<Pod>(target).await.map(|one| one.and_then(watches::pod).map(Wrote::Pod)),
            Made::Job => self.end::<Job>(target).await.map(|one| one.and_then(watches::job).map(Wrote::Job)),
            Made::BroadcastJob => self
                .end::<BroadcastJob>(target)
                .await
                .map(|one| one.map(|job| Wrote::Object(Box::new(Filed::new(AnyJob::Broadcast(job.into())))))),
        };
        match deleted {
            Ok(there) => {
                let text = format!("deleted {} {}", kind.name().to_lowercase(), target.name);
                self.tell("SuccessfulDelete", text);
                self.wrote.push(there.unwrap_or(gone));
                Ok(())
            }
            Err(Failure::Gone) => {
                self.wrote.push(gone);
                Ok(())
            }
            Err(failure) => Err(failure),
        }
    }

    /// Deletes an object, and what it owns in the background. `None`: gone at once.
    async fn end<K>(&self, target: &Target) -> Result<Option<K>, Failure>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let propagation_policy = Some(PropagationPolicy::Background);
        let params = DeleteParams { propagation_policy, ..params::delete(&target.uid) };
        let api = Api::<K>::namespaced(self.writer.client.clone(), self.object.namespace());
        let answer = self.writer.ask("delete", api.delete(&target.name, &params)).await?;
        Ok(answer.left().filter(|object| stays(object.meta())))
    }

    /// Reads the object and all that it has made.
    pub(super) async fn read(&mut self) -> Result<(), Failure> {
        let kind = self.object.kind();
        let (namespace, uid) = (self.object.namespace().to_owned(), self.object.uid().to_owned());
        let client = self.writer.client.clone();
        match kind {
            Kind::Broadcast => {
                let label = format!("{}={uid}", broadcast_job::UID_LABEL);
                let api = Api::<TrimmedPod>::namespaced(client, &namespace);
                let own = |pod| watches::trimmed_pod(pod).filter(|pod| pod.owner == uid);
                let pods = self.writer.list(&api, &label, own).await?;
                self.wrote.push(Wrote::Pods(pods.objects));
            }
            Kind::Cron => {
                let api = Api::<TrimmedJob>::namespaced(client, &namespace);
                let own = |job| watches::job(job).filter(|job| job.owner == uid);
                let jobs = self.writer.list(&api, "", own).await?;
                let api = self.sent(&Kind::Broadcast.resource());
                let own = |job: DynamicObject| {
                    if self.owns(&job.metadata) { Kind::Broadcast.read(job).ok() } else { None }
                };
                let broadcasts = self.writer.list(&api, "", own).await?;
                self.wrote.push(Wrote::Jobs(jobs.objects, broadcasts.objects));
            }
        }
        let api = self.objects(&kind.resource());
        let object = self.writer.fetch("read", api.get(self.object.name())).await?;
        if object.metadata.uid.as_deref() != Some(uid.as_str()) {
            self.wrote.push(Wrote::ObjectGone(uid));
            return Err(Failure::Gone);
        }
        let filed = kind.read(object).map_err(Failure::Refused)?;
        self.wrote.push(Wrote::Object(Box::new(filed)));
        Ok(())
    }

    /// Consequence of a failure; with the name of an object that was to be made.
    fn failed(&mut self, failure: Failure, reason: &'static str, name: Option<&str>) -> End {
        let text = failure.text();
        match failure {
            Failure::Changed | Failure::Gone => End::Changed,
            Failure::Taken => End::Unknown(text),
            Failure::Held(_) => End::Held { text, refused: name.map(str::to_owned) },
            Failure::Busy(_) => End::failed(text),
            Failure::Refused(_) => {
                self.warn(reason, text.clone());
                End::Failed { text, refused: name.map(str::to_owned) }
            }
            // It may be there all the same.
            Failure::ServerError(_) | Failure::Unknown(_) => {
                self.unread = true;
                self.warn(reason, text.clone());
                End::failed(text)
            }
        }
    }
}
