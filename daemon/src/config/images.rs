//! How images are pulled that are wanted before they are needed.

use std::{fmt, num::NonZeroU16, path::PathBuf, str::FromStr, time::Duration};

use berth_proto::percent::part;
use serde::{Deserialize, Serialize};

use super::GoDuration;
use crate::base::quantity::Quantity;

/// Pulls of the agent itself; those of the kubelet are its own.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Images {
    /// Pulls at once. One more may run for somebody who waits.
    pub parallel_pulls: NonZeroU16,
    /// Pulls at once from one registry.
    pub parallel_pulls_per_registry: NonZeroU16,
    /// Space that stays free on the filesystem of images.
    pub reserve: Reserve,
    /// The NodeImage of this node shows in `spec.images` what jobs want, as OpenKruise's controllers write
    /// it.
    pub jobs_in_spec: bool,
    /// How long a pulled image is kept from the kubelet's image collection; 0 = not at all.
    pub pin_for: GoDuration,
    /// Docker configurations with credentials; empty = where the kubelet looks.
    pub docker_config: Vec<PathBuf>,
    /// The kubelet's `--image-credential-provider-config`.
    pub credential_provider_config: Option<PathBuf>,
    /// The kubelet's `--image-credential-provider-bin-dir`.
    pub credential_provider_bin_dir: Option<PathBuf>,
}

/// Space that stays free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub enum Reserve {
    /// Percent of the filesystem.
    Percent(u8),
    /// Bytes.
    Bytes(u64),
}

/// Not a reserve.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither a part of a filesystem such as 15% nor a size such as 10Gi")]
pub struct InvalidReserve(String);

impl Default for Images {
    fn default() -> Self {
        Self {
            parallel_pulls: NonZeroU16::MIN.saturating_add(2),
            parallel_pulls_per_registry: NonZeroU16::MIN.saturating_add(1),
            reserve: Reserve::Percent(15),
            jobs_in_spec: false,
            pin_for: GoDuration(Duration::from_secs(60 * 60)),
            docker_config: Vec::new(),
            credential_provider_config: None,
            credential_provider_bin_dir: None,
        }
    }
}

impl Images {
    /// Checks the rules that need all fields. The error has the field that is wrong, and why.
    pub(super) fn check(&self) -> Result<(), (&'static str, &'static str)> {
        if self.docker_config.iter().any(|path| !path.is_absolute()) {
            return Err(("images.dockerConfig", "must be absolute paths"));
        }
        match (&self.credential_provider_config, &self.credential_provider_bin_dir) {
            (None, None) => Ok(()),
            (Some(config), Some(_)) if !config.is_absolute() => {
                Err(("images.credentialProviderConfig", "must be an absolute path"))
            }
            (Some(_), Some(directory)) if !directory.is_absolute() => {
                Err(("images.credentialProviderBinDir", "must be an absolute path"))
            }
            (Some(_), Some(_)) => Ok(()),
            (Some(_), None) => Err((
                "images.credentialProviderBinDir",
                "goes with credentialProviderConfig: give both or neither",
            )),
            (None, Some(_)) => Err((
                "images.credentialProviderConfig",
                "goes with credentialProviderBinDir: give both or neither",
            )),
        }
    }
}

// === impl Reserve ===

impl Reserve {
    /// Returns it in bytes, of a filesystem of this size.
    pub fn of(self, size: u64) -> u64 {
        match self {
            // At most 100 of 100, so it fits.
            Self::Percent(percent) => {
                let part = u128::from(size) * u128::from(percent) / 100;
                part.try_into().unwrap_or(u64::MAX)
            }
            Self::Bytes(bytes) => bytes,
        }
    }
}

impl FromStr for Reserve {
    type Err = InvalidReserve;

    fn from_str(text: &str) -> Result<Self, InvalidReserve> {
        let invalid = || InvalidReserve(text.to_owned());
        if text.ends_with('%') {
            return part(text).filter(|part| *part < 100).map(Self::Percent).ok_or_else(invalid);
        }
        let bytes = Quantity(text.to_owned()).whole().map_err(|_| invalid())?;
        bytes.try_into().map(Self::Bytes).map_err(|_| invalid())
    }
}

impl TryFrom<String> for Reserve {
    type Error = InvalidReserve;

    fn try_from(text: String) -> Result<Self, InvalidReserve> {
        text.parse()
    }
}

impl From<Reserve> for String {
    fn from(reserve: Reserve) -> Self {
        reserve.to_string()
    }
}

impl fmt::Display for Reserve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percent(percent) => write!(f, "{percent}%"),
            Self::Bytes(bytes) => {
                let (number, suffix) = [(30, "Gi"), (20, "Mi"), (10, "Ki")]
                    .into_iter()
                    .find(|(shift, _)| *bytes > 0 && bytes.trailing_zeros() >= *shift)
                    .map_or((*bytes, ""), |(shift, suffix)| (bytes >> shift, suffix));
                write!(f, "{number}{suffix}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserves() {
        let table = [
            ("15%", Some(Reserve::Percent(15))),
            ("0%", Some(Reserve::Percent(0))),
            ("10Gi", Some(Reserve::Bytes(10 << 30))),
            ("1500Mi", Some(Reserve::Bytes(1500 << 20))),
            ("0", Some(Reserve::Bytes(0))),
            ("100%", None),
            ("-1%", None),
            ("1.5%", None),
            ("%", None),
            ("", None),
            ("-1", None),
            ("a lot", None),
        ];
        for (text, expect) in table {
            let reserve = text.parse::<Reserve>().ok();
            assert_eq!(reserve, expect, "{text:?}");
            if let Some(reserve) = reserve {
                assert_eq!(reserve.to_string(), text);
            }
        }
        assert_eq!("1G".parse::<Reserve>().unwrap().of(7), 1_000_000_000);
        assert_eq!(Reserve::Percent(15).of(1000), 150);
        assert_eq!(Reserve::Percent(99).of(u64::MAX), (u128::from(u64::MAX) * 99 / 100) as u64);
    }
}
