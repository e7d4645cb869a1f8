//! ResourceDistribution: the next writes that bring its copies into the namespaces that are to have one.
//!
//! ```text
//!   spec ▶ rules ▶ namespaces that are to have a copy ▶ missing: make · another one: put right ▶ status
//!                  copies in any other namespace ▶ delete
//! ```
//!
//! A copy is an object whose controller is the distribution, by its UID; no other object is ever written.
//! Copies are found by a label, so that nobody has to watch all Secrets of a cluster. An object that is in
//! the way has no label and is not seen: what a write was refused for is remembered as trouble, and it is
//! tried again after a while. OpenKruise does not try again when a conflict is over, compares no metadata,
//! and writes a manifest with `stringData` in each pass; here a copy is compared with what the API server
//! makes of the manifest.

mod body;
mod copy;
mod rules;
mod status;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use berth_proto::crd::{ResourceDistribution, ResourceDistributionStatus};
use jiff::Timestamp;

pub use self::{
    copy::{CopyView, is_of, merged},
    rules::{Kind, Rules},
};
use crate::{
    action::{Note, Target},
    selector::Labels,
};

/// Group and version of the kind.
pub const API_VERSION: &str = "apps.kruise.io/v1alpha1";
/// The kind.
pub const KIND: &str = "ResourceDistribution";
/// Label of a copy: the UID of its distribution.
pub const COPY_LABEL: &str = "berth.dev/distribution";
/// Annotation of a copy: the hash of the manifest.
pub const HASH_ANNOTATION: &str = "kruise.io/resourcedistribution.resource.hashcode";
/// Annotation of a copy: the name of its distribution.
pub const FROM_ANNOTATION: &str = "kruise.io/resourcedistribution.resource.from";
/// The most writes of one plan; the next one follows at once.
const MOST_WRITES: usize = 256;

/// A namespace, reduced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceView {
    /// Its UID.
    pub uid: String,
    /// Its labels.
    pub labels: Labels,
    /// It is being deleted.
    pub terminating: bool,
}

/// Problem of a namespace. The order is that of the conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Problem {
    /// An object could not be read.
    Get,
    /// A copy could not be made.
    Create,
    /// A copy could not be put right.
    Update,
    /// A copy that is not wanted could not be deleted.
    Delete,
    /// An object of the same kind and name is there, and another one's.
    Conflict,
    /// The namespace is not there.
    Missing,
}

/// Trouble that a write has met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Which problem.
    pub problem: Problem,
    /// For people.
    pub text: String,
    /// UID of the namespace; one that is made anew has none of it.
    pub namespace: String,
    /// Number of the plan that has met it.
    pub met: u64,
}

/// A ResourceDistribution, and all that is known of it.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The distribution.
    pub distribution: &'a ResourceDistribution,
    /// All namespaces, by name.
    pub namespaces: &'a BTreeMap<String, NamespaceView>,
    /// Its copies.
    pub copies: &'a [&'a CopyView],
    /// Trouble of its writes, by namespace.
    pub troubles: &'a BTreeMap<String, Trouble>,
    /// Namespaces with trouble are tried again now.
    pub retry: bool,
}

/// One write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Makes the copy of a namespace.
    Create {
        /// Its name.
        namespace: String,
    },
    /// Puts the copy of a namespace right.
    Update {
        /// Its name.
        namespace: String,
    },
    /// Deletes a copy that is not wanted.
    Delete {
        /// Its namespace.
        namespace: String,
        /// Its kind.
        kind: Kind,
        /// Which one.
        target: Target,
    },
}

/// Writes that are due.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Writes: where there was no trouble first, then where it was met longest ago.
    pub actions: Vec<Action>,
    /// Status, when it differs from the one on file.
    pub status: Option<ResourceDistributionStatus>,
    /// More is due than one plan has.
    pub more: bool,
    /// Things to tell.
    pub notes: Vec<Note>,
}

impl Action {
    /// Namespace that it is about.
    pub fn namespace(&self) -> &str {
        match self {
            Self::Create { namespace } | Self::Update { namespace } | Self::Delete { namespace, .. } => {
                namespace
            }
        }
    }
}

/// Decides on the next writes. The rules are those of the distribution.
pub fn plan(input: &Input<'_>, rules: &Rules, now: Timestamp) -> Plan {
    // Copies of one that is going are the garbage collector's.
    if input.distribution.metadata.deletion_timestamp.is_some() {
        return Plan::default();
    }
    let wanted = rules.targets(input.namespaces);
    let mut found: BTreeMap<&str, Vec<&CopyView>> = BTreeMap::new();
    for copy in input.copies {
        found.entry(copy.namespace.as_str()).or_default().push(copy);
    }
    let mut actions = Vec::new();
    let (mut succeeded, mut problems) = (0_usize, BTreeMap::<&str, (Problem, String)>::new());
    let trouble_of = |name: &str| {
        let uid = input.namespaces.get(name).map(|namespace| namespace.uid.as_str());
        input.troubles.get(name).filter(|trouble| Some(trouble.namespace.as_str()) == uid)
    };
    for name in &wanted {
        let view = input.namespaces.get(*name);
        if view.is_none_or(|view| view.terminating) {
            let text = if view.is_some() { "is being deleted" } else { "is not there" };
            problems.insert(name, (Problem::Missing, format!("namespace {name} {text}")));
            continue;
        }
        let copy = found.get(name).and_then(|copies| copies.iter().find(|copy| copy.is_of(rules)));
        let action = match copy {
            Some(copy) if copy.terminating => {
                let text = format!("the one of namespace {name} is being deleted, and comes after that");
                problems.insert(name, (Problem::Create, text));
                continue;
            }
            Some(copy) if copy.is_current(rules) => {
                succeeded = succeeded.saturating_add(1);
                continue;
            }
            Some(_) => Action::Update { namespace: (*name).to_owned() },
            None => Action::Create { namespace: (*name).to_owned() },
        };
        let trouble = trouble_of(name);
        if let Some(trouble) = trouble {
            problems.insert(name, (trouble.problem, trouble.text.clone()));
        }
        if trouble.is_none() || input.retry {
            actions.push(action);
        }
    }
    for (name, copies) in &found {
        for copy in copies.iter().filter(|copy| !copy.terminating) {
            if wanted.contains(name) && copy.is_of(rules) {
                continue;
            }
            let trouble = trouble_of(name).filter(|trouble| trouble.problem == Problem::Delete);
            if let Some(trouble) = trouble {
                problems.insert(name, (Problem::Delete, trouble.text.clone()));
            }
            if trouble.is_none() || input.retry {
                let (namespace, kind) = ((*name).to_owned(), copy.kind);
                actions.push(Action::Delete { namespace, kind, target: copy.target() });
            }
        }
    }
    actions.sort_by_key(|action: &Action| trouble_of(action.namespace()).map(|trouble| trouble.met));
    let more = actions.len() > MOST_WRITES;
    actions.truncate(MOST_WRITES);
    let status = status::status(input, wanted.len(), succeeded, &problems, now);
    let is_new = input.distribution.status.as_ref() != Some(&status);
    Plan { actions, status: is_new.then_some(status), more, notes: Vec::new() }
}

/// Plan for a distribution whose spec has a fault: to say so, and nothing else. Copies that there are stay.
pub fn faulty(distribution: &ResourceDistribution, fault: &crate::fault::Fault, now: Timestamp) -> Plan {
    status::faulty(distribution, fault, now)
}

type Names<'a> = BTreeSet<&'a str>;
