//! Docker configurations, and seals made from them.

use berth_proto::sealing::NodeKey;
use http::request::Parts;
use k8s_openapi::ByteString;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::served::{client, failure, slow_client, text_client};

fn secret(kind: &str, key: &str, value: &Value) -> Secret {
    let data = [(key.to_owned(), ByteString(serde_json::to_vec(value).unwrap()))];
    Secret { type_: Some(kind.to_owned()), data: Some(data.into()), ..Secret::default() }
}

fn config(auths: Value) -> Secret {
    secret("kubernetes.io/dockerconfigjson", ".dockerconfigjson", &json!({ "auths": auths }))
}

/// A job that names these Secrets.
fn fetch<const N: usize>(names: [&str; N]) -> Fetch {
    Fetch {
        uid: "u".into(),
        job: Key { namespace: "shop".into(), name: "job".into() },
        names: names.map(str::to_owned).into(),
        image: "r.example.com/app:1".to_owned(),
    }
}

fn found(secret: &Secret, image: &str) -> Vec<RegistryCredential> {
    docker_config::of(secret).unwrap_or_else(|why| panic!("{why}")).matching(image).credentials
}

#[test]
fn every_kind_of_credential() {
    let config = config(
        json!({ "r.example.com": { "auth": STANDARD_AUTH }, "r.example.com/a": { "identitytoken": "i" },
        "r.example.com/a/b": { "registrytoken": "t" }, "r.example.com/a/b/c": {} }),
    );
    let all = found(&config, "r.example.com/a/b/c");
    assert_eq!(all.len(), 3, "one that is empty is none");
    assert_eq!((&*all[0].registry_token, &*all[1].identity_token), ("t", "i"));
    assert_eq!((&*all[2].username, &*all[2].password), ("user", "pa:ss"));
    let old =
        secret("kubernetes.io/dockercfg", ".dockercfg", &json!({ "r.example.com": { "username": "u" } }));
    assert_eq!(found(&old, "r.example.com/app")[0].username, "u");
}

/// `user:pa:ss`.
const STANDARD_AUTH: &str = "dXNlcjpwYTpzcw==";

#[test]
fn what_is_no_docker_configuration_is_said_without_a_word_of_it() {
    let odd = secret("kubernetes.io/dockerconfigjson", ".dockerconfigjson", &json!(["topsecret"]));
    let opaque = secret("Opaque", "token", &json!("topsecret"));
    for secret in [odd, opaque, Secret::default()] {
        let error = docker_config::of(&secret).err().unwrap();
        assert!(!error.contains("topsecret") && error.starts_with("it"), "{error}");
    }
}

#[test]
fn only_the_node_it_is_for_opens_it() {
    let (vault, a, b) = (Vault::default(), NodeKey::generate(), NodeKey::generate());
    let credential = RegistryCredential { username: "u".into(), password: "p".into(), ..Default::default() };
    assert!(matches!(vault.seal("job", "", "a", "i"), Err(NotSealed::Gone(_))));
    vault.keep("job".into(), "i".into(), vec![credential.clone()]);
    let sealed = vault.seal("job", &a.sealing_key().encoded(), "a", "i").unwrap();
    let context = Context { node: "a", wish: "job", image: "i" };
    assert!(a.open(&sealed[0], context).unwrap() == credential);
    assert!(b.open(&sealed[0], Context { node: "b", ..context }).is_err());
    assert!(matches!(vault.seal("job", "no key", "a", "i"), Err(NotSealed::Key(_))));
    let other = vault.seal("job", &a.sealing_key().encoded(), "a", "other");
    assert!(matches!(other, Err(NotSealed::Image { .. })), "that registry must not see them");
    vault.forget("job");
    assert!(vault.seal("job", &a.sealing_key().encoded(), "a", "i").is_err());
}

#[test]
fn what_is_missing_is_named_with_the_remedy() {
    let text = missing(&fetch(["one", "two"]), "two", "the manager may not get it");
    for part in ["shop/two", "Role", "get", "[one, two]", "berth-manager"] {
        assert!(text.contains(part), "{text}");
    }
}

#[tokio::test]
async fn an_answer_that_is_no_secret_is_told_without_a_word_of_it() {
    for body in [
        r#"{"data": "topsecret"}"#,
        r#"{"data": {".dockerconfigjson": "topsecret!"}}"#,
        r#"{"data": {".dockerconfigjson": 4711471147}}"#,
        r#"{"metadata": {"name": ["topsecret"]}}"#,
        r#"{"type": "topsecret", "stringData": {"a": "tops"#,
    ] {
        let error = match credentials(&text_client(body), &fetch(["pull"])).await {
            Ok(Found { lacks, .. }) => lacks.unwrap(),
            Err(error) => error,
        };
        assert!(error.starts_with("Secret shop/pull of spec.pullSecrets: "), "{error}");
        assert!(!error.contains("tops") && !error.contains("4711"), "{error}");
    }
}

/// Credentials of the others are found all the same; an API server that answers nothing says nothing of any.
#[rstest]
#[case::not_there(404, Some("it does not exist"))]
#[case::forbidden(403, Some("the manager may not get it"))]
#[case::no_answer(500, None)]
#[tokio::test]
async fn a_secret_that_is_missing_hides_no_other(#[case] code: u16, #[case] lacks: Option<&str>) {
    let there = config(json!({ "r.example.com": { "username": "user", "password": "word" } }));
    let there = serde_json::to_value(&there).unwrap();
    let answer = move |request: &Parts| match request.uri.path().ends_with("/there") {
        true => there.clone(),
        false => failure(code),
    };
    let read = credentials(&client(answer).0, &fetch(["missing", "there"])).await;
    match lacks {
        Some(why) => {
            let found = read.ok().unwrap();
            assert_eq!(found.credentials.len(), 1);
            assert!(found.lacks.unwrap().contains(why));
        }
        None => assert!(read.err().unwrap().contains("500")),
    }
}

/// Nobody is asked for what is no name: it would be another path, or none.
#[rstest]
#[case::a_way_out("../../other/secrets/there")]
#[case::a_parameter("there?watch=true")]
#[case::nothing("")]
#[case::a_space(" ")]
#[case::a_percent("1000000000%")]
#[tokio::test]
async fn a_secret_without_a_name_hides_no_other(#[case] name: &str) {
    let there = config(json!({ "r.example.com": { "username": "user", "password": "word" } }));
    let (client, asked) = client(move |_| serde_json::to_value(&there).unwrap());
    let found = credentials(&client, &fetch([name, "there"])).await.ok().unwrap();
    assert_eq!(found.credentials.len(), 1);
    assert!(found.lacks.unwrap().contains("it is no name of a Secret"));
    let asked = asked.each(|request| request.uri.path().to_owned());
    assert_eq!(asked, ["/api/v1/namespaces/shop/secrets/there"]);
}

/// A Secret that takes much memory hides no other one, and no more of it is read than of any object.
#[tokio::test]
async fn a_secret_is_read_as_far_as_any() {
    let there = config(json!({ "r.example.com": { "username": "user", "password": "word" } }));
    let mut large = serde_json::to_value(&there).unwrap();
    large["tops"] = json!(vec![json!({ "ecret": 1 }); 20_000]);
    let mut deep = serde_json::to_value(&there).unwrap();
    deep["metadata"] = json!({ "managedFields": (0..500).fold(Value::Null, |inner, _| json!([inner])) });
    let answer = move |request: &Parts| match request.uri.path().ends_with("/large") {
        true => large.clone(),
        false => deep.clone(),
    };
    let read = credentials(&client(answer).0, &fetch(["large", "deep-managed-fields"])).await;
    let found = read.ok().unwrap();
    assert_eq!(found.credentials.len(), 1);
    let lacks = found.lacks.unwrap();
    assert!(lacks.contains("shop/large") && lacks.contains(UNREADABLE), "{lacks}");
    assert!(!lacks.contains("tops") && !lacks.contains("word"), "{lacks}");
}

/// A leader that begins asks for the Secrets of all open jobs. A few are read at a time, and a namespace with
/// many of them keeps none from being read that comes later.
#[tokio::test(start_paused = true)]
async fn secrets_are_read_a_few_at_a_time() {
    let takes = Duration::from_secs(1);
    let (client, seen) = slow_client(takes, |_| failure(404));
    let ((asks, asked), (answers, mut read_ones)) = (mpsc::unbounded_channel(), mpsc::channel(1024));
    let ask = |namespace: &str, number: usize| {
        let name = format!("job-{number}");
        let job = Key { namespace: namespace.into(), name: name.as_str().into() };
        asks.send(Fetch { uid: name.as_str().into(), job, ..fetch(["pull"]) }).unwrap();
    };
    (0..100).for_each(|number| ask("crowd", number));
    let reading = tokio::spawn(read(client, asked, answers));
    tokio::time::sleep(takes / 2).await;
    assert!(seen.count() <= steps::AT_ONCE, "{} at once", seen.count());
    ask("shop", 100);
    tokio::time::sleep(takes * 2).await;
    let mut found = Vec::new();
    while let Ok(answer) = read_ones.try_recv() {
        found.push(answer.fetch.job.namespace);
    }
    assert!(found.iter().any(|namespace| &**namespace == "shop"), "{} were read", found.len());
    reading.abort();
}
