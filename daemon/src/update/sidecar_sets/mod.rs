//! The SidecarSets that own entries of this node's `NodePodUpdate`, each read by its name when a new entry
//! names it: an entry is carried out only if its set asks for it ([`verify`]).
//!
//! The word on an entry stands as long as the entry does; a set whose version was seen before is not judged
//! again. How many sets are read at once is bounded, and one that cannot be read holds up its own entries
//! only.

mod verify;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use berth_proto::crd::{DesiredPod, SidecarSet};
use futures::{StreamExt, stream};
use tracing::warn;

use self::verify::SetView;
pub(super) use self::verify::Unasked;
use super::{
    round_robin::RoundRobin,
    words::{REFUSALS, Words},
};
use crate::{
    base::causes::chain,
    cluster::{
        client::{CallError, Connection},
        raw,
    },
};

/// How many sets are remembered.
const REMEMBERED: usize = 64;
/// How many are read in one go, and how many of them at once.
const READ: usize = 64;
const AT_ONCE: usize = 8;

/// The sets, and the words on entries.
#[derive(Debug, Default)]
pub(super) struct SidecarSets(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    sets: BTreeMap<String, Arc<SetView>>,
    words: Words<Unasked>,
    turns: RoundRobin,
    /// How often each set was refused in a row.
    refused: BTreeMap<String, u32>,
}

type Word = Result<(), Unasked>;

impl SidecarSets {
    /// The word on an entry; `None` before its set was read.
    pub(super) fn word(&self, entry: &DesiredPod) -> Option<Word> {
        let Some(_) = owner(entry) else { return Some(Ok(())) };
        self.state().words.on(entry)
    }

    /// Reads the sets of these entries, and says its word on them. Those whose set could not be read, and
    /// those that are too many for one go, stay without.
    pub(super) async fn judge(&self, connection: &Connection, entries: &[DesiredPod]) {
        let owners = entries.iter().filter_map(owner).map(|name| (name.to_owned(), ()));
        let due = self.state().turns.next(owners, READ);
        let read = stream::iter(due).map(|(name, ())| async move {
            self.state().turns.tried(&name);
            let set = read(connection, &name).await;
            (name, set)
        });
        let mut read = read.buffer_unordered(AT_ONCE);
        while let Some((name, set)) = read.next().await {
            let set = match set {
                Ok(set) => set.map(|set| self.seen(&set)).ok_or_else(|| Unasked::Absent(name.clone())),
                // One that comes up refuses, too, for a moment.
                Err(CallError::Refused { code: 403, .. }) if self.is_refused_again(&name) => {
                    Err(Unasked::Forbidden)
                }
                Err(error) => {
                    warn!(set = name, error = %chain(&error), "SidecarSet not read, trying again");
                    continue;
                }
            };
            let mut state = self.state();
            state.refused.remove(&name);
            for entry in entries.iter().filter(|entry| owner(entry) == Some(name.as_str())) {
                let word = set.clone().and_then(|set| set.asks_for(entry));
                state.words.say(entry, word);
            }
        }
    }

    /// Forgets the words on entries that are not there any more.
    pub(super) fn keep(&self, entries: &[DesiredPod]) {
        self.state().words.keep(entries);
    }

    fn is_refused_again(&self, name: &str) -> bool {
        let mut state = self.state();
        if state.refused.len() >= REMEMBERED {
            state.refused.pop_first();
        }
        let times = state.refused.entry(name.to_owned()).or_default();
        *times = times.saturating_add(1);
        *times >= REFUSALS
    }

    fn seen(&self, set: &SidecarSet) -> Arc<SetView> {
        let same = |view: &&Arc<SetView>| {
            set.metadata.uid.as_ref() == Some(&view.uid)
                && set.metadata.resource_version.as_ref() == Some(&view.version)
        };
        let name = set.metadata.name.clone().unwrap_or_default();
        if let Some(view) = self.state().sets.get(&name).filter(same) {
            return view.clone();
        }
        let view = Arc::new(SetView::of(set));
        let mut state = self.state();
        if state.sets.len() >= REMEMBERED && !state.sets.contains_key(&name) {
            state.sets.pop_first();
        }
        state.sets.insert(name, view.clone());
        view
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Name of the set that an entry is of.
pub(super) fn owner(entry: &DesiredPod) -> Option<&str> {
    entry.owner.strip_prefix("SidecarSet/")
}

/// Reads a set; `None`: there is none of that name.
pub(super) async fn read(connection: &Connection, name: &str) -> Result<Option<SidecarSet>, CallError> {
    let get = async |client| raw::all::<SidecarSet>(client).get_opt(name).await;
    connection.ask(async |client| get(client).await?.map(raw::typed).transpose()).await
}
