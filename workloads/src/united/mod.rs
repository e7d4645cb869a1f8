//! Controller of UnitedDeployments: watches, a picture of the cluster, plans, and writes.
//!
//! It can be left out, and with it its watches and the rights that they need. What is decided is decided in
//! `berth-workloads-policy`. One object that makes no sense, or on which a plan ends in a panic, is set
//! aside; the others go on.

mod object;
mod picture;
mod read;
mod watches;
mod write;

use tokio::{sync::mpsc, task::JoinSet};

use self::picture::UnitedDeployments;
use crate::{
    event_loop::{Connections, Listed},
    planner::{Controller, Picture},
    write::Writer,
};

/// Inputs that wait for the picture. Past them the watches wait, and with them the API server.
const INPUTS: usize = 1024;

/// Kinds that are to be listed before anything is decided.
pub(crate) fn listed(is_on: bool) -> Listed {
    if is_on { UnitedDeployments::default().listed() } else { Listed::new() }
}

/// Starts the controller and its watches.
pub(crate) fn start(connections: Connections, tasks: &mut JoinSet<()>) {
    let (sender, inputs) = mpsc::channel(INPUTS);
    let Writer { client, metrics, .. } = &connections.writer;
    watches::start(client, &sender, metrics, tasks);
    tasks.spawn(Controller::new(UnitedDeployments::default(), connections, inputs).run());
}

#[cfg(test)]
mod tests;
