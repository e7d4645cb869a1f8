//! Tables of cases: what is injected, what is refused, what is filled in.

mod check;
mod hash;
mod hostile;
mod injection;
mod matching;
mod revisions;
mod worked;
mod world;
