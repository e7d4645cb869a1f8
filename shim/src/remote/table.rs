//! The table: what the agent has said before it is asked. It stays in force while the agent is away.
//!
//! One that the table does not know is of interest: its calls are asked about. A table that is told anew
//! comes in several messages; until the last of them the one before it is in force.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use berth_policy::{
    ConnectionId, ContainerId, ContainerName, CreateContainer, Creations, EnvValues, Foretold, HookTurn,
    InAdvance, PodUid, SandboxId, Showing, ShownInAdvance,
};

use super::{
    answers::{showing_of, showing_to_wire},
    calls::{Beyond, MAX_LIST, MAX_NAME, list, name},
    frame::MAX_FRAME,
    message::{ContainerRow, EnvOf, EnvValue, PodRow, SandboxRow, TableChange},
};

/// The most rows of each kind. A node has 110 pods; what is beyond is asked about.
pub(crate) const MAX_ROWS: usize = 16 << 10;
/// The most bytes of rows of sandboxes and containers together, and of names in them. A node of 110 pods has
/// a hundredth of it.
const MAX_BYTES: usize = 8 << 20;
/// The most bytes of env values. An update of all pods of a node at once has less.
const MAX_ENV: usize = 8 << 20;
/// The most that an agent tells of either: in the middle of a change there are old rows beside new ones.
const SHARE: usize = 2;
/// The most bytes of one pod's env values that are told: a message has room for them.
const MAX_POD: usize = MAX_FRAME / 2;
/// Bytes around each text that is kept, at least.
const AROUND: usize = 64;
/// Bytes of rows after which the next message begins.
const PART: usize = 128 << 10;

/// Answers that are known before anybody asks.
#[derive(Debug, Default)]
pub(crate) struct Table {
    sandboxes: HashMap<SandboxId, Row>,
    containers: HashMap<ContainerId, Foretold>,
    /// Bytes of sandboxes and containers.
    bytes: usize,
    env: HashMap<PodUid, HashMap<ContainerName, EnvValues>>,
    env_bytes: usize,
    nudges: bool,
    pulls_pass: bool,
    /// An agent has said all of it, once.
    whole: bool,
    /// The table that is being told anew. An agent that dies before all of it is told leaves what was known.
    next: Option<Box<Self>>,
    /// The version of the last change.
    pub(crate) version: u64,
}

#[derive(Debug)]
enum Row {
    All,
    Of(HashSet<ContainerName>),
}

// === impl Table ===

impl Table {
    /// Takes a change as a whole, or nothing of it.
    pub(crate) fn change(&mut self, change: TableChange) -> Result<(), Beyond> {
        let sandboxes = list_of_rows(&change.sandboxes, sandbox_of)?;
        let containers = list_of_rows(&change.containers, container_of)?;
        let pods = list_of_rows(&change.pods, pod_of)?;
        if change.reset {
            self.next = Some(Box::default());
        }
        let mut next = self.next.take();
        let told = next.as_deref_mut().unwrap_or(&mut *self);
        for (id, row) in sandboxes {
            put(&mut told.sandboxes, (&mut told.bytes, MAX_BYTES), id, row, of_sandbox);
        }
        for (id, row) in containers {
            put(&mut told.containers, (&mut told.bytes, MAX_BYTES), id, row, of_container);
        }
        for (pod, row) in pods {
            let row = (!row.is_empty()).then_some(row);
            put(&mut told.env, (&mut told.env_bytes, MAX_ENV), pod, row, |pod, row| of_env(pod, row));
        }
        told.nudges = change.nudges;
        told.pulls_pass = change.pulls_pass;
        told.version = change.version;
        if !change.complete {
            self.next = next;
            return Ok(());
        }
        if let Some(next) = next {
            *self = *next;
        }
        self.whole = true;
        Ok(())
    }

    /// The agent that tells it is gone: what it has told of a table anew is not.
    pub(crate) fn abandon(&mut self) {
        self.next = None;
    }

    /// All creations in this sandbox go on without a question: no order concerns them.
    pub(crate) fn creates_all(&self, sandbox: &SandboxId) -> bool {
        matches!(self.sandboxes.get(sandbox), Some(Row::All))
    }

    /// The creation of this container goes on while nobody is there to be asked.
    pub(crate) fn creates(&self, create: &CreateContainer) -> bool {
        match self.sandboxes.get(&create.sandbox) {
            Some(Row::All) => true,
            Some(Row::Of(open)) => open.contains(&create.container),
            None => false,
        }
    }

    /// The stop of this container goes on without a question.
    pub(crate) fn stops(&self, container: &ContainerId) -> bool {
        self.containers.get(container).is_some_and(|row| row.stop_passes)
    }

    /// Row of this container.
    pub(crate) fn container(&self, container: &ContainerId) -> Option<&Foretold> {
        self.containers.get(container)
    }

    /// An agent has said all that it knew: what is not there then was nothing to it.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole
    }

    /// The values that this container is created with.
    pub(crate) fn env(&self, create: &CreateContainer) -> EnvValues {
        let pod = self.env.get(&create.pod.uid);
        pod.and_then(|pod| pod.get(&create.container)).cloned().unwrap_or_default()
    }

    /// A list of containers may have to carry a nudge.
    pub(crate) fn nudges(&self) -> bool {
        self.nudges
    }

    /// A pull goes on without a question: the agent has none that it could wait for.
    pub(crate) fn pulls_pass(&self) -> bool {
        self.pulls_pass
    }

    /// Whether this container is shown as one that ended well.
    pub(crate) fn is_completed(&self, container: &ContainerId) -> bool {
        let status = self.containers.get(container).and_then(|row| row.status);
        status.is_some_and(|shown| shown.showing == Showing::Completed)
    }
}

#[cfg(any(test, feature = "fuzzing"))]
impl Table {
    pub(super) fn check_bounds(&self) {
        assert!(self.sandboxes.len() <= MAX_ROWS && self.containers.len() <= MAX_ROWS);
        assert!(self.env.len() <= MAX_ROWS && self.env_bytes <= MAX_ENV && self.bytes <= MAX_BYTES);
        let sandboxes = self.sandboxes.iter().map(|(id, row)| of_sandbox(id, row));
        let containers = self.containers.iter().map(|(id, row)| of_container(id, row));
        assert_eq!(sandboxes.chain(containers).sum::<usize>(), self.bytes);
        assert_eq!(self.env.iter().map(|(pod, row)| of_env(pod, row)).sum::<usize>(), self.env_bytes);
        if let Some(next) = &self.next {
            assert!(next.next.is_none());
            next.check_bounds();
        }
    }

    pub(super) fn check_empty(&self) {
        assert!(self.sandboxes.is_empty() && self.containers.is_empty() && self.env.is_empty());
        assert!(self.bytes == 0 && self.env_bytes == 0 && self.next.is_none());
        assert!(!self.nudges && !self.pulls_pass);
    }
}

/// Bytes of a text, and of what is around it.
fn of_text(text: &str) -> usize {
    text.len().saturating_add(AROUND)
}

fn of_sandbox(id: &SandboxId, row: &Row) -> usize {
    let names = match row {
        Row::All => 0,
        Row::Of(open) => open.iter().map(|name| of_text(name.as_str())).sum(),
    };
    of_text(id.as_str()) + names
}

fn of_container(id: &ContainerId, _: &Foretold) -> usize {
    of_text(id.as_str()) + size_of::<Foretold>()
}

/// Bytes of the env values of a pod, and of the names around them.
fn of_env<'a>(pod: &PodUid, row: impl IntoIterator<Item = (&'a ContainerName, &'a EnvValues)>) -> usize {
    let of = |(container, values): (&ContainerName, &EnvValues)| {
        let values = values.0.iter().map(|(name, value)| of_text(name) + of_text(value));
        of_text(container.as_str()) + values.sum::<usize>()
    };
    of_text(pod.as_str()) + row.into_iter().map(of).sum::<usize>()
}

/// Puts a row in the place of the one before, if there is room for it: what is not known is asked about.
fn put<K: std::hash::Hash + Eq, V>(
    rows: &mut HashMap<K, V>,
    (bytes, most): (&mut usize, usize),
    key: K,
    row: Option<V>,
    of: impl Fn(&K, &V) -> usize,
) {
    if let Some(before) = rows.remove(&key) {
        *bytes = bytes.saturating_sub(of(&key, &before));
    }
    let Some(row) = row else { return };
    let more = of(&key, &row);
    if rows.len() < MAX_ROWS && bytes.saturating_add(more) <= most {
        *bytes += more;
        rows.insert(key, row);
    }
}

fn list_of_rows<T, U>(rows: &[T], each: impl Fn(&T) -> Result<U, Beyond>) -> Result<Vec<U>, Beyond> {
    if rows.len() > MAX_ROWS {
        return Err(Beyond("a part of the table"));
    }
    rows.iter().map(each).collect()
}

fn sandbox_of(row: &SandboxRow) -> Result<(SandboxId, Option<Row>), Beyond> {
    let known = match row {
        SandboxRow { gone: true, .. } => None,
        SandboxRow { all: true, .. } => Some(Row::All),
        SandboxRow { open, .. } => {
            Some(Row::Of(list(open, |container| Ok(name(container)?.into()))?.into_iter().collect()))
        }
    };
    Ok((name(&row.sandbox)?.into(), known))
}

fn container_of(row: &ContainerRow) -> Result<(ContainerId, Option<Foretold>), Beyond> {
    let id = name(&row.container)?.into();
    if row.gone {
        return Ok((id, None));
    }
    let hook = match row.hook {
        1 => Some(HookTurn::Run),
        2 => Some(HookTurn::AlreadyRun),
        _ => None,
    };
    let status = showing_of(row.status)
        .map(|showing| ShownInAdvance { showing, only_to: row.only_to.map(ConnectionId) });
    let ContainerRow { stop_passes, changing, quiet, .. } = *row;
    Ok((id, Some(Foretold { stop_passes, status, hook, changing, quiet })))
}

fn pod_of(row: &PodRow) -> Result<(PodUid, HashMap<ContainerName, EnvValues>), Beyond> {
    let values = list(&row.containers, |of| {
        let values = list_of_rows(&of.values, |value| Ok((value.name.clone(), value.value.clone())))?;
        Ok((ContainerName::from(name(&of.container)?), EnvValues(values)))
    })?;
    Ok((name(&row.pod)?.into(), values.into_iter().collect()))
}

// === the agent's side ===

/// Leaves out what the line or the table of the shim has no room for, each row by itself: it is asked about,
/// and containers of such a pod are created as the kubelet says. Returns how many rows are left out.
///
/// Containers come first: with one of them left out nothing is begun that the shim has to know of, for no pod
/// of the node.
pub(crate) fn fit(known: &mut InAdvance) -> usize {
    let mut room = MAX_BYTES / SHARE;
    let of_containers = keep_small(&mut known.containers, &mut room, |id, row| {
        (id.as_str().len() <= MAX_NAME).then(|| of_container(id, row))
    });
    let of_sandboxes = keep_small(&mut known.sandboxes, &mut room, |id, row| {
        let names: usize = match row {
            Creations::All => 0,
            Creations::Of(open) => open.iter().map(|name| of_text(name.as_str())).sum(),
        };
        (id.as_str().len() <= MAX_NAME).then(|| of_text(id.as_str()) + names)
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

#[cfg(test)]
#[path = "../tests/remote_table.rs"]
mod tests;
