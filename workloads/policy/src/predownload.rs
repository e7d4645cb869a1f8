//! Images pulled ahead of an update: an ImagePullJob for each image of a new revision, before its pods are
//! updated.
//!
//! A job is named after the revision and the container, so it is made once, and an image that was pulled for
//! one revision is pulled anew when the set goes back to another. Jobs stay for as long as the rollout goes
//! on, and are deleted when it has ended. The revision has a label that says whether there were jobs: it is
//! for OpenKruise's clients, and what has been done is read off the jobs.

use std::time::Duration;

use berth_proto::names::is_dns_label;
use k8s_openapi::apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString};
use serde_json::{Map, Value, json};

use crate::{
    action::{Action, Note, Target},
    amount::Amount,
    hash,
    in_place::change,
    names::REVISION_LABEL,
    revision::{CREATED_LABEL, IGNORED_LABEL, Mark, Owner, Revision, controller},
    selector::Labels,
    store::{Stored, version},
};

/// Annotation of a workload: nodes that pull at once, a number or a share; 1 when left out.
const PARALLELISM: &str = "apps.kruise.io/image-predownload-parallelism";
/// Annotation of a workload: seconds that an attempt may take; 300 when left out.
const TIMEOUT_SECONDS: &str = "apps.kruise.io/image-predownload-timeout-seconds";
/// Annotation of a workload: new pods that are ready before anything is pulled ahead, a number or a share.
const MIN_READY: &str = "apps.kruise.io/image-predownload-min-updated-ready-pods";
/// Attempts after the first one; a pull that fails is made up for by the update's own.
const BACKOFF_LIMIT: i32 = 1;
/// The most pods of a set for which nothing is pulled ahead.
const FEW: i64 = 3;
/// The most images of a revision that are pulled ahead.
const MOST_IMAGES: usize = 32;
/// The most secrets that a job takes.
const MOST_SECRETS: usize = 64;
/// The longest name of an object, and of a label's value.
const LONGEST_NAME: usize = 253;
const LONGEST_LABEL: usize = 63;
/// Time after which a job that could not be made is tried again.
pub const AGAIN: Duration = Duration::from_secs(60);

/// An ImagePullJob that a workload owns.
#[derive(Clone, Debug, PartialEq)]
pub struct PullJobView {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Which one of that name.
    pub uid: String,
    /// Its version.
    pub version: String,
    /// UID of the owner that decides on it.
    pub owner: String,
    /// Hash of the revision that it is for.
    pub hash: String,
    /// It is being deleted.
    pub terminating: bool,
}

/// Pulls ahead, as far as they are known and wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ahead<'a> {
    /// The installation has them.
    pub on: bool,
    /// A job could not be made a moment ago.
    pub rests: bool,
    /// Jobs of the workload.
    pub jobs: &'a [&'a PullJobView],
}

/// A rollout, as far as images are pulled ahead of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rollout<'a> {
    pub(crate) owner: Owner<'a>,
    pub(crate) selector: &'a LabelSelector,
    pub(crate) current: &'a Revision,
    pub(crate) update: &'a Revision,
    /// All pods have the newest revision.
    pub(crate) ended: bool,
    pub(crate) replicas: i64,
    pub(crate) updated_ready: i64,
}

/// Kind of update, as far as images are pulled ahead of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Pods are made anew, or by hand: the pods pull themselves.
    None,
    /// In place.
    InPlace {
        /// All pods at once: nothing is ahead of anything.
        at_once: bool,
    },
    /// Node by node, in place or not.
    Nodes {
        /// All nodes at once.
        at_once: bool,
    },
}

/// Writes and news of a pass about pulls ahead.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Writes {
    /// Before anything else.
    pub(crate) create: Vec<Action>,
    /// At the end.
    pub(crate) delete: Vec<Action>,
    pub(crate) notes: Vec<Note>,
    pub(crate) again: Option<Duration>,
}

impl PullJobView {
    /// Reads a job.
    pub fn of(meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> Self {
        let label = meta.labels.as_ref().and_then(|labels| labels.get(REVISION_LABEL));
        Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            version: meta.resource_version.clone().unwrap_or_default(),
            owner: controller(meta.owner_references.as_deref().unwrap_or_default()).to_owned(),
            hash: label.cloned().unwrap_or_default(),
            terminating: meta.deletion_timestamp.is_some(),
        }
    }

    fn target(&self) -> Target {
        Target { name: self.name.clone(), uid: self.uid.clone(), version: self.version.clone() }
    }
}

impl Stored for PullJobView {
    fn uid(&self) -> &str {
        &self.uid
    }

    fn version(&self) -> u64 {
        version(&self.version)
    }
}

impl Ahead<'_> {
    /// Decides on jobs.
    pub(crate) fn writes(&self, rollout: &Rollout<'_>, kind: Kind) -> Writes {
        let mut writes = Writes::default();
        let is_left = |job: &PullJobView| rollout.ended || !self.on || job.hash != rollout.update.hash();
        let left = self.jobs.iter().filter(|job| !job.terminating && is_left(job));
        writes.delete.extend(left.map(|job| Action::DeletePullJob(job.target())));
        if !self.on || rollout.ended {
            return writes;
        }
        if !rollout.is_worth_it(kind) {
            self.mark(rollout.ignored(kind), &mut writes);
            return writes;
        }
        let asked = Wishes::of(rollout.owner.annotations, rollout.replicas);
        if rollout.updated_ready < asked.min_ready {
            return writes;
        }
        let mut images = rollout.images();
        let created = if images.is_empty() { None } else { rollout.mark(Mark::Created) };
        images.retain(|(name, _)| self.jobs.iter().all(|job| job.name != *name));
        if images.is_empty() {
            self.mark(created, &mut writes);
            return writes;
        }
        if self.rests {
            writes.again = Some(AGAIN);
            return writes;
        }
        writes.create.extend(images.iter().map(|(name, image)| rollout.job(name, image, &asked)));
        // A job that cannot be made keeps the mark from being written.
        writes.create.extend(created);
        writes.notes = asked.notes;
        writes
    }

    fn mark(&self, mark: Option<Action>, writes: &mut Writes) {
        match mark {
            Some(_) if self.rests => writes.again = Some(AGAIN),
            mark => writes.create.extend(mark),
        }
    }
}

/// Wishes in the annotations of a workload.
#[derive(Debug, PartialEq)]
struct Wishes {
    parallelism: Value,
    timeout: i32,
    min_ready: i64,
    notes: Vec<Note>,
}

impl Wishes {
    /// Reads them; one that makes no sense is said, and counts as left out.
    fn of(annotations: &Labels, replicas: i64) -> Self {
        let mut notes = Vec::new();
        let mut wrong = |key: &str, text: &str, remedy: &str| {
            let shown: String = text.chars().take(64).collect();
            let text = format!("annotation {key} is {shown:?}, and counts as left out: give {remedy}");
            notes.push(Note { warning: true, reason: "FailedCreateImagePullJob", text });
        };
        let mut parallelism = json!(1);
        if let Some(text) = annotations.get(PARALLELISM) {
            match amount(text) {
                Some(IntOrString::Int(number)) => parallelism = json!(number),
                Some(IntOrString::String(share)) if !share.contains('.') && share.len() <= 4 => {
                    parallelism = json!(share);
                }
                _ => wrong(PARALLELISM, text, "a number of nodes, or a share such as 10%"),
            }
        }
        let mut timeout = 300;
        if let Some(text) = annotations.get(TIMEOUT_SECONDS) {
            match text.parse::<i32>().ok().filter(|seconds| *seconds > 0) {
                Some(seconds) => timeout = seconds,
                None => wrong(TIMEOUT_SECONDS, text, "a number of seconds from 1"),
            }
        }
        let mut min_ready = 0;
        if let Some(text) = annotations.get(MIN_READY) {
            let given = amount(text);
            match given.map(|given| Amount::parse(MIN_READY, Some(&given), Amount::Number(0))) {
                Some(Ok(amount)) => min_ready = amount.up(replicas),
                _ => wrong(MIN_READY, text, "a number of pods, or a share such as 10%"),
            }
        }
        Self { parallelism, timeout, min_ready, notes }
    }
}

/// A number from 0, or a share.
fn amount(text: &str) -> Option<IntOrString> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok().map(IntOrString::Int);
    }
    let given = IntOrString::String(text.to_owned());
    Amount::parse("", Some(&given), Amount::Number(0)).ok().map(|_| given)
}

impl Rollout<'_> {
    fn is_worth_it(&self, kind: Kind) -> bool {
        match kind {
            Kind::None => false,
            Kind::InPlace { at_once } => {
                !at_once
                    && self.replicas > FEW
                    && change(&self.current.template, &self.update.template).is_some()
            }
            Kind::Nodes { at_once } => !at_once,
        }
    }

    /// Mark of a rollout that is not worth it. Most sets are small, and one more write for each of them is
    /// not worth it either.
    fn ignored(&self, kind: Kind) -> Option<Action> {
        if kind == Kind::None || self.replicas <= FEW { None } else { self.mark(Mark::Ignored) }
    }

    /// Write of a mark on the new revision, where it says neither this nor more. Nobody may write one that
    /// nothing owns.
    fn mark(&self, mark: Mark) -> Option<Action> {
        let revision = self.update;
        if [Some(mark), Some(Mark::Created)].contains(&revision.mark) || revision.owner.is_empty() {
            return None;
        }
        let labels = match mark {
            Mark::Created => json!({ CREATED_LABEL: "true", IGNORED_LABEL: null }),
            Mark::Ignored => json!({ IGNORED_LABEL: "true" }),
        };
        Some(Action::MarkRevision(revision.target(), json!({ "metadata": { "labels": labels } })))
    }

    /// Names of jobs, and images that they pull: those of containers that are new or have another image.
    fn images(&self) -> Vec<(String, String)> {
        let before = containers(&self.current.template);
        let changed = containers(&self.update.template).into_iter().filter(|one| !before.contains(one));
        let named = changed.filter(|(name, image)| is_dns_label(name) && !image.is_empty());
        named.take(MOST_IMAGES).map(|(name, image)| (self.name(name), image.to_owned())).collect()
    }

    fn name(&self, container: &str) -> String {
        let name = format!("{}-{container}", self.update.name);
        if name.len() <= LONGEST_NAME {
            return name;
        }
        let hash = hash::revision(name.as_bytes(), 0);
        let kept: String = name.chars().take(LONGEST_NAME - 1 - hash.len()).collect();
        format!("{kept}-{hash}")
    }

    fn job(&self, name: &str, image: &str, asked: &Wishes) -> Action {
        let template = self.update.template.get("metadata").and_then(|metadata| metadata.get("labels"));
        let mut labels = template.and_then(Value::as_object).cloned().unwrap_or_default();
        labels.insert(REVISION_LABEL.to_owned(), self.update.hash().into());
        let mut selector = json!(self.selector);
        let mut old: Vec<&str> = vec![self.update.hash()];
        old.extend(Some(self.update.name.as_str()).filter(|name| name.len() <= LONGEST_LABEL));
        let not_new = json!({ "key": REVISION_LABEL, "operator": "NotIn", "values": old });
        match selector.get_mut("matchExpressions").and_then(Value::as_array_mut) {
            Some(all) => all.push(not_new),
            None => selector["matchExpressions"] = json!([not_new]),
        }
        Action::CreatePullJob(json!({
            "apiVersion": "apps.kruise.io/v1alpha1",
            "kind": "ImagePullJob",
            "metadata": {
                "namespace": self.owner.namespace,
                "name": name,
                "labels": labels,
                "ownerReferences": [self.owner.reference()],
            },
            "spec": {
                "image": image,
                "pullSecrets": secrets(&self.update.template),
                "podSelector": selector,
                "parallelism": asked.parallelism,
                "pullPolicy": { "timeoutSeconds": asked.timeout, "backoffLimit": BACKOFF_LIMIT },
                "completionPolicy": { "type": "Always" },
                "imagePullPolicy": "IfNotPresent",
            },
        }))
    }
}

/// Names and images of the containers of a template.
fn containers(template: &Map<String, Value>) -> Vec<(&str, &str)> {
    let containers = template.get("spec").and_then(|spec| spec.get("containers"));
    let containers = containers.and_then(Value::as_array).into_iter().flatten();
    containers
        .map(|one| {
            let of = |key: &str| one.get(key).and_then(Value::as_str).unwrap_or_default();
            (of("name"), of("image"))
        })
        .collect()
}

fn secrets(template: &Map<String, Value>) -> Vec<&str> {
    let secrets = template.get("spec").and_then(|spec| spec.get("imagePullSecrets"));
    let secrets = secrets.and_then(Value::as_array).into_iter().flatten();
    secrets.filter_map(|secret| secret.get("name")?.as_str()).take(MOST_SECRETS).collect()
}

#[cfg(test)]
mod tests;
