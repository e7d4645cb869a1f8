//! The core of updates: tables of single decisions, and random facts, answers and failures against a
//! simulated pod.

mod checks;
mod ends;
mod kubelet;
mod model;
mod moments;
mod play;
mod resets;
mod rests;
mod shown;
mod store;
mod views;
mod writes;
