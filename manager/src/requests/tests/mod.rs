//! Tables of decisions: assignment, deadlines, what happens in which order, and a model test over random
//! orders.

mod assignment;
mod deadlines;
mod ended;
mod noted;
mod order;
mod patches;
mod permits;
mod random;
mod spec;
mod updates;
mod world;
