//! The core of budgets: what one asks for, what is answered, what is counted, and histories of all of it.

mod adopted;
mod answers;
mod cost;
mod counting;
mod crowd;
mod finding;
mod random;
mod recreated;
mod shared;
mod world;
