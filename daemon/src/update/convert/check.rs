//! Checks of a request, and what is wrong with it.

use std::collections::BTreeSet;

use berth_policy::in_place_update::{Failure, twins};
use berth_proto::{
    crd::{Invalid, distinct_containers, seconds_within},
    image::Reference,
};

use super::{
    super::{
        keys::{self, LONGEST_ANNOTATIONS},
        runtime_meta, state,
    },
    Wanted,
};

/// Flaw of a request. `Display` names the field and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::update) enum Flaw {
    /// Not of the kind's schema.
    #[error("the spec cannot be read: {0}; make a new request")]
    Unreadable(String),
    /// A text that must be there is not.
    #[error("{0} is empty: make a new request that gives it")]
    Empty(&'static str),
    /// Nothing is asked for.
    #[error("neither containers nor metadata are given: make a new request that says what is to change")]
    Nothing,
    /// A list or a number of both kinds of requests.
    #[error("{0}; make a new request")]
    Invalid(#[from] Invalid),
    /// An image is none.
    #[error("containers[{name}].image: {why}; make a new request with an image as in a pod")]
    Image {
        /// The container.
        name: String,
        /// Cause.
        why: String,
    },
    /// A swap that makes no sense.
    #[error("swaps[{name}].{field}: {why}; make a new request")]
    Swap {
        /// The sidecar.
        name: String,
        /// Which field.
        field: &'static str,
        /// Cause.
        why: String,
    },
    /// An annotation that is not the user's to set.
    #[error("metadata.annotations[{key}] cannot be set, it is {why}")]
    Reserved {
        /// Which one.
        key: &'static str,
        /// Why not.
        why: &'static str,
    },
    /// A label or an annotation that no pod can have.
    #[error("metadata.{field}[{key}] cannot be set: {why}")]
    Metadata {
        /// `labels` or `annotations`.
        field: &'static str,
        /// Which one.
        key: String,
        /// Why not.
        why: &'static str,
    },
    /// Neither a workload nor a SidecarSet.
    #[error(
        "owner {0:?} is none that this agent knows: leave it empty, or give SidecarSet/<name>, CloneSet/<name>, \
         DaemonSet/<name> or StatefulSet/<name>"
    )]
    Owner(String),
    /// A word for the condition of a pod that does not stand alone.
    #[error("upgradable is a SidecarSet's to say, in an entry that asks for nothing else: leave it out")]
    Word,
    /// A merge patch that is none.
    #[error("mergeAnnotations[{0}] is no JSON object: give a JSON merge patch of an object")]
    Merge(String),
    /// One key in two of the maps of annotations.
    #[error("annotation {0} is in two of annotations, mergeAnnotations and defaultAnnotations: give it once")]
    Twice(String),
    /// More annotations than a pod can have.
    #[error(
        "metadata.annotations has {0} bytes, a pod has at most {LONGEST_ANNOTATIONS}: make a new request with less"
    )]
    TooLong(usize),
    /// It is assigned to this node without a pod.
    #[error("status.podUID is missing although status.nodeName is set: make a new request")]
    Unassigned,
}

impl From<Flaw> for Failure {
    fn from(flaw: Flaw) -> Self {
        Self::invalid(flaw.to_string())
    }
}

/// Annotations that others own, or that mean nothing once the pod is there; and why.
const RESERVED: [(&str, &str); 5] = [
    (state::SIDECAR_SETS, "where the progress of updates is kept"),
    ("kubernetes.io/config.mirror", "the kubelet's: it marks static pods"),
    (state::ANNOTATION, "where the progress of updates is kept"),
    (runtime_meta::ANNOTATION, "where the agent says what runs"),
    (berth_policy::launch_priority::ORDERED_ANNOTATION, "read when the pod starts: make a new pod"),
];

/// Each sidecar once, with two images that are two, and none of its twins asked for beside that.
fn check_swaps(wanted: &Wanted<'_>) -> Result<(), Flaw> {
    distinct_containers("swaps", wanted.swaps.iter().map(|swap| swap.name.as_str()))?;
    for swap in wanted.swaps {
        let flaw = |field, why: String| Err(Flaw::Swap { name: swap.name.clone(), field, why });
        for (field, image) in [("image", &swap.image), ("emptyImage", &swap.empty_image)] {
            if let Err(error) = image.parse::<Reference>() {
                return flaw(field, error.to_string());
            }
        }
        if swap.image == swap.empty_image {
            return flaw("image", "it is the empty image, which serves nobody".to_owned());
        }
        if swap.version < 0 {
            return flaw("version", format!("{} is below 0", swap.version));
        }
        seconds_within("swaps[].migrationSeconds", swap.migration_seconds, 1)?;
        let twins = twins(&swap.name);
        if let Some(twin) =
            wanted.containers.iter().find(|one| twins.iter().any(|twin| twin.as_str() == one.name))
        {
            return flaw(
                "name",
                format!("container {} is one of its twins, and is in containers too", twin.name),
            );
        }
    }
    Ok(())
}

pub(super) fn check(wanted: &Wanted<'_>) -> Result<(), Flaw> {
    let annotations = [wanted.annotations, wanted.merged, wanted.defaults];
    if wanted.containers.is_empty()
        && wanted.swaps.is_empty()
        && wanted.labels.is_empty()
        && annotations.iter().all(|annotations| annotations.is_empty())
    {
        return Err(Flaw::Nothing);
    }
    distinct_containers("containers", wanted.containers.iter().map(|container| container.name.as_str()))?;
    for container in wanted.containers {
        if let Err(error) = container.image.parse::<Reference>() {
            return Err(Flaw::Image { name: container.name.clone(), why: error.to_string() });
        }
    }
    check_swaps(wanted)?;
    for (key, why) in RESERVED {
        if annotations.iter().any(|annotations| annotations.contains_key(key)) {
            return Err(Flaw::Reserved { key, why });
        }
    }
    let mut keys = BTreeSet::new();
    if let Some(key) = annotations.iter().flat_map(|of| of.keys()).find(|key| !keys.insert(*key)) {
        return Err(Flaw::Twice(key.clone()));
    }
    if let Some((field, key, why)) = unfit(wanted) {
        return Err(Flaw::Metadata { field, key: key.to_owned(), why });
    }
    let annotations =
        annotations.iter().flat_map(|of| of.iter()).map(|(key, value)| key.len() + value.len()).sum();
    if annotations > LONGEST_ANNOTATIONS {
        return Err(Flaw::TooLong(annotations));
    }
    seconds_within("activeDeadlineSeconds", wanted.deadline, 3)?;
    Ok(seconds_within("gracePeriodSeconds", wanted.grace, 0)?)
}

/// A label or annotation that the API server would refuse.
fn unfit<'a>(wanted: &Wanted<'a>) -> Option<(&'static str, &'a str, &'static str)> {
    let label = |(key, value): (&'a String, &String)| {
        Some(("labels", key.as_str(), keys::key(key).or_else(|| keys::label(value))?))
    };
    // In the prefix of an annotation's key capitals are as good.
    let annotation =
        |key: &'a String| Some(("annotations", key.as_str(), keys::key(&key.to_ascii_lowercase())?));
    let mut annotations = wanted.annotations.keys().chain(wanted.merged.keys()).chain(wanted.defaults.keys());
    wanted.labels.iter().find_map(label).or_else(|| annotations.find_map(annotation))
}
