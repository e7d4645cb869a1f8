//! Conversations with a cluster in miniature, and random ones.

mod aside;
mod endings;
mod failover;
mod jobs;
mod queue;
mod random;
mod room_of_nodes;
mod secrets;
mod selection;
mod world;
