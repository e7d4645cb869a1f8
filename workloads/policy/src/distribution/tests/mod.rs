//! Tables of the distribution.

mod refused;
mod table;
mod world;
