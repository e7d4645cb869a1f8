//! The admission server at a real API server: which reaches it by its Service, with the manager's own rights
//! and under the policies of `deploy/`. Pods are on paper, because nothing of it needs more.

mod budgets;
mod configuration;
mod conversion;
mod given;
mod injection;
mod older_policy;
mod open_labels;
mod pod_states;
mod pods;
mod policy;
mod protection;
mod requests;
mod rotation;
mod scene;
mod template_history;
mod typed;

pub(crate) use self::scene::{Door, install_admission};
