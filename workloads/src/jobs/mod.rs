//! Controllers of BroadcastJobs and AdvancedCronJobs: watches, a picture of the cluster, plans, and writes.
//!
//! Each of the two can be left out, and with it its watches and the rights that they need. What is decided is
//! decided in `berth-workloads-policy`. One object that makes no sense, or on which a plan ends in a panic,
//! is set aside; the others go on.

mod failed;
mod failures;
mod object;
mod picture;
mod read;
mod watches;
mod write;

use jiff::tz::TimeZone;
use tokio::{sync::mpsc, task::JoinSet};

use self::picture::Jobs;
use crate::{
    event_loop::{Connections, Listed},
    planner::{Controller, Picture},
    write::Writer,
};

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

impl Settings {
    fn is_off(&self) -> bool {
        !self.broadcast_jobs && !self.cron_jobs
    }

    /// Kinds that are to be listed before anything is decided.
    pub(crate) fn listed(&self) -> Listed {
        Jobs::new(self.clone()).listed()
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
    tasks.spawn(Controller::new(Jobs::new(settings), connections, inputs).run());
}

#[cfg(test)]
mod tests;
