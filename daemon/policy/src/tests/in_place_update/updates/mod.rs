//! The core of updates: tables of single decisions, and random facts, answers and failures against a simulated pod.

mod model;
mod moments;
mod play;
mod store;
