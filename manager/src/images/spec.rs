//! Spec of a job, parsed once; or why it makes no sense.

use std::{sync::Arc, time::Duration};

use berth_proto::{
    crd::{
        CompletionPolicyType, DesiredImage, ImagePullJobSpec, JobPullPolicy, MOST_SECONDS, TagPullPolicy,
        WantedBy,
    },
    image::Reference,
};

use super::{
    parallelism::Parallelism,
    rollout::{Plan, Which},
    room::{self, OF_ONE, SEALED},
};
use crate::{selector::Selector, store::Key};

/// Seconds one attempt may take, where nothing is said.
pub(super) const TIMEOUT: i32 = 600;
/// Attempts after the first one, where nothing is said.
pub(super) const BACKOFF_LIMIT: i32 = 3;
/// The first version of a wish; a later one would pull again.
const VERSION: i64 = 1;

/// A job that makes sense.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Spec {
    pub(super) plan: Plan,
    /// It has no end.
    pub(super) never: bool,
    /// Seconds from its start to its end.
    pub(super) deadline: Option<i64>,
    /// Seconds from its end to its deletion.
    pub(super) ttl: Option<i32>,
    pub(super) secrets: Box<[String]>,
}

impl Spec {
    /// Returns the image to pull.
    pub(super) fn image(&self) -> &str {
        &self.plan.content.image
    }

    /// Tells whether what was read of Secrets for one is what the other needs.
    pub(super) fn same_secrets(&self, other: &Self) -> bool {
        self.image() == other.image() && self.secrets == other.secrets
    }
}

/// Parses the spec; the error names the field, the object and the remedy.
pub(super) fn parse(key: &Key, uid: &Arc<str>, spec: &ImagePullJobSpec) -> Result<Spec, String> {
    let fault = |field: &str, problem: &str| Err(format!("spec.{field} of ImagePullJob {key} {problem}"));
    if let Err(error) = spec.image.parse::<Reference>() {
        return fault(
            "image",
            &format!("cannot be used: {error}; give [registry/]repository[:tag][@digest]"),
        );
    }
    let parallelism = match spec.parallelism.as_ref().map(Parallelism::parse) {
        None => Parallelism::DEFAULT,
        Some(Ok(parallelism)) => parallelism,
        Some(Err(problem)) => return fault("parallelism", &problem),
    };
    let limits = spec.pull_policy.clone().unwrap_or_default();
    let timeout = limits.timeout_seconds.unwrap_or(TIMEOUT);
    let retries = limits.backoff_limit.unwrap_or(BACKOFF_LIMIT);
    if timeout < 1 {
        return fault("pullPolicy.timeoutSeconds", &format!("is {timeout}; give at least 1"));
    }
    if retries < 0 {
        return fault("pullPolicy.backoffLimit", &format!("is {retries}; give at least 0"));
    }
    let policy = &spec.completion_policy;
    let never = policy.type_ == Some(CompletionPolicyType::Never);
    if never && policy.active_deadline_seconds.is_some() {
        return fault("completionPolicy.activeDeadlineSeconds", "is only for type Always; leave it out");
    }
    if never && policy.ttl_seconds_after_finished.is_some() {
        return fault("completionPolicy.ttlSecondsAfterFinished", "is only for type Always; leave it out");
    }
    if let Some(deadline) = policy.active_deadline_seconds.filter(|deadline| *deadline < 0) {
        return fault("completionPolicy.activeDeadlineSeconds", &format!("is {deadline}; give at least 0"));
    }
    if let Some(ttl) = policy.ttl_seconds_after_finished.filter(|ttl| *ttl < 0) {
        return fault("completionPolicy.ttlSecondsAfterFinished", &format!("is {ttl}; give at least 0"));
    }
    let which = match which(key, spec) {
        Ok(which) => which,
        Err((field, problem)) => return fault(field, &problem),
    };
    let content = DesiredImage {
        uid: uid.to_string(),
        image: spec.image.clone(),
        since: None,
        version: Some(VERSION),
        wanted_by: Some(WantedBy {
            kind: "ImagePullJob".to_owned(),
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
        }),
        pull_policy: Some(pull_policy(&limits, policy.active_deadline_seconds)),
        image_pull_policy: Some(spec.image_pull_policy.unwrap_or_default()),
        sandbox_config: spec.sandbox_config.clone(),
        sealed_credentials: Vec::new(),
    };
    let sealed = !spec.pull_secrets.is_empty();
    let weight = room::weight(&content, if sealed { SEALED } else { 0 });
    if weight > OF_ONE {
        return fault("sandboxConfig", &too_large(weight));
    }
    Ok(Spec {
        plan: Plan {
            which,
            parallelism,
            content: content.into(),
            patience: patience(timeout, retries),
            sealed,
            namespace: key.namespace.clone(),
            weight,
        },
        never,
        deadline: policy.active_deadline_seconds,
        ttl: policy.ttl_seconds_after_finished,
        secrets: spec.pull_secrets.clone().into(),
    })
}

/// Says that a wish is larger than a namespace's room on a node, and the remedy.
fn too_large(weight: usize) -> String {
    format!(
        "makes a wish of {} KiB, and all wishes of a namespace have {} KiB in the object of a node; make labels and annotations smaller",
        weight.div_ceil(1 << 10),
        OF_ONE >> 10,
    )
}

fn which(key: &Key, spec: &ImagePullJobSpec) -> Result<Which, (&'static str, String)> {
    let selector = spec.selector.clone().unwrap_or_default();
    let by_labels = !selector.match_labels.is_empty() || !selector.match_expressions.is_empty();
    if let Some(pods) = &spec.pod_selector {
        if spec.selector.is_some() {
            return Err((
                "podSelector",
                "is given together with spec.selector; leave one of them out".into(),
            ));
        }
        let labels = pods.match_labels.clone().unwrap_or_default();
        let expressions = pods.match_expressions.as_deref().unwrap_or_default();
        let selector =
            Selector::parse(&labels, expressions).map_err(|error| ("podSelector", format!("has {error}")))?;
        return Ok(Which::Pods(key.namespace.clone(), selector));
    }
    match (selector.names.is_empty(), by_labels) {
        (true, false) => Ok(Which::All),
        (false, true) => Err((
            "selector",
            "has names and labels; give either names or matchLabels and matchExpressions".into(),
        )),
        (false, false) => Ok(Which::Names(selector.names.into_iter().collect())),
        (true, true) => Selector::parse(&selector.match_labels, &selector.match_expressions)
            .map(Which::Labels)
            .map_err(|error| ("selector", format!("has {error}"))),
    }
}

fn pull_policy(limits: &JobPullPolicy, deadline: Option<i64>) -> TagPullPolicy {
    TagPullPolicy {
        timeout_seconds: Some(limits.timeout_seconds.unwrap_or(TIMEOUT)),
        backoff_limit: Some(limits.backoff_limit.unwrap_or(BACKOFF_LIMIT)),
        ttl_seconds_after_finished: None,
        active_deadline_seconds: deadline,
    }
}

/// All attempts one after the other; their pauses are in what is added to it ([`super::SILENCE`]). No more
/// than what can be added to any time.
fn patience(timeout: i32, retries: i32) -> Duration {
    let attempts = u64::from(retries.unsigned_abs()).saturating_add(1);
    let seconds = u64::from(timeout.unsigned_abs()).saturating_mul(attempts);
    Duration::from_secs(seconds.min(MOST_SECONDS.unsigned_abs()))
}
