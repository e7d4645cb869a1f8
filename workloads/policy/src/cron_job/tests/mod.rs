//! Tables of cases, and thirty days with a controller that is killed at random.

mod month;
mod table;
mod world;
