//! The images this node should have, from wherever they are wished, and what is told of them.
//!
//! ```text
//!   NodeImage (API server) ── api ───┐                     ┌── crate::images: look, pull, cancel, pin
//!   NodeImage files ───────── files ─┼── SharedImages ─────┤
//!   berthctl pull ─────────── admin ─┘         ^           └── reports: status of the NodeImage, berthctl pulls
//!                                              |
//!   the kubelet's own pulls ── gate ────────────'
//! ```
//!
//! Nothing here decides about a pull; that is the policy's.

mod api;
mod aside;
mod files;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
mod news;
mod reconcile;
mod shared;
mod spec;
mod start;
mod status;
mod wishes;
mod written;

#[cfg(test)]
mod tests;

pub(crate) use self::wishes::plain;
pub(crate) use self::{
    api::NodeImages,
    files::ImageFiles,
    reconcile::reconcile,
    shared::SharedImages,
    start::{limits, start},
};
