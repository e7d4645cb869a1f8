//! The index against a cluster in miniature.

mod counters;
mod random;
mod rollout;
mod world;
