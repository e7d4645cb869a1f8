//! The three exceptions from the runtime's own words, and all there is of them.
//!
//! A container that is to be recreated is shown to the kubelet with another definition hash, so that the
//! kubelet itself stops it and starts it anew. So that the kubelet looks, one list shows it, once, a
//! container that is not there. A job sidecar that is to end with its mains is shown as one that ended well,
//! so that the kubelet judges its pod by the main containers. Which container and which list, the gate says.
//! All are bytes after the runtime's ([`Append`]), or at the end of a status among others ([`Edit`]); all go
//! to the kubelet's own connections only.

use std::collections::HashMap;

use berth_cri as cri;
use berth_policy::{Nudge, Showing};
use bytes::{Bytes, BytesMut};
use prost::Message;
use tracing::{debug, info};

use crate::{
    append::{Append, Outcome},
    convert::POD_UID_LABEL,
    edit::{self, Edit},
    metrics::Metrics,
    wire::put_field,
};

/// The annotation by which the kubelet knows the definition a container was made from.
pub const HASH_ANNOTATION: &str = "io.kubernetes.container.hash";
/// In hexadecimal, as the kubelet writes it. The kubelet reads 64 bits and computes 32, so no definition has
/// this one.
pub const OTHER_HASH: &str = "100000000";
/// `ContainerStatusResponse.status`.
const STATUS: u64 = 1;
/// The name of the container that is not there.
pub const NUDGE_NAME: &str = "berth-nudge";
/// Its image; nobody ever pulls it.
pub const NUDGE_IMAGE: &str = "berth.dev/nudge";

/// Addition to one answer.
#[derive(Debug)]
pub(crate) struct Exception {
    kind: Kind,
    change: Change,
}

#[derive(Debug)]
enum Change {
    Append(Append),
    Edit(Edit),
}

#[derive(Debug)]
enum Kind {
    Restated,
    Nudged { entries: u64 },
}

// === impl Exception ===

impl Exception {
    /// Exception for `ContainerStatusResponse`; `None` for the truth.
    pub(crate) fn shown(showing: Showing) -> Option<Self> {
        match showing {
            Showing::Truth => None,
            Showing::OtherDefinition => Some(Self::restated()),
            Showing::StillRunning => Some(Self::still_running()),
            Showing::NotStarted => Some(Self::not_started()),
            Showing::Completed => Some(Self::completed()),
        }
    }

    /// The same status of a container that was created and not started.
    fn not_started() -> Self {
        // `status` (1) with `state` (3) = CONTAINER_CREATED, which is 0 and which the encoder would leave
        // out.
        Self {
            kind: Kind::Restated,
            change: Change::Append(Append::new(Bytes::from_static(&[0x0a, 2, 0x18, 0]))),
        }
    }

    /// The same status with the exit code and the reason of a container that ended well. While it runs nobody
    /// reads them.
    pub(crate) fn completed() -> Self {
        let status = edit::completed();
        let mut suffix = BytesMut::new();
        put_field(&mut suffix, STATUS, &status);
        Self { kind: Kind::Restated, change: Change::Append(Append::new(suffix.freeze())) }
    }

    /// Makes an exception for several containers in one message.
    pub(crate) fn edited(edit: Edit) -> Self {
        Self { kind: Kind::Restated, change: Change::Edit(edit) }
    }

    /// The same status, made from another definition.
    fn restated() -> Self {
        Self::with_other_hash(cri::ContainerStatus::default())
    }

    /// The same, of one that runs. What the status says of its end nobody reads then.
    fn still_running() -> Self {
        let state = cri::ContainerState::ContainerRunning.into();
        Self::with_other_hash(cri::ContainerStatus { state, ..Default::default() })
    }

    /// An exception with these fields of a status, and another definition.
    fn with_other_hash(status: cri::ContainerStatus) -> Self {
        let annotations = [(HASH_ANNOTATION.to_owned(), OTHER_HASH.to_owned())].into();
        // A second `status` is merged into the first, and of two entries of a map with one key the last one
        // counts.
        let status = cri::ContainerStatus { annotations, ..status };
        let suffix =
            cri::ContainerStatusResponse { status: Some(status), ..Default::default() }.encode_to_vec();
        Self { kind: Kind::Restated, change: Change::Append(Append::new(suffix.into())) }
    }

    /// Exception for `ListContainersResponse`: these entries too. `None` without any.
    pub(crate) fn nudged(nudges: Vec<Nudge>) -> Option<Self> {
        if nudges.is_empty() {
            return None;
        }
        for nudge in &nudges {
            info!(
                pod = %format_args!("{}/{}", nudge.pod.namespace, nudge.pod.name),
                pod.uid = %nudge.pod.uid,
                container = %nudge.container,
                "Kubelet nudged to look at a pod"
            );
        }
        let entries = nudges.len() as u64;
        let containers = nudges.into_iter().map(entry).collect();
        let suffix = cri::ListContainersResponse { containers }.encode_to_vec();
        Some(Self { kind: Kind::Nudged { entries }, change: Change::Append(Append::new(suffix.into())) })
    }

    /// Gives the bytes that go to the client for this frame of the runtime; empty when it has to wait for the
    /// next one.
    pub(crate) fn frame(&mut self, frame: Bytes) -> Bytes {
        match &mut self.change {
            Change::Append(append) => append.frame(frame),
            Change::Edit(edit) => edit.frame(frame),
        }
    }

    /// Returns the bytes that are still to go at the end of the answer.
    pub(crate) fn end(&mut self) -> Bytes {
        match &mut self.change {
            Change::Append(append) => append.end(),
            Change::Edit(edit) => edit.end(),
        }
    }

    /// Counts what became of it, once the answer is over.
    pub(crate) fn count(&self, metrics: &Metrics) {
        let append = match &self.change {
            Change::Append(append) => append,
            Change::Edit(edit) => return (0..edit.edited()).for_each(|_| metrics.restated()),
        };
        match (append.outcome(), &self.kind) {
            (Some(Outcome::Appended), Kind::Restated) => metrics.restated(),
            (Some(Outcome::Appended), Kind::Nudged { entries }) => metrics.nudged(*entries),
            (Some(why @ (Outcome::Compressed | Outcome::Empty | Outcome::TooLarge)), kind) => {
                debug!(why = why.label(), ?kind, "Answer passed on as it is");
                metrics.left_unchanged(why);
            }
            // An error, or cut off: there was nothing to change.
            (None, _) => {}
        }
    }
}

/// A container that runs in this pod, with everything the kubelet reads of an entry, so that it has nothing
/// to complain about.
fn entry(nudge: Nudge) -> cri::Container {
    let map = |pairs: &[(&str, &str)]| -> HashMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    cri::Container {
        id: nudge.container.as_str().to_owned(),
        pod_sandbox_id: nudge.sandbox.as_str().to_owned(),
        metadata: Some(cri::ContainerMetadata { name: NUDGE_NAME.to_owned(), attempt: 0 }),
        image: Some(cri::ImageSpec { image: NUDGE_IMAGE.to_owned(), ..Default::default() }),
        image_ref: NUDGE_IMAGE.to_owned(),
        state: cri::ContainerState::ContainerRunning.into(),
        // Any time but none, which the kubelet would not take.
        created_at: 1,
        labels: map(&[
            ("io.kubernetes.container.name", NUDGE_NAME),
            ("io.kubernetes.pod.name", &nudge.pod.name),
            ("io.kubernetes.pod.namespace", &nudge.pod.namespace),
            (POD_UID_LABEL, nudge.pod.uid.as_str()),
        ]),
        annotations: map(&[
            (HASH_ANNOTATION, OTHER_HASH),
            ("io.kubernetes.container.restartCount", "0"),
            ("io.kubernetes.container.terminationMessagePath", "/dev/termination-log"),
            ("io.kubernetes.container.terminationMessagePolicy", "File"),
        ]),
    }
}

#[cfg(test)]
#[path = "tests/exceptions.rs"]
mod tests;
