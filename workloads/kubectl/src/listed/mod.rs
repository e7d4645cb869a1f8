//! Questions about the whole cluster. Each reads its kinds page by page, keeps a row of each object, and
//! writes nothing.

mod flags;
mod nodes;
mod requests;
mod revisions;
mod sidecar_sets;
mod waiting;

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Context, bail};
use jiff::Timestamp;
use serde_json::Value;

pub(crate) use self::flags::Listed;
use self::flags::Showing;
use crate::{
    cli::Global,
    cluster::{Cluster, Space},
    object::{Sort, text},
    table::Sheet,
};

/// Bound of the rows that others are joined with: one for each node, or each open request.
const MOST_JOINED: usize = 100_000;

/// Carries out a command.
pub(crate) async fn run(global: &Global, listed: &Listed) -> anyhow::Result<ExitCode> {
    let cluster = Cluster::connect(global).await?;
    let now = Timestamp::now();
    match listed {
        Listed::Requests(flags) => {
            let (rows, left) = requests(&cluster, flags, now).await?;
            let nothing = if flags.all { "No requests found." } else { "No open requests found." };
            show(&flags.showing, requests::sheet(rows), left, nothing)
        }
        Listed::Nodes(flags) => {
            let agents =
                cluster.all(&Sort::NODE_UPDATES, Space::Everywhere, "", MOST_JOINED, nodes::agent).await?;
            let agents: BTreeMap<_, _> =
                agents.map(|found| found.rows).unwrap_or_default().into_iter().collect();
            let keep = |node: Value| nodes::row(&node, &agents, now).filter(|_| flags.names.wants(&node));
            let found = cluster.all(&Sort::NODE, Space::Everywhere, "", flags.showing.most, keep).await?;
            let found = found.context("the API server lists no nodes")?;
            show(&flags.showing, nodes::sheet(found.rows), found.left, "No nodes found.")
        }
        Listed::Waiting(flags) => {
            let space = Space::of(flags.space.all_namespaces);
            let keep = |request: Value| requests::is_open(&request).then(|| waiting::held_by(&request));
            let mut open = Vec::new();
            for sort in [Sort::RECREATE, Sort::UPDATE] {
                open.extend(cluster.all(&sort, space, "", MOST_JOINED, keep).await?.map(|found| found.rows));
            }
            let open = waiting::by_pod(open.into_iter().flatten());
            let selector = "status.phase!=Succeeded,status.phase!=Failed";
            let keep = |pod: Value| waiting::rows(&pod, &open, now);
            let found = cluster.all(&Sort::POD, space, selector, flags.showing.most, keep).await?;
            let found = found.context("the API server lists no pods")?;
            let rows = found.rows.into_iter().flatten().collect();
            show(&flags.showing, waiting::sheet(rows), found.left, "No pods wait for Berth.")
        }
        Listed::Sidecarsets(flags) => {
            let keep = |set: Value| flags.names.wants(&set).then(|| sidecar_sets::row(&set, now));
            let found =
                cluster.all(&Sort::SIDECAR_SET, Space::Everywhere, "", flags.showing.most, keep).await?;
            let found = found.with_context(|| Sort::SIDECAR_SET.unknown())?;
            show(&flags.showing, sidecar_sets::sheet(found.rows), found.left, "No SidecarSets found.")
        }
        Listed::Revisions(flags) => {
            let name = flags.set.strip_prefix("sidecarset/").unwrap_or(&flags.set);
            let Some(set) = cluster.read(&Sort::SIDECAR_SET, name).await? else {
                bail!("there is no SidecarSet \"{name}\": kubectl berth sidecarsets lists them");
            };
            let nothing = "No revisions recorded yet: berth-manager records them.";
            print!("{}", revisions::sheet(&set, now).text(flags.format.output, nothing)?);
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Requests of both kinds, and how many there are more.
async fn requests(
    cluster: &Cluster,
    flags: &flags::Requests,
    now: Timestamp,
) -> anyhow::Result<(Vec<Vec<String>>, usize)> {
    let space = Space::of(flags.space.all_namespaces);
    let (mut rows, mut left, mut kinds) = (Vec::new(), 0_usize, 0);
    for sort in [Sort::RECREATE, Sort::UPDATE] {
        let keep = |request: Value| {
            let wanted = flags.names.wants(&request) && (flags.all || requests::is_open(&request));
            wanted.then(|| requests::row(&sort, &request, now))
        };
        // Of OpenKruise there is one of the two kinds alone.
        let Some(found) = cluster.all(&sort, space, "", flags.showing.most, keep).await? else { continue };
        kinds += 1;
        left = left.saturating_add(found.left);
        rows.extend(found.rows);
    }
    if kinds == 0 {
        bail!(Sort::RECREATE.unknown());
    }
    Ok((rows, left))
}

fn show(showing: &Showing, sheet: Sheet, left: usize, nothing: &str) -> anyhow::Result<ExitCode> {
    print!("{}", sheet.text(showing.format.output, nothing)?);
    if left > 0 {
        eprintln!(
            "and {left} more: --most {} shows them, or ask for less",
            showing.most.saturating_add(left)
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Names that were asked for.
impl flags::Names {
    fn wants(&self, object: &Value) -> bool {
        self.names.is_empty() || self.names.iter().any(|name| text(object, "/metadata/name") == name)
    }
}

#[cfg(test)]
mod tests {
    use crate::cluster::Found;

    #[test]
    fn rows_beyond_the_bound_are_counted() {
        let mut found = Found::default();
        (0..5).for_each(|row| found.push(row, 3));
        assert_eq!((found.rows, found.left), (vec![0, 1, 2], 2));
    }
}
