//! Tables of decisions, a feature a file, and a model test over random operations.

mod bookkeeping;
mod exit_order;
mod images;
mod in_place_update;
mod instances;
mod launch_order;
mod launch_priority;
mod model;
mod pod_view;
mod recreate;
mod world;
