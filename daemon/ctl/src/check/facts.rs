//! Facts of a cluster, as far as they are judged.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

/// A fact, or why it is not known.
pub(super) type Known<T> = Result<T, String>;

/// All facts.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// Version of the API server, such as `v1.34.4`.
    pub version: Known<String>,
    /// Definitions of the groups `kruise.io` and `berth.dev`, by name.
    pub definitions: Known<BTreeMap<String, Definition>>,
    /// Programs of both, by `KIND/NAME`.
    pub programs: Known<BTreeMap<String, Program>>,
    /// Webhook configurations of both, by name.
    pub webhooks: Known<BTreeMap<String, Webhooks>>,
    /// Admission policies that are bound, by name.
    pub policies: Known<Vec<String>>,
    /// Resources whose status a program of OpenKruise may not write, by its account, as `NAMESPACE:NAME`.
    /// Nothing, where no manager of an OpenKruise runs, or Berth's policy does not ask.
    pub refused: Known<BTreeMap<String, Vec<&'static str>>>,
    /// Endpoints that are Ready, of the Services that convert definitions, by `NAMESPACE/NAME`.
    pub endpoints: Known<BTreeMap<String, usize>>,
    /// Nodes that run Linux containers and are no virtual kubelets, and whether a label says that an agent
    /// stands inline there.
    pub nodes: Known<BTreeMap<String, bool>>,
    /// Nodes with an agent that may change pods, and its last sign of life.
    pub agents: Known<BTreeMap<String, Option<Timestamp>>>,
}

/// Definition of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Definition {
    /// Versions that it serves.
    pub served: Vec<String>,
    /// Versions in which objects may be stored.
    pub stored: Vec<String>,
    /// It is Berth's.
    pub is_ours: bool,
    /// Service that converts it, as `NAMESPACE/NAME`, or a URL.
    pub converter: Option<String>,
    /// Minor release of OpenKruise, 1.N, that it is of at least, if it is not Berth's.
    pub release: u32,
}

/// Deployment or DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Program {
    /// Namespace that it is in.
    pub namespace: String,
    /// Pods that there are to be.
    pub wanted: i32,
    /// Pods that are Ready.
    pub ready: i32,
    /// Pods of its newest template.
    pub updated: i32,
    /// Pods of templates before it, as far as a Deployment counts them.
    pub older: i32,
    /// Its newest specification is not in the status yet.
    pub unseen: bool,
    /// `--ownership` of its first container.
    pub ownership: Option<String>,
    /// `--feature-gates` of its first container.
    pub gates: String,
    /// ServiceAccount of its pods.
    pub account: Option<String>,
    /// Image of its first container.
    pub image: Option<String>,
}

/// Webhook configuration of either kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Webhooks {
    /// Namespace of the Service that answers its first entry with one.
    pub namespace: Option<String>,
    /// Its entries.
    pub entries: usize,
    /// Entries without a bundle of CAs.
    pub without_bundle: usize,
    /// Resources of OpenKruise's groups that it is asked about.
    pub resources: BTreeSet<String>,
}
