//! berth-workloads, one replica or two.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use super::http;
use super::manager::Replica;
use super::programs;
use super::run_dir::{Port, Run};
use super::service::Service;
use crate::wait::{START_UP, await_condition};

/// A replica of berth-workloads.
#[derive(Debug)]
pub struct Workloads {
    service: Service,
    health: String,
    metrics: String,
}

impl Workloads {
    /// Starts it as whomever the kubeconfig stands for, with its Lease in a namespace, and waits until it is
    /// ready.
    pub async fn start(run: &Arc<Run>, kubeconfig: &Path, namespace: &str) -> Result<Self> {
        Self::start_with(run, kubeconfig, namespace, &[]).await
    }

    /// The same with more options.
    pub async fn start_with(
        run: &Arc<Run>,
        kubeconfig: &Path,
        namespace: &str,
        more: &[&str],
    ) -> Result<Self> {
        let workloads = Self::launch(run, kubeconfig, namespace, more)?;
        workloads.ready().await?;
        Ok(workloads)
    }

    /// The same without the wait.
    pub fn launch(run: &Arc<Run>, kubeconfig: &Path, namespace: &str, more: &[&str]) -> Result<Self> {
        Self::launch_as(run, Replica::First, kubeconfig, namespace, more)
    }

    /// The same of two.
    pub fn launch_as(
        run: &Arc<Run>,
        replica: Replica,
        kubeconfig: &Path,
        namespace: &str,
        more: &[&str],
    ) -> Result<Self> {
        let (name, health, metrics) = match replica {
            Replica::First => ("workloads", Port::Workloads, Port::WorkloadsMetrics),
            Replica::Second => ("workloads-next", Port::WorkloadsNext, Port::WorkloadsNextMetrics),
        };
        let (health, metrics) = (run.address(health), run.address(metrics));
        let mut args = vec![
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--identity={name}"),
            format!("--namespace={namespace}"),
            format!("--health-address={health}"),
            format!("--metrics-address={metrics}"),
            "-v".to_owned(),
        ];
        // Whoever takes over in a test does so soon.
        if !more.iter().any(|arg| arg.starts_with("--lease-duration=")) {
            args.push("--lease-duration=3".to_owned());
        }
        args.extend(more.iter().map(|arg| (*arg).to_owned()));
        let service = Service::new(run, name, programs::workloads()?, args);
        let workloads = Self { service, health, metrics };
        workloads.service.start()?;
        Ok(workloads)
    }

    /// Its process.
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// Waits until it has listed everything once.
    pub async fn ready(&self) -> Result<()> {
        self.ready_within(START_UP).await
    }

    /// The same in a cluster so large that its list takes longer than is usual.
    pub async fn ready_within(&self, patience: Duration) -> Result<()> {
        await_condition("berth-workloads is ready", patience, async || {
            self.service.check_running()?;
            http::is_ready(&self.health).await
        })
        .await
    }

    /// The sum of a metric over all its labels; one that was never counted is 0.
    pub async fn metric(&self, name: &str) -> Result<f64> {
        self.metric_of(name, "").await
    }

    /// The same with this label alone, such as `what="patch"`.
    pub async fn metric_of(&self, name: &str, label: &str) -> Result<f64> {
        let lines = self.lines(name).await?;
        let of_label = lines.iter().filter(|line| line.contains(label));
        of_label.filter_map(|line| line.rsplit(' ').next()).map(|value| Ok(value.parse::<f64>()?)).sum()
    }

    /// Lines of a metric without its name: labels and value, one line for each set of labels.
    pub async fn lines(&self, name: &str) -> Result<Vec<String>> {
        let text = http::get(&self.metrics, "/metrics").await?.body;
        let of_name = text.lines().filter_map(|line| line.strip_prefix(name));
        Ok(of_name.filter(|rest| rest.starts_with([' ', '{'])).map(str::to_owned).collect())
    }
}
