//! The controller of ResourceDistributions: watches, a picture of the cluster, plans, and writes.
//!
//! It runs alone, under an identity of its own: that one reads and writes Secrets, and no other of Berth's
//! does. What is decided is decided in `berth-workloads-policy`. Of the Secrets and ConfigMaps of a cluster
//! only copies are watched, by their label, and of their content nothing but a hash is kept. One object that
//! makes no sense, or on which a plan ends in a panic, is set aside; the others go on.

mod controller;
mod memory;
mod picture;
mod watches;
mod write;

use tokio::{sync::mpsc, task::JoinSet};

use self::{controller::Controller, picture::Picture};
use crate::{
    event_loop::{Connections, Listed},
    write::Writer,
};

/// Inputs that wait for the picture. Past them the watches wait, and with them the API server.
const INPUTS: usize = 64;

/// Kinds that are to be listed before anything is decided.
pub(crate) fn listed() -> Listed {
    Picture::default().listed()
}

/// Starts the controller and its watches; `everywhere`, the namespaces of the cluster are as all others.
pub(crate) fn start(connections: Connections, everywhere: bool, tasks: &mut JoinSet<()>) {
    let (sender, inputs) = mpsc::channel(INPUTS);
    let Writer { client, metrics, .. } = &connections.writer;
    watches::start(client, &sender, metrics, tasks);
    tasks.spawn(Controller::new(connections, everywhere, inputs).run());
}
