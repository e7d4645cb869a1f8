//! Credentials with which a pull may be tried, and in which order: seals, docker configurations, plugins, and
//! nothing at all.
//!
//! The order within a source is the kubelet's, most specific first. What cannot be had is skipped: the others
//! may do, and the notes about it become part of the failure when none does. No credential is ever in a log,
//! a note or a `Debug`.

mod docker_config;
mod plugin;
mod plugin_config;
mod plugins;
pub(crate) mod sealed;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use berth_policy::{CredentialKey, Credentials, ImageReference};
use berth_proto::{
    cri::AuthConfig,
    sealing::{NodeKey, RegistryCredential},
};
use berth_shim::convert::credential_key;

use self::{docker_config::DockerConfigs, plugins::Plugins};
use super::metrics::ImageMetrics;
use crate::config::Images;

/// A file with credentials that is larger is none.
const FILE_LIMIT: u64 = 1 << 20;

/// Finds the candidates of a pull.
pub(crate) struct CredentialFinder {
    node: String,
    key: Option<Arc<NodeKey>>,
    files: DockerConfigs,
    plugins: Option<Plugins>,
}

/// Credentials that were found for one pull.
#[derive(Debug)]
pub(super) struct Found {
    /// One after the other; the last one is none.
    pub(super) candidates: Vec<Candidate>,
    /// Notes for people on credentials that could not be had.
    pub(super) notes: Vec<String>,
}

/// One way to be let in.
pub(super) struct Candidate {
    pub(super) key: CredentialKey,
    /// `None`: anonymous.
    pub(super) auth: Option<AuthConfig>,
    /// The kind of source, for the log.
    pub(super) from: &'static str,
}

impl CredentialFinder {
    /// Makes them for the node of this name. Without its key no seal is opened.
    pub(crate) fn new(
        node: String,
        key: Option<Arc<NodeKey>>,
        config: &Images,
        metrics: ImageMetrics,
    ) -> Self {
        let plugins = match (&config.credential_provider_config, &config.credential_provider_bin_dir) {
            (Some(file), Some(directory)) => Some(Plugins::new(file.clone(), directory.clone(), metrics)),
            (None | Some(_), None) | (None, Some(_)) => None,
        };
        Self { node, key, files: DockerConfigs::new(&config.docker_config), plugins }
    }

    /// Finds the credentials that may let this pull in, each once.
    pub(super) async fn find(&self, image: &ImageReference, credentials: &Credentials) -> Found {
        let mut found = Found { candidates: Vec::new(), notes: Vec::new() };
        if let Credentials::Sealed(entries) = credentials {
            let opened = sealed::open(entries, self.key.as_deref(), &self.node, &image.given);
            found.notes.extend(opened.note);
            found.add("seal", opened.credentials.into_iter().map(auth_config));
        }
        let name = format!("{}/{}", image.registry, image.repository);
        let (auths, notes) = self.files.matching(&name).await;
        found.add("docker config", auths);
        found.notes.extend(notes);
        if let Some(plugins) = &self.plugins {
            let (auths, notes) = plugins.ask(&name).await;
            found.add("plugin", auths);
            found.notes.extend(notes);
        }
        found.candidates.push(Candidate { key: credential_key(None), auth: None, from: "anonymous" });
        found
    }
}

impl Found {
    fn add(&mut self, from: &'static str, auths: impl IntoIterator<Item = AuthConfig>) {
        for auth in auths {
            let key = credential_key(Some(&auth));
            // An empty one is the anonymous one, which comes last.
            let known = self.candidates.iter().any(|other| other.key == key) || key == credential_key(None);
            if !known {
                self.candidates.push(Candidate { key, auth: Some(auth), from });
            }
        }
    }
}

impl fmt::Debug for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Candidate").field("from", &self.from).finish_non_exhaustive()
    }
}

impl fmt::Debug for CredentialFinder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CredentialFinder").field("node", &self.node).finish_non_exhaustive()
    }
}

/// Says it in the words of the CRI, and in one of its ways: docker writes a user's name beside each identity
/// token, and containerd 1.6.20 takes no look at the token when it is given a name. A registry token alone is
/// passed on as well, but that version pulls as if there were none; so it comes last.
///
/// The address stays empty: a runtime checks it against the registry's and drops what differs, and what is
/// for which registry is decided here.
fn auth_config(credential: RegistryCredential) -> AuthConfig {
    let RegistryCredential { username, password, identity_token, registry_token } = credential;
    if !identity_token.is_empty() {
        AuthConfig { identity_token, ..AuthConfig::default() }
    } else if !username.is_empty() || !password.is_empty() {
        AuthConfig { username, password, ..AuthConfig::default() }
    } else {
        AuthConfig { registry_token, ..AuthConfig::default() }
    }
}

/// A file's content; `None` when there is none.
async fn read(path: &Path) -> Result<Option<Vec<u8>>, String> {
    let path: PathBuf = path.to_owned();
    let work = move || {
        use std::io::Read;
        let file = match std::fs::File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let mut bytes = Vec::new();
        file.take(FILE_LIMIT + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        if bytes.len() as u64 > FILE_LIMIT {
            return Err("larger than 1 MiB".to_owned());
        }
        Ok(Some(bytes))
    };
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(error.to_string()))
}

#[cfg(any(test, feature = "fuzzing"))]
/// The node's file about plugins, and their answers.
pub(super) fn parse_for_fuzzing(data: &[u8]) {
    const VERSION: &str = "credentialprovider.kubelet.k8s.io/v1";
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(providers) = plugin_config::Providers::parse(text)
    {
        assert!(providers.usable.iter().all(|provider| !provider.name.contains('/')));
    }
    if let Err(error) = plugin::parse(data, VERSION) {
        assert!(error.to_string().len() < 120, "an answer is not quoted");
    }
}

#[cfg(test)]
mod tests;
