//! Standing of the SidecarSets' webhook entries: whether new pods get sidecars. The admission server of each
//! replica finds it out; the index of sidecars says it in the sets' status. And that of the entries of
//! budgets, by which the index of budgets counts new ones.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::Key;

/// An API server asks by an entry a moment after it stands: it learns of a change by a watch, as we do.
pub(crate) const ASKED_AFTER: Duration = Duration::from_millis(100);

/// Fields of a set that its webhook entry is made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reach {
    /// The pods.
    pub selector: Option<LabelSelector>,
    /// Their one namespace.
    pub namespace: Option<String>,
    /// Their namespaces.
    pub namespace_selector: Option<LabelSelector>,
}

/// Knowledge of the entries of all sets.
#[derive(Clone, Debug, Default)]
pub enum Webhooks {
    /// There is no admission server here, and none is asked about.
    #[default]
    Off,
    /// Not looked at yet.
    Unknown,
    /// As they were seen last.
    Known(Arc<Entries>),
}

/// Entries as they stand in the configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entries {
    /// By name of the set.
    pub sets: BTreeMap<String, Entry>,
    /// One entry is for all sets, and pods do not wait for it.
    pub shared: bool,
}

/// Entry of one set.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// It stands, for these fields.
    Stands(Reach),
    /// It does not stand yet.
    Pending,
    /// There can be none, and why.
    LeftOut(String),
}

/// Budgets whose webhook entries stand: their pods are asked about.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entered {
    /// There is an admission server here.
    on: bool,
    /// Budgets by `namespace/name`, of each of the two configurations.
    standing: [Arc<BTreeSet<String>>; 2],
}

impl Entered {
    /// Makes one where nothing is known of the entries yet.
    pub(crate) fn unknown() -> Self {
        Self { on: true, ..Self::default() }
    }

    /// Takes in the budgets whose entries stand in one of the configurations; tells whether that is news.
    pub(crate) fn stand<'a>(&mut self, at: usize, budgets: impl Iterator<Item = &'a String> + Clone) -> bool {
        let Some(known) = self.standing.get_mut(at) else { return false };
        let is_news = !known.iter().eq(budgets.clone());
        if is_news {
            *known = Arc::new(budgets.cloned().collect());
        }
        is_news
    }

    /// Tells whether there is an admission server here.
    pub(crate) const fn is_on(&self) -> bool {
        self.on
    }

    /// Tells whether the entries of the budget stand in both configurations.
    pub(crate) fn has(&self, budget: &Key) -> bool {
        let name = budget.to_string();
        self.standing.iter().all(|standing| standing.contains(&name))
    }
}
