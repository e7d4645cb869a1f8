//! The index against a cluster in miniature.

mod accepted;
mod collisions;
mod counters;
mod fairness;
mod filing;
mod pauses;
mod random;
mod rollout;
mod silent;
mod term;
mod withdrawals;
mod world;
