//! The writes of a plan of a UnitedDeployment, in their order; what was answered goes back to the picture.
//!
//! A write that is refused holds none of the others up: a subset that cannot be made is not the fault of the
//! one beside it. Any other failure ends the plan: the rest is decided anew.

use std::fmt::Debug;

use berth_proto::crd::UnitedDeploymentStatus;
use berth_workloads_policy::{
    action::{Note, Target},
    revision::Revision,
    store::Stored,
    united_deployment::{self, Action, ChildView, KINDS, Kind, Plan, SUBSET_LABEL, UID_LABEL},
};
use k8s_openapi::api::{apps::v1::ControllerRevision, core::v1::Pod};
use kube::{
    Api, ResourceExt,
    api::{
        ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions,
        PropagationPolicy,
    },
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    object::{Filed, child, reference, resource, united},
    watches::revision,
};
use crate::write::{FIELD_MANAGER, Failure, Writer, stays};

/// How often a change of a workload is tried on its newest version.
const TRIES: usize = 5;

/// Objects as the API server answered them.
#[derive(Debug)]
pub(super) enum Wrote {
    United(Filed),
    Child(ChildView),
    Revision(Revision),
    /// Not its any more, or gone: UIDs.
    UnitedGone(String),
    ChildGone(Kind, String),
    RevisionGone(String),
    PodGone(String),
    /// All that there is of it, read at once.
    Read(Vec<(Kind, Vec<ChildView>)>, Vec<Revision>),
}

/// End of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    Done,
    /// All was read that there is.
    Read,
    /// Something has changed since; decided anew at once.
    Changed,
    /// A revision's name is taken by another one.
    NameTaken,
    Failed(String),
    /// Somebody holds a write back for a while.
    Held(String),
    /// Nobody knows what was written.
    Unknown(String),
}

/// Report of a plan.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) uid: String,
    pub(super) wrote: Vec<Wrote>,
    pub(super) end: End,
}

/// One plan that is carried out.
struct Work {
    writer: Writer,
    filed: Filed,
    namespace: String,
    wrote: Vec<Wrote>,
}

/// Carries out a plan.
pub(super) async fn carry_out(writer: Writer, filed: Filed, plan: Plan) -> Report {
    let mut work = Work::new(writer, filed);
    let end = work.run(plan).await;
    Report { uid: work.filed.uid().to_owned(), wrote: work.wrote, end }
}

/// Reads an object and what it has made, as whoever wrote before may have left them.
pub(super) async fn read(writer: Writer, filed: Filed) -> Report {
    let mut work = Work::new(writer, filed);
    let end = match work.read().await {
        Ok(()) => End::Read,
        Err(Failure::Gone) => End::Changed,
        Err(Failure::Held(text)) => End::Held(text),
        Err(failure) => End::Failed(failure.text()),
    };
    Report { uid: work.filed.uid().to_owned(), wrote: work.wrote, end }
}

impl Work {
    fn new(writer: Writer, filed: Filed) -> Self {
        let namespace = filed.object.metadata.namespace.clone().unwrap_or_default();
        Self { writer, filed, namespace, wrote: Vec::new() }
    }

    async fn run(&mut self, plan: Plan) -> End {
        let (mut refused, mut held) = (None, None);
        for action in plan.actions {
            let (reason, what) = (reason(&action), named(&action));
            match self.write(action).await {
                Ok(()) => {}
                Err(Failure::Changed | Failure::Gone) => return End::Changed,
                Err(Failure::Taken) => return End::NameTaken,
                Err(Failure::Unknown(text)) => return End::Unknown(format!("{what}: {text}")),
                Err(Failure::Held(text)) => drop(held.get_or_insert(format!("{what}: {text}"))),
                Err(Failure::Refused(text)) => {
                    let text = format!("{what}: {text}");
                    self.tell(true, reason, text.clone());
                    refused.get_or_insert(text);
                }
            }
        }
        if let Some(status) = plan.status {
            match self.status(&status).await {
                Ok(()) => {}
                Err(Failure::Changed | Failure::Gone | Failure::Taken) => return End::Changed,
                Err(Failure::Unknown(text)) => return End::Unknown(text),
                Err(Failure::Held(text)) => return End::Held(format!("write the status: {text}")),
                Err(Failure::Refused(text)) => return End::Failed(format!("write the status: {text}")),
            }
        }
        refused.map(End::Failed).or(held.map(End::Held)).unwrap_or(End::Done)
    }

    async fn write(&mut self, action: Action) -> Result<(), Failure> {
        match action {
            Action::CreateRevision(object) => self.create_revision(object).await,
            Action::RaiseRevision(target, number) => {
                let meta = json!({ "uid": target.uid, "resourceVersion": target.version });
                let patch = Patch::Merge(json!({ "metadata": meta, "revision": number }));
                let api = self.revisions();
                let raised =
                    self.writer.ask("patch", api.patch(&target.name, &patch_params(), &patch)).await?;
                self.wrote.extend(revision(&raised).map(Wrote::Revision));
                Ok(())
            }
            Action::DeleteRevision(target) => {
                let (api, params) = (self.revisions(), deletion(&target));
                gone(self.writer.ask("delete", api.delete(&target.name, &params)).await)?;
                self.wrote.push(Wrote::RevisionGone(target.uid));
                Ok(())
            }
            Action::Create(kind, object) => self.create(kind, object).await,
            Action::Update(kind, target, wanted) => self.update(kind, &target, &wanted).await,
            Action::Delete(kind, target) => {
                let params = DeleteParams {
                    propagation_policy: Some(PropagationPolicy::Background),
                    ..deletion(&target)
                };
                let api = self.objects(&resource(kind));
                let answer = gone(self.writer.ask("delete", api.delete(&target.name, &params)).await)?;
                let left = answer.and_then(|answer| answer.left()).filter(|object| stays(&object.metadata));
                let wrote = left.and_then(|object| child(kind, &object)).map(Wrote::Child);
                self.tell(false, "SuccessfulDelete", format!("deleted {} {}", kind.name(), target.name));
                self.wrote.push(wrote.unwrap_or(Wrote::ChildGone(kind, target.uid)));
                Ok(())
            }
            Action::DeletePod(target) => {
                // It may be Ready by now.
                let preconditions = Preconditions {
                    uid: Some(target.uid.clone()),
                    resource_version: Some(target.version.clone()),
                };
                let params = DeleteParams::default().preconditions(preconditions);
                let api = Api::<Pod>::namespaced(self.writer.client.clone(), &self.namespace);
                gone(self.writer.ask("delete", api.delete(&target.name, &params)).await)?;
                let text = format!("deleted pod {}, which held the update up", target.name);
                self.tell(false, "SuccessfulDelete", text);
                self.wrote.push(Wrote::PodGone(target.uid));
                Ok(())
            }
        }
    }

    /// Makes a revision; one that is there already is as good, if it is the same.
    async fn create_revision(&mut self, object: Value) -> Result<(), Failure> {
        let object: ControllerRevision = typed(object)?;
        let api = self.revisions();
        let made = match self.writer.ask("create", api.create(&params(), &object)).await {
            Err(Failure::Taken) => {
                let there = self.writer.ask("read", api.get(&object.name_any())).await?;
                let is_same = there.data == object.data && self.owns(&there.metadata);
                if !is_same {
                    return Err(Failure::Taken);
                }
                there
            }
            made => made?,
        };
        self.wrote.extend(revision(&made).map(Wrote::Revision));
        Ok(())
    }

    async fn create(&mut self, kind: Kind, object: Value) -> Result<(), Failure> {
        let object: DynamicObject = typed(object)?;
        let api = self.objects(&resource(kind));
        let made = match self.writer.ask("create", api.create(&params(), &object)).await {
            // Somebody else's: the next plan has another name.
            Err(Failure::Taken) => return Err(Failure::Changed),
            made => made?,
        };
        self.tell(false, "SuccessfulCreate", format!("created {} {}", kind.name(), object.name_any()));
        self.wrote.extend(child(kind, &made).map(Wrote::Child));
        Ok(())
    }

    /// Changes a workload, on its version of now: its own controller writes it too.
    async fn update(&mut self, kind: Kind, target: &Target, wanted: &Value) -> Result<(), Failure> {
        let api = self.objects(&resource(kind));
        for _ in 0..TRIES {
            let there = self.writer.ask("read", api.get(&target.name)).await;
            let is_ours = there.as_ref().is_ok_and(|there| {
                there.metadata.uid.as_deref() == Some(&target.uid) && self.owns(&there.metadata)
            });
            let there = match there {
                Ok(there) if is_ours => there,
                Ok(_) | Err(Failure::Gone) => {
                    self.wrote.push(Wrote::ChildGone(kind, target.uid.clone()));
                    return Err(Failure::Gone);
                }
                Err(failure) => return Err(failure),
            };
            let mut object = json!(there);
            united_deployment::update(kind, &mut object, wanted);
            let object: DynamicObject = typed(object)?;
            match self.writer.ask("update", api.replace(&target.name, &params(), &object)).await {
                Err(Failure::Changed) => {}
                written => {
                    let written = written?;
                    let text = format!("updated {} {}", kind.name(), target.name);
                    self.tell(false, "SuccessfulUpdateSubset", text);
                    self.wrote.extend(child(kind, &written).map(Wrote::Child));
                    return Ok(());
                }
            }
        }
        Err(Failure::Changed)
    }

    /// Writes the status, on the version that it was decided on.
    async fn status(&mut self, status: &UnitedDeploymentStatus) -> Result<(), Failure> {
        let mut status = json!(status);
        // What is not in it any more is taken out, of its maps too.
        let before = json!(self.filed.object.status);
        take_out(&before, &mut status);
        let meta = &self.filed.object.metadata;
        let patch = Patch::Merge(json!({
            "metadata": { "uid": meta.uid, "resourceVersion": meta.resource_version },
            "status": status,
        }));
        let name = meta.name.clone().unwrap_or_default();
        let (api, params) = (self.objects(&united()), patch_params());
        let object = self.writer.ask("united_status", api.patch_status(&name, &params, &patch)).await?;
        self.filed = Filed::read(object).map_err(Failure::Refused)?;
        self.wrote.push(Wrote::United(self.filed.clone()));
        Ok(())
    }

    /// Reads the object and all that it has made.
    async fn read(&mut self) -> Result<(), Failure> {
        let uid = self.filed.uid().to_owned();
        let mut children = Vec::new();
        for kind in KINDS {
            let api = self.objects(&resource(kind));
            let all = self.writer.ask("read", api.list(&ListParams::default().labels(SUBSET_LABEL))).await?;
            let ours = all.items.iter().filter_map(|object| child(kind, object));
            children.push((kind, ours.filter(|child| child.owner == uid).collect()));
        }
        let params = ListParams::default().labels(&format!("{UID_LABEL}={uid}"));
        let revisions = self.writer.ask("read", self.revisions().list(&params)).await?;
        let revisions = revisions.items.iter().filter_map(revision).filter(|one| one.owner == uid).collect();
        self.wrote.push(Wrote::Read(children, revisions));
        let name = self.filed.object.metadata.name.clone().unwrap_or_default();
        let object = self.writer.ask("read", self.objects(&united()).get(&name)).await?;
        if object.metadata.uid.as_deref() != Some(uid.as_str()) {
            self.wrote.push(Wrote::UnitedGone(uid));
            return Err(Failure::Gone);
        }
        self.wrote.push(Wrote::United(Filed::read(object).map_err(Failure::Refused)?));
        Ok(())
    }

    fn owns(&self, meta: &kube::api::ObjectMeta) -> bool {
        let mut owners = meta.owner_references.iter().flatten();
        owners.any(|owner| owner.controller == Some(true) && owner.uid == self.filed.uid())
    }

    fn objects(&self, resource: &ApiResource) -> Api<DynamicObject> {
        Api::namespaced_with(self.writer.client.clone(), &self.namespace, resource)
    }

    fn revisions(&self) -> Api<ControllerRevision> {
        Api::namespaced(self.writer.client.clone(), &self.namespace)
    }

    fn tell(&self, warning: bool, reason: &'static str, text: String) {
        self.writer.events.about(reference(&self.filed.object), Note { warning, reason, text });
    }
}

/// Marks fields that were there before and are not any more, so that a merge patch takes them out.
fn take_out(before: &Value, after: &mut Value) {
    let (Some(before), Some(after)) = (before.as_object(), after.as_object_mut()) else { return };
    for (key, value) in before {
        match after.get_mut(key) {
            Some(now) => take_out(value, now),
            None => {
                after.insert(key.clone(), Value::Null);
            }
        }
    }
}

/// Reason of the Event when it is refused.
fn reason(action: &Action) -> &'static str {
    match action {
        Action::CreateRevision(_) | Action::RaiseRevision(..) | Action::DeleteRevision(_) => {
            "FailedRevisionProvision"
        }
        Action::Create(..) => "FailedCreate",
        Action::Update(..) => "FailedUpdateSubset",
        Action::Delete(..) | Action::DeletePod(_) => "FailedDelete",
    }
}

/// Words for a write.
fn named(action: &Action) -> String {
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    match action {
        Action::CreateRevision(object) => format!("make revision {}", name(object)),
        Action::RaiseRevision(target, _) => format!("raise revision {}", target.name),
        Action::DeleteRevision(target) => format!("delete revision {}", target.name),
        Action::Create(kind, object) => format!("make {} {}", kind.name(), name(object)),
        Action::Update(kind, target, _) => format!("update {} {}", kind.name(), target.name),
        Action::Delete(kind, target) => format!("delete {} {}", kind.name(), target.name),
        Action::DeletePod(target) => format!("delete pod {}", target.name),
    }
}

/// Answer of a deletion; what is gone already is as good.
fn gone<T>(answer: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match answer {
        Err(Failure::Gone) => Ok(None),
        answer => answer.map(Some),
    }
}

fn typed<T: DeserializeOwned>(object: Value) -> Result<T, Failure> {
    serde_json::from_value(object).map_err(|error| Failure::Refused(error.to_string()))
}

fn deletion(target: &Target) -> DeleteParams {
    let preconditions = Preconditions { uid: Some(target.uid.clone()), resource_version: None };
    DeleteParams::default().preconditions(preconditions)
}

fn params() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}

fn patch_params() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A merge patch leaves what it does not name.
    #[test]
    fn what_is_not_any_more_is_taken_out_of_maps_too() {
        let before =
            json!({ "subsetReplicas": { "a": 1, "b": 2 }, "collisionCount": 1, "conditions": [1, 2] });
        let mut after = json!({ "subsetReplicas": { "b": 3 }, "conditions": [1] });
        take_out(&before, &mut after);
        assert_eq!(
            after,
            json!({ "subsetReplicas": { "a": null, "b": 3 }, "collisionCount": null, "conditions": [1] })
        );
    }
}
