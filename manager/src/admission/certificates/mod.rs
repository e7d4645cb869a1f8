//! The certificate that is served: kept in one Secret that all replicas share.
//!
//! - `pair`: one certificate with its key and its CA, read, checked and made;
//! - `decision`: is it kept, or which step of its renewal comes now;
//! - here: the Secret, watched and updated. Every replica decides, each update names the version it was
//!   decided on, and the one that comes second is refused and takes over what the first one wrote.
//!
//! The certificate that is served changes when the Secret does: a handshake that has begun keeps its
//! certificate, the next one has the new one. One that cannot be used takes the place of none that can.

mod decision;
mod pair;

use std::{sync::Arc, time::Duration};

use clap::ValueEnum;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, api::PostParams};
use rustls::{
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tracing::{info, warn};

use self::decision::{Decision, OVERLAP, RENEW, Step, Stored, decide, renewed};
use super::{conversion::Bundled, view::View};
use crate::telemetry::chain;

/// Makers of the certificates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Maker {
    /// The manager makes and renews them.
    #[default]
    Own,
    /// Somebody else does, such as cert-manager: the Secret is only read.
    Secret,
}

/// Pause before the Secret is looked at again, if nothing changes: certificates end.
const LOOKED_AT_EVERY: Duration = Duration::from_secs(600);
/// An update that failed is tried again after it.
const RETRY_PAUSE: Duration = Duration::from_secs(5);
/// An update without an answer has failed.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Certificate that is served, and what API servers are to check it against.
#[derive(Clone, Debug, Default)]
pub(super) struct Served {
    key: Option<Arc<CertifiedKey>>,
    /// CAs in PEM.
    pub(super) bundle: Vec<u8>,
}

impl Served {
    /// Tells whether there is a certificate.
    pub(super) fn is_loaded(&self) -> bool {
        self.key.is_some()
    }
}

/// Gives each handshake the certificate of now.
#[derive(Debug)]
pub(super) struct Resolver(pub(super) watch::Receiver<Served>);

impl ResolvesServerCert for Resolver {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.borrow().key.clone()
    }
}

/// Owner of the certificate.
pub(super) struct CertificateReconciler {
    /// Maker of the certificates.
    pub(super) maker: Maker,
    /// The Secret's API.
    pub(super) api: Api<Secret>,
    /// Its namespace and name.
    pub(super) name: (String, String),
    /// Names that the certificate is for; the API server uses the first.
    pub(super) names: Vec<String>,
    /// The Secret, watched.
    pub(super) secret: watch::Receiver<View<Secret>>,
    /// The bundles that the two configurations have.
    pub(super) bundled: [watch::Receiver<Vec<u8>>; 2],
    /// The bundle of the definition whose objects are converted here.
    pub(super) converting: watch::Receiver<Bundled>,
    /// Takes what is to be served.
    pub(super) served: watch::Sender<Served>,
}

impl CertificateReconciler {
    /// Keeps it, for ever.
    pub(super) async fn run(mut self) {
        let (mut told, key) = (None, format!("{}/{}", self.name.0, self.name.1));
        loop {
            let secret = self.secret.borrow_and_update().clone();
            let pause = match (secret.listed().is_some(), secret.get(&key)) {
                (false, _) => LOOKED_AT_EVERY,
                (true, None) => {
                    say(&mut told, "The Secret of the admission server is not there; apply deploy/manager");
                    LOOKED_AT_EVERY
                }
                (true, Some(secret)) => self.look_at(secret, &mut told).await,
            };
            let [first, second] = &mut self.bundled;
            // Cancel-safe: a change that is not taken is seen the next time.
            tokio::select! {
                changed = self.secret.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                changed = first.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                changed = second.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                changed = self.converting.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                () = sleep(pause) => {}
            }
        }
    }

    /// Serves what is in the Secret, and takes the step that is due. Returns when to look again.
    async fn look_at(&mut self, secret: &Secret, told: &mut Option<String>) -> Duration {
        let (now, name) = (Timestamp::now(), self.names.first().cloned().unwrap_or_default());
        let stored = Stored::read(secret);
        match stored.usable(&name, now) {
            Ok(key) => {
                *told = None;
                self.serve(Served { key: Some(key), bundle: stored.bundle() });
            }
            Err(error) if self.maker == Maker::Secret => {
                say(told, &format!("No certificate in the Secret that could be served: {}", chain(&error)));
            }
            // One is made in this very moment.
            Err(_) => {}
        }
        if self.maker == Maker::Secret {
            return LOOKED_AT_EVERY;
        }
        let bundle = stored.bundle();
        let [first, second] = &mut self.bundled;
        let converting = self.converting.borrow_and_update().as_ref().is_none_or(|stands| *stands == bundle);
        let bundled =
            converting && *first.borrow_and_update() == bundle && *second.borrow_and_update() == bundle;
        let Decision::Renew(step) = decide(&stored, &name, bundled, now) else {
            // The end of an overlap comes without an event.
            return if stored.has_next() { OVERLAP.unsigned_abs() } else { LOOKED_AT_EVERY };
        };
        match self.renew(secret, step, now).await {
            Ok(()) => LOOKED_AT_EVERY,
            Err(error) => {
                say(told, &format!("Certificate not renewed: {error:#}"));
                RETRY_PAUSE
            }
        }
    }

    async fn renew(&self, secret: &Secret, step: Step, now: Timestamp) -> anyhow::Result<()> {
        let next = renewed(secret, step, &self.names, now)?;
        let params = PostParams::default();
        match timeout(ANSWER_WITHIN, self.api.replace(&self.name.1, &params, &next)).await? {
            Ok(_) => info!(?step, annotation = RENEW, "Certificate of the admission server renewed"),
            // Another replica was first: its version comes by the watch.
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => anyhow::bail!(chain(&error)),
        }
        Ok(())
    }

    fn serve(&self, served: Served) {
        self.served.send_if_modified(|now| {
            let same = now.bundle == served.bundle
                && now.key.as_ref().zip(served.key.as_ref()).is_some_and(|(a, b)| a.cert == b.cert);
            if !same {
                *now = served;
            }
            !same
        });
    }
}

/// Said once for each cause.
fn say(told: &mut Option<String>, text: &str) {
    if told.as_deref() != Some(text) {
        warn!("{text}");
        *told = Some(text.to_owned());
    }
}

/// A certificate that was just made, and its CA.
#[cfg(test)]
pub(super) fn made_for_tests(name: &str) -> (Served, Vec<u8>) {
    let made = pair::make(&[name.to_owned()], Timestamp::now()).unwrap();
    let key = Some(pair::read(&made.certificate, &made.key).unwrap());
    (Served { key, bundle: made.authority.clone() }, made.authority)
}
