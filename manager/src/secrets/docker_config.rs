//! Docker configurations as Secrets have them, and which of their entries are for an image.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use berth_proto::{image::Reference, sealing::RegistryCredential};
use k8s_openapi::api::core::v1::Secret;
use serde::Deserialize;

/// By server, as it is written.
pub(super) type Auths = BTreeMap<String, Auth>;

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    auths: Auths,
}

/// No `Debug`: it holds credentials.
#[derive(Default, Deserialize)]
pub(super) struct Auth {
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: String,
    /// `user:password` in base64.
    #[serde(default)]
    auth: String,
    #[serde(default, rename = "identitytoken")]
    identity_token: String,
    #[serde(default, rename = "registrytoken")]
    registry_token: String,
}

/// What is in a Secret. Errors say what is wrong with its form and nothing of its content: that of the parser would.
pub(super) fn auths(secret: &Secret) -> Result<Auths, &'static str> {
    let data = |key: &str| secret.data.as_ref().and_then(|data| data.get(key)).map(|bytes| &bytes.0);
    match secret.type_.as_deref() {
        Some("kubernetes.io/dockerconfigjson") => {
            let bytes = data(".dockerconfigjson").ok_or("it has no key .dockerconfigjson")?;
            let config: Config = serde_json::from_slice(bytes)
                .map_err(|_| "its .dockerconfigjson is no docker configuration")?;
            Ok(config.auths)
        }
        Some("kubernetes.io/dockercfg") => {
            let bytes = data(".dockercfg").ok_or("it has no key .dockercfg")?;
            serde_json::from_slice(bytes).map_err(|_| "its .dockercfg is no docker configuration")
        }
        _ => Err("it is not of type kubernetes.io/dockerconfigjson or kubernetes.io/dockercfg"),
    }
}

/// The entries for the registry and repository of an image, the most particular first.
pub(super) fn matching(auths: Auths, image: &Reference) -> impl Iterator<Item = RegistryCredential> {
    let mut found: Vec<(Server, RegistryCredential)> = auths
        .into_iter()
        .filter_map(|(server, auth)| Some((Server::parse(&server), credential(auth)?)))
        .filter(|(server, _)| server.is_for(image))
        .collect();
    found.sort_by_key(|(server, _)| (std::cmp::Reverse(server.path.len()), server.host.contains('*')));
    found.into_iter().map(|(_, credential)| credential)
}

/// Nothing where there is nothing in it: such an entry belongs to a credential helper that is not here.
fn credential(auth: Auth) -> Option<RegistryCredential> {
    let Auth { mut username, mut password, auth, identity_token, registry_token } = auth;
    if username.is_empty()
        && let Some((user, word)) = decoded(&auth)
    {
        (username, password) = (user, word);
    }
    let credential = RegistryCredential { username, password, identity_token, registry_token };
    (credential != RegistryCredential::default()).then_some(credential)
}

fn decoded(auth: &str) -> Option<(String, String)> {
    let text = String::from_utf8(STANDARD.decode(auth).ok()?).ok()?;
    let (user, password) = text.split_once(':')?;
    // Some tools pad it.
    Some((user.to_owned(), password.trim_end_matches('\0').to_owned()))
}

/// `[scheme://]host[:port][/path]`.
struct Server {
    host: String,
    path: String,
}

impl Server {
    fn parse(text: &str) -> Self {
        let text = text.split_once("://").map_or(text, |(_, rest)| rest);
        let (host, path) = text.split_once('/').unwrap_or((text, ""));
        // What is left of the API's own address, where the whole of it was given.
        let path = path.trim_end_matches('/');
        let path = match path.split_once('/') {
            Some(("v1" | "v2", rest)) => rest,
            None if path == "v1" || path == "v2" => "",
            _ => path,
        };
        Self { host: host.to_ascii_lowercase(), path: path.to_owned() }
    }

    fn is_for(&self, image: &Reference) -> bool {
        let registry = image.registry().to_ascii_lowercase();
        self.is_host(&registry) && self.is_path(image.repository())
    }

    fn is_host(&self, registry: &str) -> bool {
        // The registry that is meant where none is given goes by names that only it has.
        let implied = "name".parse::<Reference>().is_ok_and(|implied| implied.registry() == registry);
        if implied && ["index.", "registry-1."].iter().any(|first| self.host == format!("{first}{registry}"))
        {
            return true;
        }
        let (wanted, given): (Vec<_>, Vec<_>) =
            (self.host.split('.').collect(), registry.split('.').collect());
        wanted.len() == given.len()
            && wanted.into_iter().zip(given).all(|(wanted, given)| is_part(wanted, given))
    }

    /// Whole parts only: what is for `team` is not for `team-of-others`.
    fn is_path(&self, repository: &str) -> bool {
        self.path.is_empty()
            || repository
                .strip_prefix(&*self.path)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// A `*` stands for anything within one part of the name.
fn is_part(wanted: &str, given: &str) -> bool {
    match wanted.split_once('*') {
        None => wanted == given,
        Some((first, last)) => {
            given.len() >= first.len() + last.len() && given.starts_with(first) && given.ends_with(last)
        }
    }
}
