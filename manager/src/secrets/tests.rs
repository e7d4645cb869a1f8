//! Docker configurations, and seals made from them.

use berth_proto::sealing::NodeKey;
use k8s_openapi::ByteString;
use rstest::rstest;
use serde_json::{Value, json};

use super::{docker_config::*, *};

fn secret(kind: &str, key: &str, value: &Value) -> Secret {
    let data = [(key.to_owned(), ByteString(serde_json::to_vec(value).unwrap()))];
    Secret { type_: Some(kind.to_owned()), data: Some(data.into()), ..Secret::default() }
}

fn config(auths: Value) -> Secret {
    secret("kubernetes.io/dockerconfigjson", ".dockerconfigjson", &json!({ "auths": auths }))
}

/// User names of what matches.
fn users(secret: &Secret, image: &str) -> Vec<String> {
    matching(auths(secret).unwrap(), &image.parse().unwrap()).map(|one| one.username).collect()
}

fn user(name: &str) -> Value {
    json!({ "username": name, "password": "p" })
}

#[rstest]
#[case::host("registry.example.com", "registry.example.com/app:1", true)]
#[case::another_host("registry.example.com", "registry.example.org/app:1", false)]
#[case::url("https://registry.example.com/v1/", "registry.example.com/app", true)]
#[case::url_v2("https://registry.example.com/v2/", "registry.example.com/app", true)]
#[case::port("registry.example.com:5000", "registry.example.com:5000/app", true)]
#[case::another_port("registry.example.com:5000", "registry.example.com/app", false)]
#[case::path("registry.example.com/team", "registry.example.com/team/app", true)]
#[case::whole_path("registry.example.com/team/app", "registry.example.com/team/app:2", true)]
#[case::another_path("registry.example.com/team", "registry.example.com/team-of-others/app", false)]
#[case::wildcard("*.example.com", "registry.example.com/app", true)]
#[case::wildcard_is_one_part("*.example.com", "a.b.example.com/app", false)]
#[case::wildcard_in_a_part("reg*.example.com", "registry.example.com/app", true)]
#[case::suffix("example.com", "evil-example.com/app", false)]
#[case::upper_case("Registry.Example.com", "registry.example.com/app", true)]
fn which_entries_are_for_an_image(#[case] server: &str, #[case] image: &str, #[case] yes: bool) {
    let found = users(&config(json!({ server: user("u") })), image);
    assert_eq!(found.len(), usize::from(yes));
}

#[test]
fn the_registry_that_is_implied_goes_by_several_names() {
    let registry = "app".parse::<Reference>().unwrap().registry().to_owned();
    for server in
        [registry.clone(), format!("https://index.{registry}/v1/"), format!("registry-1.{registry}")]
    {
        assert_eq!(users(&config(json!({ server: user("u") })), "team/app:1"), ["u"]);
    }
    assert!(users(&config(json!({ "index.example.com": user("u") })), "example.com/app").is_empty());
}

#[test]
fn the_most_particular_comes_first() {
    let config = config(json!({
        "*.example.com": user("any"), "registry.example.com": user("host"), "registry.example.com/team": user("team"),
    }));
    assert_eq!(users(&config, "registry.example.com/team/app"), ["team", "host", "any"]);
}

#[test]
fn every_kind_of_credential() {
    let config = config(
        json!({ "r.example.com": { "auth": STANDARD_AUTH }, "r.example.com/a": { "identitytoken": "i" },
        "r.example.com/a/b": { "registrytoken": "t" }, "r.example.com/a/b/c": {} }),
    );
    let found: Vec<_> = matching(auths(&config).unwrap(), &"r.example.com/a/b/c".parse().unwrap()).collect();
    assert_eq!(found.len(), 3, "one that is empty is none");
    assert_eq!((&*found[0].registry_token, &*found[1].identity_token), ("t", "i"));
    assert_eq!((&*found[2].username, &*found[2].password), ("user", "pa:ss"));
    let old = secret("kubernetes.io/dockercfg", ".dockercfg", &json!({ "r.example.com": user("u") }));
    assert_eq!(users(&old, "r.example.com/app"), ["u"]);
}

/// `user:pa:ss`.
const STANDARD_AUTH: &str = "dXNlcjpwYTpzcw==";

#[test]
fn what_is_no_docker_configuration_is_said_without_a_word_of_it() {
    let odd = secret("kubernetes.io/dockerconfigjson", ".dockerconfigjson", &json!(["topsecret"]));
    let opaque = secret("Opaque", "token", &json!("topsecret"));
    for secret in [odd, opaque, Secret::default()] {
        let error = auths(&secret).err().unwrap();
        assert!(!error.contains("topsecret") && error.starts_with("it"), "{error}");
    }
}

#[test]
fn only_the_node_it_is_for_opens_it() {
    let (vault, a, b) = (Vault::default(), NodeKey::generate(), NodeKey::generate());
    let credential = RegistryCredential { username: "u".into(), password: "p".into(), ..Default::default() };
    assert!(matches!(vault.seal("job", "", "a", "i"), Err(NotSealed::Gone(_))));
    vault.keep("job".into(), vec![credential.clone()]);
    let sealed = vault.seal("job", &a.sealing_key().encoded(), "a", "i").unwrap();
    let context = Context { node: "a", wish: "job", image: "i" };
    assert!(a.open(&sealed[0], context).unwrap() == credential);
    assert!(b.open(&sealed[0], Context { node: "b", ..context }).is_err());
    assert!(matches!(vault.seal("job", "no key", "a", "i"), Err(NotSealed::Key(_))));
    vault.forget("job");
    assert!(vault.seal("job", &a.sealing_key().encoded(), "a", "i").is_err());
}

#[test]
fn what_is_missing_is_named_with_the_remedy() {
    let fetch = Fetch {
        uid: "u".into(),
        job: crate::seen::Key { namespace: "shop".into(), name: "job".into() },
        names: Box::new(["one".to_owned(), "two".to_owned()]),
        image: "r.example.com/app".to_owned(),
    };
    let text = missing(&fetch, "two", "the manager may not get it");
    for part in ["shop/two", "Role", "get", "[one, two]", "berth-manager"] {
        assert!(text.contains(part), "{text}");
    }
}
