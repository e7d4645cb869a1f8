//! Credentials of registries as a berthd finds them on its node; it reads them anew for each pull.

use std::fs;

use anyhow::{Context, Result};

use super::Berthd;
use crate::node::programs;

/// Names below the run's directory.
pub(super) const DOCKER_CONFIG: &str = "berth/docker.json";
pub(super) const PROVIDERS: &str = "berth/providers.yaml";
pub(super) const PROVIDER_DIR: &str = "berth/providers";
const PROVIDER: &str = "berth/providers/provider";

impl Berthd {
    /// Gives it a docker configuration, from its next pull on.
    pub fn docker_config(&self, text: &str) -> Result<()> {
        self.replace(DOCKER_CONFIG, text)
    }

    /// Gives it a credential provider for images that match this, a shell script, from its next pull on.
    pub fn credential_provider(&self, match_image: &str, script: &str) -> Result<()> {
        programs::script(&self.run.path(PROVIDER), script)?;
        self.replace(PROVIDERS, &providers(match_image))
    }

    /// Puts another file in the place of one that is read for each pull, also for those of other tests:
    /// nobody finds half of it there.
    fn replace(&self, name: &str, text: &str) -> Result<()> {
        let new = self.run.write(&format!("{name}.new"), text)?;
        fs::rename(new, self.run.path(name)).with_context(|| format!("replace {name}"))
    }
}

/// A configuration with one provider; with none for no image.
pub(super) fn providers(match_image: &str) -> String {
    let provider = match match_image {
        "" => " []\n".to_owned(),
        image => format!(
            "
- name: provider
  matchImages: [\"{image}\"]
  defaultCacheDuration: 0s
  apiVersion: credentialprovider.kubelet.k8s.io/v1
"
        ),
    };
    format!("apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:{provider}")
}
