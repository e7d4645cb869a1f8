//! The agent's side: what there is room for of all that it knows, and the messages that tell what has
//! changed.

use std::collections::{BTreeMap, BTreeSet};

use berth_policy::{ContainerName, Creations, EnvValues, Foretold, HookTurn, InAdvance};

use super::size::{MAX_BYTES, MAX_ENV, MAX_ROWS, of_container, of_env, of_sandbox};
use crate::remote::{
    answers::showing_to_wire,
    calls::{MAX_LIST, MAX_NAME, name},
    frame::MAX_FRAME,
    message::{ContainerRow, EnvOf, EnvValue, PodRow, SandboxRow, TableChange},
};

/// The most that an agent tells of either: in the middle of a change there are old rows beside new ones.
const SHARE: usize = 2;
/// The most bytes of one pod's env values that are told: a message has room for them.
pub(super) const MAX_POD: usize = MAX_FRAME / 2;
/// Bytes of rows after which the next message begins.
const PART: usize = 128 << 10;

/// Leaves out what the line or the table of the shim has no room for, each row by itself: it is asked about,
/// and containers of such a pod are created as the kubelet says. Returns how many rows are left out.
///
/// Containers come first: with one of them left out nothing is begun that the shim has to know of, for no pod
/// of the node.
pub(crate) fn fit(known: &mut InAdvance) -> usize {
    let mut room = MAX_BYTES / SHARE;
    let of_containers = keep_small(&mut known.containers, &mut room, |id, _| {
        (id.as_str().len() <= MAX_NAME).then(|| of_container(id))
    });
    let of_sandboxes = keep_small(&mut known.sandboxes, &mut room, |id, row| {
        let open = match row {
            Creations::All => None,
            Creations::Of(open) => Some(open),
        };
        (id.as_str().len() <= MAX_NAME).then(|| of_sandbox(id, open.into_iter().flatten()))
    });
    room = MAX_ENV / SHARE;
    let of_pods = keep_small(&mut known.env, &mut room, |pod, row| {
        let bytes = of_env(pod, row);
        let is_told = bytes <= MAX_POD
            && row.len() <= MAX_LIST
            && row.iter().all(|(name, values)| name.as_str().len() <= MAX_NAME && values.0.len() <= MAX_ROWS);
        is_told.then_some(bytes)
    });
    of_containers + of_sandboxes + of_pods
}

/// Keeps the rows for which there is room, the smallest first: large ones of somebody's pods keep nobody
/// else's out. More than [`MAX_ROWS`] the shim would drop, and nobody here would know. The size of a row that
/// cannot be told is `None`. Returns how many were left out.
fn keep_small<K: Ord + Clone, V>(
    rows: &mut BTreeMap<K, V>,
    room: &mut usize,
    size: impl Fn(&K, &V) -> Option<usize>,
) -> usize {
    let sum = rows.iter().try_fold(0_usize, |sum, (key, row)| sum.checked_add(size(key, row)?));
    // Mostly there is room for all.
    if let Some(left) = sum.and_then(|sum| room.checked_sub(sum))
        && rows.len() <= MAX_ROWS
    {
        *room = left;
        return 0;
    }
    let sized = rows.iter().filter_map(|(key, row)| Some((size(key, row)?, key.clone())));
    let mut by_size: Vec<(usize, K)> = sized.collect();
    by_size.sort();
    let mut kept = BTreeSet::new();
    for (bytes, key) in by_size.into_iter().take(MAX_ROWS) {
        let Some(left) = room.checked_sub(bytes) else { break };
        *room = left;
        kept.insert(key);
    }
    let before = rows.len();
    rows.retain(|key, _| kept.contains(key));
    before.saturating_sub(rows.len())
}

/// The messages that make a table that says `before` say `after`. Without a `before`: the whole table, and
/// that nothing is missing.
pub(crate) fn changes(before: Option<&InAdvance>, after: &InAdvance, version: u64) -> Vec<TableChange> {
    let nothing = InAdvance::default();
    let old = before.unwrap_or(&nothing);
    let mut parts = Parts { parts: Vec::new(), bytes: 0 };
    parts.begin();
    for (id, row) in differences(&old.sandboxes, &after.sandboxes) {
        let Ok(sandbox) = name(id.as_str()) else { continue };
        let row = match row {
            None => SandboxRow { sandbox, gone: true, ..Default::default() },
            Some(Creations::All) => SandboxRow { sandbox, all: true, ..Default::default() },
            Some(Creations::Of(open)) => {
                let open = open.iter().take(MAX_LIST).filter_map(|open| name(open.as_str()).ok());
                SandboxRow { sandbox, open: open.collect(), ..Default::default() }
            }
        };
        parts.add(&row).sandboxes.push(row);
    }
    for (id, row) in differences(&old.containers, &after.containers) {
        let Ok(container) = name(id.as_str()) else { continue };
        let row = match row {
            None => ContainerRow { container, gone: true, ..Default::default() },
            Some(row) => container_row(container, row),
        };
        parts.add(&row).containers.push(row);
    }
    for (pod, row) in differences(&old.env, &after.env) {
        let Ok(pod) = name(pod.as_str()) else { continue };
        let of = |(container, values): (&ContainerName, &EnvValues)| EnvOf {
            container: container.as_str().to_owned(),
            values: values
                .0
                .iter()
                .map(|(name, value)| EnvValue { name: name.clone(), value: value.clone() })
                .collect(),
        };
        let row = PodRow { pod, containers: row.iter().flat_map(|row| row.iter()).map(of).collect() };
        parts.add(&row).pods.push(row);
    }
    let mut parts = parts.parts;
    let count = parts.len();
    for (index, part) in parts.iter_mut().enumerate() {
        part.reset = before.is_none() && index == 0;
        part.complete = index + 1 == count;
        part.nudges = after.nudges;
        part.pulls_pass = after.pulls_pass;
        part.strangers_pass = after.strangers_pass;
        part.version = version;
    }
    parts
}

fn container_row(container: String, row: &Foretold) -> ContainerRow {
    ContainerRow {
        container,
        gone: false,
        stop_passes: row.stop_passes,
        status: row.status.map_or(0, |shown| showing_to_wire(shown.showing)),
        only_to: row.status.and_then(|shown| shown.only_to).map(|connection| connection.0),
        hook: match row.hook {
            None => 0,
            Some(HookTurn::Run) => 1,
            Some(HookTurn::AlreadyRun) => 2,
        },
        changing: row.changing,
        quiet: row.quiet,
    }
}

/// The rows that are other ones now; `None` where they are gone.
fn differences<'a, K: Ord, V: PartialEq>(
    before: &'a BTreeMap<K, V>,
    after: &'a BTreeMap<K, V>,
) -> impl Iterator<Item = (&'a K, Option<&'a V>)> {
    let gone = before.keys().filter(|key| !after.contains_key(key)).map(|key| (key, None));
    let other = after.iter().filter(|(key, row)| before.get(key) != Some(row));
    gone.chain(other.map(|(key, row)| (key, Some(row))))
}

/// A change, in messages of a bounded length.
struct Parts {
    parts: Vec<TableChange>,
    bytes: usize,
}

impl Parts {
    fn begin(&mut self) {
        self.parts.push(TableChange::default());
        self.bytes = 0;
    }

    /// The message that this row goes into.
    fn add(&mut self, row: &impl prost::Message) -> &mut TableChange {
        if self.bytes > PART {
            self.begin();
        }
        self.bytes += row.encoded_len() + 8;
        let last = self.parts.len() - 1;
        &mut self.parts[last]
    }
}
