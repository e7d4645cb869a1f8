//! Docker configurations: `config.json` (`auths.<server>`) and the older `.dockercfg` (`<server>` at the
//! top), as files of a node and Secrets of a cluster have them.
//!
//! The agent reads the one and the manager the other, and both must find the same credentials for an image,
//! those that the kubelet would find. Credential helpers of docker (`credHelpers`, `credsStore`) are programs
//! of a user's session; the kubelet does not know them either.

pub mod matching;

use std::collections::BTreeMap;

use base64::{
    Engine,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use serde::Deserialize;

use crate::{nested, sealing::RegistryCredential};

/// Tools write it with padding and without.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A configuration that was read. It has no `Debug`: it holds credentials.
pub struct DockerConfig {
    entries: BTreeMap<String, Entry>,
}

/// Credentials that a configuration has for an image.
#[derive(Default)]
pub struct Matching {
    /// The most specific first.
    pub credentials: Vec<RegistryCredential>,
    /// Entries for the image that were left out: their `auth` is not base64 of `user:password`.
    pub unreadable: usize,
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

impl DockerConfig {
    /// Reads either form.
    ///
    /// # Errors
    /// It is neither. The text says where it is wrong and nothing of what is there.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut text = serde_json::Deserializer::from_slice(bytes);
        let json = nested::read_within(&mut text, nested::MOST_MEMORY);
        let json = json.and_then(|json| text.end().map(|()| json)).map_err(|error| {
            // Never the error itself, as below.
            match error.to_string().starts_with(nested::TOO_LARGE) {
                true => format!("too large: read, it takes more than {} bytes", nested::MOST_MEMORY),
                false => format!("no JSON, line {} column {}", error.line(), error.column()),
            }
        })?;
        let Some(object) = json.as_object() else { return Err("no JSON object".to_owned()) };
        let modern = object.is_empty()
            || ["auths", "credHelpers", "credsStore", "HttpHeaders"]
                .iter()
                .any(|key| object.contains_key(*key));
        // Never the error itself: it may quote a value.
        let form = |_| "no docker configuration".to_owned();
        let entries = if modern {
            serde_json::from_value::<ConfigJson>(json).map(|config| config.auths).map_err(form)?
        } else {
            serde_json::from_value(json).map_err(form)?
        };
        Ok(Self { entries })
    }

    /// Finds the credentials that it has for an image `registry/repository`.
    pub fn matching(&self, image: &str) -> Matching {
        let (servers, entries): (Vec<String>, Vec<&Entry>) =
            self.entries.iter().map(|(server, entry)| (matching::entry(server), entry)).unzip();
        let mut found = Matching::default();
        for at in matching::order(&servers, image) {
            match entries[at].credential() {
                Ok(credential) if credential == RegistryCredential::default() => {}
                Ok(credential) => found.credentials.push(credential),
                Err(Unreadable) => found.unreadable += 1,
            }
        }
        found
    }
}

/// Its `auth` is not base64 of `user:password`.
struct Unreadable;

impl Entry {
    fn credential(&self) -> Result<RegistryCredential, Unreadable> {
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
            let (username, password) =
                decoded.as_deref().and_then(|pair| pair.split_once(':')).ok_or(Unreadable)?;
            credential.username = username.to_owned();
            credential.password = password.trim_end_matches('\0').to_owned();
        }
        Ok(credential)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(config: &str, image: &str) -> Vec<String> {
        let config = DockerConfig::parse(config.as_bytes()).unwrap_or_else(|why| panic!("{why}"));
        let text = |one: RegistryCredential| {
            [one.username, one.password, one.identity_token, one.registry_token].join("|")
        };
        config.matching(image).credentials.into_iter().map(text).collect()
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
            (r#"{"auths": {"a.com": {"auth": "dTo=", "identitytoken": "i"}}}"#, vec!["u||i|"]),
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
            ("{} hunter2", "no JSON, line 1"),
            // 800 kB; a Secret may have a megabyte.
            (format!("{{\"hunter2\": [{}{{}}]}}", "{\"a\":1},".repeat(100_000)).as_str(), "too large"),
        ] {
            let error = DockerConfig::parse(config.as_bytes()).err().unwrap();
            assert!(error.starts_with(expect) && !error.contains("hunter2"), "{error}");
        }
    }
}
