//! The token of the agent's service account, as a file: what it says of itself, and when it is to be renewed.
//!
//! Its times are the API server's, and the clock of the node may be wrong or be set. So the age of a token
//! that was made for this process is what has passed since ([`Given`]).
//!
//! Nothing here checks a signature: that is the API server's. Nobody but the file's owner may read it.

use std::{
    fs::File,
    io::Read,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use tokio::time::Instant;

use crate::base::durable;

/// A renewal that failed is tried again when another twentieth of the time left has passed, within these
/// limits.
const SOONEST: Duration = Duration::from_secs(10);
const LATEST: Duration = Duration::from_secs(300);
/// A clock that is so many seconds behind the making of a token does not tell its age.
const SKEW: i64 = 300;

/// Claims of a token about itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Claims {
    /// Seconds since the epoch.
    iat: i64,
    /// Seconds since the epoch.
    exp: i64,
    /// `system:serviceaccount:NAMESPACE:NAME`.
    pub(super) sub: String,
    #[serde(rename = "kubernetes.io", default)]
    kubernetes: Kubernetes,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
struct Kubernetes {
    #[serde(default)]
    node: Option<Bound>,
    #[serde(default)]
    pod: Option<Bound>,
}

/// The node or pod a token is bound to.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Bound {
    /// Its name.
    pub(super) name: String,
    /// The object of that name; a new one of the same name makes the token worthless.
    pub(super) uid: String,
}

/// Next action for a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Nothing, for so long.
    In(Duration),
    /// It is to be renewed, and still good for so long.
    Now(Duration),
    /// It is of no use any more.
    Expired,
}

/// The token that was made last for this process, and when.
#[derive(Debug, Default)]
pub(super) struct Given(Mutex<Option<(Claims, Moment)>>);

/// A moment on both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    instant: Instant,
    /// Seconds since the epoch.
    wall: i64,
}

/// The token cannot be used. `Display` says what to do.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// There is none yet.
    #[error("there is no token in {0:?} yet")]
    Missing(PathBuf),
    /// The file cannot be read.
    #[error("cannot read {path:?}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Others than its owner may read it.
    #[error("{path:?} has mode {mode:04o}, so others can read the token: chmod 600 it, and make a new token")]
    Open {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// There is no token in it.
    #[error("{0:?} does not hold the token of a service account")]
    NoToken(PathBuf),
    /// It cannot be written.
    #[error("cannot write {path:?}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// Reads a token.
pub(super) fn read(path: &Path) -> Result<String, TokenError> {
    let failed = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::NotFound => TokenError::Missing(path.to_owned()),
        _ => TokenError::Read { path: path.to_owned(), source },
    };
    let mut file = File::open(path).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.permissions().mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(TokenError::Open { path: path.to_owned(), mode });
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(failed)?;
    let token = text.trim();
    // kube sends the file as it is, and a header has no line break. Whoever wrote the file with one meant no
    // harm.
    if token.len() < text.len() && !token.is_empty() {
        write(path, token)?;
    }
    Ok(token.to_owned())
}

/// Replaces the token: readers see the old one or the new one, and nobody else sees either.
pub(super) fn write(path: &Path, token: &str) -> Result<(), TokenError> {
    let failed = |source| TokenError::Write { path: path.to_owned(), source };
    // The old one is of no use for long: after a power cut the new one has to be there.
    durable::write(path, token.as_bytes(), 0o600, ".token-").map_err(failed)
}

impl Claims {
    /// Reads the claims of the token in this file.
    pub(super) fn read(path: &Path, token: &str) -> Result<Self, TokenError> {
        let no_token = || TokenError::NoToken(path.to_owned());
        let payload = token.split('.').nth(1).ok_or_else(no_token)?;
        let payload = URL_SAFE_NO_PAD.decode(payload).map_err(|_| no_token())?;
        serde_json::from_slice(&payload).map_err(|_| no_token())
    }

    /// The node it is bound to.
    pub(super) fn node(&self) -> Option<&Bound> {
        self.kubernetes.node.as_ref()
    }

    /// The pod it is bound to, which the node is that of.
    pub(super) fn pod(&self) -> Option<&Bound> {
        self.kubernetes.pod.as_ref()
    }

    /// Returns when it ends, in seconds since the epoch.
    pub(super) fn expires(&self) -> i64 {
        self.exp
    }

    /// Returns the next action at this time, in seconds since the epoch: a token is renewed when four fifths
    /// of its life are over, or nobody knows how much of it is.
    pub(super) fn due(&self, now: i64) -> Due {
        let left = seconds(self.exp.saturating_sub(now));
        if left.is_zero() {
            return Due::Expired;
        }
        let life = self.exp.saturating_sub(self.iat).max(0);
        let renewal = self.iat.saturating_add(life - life / 5).min(self.exp);
        match renewal.saturating_sub(now) {
            ..=0 => Due::Now(left),
            _ if self.iat.saturating_sub(now) > SKEW => Due::Now(left),
            early => Due::In(seconds(early)),
        }
    }
}

// === impl Given ===

impl Given {
    /// Takes note of a token that was made at this moment.
    pub(super) fn note(&self, claims: &Claims, at: Moment) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((claims.clone(), at));
    }

    /// The time at this moment by which the token is judged, in seconds since the epoch. For the one that was
    /// given last: when it was made, and what has passed since by the clock that shows more. One stands still
    /// while the node is suspended, the other may be set back.
    pub(super) fn second(&self, claims: &Claims, at: Moment) -> i64 {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((given, then)) if given == claims => {
                let passed = at.instant.saturating_duration_since(then.instant).as_secs();
                let passed = i64::try_from(passed).unwrap_or(i64::MAX);
                claims.iat.saturating_add(passed.max(at.wall.saturating_sub(then.wall)))
            }
            Some(_) | None => at.wall,
        }
    }
}

// === impl Moment ===

impl Moment {
    pub(super) fn now() -> Self {
        Self { instant: Instant::now(), wall: Timestamp::now().as_second() }
    }
}

/// Removes a token that is of no use any more.
pub(super) fn remove(path: &Path) -> Result<(), TokenError> {
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(TokenError::Write { path: path.to_owned(), source })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Returns when a renewal that failed is tried again, with so much time left.
pub(super) fn try_again(left: Duration) -> Duration {
    (left / 20).clamp(SOONEST, LATEST)
}

fn seconds(seconds: i64) -> Duration {
    Duration::from_secs(seconds.try_into().unwrap_or(0))
}

#[cfg(test)]
mod tests;
