//! Writes the manager's two webhook configurations, and writes them again when somebody changes them.
//!
//! Every replica does. All of them compute the same from the same objects, each write names the version it
//! was decided on, and what stands already is not written. Of two that compute something else, as during an
//! upgrade, the one that started later has its way (`precedence`). Another program that writes too, such as
//! an older version of this one, does so in turn: the pauses between a replica's writes grow then. So a
//! replica is ready when its entries stood once, not while they stand.
//!
//! A look goes over all objects that have entries, so many changes at once are one look. Entries that the API
//! server refuses are found and left out for a while (`refused`).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kube::{Api, ResourceExt, api::PostParams};
use tokio::{
    sync::watch::{self, error::RecvError},
    time::{Instant, sleep, sleep_until, timeout},
};
use tracing::{info, warn};

use super::{
    Announced, BudgetOptions, Desired, MOST_SETS, OF_A_SET, OF_A_SPREAD, Options, Service, SpreadOptions,
    StateOptions, changing, client,
    coming::{Strangers, on_their_way},
    kind::Configuration,
    pace::{Crowd, PAUSES},
    precedence::{Named, Precedence, WRITTEN_BY, Writer},
    refused::Refused,
    spreads,
    standing::entries,
    trial::{Trials, is_refusal, tried, without},
    wanted::{Choices, Kept, wanted},
};
use crate::{
    admission::{
        budgets::BudgetKept, certificates::Served, path::Route, pod_states::StateKept, sets::SetSeen,
        spreads::SpreadKept, view::View,
    },
    metrics::Admission,
    store::{Entered, Entries, Webhooks},
    telemetry::chain,
    time::later_timer,
};

/// A write without an answer has failed.
pub(in crate::admission) const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Time without a write after which the pauses are short again.
pub(in crate::admission) const QUIET: Duration = Duration::from_secs(60);

/// Objects that change are looked at once in it at the most. One that is about to be stored waits for its
/// entry, and no entry waits for this then.
const LOOKED_EVERY: Duration = Duration::from_millis(100);
/// Names of refused entries that are said.
const MOST_SAID: usize = 10;
/// Names of entries that are for budgets have it.
const OF_BUDGETS: &str = ".podunavailablebudget";

/// Owner of one configuration, as far as this replica goes.
pub(in crate::admission) struct ConfigurationReconciler<K> {
    /// Its API.
    pub(in crate::admission) api: Api<K>,
    /// Its name.
    pub(in crate::admission) name: &'static str,
    /// Where the API server finds us.
    pub(in crate::admission) service: Service,
    /// Options besides sidecars.
    pub(in crate::admission) options: Options,
    /// Its place among replicas that want something else.
    pub(in crate::admission) precedence: Precedence,
    /// The configuration, watched.
    pub(in crate::admission) shown: watch::Receiver<View<K>>,
    /// The sets.
    pub(in crate::admission) sets: watch::Receiver<View<SetSeen>>,
    /// The budgets, and what of them is limited.
    pub(in crate::admission) budgets: (watch::Receiver<View<BudgetKept>>, BudgetOptions),
    /// The spreads, and whether they are carried out.
    pub(in crate::admission) spreads: (watch::Receiver<View<SpreadKept>>, SpreadOptions),
    /// The PersistentPodStates, and whether they are carried out.
    pub(in crate::admission) states: (watch::Receiver<View<StateKept>>, StateOptions),
    /// Sets and spreads that are about to be stored.
    pub(in crate::admission) coming: Announced,
    /// The certificate.
    pub(in crate::admission) served: watch::Receiver<Served>,
    /// Learns the bundle that stands in it; empty while another content does.
    pub(in crate::admission) bundled: watch::Sender<Vec<u8>>,
    /// Learns which sets have their entries; of the configuration that has them.
    pub(in crate::admission) webhooks: Option<watch::Sender<Webhooks>>,
    /// Learns which budgets have their entries in it.
    pub(in crate::admission) entered: watch::Sender<Entered>,
    /// Counts entries that are refused.
    pub(in crate::admission) metrics: Admission,
}

impl<K: Configuration> ConfigurationReconciler<K> {
    /// Keeps it right, for ever.
    pub(in crate::admission) async fn run(mut self) {
        let mut told = Arc::new(Vec::new());
        let mut said: Option<String> = None;
        // Writes of the same entries in a row, when the last one was, and what it wrote.
        let (mut writes, mut written, mut last) = (0_usize, Instant::now(), None::<Box<K>>);
        let mut strangers = [OF_A_SPREAD, OF_A_SET].map(Strangers::of);
        let (mut crowd, mut refused) = (Crowd::default(), Refused::nothing());
        loop {
            match self.look(&mut told, &mut strangers, &mut refused) {
                Look::Stands(bundle) => {
                    said = None;
                    self.tell(bundle);
                    self.metrics.entries_refused(K::NAME, refused.entries().len());
                    if refused.is_due(Instant::now()) && self.sift_again(&mut refused).await {
                        continue;
                    }
                }
                Look::Waits => {}
                Look::Absent => {
                    let text = format!("{} {} is not there; apply deploy/manager", K::kind(&()), self.name);
                    say(&mut said, text);
                }
                Look::Owes(next) => {
                    // Another replica may know by now that some are taken, and have written them.
                    if refused.is_due(Instant::now()) && self.sift_again(&mut refused).await {
                        continue;
                    }
                    self.tell(Vec::new());
                    // New entries are no quarrel: only the same ones again are.
                    let again = last.as_ref().is_some_and(|last| last.same(&next));
                    if written.elapsed() > QUIET || !again {
                        writes = 0;
                    }
                    let mut pause = PAUSES[writes.min(PAUSES.len() - 1)];
                    let mut sifted = false;
                    let params = PostParams::default();
                    match timeout(ANSWER_WITHIN, self.api.replace(self.name, &params, &next)).await {
                        Ok(Ok(stands)) => {
                            info!(kind = %K::kind(&()), "Webhook configuration written");
                            drop(refused.search.end());
                            pause = pause.max(crowd.pause(Instant::now()));
                            self.precedence.wrote();
                            // Somebody else may write over it before the watch shows it.
                            self.tell_of(&stands);
                        }
                        // Another replica was first: its version comes by the watch.
                        Ok(Err(kube::Error::Api(status))) if status.code == 409 => {}
                        Ok(Err(error)) => {
                            say(&mut said, format!("{} not written: {}", K::kind(&()), chain(&error)));
                            sifted = is_refusal(&error) && self.sift(&mut refused, &next).await;
                            // Nothing was written, and a search has looks enough of its own.
                            pause = if sifted { PAUSES[0] } else { pause };
                        }
                        Err(_) => say(&mut said, format!("{} not written: no answer", K::kind(&()))),
                    }
                    // It comes back by the watch. A new change of the sets waits no longer than this.
                    sleep(pause).await;
                    (writes, written) = (writes.saturating_add(1), Instant::now());
                    let behind = self.behind(&next);
                    last = Some(next);
                    if sifted || !behind {
                        continue;
                    }
                }
            }
            // The pause begins at its end, for a look may take longer.
            if self.news(Instant::now()).await.is_err() {
                return;
            }
        }
    }

    /// Finds the entries for which this was refused. Says whether the next look is due at once.
    async fn sift(&self, refused: &mut Refused<K::Entry>, next: &K) -> bool {
        if !refused.is_worth_a_search(next.entries(), Instant::now()) {
            return false;
        }
        let found = match tried(&self.api, self.name, next, next.entries(), &mut refused.search).await {
            Trials::Done(found) => found,
            trials => return matches!(trials, Trials::GoOn),
        };
        let count = found.len();
        let sifted = refused.found(found, next.entries(), Instant::now());
        if sifted {
            self.say_refused(refused.entries());
        } else {
            self.metrics.entries_refused(K::NAME, count);
        }
        sifted
    }

    /// Tries those again that were refused. Says whether one of them is taken now.
    async fn sift_again(&self, refused: &mut Refused<K::Entry>) -> bool {
        let Some(now) = self.shown.borrow().get(self.name).cloned() else { return false };
        let known = refused.entries().to_vec();
        let trials = tried(&self.api, self.name, &now, &known, &mut refused.again).await;
        let Trials::Done(found) = trials else { return false };
        let sifted = found.len() < refused.entries().len();
        refused.still(found, Instant::now());
        if sifted {
            self.say_refused(refused.entries());
        }
        sifted
    }

    fn say_refused(&self, entries: &[K::Entry]) {
        self.metrics.entries_refused(K::NAME, entries.len());
        let names: Vec<&str> = entries.iter().map(Named::name).take(MOST_SAID).collect();
        let (kind, count) = (K::kind(&()), entries.len());
        match count {
            0 => info!(%kind, "No webhook entry is refused any more"),
            _ => warn!(
                %kind, count, ?names,
                "Webhook entries are refused and left out: apply the policies of this version"
            ),
        }
    }

    /// Waits until there is something to look at again after the look that ended at this time, or a write
    /// that failed is to be made again. An error: the program ends.
    async fn news(&mut self, looked: Instant) -> Result<(), RecvError> {
        let Self { shown, coming, served, sets, budgets, spreads, states, .. } = self;
        let some_of_many = async {
            // Cancel-safe: a change that is not taken is seen the next time.
            tokio::select! {
                changed = sets.changed() => changed?,
                changed = budgets.0.changed() => changed?,
                changed = spreads.0.changed() => changed?,
                changed = states.0.changed() => changed?,
            }
            sleep_until(later_timer(looked, LOOKED_EVERY)).await;
            Ok(())
        };
        // Cancel-safe as before: whatever wins is followed by a look.
        tokio::select! {
            changed = shown.changed() => changed,
            changed = coming.sets.changed() => changed,
            changed = coming.spreads.changed() => changed,
            changed = served.changed() => changed,
            () = sleep(QUIET / 6) => Ok(()),
            changed = some_of_many => changed,
        }
    }

    fn tell(&self, bundle: Vec<u8>) {
        self.bundled.send_if_modified(|known| {
            let news = *known != bundle;
            *known = bundle;
            news
        });
    }

    fn tell_of(&self, standing: &K) {
        let bundle = self.served.borrow().bundle.clone();
        self.tell(if standing.is_asked_by(&bundle) { bundle } else { Vec::new() });
    }

    /// Tells whether the version that was written over is still the one shown.
    fn behind(&self, written: &K) -> bool {
        let shown = self.shown.borrow();
        shown.get(self.name).is_some_and(|now| now.resource_version() == written.resource_version())
    }

    /// Decides what the configuration is to be. `told` are the sets without entries of which the log has the
    /// reason.
    fn look(
        &mut self,
        told: &mut Arc<Vec<(String, String)>>,
        [of_spreads, of_sets]: &mut [Strangers; 2],
        refused: &mut Refused<K::Entry>,
    ) -> Look<K> {
        let (shown, sets) = (self.shown.borrow_and_update(), self.sets.borrow_and_update());
        let served = self.served.borrow_and_update();
        let kept = self.budgets.0.borrow_and_update();
        let (spread, state) = (self.spreads.0.borrow_and_update(), self.states.0.borrow_and_update());
        let choices = Choices {
            others: self.options,
            budgets: self.budgets.1,
            spreads: self.spreads.1,
            states: self.states.1,
        };
        let (Some(_), Some(sets), Some(kept), Some(spread), Some(state)) =
            (shown.listed(), sets.listed(), kept.listed(), spread.listed(), state.listed())
        else {
            return Look::Waits;
        };
        let (coming, instant) = (self.coming.sets.borrow_and_update(), Instant::now());
        let next = self.coming.spreads.borrow_and_update();
        let next = on_their_way(&next, instant).filter(|(name, _)| !spread.contains_key(*name));
        let spreads = spread.values().chain(next.map(|(_, kept)| kept)).collect();
        // One that is stored is as it is stored; if it is about to be stored with another reach, it has both.
        let stored = |name: &str| sets.get(name).map(|set| &set.rules);
        let changing = changing::changing(on_their_way(&coming, instant), stored);
        let mut rules: BTreeMap<_, _> = on_their_way(&coming, instant).collect();
        rules.extend(sets.iter().map(|(name, set)| (name, &set.rules)));
        let of_budgets = kept;
        let (budgets, states) = (kept.values().collect(), state.values().collect());
        let kept = Kept { sets: rules, changing, budgets, spreads, states };
        let Some(now) = shown.get(self.name) else {
            say_which(self.webhooks.as_ref(), || entries(kept.of_sets(), &Desired::default(), &[]));
            return Look::Absent;
        };
        // Nothing is asked of a server that cannot answer.
        if !served.is_loaded() {
            return Look::Waits;
        }
        let (bundle, service) = (&served.bundle, &self.service);
        let mut desired = wanted(&kept, bundle, service, choices);
        let writer = now.annotations().get(WRITTEN_BY).and_then(|text| Writer::read(text));
        let before = self.precedence.gives_way(writer.as_ref(), &desired, instant);
        // Without those of others: what goes of them is theirs.
        let given = before.map(|before| (now.bring(before, &desired), desired.clone()));
        let entered = &mut desired.mutating;
        if !spreads::is_shared(entered) {
            let names: Vec<String> = kept.spreads.iter().map(|kept| spreads::key(kept)).collect();
            let client = |_: &str| spreads::asks(bundle, service);
            of_spreads.spare(entered, now.mutating(), names.iter(), client, instant);
        }
        if !desired.shared {
            let names = kept.of_sets().map(|(name, _)| name);
            let client = |set: &str| client(&Route::Pods(Some(set.to_owned())), bundle, service);
            of_sets.spare(entered, now.mutating(), names, client, instant);
        }
        say_which(self.webhooks.as_ref(), || entries(kept.of_sets(), &desired, now.mutating()));
        if desired.left_out != **told {
            for (set, reason) in &desired.left_out {
                warn!(set, reason, "SidecarSet is injected into no pod");
            }
            *told = Arc::new(desired.left_out.clone());
        }
        refused.keep(K::wanted(&mut desired), now.entries());
        let refused = &*refused;
        if now.stands(&desired) {
            say_entered::<K>(&self.entered, of_budgets);
            return Look::Stands(served.bundle.clone());
        }
        let stands_without = || {
            if !refused.has_named(OF_BUDGETS) {
                say_entered::<K>(&self.entered, of_budgets);
            }
            Look::Stands(now.bundle_of_all(bundle))
        };
        if let Some((brought, mut own)) = given {
            let next = brought.and_then(|next| {
                // What is refused is still to be brought in.
                refused.lessen(K::wanted(&mut own), now.entries());
                without(next, now, refused)
            });
            self.precedence.brings(own, next.is_some());
            return next.map_or_else(stands_without, |next| Look::Owes(Box::new(next)));
        }
        if desired.shared {
            warn!(
                most = MOST_SETS,
                "More SidecarSets than entries: one is for all, and pods do not wait for it"
            );
        }
        let Some(mut next) = without(now.with(&desired), now, refused) else { return stands_without() };
        let writer = self.precedence.mine.named(writer).to_string();
        next.annotations_mut().insert(WRITTEN_BY.to_owned(), writer);
        Look::Owes(Box::new(next))
    }
}

/// State of the configuration.
enum Look<K> {
    /// Not everything that it follows from is known yet.
    Waits,
    /// It is not installed.
    Absent,
    /// It is right, or another replica's, with this bundle; none is that of the other one.
    Stands(Vec<u8>),
    /// It is to be this.
    Owes(Box<K>),
}

/// Tells the index of SidecarSets which entries stand.
fn say_which(webhooks: Option<&watch::Sender<Webhooks>>, entries: impl FnOnce() -> Entries) {
    let Some(webhooks) = webhooks else { return };
    let entries = entries();
    webhooks.send_if_modified(|known| {
        let news = !matches!(known, Webhooks::Known(known) if **known == entries);
        if news {
            *known = Webhooks::Known(Arc::new(entries));
        }
        news
    });
}

/// Tells the index of budgets which of them have their entries in this configuration.
fn say_entered<K: Configuration>(entered: &watch::Sender<Entered>, kept: &BTreeMap<String, BudgetKept>) {
    entered.send_if_modified(|known| known.stand(K::PLACE, kept.keys()));
}

/// Logs this, once in a row.
fn say(said: &mut Option<String>, text: String) {
    if said.as_ref() != Some(&text) {
        warn!("{text}");
        *said = Some(text);
    }
}

#[cfg(test)]
mod tests;
