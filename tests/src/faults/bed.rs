//! The node of all cells, and what is true of it after each.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::{Api, Client};

use super::churn::Churn;
use super::matrix::Cell;
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
    pub(super) async fn start() -> Result<Self> {
        let node = Node::builder().controllers(true).state_disk(STATE_DISK).start_updating().await?;
        let client = node.client().await?;
        let site = Site { pods: Api::namespaced(client.clone(), NAMESPACE), cri: node.containerd().cri()? };
        let churn = Churn::start(&site);
        Ok(Self { node, client, site, churn })
    }

    pub(super) fn berthd(&self) -> Result<&Berthd> {
        self.node.berthd()
    }

    /// Has berthd stand still where the cell says, from now on.
    pub(super) fn arm(&self, cell: &Cell) -> Result<()> {
        self.berthd()?.pause_at(cell.point)
    }

    /// Waits until it stands there, and lets happen what the cell says. In the end the node is whole again.
    pub(super) async fn strike(&self, cell: &Cell) -> Result<()> {
        let berthd = self.berthd()?;
        let what = format!("not reached: berthd at {}", cell.point);
        let pid = await_condition(what, PATIENCE, async || berthd.at_point()).await?;
        strike::strike(self, cell, pid).await.with_context(|| format!("{} of the node", cell.fault.name()))
    }

    /// As it is to be after a cell: a pod comes and goes, berthd serves and has no marks, the node is Ready.
    pub(super) async fn whole(&self) -> Result<()> {
        self.churn.goes_on().await?;
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

    /// After a cell that failed: whatever is down is started, whatever stands still goes on. What cannot be mended fails
    /// the next cell as well, in its own words.
    pub(super) async fn mend(&self) -> Result<()> {
        let berthd = self.berthd()?;
        if let Ok(pid) = berthd.at_point() {
            strike::go_on(pid)?;
        }
        berthd.pass_all_points()?;
        if berthd.service().has_ended()? {
            berthd.service().start()?;
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
