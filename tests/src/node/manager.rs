//! berth-manager, one replica or two.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, ensure};

use super::Node;
use super::api_server::User;
use super::http;
use super::programs;
use super::run_dir::{Port, Run};
use super::service::Service;
use crate::wait::{START_UP, await_condition};

/// Which replica; each has ports of its own.
#[derive(Clone, Copy, Debug)]
pub enum Replica {
    /// The first.
    First,
    /// The second.
    Second,
}

impl Replica {
    /// Port of its admission server.
    fn admission(self) -> Port {
        match self {
            Self::First => Port::ManagerAdmission,
            Self::Second => Port::ManagerNextAdmission,
        }
    }
}

/// A replica of berth-manager.
#[derive(Debug)]
pub struct Manager {
    service: Service,
    health: String,
    metrics: String,
}

impl Manager {
    /// Starts the only one of a node's cluster, with all rights, and waits until it leads. `namespace` has
    /// its Lease.
    pub async fn leading(node: &Node, namespace: &str) -> Result<Self> {
        let kubeconfig = node.api()?.kubeconfig(User::Admin)?;
        let manager = Self::start(node.run(), Replica::First, &kubeconfig, (namespace, 15)).await?;
        manager.leads().await?;
        Ok(manager)
    }

    /// Starts it as whomever the kubeconfig stands for and waits until it is ready. `lease` is the Lease's
    /// namespace and its duration in seconds, at least 3.
    pub async fn start(
        run: &Arc<Run>,
        replica: Replica,
        kubeconfig: &Path,
        lease: (&str, u16),
    ) -> Result<Self> {
        Self::start_with(run, replica, kubeconfig, lease, &[]).await
    }

    /// The same, with its admission server.
    pub async fn admitting(
        run: &Arc<Run>,
        replica: Replica,
        kubeconfig: &Path,
        lease: (&str, u16),
    ) -> Result<Self> {
        let address = run.address(replica.admission());
        let admits = format!("--admission-address={address}");
        // Without a budget there is nothing that this limits.
        Self::start_with(run, replica, kubeconfig, lease, &[&admits, "--budget-updates=true"]).await
    }

    /// The same, with more arguments.
    pub async fn start_with(
        run: &Arc<Run>,
        replica: Replica,
        kubeconfig: &Path,
        lease: (&str, u16),
        more: &[&str],
    ) -> Result<Self> {
        let (name, health, metrics) = match replica {
            Replica::First => ("manager", Port::Manager, Port::ManagerMetrics),
            Replica::Second => ("manager-next", Port::ManagerNext, Port::ManagerNextMetrics),
        };
        let (health, metrics) = (run.address(health), run.address(metrics));
        let mut args = vec![
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--namespace={}", lease.0),
            format!("--lease-duration={}", lease.1),
            format!("--identity={name}"),
            format!("--health-address={health}"),
            format!("--metrics-address={metrics}"),
        ];
        args.extend(more.iter().map(|one| (*one).to_owned()));
        let service = Service::new(run, name, programs::manager()?, args);
        let manager = Self { service, health, metrics };
        manager.service.start()?;
        manager.ready().await?;
        Ok(manager)
    }

    /// Its process.
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// The addresses of the admission servers of both replicas.
    pub fn admission_addresses(run: &Run) -> [String; 2] {
        [Port::ManagerAdmission, Port::ManagerNextAdmission].map(|port| run.address(port))
    }

    /// Waits until it has listed everything once.
    pub async fn ready(&self) -> Result<()> {
        await_condition("berth-manager is ready", START_UP, async || {
            self.service.check_running()?;
            http::is_ready(&self.health).await
        })
        .await
    }

    /// Waits until it leads.
    pub async fn leads(&self) -> Result<()> {
        await_condition("berth-manager leads", START_UP, async || {
            self.service.check_running()?;
            let leads = self.metric("berth_manager_leads").await?;
            ensure!(leads == 1.0, "it does not");
            Ok(())
        })
        .await
    }

    /// The value of a metric; `name` with its labels, as in the text. One that was never counted is 0.
    pub async fn metric(&self, name: &str) -> Result<f64> {
        let text = http::get(&self.metrics, "/metrics").await?.body;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        Ok(value.map(str::parse).transpose()?.unwrap_or_default())
    }
}
