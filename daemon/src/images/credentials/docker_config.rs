//! Docker configurations of the node: which files, read anew for each pull, so that a rotation needs no
//! restart.

use std::path::PathBuf;

use berth_proto::{cri::AuthConfig, docker_config::DockerConfig};
use tracing::warn;

use super::{auth_config, read};

/// Where the kubelet looks that runs as root; the first file that is there counts.
const WELL_KNOWN: [&str; 6] = [
    "/var/lib/kubelet/config.json",
    "/root/.docker/config.json",
    "/.docker/config.json",
    "/var/lib/kubelet/.dockercfg",
    "/root/.dockercfg",
    "/.dockercfg",
];

/// Which files are read.
pub(super) enum DockerConfigs {
    /// All of these.
    Given(Vec<PathBuf>),
    /// The first of the kubelet's.
    WellKnown,
}

impl DockerConfigs {
    pub(super) fn new(given: &[PathBuf]) -> Self {
        if given.is_empty() { Self::WellKnown } else { Self::Given(given.to_vec()) }
    }

    /// Reads the entries of the files for an image, and the flaws of the files.
    pub(super) async fn matching(&self, image: &str) -> (Vec<AuthConfig>, Vec<String>) {
        let (mut auths, mut notes) = (Vec::new(), Vec::new());
        let paths = match self {
            Self::Given(paths) => paths.clone(),
            Self::WellKnown => WELL_KNOWN.map(PathBuf::from).to_vec(),
        };
        for path in paths {
            let read = match read(&path).await {
                Ok(None) if matches!(self, Self::WellKnown) => continue,
                Ok(None) => Err("is not there".to_owned()),
                Ok(Some(bytes)) => DockerConfig::parse(&bytes).map(|config| config.matching(image)),
                Err(error) => Err(error),
            };
            match read {
                Ok(found) => {
                    if found.unreadable > 0 {
                        warn!(
                            file = %path.display(),
                            entries = found.unreadable,
                            "Entries of a docker configuration left out: their auth is not base64 of user:password"
                        );
                    }
                    auths.extend(found.credentials.into_iter().map(auth_config));
                    if matches!(self, Self::WellKnown) {
                        break;
                    }
                }
                Err(why) => {
                    warn!(file = %path.display(), why, "Docker configuration not read");
                    notes.push(format!("docker configuration {}: {why}", path.display()));
                }
            }
        }
        (auths, notes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn files_in_their_order() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let given = [
            file("b.json", r#"{"auths": {"a.com": {"username": "b", "password": "b"}}}"#),
            file("bad.json", "hunter2"),
            dir.path().join("missing.json"),
            file("a.json", r#"{"auths": {"a.com/t": {"username": "a", "password": "a"}}}"#),
        ];
        let (auths, notes) = DockerConfigs::new(&given).matching("a.com/t/app").await;
        assert_eq!(auths.iter().map(|auth| auth.username.as_str()).collect::<Vec<_>>(), ["b", "a"]);
        assert!(notes[0].ends_with("bad.json: no JSON, line 1 column 1"), "{notes:?}");
        assert!(notes[1].ends_with("missing.json: is not there"), "{notes:?}");
    }
}
