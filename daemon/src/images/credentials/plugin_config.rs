//! `CredentialProviderConfig`: the kubelet's own file, read as it reads it.
//!
//! Fields that a newer kubelet may know are let pass: it is its file. A provider that needs the token of a
//! pod's service account (`tokenAttributes`) is left out, as there is no pod yet.

use std::time::Duration;

use serde::Deserialize;

use crate::{base::yaml, config::GoDuration};

/// A provider, ready to be asked. What it is given may be a secret: it has no `Debug` outside of tests.
#[derive(Clone, PartialEq, Eq, Hash)]
#[cfg_attr(test, derive(Debug))]
pub(super) struct Provider {
    /// The program in the directory.
    pub(super) name: String,
    /// For which images it is asked.
    pub(super) match_images: Vec<String>,
    /// How long its answer is good where it does not say so itself.
    pub(super) default_cache: Duration,
    /// The version of the protocol it speaks.
    pub(super) api_version: String,
    pub(super) args: Vec<String>,
    pub(super) env: Vec<(String, String)>,
}

/// Providers of a file.
#[derive(Default, PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
pub(super) struct Providers {
    pub(super) usable: Vec<Provider>,
    /// Providers that need facts which are not there before a pod is.
    pub(super) left_out: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    api_version: String,
    kind: String,
    #[serde(default)]
    providers: Vec<RawProvider>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawProvider {
    name: String,
    #[serde(default)]
    match_images: Vec<String>,
    #[serde(default)]
    default_cache_duration: Option<GoDuration>,
    api_version: String,
    #[serde(default)]
    args: Option<Vec<String>>,
    #[serde(default)]
    env: Option<Vec<Variable>>,
    #[serde(default)]
    token_attributes: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct Variable {
    name: String,
    value: String,
}

/// Versions of the protocol; their messages have the same form.
const PROTOCOLS: [&str; 3] = [
    "credentialprovider.kubelet.k8s.io/v1",
    "credentialprovider.kubelet.k8s.io/v1beta1",
    "credentialprovider.kubelet.k8s.io/v1alpha1",
];

impl Providers {
    /// Reads a file. The error says nothing of env values.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let document: Document = yaml::from_str(text).map_err(|error| {
            let place = error.line().map(|line| format!(", line {line}")).unwrap_or_default();
            format!("no CredentialProviderConfig{place}")
        })?;
        if document.kind != "CredentialProviderConfig"
            || !document.api_version.starts_with("kubelet.config.k8s.io/v1")
        {
            return Err("no CredentialProviderConfig of kubelet.config.k8s.io/v1".to_owned());
        }
        let mut providers = Self::default();
        for raw in document.providers {
            if raw.token_attributes.is_some() {
                providers.left_out.push(raw.name);
                continue;
            }
            providers.usable.push(raw.check()?);
        }
        Ok(providers)
    }
}

impl RawProvider {
    fn check(self) -> Result<Provider, String> {
        let name = self.name;
        // A part of a path, and not a way out of the directory.
        if name.is_empty() || name == "." || name == ".." || name.contains(['/', ' ', '\0']) {
            return Err(format!("{name:?} is no name of a program"));
        }
        if !PROTOCOLS.contains(&self.api_version.as_str()) {
            return Err(format!("provider {name} has the unknown apiVersion {:?}", self.api_version));
        }
        let env = self.env.unwrap_or_default();
        Ok(Provider {
            name,
            match_images: self.match_images,
            default_cache: self.default_cache_duration.map_or(Duration::ZERO, |duration| duration.0),
            api_version: self.api_version,
            args: self.args.unwrap_or_default(),
            env: env.into_iter().map(|variable| (variable.name, variable.value)).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\n";

    #[test]
    fn a_file() {
        let text = format!(
            "{HEADER}providers:
- name: example
  matchImages: ['*.example.com', example.org/team]
  defaultCacheDuration: 12h
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  args: [get, --verbose]
  env: [{{name: REGION, value: eu}}]
- name: pods
  matchImages: ['*']
  defaultCacheDuration: 0s
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  tokenAttributes: {{serviceAccountTokenAudience: x, requireServiceAccount: true}}
"
        );
        let expect = Provider {
            name: "example".to_owned(),
            match_images: vec!["*.example.com".to_owned(), "example.org/team".to_owned()],
            default_cache: Duration::from_secs(12 * 60 * 60),
            api_version: PROTOCOLS[0].to_owned(),
            args: vec!["get".to_owned(), "--verbose".to_owned()],
            env: vec![("REGION".to_owned(), "eu".to_owned())],
        };
        let providers = Providers::parse(&text).unwrap();
        assert_eq!(providers, Providers { usable: vec![expect], left_out: vec!["pods".to_owned()] });
    }

    #[test]
    fn what_is_none() {
        let provider = |name: &str, version: &str| {
            format!("{HEADER}providers: [{{name: '{name}', apiVersion: '{version}', matchImages: [a]}}]\n")
        };
        let table = [
            (String::new(), "no CredentialProviderConfig"),
            ("apiVersion: v1\nkind: Pod\n".to_owned(), "no CredentialProviderConfig of"),
            (provider("../sh", PROTOCOLS[0]), "\"../sh\" is no name"),
            (provider("..", PROTOCOLS[0]), "\"..\" is no name"),
            (provider("", PROTOCOLS[0]), "\"\" is no name"),
            (provider("a", "v1"), "provider a has the unknown apiVersion"),
            (
                format!("{HEADER}providers: [{{name: a, env: hunter2}}]\n"),
                "no CredentialProviderConfig, line 3",
            ),
        ];
        for (text, expect) in table {
            let error = Providers::parse(&text).unwrap_err();
            assert!(error.starts_with(expect) && !error.contains("hunter2"), "{error}");
        }
        assert_eq!(Providers::parse(HEADER).unwrap(), Providers::default());
    }
}
