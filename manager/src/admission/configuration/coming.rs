//! Sets that are about to be stored: their entries stand before they do, so that a pod made right after its
//! set gets the sidecars. Pure, but for the channel.
//!
//! The replica that checks a new set tells its keeper, which writes the entry, and answers when the entry
//! stands. The other replicas see an entry of a set that they do not know: they leave it for a while, for the
//! set follows. A set that gets another reach is announced as well.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use k8s_openapi::api::admissionregistration::v1::{MutatingWebhook, WebhookClientConfig};
use tokio::{sync::watch, time::Instant};

use super::{DOMAIN, of_set};
use crate::admission::sets::SetRules;

/// A set that has not come by then was refused by somebody else.
const FOLLOWS_WITHIN: Duration = Duration::from_secs(10);
/// The most sets that are on their way at once; more wait for their entries as any set does.
const MOST: usize = 64;

/// Sets on their way, and when they were announced.
pub(in crate::admission) type Coming = BTreeMap<String, (SetRules, Instant)>;

/// Announces a set to the keeper.
pub(in crate::admission) fn announce(coming: &watch::Sender<Coming>, name: &str, rules: SetRules) {
    let now = Instant::now();
    coming.send_modify(|coming| {
        coming.retain(|_, (_, since)| is_fresh(*since, now));
        if coming.len() < MOST || coming.contains_key(name) {
            coming.insert(name.to_owned(), (rules, now));
        }
    });
}

/// Sets that still are on their way.
pub(super) fn on_their_way(coming: &Coming, now: Instant) -> impl Iterator<Item = (&String, &SetRules)> {
    coming.iter().filter(move |(_, (_, since))| is_fresh(*since, now)).map(|(name, (rules, _))| (name, rules))
}

fn is_fresh(since: Instant, now: Instant) -> bool {
    now.saturating_duration_since(since) < FOLLOWS_WITHIN
}

/// Entries of sets that are not known here, and since when they are seen.
#[derive(Debug, Default)]
pub(super) struct Strangers {
    /// Names of the sets that were known last: what is left of one of them goes at once.
    known: BTreeSet<String>,
    since: BTreeMap<String, Instant>,
}

impl Strangers {
    /// Adds to the entries that are wanted those that stand and may be of a set that follows, each where it
    /// stands.
    pub(super) fn spare<'a>(
        &mut self,
        wanted: &mut Vec<MutatingWebhook>,
        standing: &[MutatingWebhook],
        sets: impl Iterator<Item = &'a String>,
        client: impl Fn(&str) -> WebhookClientConfig,
        now: Instant,
    ) {
        let names: BTreeSet<String> = sets.cloned().collect();
        let is_of = |entry: &MutatingWebhook, set: &str| entry.name == format!("{}.{DOMAIN}", of_set(set));
        let (mut seen, mut going) = (BTreeMap::new(), BTreeSet::new());
        for (at, entry) in standing.iter().enumerate() {
            let set = entry
                .name
                .strip_suffix(&format!(".{DOMAIN}"))
                .and_then(|name| name.strip_suffix(".sidecarset"));
            // Of a set that went, until it is gone.
            going.extend(set.filter(|set| self.known.contains(*set)).map(str::to_owned));
            let Some(set) =
                set.filter(|set| is_of(entry, set) && !names.contains(*set) && !self.known.contains(*set))
            else {
                continue;
            };
            let since = self.since.get(set).copied().unwrap_or(now);
            seen.insert(set.to_owned(), since);
            // One that another replica wrote asks the same Service, by the same CA.
            let is_ours = entry.client_config == client(set);
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
        let (mut strangers, now) = (Strangers::default(), Instant::now());
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
            announce(&coming, &format!("s{at}"), SetRules::default());
        }
        let now = Instant::now();
        assert_eq!(on_their_way(&shown.borrow(), now).count(), MOST);
        assert_eq!(on_their_way(&shown.borrow(), now + FOLLOWS_WITHIN).count(), 0);
    }
}
