//! Controller of UnitedDeployments: watches, a picture of the cluster, plans, and writes.
//!
//! It can be left out, and with it its watches and the rights that they need. What is decided is decided in
//! `berth-workloads-policy`. One object that makes no sense, or on which a plan ends in a panic, is set
//! aside; the others go on.

mod controller;
mod object;
mod picture;
mod read;
mod watches;
mod write;

use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};

use self::{controller::Controller, picture::Picture};
use crate::{jobs::Listed, write::Writer};

/// Inputs that wait for the picture. Past them the watches wait, and with them the API server.
const INPUTS: usize = 1024;

/// Connections of the controller.
pub(crate) struct Connections {
    pub(crate) tenure: berth_base::lease::Tenure,
    pub(crate) writer: Writer,
    pub(crate) listed: watch::Sender<Listed>,
}

/// Kinds that are to be listed before anything is decided.
pub(crate) fn listed(is_on: bool) -> Listed {
    if is_on { Picture::default().listed() } else { Listed::new() }
}

/// Starts the controller and its watches.
pub(crate) fn start(connections: Connections, tasks: &mut JoinSet<()>) {
    let (sender, inputs) = mpsc::channel(INPUTS);
    let Writer { client, metrics, .. } = &connections.writer;
    watches::start(client, &sender, metrics, tasks);
    tasks.spawn(Controller::new(connections, inputs).run());
}

#[cfg(test)]
mod tests;
