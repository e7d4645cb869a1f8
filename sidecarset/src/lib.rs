//! SidecarSets, decided: which pods a set takes, what is injected into them, what a set that is written gets
//! filled in, and why it is refused.
//!
//! This crate is pure. It reads no clock and no file, talks to nobody, and what is random is an argument. The
//! admission server of the manager calls it for each pod and each set. Its contract is OpenKruise 1.4: pods
//! that were injected there are those of the same sets here. Where later versions mended something, it is
//! mended; sets come in the order of their names.
//!
//! Pods and sets are `serde_json` values, for what a type does not know would be lost.

mod approval;
mod check;
mod defaults;
mod fault;
mod filed;
mod golang;
mod hash;
mod history;
mod inject;
mod json;
mod matching;
pub mod names;
mod patch;
mod revision;
mod revisions;
mod selector;
mod set;
mod sidecar;
mod since;
pub mod upgradable;
mod white_list;

pub use approval::{REVISIONS, approve, approves, digest};
pub use check::{check, warnings};
pub use defaults::complete;
pub use fault::{Fault, Refusal};
pub use filed::{FiledRevision, FiledSet, Refile, RefileError, SET_LABEL, is_filed, refile};
pub use hash::Hashes;
pub use history::{Content, HistoryError, decode, encode, fields_of};
pub use inject::{Injected, inject};
pub use matching::Context;
pub use patch::patch;
pub use revisions::{Edit, Recorded, Registered, Revisions};
pub use set::Set;
pub use since::{INJECTED_SINCE, note_since};
pub use white_list::{WHITE_LIST_KEY, WhiteList};
