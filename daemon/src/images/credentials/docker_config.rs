//! Docker configurations: `config.json` (`auths.<server>`) and the older `.dockercfg` (`<server>` at the top).
//!
//! Read anew for each pull, so that a rotation needs no restart. Credential helpers of docker (`credHelpers`, `credsStore`)
//! are programs of a user's session; the kubelet does not know them either.

use std::{collections::BTreeMap, path::PathBuf};

use base64::{
    Engine,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use berth_proto::{cri::AuthConfig, sealing::RegistryCredential};
use serde::Deserialize;
use tracing::warn;

use super::{auth_config, matching, read};

/// Where the kubelet looks that runs as root; the first file that is there counts.
const WELL_KNOWN: [&str; 6] = [
    "/var/lib/kubelet/config.json",
    "/root/.docker/config.json",
    "/.docker/config.json",
    "/var/lib/kubelet/.dockercfg",
    "/root/.dockercfg",
    "/.dockercfg",
];

/// Tools write it with padding and without.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Which files are read.
pub(super) enum DockerConfigs {
    /// All of these.
    Given(Vec<PathBuf>),
    /// The first of the kubelet's.
    WellKnown,
}

/// The entry of a server. It has no `Debug`.
#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct Entry {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
    registrytoken: Option<String>,
}

#[derive(Deserialize)]
struct ConfigJson {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
}

impl DockerConfigs {
    pub(super) fn new(given: &[PathBuf]) -> Self {
        if given.is_empty() { Self::WellKnown } else { Self::Given(given.to_vec()) }
    }

    /// What the files have for an image, and what is wrong with them.
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
                Ok(Some(bytes)) => parse(&bytes).map(|entries| matching_entries(&entries, image)),
                Err(error) => Err(error),
            };
            match read {
                Ok(found) => {
                    auths.extend(found);
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

/// The entries of either form. The error says where it is wrong and nothing of what is there.
fn parse(bytes: &[u8]) -> Result<BTreeMap<String, Entry>, String> {
    let json: serde_json::Value = serde_json::from_slice(bytes)
        .map_err(|error| format!("no JSON, line {} column {}", error.line(), error.column()))?;
    let Some(object) = json.as_object() else { return Err("no JSON object".to_owned()) };
    let modern = object.is_empty()
        || ["auths", "credHelpers", "credsStore", "HttpHeaders"].iter().any(|key| object.contains_key(*key));
    // Never the error itself: it may quote a value.
    let form = |_| "no docker configuration".to_owned();
    if modern {
        serde_json::from_value::<ConfigJson>(json).map(|config| config.auths).map_err(form)
    } else {
        serde_json::from_value(json).map_err(form)
    }
}

/// Those that are for an image, most specific first.
fn matching_entries(entries: &BTreeMap<String, Entry>, image: &str) -> Vec<AuthConfig> {
    let (servers, entries): (Vec<String>, Vec<&Entry>) =
        entries.iter().map(|(server, entry)| (matching::entry(server), entry)).unzip();
    let order = matching::order(&servers, image);
    order.into_iter().filter_map(|at| entries[at].auth_config()).collect()
}

impl Entry {
    /// `None` when there is nothing in it, or nothing that can be read.
    fn auth_config(&self) -> Option<AuthConfig> {
        let plain = |field: &Option<String>| field.clone().unwrap_or_default();
        let mut credential = RegistryCredential {
            username: plain(&self.username),
            password: plain(&self.password),
            identity_token: plain(&self.identitytoken),
            registry_token: plain(&self.registrytoken),
        };
        // As the kubelet reads it: `auth` wins over the two fields.
        if let Some(text) = self.auth.as_deref().filter(|text| !text.is_empty()) {
            let decoded = LENIENT.decode(text.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            match decoded.as_deref().and_then(|pair| pair.split_once(':')) {
                Some((username, password)) => {
                    credential.username = username.to_owned();
                    credential.password = password.trim_end_matches('\0').to_owned();
                }
                None => {
                    warn!(
                        "Entry of a docker configuration left out: its auth is not base64 of user:password"
                    );
                }
            }
        }
        Some(auth_config(credential)).filter(|auth| *auth != AuthConfig::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(config: &str, image: &str) -> Vec<String> {
        let auths = matching_entries(&parse(config.as_bytes()).unwrap(), image);
        let text = |auth: AuthConfig| {
            assert!(auth.server_address.is_empty() && auth.auth.is_empty());
            [auth.username, auth.password, auth.identity_token, auth.registry_token].join("|")
        };
        auths.into_iter().map(text).collect()
    }

    #[test]
    fn forms() {
        let table = [
            (r#"{"auths": {"a.com": {"auth": "dXNlcjpwYTpzcw=="}}}"#, vec!["user|pa:ss||"]),
            (r#"{"auths": {"a.com": {"auth": "dXNlcjpwYTpzcw"}}}"#, vec!["user|pa:ss||"]),
            (
                r#"{"auths": {"https://a.com/v1/": {"username": "u", "password": "p", "email": "e"}}}"#,
                vec!["u|p||"],
            ),
            (r#"{"auths": {"a.com": {"auth": "dTo=", "identitytoken": "i"}}}"#, vec!["||i|"]),
            (r#"{"auths": {"a.com": {"registrytoken": "r"}}}"#, vec!["|||r"]),
            (r#"{"a.com": {"auth": "dTpw", "email": "e"}}"#, vec!["u|p||"]),
            (
                r#"{"auths": {"a.com": {}, "a.com/t": {"auth": "dTpw"}, "b.com": {"auth": "dTpw"}}}"#,
                vec!["u|p||"],
            ),
            (r#"{"auths": {"a.com": {"auth": "bm9jb2xvbg=="}}}"#, vec![]),
            (r#"{"auths": {"a.com": {"auth": "!"}}}"#, vec![]),
            (r#"{"credHelpers": {"a.com": "x"}}"#, vec![]),
            ("{}", vec![]),
        ];
        for (config, expect) in table {
            assert_eq!(found(config, "a.com/t/app"), expect, "{config}");
        }
    }

    #[test]
    fn an_error_says_nothing_of_what_is_there() {
        for (config, expect) in [
            ("{\"auths\": {\"a.com\": {\"auth\": hunter2}}}", "no JSON, line 1 column"),
            ("{\"auths\": \"hunter2\"}", "no docker configuration"),
            ("{\"a.com\": \"hunter2\"}", "no docker configuration"),
            ("[]", "no JSON object"),
            ("", "no JSON, line 1"),
        ] {
            let error = parse(config.as_bytes()).err().unwrap();
            assert!(error.starts_with(expect) && !error.contains("hunter2"), "{error}");
        }
    }

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
