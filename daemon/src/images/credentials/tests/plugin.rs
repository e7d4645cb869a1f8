//! Shell scripts as plugins: those that do what they should, and those that do not.

use std::{fs, os::unix::fs::PermissionsExt, time::Instant};

use super::*;

const PROTOCOL: &str = "credentialprovider.kubelet.k8s.io/v1";

pub(super) fn provider(name: &str) -> Provider {
    Provider {
        name: name.to_owned(),
        match_images: vec!["*.example.com".to_owned()],
        default_cache: Duration::ZERO,
        api_version: PROTOCOL.to_owned(),
        args: vec!["get".to_owned()],
        env: vec![("REGION".to_owned(), "eu".to_owned())],
    }
}

pub(super) fn script(directory: &Path, name: &str, body: &str) {
    let path = directory.join(name);
    // Written by a process of its own: a file that this one has open for writing while another test forks is
    // "text busy".
    let text = format!("#!/bin/sh\n{body}\n");
    let source = directory.join(format!("{name}.txt"));
    fs::write(&source, text).unwrap();
    assert!(std::process::Command::new("cp").arg(&source).arg(&path).status().unwrap().success());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

async fn run_script(body: &str, limit: Duration) -> Result<Answer, PluginError> {
    let dir = tempfile::tempdir().unwrap();
    script(dir.path(), "plugin", body);
    run_within(&provider("plugin"), dir.path(), "a.example.com/app", limit).await
}

#[tokio::test]
async fn one_that_works() {
    // It answers with what it was given.
    let body = r#"read request
image=$(echo "$request" | sed 's/.*"image":"\([^"]*\)".*/\1/')
version=$(echo "$request" | sed 's/.*"apiVersion":"\([^"]*\)".*/\1/')
kind=$(echo "$request" | sed 's/.*"kind":"\([^"]*\)".*/\1/')
echo a secret >&2
echo "{\"apiVersion\": \"$version\", \"kind\": \"CredentialProviderResponse\", \"cacheKeyType\": \"Registry\",
  \"cacheDuration\": \"1h0m0s\", \"auth\": {\"$image\": {\"username\": \"$kind $1 $REGION $HOME\", \"password\": \"p\"}}}""#;
    let answer = run_script(body, Duration::from_secs(20)).await.ok().unwrap();
    assert_eq!((answer.key, answer.keep), (CacheKeyType::Registry, Some(Duration::from_secs(3600))));
    let login = &answer.logins["a.example.com/app"];
    let home = std::env::var("HOME").unwrap_or_default();
    assert_eq!(login.username, format!("CredentialProviderRequest get eu {home}"));
    assert_eq!(login.password, "p");
}

#[tokio::test]
async fn those_that_do_not() {
    let answer = |text: &str| format!("cat > /dev/null; echo '{text}'");
    let wrong = || PluginError::Answer(PROTOCOL.to_owned());
    let table = [
        ("cat > /dev/null; exit 3".to_owned(), PluginError::Failed("exit status: 3".to_owned())),
        ("exec 0<&-; exit 1".to_owned(), PluginError::Failed("exit status: 1".to_owned())),
        (answer("hunter2"), wrong()),
        (answer(""), wrong()),
        (answer("{}"), wrong()),
        (
            answer(
                r#"{"apiVersion":"v1","kind":"CredentialProviderResponse","cacheKeyType":"Image","auth":{}}"#,
            ),
            wrong(),
        ),
        ("cat > /dev/null; head -c 1100000 /dev/zero; sleep 100".to_owned(), PluginError::TooMuch),
        ("yes".to_owned(), PluginError::TooMuch),
    ];
    for (body, expect) in table {
        let error = run_script(&body, Duration::from_secs(20)).await.err().unwrap();
        assert_eq!(error, expect, "{body}");
        assert!(!error.to_string().contains("hunter2"));
    }
    let missing = run_within(&provider("missing"), Path::new("/nowhere"), "a", Duration::from_secs(20)).await;
    assert!(missing.err().unwrap().to_string().starts_with("not started: No such file"));
}

#[tokio::test]
async fn one_that_hangs_is_killed_with_its_children() {
    let dir = tempfile::tempdir().unwrap();
    let pids = dir.path().join("pids");
    script(
        dir.path(),
        "plugin",
        &format!("sleep 1000 & echo $! > {0}.new; mv {0}.new {0}; wait", pids.display()),
    );
    // Long enough for its child to be there, on a slow machine as well.
    for limit in [1, 10, 60].map(Duration::from_secs) {
        let began = Instant::now();
        let hung = run_within(&provider("plugin"), dir.path(), "a", limit).await.err().unwrap();
        assert_eq!(hung, PluginError::TimedOut(limit));
        assert!(began.elapsed() < limit.saturating_add(Duration::from_secs(60)));
        if pids.exists() {
            break;
        }
    }
    let began = Instant::now();
    let child: i32 = fs::read_to_string(pids).unwrap().trim().parse().unwrap();
    // Dead, or a zombie that whoever adopted it has not buried yet.
    let gone = || match fs::read_to_string(format!("/proc/{child}/stat")) {
        Ok(stat) => stat.contains(") Z "),
        Err(_) => true,
    };
    while !gone() {
        assert!(began.elapsed() < Duration::from_secs(60), "child {child} lives");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
