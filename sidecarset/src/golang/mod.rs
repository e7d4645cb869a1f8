//! JSON as Go programs write it. The hash of a set is one of a text that OpenKruise's typed program encodes;
//! for pods to stay upgradable after a move, the text has to be the same to the byte.

mod container;
mod encode;
mod quantity;

pub(crate) use container::sidecars;
pub(crate) use encode::{merged_text, quoted, unknown};
pub(crate) use quantity::{Quantity, rewritten};
