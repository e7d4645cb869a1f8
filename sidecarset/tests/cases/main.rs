//! Tables of cases: what is injected, what is refused, what is filled in.

// The worlds and rows are tests too, though no attribute says so.
#![allow(clippy::unwrap_used)]

mod check;
mod filed;
mod hash;
mod hostile;
mod injection;
mod matching;
mod revisions;
mod worked;
mod world;
