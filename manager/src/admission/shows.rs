//! Watches of the kinds that admission goes by, and what they show.

use berth_base::{
    ownership::{Ownership, SharedKind},
    sent::Sent,
};
use berth_proto::crd::SidecarSet;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, ResourceExt,
    api::DynamicObject,
    core::{ApiResource, PartialObjectMeta},
    runtime::watcher,
};
use tokio::{sync::watch, task::JoinSet};

use super::{
    budgets::{self, BudgetKept},
    handler::Namespaces,
    pod_states::{self, StateKept},
    sets::{self, SetSeen},
    spreads::{self, SpreadKept},
    view::{View, follow, follow_owned},
};
use crate::{
    reads::PAGE,
    wire::{Budgets, PodStates, Spreads, Watched},
};

/// Objects that each of the watches shows. Of a kind that is not ours there are none.
pub(super) struct Shows {
    pub(super) namespaces: watch::Receiver<Namespaces>,
    pub(super) sets: watch::Receiver<View<SetSeen>>,
    pub(super) budgets: watch::Receiver<View<BudgetKept>>,
    pub(super) spreads: watch::Receiver<View<SpreadKept>>,
    pub(super) states: watch::Receiver<View<StateKept>>,
}

/// Watches all of them.
pub(super) fn follow_all(client: &Client, ownership: Ownership, watches: &mut JoinSet<()>) -> Shows {
    let (view, namespaces) = watch::channel(View::default());
    let all: Api<Sent<PartialObjectMeta<Namespace>>> = Api::all(client.clone());
    let labels = |one: Sent<PartialObjectMeta<Namespace>>| Some(one.labels().clone());
    watches.spawn(follow(all, watcher::Config::default().page_size(PAGE), "namespaces", labels, view));

    let (view, sets) = watch::channel(View::default());
    let all: Api<Sent<DynamicObject>> = Api::all_with(client.clone(), &ApiResource::erase::<SidecarSet>(&()));
    let is_ours = ownership.has(SharedKind::SidecarSet);
    watches.spawn(follow_owned(is_ours, all, "sidecarsets", sets::read, Some(sets::BOUND), view));

    let (view, budgets) = watch::channel(View::default());
    let all: Api<Watched<Budgets>> = Api::all(client.clone());
    let is_ours = ownership.has(SharedKind::PodUnavailableBudget);
    let bound = Some(budgets::BOUND);
    watches.spawn(follow_owned(is_ours, all, "podunavailablebudgets", budgets::read, bound, view));

    let (view, spreads) = watch::channel(View::default());
    let all: Api<Watched<Spreads>> = Api::all(client.clone());
    let is_ours = ownership.has(SharedKind::WorkloadSpread);
    let bound = Some(spreads::BOUND);
    watches.spawn(follow_owned(is_ours, all, "workloadspreads", spreads::read, bound, view));

    let (view, states) = watch::channel(View::default());
    let all: Api<Watched<PodStates>> = Api::all(client.clone());
    let is_ours = ownership.has(SharedKind::PersistentPodState);
    watches.spawn(follow_owned(is_ours, all, "persistentpodstates", pod_states::read, None, view));
    Shows { namespaces, sets, budgets, spreads, states }
}
