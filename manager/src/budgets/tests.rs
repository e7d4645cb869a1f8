//! The core of budgets: what a budget asks for, what is answered, what is counted, and histories of all of it.

mod answers;
mod counting;
mod random;
mod world;
