//! The writes of a plan of a UnitedDeployment, in their order; what was answered goes back to the picture.
//!
//! A write that is refused, that has no answer, or that the API server has an error of its own for, holds
//! none of the others up: a subset that cannot be made is not the fault of the one beside it. After some of
//! these errors the rest waits for the next plan, in which what has failed comes last. Any other failure ends
//! the plan: the rest is decided anew.

use std::collections::BTreeSet;

use berth_workloads_policy::{
    action::Target,
    revision::Revision,
    united_deployment::{self, Action, ChildView, KINDS, Kind, SUBSET_LABEL, UID_LABEL},
};
use k8s_openapi::api::{apps::v1::ControllerRevision, core::v1::Pod};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, Preconditions, PropagationPolicy},
};
use serde_json::{Value, json};

use super::{
    object::{Filed, child, resource, united},
    picture::UnitedDeployments,
    watches::revision,
};
use crate::{
    object::Object,
    owned::Listed,
    planner::{End, MOST_ERRORS, Plan, Work},
    revisions::SentRevision,
    write::{CHANGED_BY_CLUSTER, Failure, params, stays, typed},
};

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
    Read(Vec<(Kind, Vec<ChildView>)>, Listed<Revision>),
}

impl Work<UnitedDeployments> {
    pub(super) async fn run(&mut self, plan: Plan<Action>) -> End {
        let (mut refused, mut held, mut errors) = (None, None, 0_usize);
        for action in plan.actions {
            if errors >= MOST_ERRORS {
                break;
            }
            let (reason, what, about) = (reason(&action), named(&action), about(&action).map(str::to_owned));
            match self.write(action).await {
                Ok(()) => {}
                Err(Failure::Changed | Failure::Gone) => return End::Changed,
                Err(Failure::Taken) => return End::NameTaken,
                Err(Failure::Held(text)) => drop(held.get_or_insert(format!("{what}: {text}"))),
                Err(Failure::Busy(text)) => return End::failed(format!("{what}: {text}")),
                Err(failure @ (Failure::Refused(_) | Failure::ServerError(_) | Failure::Unknown(_))) => {
                    // It may be done all the same.
                    if !matches!(failure, Failure::Refused(_)) {
                        self.unread = true;
                        errors = errors.saturating_add(1);
                        self.put_off.extend(about);
                    }
                    let text = failure.text();
                    let text = format!("{what}: {text}");
                    self.warn(reason, text.clone());
                    refused.get_or_insert(text);
                }
            }
        }
        if let Some(status) = plan.status {
            match self.status(status).await {
                Ok(()) => {}
                Err(Failure::Changed | Failure::Gone | Failure::Taken) => return End::Changed,
                Err(Failure::Unknown(text)) => return End::Unknown(text),
                Err(Failure::Held(text)) => return End::held(format!("write the status: {text}")),
                Err(Failure::Refused(text) | Failure::ServerError(text) | Failure::Busy(text)) => {
                    return End::failed(format!("write the status: {text}"));
                }
            }
        }
        refused.map(End::failed).or(held.map(End::held)).unwrap_or(End::Done)
    }

    async fn write(&mut self, action: Action) -> Result<(), Failure> {
        match action {
            Action::CreateRevision(object, named) => self.create_revision(object, named).await,
            Action::RaiseRevision(target, number) => {
                let meta = json!({ "uid": target.uid, "resourceVersion": target.version });
                let patch = Patch::Merge(json!({ "metadata": meta, "revision": number }));
                let api = self.revisions();
                let raised =
                    self.writer.ask("patch", api.patch(&target.name, &params::patch(), &patch)).await?;
                self.wrote.extend(revision(&raised).map(Wrote::Revision));
                Ok(())
            }
            Action::DeleteRevision(target) => {
                let (api, params) = (self.revisions(), params::delete(&target.uid));
                gone(self.writer.ask("delete", api.delete(&target.name, &params)).await)?;
                self.wrote.push(Wrote::RevisionGone(target.uid));
                Ok(())
            }
            Action::Create(kind, object) => self.create(kind, object).await,
            Action::Update(kind, target, wanted) => self.update(kind, &target, &wanted).await,
            Action::Delete(kind, target) => {
                let params = DeleteParams {
                    propagation_policy: Some(PropagationPolicy::Background),
                    ..params::delete(&target.uid)
                };
                let api = self.objects(&resource(kind));
                let answer = gone(self.writer.ask("delete", api.delete(&target.name, &params)).await)?;
                let left = answer.and_then(|answer| answer.left()).filter(|object| stays(&object.metadata));
                let wrote = left.and_then(|object| child(kind, &object)).map(Wrote::Child);
                self.tell("SuccessfulDelete", format!("deleted {} {}", kind.name(), target.name));
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
                let api = Api::<Pod>::namespaced(self.writer.client.clone(), self.object.namespace());
                gone(self.writer.ask("delete", api.delete(&target.name, &params)).await)?;
                let text = format!("deleted pod {}, which held the update up", target.name);
                self.tell("SuccessfulDelete", text);
                self.wrote.push(Wrote::PodGone(target.uid));
                Ok(())
            }
        }
    }

    /// Makes a revision. One that is there already is as good, if it is the same: under one of these names,
    /// or under its own. What the API server has just made is as it was sent, or never will be: so it would
    /// be under the next name, without end.
    async fn create_revision(&mut self, object: Value, named: Vec<String>) -> Result<(), Failure> {
        let changed = || Err(Failure::Refused(CHANGED_BY_CLUSTER.to_owned()));
        for name in named {
            match self.writer.fetch("read", self.revisions().get(&name)).await {
                Ok(there) if self.owns(&there.metadata) && is_of_template(&there, &object) => {
                    return self.adopt(there).await;
                }
                Ok(_) | Err(Failure::Gone) => {}
                Err(failure) => return Err(failure),
            }
        }
        match self.writer.create_revision(self.object.namespace(), &object).await {
            Err(Failure::Taken) => {}
            made => {
                let made = made?;
                self.wrote.extend(revision(&made).map(Wrote::Revision));
                return if json!(made.data) == object["data"] { Ok(()) } else { changed() };
            }
        }
        let (api, object) = (self.revisions(), typed::<ControllerRevision>(object)?);
        let there = self.writer.fetch("read", api.get(&object.name_any())).await?;
        if !self.owns(&there.metadata) {
            return Err(Failure::Taken);
        }
        if there.data != object.data {
            let is_other = Revision::of(&there).is_some_and(|one| one.is_named_after_its_template());
            return if is_other { Err(Failure::Taken) } else { changed() };
        }
        self.adopt(there).await
    }

    /// Gives a revision the label by which it is on file, unless it has it.
    async fn adopt(&mut self, there: ControllerRevision) -> Result<(), Failure> {
        let uid = self.object.uid().to_owned();
        let is_found = |one: &ControllerRevision| one.labels().get(UID_LABEL) == Some(&uid);
        if is_found(&there) {
            // The watch has not shown it yet, so the next plan may ask for it again: after a pause.
            self.wrote.extend(revision(&there).map(Wrote::Revision));
            return Err(Failure::Changed);
        }
        // OpenKruise's has no such label: neither the watch nor a list would show it.
        let mut meta =
            json!({ "uid": there.metadata.uid, "resourceVersion": there.metadata.resource_version });
        meta["labels"][UID_LABEL] = uid.as_str().into();
        let patch = Patch::Merge(json!({ "metadata": meta }));
        let (api, name) = (self.revisions(), there.name_any());
        let adopted = self.writer.ask("patch", api.patch(&name, &params::patch(), &patch)).await?;
        if !is_found(&adopted) {
            return Err(Failure::Refused(CHANGED_BY_CLUSTER.to_owned()));
        }
        self.wrote.extend(revision(&adopted).map(Wrote::Revision));
        Ok(())
    }

    async fn create(&mut self, kind: Kind, object: Value) -> Result<(), Failure> {
        let object: DynamicObject = typed(object)?;
        let api = self.objects(&resource(kind));
        let made = match self.writer.ask("create", api.create(&params::post(), &object)).await {
            // Somebody else's: the next plan has another name.
            Err(Failure::Taken) => return Err(Failure::Changed),
            made => made?,
        };
        self.tell("SuccessfulCreate", format!("created {} {}", kind.name(), object.name_any()));
        self.settled(kind, &object, &made)
    }

    /// Takes in a workload that the API server has just written: it says what it is to say, or never will.
    fn settled(
        &mut self,
        kind: Kind,
        wanted: &DynamicObject,
        written: &DynamicObject,
    ) -> Result<(), Failure> {
        let (wanted, written) = (child(kind, wanted), child(kind, written));
        let is_so = written.as_ref().zip(wanted.as_ref()).is_some_and(|(one, wanted)| one.is_as(wanted));
        self.wrote.extend(written.map(Wrote::Child));
        if is_so {
            return Ok(());
        }
        Err(Failure::Refused(CHANGED_BY_CLUSTER.to_owned()))
    }

    /// Changes a workload, on its version of now: its own controller writes it too.
    async fn update(&mut self, kind: Kind, target: &Target, wanted: &Value) -> Result<(), Failure> {
        let api = self.objects(&resource(kind));
        for _ in 0..TRIES {
            let there = self.writer.fetch("read", api.get(&target.name)).await;
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
            match self.writer.ask("update", api.replace(&target.name, &params::post(), &object)).await {
                Err(Failure::Changed) => {}
                written => {
                    self.settled(kind, &object, &written?)?;
                    let text = format!("updated {} {}", kind.name(), target.name);
                    self.tell("SuccessfulUpdateSubset", text);
                    return Ok(());
                }
            }
        }
        Err(Failure::Changed)
    }

    async fn status(&mut self, status: Value) -> Result<(), Failure> {
        let before = json!(self.object.status);
        let object = self.patch_status("united_status", &united(), &before, status).await?;
        let filed = Filed::read(object).map_err(Failure::Refused)?;
        self.object = filed.object.clone();
        self.wrote.push(Wrote::United(filed));
        Ok(())
    }

    /// Reads the object and all that it has made.
    pub(super) async fn read(&mut self) -> Result<(), Failure> {
        let uid = self.object.uid().to_owned();
        let mut children = Vec::new();
        for kind in KINDS {
            let own = |object| child(kind, &object).filter(|child| child.owner == uid);
            let listed = self.writer.list(&self.sent(&resource(kind)), SUBSET_LABEL, own).await?;
            children.push((kind, listed.objects));
        }
        let api = Api::<SentRevision>::namespaced(self.writer.client.clone(), self.object.namespace());
        let own = |object| revision(&object).filter(|one| one.owner == uid);
        let revisions = self.writer.list(&api, &format!("{UID_LABEL}={uid}"), own).await?;
        self.wrote.push(Wrote::Read(children, revisions));
        let object = self.writer.fetch("read", self.objects(&united()).get(self.object.name())).await?;
        if object.metadata.uid.as_deref() != Some(uid.as_str()) {
            self.wrote.push(Wrote::UnitedGone(uid));
            return Err(Failure::Gone);
        }
        self.wrote.push(Wrote::United(Filed::read(object).map_err(Failure::Refused)?));
        Ok(())
    }

    fn revisions(&self) -> Api<ControllerRevision> {
        Api::namespaced(self.writer.client.clone(), self.object.namespace())
    }
}

/// Puts writes behind all others that are about one of these.
pub(super) fn last(actions: Vec<Action>, put_off: &BTreeSet<String>) -> Vec<Action> {
    let is_off = |action: &Action| about(action).is_some_and(|about| put_off.contains(about));
    let (last, mut first): (Vec<Action>, Vec<Action>) = actions.into_iter().partition(is_off);
    first.extend(last);
    first
}

/// Thing that a write is about, as the next plan names it too: a subset, whose new workload has another name
/// each time, or the UID of what there is. `None`: writes of revisions keep their place.
fn about(action: &Action) -> Option<&str> {
    match action {
        Action::Create(_, object) => object["metadata"]["labels"][SUBSET_LABEL].as_str(),
        Action::Update(_, target, _) | Action::Delete(_, target) | Action::DeletePod(target) => {
            Some(&target.uid)
        }
        Action::CreateRevision(..) | Action::RaiseRevision(..) | Action::DeleteRevision(_) => None,
    }
}

/// Reason of the Event when it is refused.
fn reason(action: &Action) -> &'static str {
    match action {
        Action::CreateRevision(..) | Action::RaiseRevision(..) | Action::DeleteRevision(_) => {
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
        Action::CreateRevision(object, _) => format!("make revision {}", name(object)),
        Action::RaiseRevision(target, _) => format!("raise revision {}", target.name),
        Action::DeleteRevision(target) => format!("delete revision {}", target.name),
        Action::Create(kind, object) => format!("make {} {}", kind.name(), name(object)),
        Action::Update(kind, target, _) => format!("update {} {}", kind.name(), target.name),
        Action::Delete(kind, target) => format!("delete {} {}", kind.name(), target.name),
        Action::DeletePod(target) => format!("delete pod {}", target.name),
    }
}

/// Tells whether a revision is of the same template as one that is to be made.
fn is_of_template(there: &ControllerRevision, wanted: &Value) -> bool {
    let wanted = wanted.pointer("/data/spec/template").and_then(Value::as_object);
    Revision::of(there).zip(wanted).is_some_and(|(there, wanted)| there.has(wanted))
}

/// Answer of a deletion; what is gone already is as good.
fn gone<T>(answer: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match answer {
        Err(Failure::Gone) => Ok(None),
        answer => answer.map(Some),
    }
}
