//! `berthctl ps`: the containers on this node.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use berth_proto::cri::{Container, ContainerState};
use clap::{Args, ValueEnum};

use super::cli::Global;
use super::cri::Cri;
use super::filter::{ListArgs, age};
use super::manifest::keys;
use super::output::{Columns, Format, or_dash};
use super::protojson::ContainerList;
use super::{output, select};

/// Flags of `ps`.
#[derive(Args, Debug)]
pub(crate) struct PsArgs {
    /// Containers in every state, not only running ones
    #[arg(short, long)]
    pub all: bool,
    /// Only those of this pod: an ID or name, or the beginning of one
    #[arg(short, long, value_name = "POD")]
    pub pod: Option<String>,
    /// Only those in this state
    #[arg(
        short,
        long,
        value_enum,
        ignore_case = true,
        value_name = "created|running|exited|unknown",
        hide_possible_values = true
    )]
    pub state: Option<State>,
    /// Flags that every listing has.
    #[command(flatten)]
    pub list: ListArgs,
}

/// State of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum State {
    /// Made, never started.
    Created,
    /// Its process runs.
    Running,
    /// Its process ended.
    Exited,
    /// The runtime does not know.
    Unknown,
}

/// Runs `ps`.
pub(crate) async fn ps(global: &Global, args: &PsArgs) -> Result<()> {
    let cri = Cri::connect(global).await?;
    let mut containers = match &args.pod {
        Some(pod) => cri.containers_of(&select::sandbox(&cri, pod).await?.id).await?,
        None => cri.containers(None).await?,
    };
    // crictl: whoever asks for the last ones means all states.
    let every_state = args.all || args.list.latest || args.list.last.is_some();
    containers.retain(|container| {
        let state = state(container);
        let name = container.metadata.as_ref().map_or("", |metadata| &metadata.name);
        args.list.admits(name, label(container, keys::POD_NAMESPACE), &container.labels)
            && match args.state {
                Some(wanted) => state == wanted,
                None => every_state || state == State::Running,
            }
    });
    args.list.cut(&mut containers, |container| container.created_at);
    if args.list.quiet {
        let ids: String = containers.iter().map(|container| container.id.clone() + "\n").collect();
        return output::print(&ids);
    }
    let output = args.list.output;
    let table = match output.plain() {
        Format::Table => {
            let names = image_names(&cri, &containers).await;
            table(&containers, &names, args.list.no_trunc, output.columns())
        }
        _ => String::new(),
    };
    output::data(output.plain(), &ContainerList::new(containers), || table)
}

fn state(container: &Container) -> State {
    match container.state() {
        ContainerState::ContainerCreated => State::Created,
        ContainerState::ContainerRunning => State::Running,
        ContainerState::ContainerExited => State::Exited,
        ContainerState::ContainerUnknown => State::Unknown,
    }
}

fn label<'a>(container: &'a Container, key: &str) -> &'a str {
    container.labels.get(key).map_or("", String::as_str)
}

/// The names of images that containers know by ID only, as crictl resolves them. A name that is not to be had
/// is no error: the ID is shown.
async fn image_names(cri: &Cri, containers: &[Container]) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for id in containers
        .iter()
        .map(|container| container.image.clone().unwrap_or_default().image)
        .collect::<BTreeSet<_>>()
    {
        if let Ok(Some(image)) = cri.image(&id).await
            && let Some(tag) = image.repo_tags.into_iter().next()
        {
            names.insert(id, tag);
        }
    }
    names
}

fn table(
    containers: &[Container],
    names: &BTreeMap<String, String>,
    no_trunc: bool,
    columns: Columns,
) -> String {
    let rows = containers.iter().map(|container| {
        let metadata = container.metadata.clone().unwrap_or_default();
        vec![
            output::id(&container.id, no_trunc).to_owned(),
            image(container, names, no_trunc),
            age(container.created_at),
            format!("{:?}", state(container)),
            metadata.name,
            metadata.attempt.to_string(),
            output::id(&container.pod_sandbox_id, no_trunc).to_owned(),
            label(container, keys::POD_NAME).to_owned(),
            or_dash(label(container, keys::POD_NAMESPACE)),
            or_dash(&container.image_ref),
            or_dash(label(container, keys::POD_UID)),
        ]
    });
    let few = ["CONTAINER", "IMAGE", "CREATED", "STATE", "NAME", "ATTEMPT", "POD ID", "POD"];
    output::list(columns, &few, &["NAMESPACE", "IMAGE ID", "POD UID"], rows)
}

/// The image by the name the user gave, else by a tag it has, else by its ID.
fn image(container: &Container, names: &BTreeMap<String, String>, no_trunc: bool) -> String {
    let spec = container.image.clone().unwrap_or_default();
    if !spec.user_specified_image.is_empty() {
        return spec.user_specified_image;
    }
    match (names.get(&spec.image), spec.image.strip_prefix("sha256:")) {
        (Some(name), _) => name.clone(),
        (None, Some(id)) => output::id(id, no_trunc).to_owned(),
        (None, None) => spec.image,
    }
}
