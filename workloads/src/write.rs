//! The writes of a plan, in their order; what was answered goes back to the picture.
//!
//! The first failure ends the plan: the rest is decided anew. New pods are made several at once, first one,
//! then twice as many each time, so that a quota that is used up is not asked for a thousand pods. After an
//! answer that did not come nobody knows what there is: the set's objects are read from the API server before
//! anything else is decided.

use std::{fmt::Debug, sync::Arc, time::Duration};

use berth_base::telemetry::chain;
use berth_proto::crd::{CloneSet, NodePodUpdate};
use berth_workloads_policy::{
    action::{Action, InPlaceUpdate, Note, Target},
    clone_set::{ClaimView, Plan},
    pod::PodView,
    revision::Revision,
    selector::Selector,
};
use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::ControllerRevision,
        core::v1::{PersistentVolumeClaim, Pod},
    },
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{
        ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions,
    },
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    events::Events,
    mailbox::{self, Mailbox},
    metrics::Metrics,
    watch::{Claims, Pods, Revisions, Watched},
};

/// The owner of what is written, as `managedFields` shows it.
pub(crate) const FIELD_MANAGER: &str = "berth-workloads";
/// A write without an answer has an unknown end after it.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// How often a change of the entries of a node is tried on its newest version.
const MAILBOX_TRIES: usize = 5;
/// The most pods that are made at once for one set.
const MOST_AT_ONCE: usize = 32;

/// Objects as the API server answered them.
#[derive(Debug)]
pub(crate) enum Wrote {
    Pod(PodView),
    Claim(ClaimView),
    Revision(Revision),
    Set(Box<CloneSet>),
    Mailbox(Mailbox),
    /// Not the set's any more, or gone: UIDs.
    PodGone(String),
    ClaimGone(String),
    RevisionGone(String),
    /// All there is of a set by its selector, read at once.
    Read(Selector, Vec<PodView>, Vec<ClaimView>, Vec<Revision>),
}

/// End of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    /// Something has changed since; decided anew at once.
    Changed,
    /// A revision's name is taken by another one.
    NameTaken,
    /// A pod or claim could not be made or deleted.
    ScaleFailed(String),
    /// Anything else could not be written.
    UpdateFailed(String),
}

/// Report of a plan.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) uid: String,
    pub(crate) wrote: Vec<Wrote>,
    pub(crate) end: End,
}

/// Writer of plans.
#[derive(Clone)]
pub(crate) struct Writer {
    pub(crate) client: Client,
    pub(crate) metrics: Metrics,
    pub(crate) events: Events,
}

/// One plan that is carried out.
struct Work {
    writer: Writer,
    set: Arc<CloneSet>,
    namespace: String,
    wrote: Vec<Wrote>,
}

/// Why a write was not done.
enum Failure {
    Changed,
    Gone,
    Taken,
    Unknown(String),
    Refused(String),
}

impl Writer {
    /// Carries out a plan.
    pub(crate) async fn carry_out(self, set: Arc<CloneSet>, plan: Plan) -> Report {
        let namespace = set.metadata.namespace.clone().unwrap_or_default();
        let uid = set.metadata.uid.clone().unwrap_or_default();
        let mut work = Work { writer: self, set, namespace, wrote: Vec::new() };
        let end = work.run(plan).await;
        Report { uid, wrote: work.wrote, end }
    }

    /// Reads all objects of a set, as whoever wrote before may have left them.
    pub(crate) async fn read(self, set: Arc<CloneSet>) -> Report {
        let namespace = set.metadata.namespace.clone().unwrap_or_default();
        let uid = set.metadata.uid.clone().unwrap_or_default();
        let mut work = Work { writer: self, set, namespace, wrote: Vec::new() };
        let end = work.read().await;
        Report { uid, wrote: work.wrote, end }
    }
}

impl Work {
    async fn run(&mut self, plan: Plan) -> End {
        let mut actions = plan.actions.into_iter().peekable();
        while let Some(action) = actions.next() {
            let end = if is_new(&action) {
                let mut new = vec![action];
                while let Some(action) = actions.next_if(is_new) {
                    new.push(action);
                }
                self.create(new).await
            } else {
                self.write(action).await
            };
            if end != End::Done {
                return end;
            }
        }
        match plan.status {
            Some(status) => self.status(json!(status)).await,
            None => End::Done,
        }
    }

    /// Makes pods, each after its claims.
    async fn create(&mut self, actions: Vec<Action>) -> End {
        let mut units: Vec<Vec<Action>> = Vec::new();
        let mut unit = Vec::new();
        for action in actions {
            let is_pod = matches!(action, Action::CreatePod(_));
            unit.push(action);
            if is_pod {
                units.push(std::mem::take(&mut unit));
            }
        }
        if !unit.is_empty() {
            units.push(unit);
        }
        let (mut units, mut at_once) = (units.into_iter(), 1);
        loop {
            let batch: Vec<_> = units.by_ref().take(at_once).collect();
            if batch.is_empty() {
                return End::Done;
            }
            let done =
                join_all(batch.into_iter().map(|unit| make(&self.writer, &self.namespace, unit))).await;
            let mut end = End::Done;
            for (wrote, failure) in done {
                for wrote in wrote {
                    if let Wrote::Pod(pod) = &wrote {
                        self.tell(false, "SuccessfulCreate", format!("succeed to create pod {}", pod.name));
                    }
                    self.wrote.push(wrote);
                }
                if let Some(failure) = failure {
                    let failed = self.failed(failure, "FailedCreate", End::ScaleFailed).await;
                    if end == End::Done {
                        end = failed;
                    }
                }
            }
            if end != End::Done {
                return end;
            }
            at_once = at_once.saturating_mul(2).min(MOST_AT_ONCE);
        }
    }

    async fn write(&mut self, action: Action) -> End {
        match action {
            Action::CreateRevision(object) => {
                let object = typed::<ControllerRevision>(object);
                let made = match object {
                    Ok(object) => self.writer.create::<ControllerRevision>(&self.namespace, &object).await,
                    Err(failure) => Err(failure),
                };
                match made {
                    Ok(object) => self.wrote.extend(Revision::of(&object).map(Wrote::Revision)),
                    Err(Failure::Taken) => return self.name_taken().await,
                    Err(failure) => return self.failed(failure, "FailedUpdate", End::UpdateFailed).await,
                }
                End::Done
            }
            Action::RaiseRevision(target, number) => {
                let patch = json!({ "revision": number });
                let written = self.patch::<ControllerRevision>(&target, patch).await;
                self.settle::<Revisions>(
                    written,
                    &target.uid,
                    Wrote::Revision,
                    Wrote::RevisionGone,
                    End::UpdateFailed,
                )
                .await
            }
            Action::DeleteRevision(target) => {
                let deleted = self.delete::<ControllerRevision>(&target).await;
                self.settle::<Revisions>(
                    deleted,
                    &target.uid,
                    Wrote::Revision,
                    Wrote::RevisionGone,
                    End::UpdateFailed,
                )
                .await
            }
            Action::PatchPod(target, patch) => {
                let written = self.patch::<Pod>(&target, patch).await;
                self.settle::<Pods>(written, &target.uid, Wrote::Pod, Wrote::PodGone, End::UpdateFailed).await
            }
            Action::DeletePod(target) => {
                let deleted = self.delete::<Pod>(&target).await;
                if deleted.is_ok() {
                    let text = format!("succeed to delete pod {}", target.name);
                    self.tell(false, "SuccessfulDelete", text);
                }
                self.settle::<Pods>(deleted, &target.uid, Wrote::Pod, Wrote::PodGone, End::ScaleFailed).await
            }
            Action::PatchClaim(target, patch) => {
                let written = self.patch::<PersistentVolumeClaim>(&target, patch).await;
                self.settle::<Claims>(written, &target.uid, Wrote::Claim, Wrote::ClaimGone, End::ScaleFailed)
                    .await
            }
            Action::DeleteClaim(target) => {
                let deleted = self.delete::<PersistentVolumeClaim>(&target).await;
                self.settle::<Claims>(deleted, &target.uid, Wrote::Claim, Wrote::ClaimGone, End::ScaleFailed)
                    .await
            }
            Action::KeepPodsToDelete(names) => self.keep_pods_to_delete(names).await,
            // Made together.
            new @ (Action::CreateClaim(_) | Action::CreatePod(_)) => self.create(vec![new]).await,
            Action::UpdateInPlace(update) => self.update_in_place(&update).await,
            Action::ForgetInPlace { node, uid } => {
                let set = self.set.name_any();
                self.mailbox(&node, |mailbox| mailbox.without(&uid, &set)).await
            }
        }
    }

    async fn update_in_place(&mut self, update: &InPlaceUpdate) -> End {
        let (namespace, name, uid) = (self.namespace.clone(), self.set.name_any(), self.set.uid());
        let set = (namespace.as_str(), name.as_str(), uid.as_deref().unwrap_or_default());
        let entry = mailbox::entry(update, set, Timestamp::now());
        let end = self.mailbox(&update.node, |mailbox| mailbox.with(&entry)).await;
        if end == End::Done {
            let text = format!("update pod {} in place (revision {})", update.name, update.revision);
            self.tell(false, "SuccessfulUpdatePodInPlace", text);
        }
        end
    }

    /// Changes the entries of a node, on its object as it is now. `None`: nothing is to be changed.
    async fn mailbox(&mut self, node: &str, change: impl Fn(&Mailbox) -> Option<Value>) -> End {
        let api = Api::<NodePodUpdate>::all(self.writer.client.clone());
        let params = PatchParams::apply(FIELD_MANAGER).force();
        for _ in 0..MAILBOX_TRIES {
            let mailbox = match self.writer.ask("nodepodupdate_read", api.get(node)).await {
                Ok(object) => Mailbox::of(object),
                Err(failure) => {
                    return self.failed(failure, "FailedUpdatePodInPlace", End::UpdateFailed).await;
                }
            };
            let Some(body) = change(&mailbox) else {
                self.wrote.push(Wrote::Mailbox(mailbox));
                return End::Done;
            };
            let body = Patch::Apply(&body);
            match self.writer.ask("nodepodupdate", api.patch_status(node, &params, &body)).await {
                Ok(object) => {
                    self.wrote.push(Wrote::Mailbox(Mailbox::of(object)));
                    return End::Done;
                }
                // Its agent or another set was faster.
                Err(Failure::Changed) => {}
                Err(failure) => {
                    return self.failed(failure, "FailedUpdatePodInPlace", End::UpdateFailed).await;
                }
            }
        }
        End::Changed
    }

    async fn keep_pods_to_delete(&mut self, names: Vec<String>) -> End {
        let meta = &self.set.metadata;
        let patch = json!({
            "metadata": { "uid": meta.uid, "resourceVersion": meta.resource_version },
            "spec": { "scaleStrategy": { "podsToDelete": names } },
        });
        let api = Api::<CloneSet>::namespaced(self.writer.client.clone(), &self.namespace);
        let (name, params) = (self.set.name_any(), params());
        let patch = Patch::Merge(&patch);
        let written = self.writer.ask("cloneset", api.patch(&name, &params, &patch)).await;
        self.settle_set(written).await
    }

    async fn status(&mut self, status: Value) -> End {
        // What is not in it any more is taken out.
        let mut status = status;
        for field in ["conditions", "collisionCount"] {
            if status.get(field).is_none() {
                status[field] = Value::Null;
            }
        }
        let patch = json!({ "metadata": { "uid": self.set.metadata.uid }, "status": status });
        let api = Api::<CloneSet>::namespaced(self.writer.client.clone(), &self.namespace);
        let (name, params) = (self.set.name_any(), params());
        let patch = Patch::Merge(&patch);
        let written = self.writer.ask("cloneset_status", api.patch_status(&name, &params, &patch)).await;
        self.settle_set(written).await
    }

    async fn settle_set(&mut self, written: Result<CloneSet, Failure>) -> End {
        match written {
            Ok(set) => {
                self.wrote.push(Wrote::Set(Box::new(set)));
                End::Done
            }
            Err(Failure::Gone) => End::Changed,
            Err(failure) => self.failed(failure, "FailedUpdate", End::UpdateFailed).await,
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
        let wrote = match answer {
            Ok(Some(object)) => W::view(object).map_or_else(|| gone(uid.to_owned()), there),
            Ok(None) | Err(Failure::Gone) => gone(uid.to_owned()),
            Err(failure) => return self.failed(failure, "FailedUpdate", end).await,
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
        let (params, patch) = (params(), Patch::Merge(&patch));
        self.writer.ask("patch", api.patch(&target.name, &params, &patch)).await.map(Some)
    }

    /// `None`: gone at once.
    async fn delete<K>(&self, target: &Target) -> Result<Option<K>, Failure>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let preconditions = Preconditions { uid: Some(target.uid.clone()), resource_version: None };
        let params = DeleteParams::default().preconditions(preconditions);
        let api = Api::<K>::namespaced(self.writer.client.clone(), &self.namespace);
        let answer = self.writer.ask("delete", api.delete(&target.name, &params)).await?;
        // One that is gone at once is answered by its last state.
        Ok(answer.left().filter(|object| object.meta().deletion_timestamp.is_some()))
    }

    /// Another revision may have this name, or the picture is old.
    async fn name_taken(&mut self) -> End {
        let before = self.wrote.len();
        match self.read().await {
            End::Done => {}
            end => return end,
        }
        let found = self.wrote.get(before..).unwrap_or_default().iter().any(|wrote| match wrote {
            Wrote::Read(_, _, _, revisions) => {
                revisions.iter().any(|revision| revision.template == self.set.spec.template.0)
            }
            _ => false,
        });
        if found { End::Changed } else { End::NameTaken }
    }

    /// Reads all objects of the set.
    async fn read(&mut self) -> End {
        let selector = match Selector::parse("spec.selector", &self.set.spec.selector) {
            Ok(selector) => selector,
            Err(fault) => return End::UpdateFailed(fault.to_string()),
        };
        let (client, namespace) = (self.writer.client.clone(), self.namespace.clone());
        let params = ListParams::default().labels(&selector.text());
        let uid = self.set.metadata.uid.clone().unwrap_or_default();
        let pods = Api::<Pod>::namespaced(client.clone(), &namespace);
        let claims = Api::<PersistentVolumeClaim>::namespaced(client.clone(), &namespace);
        let revisions = Api::<ControllerRevision>::namespaced(client, &namespace);
        let ask = async {
            let pods = self.writer.ask("read", pods.list(&params)).await?;
            let claims = self.writer.ask("read", claims.list(&params)).await?;
            let revisions = self.writer.ask("read", revisions.list(&params)).await?;
            Ok::<_, Failure>((pods, claims, revisions))
        };
        match ask.await {
            Ok::<_, Failure>((pods, claims, revisions)) => {
                let pods = pods.items.into_iter().filter_map(Pods::view).filter(|pod| pod.owner() == uid);
                let claims =
                    claims.items.into_iter().filter_map(Claims::view).filter(|claim| claim.owner() == uid);
                let revisions =
                    revisions.items.into_iter().filter_map(Revisions::view).filter(|one| one.owner == uid);
                let (pods, claims, revisions) = (pods.collect(), claims.collect(), revisions.collect());
                self.wrote.push(Wrote::Read(selector, pods, claims, revisions));
                End::Done
            }
            Err(failure) => End::UpdateFailed(failure.text()),
        }
    }

    /// Consequence of a failure.
    async fn failed(&mut self, failure: Failure, reason: &'static str, end: fn(String) -> End) -> End {
        let text = failure.text();
        match failure {
            Failure::Changed | Failure::Gone => End::Changed,
            Failure::Taken | Failure::Unknown(_) => match self.read().await {
                // What there is now says what is left to do.
                End::Done => End::Changed,
                _ => end(text),
            },
            Failure::Refused(_) => {
                self.tell(true, reason, text.clone());
                end(text)
            }
        }
    }

    fn tell(&self, warning: bool, reason: &'static str, text: String) {
        self.writer.events.tell(&self.set, Note { warning, reason, text });
    }
}

impl Writer {
    async fn create<K>(&self, namespace: &str, object: &K) -> Result<K, Failure>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned
            + Serialize,
    {
        let api = Api::<K>::namespaced(self.client.clone(), namespace);
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        self.ask("create", api.create(&params, object)).await
    }

    /// Makes an object as it is given: a field that no type knows goes with it.
    async fn create_untyped<K>(&self, namespace: &str, object: Value) -> Result<K, Failure>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        let object: DynamicObject = typed(object)?;
        let resource = ApiResource::erase::<K>(&());
        let api = Api::<DynamicObject>::namespaced_with(self.client.clone(), namespace, &resource);
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        let made = self.ask("create", api.create(&params, &object)).await?;
        made.try_parse().map_err(|error| Failure::Unknown(error.to_string()))
    }

    /// One request to the API server.
    async fn ask<T>(
        &self,
        what: &'static str,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, Failure> {
        let answer = match timeout(ANSWER_WITHIN, request).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(Failure::of(&error)),
            Err(_) => Err(Failure::Unknown(format!("no answer within {} s", ANSWER_WITHIN.as_secs()))),
        };
        let outcome = answer.as_ref().map_or_else(Failure::name, |_| "done");
        self.metrics.wrote(what, outcome);
        answer
    }
}

/// Makes the claims of a pod, and the pod.
async fn make(writer: &Writer, namespace: &str, unit: Vec<Action>) -> (Vec<Wrote>, Option<Failure>) {
    let mut wrote = Vec::new();
    for action in unit {
        let made = match action {
            Action::CreateClaim(object) => {
                let made = writer.create_untyped::<PersistentVolumeClaim>(namespace, object).await;
                match made {
                    Ok(claim) => Ok(Wrote::Claim(ClaimView::of(&claim))),
                    // Made before: the watch shows it.
                    Err(Failure::Taken) => continue,
                    Err(failure) => Err(failure),
                }
            }
            Action::CreatePod(object) => {
                let made = writer.create_untyped::<Pod>(namespace, object).await;
                made.map(|pod| Wrote::Pod(PodView::of(&pod)))
            }
            _ => continue,
        };
        match made {
            Ok(made) => wrote.push(made),
            Err(failure) => return (wrote, Some(failure)),
        }
    }
    (wrote, None)
}

impl Failure {
    fn of(error: &kube::Error) -> Self {
        let kube::Error::Api(status) = error else { return Self::Unknown(chain(error)) };
        match status.code {
            404 => Self::Gone,
            409 if status.reason == "AlreadyExists" => Self::Taken,
            409 => Self::Changed,
            400..=499 => Self::Refused(status.message.clone()),
            _ => Self::Unknown(status.message.clone()),
        }
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::Changed => "conflict",
            Self::Gone => "gone",
            Self::Taken => "taken",
            Self::Unknown(_) => "unknown",
            Self::Refused(_) => "refused",
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Changed => "the object has changed since".to_owned(),
            Self::Gone => "the object is gone".to_owned(),
            Self::Taken => "the name is taken".to_owned(),
            Self::Unknown(text) | Self::Refused(text) => text.clone(),
        }
    }
}

fn is_new(action: &Action) -> bool {
    matches!(action, Action::CreateClaim(_) | Action::CreatePod(_))
}

fn typed<T: DeserializeOwned>(object: Value) -> Result<T, Failure> {
    serde_json::from_value(object).map_err(|error| Failure::Refused(error.to_string()))
}

fn params() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}
