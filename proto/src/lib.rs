//! Every wire contract Berth speaks, and no behaviour but what both ends of one must do alike.
//!
//! [`cri`] is our own subset of the CRI v1 API: only the messages and fields that Berth reads or that
//! `berthctl play` writes. A message decoded with it loses what it does not know, so it is never encoded
//! again and sent on: what passes between kubelet and runtime passes as bytes (`berth-shim`). [`admin`] is
//! the API between `berthctl` and `berthd`, [`health`] what a `grpc` probe asks. [`crd`] are the custom
//! resources, [`image`] the references in them, [`sealing`] what the manager gives to one node alone,
//! [`docker_config`] where credentials are found, [`names`] which names Kubernetes accepts, [`causes`] and
//! [`quoting`] how errors are told: once, and without what they are about, [`text`] what is left of a text
//! that is too long or for a terminal, [`nested`] of an object that is too deep, [`percent`] what a share is,
//! [`template_history`] what pods may go back to, [`shown_end`] how a pod shows that its update has ended.

/// CRI v1 (`runtime.v1`), the part of it that Berth reads: the messages of `berth-cri`, and the services.
#[allow(missing_docs, clippy::all, clippy::use_self, reason = "generated code")]
pub mod cri {
    pub use berth_cri::*;

    tonic::include_proto!("runtime.v1");
}

/// The admin API of `berthd` (`berth.admin.v1alpha1`), spoken over a root-only unix socket.
#[allow(missing_docs, clippy::all, clippy::use_self, reason = "generated code")]
pub mod admin {
    tonic::include_proto!("berth.admin.v1alpha1");
}

/// gRPC's own health checking (`grpc.health.v1`).
#[allow(missing_docs, clippy::all, clippy::use_self, reason = "generated code")]
pub mod health {
    tonic::include_proto!("grpc.health.v1");
}

pub mod causes;
pub mod crd;
pub mod docker_config;
pub mod image;
pub mod names;
pub mod nested;
pub mod percent;
pub mod quoting;
pub mod remedy;
pub mod sealing;
pub mod shown_end;
pub mod size;
pub mod template_history;
pub mod text;
