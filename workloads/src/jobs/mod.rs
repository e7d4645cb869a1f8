//! Controllers of BroadcastJobs and AdvancedCronJobs: watches, a picture of the cluster, plans, and writes.
//!
//! Each of the two can be left out, and with it its watches and the rights that they need. What is decided is
//! decided in `berth-workloads-policy`. One object that makes no sense, or on which a plan ends in a panic,
//! is set aside; the others go on.

mod controller;
mod memory;
mod object;
mod picture;
mod read;
mod watches;
mod write;

use berth_base::lease::Tenure;
use jiff::tz::TimeZone;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};

use self::{controller::Controller, picture::Picture};
pub(crate) use self::{memory::Memory, picture::Listed};
use crate::write::Writer;

/// Inputs that wait for the picture. Past them the watches wait, and with them the API server.
const INPUTS: usize = 1024;

/// Which controllers run, and how.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) broadcast_jobs: bool,
    pub(crate) cron_jobs: bool,
    /// Pods of BroadcastJobs are tied to their nodes by affinity, and the scheduler places them.
    pub(crate) by_scheduler: bool,
    /// Zone of schedules that name none.
    pub(crate) zone: TimeZone,
}

/// Connections of the controllers.
pub(crate) struct Connections {
    pub(crate) tenure: Tenure,
    pub(crate) writer: Writer,
    pub(crate) listed: watch::Sender<Listed>,
}

impl Settings {
    fn is_off(&self) -> bool {
        !self.broadcast_jobs && !self.cron_jobs
    }

    /// Kinds that are to be listed before anything is decided.
    pub(crate) fn listed(&self) -> Listed {
        Picture::new(self).listed()
    }
}

/// Starts the controllers that run, and their watches.
pub(crate) fn start(settings: Settings, connections: Connections, tasks: &mut JoinSet<()>) {
    if settings.is_off() {
        return;
    }
    let (sender, inputs) = mpsc::channel(INPUTS);
    let Writer { client, metrics, .. } = &connections.writer;
    watches::start(&settings, client, &sender, metrics, tasks);
    tasks.spawn(Controller::new(settings, connections, inputs).run());
}

#[cfg(test)]
mod tests;
