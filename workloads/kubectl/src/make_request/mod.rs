//! `recreate` and `update`: a request is made, and followed to its end. It goes on whether anybody follows or
//! not.

mod flags;
mod spec;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use berth_proto::text::one_line;
use futures::StreamExt;
use kube::api::WatchEvent;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout_at};

use self::flags::Following;
pub(crate) use self::flags::RequestArgs;
use crate::{
    cli::{DryRun, Global},
    cluster::Cluster,
    command::{AGAIN, LONGEST},
    object::{Sort, text},
    output,
    request::{self, End},
};

/// Carries out a command.
pub(crate) async fn run(global: &Global, asked: &RequestArgs) -> anyhow::Result<ExitCode> {
    let following = asked.following();
    let (sort, pod) = (asked.sort(), spec::pod(asked.pod())?);
    // What is wrong in the words themselves is said before a cluster is asked.
    let images = spec::images(asked)?;
    let cluster = Cluster::connect(global).await?;
    let found = cluster.pod(&pod).await?;
    let found = found.with_context(|| {
        format!("there is no pod \"{pod}\" in namespace {}: kubectl get pods lists them", cluster.namespace)
    })?;
    let spec = spec::spec(asked, &found, &images)?;
    let mut object = json!({
        "apiVersion": sort.api_version(), "kind": sort.kind,
        "metadata": { "generateName": spec::prefix(&pod), "namespace": cluster.namespace },
        "spec": spec,
    });
    if following.dry_run != DryRun::Client {
        object = cluster.create(&sort, object, following.dry_run == DryRun::Server).await?;
    }
    let name = text(&object, "/metadata/name").to_owned();
    let printed = sort.printed(if name.is_empty() { text(&object, "/metadata/generateName") } else { &name });
    match following.printing.output {
        Some(format) => print!("{}", output::text(&object, &printed, format)?),
        None => {
            let how = match following.dry_run {
                DryRun::None => "",
                DryRun::Client => " (dry run)",
                DryRun::Server => " (server dry run)",
            };
            println!("{printed} created{how}");
        }
    }
    if following.dry_run == DryRun::None && following.wait {
        let end = follow(&cluster, &sort, &name, following).await?;
        // With an object on stdout nothing else is to be there.
        if following.printing.output.is_some() { eprintln!("{end}") } else { println!("{end}") }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints how far it is until it has ended; each line once, on stderr. Returns the line about its end.
async fn follow(cluster: &Cluster, sort: &Sort, name: &str, flags: &Following) -> anyhow::Result<String> {
    let patience: Duration = if flags.timeout.is_zero() { LONGEST } else { flags.timeout.min(LONGEST) };
    let now = Instant::now();
    let until = now.checked_add(patience).unwrap_or(now);
    let printed = sort.printed(name);
    let late =
        || anyhow::anyhow!("{printed} has not ended in time, and goes on: kubectl berth requests shows it");
    let mut said = String::new();
    loop {
        let read = timeout_at(until, cluster.read(sort, name)).await.map_err(|_| late())??;
        let Some(object) = read else { bail!("{printed} was deleted before it ended") };
        if let Some(end) = ended(&object, &printed, &mut said)? {
            return Ok(end);
        }
        let version = text(&object, "/metadata/resourceVersion").to_owned();
        let events = timeout_at(until, cluster.changes(sort, name, &version)).await;
        let mut events = events.map_err(|_| late())??;
        while let Some(event) = timeout_at(until, events.next()).await.map_err(|_| late())? {
            match event {
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                    if let Some(end) = ended(&serde_json::to_value(object)?, &printed, &mut said)? {
                        return Ok(end);
                    }
                }
                Ok(WatchEvent::Bookmark(_)) => {}
                // It is read anew, and then it is seen whether it is gone.
                Ok(WatchEvent::Deleted(_) | WatchEvent::Error(_)) | Err(_) => break,
            }
        }
        timeout_at(until, sleep(AGAIN)).await.map_err(|_| late())?;
    }
}

/// Says how far it is, where that is news. Returns the line about a good end; the other one is an error.
fn ended(object: &Value, printed: &str, said: &mut String) -> anyhow::Result<Option<String>> {
    match request::end(object) {
        None => {
            let line = one_line(&request::progress(object));
            if line != *said {
                eprintln!("{line}");
                *said = line;
            }
            Ok(None)
        }
        Some(End::Complete) => Ok(Some(format!("{printed} complete: {}", request::containers(object)))),
        Some(failed @ End::Failed(_)) => {
            let detail = match request::message(object) {
                message if message.is_empty() => request::containers(object),
                message => message,
            };
            bail!("{printed} {}: {detail}", failed.shown().replacen('F', "f", 1))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Status, and the line about its end or the error that it is.
    #[test]
    fn a_failed_request_is_an_error_with_its_reason() {
        let failed = |message: &str| {
            json!({ "phase": "Completed", "nodeName": "n", "message": message,
                "conditions": [{ "type": "Failed", "status": "True", "reason": "DeadlineExceeded" }] })
        };
        for (status, expected) in [
            (json!({ "phase": "Recreating", "nodeName": "n" }), Ok(None)),
            (
                json!({ "conditions": [{ "type": "Complete", "status": "True" }] }),
                Ok(Some("crr/a complete: app")),
            ),
            (failed("too late"), Err("crr/a failed (DeadlineExceeded): too late")),
            (failed(""), Err("crr/a failed (DeadlineExceeded): app")),
        ] {
            let object = json!({ "spec": { "containers": [{ "name": "app" }] }, "status": status });
            let found = ended(&object, "crr/a", &mut String::new()).map_err(|error| error.to_string());
            let expected = expected.map(|end: Option<&str>| end.map(str::to_owned));
            assert_eq!(found, expected.map_err(str::to_owned));
        }
    }
}
