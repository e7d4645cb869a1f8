//! Effects of updates: each action of the policy is a question or a write, and its answer goes back as an
//! event.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use berth_policy::{
    ContainerId, Event, ImageEvent, Notice, Origin, PodRef, PodUid, RequestId, StepOutcome,
    in_place_update::{
        Fetched, InstanceQuestion, PodWrite, Stage, UpdateAction, UpdateEvent, UpdateOutcome, UpdatePhase,
        UpdateReport, UpdateRequest, UpdateSource, WriteOutcome,
    },
};
use berth_shim::Gate;
use tokio::task::JoinSet;
use tracing::{info, warn};

use super::{Parts, snapshot, wish_id};
use crate::{
    agent::{fault::Point, metrics::RequestKind},
    base::causes::chain,
    cluster::client::CallError,
    cri::creation_record::CreationRecord,
    trace::Span,
};

/// Time between TERM and KILL of a container whose hook holds the kubelet.
const STOP_WITHIN: Duration = Duration::from_secs(10);
/// Tries of an image after the first, before it is left to the kubelet: that has credentials and mirrors that
/// the agent has not, and its tries show in the pod.
const RETRIES_BEFORE_KUBELET: u32 = 1;

/// Points at which a test may let the agent die before a write, and after it.
fn points(write: &PodWrite) -> (Point, Point) {
    match write {
        PodWrite::Close => (Point::Closing, Point::Closed),
        PodWrite::Open(_) => (Point::Opening, Point::Opened),
        PodWrite::Patch(patch) => match patch.stage {
            None => (Point::Patching, Point::Patched),
            Some(Stage::Start) => (Point::SwapStarting, Point::SwapStarted),
            Some(Stage::Finish) => (Point::SwapFinishing, Point::SwapFinished),
            Some(Stage::GoBack) => (Point::SwapReturning, Point::SwapReturned),
        },
    }
}

fn span(name: &'static str, pod: &PodUid) -> Span {
    let span = Span::own(name);
    span.set("k8s.pod.uid", || pod.as_str());
    span
}

/// The name of its span.
fn named(write: &PodWrite) -> &'static str {
    match write {
        PodWrite::Close => "update: set pod not ready",
        PodWrite::Open(_) => "update: set pod ready",
        PodWrite::Patch(patch) => match patch.stage {
            None => "update: patch pod",
            Some(Stage::Start) => "swap: start",
            Some(Stage::Finish) => "swap: finish",
            Some(Stage::GoBack) => "swap: go back",
        },
    }
}

impl Parts {
    /// Carries an action out; what takes time becomes a task that yields its answer.
    pub(super) fn begin(self: &Arc<Self>, action: UpdateAction, tasks: &mut JoinSet<UpdateEvent>) {
        let this = self.clone();
        match action {
            UpdateAction::Fetch(pod) => {
                let span = span("update: look at pod", &pod.uid);
                drop(tasks.spawn(span.around(this.fetch(pod))));
            }
            UpdateAction::Inspect { pod, instances } => {
                let span = span("update: look at containers", &pod);
                drop(tasks.spawn(span.around(this.inspect(pod, instances))));
            }
            UpdateAction::Clear(pod, exited) => {
                let span = span("update: remove", &pod);
                drop(tasks.spawn(span.around(this.clear(pod, exited))));
            }
            UpdateAction::Stop(pod, held) => {
                let span = span("update: stop", &pod);
                drop(tasks.spawn(span.around(this.stop(pod, held))));
            }
            UpdateAction::Write { pod, version, write } => {
                let span = span(named(&write), &pod.uid);
                drop(tasks.spawn(span.around(this.write(pod, version, write))));
            }
            UpdateAction::Report(request, report) => {
                let span = span("update: report", &request.pod.uid);
                span.set("berth.request", || request.key.as_str());
                drop(tasks.spawn(span.around(this.report(*request, *report))));
            }
            UpdateAction::Ended(request) => self.ended(&request),
            UpdateAction::Delete(request) => {
                let span = span("update: delete request", &request.pod.uid);
                span.set("berth.request", || request.key.as_str());
                drop(tasks.spawn(span.around(this.delete(*request))));
            }
            UpdateAction::Tell(pod, notice) => {
                let span = span("update: Event", &pod.uid);
                drop(tasks.spawn(span.around(this.tell_users(pod, notice))));
            }
            UpdateAction::WantImage { pod, image, leaves_pull } => {
                if let Some(mut wish) = self.wish(wish_id(&pod, &image), &image) {
                    if leaves_pull {
                        wish.retries = RETRIES_BEFORE_KUBELET;
                    }
                    info!(image = %image, "Image is pulled before anything is stopped for it");
                    self.images.apply(ImageEvent::WishSeen(Box::new(wish)));
                }
            }
            UpdateAction::LetImageGo(pod, image) => {
                self.images.apply(ImageEvent::WishGone(wish_id(&pod, &image)));
            }
            UpdateAction::SetEnv(pod, values) => self.agent.set_env(&pod, values),
            UpdateAction::Restart(request) => self.agent.observe(Event::RecreateSeen(request)),
            UpdateAction::DropRestart(request) => self.agent.observe(Event::RecreateGone(request)),
            UpdateAction::AllKnown(restarts) => {
                self.agent.observe(Event::RecreatesListed(Origin::Update, restarts));
                self.ready.send_if_modified(|ready| !std::mem::replace(ready, true));
            }
        }
    }

    async fn fetch(self: Arc<Self>, pod: PodRef) -> UpdateEvent {
        // The name is that of a request, which may be about another pod: the one of this UID would be taken
        // for gone, and all other requests for it would end.
        let pod = self.agent.read(|node, _| node.by_own_name(pod));
        let found = match self.writer.look(&pod).await {
            Ok(Some(found)) => Fetched::Found(Box::new(self.pods.keep(&found))),
            Ok(None) => Fetched::Gone,
            Err(error) => {
                not_taken(&pod.uid, &error);
                Fetched::Failed
            }
        };
        UpdateEvent::Fetched(pod.uid, found)
    }

    /// Asks how these instances were created. One that went meanwhile was created in no way anybody wants.
    async fn inspect(self: Arc<Self>, pod: PodUid, instances: Vec<InstanceQuestion>) -> UpdateEvent {
        let Some(newest) = self.pods.newest(&pod) else { return UpdateEvent::Inspected(pod, None) };
        let containers = || newest.spec.iter().flat_map(|spec| &spec.containers);
        let mut found = Vec::new();
        for InstanceQuestion { container, instance, exited } in instances {
            let Some(container) = containers().find(|known| known.name == container.as_str()) else {
                continue;
            };
            match self.runtime.creation_record(&instance).await {
                Ok(made) => {
                    let made = made.unwrap_or_else(CreationRecord::unknown);
                    found.push((instance, snapshot::creation(container, &made, exited)));
                }
                Err(error) => {
                    warn!(pod.uid = %pod, error = %chain(&error), "Step of an update not taken, trying again");
                    return UpdateEvent::Inspected(pod, None);
                }
            }
        }
        UpdateEvent::Inspected(pod, Some(found.into_iter().collect()))
    }

    async fn clear(self: Arc<Self>, pod: PodUid, exited: BTreeSet<ContainerId>) -> UpdateEvent {
        let failed = self.agent.remove_exited(&self.runtime, exited).await;
        let moment = self.agent.read(|node, _| node.moment());
        UpdateEvent::Cleared { pod, failed, moment }
    }

    /// Stops instances whose hooks hold the kubelet. It runs their preStop hooks itself when theirs end.
    async fn stop(self: Arc<Self>, pod: PodUid, held: BTreeSet<ContainerId>) -> UpdateEvent {
        let mut stopped = true;
        for container in held {
            Point::Unholding.reached();
            match self.runtime.stop_container(&container, STOP_WITHIN).await {
                Ok(()) => {
                    info!(pod.uid = %pod, container.id = %container, "Container stopped, its hook held the kubelet");
                    self.agent.observe(Event::ContainerStopped(container));
                }
                Err(error) => {
                    warn!(pod.uid = %pod, error = %chain(&error), "Step of an update not taken, trying again");
                    stopped = false;
                }
            }
            Point::Unheld.reached();
        }
        UpdateEvent::Stopped(pod, stopped)
    }

    async fn write(self: Arc<Self>, pod: PodRef, version: u64, write: PodWrite) -> UpdateEvent {
        // Another version than the one it was decided on would be refused.
        let Some(newest) = self.pods.newest(&pod.uid).filter(|newest| snapshot::is_version(newest, version))
        else {
            return UpdateEvent::Written(pod.uid, WriteOutcome::Outdated);
        };
        let (about_to, done) = points(&write);
        about_to.reached();
        let written = match &write {
            PodWrite::Close => self.writer.close(&newest).await,
            PodWrite::Open(word) => self.writer.open(&newest, word.as_ref()).await,
            PodWrite::Patch(patch) => self.writer.patch(&newest, patch).await,
        };
        let outcome = match written {
            Ok(written) => {
                tell(&pod, &write);
                self.agent.note(&pod, noted(&write));
                done.reached();
                WriteOutcome::Done(Box::new(self.pods.keep(&written)))
            }
            // Somebody else was faster.
            Err(error) if error.is_conflict() || error.is_gone() => WriteOutcome::Outdated,
            Err(error) => {
                not_taken(&pod.uid, &error);
                refused(&error)
            }
        };
        UpdateEvent::Written(pod.uid, outcome)
    }

    async fn report(self: Arc<Self>, request: UpdateRequest, report: UpdateReport) -> UpdateEvent {
        Point::Telling.reached();
        let outcome = match request.source {
            UpdateSource::Api => self.requests.report(&request.id, &report, &self.updates).await,
            UpdateSource::NodePodUpdate => self.node_pod_update.report(&request, &report).await,
            UpdateSource::Admin => self.admin_requests.report(&request.id, &report, &self.updates).await,
        };
        Point::Told.reached();
        if outcome == StepOutcome::Done {
            self.agent.note(&request.pod, progress(&request.key, &report));
        }
        if let (StepOutcome::Done, Some(outcome)) = (outcome, report.outcome) {
            info!(request = request.key, ?outcome, message = report.message, "Update ended");
            // What its source showed as ended is said once more for another reason.
            if request.reported.outcome.is_none() {
                let complete = outcome == UpdateOutcome::Complete;
                self.agent.metrics().request_ended(RequestKind::Update, complete, age(&request));
            }
        }
        UpdateEvent::Reported(request.id, Box::new(report), outcome)
    }

    /// Counts the good end of a request that was taken away before anybody was told.
    fn ended(&self, request: &UpdateRequest) {
        info!(request = request.key, "Update ended, as its pod shows");
        self.agent.note(&request.pod, format!("update {}: complete", request.key));
        self.agent.metrics().request_ended(RequestKind::Update, true, age(request));
    }

    async fn tell_users(self: Arc<Self>, pod: PodRef, notice: Notice) -> UpdateEvent {
        self.cluster.tell(&pod, &notice).await;
        UpdateEvent::Told
    }

    async fn delete(self: Arc<Self>, request: UpdateRequest) -> UpdateEvent {
        let id: &RequestId = &request.id;
        let outcome = match request.source {
            UpdateSource::Api => self.requests.delete(id).await,
            // The manager takes its entries back itself.
            UpdateSource::NodePodUpdate => StepOutcome::Gone,
            UpdateSource::Admin => self.admin_requests.delete(id, &self.updates).await,
        };
        UpdateEvent::Deleted(request.id, outcome)
    }
}

/// Time since it was made.
fn age(request: &UpdateRequest) -> Duration {
    tokio::time::Instant::now().into_std().saturating_duration_since(request.created)
}

/// Outcome of a write that was not taken.
fn refused(error: &CallError) -> WriteOutcome {
    let refused = |why: &str, for_good| WriteOutcome::Refused { why: why.to_owned(), for_good };
    if let Some(why) = error.refusal() {
        refused(why, true)
    } else if let Some(why) = error.refusal_or_forbidden() {
        refused(why, false)
    } else if let Some(why) = error.hold() {
        WriteOutcome::Held { why: why.to_owned() }
    } else {
        WriteOutcome::Failed
    }
}

fn not_taken(pod: &PodUid, error: &CallError) {
    warn!(pod.uid = %pod, error = %chain(error), "Step of an update not taken, trying again");
}

/// Words for the pod's timeline.
fn noted(write: &PodWrite) -> String {
    match write {
        PodWrite::Close => "the pod is held not Ready for its update".to_owned(),
        PodWrite::Open(_) => "the pod is not held for its update any more".to_owned(),
        PodWrite::Patch(patch) => {
            let images: Vec<String> =
                patch.images.iter().map(|(name, image)| format!("{name} to {image}")).collect();
            match images.as_slice() {
                [] => "the pod was patched for its update".to_owned(),
                images => format!("the pod was patched for its update: {}", images.join(", ")),
            }
        }
    }
}

fn progress(key: &str, report: &UpdateReport) -> String {
    let stands = match (&report.outcome, report.phase) {
        (Some(UpdateOutcome::Complete), _) => "complete".to_owned(),
        (Some(UpdateOutcome::Failed(reason)), _) => format!("failed ({})", reason.name()),
        (None, Some(UpdatePhase::Updating)) => "goes on".to_owned(),
        (None, Some(UpdatePhase::RollingBack)) => "goes back".to_owned(),
        (None, Some(UpdatePhase::Ended)) => "ended".to_owned(),
        (None, Some(UpdatePhase::Pending) | None) => "waits".to_owned(),
    };
    if report.message.is_empty() {
        format!("update {key}: {stands}")
    } else {
        format!("update {key}: {stands}; {}", report.message)
    }
}

fn tell(pod: &PodRef, write: &PodWrite) {
    match write {
        PodWrite::Close => {
            info!(pod = %pod.name, namespace = %pod.namespace, "Pod set not ready for its update");
        }
        PodWrite::Open(_) => {
            info!(pod = %pod.name, namespace = %pod.namespace, "Pod set ready, its update is complete");
        }
        PodWrite::Patch(patch) => info!(
            pod = %pod.name,
            namespace = %pod.namespace,
            revision = patch.record.revision,
            images = ?patch.images,
            stage = ?patch.stage,
            metadata = ?patch.metadata.keys().collect::<Vec<_>>(),
            "Pod patched"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_that_are_not_taken() {
        let refused = |for_good| WriteOutcome::Refused { why: "no".to_owned(), for_good };
        let table = [
            (422, refused(true)),
            (403, refused(false)),
            (429, WriteOutcome::Held { why: "no".to_owned() }),
            (500, WriteOutcome::Failed),
        ];
        for (code, expected) in table {
            let error = CallError::Refused { code, message: "no".to_owned() };
            assert_eq!(super::refused(&error), expected, "{code}");
        }
    }
}
