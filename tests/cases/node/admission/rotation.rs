//! The certificate is renewed while pods are made: none is refused, and every bundle that stands is good for
//! what is served.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use berth_tests::wait::{Standstill, await_condition};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams, PostParams};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, Stream};
use serde_json::json;

use super::scene::{SECRET, Scene, pod, sidecars};
use crate::case::PATIENCE;

const NAME: &str = "berth-manager.berth-system.svc";
/// Pods and handshakes that are tried at the least; more while the renewal lasts.
const ENOUGH: usize = 100;

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_renewed_under_load() -> Result<()> {
    let scene = Scene::set("admission-rotation").await?;
    let second = scene.second().await?;
    scene.set_of("rotated", json!({})).await?;
    let before = scene.secrets.get(SECRET).await?.data.context("no data")?["tls.crt"].clone();

    let (over, still) = (AtomicBool::new(false), Standstill::watch());
    let (made, shaken) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let load = async |worker: usize| -> Result<()> {
        let mut turn = 0;
        while !over.load(Ordering::Relaxed) {
            let name = format!("p-{worker}-{turn}");
            turn += 1;
            let lost = still.lost();
            let pod = scene.pods.create(&PostParams::default(), &pod(&name, "rotated")?).await;
            if let Err(error) = &pod
                && is_late(error, &still, lost).await
            {
                continue;
            }
            let pod = pod.with_context(|| format!("pod {name}"))?;
            ensure!(sidecars(&pod) == 1, "{name} has no sidecar");
            made.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    };
    // As an API server that has just heard of the bundle: with a connection of its own.
    let shakes = async || -> Result<()> {
        while !over.load(Ordering::Relaxed) {
            let bundle = scene.bundle().await?;
            let address = scene.plane.run().webhook_address();
            let done = tokio::task::spawn_blocking(move || handshake(&address, &bundle)).await?;
            done.context("a handshake with the bundle that stands")?;
            shaken.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    };
    let renew = async || -> Result<Duration> {
        let begun = Instant::now();
        let asked = json!({ "metadata": { "annotations": { "berth.dev/renew": "now" } } });
        scene.secrets.patch(SECRET, &PatchParams::default(), &Patch::Merge(&asked)).await?;
        let renewed = await_condition("another certificate is served", PATIENCE * 2, async || {
            let secret = scene.secrets.get(SECRET).await?;
            ensure!(secret.annotations().get("berth.dev/renew").is_none(), "not begun");
            ensure!(secret.data.context("no data")?["tls.crt"] != before, "not yet");
            Ok(())
        })
        .await;
        let elapsed = begun.elapsed();
        tokio::time::sleep(Duration::from_secs(3)).await;
        let enough = await_condition("enough was tried", PATIENCE, async || {
            let tried = [made.load(Ordering::Relaxed), shaken.load(Ordering::Relaxed)];
            ensure!(tried.iter().all(|count| *count >= ENOUGH), "{tried:?} pods and handshakes");
            Ok(())
        })
        .await;
        over.store(true, Ordering::Relaxed);
        renewed.and(enough).map(|()| elapsed)
    };
    let (renewed, one, two, three, shaking) = tokio::join!(renew(), load(0), load(1), load(2), shakes());
    for outcome in [one, two, three, shaking] {
        outcome?;
    }
    let (made, shaken) = (made.into_inner(), shaken.into_inner());
    println!("renewed in {:?}; {made} pods made, {shaken} handshakes, 0 failed", renewed?);
    second.service().stop()
}

/// An API server waits five seconds for an answer, also on a machine where nobody has a turn for as long.
/// `before` is what was lost until it was asked: a machine that stood still at another time excuses nothing.
async fn is_late(error: &kube::Error, still: &Standstill, before: Duration) -> bool {
    // Who watches may have its turn after us.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let lost = still.lost().saturating_sub(before);
    lost > Duration::from_secs(1) && error.to_string().contains("deadline exceeded")
}

/// A handshake with the Service as a client with this bundle makes it.
pub(super) fn handshake(address: &str, bundle: &[u8]) -> Result<()> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bundle) {
        roots.add(certificate?)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let mut connection = ClientConnection::new(Arc::new(config), ServerName::try_from(NAME)?)?;
    let mut socket = TcpStream::connect((address, 443))?;
    let stream = Stream::new(&mut connection, &mut socket);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(stream.sock)?;
    }
    Ok(())
}
