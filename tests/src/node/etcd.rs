//! The API server's store. It need not survive a power failure, so it does not wait for the disk.

use std::sync::Arc;

use anyhow::{Context, Result};
use base64::{Engine, prelude::BASE64_STANDARD};
use kube::{Client, Config};
use serde_json::{Value, json};

use super::run_dir::{Port, Run};
use super::service::Service;

/// Objects in one transaction: etcd takes 128 operations, and 1.5 MB.
const AT_ONCE: usize = 64;

/// A single etcd.
#[derive(Debug)]
pub struct Etcd {
    service: Service,
    address: String,
}

/// Objects put into the store past the API server, which reads them as if it had written them: a cluster of
/// a hundred thousand pods is there in a minute and not in an hour.
#[derive(Clone)]
pub struct Store(Client);

impl Store {
    /// Puts objects, given with their resource and in the form that is stored.
    pub async fn put(&self, objects: &[(&str, Value)]) -> Result<()> {
        let put = |(resource, object): &(&str, Value)| {
            let meta = &object["metadata"];
            let parts = [meta["namespace"].as_str(), meta["name"].as_str()].into_iter().flatten();
            let name = parts.collect::<Vec<_>>().join("/");
            let key = BASE64_STANDARD.encode(format!("/registry/{resource}/{name}"));
            let value = BASE64_STANDARD.encode(object.to_string());
            json!({ "requestPut": { "key": key, "value": value } })
        };
        for objects in objects.chunks(AT_ONCE) {
            let body = json!({ "success": objects.iter().map(put).collect::<Vec<_>>() });
            let request = http::Request::post("/v3/kv/txn").body(serde_json::to_vec(&body)?)?;
            let answer: Value = self.0.request(request).await.context("put objects into etcd")?;
            anyhow::ensure!(answer["succeeded"] == true, "etcd did not put objects: {answer}");
        }
        Ok(())
    }
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
        Ok(Self { service, address: run.address(Port::Etcd) })
    }

    /// A client of it.
    pub fn store(&self) -> Result<Store> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let config = Config::new(format!("http://{}", self.address).parse().context("address of etcd")?);
        Ok(Store(Client::try_from(config).context("client of etcd")?))
    }

    /// Its process.
    pub fn service(&self) -> &Service {
        &self.service
    }
}
