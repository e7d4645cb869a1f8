//! An image registry on loopback, for tests that pull. containerd speaks plain HTTP to a loopback address by
//! itself.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, ensure};

use super::http;
use super::run_dir::{Port, Run};
use super::service::Service;
use super::tool::run as tool;
use crate::wait::{START_UP, await_condition};

/// Whom the private registry knows.
pub const USER: &str = "berth";
/// And by which password.
pub const PASSWORD: &str = "correct horse";
/// A line of htpasswd: bcrypt, which is all that docker-registry reads.
const HTPASSWD: &str = "berth:$2y$05$abcdefghijklmnopqrstuuHNbAKRhpaujgo33bRWs.NLUTJO3lOy2\n";

/// A docker-registry.
#[derive(Debug)]
pub struct Registry {
    service: Service,
    address: String,
    private: bool,
}

impl Registry {
    /// Starts an empty one that anybody may read and write.
    pub async fn start(run: &Arc<Run>) -> Result<Self> {
        Self::launch(run, "registry", Port::Registry, false).await
    }

    /// Starts an empty one for [`USER`] alone.
    pub async fn start_private(run: &Arc<Run>) -> Result<Self> {
        Self::launch(run, "private-registry", Port::PrivateRegistry, true).await
    }

    async fn launch(run: &Arc<Run>, name: &str, port: Port, private: bool) -> Result<Self> {
        let address = run.address(port);
        let root = run.make_dir(name)?;
        let mut config = format!(
            "version: 0.1\nlog:\n  level: info\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: {address}\n",
            root.display()
        );
        if private {
            let users = run.write(&format!("{name}.htpasswd"), HTPASSWD)?;
            config += &format!("auth:\n  htpasswd:\n    realm: berth\n    path: {}\n", users.display());
        }
        let config = run.write(&format!("{name}.yaml"), &config)?;
        let args = vec!["serve".to_owned(), config.display().to_string()];
        let registry = Self { service: Service::new(run, name, "docker-registry", args), address, private };
        registry.service.start()?;
        await_condition("the registry answers", START_UP, async || {
            registry.service.check_running()?;
            let answer = http::get(&registry.address, "/v2/").await?;
            ensure!(answer.status == if private { 401 } else { 200 }, "status {}", answer.status);
            Ok(())
        })
        .await?;
        Ok(registry)
    }

    /// Host and port.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Its process.
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// Puts an archive into it and gives the reference to pull it by.
    pub async fn push(&self, archive: &Path, name: &str) -> Result<String> {
        self.push_from(&format!("docker-archive:{}", archive.display()), name).await
    }

    /// Pushes an image from wherever skopeo finds it, such as `oci-archive:PATH`, and returns its reference.
    pub async fn push_from(&self, from: &str, name: &str) -> Result<String> {
        let reference = format!("{}/{name}", self.address);
        let to = format!("docker://{reference}");
        let user = format!("--dest-creds={USER}:{PASSWORD}");
        let mut args = vec!["copy", "--quiet", "--insecure-policy", "--dest-tls-verify=false"];
        if self.private {
            args.push(&user);
        }
        args.extend([from, &to]);
        tool("skopeo", &args).await?;
        Ok(reference)
    }
}
