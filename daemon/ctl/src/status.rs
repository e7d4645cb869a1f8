//! `berthctl status`: what berthd is connected to and what it holds back right now.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use berth_proto::admin::{Feature, Hold, SetAside, StatusRequest, StatusResponse};
use clap::Args;
use serde::Serialize;

use super::cli::Global;
use super::output::{self, OutputArgs};
use super::{admin, duration, shim};

/// Flags of `status`.
#[derive(Args, Debug)]
pub(crate) struct StatusArgs {
    /// Fail unless the runtime answers and the pods of the node are seen
    #[arg(long)]
    pub ready: bool,
    /// How to show it.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Socket of berth-shim, where the data path is a program of its own
    #[arg(long, value_name = "PATH", default_value = shim::SOCKET)]
    pub shim_socket: PathBuf,
}

/// Runs `status`.
pub(crate) async fn status(global: &Global, args: &StatusArgs) -> Result<()> {
    let shim = shim::state(&args.shim_socket).await;
    let asked = async {
        let mut client = admin::connect(global).await?;
        let answer = client.status(admin::request(global, StatusRequest {})).await;
        Ok::<_, anyhow::Error>(answer.map_err(|status| admin::failed("Status", &status))?.into_inner())
    };
    let status = match (asked.await, &shim) {
        (Ok(status), _) => status,
        // What still passes the calls is worth a word when berthd is away.
        (Err(error), Some(shim)) => return Err(error.context(shim.clone())),
        (Err(error), None) => return Err(error),
    };
    let shown = Shown { shim: shim.clone(), ..Shown::from(&status) };
    output::data(args.output.format, &shown, || text(&status, shim.as_deref()))?;
    if args.ready { is_ready(&status) } else { Ok(()) }
}

/// Fails with what berthd is without, as its `/readyz` does.
fn is_ready(status: &StatusResponse) -> Result<()> {
    let runtime = status.runtime.clone().unwrap_or_default();
    let view = status.pod_view.clone().unwrap_or_default();
    ensure!(
        runtime.reachable,
        "berthd is not ready: the runtime does not answer at {}: {}",
        runtime.endpoint,
        runtime.error
    );
    ensure!(
        view.synced,
        "berthd is not ready: it does not see the pods of its node yet ({}): {}",
        view.source,
        view.error
    );
    Ok(())
}

fn text(status: &StatusResponse, shim: Option<&str>) -> String {
    let runtime = status.runtime.clone().unwrap_or_default();
    let view = status.pod_view.clone().unwrap_or_default();
    let runtime_state = match (runtime.reachable, runtime.error.is_empty()) {
        (true, _) => format!("{} {} at {}", runtime.name, runtime.version, runtime.endpoint),
        (false, true) => format!("not reachable at {}", runtime.endpoint),
        (false, false) => format!("not reachable at {}: {}", runtime.endpoint, runtime.error),
    };
    let synced = if view.synced { "synced" } else { "not synced" };
    let view_state = match view.error.as_str() {
        "" => format!("{}, {synced}", view.source),
        error => format!("{}, {synced}; last failure: {error}", view.source),
    };
    let mut lines = vec![
        ("Version", status.version.clone()),
        ("Mode", status.mode.clone()),
        ("Path", status.path.clone()),
        ("Socket", status.socket.clone()),
        ("Process", status.pid.to_string()),
        ("Uptime", duration::short(Duration::from_secs(status.uptime_seconds))),
        ("Runtime", runtime_state),
        ("Pod view", view_state),
        ("Connections", status.client_connections.to_string()),
        ("Pods", status.pods.to_string()),
        ("Sandboxes", status.sandboxes.to_string()),
        ("Latches", status.latches.to_string()),
        ("Holds", status.holds.len().to_string()),
    ];
    if let Some(shim) = shim {
        lines.push(("Data path", shim.to_owned()));
    }
    match (status.identity.as_str(), status.identity_error.as_str()) {
        ("", "") => {}
        ("", error) => lines.push(("Identity", format!("not known: {error}"))),
        (identity, "") => lines.push(("Identity", identity.to_owned())),
        (identity, warning) => lines.push(("Identity", format!("{identity}; {warning}"))),
    }
    let off: Vec<&Feature> = status.features.iter().filter(|feature| !feature.on).collect();
    if !status.features.is_empty() {
        lines.push(("Features", format!("{} on, {} off", status.features.len() - off.len(), off.len())));
    }
    if status.policy_panics > 0 {
        let panics = format!(
            "{} evaluations failed by a bug of berthd: calls were forwarded, objects are left alone; see its log",
            status.policy_panics
        );
        lines.push(("Panics", panics));
    }
    let mut text: String =
        lines.iter().map(|(name, value)| format!("{:<14}{value}\n", format!("{name}:"))).collect();
    if !status.holds.is_empty() {
        let rows = status.holds.iter().map(|hold| {
            vec![
                hold.rpc.clone(),
                hold.namespace.clone(),
                hold.pod.clone(),
                hold.container.clone(),
                hold.waiting_for.join(","),
                duration::short(Duration::from_millis(hold.held_milliseconds)),
                duration::short(Duration::from_millis(hold.remaining_milliseconds)),
            ]
        });
        text.push('\n');
        text += &output::table(
            &["CALL", "NAMESPACE", "POD", "CONTAINER", "WAITING FOR", "HELD", "AT MOST"],
            rows,
        );
    }
    if !status.set_aside.is_empty() {
        let rows = status.set_aside.iter().map(|object| {
            vec![object.object.clone(), duration::short(Duration::from_millis(object.again_milliseconds))]
        });
        text.push('\n');
        text += &output::table(&["SET ASIDE", "TRIED AGAIN IN"], rows);
    }
    if !off.is_empty() {
        text.push('\n');
        text += &output::table(
            &["OFF", "BECAUSE"],
            off.iter().map(|feature| vec![feature.name.clone(), feature.why.clone()]),
        );
    }
    text
}

/// The answer as protobuf's JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    version: String,
    mode: String,
    path: String,
    socket: String,
    runtime: ShownRuntime,
    pod_view: ShownView,
    uptime_seconds: String,
    client_connections: u32,
    pods: u32,
    sandboxes: u32,
    holds: Vec<ShownHold>,
    policy_panics: String,
    latches: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    features: Vec<ShownFeature>,
    #[serde(skip_serializing_if = "String::is_empty")]
    identity: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    identity_error: String,
    pid: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    set_aside: Vec<ShownSetAside>,
    /// The data path, in words, where it is a program of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    shim: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownSetAside {
    object: String,
    again_milliseconds: String,
}

#[derive(Serialize)]
struct ShownFeature {
    name: String,
    on: bool,
    why: String,
}

#[derive(Serialize)]
struct ShownRuntime {
    endpoint: String,
    reachable: bool,
    name: String,
    version: String,
    error: String,
}

#[derive(Serialize)]
struct ShownView {
    source: String,
    synced: bool,
    error: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownHold {
    rpc: String,
    namespace: String,
    pod: String,
    container: String,
    waiting_for: Vec<String>,
    held_milliseconds: String,
    remaining_milliseconds: String,
}

impl From<&StatusResponse> for Shown {
    fn from(status: &StatusResponse) -> Self {
        let runtime = status.runtime.clone().unwrap_or_default();
        let view = status.pod_view.clone().unwrap_or_default();
        Self {
            version: status.version.clone(),
            mode: status.mode.clone(),
            path: status.path.clone(),
            socket: status.socket.clone(),
            runtime: ShownRuntime {
                endpoint: runtime.endpoint,
                reachable: runtime.reachable,
                name: runtime.name,
                version: runtime.version,
                error: runtime.error,
            },
            pod_view: ShownView { source: view.source, synced: view.synced, error: view.error },
            uptime_seconds: status.uptime_seconds.to_string(),
            client_connections: status.client_connections,
            pods: status.pods,
            sandboxes: status.sandboxes,
            holds: status.holds.iter().map(ShownHold::from).collect(),
            policy_panics: status.policy_panics.to_string(),
            latches: status.latches,
            features: status.features.iter().map(ShownFeature::from).collect(),
            identity: status.identity.clone(),
            identity_error: status.identity_error.clone(),
            pid: status.pid,
            set_aside: status.set_aside.iter().map(ShownSetAside::from).collect(),
            shim: None,
        }
    }
}

impl From<&SetAside> for ShownSetAside {
    fn from(object: &SetAside) -> Self {
        Self { object: object.object.clone(), again_milliseconds: object.again_milliseconds.to_string() }
    }
}

impl From<&Feature> for ShownFeature {
    fn from(feature: &Feature) -> Self {
        Self { name: feature.name.clone(), on: feature.on, why: feature.why.clone() }
    }
}

impl From<&Hold> for ShownHold {
    fn from(hold: &Hold) -> Self {
        Self {
            rpc: hold.rpc.clone(),
            namespace: hold.namespace.clone(),
            pod: hold.pod.clone(),
            container: hold.container.clone(),
            waiting_for: hold.waiting_for.clone(),
            held_milliseconds: hold.held_milliseconds.to_string(),
            remaining_milliseconds: hold.remaining_milliseconds.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_proto::admin::{PodView, Runtime};

    use super::*;

    #[test]
    fn ready_is_a_runtime_that_answers_and_pods_that_are_seen() {
        let status = |reachable: bool, synced: bool| StatusResponse {
            runtime: Some(Runtime { endpoint: "/x".into(), reachable, ..Runtime::default() }),
            pod_view: Some(PodView { source: "api".into(), synced, error: "refused".into() }),
            ..StatusResponse::default()
        };
        is_ready(&status(true, true)).unwrap();
        let said = |status: &StatusResponse| is_ready(status).unwrap_err().to_string();
        assert!(said(&status(false, true)).contains("the runtime does not answer at /x"));
        assert!(said(&status(true, false)).contains("does not see the pods of its node yet (api): refused"));
        is_ready(&StatusResponse::default()).unwrap_err();
    }

    #[test]
    fn a_page_about_berthd() {
        let mut status = StatusResponse {
            version: "0.1.0".into(),
            mode: "none".into(),
            path: "inline".into(),
            socket: "/run/berth/cri.sock".into(),
            runtime: Some(Runtime {
                endpoint: "/run/containerd/containerd.sock".into(),
                reachable: true,
                name: "containerd".into(),
                version: "1.6.20".into(),
                error: String::new(),
            }),
            pod_view: Some(PodView { source: "sandboxes".into(), synced: true, error: String::new() }),
            uptime_seconds: 90,
            holds: vec![Hold {
                rpc: "CreateContainer".into(),
                namespace: "shop".into(),
                pod: "web".into(),
                container: "api".into(),
                waiting_for: vec!["db".into()],
                held_milliseconds: 300,
                remaining_milliseconds: 4700,
            }],
            ..StatusResponse::default()
        };
        let shown = text(&status, None);
        for expected in [
            "Version:      0.1.0\n",
            "Uptime:       1m30s\n",
            "Runtime:      containerd 1.6.20 at /run/containerd/containerd.sock\n",
            "Pod view:     sandboxes, synced\n",
            "Holds:        1\n",
            "CALL              NAMESPACE   POD   CONTAINER   WAITING FOR   HELD    AT MOST\n",
            "CreateContainer   shop        web   api         db            300ms   4.7s\n",
        ] {
            assert!(shown.contains(expected), "expected {expected:?} in\n{shown}");
        }
        assert!(!shown.contains("Panics") && !shown.contains("Features") && !shown.contains("Identity"));
        let json = serde_json::to_value(Shown::from(&status)).unwrap();
        assert!(json.get("features").is_none() && json.get("identity").is_none());
        let feature = |name: &str, on: bool, why: &str| Feature { name: name.into(), on, why: why.into() };
        status.features = vec![feature("order", true, ""), feature("updates", false, "may not patch pods")];
        status.identity = "system:node:a".into();
        let shown = text(&status, None);
        for expected in [
            "Identity:     system:node:a\n",
            "Features:     1 on, 1 off\n",
            "OFF       BECAUSE\nupdates   may not patch pods\n",
        ] {
            assert!(shown.contains(expected), "expected {expected:?} in\n{shown}");
        }
        let json = serde_json::to_value(Shown::from(&status)).unwrap();
        assert_eq!(json["features"][1]["why"], "may not patch pods");
        status.set_aside = vec![SetAside { object: "pod shop/web".to_owned(), again_milliseconds: 4500 }];
        let shown = text(&status, None);
        let expected = "SET ASIDE      TRIED AGAIN IN\npod shop/web   4.5s\n";
        assert!(shown.contains(expected), "expected {expected:?} in\n{shown}");
        let json = serde_json::to_value(Shown::from(&status)).unwrap();
        assert_eq!(json["setAside"][0]["againMilliseconds"], "4500");
        status.policy_panics = 2;
        status.runtime =
            Some(Runtime { endpoint: "/x".into(), error: "refused".into(), ..Runtime::default() });
        let shown = text(&status, None);
        assert!(shown.contains("Panics:       2 evaluations failed by a bug of berthd"), "{shown}");
        assert!(shown.contains("not reachable at /x: refused"), "{shown}");
    }
}
