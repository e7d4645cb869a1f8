//! Hooks against servers of a test's own, and stops against a runtime that answers as it is told.

mod web;

use std::{collections::BTreeMap, time::Instant};

use berth_policy::PodRef;
use berth_proto::cri;
use prost::Message;
use tonic::Code;

use super::{stop::StopError, *};
use crate::{
    base::{causes::chain, http_get::server::Server},
    cri::played::{Answer, Played},
};

const SECOND: Duration = Duration::from_secs(1);
/// Time for what answers, on a machine with other work to do.
const PATIENT: Duration = Duration::from_secs(30);

fn stop(hook: Option<Hook>, grace: Duration) -> DirectStop {
    DirectStop {
        container: "c".into(),
        name: "app".into(),
        pod: PodRef { uid: "u".into(), namespace: "shop".to_owned(), name: "web".to_owned() },
        sandbox: "s".into(),
        ip: None,
        hook,
        mark: None,
        grace,
    }
}

fn exec(command: &[&str]) -> Hook {
    Hook::Exec { command: command.iter().map(|word| (*word).to_owned()).collect() }
}

fn status(state: cri::ContainerState, log_path: &str) -> Answer {
    let status = cri::ContainerStatus {
        id: "c".to_owned(),
        state: state.into(),
        log_path: log_path.to_owned(),
        ..Default::default()
    };
    Answer::message(&cri::ContainerStatusResponse { status: Some(status), ..Default::default() })
}

async fn run_once(played: &Played, stop: &DirectStop, hook: &Hook, limit: Duration) -> Result<(), HookError> {
    run(&played.client(), stop, hook, limit, &CancellationToken::new()).await
}

#[tokio::test]
async fn a_command_succeeds_by_its_exit_code_and_is_not_quoted() {
    let played = Played::new(|method, message| {
        if method == "Version" {
            return Answer::message(&cri::VersionResponse::default());
        }
        let request = cri::ExecSyncRequest::decode(message).unwrap();
        let exit_code = request.cmd.last().unwrap().parse().unwrap();
        let stderr = b"the password is swordfish".to_vec();
        Answer::message(&cri::ExecSyncResponse { exit_code, stderr, ..Default::default() })
    });
    let stop = stop(None, SECOND);
    run_once(&played, &stop, &exec(&["sh", "0"]), 29_500 * SECOND / 1000).await.unwrap();
    let error = run_once(&played, &stop, &exec(&["--token=swordfish", "3"]), PATIENT).await.unwrap_err();
    assert!(matches!(error, HookError::ExitCode(3)));
    assert_eq!(chain(&error), "the command ended with exit code 3");
    let asked = played.asked::<cri::ExecSyncRequest>("ExecSync");
    // Rounded up.
    assert_eq!((asked[0].container_id.as_str(), asked[0].timeout, asked[1].timeout), ("c", 30, 30));
}

#[tokio::test]
async fn a_command_is_not_lost_with_a_runtime_that_was_restarted() {
    let elsewhere =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let before = elsewhere();
    let guard = before.enter();
    let node = berth_fake::Node::new(|_, _| Ok(()));
    drop(guard);
    let client = Runtime::new(&node.socket().into());
    client.version().await.unwrap();
    // Nothing here is scheduled meanwhile: the client does not see that its connection ends.
    before.shutdown_background();
    while std::os::unix::net::UnixStream::connect(node.socket()).is_ok() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let after = elsewhere();
    let guard = after.enter();
    node.listen();
    drop(guard);
    run(&client, &stop(None, SECOND), &exec(&["true"]), PATIENT, &CancellationToken::new()).await.unwrap();
    assert_eq!(node.calls(), ["ExecSync c true"]);
    after.shutdown_background();
}

#[tokio::test]
async fn a_runtime_that_runs_nothing_says_why() {
    let played = Played::new(|_, _| Answer::Error(Code::NotFound, "no such container"));
    let error = run_once(&played, &stop(None, SECOND), &exec(&["x"]), PATIENT).await.unwrap_err();
    assert!(chain(&error).contains("ExecSync of the runtime: no such container"), "{}", chain(&error));
}

#[tokio::test]
async fn every_kind_has_an_end() {
    let played = Played::new(|_, _| Answer::Never);
    let silent = Server::silent().await;
    let stop = stop(None, SECOND);
    let hooks = [
        exec(&["x"]),
        Hook::Sleep(60 * SECOND),
        silent.hook(false, "/", &[]),
        silent.hook(true, "/", &[]),
        // The runtime is asked for the address, and does not answer either.
        Hook::Tcp { host: None, port: 1 },
    ];
    for hook in hooks {
        let limit = 150 * SECOND / 1000;
        let error = run_once(&played, &stop, &hook, limit).await.unwrap_err();
        assert!(matches!(error, HookError::TimedOut(after) if after == limit), "{hook:?}: {error}");

        let cancel = CancellationToken::new();
        let client = played.client();
        let running = run(&client, &stop, &hook, 60 * SECOND, &cancel);
        let cancelled = async {
            tokio::time::sleep(SECOND / 20).await;
            cancel.cancel();
        };
        let (result, ()) = tokio::join!(running, cancelled);
        assert!(matches!(result, Err(HookError::Cancelled)), "{hook:?}: {result:?}");
    }
    // Given up here, given up there.
    played.until_abandoned().await;
}

#[tokio::test]
async fn sleep_and_tcp() {
    let played = Played::new(|_, _| Answer::message(&cri::PodSandboxStatusResponse::default()));
    let began = Instant::now();
    let nap = SECOND / 20;
    let mut stop = stop(None, SECOND);
    run_once(&played, &stop, &Hook::Sleep(nap), PATIENT).await.unwrap();
    assert!(began.elapsed() >= nap);

    let server = Server::silent().await;
    let tcp = |host: Option<&str>, port| Hook::Tcp { host: host.map(str::to_owned), port };
    run_once(&played, &stop, &tcp(Some("127.0.0.1"), server.port), PATIENT).await.unwrap();
    let error = run_once(&played, &stop, &tcp(None, server.port), PATIENT).await.unwrap_err();
    assert!(matches!(error, HookError::NoAddress(_)), "{error}");
    stop.ip = Some("127.0.0.1".to_owned());
    run_once(&played, &stop, &tcp(None, server.port), PATIENT).await.unwrap();
    drop(server);
    let error = run_once(&played, &stop, &tcp(None, 1), PATIENT).await.unwrap_err();
    assert!(chain(&error).starts_with("127.0.0.1 port 1 cannot be reached"), "{}", chain(&error));
}

#[tokio::test]
async fn the_runtimes_address_comes_first() {
    let network = cri::PodSandboxNetworkStatus { ip: "127.0.0.1".to_owned(), ..Default::default() };
    let status = cri::PodSandboxStatus { network: Some(network), ..Default::default() };
    let answer = cri::PodSandboxStatusResponse { status: Some(status), ..Default::default() };
    let played = Played::new(move |_, _| Answer::message(&answer));
    let server = Server::silent().await;
    let hook = Hook::Tcp { host: None, port: server.port };
    // An address of nobody.
    let stop = DirectStop { ip: Some("192.0.2.1".to_owned()), ..stop(None, SECOND) };
    run_once(&played, &stop, &hook, PATIENT).await.unwrap();

    let silent = Played::new(|_, _| Answer::Error(Code::Unavailable, "away"));
    let unknown = DirectStop { ip: None, ..stop.clone() };
    let error = run_once(&silent, &unknown, &hook, PATIENT).await.unwrap_err();
    assert!(matches!(error, HookError::Address(_)), "{error}");
    let known = DirectStop { ip: Some("127.0.0.1".to_owned()), ..stop };
    run_once(&silent, &known, &hook, PATIENT).await.unwrap();
}

/// A runtime in which every call succeeds and the hook exits with this code.
fn obedient(exit_code: i32) -> Played {
    Played::new(move |method, _| match method {
        "ExecSync" => Answer::message(&cri::ExecSyncResponse { exit_code, ..Default::default() }),
        "ContainerStatus" => status(cri::ContainerState::ContainerExited, ""),
        _ => Answer::message(&cri::StopContainerResponse {}),
    })
}

#[tokio::test]
async fn a_stop_is_hook_then_signal() {
    let table = [
        // hook, grace: calls, timeout of the stop
        (None, 30, vec!["StopContainer"], 30),
        (Some(0), 30, vec!["Version", "ExecSync", "StopContainer"], 30),
        (Some(1), 30, vec!["Version", "ExecSync", "StopContainer"], 30),
        // No grace, no hook; and the signal has its two seconds all the same.
        (Some(0), 0, vec!["StopContainer"], 2),
        (None, 1, vec!["StopContainer"], 2),
    ];
    for (hook, grace, calls, timeout) in table {
        let played = obedient(hook.unwrap_or(0));
        let stop = stop(hook.map(|_| exec(&["x"])), grace * SECOND);
        let outcome = stop_directly(&played.client(), &stop, &CancellationToken::new()).await.unwrap();
        assert_eq!(played.calls(), calls);
        assert_eq!(played.asked::<cri::StopContainerRequest>("StopContainer")[0].timeout, timeout);
        let ran = hook.filter(|_| grace > 0);
        let notices = outcome.notices(&stop);
        let reasons: Vec<_> = notices.iter().map(|notice| (notice.reason, notice.warning)).collect();
        let failed = ran.filter(|code| *code != 0).map(|_| ("FailedPreStopHook", true));
        assert_eq!(reasons, failed.into_iter().chain([("Killing", false)]).collect::<Vec<_>>());
        assert!(notices.iter().all(|notice| notice.note.contains("container app")), "{notices:?}");
        assert_eq!(outcome.hook.map(|hook| hook.is_ok()), ran.map(|code| code == 0));
    }
}

#[tokio::test]
async fn the_hook_uses_up_the_grace() {
    let played = obedient(0);
    let stop = stop(Some(Hook::Sleep(60 * SECOND)), 3 * SECOND);
    let outcome = stop_directly(&played.client(), &stop, &CancellationToken::new()).await.unwrap();
    assert!(matches!(outcome.hook, Some(Err(HookError::TimedOut(_)))));
    assert!(outcome.took >= 3 * SECOND);
    assert_eq!(played.asked::<cri::StopContainerRequest>("StopContainer")[0].timeout, 2);
}

#[tokio::test]
async fn called_off_in_its_hook_nothing_is_stopped() {
    let played = obedient(0);
    let stop = stop(Some(Hook::Sleep(60 * SECOND)), 90 * SECOND);
    let cancel = CancellationToken::new();
    let client = played.client();
    let called_off = async {
        tokio::time::sleep(SECOND / 20).await;
        cancel.cancel();
    };
    let (result, ()) = tokio::join!(stop_directly(&client, &stop, &cancel), called_off);
    assert!(matches!(result, Err(StopError::Cancelled)), "{result:?}");
    assert!(played.calls().is_empty());
}

#[tokio::test]
async fn a_runtime_that_fails_is_told() {
    let stopped = |code| async move {
        let played = Played::new(move |_, _| Answer::Error(code, "no"));
        stop_directly(&played.client(), &stop(None, SECOND), &CancellationToken::new()).await
    };
    assert!(matches!(stopped(Code::Unknown).await, Err(StopError::Stop(_))));
    // What is gone is stopped.
    assert!(stopped(Code::NotFound).await.is_ok());
}

#[tokio::test]
async fn a_removed_container_takes_its_logs_along() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("1.log");
    let files = [
        "0.log",
        "1.log",
        "1.log.20260101-000000",
        "1.log.20260101-000000.gz",
        "1.log.tmp",
        "11.log",
        "1.logs",
    ];
    let write = || files.iter().for_each(|file| std::fs::write(directory.path().join(file), "x").unwrap());
    let left = || {
        let entries = std::fs::read_dir(directory.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.map(|name| (name, ())).collect::<BTreeMap<_, _>>().into_keys().collect::<Vec<_>>()
    };
    let of_log = log.to_str().unwrap().to_owned();
    let played = Played::new(move |method, _| match method {
        "ContainerStatus" => status(cri::ContainerState::ContainerExited, &of_log),
        _ => Answer::message(&cri::RemoveContainerResponse {}),
    });
    write();
    played.client().remove_container(&"c".into()).await.unwrap();
    assert_eq!(left(), ["0.log", "1.logs", "11.log"]);
    // Nothing there any more is nothing to remove.
    played.client().remove_container(&"c".into()).await.unwrap();
    drop(directory);
    played.client().remove_container(&"c".into()).await.unwrap();
    assert_eq!(played.calls().iter().filter(|call| *call == "RemoveContainer").count(), 3);
}

#[tokio::test]
async fn a_container_that_runs_is_not_removed() {
    let played = Played::new(|_, _| status(cri::ContainerState::ContainerRunning, ""));
    let error = played.client().remove_container(&"c".into()).await.unwrap_err();
    assert!(matches!(error, RuntimeError::StillRuns(_)), "{error}");
    assert_eq!(played.calls(), ["ContainerStatus"]);
}
