//! Commands in a container: at once and whole (`ExecSync`), and by streams (`Exec`).

use anyhow::Result;
use berth_tests::compare::{Channels, Ended, ExecRequest, Opened, RESIZE, STDIN, STDOUT};

use super::same;
use super::way::{Way, exec_request};

/// Asks for a stream and gives the URL, written down without what is random in it.
async fn url(way: &Way, request: ExecRequest) -> Result<String> {
    let url = way.must(request).await?.url;
    say_url(way, &url);
    Ok(url)
}

/// Writes down where the streaming server waits, without the port and the token.
pub(super) fn say_url(way: &Way, url: &str) {
    let host = url.strip_prefix("http://").and_then(|rest| rest.split('/').next()).unwrap_or_default();
    way.hide(host.rsplit(':').next().unwrap_or_default(), "port");
    way.hide(url.rsplit('/').next().unwrap_or_default(), "token");
    way.say(format!("  {url}"));
}

fn script(id: &str, script: &str) -> ExecRequest {
    ExecRequest {
        container_id: id.to_owned(),
        cmd: ["/bin/sh", "-c", script].map(str::to_owned).into(),
        stdout: true,
        stderr: true,
        ..Default::default()
    }
}

fn say(way: &Way, ended: &Ended) {
    way.say(format!("  {:?} {:?} {}", ended.stdout, ended.stderr, ended.status));
}

// --- at once ---

#[tokio::test]
async fn sync_output_of_both_kinds() -> Result<()> {
    same("sync_output_of_both_kinds", &["ExecSync: OK", "exit 0 \"out\\n\" \"err\\n\""], async |way| {
        let id = way.running("c").await?;
        way.exec(&id, "echo out; echo err >&2").await.map(drop)
    })
    .await
}

#[tokio::test]
async fn sync_command_that_fails() -> Result<()> {
    same("sync_command_that_fails", &["ExecSync: OK", "exit 42 \"\" \"\""], async |way| {
        let id = way.running("c").await?;
        way.exec(&id, "exit 42").await.map(drop)
    })
    .await
}

#[tokio::test]
async fn sync_command_that_a_signal_ends() -> Result<()> {
    same("sync_command_that_a_signal_ends", &["ExecSync: OK", "exit 137"], async |way| {
        let id = way.running("c").await?;
        way.exec(&id, "kill -KILL $$").await.map(drop)
    })
    .await
}

#[tokio::test]
async fn sync_command_that_is_not_there() -> Result<()> {
    same("sync_command_that_is_not_there", &["ExecSync: ", "no such file"], async |way| {
        let id = way.running("c").await?;
        let mut request = exec_request(&id, "");
        request.cmd = vec!["/no/such/program".to_owned()];
        way.refused(request).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn sync_without_a_command() -> Result<()> {
    same("sync_without_a_command", &["StartContainer: OK", "ExecSync: "], async |way| {
        let id = way.running("c").await?;
        let mut request = exec_request(&id, "");
        request.cmd.clear();
        way.refused(request).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn sync_beyond_its_time_limit() -> Result<()> {
    same("sync_beyond_its_time_limit", &["ExecSync: DeadlineExceeded"], async |way| {
        let id = way.running("c").await?;
        let mut request = exec_request(&id, "sleep 1000000");
        request.timeout = 1;
        way.refused(request).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn sync_without_a_time_limit() -> Result<()> {
    // As the kubelet runs lifecycle hooks, which berthd tells from probes by this.
    same("sync_without_a_time_limit", &["ExecSync: OK"], async |way| {
        let id = way.running("c").await?;
        let mut request = exec_request(&id, "echo hook");
        request.timeout = 0;
        let answer = way.must(request).await?;
        way.say(format!("{answer:?}"));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn sync_in_what_does_not_run() -> Result<()> {
    same("sync_in_what_does_not_run", &["CreateContainer: OK", "ExecSync: "], async |way| {
        let id = way.create(way.home().await?, way.idle("c")).await?;
        way.refused(exec_request(&id, "true")).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn sync_output_that_is_no_text() -> Result<()> {
    same("sync_output_that_is_no_text", &["ExecSync: OK", "[0, 255, 10, 128]"], async |way| {
        let id = way.running("c").await?;
        let answer = way.must(exec_request(&id, "printf '\\000\\377\\n\\200'")).await?;
        way.say(format!("{:?}", answer.stdout));
        Ok(())
    })
    .await
}

// --- by streams ---

#[tokio::test]
async fn exec_output_of_both_kinds() -> Result<()> {
    let shows = ["Exec: OK", "http://127.0.0.1:<port>/exec/<token>", "\"out\\n\" \"err\\n\"", "Success"];
    same("exec_output_of_both_kinds", &shows, async |way| {
        let id = way.running("c").await?;
        let url = url(way, script(&id, "echo out; echo err >&2")).await?;
        say(way, &Channels::must_open(&url).await?.ended().await?);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn exec_exit_code() -> Result<()> {
    let shows = ["Exec: OK", "Failure", "NonZeroExitCode", "ExitCode", "\"9\""];
    same("exec_exit_code", &shows, async |way| {
        let id = way.running("c").await?;
        let url = url(way, script(&id, "exit 9")).await?;
        say(way, &Channels::must_open(&url).await?.ended().await?);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn exec_input() -> Result<()> {
    same("exec_input", &["Exec: OK", "\"read one, two\\n\"", "Success"], async |way| {
        let id = way.running("c").await?;
        let mut request = script(&id, "read a; read b; echo read $a, $b");
        request.stdin = true;
        let mut channels = Channels::must_open(&url(way, request).await?).await?;
        channels.send(STDIN, b"one\n").await?;
        channels.send(STDIN, b"two\n").await?;
        say(way, &channels.ended().await?);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn exec_on_a_terminal() -> Result<()> {
    same("exec_on_a_terminal", &["Exec: OK", "a terminal\\r\\n", "Success"], async |way| {
        let id = way.running("c").await?;
        let mut request = script(&id, "test -t 0 && test -t 1 && echo a terminal");
        (request.stdin, request.tty, request.stderr) = (true, true, false);
        say(way, &Channels::must_open(&url(way, request).await?).await?.ended().await?);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn exec_resizes_its_terminal() -> Result<()> {
    same("exec_resizes_its_terminal", &["Exec: OK", "33 101", "Success"], async |way| {
        let id = way.running("c").await?;
        let mut request =
            script(&id, "until test \"$(stty size 2> /dev/null)\" = '33 101'; do sleep 0.1; done; stty size");
        (request.stdin, request.tty, request.stderr) = (true, true, false);
        let mut channels = Channels::must_open(&url(way, request).await?).await?;
        channels.send(RESIZE, br#"{"Width":101,"Height":33}"#).await?;
        say(way, &channels.ended().await?);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn exec_goes_on_while_it_is_spoken_to() -> Result<()> {
    same("exec_goes_on_while_it_is_spoken_to", &["<2>", "<4>", "Success"], async |way| {
        let id = way.running("c").await?;
        let mut request = script(&id, "while read n && test $n != end; do echo \"<$((n * 2))>\"; done");
        request.stdin = true;
        let mut channels = Channels::must_open(&url(way, request).await?).await?;
        for number in 1..=2 {
            channels.send(STDIN, format!("{number}\n").as_bytes()).await?;
            channels.receive(STDOUT, format!("<{}>", number * 2).as_bytes()).await?;
            way.say(format!("<{}>", number * 2));
        }
        channels.send(STDIN, b"end\n").await?;
        say(way, &channels.ended().await?);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn exec_of_a_mebibyte() -> Result<()> {
    same("exec_of_a_mebibyte", &["Exec: OK", "1048576 bytes, all x: true", "Success"], async |way| {
        let id = way.running("c").await?;
        let url = url(way, script(&id, "head -c 1048576 /dev/zero | tr '\\0' x")).await?;
        let ended = Channels::must_open(&url).await?.ended().await?;
        let all = ended.stdout.bytes().all(|byte| byte == b'x');
        way.say(format!("{} bytes, all x: {all}", ended.stdout.len()));
        way.say(ended.status);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn exec_url_serves_once() -> Result<()> {
    same("exec_url_serves_once", &["Exec: OK", "Success", "HTTP 404"], async |way| {
        let id = way.running("c").await?;
        let url = url(way, script(&id, "true")).await?;
        say(way, &Channels::must_open(&url).await?.ended().await?);
        match Channels::open(&url).await? {
            Opened::Open(_) => way.say("it serves again"),
            Opened::Refused(status, body) => way.say(format!("HTTP {status} {body:?}")),
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn exec_without_any_stream() -> Result<()> {
    same("exec_without_any_stream", &["Exec: InvalidArgument"], async |way| {
        let id = way.running("c").await?;
        let mut request = script(&id, "true");
        (request.stdout, request.stderr) = (false, false);
        way.refused(request).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn exec_with_a_terminal_and_stderr() -> Result<()> {
    same("exec_with_a_terminal_and_stderr", &["Exec: InvalidArgument"], async |way| {
        let id = way.running("c").await?;
        let mut request = script(&id, "true");
        request.tty = true;
        way.refused(request).await.map(drop)
    })
    .await
}
