//! Decision whether the certificate of the Secret is kept, or which step of its renewal comes now. Pure.
//!
//! ```text
//!   nothing usable ──Replace──▶ one is served
//!   one is served ──(ends within 90 days, or an operator asks)──Prepare──▶ the next one stands beside it
//!   the next one stands ──(its CA is in the bundles for a minute)──Promote──▶ the next one is served
//! ```
//!
//! While the next one stands, the bundle has both CAs, and for as long as it is served the bundle keeps the
//! one from before: whichever of both a replica serves, and whichever bundle an API server knows, they fit.

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use rustls::{pki_types::CertificateDer, sign::CertifiedKey};

use super::pair::{self, RENEW_BEFORE, Unusable};

/// The keys of the Secret.
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const BUNDLE: &str = "ca.crt";
const NEXT_CERTIFICATE: &str = "next.crt";
const NEXT_KEY: &str = "next.key";
/// The annotation that says since when the next one stands.
const NEXT_SINCE: &str = "berth.dev/next-since";
/// The annotation by which an operator has the certificate renewed now, whatever its value is.
pub(super) const RENEW: &str = "berth.dev/renew";
/// How long the next CA is in the bundles before its certificate is served: far longer than an API server
/// takes to hear of a change.
pub(super) const OVERLAP: SignedDuration = SignedDuration::from_secs(60);

/// Contents of the Secret, read.
#[derive(Default)]
pub(super) struct Stored {
    served: Option<Arc<CertifiedKey>>,
    bundle: Vec<CertificateDer<'static>>,
    next: Option<Arc<CertifiedKey>>,
    next_since: Option<Timestamp>,
    renew: bool,
}

/// Decision on the certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// It is good for now.
    Keep,
    /// One step of its renewal is due.
    Renew(Step),
}

/// Step of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A new one at once: there is nothing that could be served meanwhile.
    Replace,
    /// A next one beside it, and both CAs in the bundle.
    Prepare,
    /// The next one takes its place.
    Promote,
}

impl Stored {
    /// Reads the Secret. What cannot be used counts as missing.
    pub(super) fn read(secret: &Secret) -> Self {
        let data = |key: &str| {
            secret.data.as_ref().and_then(|data| data.get(key)).map(|value| value.0.as_slice()).unwrap_or(&[])
        };
        let annotation =
            |key: &str| secret.metadata.annotations.as_ref().and_then(|annotations| annotations.get(key));
        Self {
            served: pair::read(data(CERTIFICATE), data(KEY)).ok(),
            bundle: pair::certificates(data(BUNDLE)),
            next: pair::read(data(NEXT_CERTIFICATE), data(NEXT_KEY)).ok(),
            next_since: annotation(NEXT_SINCE).and_then(|text| text.parse().ok()),
            renew: annotation(RENEW).is_some(),
        }
    }

    /// Returns what is to be served, if it is good for the name now.
    pub(super) fn usable(&self, name: &str, now: Timestamp) -> Result<Arc<CertifiedKey>, Unusable> {
        let served = self.served.as_ref().ok_or(Unusable::Pem("the Secret"))?;
        pair::check(served, &self.bundle, name, now).map(|()| served.clone())
    }

    /// Returns the CAs in PEM.
    pub(super) fn bundle(&self) -> Vec<u8> {
        self.bundle.iter().flat_map(|authority| pair::pem("CERTIFICATE", authority)).collect()
    }

    /// Tells whether a next one stands beside what is served.
    pub(super) fn has_next(&self) -> bool {
        self.next.is_some()
    }

    fn good(&self, one: Option<&Arc<CertifiedKey>>, name: &str, at: Option<Timestamp>) -> bool {
        one.zip(at).is_some_and(|(one, at)| pair::check(one, &self.bundle, name, at).is_ok())
    }
}

/// Decides what comes next. `bundled`: everything by which API servers know us has the
/// Secret's bundle.
pub(super) fn decide(stored: &Stored, name: &str, bundled: bool, now: Timestamp) -> Decision {
    let soon = now.checked_add(RENEW_BEFORE).ok();
    if !stored.good(stored.served.as_ref(), name, Some(now)) {
        let next = stored.good(stored.next.as_ref(), name, Some(now));
        return Decision::Renew(if next { Step::Promote } else { Step::Replace });
    }
    if stored.good(stored.next.as_ref(), name, soon) && !stored.renew {
        let stands = stored.next_since.map(|since| now.duration_since(since));
        return match stands {
            Some(stands) if stands >= OVERLAP && bundled => Decision::Renew(Step::Promote),
            // One from the future is of a clock that was wrong: it would never come.
            Some(stands) if stands > -OVERLAP => Decision::Keep,
            _ => Decision::Renew(Step::Prepare),
        };
    }
    if stored.renew || !stored.good(stored.served.as_ref(), name, soon) {
        Decision::Renew(Step::Prepare)
    } else {
        Decision::Keep
    }
}

/// Carries a step out on the Secret.
pub(super) fn renewed(
    secret: &Secret,
    step: Step,
    names: &[String],
    now: Timestamp,
) -> Result<Secret, Unusable> {
    let stored = Stored::read(secret);
    let name = names.first().map(String::as_str).unwrap_or_default();
    let mut secret = secret.clone();
    let data = secret.data.get_or_insert_default();
    let annotations = secret.metadata.annotations.get_or_insert_default();
    match step {
        Step::Promote => {
            for (from, to) in [(NEXT_CERTIFICATE, CERTIFICATE), (NEXT_KEY, KEY)] {
                let next = data.remove(from).ok_or(Unusable::Pem("the next one"))?;
                data.insert(to.to_owned(), next);
            }
            annotations.remove(NEXT_SINCE);
        }
        Step::Prepare | Step::Replace => {
            let made = pair::make(names, now)?;
            let served = stored.served.as_deref().filter(|_| step == Step::Prepare);
            let bundle = pair::overlapping(served, &stored.bundle, &made.authority, name, now);
            let mut put = |key: &str, value| drop(data.insert(key.to_owned(), ByteString(value)));
            put(BUNDLE, bundle);
            if step == Step::Prepare {
                put(NEXT_CERTIFICATE, made.certificate);
                put(NEXT_KEY, made.key);
                annotations.insert(NEXT_SINCE.to_owned(), now.to_string());
            } else {
                put(CERTIFICATE, made.certificate);
                put(KEY, made.key);
                forget_next(data);
                annotations.remove(NEXT_SINCE);
            }
            annotations.remove(RENEW);
        }
    }
    Ok(secret)
}

fn forget_next(data: &mut BTreeMap<String, ByteString>) {
    data.remove(NEXT_CERTIFICATE);
    data.remove(NEXT_KEY);
}

#[cfg(test)]
mod tests;
