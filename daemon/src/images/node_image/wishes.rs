//! From a `NodeImage` to wishes: what users ask for in `spec.images`, and what the manager asks for in
//! `status.desiredImages`. What stands in `spec.images` as a copy of that asks for nothing.
//!
//! What was answered before is in the same object, so an agent that starts anew does not carry out again what
//! has ended.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use berth_policy::{Credentials, ImageReference, Settled, Wish, WishId, WishSource};
use berth_proto::{
    crd::{
        DesiredImage, ImagePhase, ImagePullPolicy, ImageTagSpec, NodeImage, NodeImageStatus, SandboxConfig,
        TagPullPolicy,
    },
    image::Reference,
};

use super::spec;
use crate::images::credentials::sealed::sealed_entry;

/// Seconds one attempt may take where nothing is said; OpenKruise's default.
const TIMEOUT_SECONDS: i32 = 600;
/// Attempts after the first one where nothing is said; OpenKruise's default.
const BACKOFF_LIMIT: i32 = 3;

/// Wishes of a `NodeImage`.
#[derive(Debug, Default)]
pub(super) struct NodeImageWishes {
    /// Wishes that can be done.
    pub(super) wishes: Vec<Wish>,
    /// Faults: the field, what is wrong with it, and what to do.
    pub(super) faults: Vec<String>,
}

/// Reads all of it. `source` is where the object comes from, `prefix` what its wishes are told apart by from
/// those of other objects of that source, `pin` how long an image is kept for its first use.
pub(super) fn asked(
    object: &NodeImage,
    source: WishSource,
    prefix: &str,
    pin: Option<Duration>,
) -> NodeImageWishes {
    let nothing = NodeImageStatus::default();
    let status = object.status.as_ref().unwrap_or(&nothing);
    let mut asked = NodeImageWishes::default();
    for (name, image) in &object.spec.images {
        let answered = status.image_statuses.get(name).map_or(&[][..], |answered| &answered.tags);
        // A file is nobody's copy.
        for tag in image.tags.iter().filter(|tag| source != WishSource::Api || !spec::is_copy(tag)) {
            let version = tag.version.unwrap_or_default();
            let answer = answered.iter().find(|answer| answer.tag == tag.tag);
            let settled = answer
                .filter(|answer| answer.version.unwrap_or_default() == version)
                // A failure there may be that of a job for the same image, which shares the entry.
                .filter(|answer| answer.phase != ImagePhase::Failed || !is_desired(status, name, &tag.tag))
                .and_then(|answer| {
                    settled(answer.phase, answer.image_id.as_deref(), answer.message.as_deref())
                });
            let key = format!("{prefix}spec/{name}:{}", tag.tag);
            match Reference::of_entry(name, &tag.tag) {
                Ok(reference) => {
                    let id = WishId { source, key: Arc::from(key) };
                    let wish = of_tag(id, &reference, tag, image.sandbox_config.as_ref());
                    asked.wishes.push(Wish { settled, pin, ..wish });
                }
                Err(error) => asked.faults.push(format!(
                    "spec.images[{name:?}].tags[{:?}]: {error}; give a repository as the key, and one tag or digest of it",
                    tag.tag
                )),
            }
        }
    }
    for desired in &status.desired_images {
        let version = desired.version.unwrap_or_default();
        let answer = status.pulls.iter().find(|answer| answer.uid == desired.uid);
        let settled = answer
            .filter(|answer| answer.version.unwrap_or_default() == version)
            .and_then(|answer| settled(answer.phase, answer.image_id.as_deref(), answer.message.as_deref()));
        match desired.image.parse() {
            Ok(reference) => {
                let id = WishId { source, key: Arc::from(format!("{prefix}{}", desired.uid)) };
                asked.wishes.push(Wish { settled, pin, ..of_desired(id, &reference, desired) });
            }
            Err(error) => {
                asked.faults.push(format!("status.desiredImages[{:?}].image: {error}", desired.uid));
            }
        }
    }
    asked
}

/// The same wish for somebody who gives nothing but an image.
pub(crate) fn plain(id: WishId, reference: &Reference) -> Wish {
    Wish {
        id,
        image: reference_of(reference),
        version: 0,
        always: false,
        timeout: seconds(TIMEOUT_SECONDS),
        retries: BACKOFF_LIMIT.unsigned_abs(),
        deadline: None,
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        credentials: Credentials::Node,
        pin: None,
        settled: None,
    }
}

fn of_tag(id: WishId, reference: &Reference, tag: &ImageTagSpec, sandbox: Option<&SandboxConfig>) -> Wish {
    let wish = limited(plain(id, reference), tag.pull_policy.as_ref());
    with_sandbox(
        Wish {
            version: tag.version.unwrap_or_default(),
            always: tag.image_pull_policy == Some(ImagePullPolicy::Always),
            ..wish
        },
        sandbox,
    )
}

fn of_desired(id: WishId, reference: &Reference, desired: &DesiredImage) -> Wish {
    let wish = limited(plain(id, reference), desired.pull_policy.as_ref());
    let sealed = &desired.sealed_credentials;
    let credentials = match sealed.is_empty() {
        true => Credentials::Node,
        false => Credentials::Sealed(sealed.iter().map(|seal| sealed_entry(&desired.uid, seal)).collect()),
    };
    with_sandbox(
        Wish {
            version: desired.version.unwrap_or_default(),
            always: desired.image_pull_policy == Some(ImagePullPolicy::Always),
            credentials,
            ..wish
        },
        desired.sandbox_config.as_ref(),
    )
}

fn limited(wish: Wish, policy: Option<&TagPullPolicy>) -> Wish {
    let Some(policy) = policy else { return wish };
    Wish {
        timeout: seconds(policy.timeout_seconds.unwrap_or(TIMEOUT_SECONDS)),
        retries: policy.backoff_limit.unwrap_or(BACKOFF_LIMIT).try_into().unwrap_or(0),
        // 0 is none, as OpenKruise takes it.
        deadline: policy
            .active_deadline_seconds
            .and_then(|seconds| u64::try_from(seconds).ok())
            .filter(|seconds| *seconds > 0)
            .map(Duration::from_secs),
        ..wish
    }
}

fn with_sandbox(wish: Wish, sandbox: Option<&SandboxConfig>) -> Wish {
    let Some(SandboxConfig { labels, annotations }) = sandbox.cloned() else { return wish };
    Wish { labels, annotations, ..wish }
}

/// Tells whether the manager asks for it, too.
fn is_desired(status: &NodeImageStatus, name: &str, entry: &str) -> bool {
    let references =
        status.desired_images.iter().filter_map(|desired| desired.image.parse::<Reference>().ok());
    references.into_iter().any(|reference| reference.familiar_name() == name && reference.entry() == entry)
}

/// `image_id` is `<name>@<id>` or `<id>`.
fn settled(phase: ImagePhase, image_id: Option<&str>, message: Option<&str>) -> Option<Settled> {
    let succeeded = match phase {
        ImagePhase::Succeeded => true,
        ImagePhase::Failed => false,
        ImagePhase::Waiting | ImagePhase::Pulling => return None,
    };
    let image_id = image_id.map(|id| id.rsplit_once('@').map_or(id, |(_, id)| id).to_owned());
    Some(Settled { succeeded, image_id, message: message.unwrap_or_default().to_owned() })
}

/// Says it in the words of the policy.
fn reference_of(reference: &Reference) -> ImageReference {
    ImageReference {
        given: Arc::from(reference.as_str()),
        record: Arc::from(reference.record()),
        registry: Arc::from(reference.registry()),
        repository: Arc::from(reference.repository()),
    }
}

fn seconds(seconds: i32) -> Duration {
    Duration::from_secs(seconds.try_into().unwrap_or(1).max(1))
}
