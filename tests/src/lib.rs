//! Library of Berth's tests: a real node (containerd, kubelet, API server) that is brought up for one run and
//! leaves nothing behind.
//!
//! [`node`] runs the programs; [`manifest`] writes the pods that the tests play; [`observe`] reads from the
//! runtime what really happened to them. Nothing here believes what Berth says of itself: the truth is the
//! runtime's.

#![allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails, as it should")]

pub mod commands;
pub mod compare;
pub mod fake;
pub mod faults;
pub mod jobs;
pub mod manifest;
pub mod markers;
pub mod node;
pub mod observe;
#[cfg(test)]
mod pages;
pub mod recreate;
#[cfg(test)]
mod repository;
#[cfg(test)]
mod rooms;
pub mod swaps;
pub mod update;
pub mod wait;
