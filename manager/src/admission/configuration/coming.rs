//! SidecarSets and WorkloadSpreads that are about to be stored: their entries stand before they do, so that
//! a pod made right after its set gets the sidecars, and one made right after its spread a subset. Pure, but
//! for the channel.
//!
//! The replica that checks a new one tells its reconciler, which writes the entry, and answers when the entry
//! stands. The other replicas see an entry of an object that they do not know: they leave it for a while, for
//! the object follows. A set that gets another reach is announced as well.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use k8s_openapi::api::admissionregistration::v1::{MutatingWebhook, WebhookClientConfig};
use tokio::{sync::watch, time::Instant};

use super::DOMAIN;
use crate::admission::{sets::SetRules, spreads::SpreadKept};

/// An object that has not come by then was refused by somebody else.
const FOLLOWS_WITHIN: Duration = Duration::from_secs(10);
/// The most objects of a kind that are on their way at once; more wait for their entries as any does.
const MOST: usize = 64;

/// Objects of a kind on their way, by name as a view has it, and when they were announced.
pub(in crate::admission) type Coming<T> = BTreeMap<String, (T, Instant)>;

/// Where the server announces them.
pub(in crate::admission) struct Announcer {
    pub(in crate::admission) sets: watch::Sender<Coming<SetRules>>,
    pub(in crate::admission) spreads: watch::Sender<Coming<SpreadKept>>,
}

/// Where the reconcilers learn of them.
#[derive(Clone)]
pub(in crate::admission) struct Announced {
    pub(super) sets: watch::Receiver<Coming<SetRules>>,
    pub(super) spreads: watch::Receiver<Coming<SpreadKept>>,
}

/// Both ends, with nothing on its way.
pub(in crate::admission) fn announcements() -> (Announcer, Announced) {
    let ((sets, of_sets), (spreads, of_spreads)) =
        (watch::channel(Coming::new()), watch::channel(Coming::new()));
    (Announcer { sets, spreads }, Announced { sets: of_sets, spreads: of_spreads })
}

/// Announces an object to the reconciler.
pub(in crate::admission) fn announce<T>(coming: &watch::Sender<Coming<T>>, name: &str, object: T) {
    let now = Instant::now();
    coming.send_modify(|coming| {
        coming.retain(|_, (_, since)| is_fresh(*since, now));
        if coming.len() < MOST || coming.contains_key(name) {
            coming.insert(name.to_owned(), (object, now));
        }
    });
}

/// Objects that still are on their way.
pub(super) fn on_their_way<T>(coming: &Coming<T>, now: Instant) -> impl Iterator<Item = (&String, &T)> {
    let fresh = coming.iter().filter(move |(_, (_, since))| is_fresh(*since, now));
    fresh.map(|(name, (object, _))| (name, object))
}

fn is_fresh(since: Instant, now: Instant) -> bool {
    now.saturating_duration_since(since) < FOLLOWS_WITHIN
}

/// Entries of objects of a kind that are not known here, and since when they are seen.
#[derive(Debug)]
pub(super) struct Strangers {
    /// The kind, which is the end of the entries' names but for the domain.
    kind: &'static str,
    /// Names of the objects that were known last: what is left of one of them goes at once.
    known: BTreeSet<String>,
    since: BTreeMap<String, Instant>,
}

impl Strangers {
    pub(super) fn of(kind: &'static str) -> Self {
        Self { kind, known: BTreeSet::new(), since: BTreeMap::new() }
    }

    /// Adds to the entries that are wanted those that stand and may be of an object that follows, each where
    /// it stands. Names are those of the entries without kind and domain.
    pub(super) fn spare<'a>(
        &mut self,
        wanted: &mut Vec<MutatingWebhook>,
        standing: &[MutatingWebhook],
        objects: impl Iterator<Item = &'a String>,
        client: impl Fn(&str) -> WebhookClientConfig,
        now: Instant,
    ) {
        let names: BTreeSet<String> = objects.cloned().collect();
        let end = format!(".{}.{DOMAIN}", self.kind);
        let (mut seen, mut going) = (BTreeMap::new(), BTreeSet::new());
        for (at, entry) in standing.iter().enumerate() {
            let name = entry.name.strip_suffix(&end);
            // Of an object that went, until it is gone.
            going.extend(name.filter(|name| self.known.contains(*name)).map(str::to_owned));
            let Some(name) = name.filter(|name| !names.contains(*name) && !self.known.contains(*name)) else {
                continue;
            };
            let since = self.since.get(name).copied().unwrap_or(now);
            seen.insert(name.to_owned(), since);
            // One that another replica wrote asks the same Service, by the same CA.
            let is_ours = entry.client_config == client(name);
            if is_ours && is_fresh(since, now) && !wanted.iter().any(|known| known.name == entry.name) {
                wanted.insert(at.min(wanted.len()), entry.clone());
            }
        }
        going.extend(names);
        (self.since, self.known) = (seen, going);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str) -> MutatingWebhook {
        MutatingWebhook { name: name.to_owned(), ..MutatingWebhook::default() }
    }

    fn spared(strangers: &mut Strangers, sets: &[&str], standing: &[&str], now: Instant) -> Vec<String> {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        let mut wanted: Vec<_> =
            sets.iter().map(|set| entry(&format!("{set}.sidecarset.berth.dev"))).collect();
        wanted.push(entry("defaults.sidecarsets.berth.dev"));
        let standing: Vec<_> = standing.iter().map(|name| entry(name)).collect();
        let client = |set: &str| WebhookClientConfig {
            url: (set == "of-others").then(String::new),
            ..Default::default()
        };
        strangers.spare(&mut wanted, &standing, sets.iter(), client, now);
        wanted.into_iter().map(|entry| entry.name.split('.').next().unwrap_or_default().to_owned()).collect()
    }

    #[test]
    fn an_entry_may_come_before_its_set() {
        let (mut strangers, now) = (Strangers::of("sidecarset"), Instant::now());
        let standing = [
            "a.sidecarset.berth.dev",
            "b.sidecarset.berth.dev",
            "c.sidecarset.berth.dev",
            "of-others.sidecarset.berth.dev",
            "defaults.sidecarsets.berth.dev",
            "x.elsewhere.berth.dev",
        ];
        let first = spared(&mut strangers, &["a", "c"], &standing, now);
        assert_eq!(first, ["a", "b", "c", "defaults"], "in its place, and nothing else");
        let later = now + FOLLOWS_WITHIN;
        assert_eq!(spared(&mut strangers, &["a", "c"], &standing, later), ["a", "c", "defaults"]);
        // The set came, and went: nobody waits for it.
        assert_eq!(spared(&mut strangers, &["a", "b", "c"], &standing, later), ["a", "b", "c", "defaults"]);
        for _ in 0..2 {
            let gone = spared(&mut strangers, &["a", "c"], &standing, later);
            assert_eq!(gone, ["a", "c", "defaults"], "as long as it stands");
        }
    }

    #[test]
    fn those_on_their_way_are_few_and_for_a_while() {
        let (coming, shown) = watch::channel(Coming::new());
        for at in 0..=MOST {
            announce(&coming, &format!("s{at}"), at);
        }
        let now = Instant::now();
        assert_eq!(on_their_way(&shown.borrow(), now).count(), MOST);
        assert_eq!(on_their_way(&shown.borrow(), now + FOLLOWS_WITHIN).count(), 0);
    }
}
