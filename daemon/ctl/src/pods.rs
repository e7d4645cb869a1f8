//! `berthctl pods`: the pod sandboxes on this node.

use anyhow::Result;
use berth_proto::cri::{PodSandbox, PodSandboxState};
use clap::{Args, ValueEnum};

use super::cli::Global;
use super::cri::Cri;
use super::filter::{ListArgs, age};
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
    let table = table(&pods, args.list.no_trunc);
    output::data(args.list.output.format, &PodSandboxList::new(pods), || table)
}

fn table(pods: &[PodSandbox], no_trunc: bool) -> String {
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
        ]
    });
    output::table(&["POD ID", "CREATED", "STATE", "NAME", "NAMESPACE", "ATTEMPT"], rows)
}
