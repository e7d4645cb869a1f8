//! Updates in place, as far as the configuration says something about them.

use serde::{Deserialize, Serialize};

/// Updates in place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Updates {
    /// Pods that get the annotation `apps.kruise.io/runtime-containers-meta`.
    pub containers_meta: ContainersMeta,
}

/// Pods that get the annotation `apps.kruise.io/runtime-containers-meta`, beside those that have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ContainersMeta {
    /// Pods that can be updated in place and have env from their labels or annotations.
    #[default]
    Needed,
    /// Pods of workloads of `apps.kruise.io`, and pods with sidecars, as well.
    All,
}
