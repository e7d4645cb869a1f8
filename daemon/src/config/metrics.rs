//! Where the metrics are for scrapers of the cluster.

use std::{net::SocketAddr, path::PathBuf};

use serde::{Deserialize, Serialize};

/// `/metrics` by TLS, for who may read it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Metrics {
    /// The address; `None` = they are at `httpAddress` alone.
    pub address: Option<SocketAddr>,
    /// The certificate of the page in PEM; `None` = one that signs itself.
    pub certificate_file: Option<PathBuf>,
    /// Its key.
    pub key_file: Option<PathBuf>,
}

impl Metrics {
    /// Checks the fields against each other and against the pod view: only the API server knows who may read.
    pub(super) fn check(&self, asks_the_api: bool) -> Result<(), (&'static str, &'static str)> {
        let files =
            [("metrics.certificateFile", &self.certificate_file), ("metrics.keyFile", &self.key_file)];
        if let Some((field, _)) =
            files.iter().find(|(_, file)| file.as_ref().is_some_and(|file| !file.is_absolute()))
        {
            return Err((field, "must be an absolute path"));
        }
        if self.certificate_file.is_some() != self.key_file.is_some() {
            return Err(("metrics.keyFile", "goes with metrics.certificateFile: give both or neither"));
        }
        if self.address.is_none() && self.certificate_file.is_some() {
            return Err((
                "metrics.certificateFile",
                "goes with metrics.address: give the address, such as 0.0.0.0:10354",
            ));
        }
        if self.address.is_some() && !asks_the_api {
            return Err((
                "metrics.address",
                "goes with podView.mode api: the API server says who may read; without it the metrics are at httpAddress",
            ));
        }
        Ok(())
    }
}
