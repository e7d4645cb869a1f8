//! `berthctl order`: who starts before whom, who waits, and since when; as berthd's gate decides it.

use std::time::Duration;

use anyhow::{Result, bail};
use berth_proto::admin::{OrderRequest, PodOrder};
use clap::Args;
use serde::Serialize;

use super::cli::Global;
use super::output::{self, OutputArgs};
use super::{admin, duration};

/// Flags of `order`.
#[derive(Args, Debug)]
pub(crate) struct OrderArgs {
    /// A pod name, namespace/name, UID or the beginning of a sandbox ID [default: every pod with an order]
    #[arg(value_name = "POD")]
    pub pod: Option<String>,
    /// Whole IDs
    #[arg(long)]
    pub no_trunc: bool,
    /// How to show it.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Runs `order`.
pub(crate) async fn order(global: &Global, args: &OrderArgs) -> Result<()> {
    let mut client = admin::connect(global).await?;
    let request = OrderRequest { pod: args.pod.clone().unwrap_or_default() };
    let answer = client.order(admin::request(global, request)).await;
    let pods = answer.map_err(|status| admin::failed("Order", &status))?.into_inner().pods;
    if let Some(pod) = &args.pod
        && pods.is_empty()
    {
        bail!(
            "berthd knows no pod {pod:?} on this node; berthctl pods lists those there are, kubectl get pods -o wide says \
             where others run"
        );
    }
    output::data(args.output.format, &Shown { pods: pods.iter().map(ShownPod::from).collect() }, || {
        text(&pods, args.no_trunc)
    })
}

fn text(pods: &[PodOrder], no_trunc: bool) -> String {
    if pods.is_empty() {
        return "no pod on this node declares an order\n".to_owned();
    }
    let blocks: Vec<String> = pods.iter().map(|pod| block(pod, no_trunc)).collect();
    blocks.join("\n")
}

fn block(pod: &PodOrder, no_trunc: bool) -> String {
    let sandbox = match pod.sandbox_id.as_str() {
        "" => "no sandbox yet",
        id => output::id(id, no_trunc),
    };
    let deleting = if pod.deleting { ", is being deleted" } else { "" };
    let mut text = format!("{}/{} ({sandbox}{deleting})\n", pod.namespace, pod.name);
    if !pod.error.is_empty() {
        return text + &format!("the declared order is invalid: {}\n", pod.error);
    }
    if !pod.ordered {
        text += "declares no order: its containers start as the kubelet starts them\n";
    }
    let rows = pod.containers.iter().map(|container| {
        let waiting = !container.waiting_for.is_empty();
        vec![
            container.name.clone(),
            container.priority.to_string(),
            container.state.clone(),
            if waiting { container.waiting_for.join(",") } else { "-".to_owned() },
            if waiting {
                duration::short(Duration::from_millis(container.waiting_milliseconds))
            } else {
                "-".to_owned()
            },
        ]
    });
    text + &output::table(&["CONTAINER", "PRIORITY", "STATE", "WAITING FOR", "SINCE"], rows)
}

/// The answer as protobuf's JSON.
#[derive(Serialize)]
struct Shown {
    pods: Vec<ShownPod>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownPod {
    namespace: String,
    name: String,
    uid: String,
    sandbox_id: String,
    ordered: bool,
    error: String,
    containers: Vec<ShownContainer>,
    deleting: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownContainer {
    name: String,
    priority: i32,
    state: String,
    container_id: String,
    waiting_for: Vec<String>,
    waiting_milliseconds: String,
}

impl From<&PodOrder> for ShownPod {
    fn from(pod: &PodOrder) -> Self {
        let containers = pod.containers.iter().map(|container| ShownContainer {
            name: container.name.clone(),
            priority: container.priority,
            state: container.state.clone(),
            container_id: container.container_id.clone(),
            waiting_for: container.waiting_for.clone(),
            waiting_milliseconds: container.waiting_milliseconds.to_string(),
        });
        Self {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            sandbox_id: pod.sandbox_id.clone(),
            ordered: pod.ordered,
            error: pod.error.clone(),
            containers: containers.collect(),
            deleting: pod.deleting,
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_proto::admin::ContainerOrder;

    use super::*;

    fn container(name: &str, priority: i32, state: &str, waiting_for: &[&str]) -> ContainerOrder {
        ContainerOrder {
            name: name.into(),
            priority,
            state: state.into(),
            waiting_for: waiting_for.iter().map(|&name| name.into()).collect(),
            waiting_milliseconds: 1240,
            ..ContainerOrder::default()
        }
    }

    #[test]
    fn who_waits_for_whom() {
        let pod = PodOrder {
            namespace: "shop".into(),
            name: "web".into(),
            sandbox_id: "0123456789abcdef".into(),
            ordered: true,
            containers: vec![
                container("db", 10, "Running", &[]),
                container("api", 5, "Waiting", &["db"]),
                container("web", -5, "Waiting", &["db", "api"]),
            ],
            ..PodOrder::default()
        };
        let expected = "\
shop/web (0123456789abc)
CONTAINER   PRIORITY   STATE     WAITING FOR   SINCE
db          10         Running   -             -
api         5          Waiting   db            1.2s
web         -5         Waiting   db,api        1.2s
";
        assert_eq!(text(std::slice::from_ref(&pod), false), expected);
        let json = serde_json::to_value(ShownPod::from(&pod)).unwrap();
        assert_eq!(json["sandboxId"], "0123456789abcdef");
        assert_eq!(json["containers"][1]["waitingFor"][0], "db");
        assert_eq!(json["containers"][1]["waitingMilliseconds"], "1240");
    }

    #[test]
    fn pods_without_a_valid_order_say_so() {
        let bad = PodOrder { name: "x".into(), error: "env … is \"high\"".into(), ..PodOrder::default() };
        assert!(text(&[bad], false).contains("the declared order is invalid: env … is \"high\""));
        let plain = PodOrder {
            name: "x".into(),
            containers: vec![container("a", 0, "Ready", &[])],
            ..PodOrder::default()
        };
        assert!(text(&[plain], false).contains("declares no order"));
        assert_eq!(text(&[], false), "no pod on this node declares an order\n");
    }
}
