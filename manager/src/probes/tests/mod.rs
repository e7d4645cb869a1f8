//! Conversations with a cluster in miniature, and random ones.

mod conflicts;
mod cost;
mod pace;
mod random;
mod room;
mod selection;
mod specs;
mod world;
