//! The files that an installation writes, but for the units, which are those of this repository.

use berthd::base::yaml;
use serde::Deserialize;

use super::super::env::Settings;
use super::super::facts::Kubelet;
use super::super::places::{self, CRIO_SOCKET};
use super::super::unit;

/// The agent's first configuration.
pub(crate) fn config(
    kubelet: &Kubelet,
    kubeconfig: Option<&str>,
    runtime: &str,
    socket: &str,
    two_programs: bool,
) -> String {
    let mut text = "# Written by berthctl install, and yours to change: it is never written again.\n\
                    # All fields and what they mean: berthd config print-defaults\n\
                    apiVersion: berth.dev/v1alpha1\n\
                    kind: BerthdConfiguration\n"
        .to_owned();
    if socket != places::SOCKET {
        text += &format!("socket: {}\n", quoted(socket));
    }
    if two_programs {
        text += &format!("shimSocket: {}\n", quoted(crate::shim::SOCKET));
    }
    text += &format!("runtimeEndpoint: {}\n", quoted(runtime));
    if let Some(name) = kubelet.named() {
        text += &format!("nodeName: {}\n", quoted(name));
    }
    // A kubelet may ask for tokens of the pods of its node; another user may be anybody.
    let as_kubelet = kubeconfig.is_none() && kubelet.kubeconfig.is_some();
    let kubeconfig = kubeconfig.or(kubelet.kubeconfig.as_deref());
    let pods = kubelet.read_only_port.map(|port| format!("  kubelet:\n    url: http://127.0.0.1:{port}\n"));
    match (kubeconfig, pods) {
        (Some(path), pods) => {
            text += &format!("podView:\n  mode: api\n  kubeconfig: {}\n", quoted(path));
            // Static pods are seen by it while the API server is away.
            text += &pods.unwrap_or_default();
        }
        (None, Some(pods)) => text += &format!("podView:\n  mode: kubelet\n{pods}"),
        (None, None) => text += "podView:\n  mode: none\n",
    }
    if as_kubelet {
        text += "cluster:\n  serviceAccount:\n    boundToPod: true\n";
    }
    text
}

/// A string as YAML and JSON both write it.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The first flags of `berth-shim`, as variables.
pub(crate) fn shim_env(runtime: &str, socket: &str) -> String {
    let mut text = "# Written by berthctl install, and yours to change: it is never written again.\n\
                    # All variables and what they mean: berth-shim --help\n"
        .to_owned();
    text += &format!("BERTH_RUNTIME_ENDPOINT={}\n", quoted(runtime));
    if socket != places::SOCKET {
        text += &format!("BERTH_SOCKET={}\n", quoted(socket));
    }
    text
}

/// The runtime that they name.
pub(crate) fn shim_runtime_of(env: &str) -> Option<String> {
    unit::variables(env).remove("BERTH_RUNTIME_ENDPOINT")
}

/// Sockets and the Node that a configuration names.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    runtime_endpoint: Option<String>,
    shim_socket: Option<String>,
    node_name: Option<String>,
}

/// The runtime that a configuration names.
pub(crate) fn runtime_of(config: &str) -> Option<String> {
    yaml::from_str::<Named>(config).ok()?.runtime_endpoint
}

/// The socket of `berth-shim` that a configuration names.
pub(crate) fn shim_socket_of(config: &str) -> Option<String> {
    yaml::from_str::<Named>(config).ok()?.shim_socket
}

/// The Node that a configuration names.
pub(crate) fn node_name_of(config: &str) -> Option<String> {
    yaml::from_str::<Named>(config).ok()?.node_name.filter(|name| !name.is_empty())
}

/// The drop-in of a kubelet's own service: its command line with one flag more, of which the last one counts.
pub(crate) fn kubelet_drop_in(kubelet: &Kubelet, command: &str, socket: &str, two_programs: bool) -> String {
    let units = places::started(two_programs).join(" ");
    let mut command = format!("{command} --container-runtime-endpoint=unix://{socket}");
    // Where images have a setting of their own, they would go past Berth.
    if kubelet.image_endpoint.is_some() {
        command += &format!(" --image-service-endpoint=unix://{socket}");
    }
    format!(
        "# Written by berthctl install. It leads the kubelet to Berth; `berthctl bypass` takes it away.\n\
         [Unit]\n\
         Wants={units}\n\
         After={units}\n\
         \n\
         [Service]\n\
         # The command line of the unit itself, and the socket.\n\
         ExecStart=\n\
         ExecStart={command}\n"
    )
}

/// The same for k3s and RKE2. They start their containerd themselves and wait for it, so their units wait for
/// nothing of ours: the socket is there before any ordinary service (sockets.target).
pub(crate) fn rancher_drop_in(kubelet: &Kubelet, socket: &str) -> String {
    let images = if kubelet.image_endpoint.is_some() {
        format!("- image-service-endpoint=unix://{socket}\n")
    } else {
        String::new()
    };
    format!(
        "# Written by berthctl install. It leads the kubelet to Berth; `berthctl bypass` takes it away.\n\
         kubelet-arg+:\n\
         - container-runtime-endpoint=unix://{socket}\n\
         {images}"
    )
}

/// Writes the drop-in that gives berthd settings as env; `None` without any.
pub(crate) fn env_drop_in(settings: &Settings) -> Option<String> {
    let mut text =
        "# Written by berthctl install: the settings that it had as env. They count more than berthd.yaml,\n\
                    # and the next installation writes its own.\n\
                    [Service]\n"
            .to_owned();
    for (name, value) in settings {
        // As systemd.syntax(7) has it, and its specifiers.
        let value = value.replace('\\', r"\\").replace('"', r#"\""#).replace('%', "%%");
        text += &format!("Environment=\"{name}={value}\"\n");
    }
    (!settings.is_empty()).then_some(text)
}

/// Writes the drop-in that moves the socket for CRI-O.
pub(crate) fn crio_drop_in() -> String {
    format!(
        "# Written by berthctl install: by the end of this path the kubelet knows CRI-O.\n\
         [Socket]\n\
         ListenStream=\n\
         ListenStream={CRIO_SOCKET}\n"
    )
}
