//! Doors: pods may be made as soon as the set or the spread is stored that they belong to. So it is stored
//! when the webhook entry stands by which the API server asks about them.

use std::time::Duration;

use berth_proto::crd::SidecarSet;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::ResourceExt;
use serde_json::Value;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tracing::debug;

use super::Handler;
use crate::{
    admission::{
        configuration::{Configuration, all_spreads_are_asked, announce, has_entry, next_of},
        review::Request,
        sets::SetSeen,
        spreads::SpreadKept,
        view::View,
    },
    store::{ASKED_AFTER, Entry, Webhooks},
};

/// The entry of a new set or spread stands within it, or the object is stored without.
const STANDS_WITHIN: Duration = Duration::from_millis(1500);

impl Handler {
    /// Waits until the entry of a new set stands, or the second one of a set that gets another reach: its
    /// pods may be made as soon as it is stored. Where that takes long, the set is stored without, and has
    /// its entry a little later.
    pub(super) async fn open_the_door(&self, request: &Request) {
        if request.dry_run {
            return;
        }
        let read = |object: &Value| serde_json::from_value::<SidecarSet>(object.clone()).ok();
        let Some(set) = read(&request.object) else { return };
        let (name, SetSeen { rules, .. }) = (set.name_any(), SetSeen::new(&set));
        let reach = rules.reach.clone();
        let entry = match read(&request.old_object).map(|old| SetSeen::new(&old).rules.reach) {
            Some(before) if before == reach => return,
            Some(_) => next_of(&name),
            None => name.clone(),
        };
        announce(&self.coming.sets, &name, rules);
        let stands = |webhooks: &Webhooks| match webhooks {
            Webhooks::Known(entries) => match entries.sets.get(&entry) {
                Some(Entry::Stands(of)) => *of == reach,
                Some(Entry::LeftOut(_)) => true,
                Some(Entry::Pending) | None => false,
            },
            Webhooks::Off | Webhooks::Unknown => false,
        };
        await_entry(self.webhooks.clone(), stands, "SidecarSet", &name).await;
    }

    /// Waits until new pods of a new spread are asked about, as for a set.
    pub(super) async fn open_for_spread(&self, request: &Request) {
        if request.dry_run || !request.old_object.is_null() {
            return;
        }
        let Some(kept) = SpreadKept::coming(request) else { return };
        if self.stands_for_all(&kept) {
            return;
        }
        announce(&self.coming.spreads, &format!("{}/{}", kept.namespace, kept.name), kept.clone());
        let stands = |entries: &View<MutatingWebhookConfiguration>| {
            let one = entries.listed().and_then(|entries| entries.values().next());
            one.is_some_and(|entries| has_entry(entries.mutating(), &kept))
        };
        await_entry(self.entries.clone(), stands, "WorkloadSpread", &kept.name).await;
    }

    /// Says whether one entry is for all spreads of the namespace, and stays while others are there. Then
    /// nobody is told of a new one: the reconciler would look at all spreads for each of thousands.
    fn stands_for_all(&self, kept: &SpreadKept) -> bool {
        let entries = self.entries.borrow();
        let one = entries.listed().and_then(|entries| entries.values().next());
        one.is_some_and(|one| all_spreads_are_asked(one.mutating(), &kept.namespace))
            && self.placer.has_others(kept)
    }
}

/// Waits until the webhook entry of an object that is about to be stored stands, but not for long: it is
/// stored without, then.
async fn await_entry<T>(
    mut shown: watch::Receiver<T>,
    mut stands: impl FnMut(&T) -> bool,
    kind: &str,
    name: &str,
) {
    if stands(&shown.borrow()) {
        return;
    }
    let stood = timeout(STANDS_WITHIN, shown.wait_for(stands)).await.is_ok_and(|stood| stood.is_ok());
    if stood {
        sleep(ASKED_AFTER).await;
    } else {
        debug!(kind, name, "Stored before its webhook entry");
    }
}
