//! The order of the sources.

use std::fs;

use super::*;

#[tokio::test]
async fn seals_first_then_files_then_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config.json");
    let entries = r#"{"auths": {"example.com": {"username": "file", "password": "p"},
        "example.com/team": {"username": "seal", "password": "p"}, "*.com": {"username": ""}}}"#;
    fs::write(&file, entries).unwrap();
    let config = Images { docker_config: vec![file], ..Images::default() };
    let key = Arc::new(NodeKey::generate());
    let finder =
        CredentialFinder::new("node-a".to_owned(), Some(key.clone()), &config, ImageMetrics::default());

    let given = "example.com/team/app:1";
    let image = ImageReference {
        given: given.into(),
        record: given.into(),
        registry: "example.com".into(),
        repository: "team/app".into(),
    };
    let context = berth_proto::sealing::Context { node: "node-a", wish: "u-1", image: given };
    let credential = RegistryCredential {
        username: "seal".to_owned(),
        password: "p".to_owned(),
        ..RegistryCredential::default()
    };
    let seal = key.sealing_key().seal(&credential, context).unwrap();
    let sealed = [sealed::sealed_entry("u-1", &seal), sealed::sealed_entry("u-2", &seal)];

    let found = finder.find(&image, &Credentials::Sealed(Arc::new(sealed))).await;
    let names = |found: &Found| -> Vec<(&str, String)> {
        let name = |auth: &Option<AuthConfig>| auth.as_ref().map(|auth| auth.username.clone());
        found.candidates.iter().map(|one| (one.from, name(&one.auth).unwrap_or_default())).collect()
    };
    let (seal, file) = (("seal", "seal".to_owned()), ("docker config", "file".to_owned()));
    let nothing = ("anonymous", String::new());
    assert_eq!(names(&found), [seal, file.clone(), nothing.clone()], "the same one is tried once");
    assert!(found.notes[0].starts_with("1 of 2 sealed credentials"), "{:?}", found.notes);

    let found = finder.find(&image, &Credentials::Node).await;
    let second = ("docker config", "seal".to_owned());
    assert_eq!(names(&found), [second, file, nothing]);
    assert!(found.notes.is_empty());
    assert_eq!(found.candidates[2].key, credential_key(None));
}
