//! The node of all cells, and what is true of it after each.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kube::{Api, Client};

use super::churn::Churn;
use super::matrix::{Programs, Row};
use super::site::{NAMESPACE, PATIENCE, Site};
use super::{store, strike};
use crate::node::{Berthd, Node};
use crate::observe::node_ready;
use crate::wait::await_condition;

/// MiB for berthd's store: enough, and quickly filled.
const STATE_DISK: u32 = 8;

/// A node with everything, on which pods come and go.
pub(super) struct Bed {
    pub(super) node: Node,
    pub(super) client: Client,
    pub(super) site: Site,
    pub(super) churn: Churn,
}

impl Bed {
    pub(super) async fn start(programs: Programs) -> Result<Self> {
        let node = Node::builder().controllers(true).state_disk(STATE_DISK);
        let node = match programs {
            Programs::One => node,
            Programs::Two => node.two_programs(),
        };
        let node = node.start_updating().await?;
        let client = node.client().await?;
        let site = Site { pods: Api::namespaced(client.clone(), NAMESPACE), cri: node.containerd().cri()? };
        let churn = Churn::start(&site);
        Ok(Self { node, client, site, churn })
    }

    pub(super) fn berthd(&self) -> Result<&Berthd> {
        self.node.berthd()
    }

    /// Has berthd stand still at the first point of the row, from now on.
    pub(super) fn arm(&self, row: &Row) -> Result<()> {
        match row.points.first() {
            Some(point) => self.berthd()?.pause_at(point.name()),
            None => Ok(()),
        }
    }

    /// At each point of the row: waits until berthd stands there, and lets happen what is to happen. In the
    /// end the node is made whole; tells since when.
    pub(super) async fn strike(&self, row: &Row) -> Result<Instant> {
        let berthd = self.berthd()?;
        for (at, point) in row.points.iter().enumerate() {
            let point = point.name();
            let what = format!("not reached: berthd at {point}");
            let pid = await_condition(what, PATIENCE, async || berthd.at_point()).await?;
            // Before it goes on: it may be there at once.
            match row.points.get(at + 1) {
                Some(next) => berthd.pause_at(next.name())?,
                None => berthd.pass_all_points()?,
            }
            let struck = strike::strike(self, row, pid).await;
            struck.with_context(|| format!("{} at {point}", row.fault.name()))?;
        }
        Ok(Instant::now())
    }

    /// As it is to be after a row: a pod that was made since then comes and goes, berthd serves and has no
    /// marks, the node is Ready.
    pub(super) async fn whole(&self, since: Instant) -> Result<()> {
        self.churn.goes_on(since).await?;
        let berthd = self.berthd()?;
        berthd.ready().await?;
        await_condition("the node is Ready", PATIENCE, async || node_ready(&self.client).await).await?;
        await_condition("no marks are left", PATIENCE, async || {
            let marks = store::marks(&berthd.state_dir())?;
            ensure!(marks.is_empty(), "{marks:?}");
            Ok(())
        })
        .await
    }

    /// How often berthd's store has failed since it was started, as it says itself.
    pub(super) async fn store_failures(&self) -> Result<u64> {
        let metrics = self.berthd()?.metrics().await?;
        let value = metrics.lines().find_map(|line| line.strip_prefix("berth_agent_store_failures_total "));
        Ok(value.context("no metric")?.trim().parse()?)
    }

    /// After a row that failed: whatever is down is started, whatever stands still goes on. What cannot be
    /// mended fails the next row as well, in its own words.
    pub(super) async fn mend(&self) -> Result<()> {
        let berthd = self.berthd()?;
        if let Ok(pid) = berthd.at_point() {
            strike::go_on(pid)?;
        }
        berthd.pass_all_points()?;
        if berthd.service().has_ended()? {
            berthd.service().start()?;
        }
        if berthd.shim().is_some_and(|shim| shim.has_ended().unwrap_or(false)) {
            berthd.start_shim()?;
        }
        let api = self.node.api()?;
        if api.service().has_ended()? {
            api.service().start()?;
        }
        let containerd = self.node.containerd();
        if containerd.service().has_ended()? {
            containerd.service().start()?;
        }
        api.ready().await?;
        containerd.ready().await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        berthd.ready().await
    }
}
