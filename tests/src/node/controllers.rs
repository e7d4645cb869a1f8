//! kube-controller-manager and kube-scheduler: only for tests whose pods come from Jobs, Deployments or the
//! scheduler.

use std::sync::Arc;

use anyhow::Result;
use tokio::net::TcpStream;

use super::api_server::{ApiServer, User};
use super::programs;
use super::run_dir::{Port, Run};
use super::service::Service;
use crate::wait::{START_UP, await_condition};

/// Both, acting as the administrator: a test cluster has nobody to protect from them.
#[derive(Debug)]
pub struct Controllers {
    manager: Service,
    scheduler: Service,
}

impl Controllers {
    /// Starts both, with the controllers that `--controllers` names: `*` are those that are on by default.
    pub async fn start(run: &Arc<Run>, api: &ApiServer, controllers: &str) -> Result<Self> {
        let kubeconfig = api.kubeconfig(User::Admin)?.display().to_string();
        let common = |port| {
            vec![
                format!("--kubeconfig={kubeconfig}"),
                "--leader-elect=false".to_owned(),
                "--bind-address=127.0.0.1".to_owned(),
                format!("--secure-port={}", run.port(port)),
                format!("--cert-dir={}", run.path("controllers").display()),
            ]
        };
        let mut args = common(Port::ControllerManager);
        args.push(format!("--controllers={controllers}"));
        // A kubelet that says nothing for a while has other work on its machine: no Node of the tests is
        // down, and one that is called so has its pods marked, and no new ones.
        args.push("--node-monitor-grace-period=10m".to_owned());
        args.push(format!(
            "--service-account-private-key-file={}",
            run.path("api/service-account.key").display()
        ));
        // For the pods of those who speak to the server: the server wrote it itself, with the CA that signed
        // it.
        args.push(format!("--root-ca-file={}", run.path("api/apiserver.crt").display()));
        let manager = Service::new(
            run,
            "kube-controller-manager",
            programs::kubernetes("kube-controller-manager")?,
            args,
        );
        let scheduler = Service::new(
            run,
            "kube-scheduler",
            programs::kubernetes("kube-scheduler")?,
            common(Port::Scheduler),
        );
        manager.start()?;
        scheduler.start()?;
        for (service, port) in [(&manager, Port::ControllerManager), (&scheduler, Port::Scheduler)] {
            await_condition("a controller listens", START_UP, async || {
                service.check_running()?;
                TcpStream::connect(run.address(port)).await?;
                Ok(())
            })
            .await?;
        }
        Ok(Self { manager, scheduler })
    }

    /// kube-controller-manager.
    pub fn manager(&self) -> &Service {
        &self.manager
    }

    /// kube-scheduler.
    pub fn scheduler(&self) -> &Service {
        &self.scheduler
    }
}
