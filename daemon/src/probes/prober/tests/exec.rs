//! Commands and what they print, and runtimes that do not run them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use super::*;

fn command(words: &[&str]) -> ProbeAction {
    ProbeAction::Exec { command: words.iter().map(|word| (*word).to_owned()).collect() }
}

async fn once(played: &Played, timeout: Duration) -> ProbeResult {
    Prober::new(played.client()).run(&run_of(command(&["x"]), timeout), None).await
}

#[tokio::test]
async fn the_exit_code_decides_and_the_output_is_said() {
    let table: [(i32, &[u8], &[u8], ProbeResult); 8] = [
        (0, b"idle\n", b"noise", ProbeResult::Success("idle".to_owned())),
        (0, b"", b"noise", ProbeResult::Success(String::new())),
        (1, b"busy\n", b"noise", ProbeResult::Failure("busy".to_owned())),
        (2, b" \n", b"no such file\n", ProbeResult::Failure("no such file".to_owned())),
        (137, b"", b"", ProbeResult::Failure("exit code 137".to_owned())),
        // A shell that finds nothing to run is a command that ran.
        (127, b"", b"sh: nope: not found", ProbeResult::Failure("sh: nope: not found".to_owned())),
        (0, b"\xff\xfe", b"", ProbeResult::Success("\u{fffd}\u{fffd}".to_owned())),
        (0, &[b'x'; 9000], b"", ProbeResult::Success("x".repeat(1024))),
    ];
    for (exit_code, stdout, stderr, expected) in table {
        let answer = cri::ExecSyncResponse { stdout: stdout.to_vec(), stderr: stderr.to_vec(), exit_code };
        let played = Played::new(move |_, _| Answer::message(&answer));
        assert_eq!(once(&played, 1500 * SECOND / 1000).await, expected);
        let asked = played.asked::<cri::ExecSyncRequest>("ExecSync");
        // In whole seconds, rounded up.
        assert_eq!((asked[0].container_id.as_str(), asked[0].timeout, asked.len()), ("c", 2, 1));
    }
}

#[tokio::test]
async fn what_the_runtime_answers_to_a_command_it_does_not_run() {
    let missing = "failed to exec in container: failed to start exec \
                   \"6f0e3f3f3f0e3f3f3f0e3f3f3f0e3f3f3f0e3f3f3f0e3f3f3f0e3f3f3f0e3f3f\": OCI runtime exec failed: \
                   exec: \"nope\": executable file not found in $PATH: unknown";
    let table = [
        (
            Code::Unknown,
            missing,
            "refused",
            "start exec \"...\": OCI runtime exec failed: exec: \"nope\": executable",
        ),
        (Code::NotFound, "no such container", "refused", "no such container"),
        (Code::Unavailable, "away", "refused", "away"),
        (Code::Internal, "", "refused", "Internal error"),
        (Code::DeadlineExceeded, "timeout 2s exceeded", "failure", "timed out after 1.5s"),
        (
            Code::ResourceExhausted,
            "trying to send message larger than max",
            "unknown",
            "its exit code is lost: trying to send message larger",
        ),
    ];
    for (code, words, kind, part) in table {
        let played = Played::new(move |_, _| Answer::Error(code, words));
        expect(&once(&played, 1500 * SECOND / 1000).await, kind, part);
    }
    let nobody = Prober::new(Runtime::new(&std::path::PathBuf::from("/nonexistent/cri.sock").into()));
    let result = nobody.run(&run_of(command(&["x"]), PATIENT), None).await;
    assert_eq!(said(&result).0, "refused", "{result:?}");
}

#[tokio::test]
async fn a_command_that_hangs_is_given_up_on_both_sides() {
    let played = Played::new(|_, _| Answer::Never);
    let prober = Prober::new(played.client());
    let run = run_of(command(&["x"]), 300 * SECOND / 1000);
    let began = Instant::now();
    expect(&prober.run(&run, None).await, "failure", "timed out after 300ms");
    // With the time that its start may take, on a busy machine.
    assert!(began.elapsed() < MARGIN);
    played.until_abandoned().await;
    // Dropped in the middle.
    let run = run_of(command(&["x"]), 60 * SECOND);
    assert!(tokio::time::timeout(SECOND / 10, prober.run(&run, None)).await.is_err());
    played.until_abandoned().await;
}

#[tokio::test]
async fn an_answer_too_large_is_not_read_and_harms_nobody() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let large = cri::ExecSyncResponse { stdout: vec![b'x'; 15 << 20], ..Default::default() };
    let played = Played::new(move |method, _| match method {
        "ExecSync" if counted.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) => Answer::message(&large),
        "ExecSync" => Answer::message(&cri::ExecSyncResponse::default()),
        _ => Answer::message(&cri::VersionResponse { runtime_name: "fake".to_owned(), ..Default::default() }),
    });
    // One client: what becomes of its connection, all feel.
    let runtime = played.client();
    let prober = Prober::new(runtime.clone());
    let run = run_of(command(&["x"]), PATIENT);
    for _ in 0..5 {
        let (large, version) = tokio::join!(prober.run(&run, None), runtime.version());
        expect(&large, "unknown", "more than 1024 KiB");
        assert_eq!(version.unwrap().runtime_name, "fake");
        expect(&prober.run(&run, None).await, "success", "");
    }
    assert_eq!((calls.load(Ordering::SeqCst), played.connections()), (10, 1));
}

#[tokio::test]
async fn an_answer_just_small_enough_is_read() {
    let answer = cri::ExecSyncResponse { stdout: vec![b'x'; (1 << 20) - 64], stderr: vec![], exit_code: 3 };
    let played = Played::new(move |_, _| Answer::message(&answer));
    expect(&once(&played, PATIENT).await, "failure", "xxx");
}
