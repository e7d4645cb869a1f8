//! An image registry on loopback, for tests that pull. containerd speaks plain HTTP to a loopback address by itself.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::http;
use super::run_dir::{Port, Run};
use super::service::Service;
use super::tool::run as tool;
use crate::wait::await_condition;

/// A docker-registry.
#[derive(Debug)]
pub struct Registry {
    service: Service,
    address: String,
}

impl Registry {
    /// Starts an empty one.
    pub async fn start(run: &Arc<Run>) -> Result<Self> {
        let address = run.address(Port::Registry);
        let root = run.make_dir("registry")?;
        let config = run.write(
            "registry.yaml",
            &format!(
                "version: 0.1\nlog:\n  level: info\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: {address}\n",
                root.display()
            ),
        )?;
        let args = vec!["serve".to_owned(), config.display().to_string()];
        let registry = Self { service: Service::new(run, "registry", "docker-registry", args), address };
        registry.service.start()?;
        await_condition("the registry answers", Duration::from_secs(30), async || {
            registry.service.check_running()?;
            let answer = http::get(&registry.address, "/v2/").await?;
            ensure!(answer.status == 200, "status {}", answer.status);
            Ok(())
        })
        .await?;
        Ok(registry)
    }

    /// Its process.
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// Puts an archive into it and gives the reference to pull it by.
    pub async fn push(&self, archive: &Path, name: &str) -> Result<String> {
        let reference = format!("{}/{name}", self.address);
        let (from, to) = (format!("docker-archive:{}", archive.display()), format!("docker://{reference}"));
        tool("skopeo", &["copy", "--quiet", "--insecure-policy", "--dest-tls-verify=false", &from, &to])
            .await?;
        Ok(reference)
    }
}
