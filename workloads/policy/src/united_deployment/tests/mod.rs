//! Tables of cases, a cluster that follows the plans, and objects that make no sense.

mod allocation;
mod build;
mod hostile;
mod life;
mod world;
