//! The index against a cluster in miniature.

mod accepted;
mod collisions;
mod counters;
mod filing;
mod pauses;
mod random;
mod rollout;
mod silent;
mod turns;
mod withdrawals;
mod world;
