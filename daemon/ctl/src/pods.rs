//! `berthctl pods`: the pod sandboxes on this node.

use std::collections::HashMap;

use anyhow::Result;
use berth_proto::cri::{PodSandbox, PodSandboxState};
use clap::{Args, ValueEnum};

use super::cli::Global;
use super::cri::Cri;
use super::filter::{ListArgs, age};
use super::output::{Columns, or_dash};
use super::protojson::PodSandboxList;
use super::{output, select};

/// Flags of `pods`.
#[derive(Args, Debug)]
pub(crate) struct PodsArgs {
    /// Only this pod: an ID or name, or the beginning of one
    #[arg(long, value_name = "POD")]
    pub pod: Option<String>,
    /// Only those in this state
    #[arg(
        short,
        long,
        value_enum,
        ignore_case = true,
        value_name = "ready|notready",
        hide_possible_values = true
    )]
    pub state: Option<State>,
    /// Flags that every listing has.
    #[command(flatten)]
    pub list: ListArgs,
}

/// State of a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum State {
    /// Its namespaces are there.
    Ready,
    /// It was stopped.
    #[value(name = "notready")]
    NotReady,
}

/// Runs `pods`.
pub(crate) async fn pods(global: &Global, args: &PodsArgs) -> Result<()> {
    let cri = Cri::connect(global).await?;
    let mut pods = match &args.pod {
        Some(pod) => vec![select::sandbox(&cri, pod).await?],
        None => cri.sandboxes(None).await?,
    };
    pods.retain(|pod| {
        let metadata = pod.metadata.clone().unwrap_or_default();
        args.list.admits(&metadata.name, &metadata.namespace, &pod.labels)
            && args
                .state
                .is_none_or(|state| (state == State::Ready) == (pod.state() == PodSandboxState::SandboxReady))
    });
    args.list.cut(&mut pods, |pod| pod.created_at);
    if args.list.quiet {
        let ids: String = pods.iter().map(|pod| pod.id.clone() + "\n").collect();
        return output::print(&ids);
    }
    let table = table(&pods, args.list.no_trunc, args.list.output.columns());
    output::data(args.list.output.plain(), &PodSandboxList::new(pods), || table)
}

fn table(pods: &[PodSandbox], no_trunc: bool, columns: Columns) -> String {
    let rows = pods.iter().map(|pod| {
        let metadata = pod.metadata.clone().unwrap_or_default();
        let state = match pod.state() {
            PodSandboxState::SandboxReady => "Ready",
            PodSandboxState::SandboxNotready => "NotReady",
        };
        vec![
            output::id(&pod.id, no_trunc).to_owned(),
            age(pod.created_at),
            state.to_owned(),
            metadata.name,
            metadata.namespace,
            metadata.attempt.to_string(),
            metadata.uid,
            labels(&pod.labels),
        ]
    });
    let few = ["POD ID", "CREATED", "STATE", "NAME", "NAMESPACE", "ATTEMPT"];
    output::list(columns, &few, &["UID", "LABELS"], rows)
}

/// Labels of the pod, without those by which the kubelet marks what is its own.
fn labels(labels: &HashMap<String, String>) -> String {
    let mut own: Vec<String> = labels
        .iter()
        .filter(|(key, _)| !key.starts_with("io.kubernetes.pod."))
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    own.sort();
    or_dash(&own.join(","))
}

#[cfg(test)]
mod tests {
    use berth_proto::cri::PodSandboxMetadata;

    use super::*;

    #[test]
    fn wide_has_uid_and_labels() {
        let metadata = PodSandboxMetadata {
            name: "web".into(),
            namespace: "shop".into(),
            uid: "u-1".into(),
            ..PodSandboxMetadata::default()
        };
        let labels = [("io.kubernetes.pod.name", "web"), ("tier", "front"), ("app", "web")];
        let pod = PodSandbox {
            id: "0123456789abcdef".into(),
            metadata: Some(metadata),
            labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            ..PodSandbox::default()
        };
        let wide = table(std::slice::from_ref(&pod), false, Columns::All);
        assert!(wide.lines().next().unwrap().ends_with("ATTEMPT   UID   LABELS"), "{wide}");
        assert!(wide.ends_with("u-1   app=web,tier=front\n"), "{wide}");
        let few = table(&[pod], false, Columns::Few);
        assert!(!few.contains("u-1") && few.contains("0123456789abc "), "{few}");
    }
}
