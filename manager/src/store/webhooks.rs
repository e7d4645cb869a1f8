//! Standing of the SidecarSets' webhook entries: whether new pods get sidecars. The admission server of each
//! replica finds it out; the index of sidecars says it in the sets' status.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

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
