use std::path::Path;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

const ACCOUNT: &str = "berth-agent";

/// A pod: its name, account, phase, second of its creation, and whether it is being deleted.
fn pod((name, account, phase, created, deleting): (&str, &str, &str, u32, bool)) -> Seen {
    let mut pod = json!({
        "metadata": {
            "name": name, "uid": format!("u-{name}"),
            "creationTimestamp": format!("2026-07-02T10:00:{created:02}Z"),
        },
        "spec": { "serviceAccountName": account, "volumes": [
            { "name": "v", "hostPath": { "path": "/run" } },
            { "name": "t", "projected": { "sources": [{ "configMap": {} }, { "serviceAccountToken": { "path": "token" } }] } },
        ] },
        "status": { "phase": phase },
    });
    if deleting {
        pod["metadata"]["deletionTimestamp"] = json!("2026-07-02T11:00:00Z");
    }
    serde_json::from_value(pod).unwrap()
}

fn bound(name: &str) -> Bound {
    Bound { name: name.to_owned(), uid: format!("u-{name}") }
}

#[rstest]
#[case::none(&[], None, None)]
#[case::one(&[("a", ACCOUNT, "Running", 1, false)], None, Some("a"))]
#[case::not_started_yet(&[("a", ACCOUNT, "Pending", 1, false)], None, Some("a"))]
#[case::of_another(&[("a", "default", "Running", 1, false)], None, None)]
#[case::goes(&[("a", ACCOUNT, "Running", 1, true)], Some("a"), None)]
#[case::has_failed(&[("a", ACCOUNT, "Failed", 1, false)], None, None)]
#[case::has_ended(&[("a", ACCOUNT, "Succeeded", 1, false)], Some("a"), None)]
#[case::the_newest(&[("a", ACCOUNT, "Running", 1, false), ("b", ACCOUNT, "Running", 2, false)], None, Some("b"))]
#[case::one_that_runs(&[("a", ACCOUNT, "Running", 1, false), ("b", ACCOUNT, "Pending", 2, false)], None, Some("a"))]
#[case::the_same(&[("a", ACCOUNT, "Pending", 1, false), ("b", ACCOUNT, "Running", 2, false)], Some("a"), Some("a"))]
#[case::its_successor(&[("a", ACCOUNT, "Running", 1, true), ("b", ACCOUNT, "Pending", 2, false)], Some("a"), Some("b"))]
fn a_pod_is_chosen(
    #[case] pods: &[(&str, &str, &str, u32, bool)],
    #[case] before: Option<&str>,
    #[case] expected: Option<&str>,
) {
    let pods: Vec<Seen> = pods.iter().copied().map(pod).collect();
    assert_eq!(chosen(&pods, ACCOUNT, before.map(bound).as_ref()), expected.map(bound));
}

/// A kubelet is refused where no volume has a token for the API server.
#[test]
fn a_pod_without_a_token_is_none() {
    let mut seen = pod(("a", ACCOUNT, "Running", 1, false));
    seen.spec.volumes[1].projected.sources[1].service_account_token =
        Some(Audience { audience: "elsewhere".to_owned() });
    assert_eq!(chosen(&[seen.clone()], ACCOUNT, None), None);
    seen.spec.volumes.clear();
    assert_eq!(chosen(&[seen], ACCOUNT, None), None);
}

/// A token of an hour, of which so much has passed.
fn token(pod: Option<&str>) -> Claims {
    let pod = pod.map_or(Value::Null, |name| json!({ "name": name, "uid": format!("u-{name}") }));
    let claims = json!({ "iat": 0, "exp": 3600, "sub": "s", "kubernetes.io": { "pod": pod } }).to_string();
    Claims::read(Path::new("/t"), &format!("head.{}.signature", URL_SAFE_NO_PAD.encode(claims))).unwrap()
}

#[rstest]
#[case::nothing(None, None, 0, Turn::Wait)]
#[case::first(None, Some("a"), 0, Turn::Ask(bound("a")))]
#[case::good(Some(Some("a")), Some("a"), 0, Turn::Keep(Duration::from_secs(2880)))]
#[case::old(Some(Some("a")), Some("a"), 2880, Turn::Ask(bound("a")))]
#[case::over(Some(Some("a")), Some("a"), 3600, Turn::Ask(bound("a")))]
#[case::another_pod(Some(Some("a")), Some("b"), 0, Turn::Ask(bound("b")))]
#[case::its_pod_has_gone(Some(Some("a")), None, 0, Turn::Drop)]
#[case::over_without_a_pod(Some(Some("a")), None, 3600, Turn::Drop)]
#[case::put_there(Some(None), None, 0, Turn::Keep(Duration::from_secs(2880)))]
#[case::put_there_and_old(Some(None), None, 3000, Turn::Keep(Duration::from_secs(600)))]
#[case::put_there_and_over(Some(None), None, 3600, Turn::Drop)]
#[case::put_there_before_a_pod(Some(None), Some("a"), 0, Turn::Ask(bound("a")))]
fn what_becomes_of_a_token(
    #[case] claims: Option<Option<&str>>,
    #[case] pod: Option<&str>,
    #[case] now: i64,
    #[case] expected: Turn,
) {
    assert_eq!(turn(claims.map(token).as_ref(), pod.map(bound), now), expected);
}
