//! In-place updates: tables, conversations and random ones, against a small simulated pod.

mod batches;
mod failures;
mod model;
mod record;
mod replaced;
mod world;
