//! The controller that the kinds of jobs and UnitedDeployments share: what a [`Picture`] of theirs shows is
//! planned, and a plan is carried out by a [`Work`].
//!
//! ```text
//!  inputs, answers ──▶ Picture ──▶ Plan ──▶ Work ──▶ writes
//!                         ▲                   │
//!                         └────── Report ─────┘
//! ```
//!
//! An object that makes no sense, or on which a plan ends in a panic, is set aside; the others go on.

mod controller;
mod memory;
mod work;

use std::{collections::BTreeSet, time::Duration};

use berth_workloads_policy::action::Note;
use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::Value;

pub(crate) use self::{
    controller::Controller,
    memory::Memory,
    work::{End, Work},
};
use crate::{
    event_loop::Listed,
    object::Object,
    owned::Concerned,
    reading::Ended,
    write::{Failure, Writer},
};

/// Errors of the API server in a plan after which its rest is decided anew: each may be a webhook that does
/// not answer for many seconds, and others wait for the place of this plan.
pub(crate) const MOST_ERRORS: usize = 4;

/// Writes that are due for an object.
#[derive(Debug)]
pub(crate) struct Plan<A> {
    /// Writes, in their order.
    pub(crate) actions: Vec<A>,
    /// Status, when it differs from the one on file.
    pub(crate) status: Option<Value>,
    /// The status is a decision: it does not wait for its turn, and is on file before the first of the
    /// writes.
    pub(crate) status_first: bool,
    /// Time after which something else may be due, though nothing changes.
    pub(crate) again: Option<Duration>,
    /// Things to tell.
    pub(crate) notes: Vec<Note>,
}

impl<A> Plan<A> {
    /// Tells whether anything is to be written.
    fn has_writes(&self) -> bool {
        !self.actions.is_empty() || self.status.is_some()
    }
}

/// Picture of the cluster as the kinds of a controller need it, and what they do with it.
pub(crate) trait Picture: Sized + Send + 'static {
    /// Event of a watch.
    type Input: Send;
    /// An object that is decided on.
    type Object: Object + Clone + Send;
    /// A write.
    type Action: Send;
    /// An answer of the API server to a write, or to a reading of one object.
    type Wrote: Send;
    /// Objects of a namespace, as they are read at the start of a term.
    type Found: Send;

    /// Kinds that are watched, and whether all of each was listed.
    fn listed(&self) -> Listed;

    /// Each kind, and how many objects of it there are.
    fn sizes(&self) -> Vec<(&'static str, usize)>;

    /// Tells whether a list is complete with this event.
    fn ends_list(input: &Self::Input) -> bool;

    /// Takes in what a watch shows.
    fn take(&mut self, input: Self::Input) -> Concerned;

    /// All objects that are decided on.
    fn objects(&self) -> impl Iterator<Item = &Self::Object>;

    /// Namespace and UID of all objects, also of those that are not decided on for want of room.
    fn all(&self) -> impl Iterator<Item = (&str, &str)>;

    /// The object of that UID, if it is decided on.
    fn object(&self, uid: &str) -> Option<&Self::Object>;

    /// Tells whether so little is known of that object that it is read before it is planned.
    fn lacks(&self, _uid: &str) -> bool {
        false
    }

    /// Objects that were set aside for want of room since this was asked last.
    fn left_out(&mut self) -> Vec<ObjectReference> {
        Vec::new()
    }

    /// All that are.
    fn all_left_out(&self) -> Vec<ObjectReference> {
        Vec::new()
    }

    /// Kind of an object, where there are several.
    fn kind(_object: &Self::Object) -> &'static str {
        ""
    }

    /// Reads all objects of these namespaces from the API server.
    fn read_all(
        &self,
        writer: Writer,
        term: u64,
        namespaces: BTreeSet<String>,
    ) -> BoxFuture<'static, Ended<Self::Found>>;

    /// Takes in all objects of a namespace, as they were read at once. Those with these UIDs are `known` to
    /// be in it. UIDs of those that something new was found for.
    fn found(&mut self, known: &[String], found: Self::Found) -> Vec<String>;

    /// Decides on the next writes for an object.
    fn plan(&self, object: &Self::Object, memory: &Memory, now: Timestamp) -> Plan<Self::Action>;

    /// Carries out a plan.
    fn carry_out(work: &mut Work<Self>, plan: Plan<Self::Action>) -> impl Future<Output = End> + Send;

    /// Reads an object and all that it has made from the API server.
    fn read(work: &mut Work<Self>) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Takes in an answer that is about the object of that UID. UIDs of those that something new was found
    /// for: the watch, which comes later, shows no news then.
    fn wrote(&mut self, uid: &str, wrote: Self::Wrote) -> Vec<String>;
}
