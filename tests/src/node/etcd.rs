//! The API server's store. It need not survive a power failure, so it does not wait for the disk.

use std::sync::Arc;

use anyhow::Result;

use super::run_dir::{Port, Run};
use super::service::Service;

/// A single etcd.
#[derive(Debug)]
pub struct Etcd {
    service: Service,
}

impl Etcd {
    /// Starts it; the API server waits for it by itself.
    pub fn start(run: &Arc<Run>) -> Result<Self> {
        let data = run.make_dir("etcd")?;
        let (client, peer) = (
            format!("http://{}", run.address(Port::Etcd)),
            format!("http://{}", run.address(Port::EtcdPeer)),
        );
        let args = [
            ("--name", "berth"),
            ("--data-dir", &data.display().to_string()),
            ("--listen-client-urls", &client),
            ("--advertise-client-urls", &client),
            ("--listen-peer-urls", &peer),
            ("--initial-advertise-peer-urls", &peer),
            ("--initial-cluster", &format!("berth={peer}")),
            ("--unsafe-no-fsync", "true"),
        ];
        let args = args.into_iter().map(|(flag, value)| format!("{flag}={value}")).collect();
        let service = Service::new(run, "etcd", "etcd", args);
        service.start()?;
        Ok(Self { service })
    }

    /// Its process.
    pub fn service(&self) -> &Service {
        &self.service
    }
}
