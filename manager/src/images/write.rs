//! Writes that the index wants, as values.

use std::sync::Arc;

use berth_proto::crd::{DesiredImage, ImagePullJobStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::store::Key;

/// The Secrets of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// The job's UID.
    pub uid: Arc<str>,
    /// The job.
    pub job: Key,
    /// The names of its Secrets, in its namespace.
    pub names: Box<[String]>,
    /// Image to pull with them.
    pub image: String,
}

/// All that is wanted of one node from now on: what is left out is taken back.
#[derive(Clone, Debug)]
pub struct NodeImageWrite {
    /// The name of the node, and of its NodeImage.
    pub node: Arc<str>,
    /// UID of the NodeImage.
    pub uid: Box<str>,
    /// The version it was decided on.
    pub resource_version: Box<str>,
    /// Public key for all that is sealed for the node.
    pub sealing_key: Option<Arc<str>>,
    /// Sorted by UID.
    pub wishes: Vec<Wish>,
}

/// One entry of `desiredImages`.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Without what differs from node to node; shared by all nodes of a job.
    pub content: Arc<DesiredImage>,
    /// Since when it is wanted.
    pub since: Option<Time>,
    /// Its credentials.
    pub seal: Seal,
}

impl Wish {
    /// The entry as it is written, but for credentials that are still to be sealed.
    pub fn entry(&self) -> DesiredImage {
        DesiredImage { since: self.since.clone(), ..DesiredImage::clone(&self.content) }
    }
}

/// Credentials of a wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seal {
    /// As the object has them already, or none. A seal is never made anew: it would differ by chance alone.
    Present(Arc<[String]>),
    /// To be sealed when the write is sent.
    Owed,
}

/// A write to a job.
#[derive(Clone, Debug)]
pub struct JobWrite {
    /// Which job.
    pub key: Key,
    /// Which one of that name.
    pub uid: Arc<str>,
    /// The version it was decided on.
    pub resource_version: Box<str>,
    /// Act on the job.
    pub act: JobAct,
}

/// Act on a job.
#[derive(Clone, Debug, PartialEq)]
pub enum JobAct {
    /// Its status is to be this: every field that is the manager's.
    Status(Box<ImagePullJobStatus>),
    /// It is over, its time after that too.
    Delete,
}
