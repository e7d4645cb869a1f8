//! This node's `NodePodProbe`: made if it is missing, followed, and answered.
//!
//! `status.podProbeStatuses` and the conditions have owners of their own among the agent's fields, because
//! they change at different times, and what an owner leaves out of a server-side apply is removed. `upkeep`
//! sees to the conditions.

mod upkeep;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use berth_policy::{Backlog, PodReport, ProbeEvent, ProbeOutcome};
use berth_proto::crd::{NodePodProbe, Partly};
use futures::FutureExt;
use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};
use kube::{Client, runtime::watcher};
use serde_json::{Value, json};
use tokio::sync::watch;
use tracing::{info, warn};

use super::{
    aside::Aside,
    conditions::{ON_TIME, PERMITTED, SPEC_ACCEPTED, VERIFIED, behind, not_accepted, not_run, own},
    convert::{self, WantedPods},
    markers,
    mirror::{self, Mirror},
    shared::SharedProbes,
};
use crate::{
    base::{
        causes::chain,
        clock::Clock,
        deadline,
        status::{bounded, whole_second},
    },
    cluster::{
        Cluster, FIELD_MANAGER,
        client::{CallError, Connection},
        features::{self, Permission},
        follow::{Shown, Watch, follow},
        identity::IdentityState,
        node_object,
        raw::{self, Raw},
        target::version,
    },
};

/// The object of the node of this name.
#[derive(Debug)]
pub(super) struct Object {
    connection: Connection,
    node: String,
    probes: Arc<SharedProbes>,
    identity: watch::Receiver<IdentityState>,
    /// The object as it was shown last.
    shown: Mutex<Seen>,
    /// Why entries are not run; empty: all are. `None`: that is not known yet.
    refused: Mutex<Option<String>>,
    /// How far the node is behind with its probes.
    backlog: Mutex<Option<Backlog>>,
    /// The conditions that are to be there.
    conditions: watch::Sender<Vec<Condition>>,
    /// The object was shown.
    looks: watch::Sender<()>,
    /// The copy of what is desired that is to be there.
    stale: watch::Sender<mirror::Due>,
}

/// Facts of the object as it was shown last.
#[derive(Debug, Default)]
struct Seen {
    /// Its UID, if there is one.
    uid: Option<String>,
    /// Entries of `spec.podProbes`, those that cannot be read as well.
    entries: usize,
    /// They are known to be somebody else's.
    foreign: bool,
    /// Probes that are desired.
    desired: WantedPods,
    /// Entries of the spec; kept where these are accepted.
    spec: Option<WantedPods>,
    /// Entries that cannot be read.
    aside: Aside,
    /// Its version, and the conditions that stand in it.
    version: u64,
    conditions: Vec<Condition>,
}

impl Object {
    /// Nothing is asked before it is followed.
    pub(super) fn new(cluster: &Cluster, probes: Arc<SharedProbes>) -> Self {
        Self {
            connection: cluster.connection().clone(),
            node: cluster.node().to_owned(),
            probes,
            identity: cluster.identity(),
            shown: Mutex::default(),
            refused: Mutex::new(None),
            backlog: Mutex::new(None),
            conditions: watch::Sender::default(),
            looks: watch::Sender::default(),
            stale: watch::Sender::default(),
        }
    }

    /// Hands on what is asked for, as long as it can be done at all; for ever.
    pub(super) async fn follow(&self) {
        tokio::join!(
            self.follow_object(),
            self.watch_permission(),
            self.approve(),
            markers::follow(&self.connection, &self.probes),
            self.keep_conditions(),
            mirror::keep(&self.connection, &self.node, &self.stale, |uid| self.is_foreign(uid))
        );
    }

    async fn follow_object(&self) {
        let watch = Watch {
            what: "NodePodProbe",
            single: true,
            insists: false,
            selected: watcher::Config::default().fields(&format!("metadata.name={}", self.node)),
        };
        let ensure = |client: Client| {
            let node = self.node.clone();
            let make = |metadata| NodePodProbe { metadata, ..NodePodProbe::new("", Default::default()) };
            async move { node_object::ensure(&client, &node, make).await }.boxed()
        };
        let each = |shown| match shown {
            Shown::Listed(objects) => self.take(objects.into_iter().next()),
            Shown::Applied(object) => self.take(Some(object)),
            // While nobody tells what is asked for, what was asked before goes on.
            Shown::Refused(_) | Shown::Lost(_) => {}
            Shown::Deleted(_) | Shown::NotInstalled(_) => self.take(None),
        };
        follow(&self.connection, &watch, raw::all::<NodePodProbe>, Raw::typed, ensure, each).await;
    }

    /// Takes in the object as it is now; `None`: there is none.
    fn take(&self, shown: Option<Partly<NodePodProbe>>) {
        let aside = shown.as_ref().map(Aside::of).unwrap_or_default();
        let shown = shown.map(|shown| shown.object);
        if let Some(object) = &shown
            && object.metadata.uid != self.uid()
        {
            self.probes.apply(ProbeEvent::Reported(convert::reported(object, &Clock::read())));
        }
        let (desired, spec) = shown.as_ref().map_or((&[][..], &[][..]), |object| {
            let desired = object.status.as_ref().map_or(&[][..], |status| &status.desired_pod_probes);
            (desired, &object.spec.pod_probes)
        });
        let accepted = self.probes.accepts_spec();
        let uid = shown.as_ref().and_then(|object| object.metadata.uid.clone());
        let known = lock(&self.shown);
        // A list that has become empty may be nobody's any more.
        let entries = spec.len().saturating_add(aside.of_spec());
        let emptied = known.entries > 0 && entries == 0;
        let foreign = known.foreign && known.uid == uid && !emptied;
        let is_told = known.aside.tells_the_same(&aside);
        let mirror = shown.as_ref().map(|object| aside.mirror(object, accepted, foreign));
        let foreign = mirror == Some(Mirror::Foreign);
        let before = Some(&*known).filter(|known| known.uid == uid);
        let desired = aside.desired(convert::wanted(desired), before.map(|known| &known.desired));
        let spec = if accepted { convert::wanted(spec) } else { WantedPods::default() };
        let spec = aside.spec(spec, before.and_then(|known| known.spec.as_ref()));
        drop(known);
        let version = shown.as_ref().map_or(0, |object| version(&object.metadata));
        let conditions = shown.as_ref().map_or_else(Vec::new, own);
        let seen = Seen {
            uid: uid.clone(),
            entries,
            foreign,
            desired: desired.clone(),
            spec: accepted.then(|| spec.clone()),
            aside,
            version,
            conditions,
        };
        // A copy of what is desired asks for nothing.
        self.probes.show(desired, if foreign { spec } else { WantedPods::default() });
        if let Some(object) = &shown
            && uid != self.uid()
        {
            self.adopt(object);
        }
        *lock(&self.shown) = seen;
        if !is_told {
            self.probes.doubted();
        }
        let due = match mirror {
            Some(Mirror::Stale(list)) => uid.map(|uid| (uid, list)),
            Some(Mirror::Right | Mirror::Foreign) | None => None,
        };
        self.stale.send_if_modified(|stale| {
            let is_news = *stale != due;
            *stale = due;
            is_news
        });
        self.say();
        self.looks.send_replace(());
    }

    /// Takes in that the list in the spec of the object with this UID is somebody else's.
    fn is_foreign(&self, uid: &str) {
        let mut seen = lock(&self.shown);
        if seen.uid.as_deref() == Some(uid) {
            seen.foreign = true;
            if let Some(spec) = seen.spec.clone() {
                self.probes.show(seen.desired.clone(), spec);
            }
        }
        drop(seen);
        self.say();
    }

    /// Hands on what is approved, whenever that may have changed; for ever.
    async fn approve(&self) {
        let mut doubts = self.probes.doubts();
        loop {
            doubts.mark_unchanged();
            let again = self.hand_on();
            // Cancel-safe: a number and a timer.
            tokio::select! {
                changed = doubts.changed() => if changed.is_err() { return },
                () = deadline::reached(again) => {}
            }
        }
    }

    /// Adopts the conditions of an earlier process. They stand in the object until this one says otherwise; a
    /// new object has to be told.
    fn adopt(&self, object: &NodePodProbe) {
        let old = own(object);
        self.conditions.send_if_modified(|conditions| {
            conditions.retain(|own| own.status == "False" && !old.iter().any(|old| old.type_ == own.type_));
            let untold = !conditions.is_empty();
            conditions.extend(old);
            untold
        });
        self.say();
    }

    /// Says what is not as it should be, and of what was not that it is.
    fn say(&self) {
        let denied = match self.permission() {
            Permission::Denied(why) => Some(why),
            Permission::Unknown | Permission::Given => None,
        };
        self.set(PERMITTED, denied.map(|why| ("NotPermitted", why)));
        let backlog = *lock(&self.backlog);
        self.set(ON_TIME, backlog.map(|backlog| ("OverBudget", behind(backlog))));
        let seen = lock(&self.shown);
        let ignored = if seen.foreign && !self.probes.accepts_spec() { seen.entries } else { 0 };
        drop(seen);
        self.set(SPEC_ACCEPTED, (ignored > 0).then(|| ("NotAccepted", not_accepted(ignored))));
        if let Some(refused) = lock(&self.refused).clone() {
            self.set(VERIFIED, (!refused.is_empty()).then_some(("NotAsked", refused)));
        }
    }

    /// Approves what the agent may do. When to decide again.
    fn hand_on(&self) -> Option<Instant> {
        let denied = matches!(self.permission(), Permission::Denied(_));
        let decision = if denied { self.probes.decline() } else { self.probes.decide() };
        let known = decision.wanted.is_some();
        if let Some(wanted) = decision.wanted {
            self.probes.want(wanted);
        }
        // Before all of it is decided, what was said before stands.
        if !known || decision.refused.is_empty() && decision.again.is_some() {
            return decision.again;
        }
        let refused = lock(&self.shown).aside.told(not_run(&decision.refused, decision.beyond));
        let before = lock(&self.refused).replace(refused.clone()).unwrap_or_default();
        if before != refused {
            if refused.is_empty() {
                info!(node = self.node, "All entries of NodePodProbe are run");
            } else {
                warn!(node = self.node, why = refused, "Entries of NodePodProbe not run");
            }
        }
        self.say();
        decision.again
    }

    fn permission(&self) -> Permission {
        features::permission(&self.identity.borrow(), features::PROBES)
    }

    /// Says whether the agent may write to pods.
    async fn watch_permission(&self) {
        let mut identity = self.identity.clone();
        loop {
            identity.mark_unchanged();
            self.probes.doubted();
            self.say();
            if identity.changed().await.is_err() {
                return;
            }
        }
    }

    /// Says whether the node is behind with its probes.
    pub(super) fn report_backlog(&self, backlog: Option<Backlog>) {
        match backlog {
            Some(backlog) => {
                warn!(behind = backlog.behind, late = ?backlog.late, "Probes run later than they should");
            }
            None => info!("No probe runs later than it should"),
        }
        *lock(&self.backlog) = backlog;
        self.say();
    }

    /// A condition is there while something is not as it should be, and afterwards to say that it is.
    fn set(&self, condition_type: &str, wrong: Option<(&str, String)>) {
        self.conditions.send_if_modified(|conditions| {
            let before = conditions.iter().find(|old| old.type_ == condition_type);
            let (status, reason, message) = match wrong {
                // An author's words may be in it.
                Some((reason, message)) => ("False", reason, bounded(&message)),
                None if before.is_none() => return false,
                None => ("True", "AsExpected", String::new()),
            };
            if before.is_some_and(|old| old.status == status && old.message == message) {
                return false;
            }
            let since = before.filter(|old| old.status == status).map(|old| old.last_transition_time.clone());
            let condition = Condition {
                type_: condition_type.to_owned(),
                status: status.to_owned(),
                reason: reason.to_owned(),
                message,
                last_transition_time: since.unwrap_or_else(|| Time(whole_second(Timestamp::now()))),
                observed_generation: None,
            };
            conditions.retain(|old| old.type_ != condition_type);
            conditions.push(condition);
            true
        });
    }

    /// Lets this be the whole report.
    pub(super) async fn report(&self, reports: &[PodReport]) -> ProbeOutcome {
        let statuses = convert::statuses(reports, &Clock::read());
        let statuses = lock(&self.shown).aside.found(statuses);
        match self.apply(FIELD_MANAGER, json!({ "podProbeStatuses": statuses })).await {
            None => ProbeOutcome::Gone,
            Some(Ok(_)) => ProbeOutcome::Done,
            Some(Err(error)) => {
                warn!(node = self.node, error = %chain(&error), "NodePodProbe not answered, trying again");
                outcome(&error)
            }
        }
    }

    /// `None`: there is no object.
    async fn apply(&self, manager: &str, status: Value) -> Option<Result<NodePodProbe, CallError>> {
        let uid = self.uid()?;
        let written =
            node_object::apply_status::<NodePodProbe>(&self.connection, &self.node, &uid, manager, status);
        Some(written.await.map(|written| written.object))
    }

    fn uid(&self) -> Option<String> {
        lock(&self.shown).uid.clone()
    }
}

/// Never held over an await.
fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads an error of the API server as the outcome of a step.
pub(super) fn outcome(error: &CallError) -> ProbeOutcome {
    // Another object of that name is a conflict too; the next look tells.
    if error.is_gone() {
        ProbeOutcome::Gone
    } else if error.refusal_or_forbidden().is_some() {
        ProbeOutcome::Refused
    } else {
        ProbeOutcome::Failed
    }
}
