//! Tables of cases, and two hundred nodes that come and go.

mod nodes;
mod table;
mod unfit;
mod world;
