//! Tables of decisions, a feature a file, and a model test over random operations.

mod beside;
mod bookkeeping;
mod distinct_seconds;
mod early_readiness;
mod early_runs;
mod exit_order;
mod extremes;
mod facts;
mod foresee;
mod handed_over;
mod images;
mod in_advance;
mod in_place_update;
mod inspections;
mod instances;
mod job_sidecars;
mod launch_order;
mod launch_priority;
mod model;
mod pod_view;
mod probes;
mod probing;
mod recreate;
mod restart_policies;
mod set_aside;
mod timeline;
pub(crate) mod world;
