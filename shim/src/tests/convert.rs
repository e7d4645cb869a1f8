//! Tables of the conversion.

use super::*;

fn annotations(entries: &[(&str, &str)]) -> HashMap<String, String> {
    entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn request() -> cri::CreateContainerRequest {
    let metadata = cri::PodSandboxMetadata {
        uid: "u".to_owned(),
        namespace: "ns".to_owned(),
        name: "pod".to_owned(),
        attempt: 0,
    };
    cri::CreateContainerRequest {
        pod_sandbox_id: "s".to_owned(),
        config: Some(cri::ContainerConfig {
            metadata: Some(cri::ContainerMetadata { name: "c".to_owned(), attempt: 3 }),
            ..Default::default()
        }),
        sandbox_config: Some(cri::PodSandboxConfig {
            metadata: Some(metadata),
            labels: annotations(&[(POD_UID_LABEL, "u")]),
            ..Default::default()
        }),
    }
}

#[test]
fn a_pod_is_a_kubelets_by_its_label() {
    assert!(!create_container(request()).unwrap().declared.foreign);
    let mut by_hand = request();
    by_hand.sandbox_config.as_mut().unwrap().labels.clear();
    assert!(create_container(by_hand).unwrap().declared.foreign);
}

#[test]
fn create_container_is_read_whole() {
    let read = create_container(request()).unwrap();
    assert_eq!((read.sandbox, read.container, read.attempt), ("s".into(), "c".into(), 3));
    assert_eq!(read.pod, PodRef { uid: "u".into(), namespace: "ns".to_owned(), name: "pod".to_owned() });
    assert_eq!(read.declared, Declared::default());
}

#[test]
fn create_container_without_identity_is_not_judged() {
    type Cut = fn(&mut cri::CreateContainerRequest);
    let cuts: [(Cut, Missing); 4] = [
        (|request| request.config = None, Missing("config")),
        (|request| request.sandbox_config = None, Missing("sandbox_config")),
        (|request| request.config.as_mut().unwrap().metadata = None, Missing("config.metadata")),
        (
            |request| request.sandbox_config.as_mut().unwrap().metadata = None,
            Missing("sandbox_config.metadata"),
        ),
    ];
    for (cut, missing) in cuts {
        let mut request = request();
        cut(&mut request);
        assert_eq!(create_container(request).unwrap_err(), missing);
    }
}

#[test]
fn a_hint_is_the_annotation_or_the_env_whatever_their_value() {
    let mut by_env = request();
    let env = cri::KeyValue { key: PRIORITY_ENV.to_owned(), value: "high".to_owned() };
    by_env.config.as_mut().unwrap().envs.push(env);
    assert!(create_container(by_env).unwrap().declared.hinted);

    let mut by_annotation = request();
    by_annotation.sandbox_config.as_mut().unwrap().annotations = annotations(&[(ORDERED_ANNOTATION, "?")]);
    assert!(create_container(by_annotation).unwrap().declared.hinted);
}

#[test]
fn plans() {
    let read = |text| declared(&HashMap::new(), &annotations(&[(PLAN_ANNOTATION, text)])).plan.unwrap();
    assert_eq!(read(r#"{"b": 2, "a": -1}"#), Ok(vec![("b".into(), 2), ("a".into(), -1)]));
    assert_eq!(read("{}"), Ok(vec![]));
    // Out of the range of priorities, but an integer: the policy names the container.
    assert_eq!(read(r#"{"a": 9223372036854775807}"#), Ok(vec![("a".into(), i64::MAX)]));
    for text in [
        "",
        "null",
        "[]",
        "{",
        "{} {}",
        r#"{"a": "1"}"#,
        r#"{"a": 1.0}"#,
        r#"{"a": null}"#,
        r#"{"a": 9223372036854775808}"#,
        r#"{"a": 1, "a": 1}"#,
        r#"{"a": 1, "b": 2, "a": 3}"#,
    ] {
        assert!(matches!(read(text), Err(OrderError::MalformedPlan { .. })), "{text}");
    }
    assert_eq!(declared(&HashMap::new(), &HashMap::new()).plan, None);
}

/// The text is anybody's who makes a pod, and it is read on the thread of all calls.
#[test]
fn plans_are_bounded_in_entries_names_and_words() {
    let plan = |count: usize| {
        let entries: Vec<String> = (0..count).map(|number| format!("\"{number}\":1")).collect();
        format!("{{{}}}", entries.join(","))
    };
    let read = |text: &str| declared(&HashMap::new(), &annotations(&[(PLAN_ANNOTATION, text)])).plan.unwrap();
    assert_eq!(read(&plan(MAX_LIST)).unwrap().len(), MAX_LIST);
    assert_eq!(read(&format!(r#"{{"{}": 1}}"#, "x".repeat(MAX_NAME))).unwrap().len(), 1);
    for (text, reason) in [
        (plan(MAX_LIST + 1), "it has more than 1024 entries"),
        (plan(30_000), "it has more than 1024 entries"),
        (format!(r#"{{"{}": 1}}"#, "x".repeat(MAX_NAME + 1)), "a name has more than 512 bytes"),
        (format!(r#"{{"a": "{}"}}"#, "x".repeat(200_000)), "invalid type: string"),
    ] {
        let Err(OrderError::MalformedPlan { reason: said }) = read(&text) else { panic!("{reason}") };
        assert!(said.starts_with(reason) && said.len() <= MAX_NAME, "{said}");
    }
}

#[test]
fn a_negative_stop_timeout_is_none() {
    for (timeout, expected) in [(30, 30), (0, 0), (-1, 0), (i64::MIN, 0)] {
        let request = cri::StopContainerRequest { container_id: "c".to_owned(), timeout };
        assert_eq!(stop_container(request).timeout, Duration::from_secs(expected));
    }
}

#[test]
fn states() {
    let table = [
        (0, ContainerState::Created),
        (1, ContainerState::Running),
        (2, ContainerState::Exited { code: None }),
        (3, ContainerState::Unknown),
        (77, ContainerState::Unknown),
    ];
    for (state, expected) in table {
        let container = cri::Container {
            id: "c".to_owned(),
            pod_sandbox_id: "s".to_owned(),
            metadata: Some(cri::ContainerMetadata::default()),
            state,
            ..Default::default()
        };
        let (sandbox, container) = listed_container(container).unwrap();
        assert_eq!((sandbox, container.state), ("s".into(), expected));
    }
    let status = cri::ContainerStatus {
        metadata: Some(cri::ContainerMetadata::default()),
        state: 2,
        exit_code: 143,
        ..Default::default()
    };
    assert_eq!(container_status(status).unwrap().state, ContainerState::Exited { code: Some(143) });
}

#[test]
fn the_same_credentials_have_the_same_key() {
    let auth = |username: &str, password: &str| cri::AuthConfig {
        username: username.to_owned(),
        password: password.to_owned(),
        ..Default::default()
    };
    let key = |auth: &cri::AuthConfig| credential_key(Some(auth));
    assert_eq!(key(&auth("a", "b")), key(&auth("a", "b")));
    assert_eq!(credential_key(None), key(&cri::AuthConfig::default()));
    let token = cri::AuthConfig { registry_token: "b".to_owned(), ..Default::default() };
    for other in [auth("b", "a"), auth("ab", ""), auth("", "ab"), auth("a", "c"), token] {
        assert_ne!(key(&auth("a", "b")), key(&other));
        assert_ne!(key(&other), credential_key(None));
    }
    assert_eq!(format!("{:?}", key(&auth("a", "b"))), "CredentialKey");
}
