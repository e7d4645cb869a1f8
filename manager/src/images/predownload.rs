//! Pulls ahead of an update: the entrance for workloads. The same rollout as a job's, over the nodes that run
//! pods the update is still to reach, without an object of its own.
//!
//! So there is no status that would remember who has ended: that is in the NodeImages alone. While the
//! workload wants it every entry stays where it is, and a manager that comes new reads from the entries and
//! the agents' answers what has been done. A node whose NodeImage was deleted in between is asked again; it
//! has the image and says so at once.

use std::{collections::BTreeMap, sync::Arc};

use berth_proto::{
    crd::{DesiredImage, ImagePullPolicy, SandboxConfig, TagPullPolicy, WantedBy},
    image::Reference,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{
    Effect, ImageIndex, Wake,
    parallelism::Parallelism,
    rollout::{Owner, Plan, Which},
    room::{self, OF_ONE},
    spec::{VERSION, patience, too_large},
};
use crate::{
    index::Indexes,
    seen::{Now, Pods},
    selector::Selector,
};

/// How many nodes pull at once: a number, or a share in percent; 1 when left out.
pub const PARALLELISM: &str = "apps.kruise.io/image-predownload-parallelism";
/// Seconds one attempt may take; 300 when left out.
pub const TIMEOUT_SECONDS: &str = "apps.kruise.io/image-predownload-timeout-seconds";
/// OpenKruise's.
const DEFAULT_TIMEOUT: i32 = 300;
/// OpenKruise's: a pull that fails is made up for by the update's own.
const BACKOFF_LIMIT: i32 = 1;

/// One image that a workload is about to update to.
#[derive(Clone, Debug, PartialEq)]
pub struct PullAhead {
    /// Names the wish on the nodes: the workload's UID and the image.
    uid: Arc<str>,
    plan: Plan,
}

/// How far it is, in nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Selected.
    pub desired: usize,
    /// Asked, and not ended.
    pub active: usize,
    /// Have the image.
    pub succeeded: usize,
    /// Gave up.
    pub failed: usize,
}

impl PullAhead {
    /// Reads the request in the annotations of a workload. `pods` selects, in its namespace, those that are
    /// still to be updated.
    ///
    /// # Errors
    /// Names the annotation or field that makes no sense, and the workload.
    pub fn new(
        owner: WantedBy,
        owner_uid: &str,
        annotations: &BTreeMap<String, String>,
        image: &str,
        pods: &LabelSelector,
        sandbox_config: Option<SandboxConfig>,
    ) -> Result<Self, String> {
        let WantedBy { kind, namespace, name } = &owner;
        let fault = |what: &str, problem: &str| format!("{what} of {kind} {namespace}/{name} {problem}");
        let parallelism = match annotations.get(PARALLELISM) {
            None => Parallelism::DEFAULT,
            Some(text) => Parallelism::of_text(text)
                .map_err(|problem| fault(&format!("annotation {PARALLELISM}"), &problem))?,
        };
        let timeout = match annotations.get(TIMEOUT_SECONDS) {
            None => DEFAULT_TIMEOUT,
            Some(text) => text.parse().ok().filter(|seconds| *seconds > 0).ok_or_else(|| {
                let problem = format!("is {text:?}; give a number of seconds from 1");
                fault(&format!("annotation {TIMEOUT_SECONDS}"), &problem)
            })?,
        };
        image.parse::<Reference>().map_err(|error| fault("image", &format!("cannot be used: {error}")))?;
        let selector = Selector::parse(
            pods.match_labels.as_ref().unwrap_or(&BTreeMap::new()),
            pods.match_expressions.as_deref().unwrap_or_default(),
        )
        .map_err(|error| fault("selector", &format!("has {error}")))?;
        let uid: Arc<str> = format!("{owner_uid}/{image}").into();
        let space: Arc<str> = namespace.as_str().into();
        let which = Which::Pods(space.clone(), selector);
        let content = DesiredImage {
            uid: uid.to_string(),
            image: image.to_owned(),
            version: Some(VERSION),
            wanted_by: Some(owner),
            pull_policy: Some(TagPullPolicy {
                timeout_seconds: Some(timeout),
                backoff_limit: Some(BACKOFF_LIMIT),
                ..TagPullPolicy::default()
            }),
            image_pull_policy: Some(ImagePullPolicy::IfNotPresent),
            sandbox_config,
            ..DesiredImage::default()
        };
        let patience = patience(timeout, BACKOFF_LIMIT);
        let weight = room::weight(&content, 0);
        if weight > OF_ONE {
            return Err(format!("sandboxConfig of the workload of {uid} {}", too_large(weight)));
        }
        let plan = Plan {
            which,
            parallelism,
            content: content.into(),
            patience,
            sealed: false,
            namespace: space,
            weight,
        };
        Ok(Self { uid, plan })
    }

    /// Its name for [`ImageIndex::forget_ahead`] and [`ImageIndex::ahead`].
    pub fn uid(&self) -> &Arc<str> {
        &self.uid
    }
}

impl Indexes {
    /// Somebody wants this image ahead. Said again it is the same wish, with other limits perhaps. Whoever
    /// wants it says so within 10 s after the start of the manager, or its entries are taken for those of
    /// somebody gone.
    pub fn want_ahead(&mut self, wanted: &PullAhead, now: Now) -> Vec<Effect> {
        self.images.want_ahead(wanted, &self.pods, now)
    }
}

impl ImageIndex {
    /// See [`Indexes::want_ahead`].
    pub(crate) fn want_ahead(&mut self, wanted: &PullAhead, pods: &Pods, now: Now) -> Vec<Effect> {
        let PullAhead { uid, plan } = wanted;
        if self.rollouts.get(uid).is_none_or(|rollout| rollout.plan != *plan) {
            self.expiry.remove(uid);
            // After all jobs: without it the update pulls the image itself.
            let rank = (Timestamp::MAX, uid.clone());
            self.roll_out(uid, Owner::Ahead, (rank, plan.clone()), pods, now);
            self.touched.insert(uid.clone());
        }
        self.settle(now)
    }

    /// Nobody wants it any more: its entries are taken back.
    pub fn forget_ahead(&mut self, uid: &Arc<str>, now: Now) -> Vec<Effect> {
        if self.rollouts.get(uid).is_some_and(|rollout| rollout.owner == Owner::Ahead) {
            self.timers.set(Wake::Wish(uid.clone()), None);
            self.let_go(uid, now, std::time::Duration::ZERO);
        }
        self.settle(now)
    }

    /// How far it is; `None` when it is not wanted.
    pub fn ahead(&self, uid: &str) -> Option<Progress> {
        let rollout = self.rollouts.get(uid).filter(|rollout| rollout.owner == Owner::Ahead)?;
        Some(Progress {
            desired: rollout.desired(),
            active: rollout.active(),
            succeeded: rollout.ended() - rollout.failed(),
            failed: rollout.failed(),
        })
    }
}
