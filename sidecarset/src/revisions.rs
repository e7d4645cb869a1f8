//! The revisions of a set: which there are, what a new one is called, which go.
//!
//! They stand in the status of the set: a readable list, and all contents in one compressed text. Names and
//! rules are those of OpenKruise's ControllerRevisions.

use std::collections::BTreeSet;

use berth_proto::crd::{MOST_HISTORY_BYTES, SidecarSetRevision, SidecarSetStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::{
    golang::{merged_text, sidecars},
    hash::{Hashes, safe},
    history::{Content, HistoryError, decode, encode},
    json::Object,
};

/// The most revisions, whatever is in use.
const MOST: usize = 512;
/// The longest name of a set in the name of a revision.
const LONGEST_PREFIX: usize = 223;
/// The most names that are tried for a new revision.
const MOST_COLLISIONS: i32 = 64;

/// Revisions of one set, the oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Revisions {
    all: Vec<(SidecarSetRevision, Object)>,
    collisions: i32,
}

/// A new revision, or an old one that became the newest again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// Name of the revision.
    pub name: String,
    /// Its number.
    pub revision: i64,
    /// Whether anything changed.
    pub changed: bool,
}

/// A set's contents, and what is said of them.
#[derive(Clone, Debug)]
pub struct Edit<'a> {
    /// Name of the set.
    pub set: &'a str,
    /// Fields of its spec that make a revision.
    pub fields: &'a Object,
    /// Hashes of its sidecars.
    pub hashes: &'a Hashes,
    /// Label of the set with its author's version.
    pub custom_version: Option<&'a str>,
}

/// Status fields of a history that is written.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// `status.revisions`.
    pub revisions: Vec<SidecarSetRevision>,
    /// `status.history`.
    pub history: String,
    /// `status.latestRevision`.
    pub latest: Option<String>,
    /// `status.collisionCount`.
    pub collisions: Option<i32>,
    /// Names of revisions that went because the history was too large, though the limit allowed them.
    pub dropped: Vec<String>,
}

impl Revisions {
    /// Reads the revisions of a status. Those without contents are left out: nobody can get them.
    pub fn read(status: &SidecarSetStatus) -> Result<Self, HistoryError> {
        let contents = decode(status.history.as_deref().unwrap_or_default())?;
        let mut all: Vec<_> = contents
            .into_iter()
            .filter_map(|Content { name, fields }| {
                let revision = status.revisions.iter().find(|revision| revision.name == name)?;
                Some((revision.clone(), fields))
            })
            .collect();
        all.sort_by_key(|(revision, _)| revision.revision);
        Ok(Self { all, collisions: status.collision_count.unwrap_or_default() })
    }

    /// Name of the newest revision.
    pub fn latest(&self) -> Option<&str> {
        self.all.last().map(|(revision, _)| revision.name.as_str())
    }

    /// Records what a set has now. Contents that were there before get the next number, and keep their name;
    /// a custom version goes to the newest revision.
    pub fn register(&mut self, edit: &Edit, now: Timestamp) -> Registered {
        let next = self.all.last().map_or(1, |(revision, _)| revision.revision.saturating_add(1));
        // The newest of those that are the same: an earlier build filed each form for itself.
        let wanted = typed(edit.fields);
        let is_same = |fields: &Object| fields == edit.fields || wanted.is_some() && typed(fields) == wanted;
        let known = self.all.iter().rposition(|(_, fields)| is_same(fields));
        let last = self.all.len().checked_sub(1);
        let mut changed = known.is_none() || known != last;
        let (mut revision, fields) = match known {
            Some(at) => self.all.remove(at),
            None => {
                let name = self.free_name(edit);
                let created = Some(Time(now));
                (SidecarSetRevision { name, created, ..SidecarSetRevision::default() }, edit.fields.clone())
            }
        };
        if changed {
            revision.revision = next;
        }
        let before = revision.clone();
        revision.hash = Some(edit.hashes.hash.clone());
        revision.hash_without_image = Some(edit.hashes.without_image.clone());
        if let Some(version) = edit.custom_version.filter(|version| !version.is_empty()) {
            revision.custom_version = Some(version.to_owned());
        }
        changed |= before != revision;
        let registered = Registered { name: revision.name.clone(), revision: revision.revision, changed };
        self.all.push((revision, fields));
        registered
    }

    /// Drops the oldest ones, so that `limit` are left, at least one. The newest stays, and so does one that
    /// is `in_use`, by a pod or by name in the set, even if more are left then.
    pub fn truncate(&mut self, limit: i32, in_use: &BTreeSet<String>) {
        let limit = usize::try_from(limit).unwrap_or(0).max(1);
        let mut surplus = self.all.len().saturating_sub(limit);
        let newest = self.latest().map(str::to_owned);
        self.all.retain(|(revision, _)| {
            let stays = in_use.contains(&revision.name) || Some(&revision.name) == newest.as_ref();
            let goes = surplus > 0 && !stays;
            surplus -= usize::from(goes);
            !goes
        });
        let over = self.all.len().saturating_sub(MOST);
        self.all.drain(..over);
    }

    /// Writes the revisions for a status. If they are too large, the oldest ones go that are not `in_use`,
    /// then the oldest ones that are; the newest alone is an error when it is too large.
    pub fn write(mut self, in_use: &BTreeSet<String>) -> Result<Recorded, HistoryError> {
        let mut dropped = Vec::new();
        let history = loop {
            let contents = self.all.iter();
            let contents: Vec<_> = contents
                .map(|(revision, fields)| Content { name: revision.name.clone(), fields: fields.clone() })
                .collect();
            match encode(&contents) {
                Ok(history) => break history,
                Err(HistoryError::TooLarge(_)) if self.all.len() > 1 => {
                    let older = self.all.len() - 1;
                    let unused =
                        self.all[..older].iter().position(|(revision, _)| !in_use.contains(&revision.name));
                    dropped.push(self.all.remove(unused.unwrap_or(0)).0.name);
                }
                Err(error) => return Err(error),
            }
        };
        debug_assert!(history.len() <= MOST_HISTORY_BYTES);
        Ok(Recorded {
            latest: self.latest().map(str::to_owned),
            revisions: self.all.into_iter().map(|(revision, _)| revision).collect(),
            history,
            collisions: Some(self.collisions).filter(|count| *count > 0),
            dropped,
        })
    }

    /// Name that no other revision has. Two contents with one name are told apart by counting.
    fn free_name(&mut self, edit: &Edit) -> String {
        let data = merged_text(&edit.fields.clone().into());
        for _ in 0..MOST_COLLISIONS {
            let name = name(edit.set, &data, self.collisions);
            if self.all.iter().all(|(revision, _)| revision.name != name) {
                return name;
            }
            self.collisions = self.collisions.saturating_add(1);
        }
        // Nobody gets here by chance: then the number alone makes it another one.
        format!("{}-{}", prefix(edit.set), self.all.last().map_or(0, |(revision, _)| revision.revision))
    }
}

/// Fields as a client with Go types writes them, by which pods get the same: it writes zero values out that
/// were left out, and leaves out those that were given. OpenKruise stores only what such a client writes.
/// `None` where the sidecars are of no type.
fn typed(fields: &Object) -> Option<(String, String, Object)> {
    let mut fields = fields.clone();
    let mut of = |field: &str| sidecars(fields.remove(field).as_ref(), field).ok();
    Some((of("containers")?, of("initContainers")?, fields))
}

/// Name of a revision with this data.
fn name(set: &str, data: &str, collisions: i32) -> String {
    let hash = fnv32(data.bytes().chain(collisions.to_string().bytes()));
    format!("{}-{}", prefix(set), safe(&hash.to_string()))
}

fn prefix(set: &str) -> &str {
    set.get(..LONGEST_PREFIX).unwrap_or(set)
}

/// The hash FNV-1 of 32 bits.
fn fnv32(bytes: impl Iterator<Item = u8>) -> u32 {
    bytes.fold(0x811c_9dc5, |hash: u32, byte| hash.wrapping_mul(0x0100_0193) ^ u32::from(byte))
}
