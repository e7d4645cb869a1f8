//! All credential providers of a node, and what they said last.
//!
//! An answer is kept for as long as it says, for the image, the registry or all it is about. The
//! configuration is read anew for each pull; a change of it is one of the file and needs no restart.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use berth_proto::{cri::AuthConfig, docker_config::matching};
use tokio::time::Instant;
use tracing::{info, warn};

use super::{
    plugin::{self, Answer, CacheKeyType, Login},
    plugin_config::{Provider, Providers},
    read,
};
use crate::images::metrics::ImageMetrics;

/// Answers that are kept at most. A node that has more images than this asks a little more often.
const KEPT: usize = 256;

/// The providers of a node.
pub(super) struct Plugins {
    file: PathBuf,
    directory: PathBuf,
    metrics: ImageMetrics,
    /// A std mutex: nothing awaits inside.
    kept: Mutex<HashMap<Key, Kept>>,
    /// The providers that were left out, as they were told last.
    told: Mutex<Vec<String>>,
}

/// A provider, and for what its answer is good: an image, a registry, or `None` for all.
type Key = (Provider, Option<String>);

struct Kept {
    until: Instant,
    logins: Vec<(String, Login)>,
}

impl Plugins {
    pub(super) fn new(file: PathBuf, directory: PathBuf, metrics: ImageMetrics) -> Self {
        Self { file, directory, metrics, kept: Mutex::default(), told: Mutex::default() }
    }

    /// Asks the providers that are for this image. Gives their credentials, and the errors.
    pub(super) async fn ask(&self, image: &str) -> (Vec<AuthConfig>, Vec<String>) {
        let (mut auths, mut notes) = (Vec::new(), Vec::new());
        let providers = match self.providers().await {
            Ok(providers) => providers,
            Err(why) => {
                warn!(file = %self.file.display(), why, "Credential providers not read");
                return (auths, vec![format!("credential providers {}: {why}", self.file.display())]);
            }
        };
        self.tell_left_out(&providers);
        for provider in providers.usable {
            if !provider.match_images.iter().any(|entry| matching::matches(&matching::entry(entry), image)) {
                continue;
            }
            match self.ask_one(&provider, image).await {
                Ok(logins) => auths.extend(matching_logins(&logins, image)),
                Err(error) => {
                    self.metrics.plugin_failed();
                    warn!(provider = provider.name, %error, "Credential provider gave nothing");
                    notes.push(format!("credential provider {}: {error}", provider.name));
                }
            }
        }
        (auths, notes)
    }

    async fn providers(&self) -> Result<Providers, String> {
        let bytes = read(&self.file).await?.ok_or("is not there")?;
        Providers::parse(&String::from_utf8_lossy(&bytes))
    }

    async fn ask_one(
        &self,
        provider: &Provider,
        image: &str,
    ) -> Result<Vec<(String, Login)>, plugin::PluginError> {
        let now = Instant::now();
        let registry = image.split('/').next().unwrap_or_default();
        let keys = [Some(image.to_owned()), Some(registry.to_owned()), None];
        for key in &keys {
            let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(kept) = kept.get(&(provider.clone(), key.clone())).filter(|kept| kept.until > now) {
                return Ok(kept.logins.clone());
            }
        }
        let Answer { key, keep, logins } = plugin::run(provider, &self.directory, image).await?;
        let logins: Vec<(String, Login)> = logins.into_iter().collect();
        let [of_image, of_registry, of_all] = keys;
        let key = match key {
            CacheKeyType::Image => of_image,
            CacheKeyType::Registry => of_registry,
            CacheKeyType::Global => of_all,
        };
        self.keep((provider.clone(), key), keep.unwrap_or(provider.default_cache), &logins);
        Ok(logins)
    }

    fn keep(&self, key: Key, duration: Duration, logins: &[(String, Login)]) {
        let now = Instant::now();
        let Some(until) = now.checked_add(duration).filter(|_| !duration.is_zero()) else { return };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|_, kept| kept.until > now);
        if kept.len() >= KEPT {
            // The one that would go first anyhow.
            let first = kept.iter().min_by_key(|(_, kept)| kept.until).map(|(key, _)| key.clone());
            if let Some(first) = first {
                kept.remove(&first);
            }
        }
        kept.insert(key, Kept { until, logins: logins.to_vec() });
    }

    /// Says what was left out, once for each change, not for each pull.
    fn tell_left_out(&self, providers: &Providers) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if *told != providers.left_out {
            for name in &providers.left_out {
                info!(
                    provider = name,
                    "Credential provider left out: it needs a pod's service account token"
                );
            }
            told.clone_from(&providers.left_out);
        }
    }
}

/// Selects the logins for an image, most specific first.
fn matching_logins(logins: &[(String, Login)], image: &str) -> Vec<AuthConfig> {
    let servers: Vec<String> = logins.iter().map(|(server, _)| matching::entry(server)).collect();
    let order = matching::order(&servers, image).into_iter();
    let auth = |login: &Login| AuthConfig {
        username: login.username.clone(),
        password: login.password.clone(),
        ..AuthConfig::default()
    };
    order.map(|at| auth(&logins[at].1)).collect()
}

#[cfg(test)]
#[path = "tests/plugins.rs"]
mod tests;
