//! The writes of a plan; what was answered goes back to the picture.
//!
//! A namespace that fails holds none of the others up, but after some errors of the API server the rest is
//! decided anew: each may be a webhook that does not answer, and other distributions wait for the place of
//! this plan. The plan that follows such errors begins with as many as may be at once: it may end after
//! these, and namespaces that never failed wait for it. A copy is put right on the version that was just
//! read, and only if it is the distribution's: so an object of anybody else is never written, also not when
//! it came a moment ago.

use std::sync::Arc;

use berth_base::sent::{Received, Sent};
use berth_proto::crd::ResourceDistribution;
use berth_workloads_policy::distribution::{
    Action, CopyView, Kind, Plan, Problem, Rules, Trouble, is_of, merged,
};
use futures::future::join_all;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::watches::Filed;
use crate::{
    planner::MOST_ERRORS,
    unkept::changed,
    write::{CHANGED_BY_CLUSTER, Failure, Writer, params, stays},
};

/// The owner of what is written, as `managedFields` shows it.
const FIELD_MANAGER: &str = "berth-distribution";
/// The most writes at once for one distribution.
const MOST_AT_ONCE: usize = 16;
/// The most bytes of manifests on their way for one distribution.
const MOST_BYTES: usize = 4 << 20;
/// Tries of one copy, where others write at the same time.
const TRIES: usize = 4;

/// Objects as the API server answered them.
#[derive(Debug)]
pub(super) enum Wrote {
    Copy(CopyView),
    CopyGone(Kind, String),
    Distribution(Filed),
}

/// End of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    Done,
    /// It was read, and is decided on as it is now.
    Read,
    /// Something has changed since, or it is gone; decided anew when it was read.
    Changed,
    /// The status was not written.
    Failed(String),
    /// It could not be read.
    Unread(String),
}

/// Report of a plan.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) uid: String,
    pub(super) wrote: Vec<Wrote>,
    /// Namespaces that were tried, and what trouble each has.
    pub(super) outcomes: Vec<(String, Option<Trouble>)>,
    /// Some of them met errors of the API server.
    pub(super) met_errors: bool,
    /// Status that the API server answered otherwise, and the field that differs.
    pub(super) unkept: Option<(Value, String)>,
    pub(super) end: End,
}

/// A namespace that is written to.
struct Work<'a> {
    writer: &'a Writer,
    rules: &'a Rules,
    /// Kind of what is written.
    kind: Kind,
    namespace: &'a str,
}

/// Carries out a plan. `uids` are those of the namespaces of its actions, in their order; `met_errors`: the
/// plan before it did.
pub(super) async fn carry_out(
    writer: Writer,
    object: Arc<ResourceDistribution>,
    rules: Option<Arc<Rules>>,
    plan: Plan,
    uids: Vec<String>,
    met_errors: bool,
) -> Report {
    let uid = object.metadata.uid.clone().unwrap_or_default();
    let (wrote, outcomes) = (Vec::new(), Vec::new());
    let mut report = Report { uid, wrote, outcomes, met_errors: false, unkept: None, end: End::Done };
    if let Some(rules) = rules {
        // First one, then twice as many each time.
        let most = (MOST_BYTES / rules.bytes.max(1)).clamp(1, MOST_AT_ONCE);
        let mut left = plan.actions.into_iter().zip(uids);
        let mut at_once = if met_errors { most } else { 1 };
        let mut errors = 0_usize;
        loop {
            let batch: Vec<(Action, String)> = left.by_ref().take(at_once.min(most)).collect();
            if batch.is_empty() || errors >= MOST_ERRORS {
                break;
            }
            let done = join_all(batch.iter().map(|(action, _)| write(&writer, &rules, action))).await;
            for ((action, uid), done) in batch.into_iter().zip(done) {
                let trouble = match done {
                    Ok(wrote) => {
                        report.wrote.extend(wrote);
                        None
                    }
                    Err(Undone { problem, text, is_error }) => {
                        errors = errors.saturating_add(usize::from(is_error));
                        Some(Trouble { problem, text, namespace: uid, met: 0 })
                    }
                };
                report.outcomes.push((action.namespace().to_owned(), trouble));
            }
            at_once = at_once.saturating_mul(2);
        }
        report.met_errors = errors > 0;
    }
    if let Some(status) = plan.status {
        match write_status(&writer, &object, json!(status)).await {
            Ok((filed, unkept)) => {
                report.wrote.push(Wrote::Distribution(filed));
                report.unkept = unkept;
            }
            Err(Failure::Changed | Failure::Gone) => report.end = End::Changed,
            Err(failure) => report.end = End::Failed(failure.text()),
        }
    }
    report
}

/// Reads a distribution as it is now: there is room again for one that was set aside, or a term begins.
pub(super) async fn read(writer: Writer, name: String, uid: String) -> Report {
    let resource = ApiResource::erase::<ResourceDistribution>(&());
    let api = Api::<Sent<DynamicObject>>::all_with(writer.client.clone(), &resource);
    // There is no right to get one.
    let params = ListParams::default().fields(&format!("metadata.name={name}"));
    // Many may come back at once, and each of them may be large.
    let _place = writer.pages.acquire().await;
    let (mut wrote, mut end) = (Vec::new(), End::Changed);
    match writer.fetch("read", api.list(&params)).await {
        Ok(listed) => {
            let read = listed.items.into_iter().filter_map(|sent| sent.read().ok());
            let mut read = read.filter(|object| object.metadata.uid.as_deref() == Some(uid.as_str()));
            if let Some(filed) = read.next().and_then(|object| Filed::read(object).ok()) {
                wrote.push(Wrote::Distribution(filed));
                end = End::Read;
            }
        }
        Err(failure) => end = End::Unread(failure.text()),
    }
    Report { uid, wrote, outcomes: Vec::new(), met_errors: false, unkept: None, end }
}

/// Write that was not done, and why.
struct Undone {
    problem: Problem,
    text: String,
    /// The API server, or a webhook of its, has an error of its own or no answer.
    is_error: bool,
}

impl Undone {
    const fn new(problem: Problem, text: String) -> Self {
        Self { problem, text, is_error: false }
    }

    fn of(problem: Problem, failure: &Failure) -> Self {
        Self { is_error: failure.is_error(), ..Self::new(problem, failure.text()) }
    }
}

type Done = Result<Option<Wrote>, Undone>;

async fn write(writer: &Writer, rules: &Rules, action: &Action) -> Done {
    let kind = match action {
        Action::Delete { kind, .. } => *kind,
        Action::Create { .. } | Action::Update { .. } => rules.kind,
    };
    let work = Work { writer, rules, kind, namespace: action.namespace() };
    match action {
        Action::Create { .. } => work.make(true).await,
        Action::Update { .. } => work.make(false).await,
        Action::Delete { target, .. } => {
            let params = params::delete(&target.uid);
            let answer = writer.ask("copy_delete", work.api().delete(&target.name, &params)).await;
            match answer.map(|answer| answer.left()) {
                Ok(Some(left)) if stays(&left.metadata) => Ok(work.view(left)),
                // Another one of that name is none of ours.
                Ok(_) | Err(Failure::Gone | Failure::Changed) => {
                    Ok(Some(Wrote::CopyGone(kind, target.uid.clone())))
                }
                Err(failure) => Err(Undone::of(Problem::Delete, &failure)),
            }
        }
    }
}

impl Work<'_> {
    fn api(&self) -> Api<DynamicObject> {
        let resource = match self.kind {
            Kind::Secret => ApiResource::erase::<Secret>(&()),
            Kind::ConfigMap => ApiResource::erase::<ConfigMap>(&()),
        };
        Api::namespaced_with(self.writer.client.clone(), self.namespace, &resource)
    }

    /// Makes the copy, or puts right the one that is there.
    async fn make(&self, mut is_new: bool) -> Done {
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        let (api, name) = (self.api(), self.rules.name.as_str());
        for _ in 0..TRIES {
            if is_new {
                let copy = object(self.rules.copy(self.namespace))
                    .map_err(|text| Undone::new(Problem::Create, text))?;
                match self.writer.ask("copy_create", api.create(&params, &copy)).await {
                    Ok(made) => return self.settled(made),
                    Err(Failure::Taken | Failure::Changed) => is_new = false,
                    Err(failure) => return Err(Undone::of(Problem::Create, &failure)),
                }
            }
            let there = match self.writer.fetch("copy_read", api.get(name)).await {
                Ok(there) => there,
                Err(Failure::Gone) => {
                    is_new = true;
                    continue;
                }
                Err(failure) => return Err(Undone::of(Problem::Get, &failure)),
            };
            if !is_of(&there.metadata, &self.rules.uid) {
                let (kind, namespace) = (self.kind.name(), self.namespace);
                let text = format!("{kind} {namespace}/{name} is there already, and of another owner");
                let remedy = "delete or rename it, or exclude the namespace";
                return Err(Undone::new(Problem::Conflict, format!("{text}: {remedy}")));
            }
            let is_current = self.reduce(&there).is_some_and(|view| view.is_current(self.rules));
            if is_current || there.metadata.deletion_timestamp.is_some() {
                return Ok(self.view(there));
            }
            let copy = merged(self.rules.copy(self.namespace), &there.metadata);
            let copy = object(copy).map_err(|text| Undone::new(Problem::Update, text))?;
            match self.writer.ask("copy_update", api.replace(name, &params, &copy)).await {
                Ok(made) => return self.settled(made),
                Err(Failure::Changed) => {}
                Err(Failure::Gone) => is_new = true,
                Err(failure) => return Err(Undone::of(Problem::Update, &failure)),
            }
        }
        Err(Undone::new(Problem::Update, "others write it at the same time, trying again".to_owned()))
    }

    /// An object that the API server has just written says what the manifest says, or never will.
    fn settled(&self, made: DynamicObject) -> Done {
        if self.reduce(&made).is_some_and(|view| !view.is_current(self.rules)) {
            return Err(Undone::new(Problem::Update, CHANGED_BY_CLUSTER.to_owned()));
        }
        Ok(self.view(made))
    }

    fn view(&self, object: DynamicObject) -> Option<Wrote> {
        self.reduce(&object).map(Wrote::Copy)
    }

    fn reduce(&self, object: &DynamicObject) -> Option<CopyView> {
        match self.kind {
            Kind::Secret => CopyView::of_secret(&object.clone().try_parse::<Secret>().ok()?),
            Kind::ConfigMap => CopyView::of_config_map(&object.clone().try_parse::<ConfigMap>().ok()?),
        }
    }
}

fn object(value: Value) -> Result<DynamicObject, String> {
    serde_json::from_value(value).map_err(|error| error.to_string())
}

/// Writes the status, on the version that it was decided on; the field that is not kept of it, if there is
/// one.
async fn write_status(
    writer: &Writer,
    object: &ResourceDistribution,
    status: Value,
) -> Result<(Filed, Option<(Value, String)>), Failure> {
    let meta = &object.metadata;
    let patch = json!({
        "metadata": { "uid": meta.uid, "resourceVersion": meta.resource_version },
        "status": status,
    });
    let resource = ApiResource::erase::<ResourceDistribution>(&());
    let api = Api::<DynamicObject>::all_with(writer.client.clone(), &resource);
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let (name, patch) = (meta.name.as_deref().unwrap_or_default(), Patch::Merge(&patch));
    let answer = writer.ask("distribution_status", api.patch_status(name, &params, &patch)).await?;
    let unkept = changed(&answer.data["status"], &status).map(|field| (status, field));
    Ok((Filed::read(answer).map_err(Failure::Refused)?, unkept))
}
