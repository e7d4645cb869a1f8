//! The writes of a plan, in their order; what was answered goes back to the picture.
//!
//! A write to a pod or a claim that fails leaves that one alone, and so does one that adopts; any other
//! failure ends its part of the plan, and the rest of it is decided anew. An API server that takes no request
//! ends all of the plan. After an answer that did not come, or that says of an error of the API server,
//! nobody knows what there is: the set's objects are read from it before anything else is decided.

mod adopt;
mod create;
mod end;
mod failure;
mod in_place;
mod order;
pub(crate) mod params;
mod patch;
mod predownload;
mod read;
mod revision;
mod run;
mod status;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    sync::Arc,
};

use berth_proto::crd::ImagePullJob;
use berth_workloads_policy::{
    action::{Action, Note, Target},
    clone_set::ClaimView,
    plan::Cause,
    pod::PodView,
    predownload::PullJobView,
    revision::Revision,
    selector::Selector,
};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{apps::v1::ControllerRevision, core::v1::PersistentVolumeClaim},
};
use kube::{
    Api, Client, Resource,
    api::{ObjectMeta, Patch},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

pub(crate) use self::{end::End, failure::Failure};
use crate::{
    events::Events,
    kinds::{Plan, Set},
    metrics::Metrics,
    node_updates::NodeUpdates,
    owned::{Listed, orphans},
    put_off::Late,
    trimmed::TrimmedPod,
    watch::{Claims, Pods, PullJobs, Revisions, Watched},
};

/// Reason of the Event of a write that somebody holds back: a budget, whose name is in its text.
pub(crate) const HELD_BACK: &str = "HeldBack";

/// Words for a write that is done, and says something else.
pub(crate) const CHANGED_BY_CLUSTER: &str =
    "the cluster changes what is written there: see its mutating webhooks and policies";

/// Objects as the API server answered them.
#[derive(Debug)]
pub(crate) enum Wrote {
    Pod(PodView),
    Claim(ClaimView),
    Revision(Revision),
    PullJob(PullJobView),
    Set(Set),
    /// Status of the set that the API server answered otherwise, and the field that differs.
    StatusUnkept(Value, String),
    NodeUpdates(NodeUpdates),
    /// Not the set's any more, or gone: UIDs.
    PodGone(String),
    ClaimGone(String),
    RevisionGone(String),
    PullJobGone(String),
    /// All there is of a set by its selector, read at once.
    Read(Selector, Listed<PodView>, Listed<ClaimView>, Listed<Revision>),
}

/// Report of a plan.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) uid: String,
    pub(crate) wrote: Vec<Wrote>,
    /// UIDs of objects that could not be adopted, and why.
    pub(crate) unadopted: Vec<(String, String)>,
    /// Objects that could not be written, for each part with such.
    pub(crate) put_off: Vec<Late>,
    /// A write may or may not have been made: everything is read again before the next plan.
    pub(crate) unread: bool,
    pub(crate) end: End,
}

/// Writer of plans.
#[derive(Clone)]
pub(crate) struct Writer {
    pub(crate) client: Client,
    pub(crate) metrics: Metrics,
    pub(crate) events: Events,
    /// Places for pages of lists: see [`pages`](crate::lane::pages).
    pub(crate) pages: Arc<Semaphore>,
}

/// One plan that is carried out.
struct Work {
    writer: Writer,
    set: Set,
    namespace: String,
    /// Causes of its writes to pods, by UID.
    causes: BTreeMap<String, Cause>,
    wrote: Vec<Wrote>,
    unadopted: Vec<(String, String)>,
    put_off: Vec<Late>,
    /// Objects of nodes as they are known, for the first write to each.
    node_updates: BTreeMap<String, NodeUpdates>,
    /// Errors of the API server in all parts of the plan.
    errors: usize,
    /// The API server takes no request.
    busy: bool,
    unread: bool,
}

impl Writer {
    /// Carries out a plan; of each part what was `put_off` by an earlier one last. The objects of its nodes
    /// are `known` so.
    pub(crate) async fn carry_out(
        self,
        set: Set,
        mut plan: Plan,
        put_off: &BTreeSet<String>,
        known: BTreeMap<String, NodeUpdates>,
    ) -> Report {
        let causes = std::mem::take(&mut plan.causes);
        let mut work = Work { node_updates: known, ..Work::new(self, set, causes) };
        let end = work.run(plan, put_off).await;
        work.report(end)
    }

    /// Reads all objects of a set, as whoever wrote before may have left them.
    pub(crate) async fn read(self, set: Set) -> Report {
        let orphans = set.adopts().then(|| orphans(set.namespace(), set.name()));
        let mut work = Work::new(self, set, BTreeMap::new());
        let end = match work.read_with(orphans).await {
            End::Done => End::Read,
            end => end,
        };
        work.report(end)
    }
}

impl Work {
    fn new(writer: Writer, set: Set, causes: BTreeMap<String, Cause>) -> Self {
        let namespace = set.namespace().to_owned();
        Self {
            writer,
            set,
            namespace,
            causes,
            wrote: Vec::new(),
            unadopted: Vec::new(),
            put_off: Vec::new(),
            node_updates: BTreeMap::new(),
            errors: 0,
            busy: false,
            unread: false,
        }
    }

    fn report(self, end: End) -> Report {
        let Self { set, wrote, unadopted, put_off, unread, .. } = self;
        Report { uid: set.uid().to_owned(), wrote, unadopted, put_off, unread, end }
    }

    async fn write(&mut self, action: Action) -> End {
        match action {
            Action::CreateRevision(object) => self.make_revision(&object).await,
            Action::RaiseRevision(target, number) => self.raise_revision(target, number).await,
            Action::MarkRevision(target, patch) => self.mark_revision(target, patch).await,
            Action::DeleteRevision(target) => {
                // One that somebody's finalizer holds would be deleted again by each plan.
                let deleted = self.delete::<ControllerRevision>(&target).await.map(|_| None);
                self.settle::<Revisions>(
                    deleted,
                    &target.uid,
                    Wrote::Revision,
                    Wrote::RevisionGone,
                    End::UpdateFailed,
                )
                .await
            }
            Action::PatchPod(target, patch) => self.patch_pod(target, patch).await,
            Action::AdoptPod(target, patch) => {
                self.adopt::<Pods>("pod", target, patch, Wrote::Pod, Wrote::PodGone).await
            }
            Action::AdoptRevision(target, patch) => {
                let (there, gone) = (Wrote::Revision, Wrote::RevisionGone);
                self.adopt::<Revisions>("revision", target, patch, there, gone).await
            }
            Action::PatchPodStatus(target, patch) => self.patch_conditions(target, patch).await,
            Action::DeletePod(target) => {
                let deleted = self.delete::<TrimmedPod>(&target).await;
                let is_update = self.causes.get(&target.uid) == Some(&Cause::Update);
                let failed = if is_update { "FailedUpdatePodReCreate" } else { "FailedDelete" };
                if deleted.is_ok() {
                    let text = format!("succeed to delete pod {}", target.name);
                    self.tell("SuccessfulDelete", text);
                    if is_update {
                        let text = format!("pod {} is updated by a new one", target.name);
                        self.tell("SuccessfulUpdatePodReCreate", text);
                    }
                }
                let (there, gone) = (Wrote::Pod, Wrote::PodGone);
                self.settle_as::<Pods>(failed, deleted, &target.uid, there, gone, End::ScaleFailed).await
            }
            Action::PatchClaim(target, patch) => self.patch_claim(target, patch).await,
            Action::DeleteClaim(target) => {
                let deleted = self.delete::<PersistentVolumeClaim>(&target).await;
                let (there, gone) = (Wrote::Claim, Wrote::ClaimGone);
                let failed = "FailedDelete";
                self.settle_as::<Claims>(failed, deleted, &target.uid, there, gone, End::ScaleFailed).await
            }
            Action::CreatePullJob(job) => self.pull_ahead(job).await,
            Action::DeletePullJob(target) => {
                let deleted = self.delete::<ImagePullJob>(&target).await;
                self.settle::<PullJobs>(
                    deleted,
                    &target.uid,
                    Wrote::PullJob,
                    Wrote::PullJobGone,
                    End::PullFailed,
                )
                .await
            }
            Action::KeepPodsToDelete(names) => self.keep_pods_to_delete(names).await,
            // Made together.
            new @ (Action::CreateClaim(_) | Action::CreatePod(_)) => self.create(vec![new]).await.end,
            // Written together.
            entry @ (Action::UpdateInPlace(_) | Action::ForgetInPlace { .. }) => {
                self.in_place(vec![entry]).await.end
            }
        }
    }

    /// Takes in the answer of a write to an object that was there.
    async fn settle<W: Watched>(
        &mut self,
        answer: Result<Option<W::Object>, Failure>,
        uid: &str,
        there: fn(W::View) -> Wrote,
        gone: fn(String) -> Wrote,
        end: fn(String) -> End,
    ) -> End {
        self.settle_as::<W>("FailedUpdate", answer, uid, there, gone, end).await
    }

    /// The same; `reason`: of the Event of a failure.
    async fn settle_as<W: Watched>(
        &mut self,
        reason: &'static str,
        answer: Result<Option<W::Object>, Failure>,
        uid: &str,
        there: fn(W::View) -> Wrote,
        gone: fn(String) -> Wrote,
        end: fn(String) -> End,
    ) -> End {
        let wrote = match answer {
            Ok(Some(object)) => W::view(object).map_or_else(|| gone(uid.to_owned()), there),
            Ok(None) | Err(Failure::Gone) => gone(uid.to_owned()),
            Err(failure) => return self.failed(failure, reason, end).await,
        };
        self.wrote.push(wrote);
        End::Done
    }

    async fn patch<K>(&self, target: &Target, mut patch: Value) -> Result<Option<K>, Failure>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        patch["metadata"]["uid"] = target.uid.as_str().into();
        patch["metadata"]["resourceVersion"] = target.version.as_str().into();
        let api = Api::<K>::namespaced(self.writer.client.clone(), &self.namespace);
        let (params, patch) = (params::patch(), Patch::Merge(&patch));
        self.writer.ask("patch", api.patch(&target.name, &params, &patch)).await.map(Some)
    }

    /// Conditions are merged by their types.
    async fn patch_status(&self, target: &Target, mut patch: Value) -> Result<Option<TrimmedPod>, Failure> {
        patch["metadata"] = json!({ "uid": target.uid, "resourceVersion": target.version });
        let api = Api::<TrimmedPod>::namespaced(self.writer.client.clone(), &self.namespace);
        let (params, patch) = (params::patch(), Patch::Strategic(&patch));
        self.writer.ask("pod_status", api.patch_status(&target.name, &params, &patch)).await.map(Some)
    }

    /// `None`: gone at once.
    async fn delete<K>(&self, target: &Target) -> Result<Option<K>, Failure>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let api = Api::<K>::namespaced(self.writer.client.clone(), &self.namespace);
        let params = params::delete(&target.uid);
        let answer = self.writer.ask("delete", api.delete(&target.name, &params)).await?;
        Ok(answer.left().filter(|object| stays(object.meta())))
    }

    /// Tells of what was done, in an Event of the set.
    fn tell(&self, reason: &'static str, text: String) {
        self.writer.events.tell(&self.set, Note { warning: false, reason, text });
    }

    /// Tells of what failed.
    fn warn(&self, reason: &'static str, text: String) {
        self.writer.events.tell(&self.set, Note { warning: true, reason, text });
    }
}

/// Tells whether an object that was deleted is there for a while. One that is gone at once is answered by its
/// last state.
pub(crate) fn stays(meta: &ObjectMeta) -> bool {
    let waits = meta.deletion_grace_period_seconds.unwrap_or(0) > 0
        || meta.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty());
    meta.deletion_timestamp.is_some() && waits
}

pub(crate) fn typed<T: DeserializeOwned>(object: Value) -> Result<T, Failure> {
    serde_json::from_value(object).map_err(|error| Failure::Refused(error.to_string()))
}

#[cfg(test)]
mod tests;
