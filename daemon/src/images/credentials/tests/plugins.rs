//! Which providers are asked, and how long their answers are kept. The scripts count how often they ran.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use tempfile::TempDir;

use super::*;

struct Node {
    dir: TempDir,
    plugins: Plugins,
}

impl Node {
    /// One provider for `*.example.com`, whose answer is this much of a response.
    fn new(answer: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let version = "credentialprovider.kubelet.k8s.io/v1";
        let node = Self {
            plugins: Plugins::new(
                dir.path().join("config.yaml"),
                dir.path().to_owned(),
                ImageMetrics::default(),
            ),
            dir,
        };
        node.configure(&format!(
            "- {{name: plugin, matchImages: ['*.example.com'], defaultCacheDuration: 1h, apiVersion: {version}}}\n"
        ));
        let response =
            format!(r#"{{"apiVersion": "{version}", "kind": "CredentialProviderResponse", {answer}}}"#);
        fs::write(node.dir.path().join("response"), response).unwrap();
        let dir = node.dir.path().display();
        node.script(&format!("#!/bin/sh\ncat > /dev/null\necho ran >> {dir}/runs\ncat {dir}/response\n"));
        node
    }

    fn configure(&self, providers: &str) {
        let header = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n";
        fs::write(self.path().join("config.yaml"), format!("{header}{providers}")).unwrap();
    }

    fn script(&self, text: &str) {
        let (source, path) = (self.path().join("source"), self.path().join("plugin"));
        fs::write(&source, text).unwrap();
        // By a process of its own: a file that this one writes while another test forks is "text busy".
        assert!(std::process::Command::new("cp").args([&source, &path]).status().unwrap().success());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn runs(&self) -> usize {
        fs::read_to_string(self.path().join("runs")).unwrap_or_default().lines().count()
    }

    async fn names(&self, image: &str) -> Vec<String> {
        let (auths, notes) = self.plugins.ask(image).await;
        assert!(notes.is_empty(), "{notes:?}");
        auths.into_iter().map(|auth| auth.username).collect()
    }
}

const LOGINS: &str = r#""auth": {"*.example.com": {"username": "wide", "password": "p"},
    "https://a.example.com/team": {"username": "narrow", "password": "p"}}"#;

#[tokio::test]
async fn what_matches_most_specific_first() {
    let node = Node::new(&format!(r#""cacheKeyType": "Registry", {LOGINS}"#));
    assert_eq!(node.names("a.example.com/team/app").await, ["narrow", "wide"]);
    assert_eq!(node.names("b.example.com/team/app").await, ["wide"]);
    assert!(node.names("example.org/app").await.is_empty());
    assert_eq!(node.runs(), 2, "once for each registry, and never for one that does not match");
}

#[tokio::test]
async fn answers_are_kept_for_what_they_are_about() {
    let images = ["a.example.com/one", "a.example.com/two", "b.example.com/one", "a.example.com/one"];
    for (kind, runs) in [("Image", 3), ("Registry", 2), ("Global", 1)] {
        let node = Node::new(&format!(r#""cacheKeyType": "{kind}", {LOGINS}"#));
        for image in images {
            assert_eq!(node.names(image).await, ["wide"]);
        }
        assert_eq!(node.runs(), runs, "{kind}");
    }
    // Its own word counts before the configuration's.
    let node = Node::new(&format!(r#""cacheKeyType": "Global", "cacheDuration": "0s", {LOGINS}"#));
    for image in images {
        node.names(image).await;
    }
    assert_eq!(node.runs(), 4);
}

#[tokio::test]
async fn no_more_than_so_many_are_kept() {
    let node = Node::new(&format!(r#""cacheKeyType": "Image", {LOGINS}"#));
    let providers = node.plugins.providers().await.unwrap();
    for at in 0..2 * KEPT {
        let key = (providers.usable[0].clone(), Some(format!("a.example.com/{at}")));
        node.plugins.keep(key, Duration::from_secs(3600 + at as u64), &[]);
    }
    let kept = node.plugins.kept.lock().unwrap();
    assert_eq!(kept.len(), KEPT);
    let last = format!("a.example.com/{}", 2 * KEPT - 1);
    assert!(kept.keys().any(|(_, image)| image.as_deref() == Some(&last)));
}

#[tokio::test]
async fn failures_are_noted_and_the_configuration_is_read_anew() {
    let node = Node::new("");
    node.script("#!/bin/sh\nexit 7\n");
    let (auths, notes) = node.plugins.ask("a.example.com/app").await;
    assert!(auths.is_empty());
    assert_eq!(notes, ["credential provider plugin: ended with exit status: 7"]);
    node.configure("- nonsense\n");
    let (_, notes) = node.plugins.ask("a.example.com/app").await;
    assert!(notes[0].ends_with("config.yaml: no CredentialProviderConfig, line 4"), "{notes:?}");
    fs::remove_file(node.path().join("config.yaml")).unwrap();
    let (_, notes) = node.plugins.ask("a.example.com/app").await;
    assert!(notes[0].ends_with("config.yaml: is not there"), "{notes:?}");
}
