//! Precedence of replicas that want different entries, as while the manager is updated: the one that started
//! last has its way.
//!
//! A written configuration says in an annotation who wrote it: when that replica started, and a digest of
//! what it was told and of the entries that it makes of some made-up objects: two builds of one version may
//! make others. Replicas of one digest want the same of the same objects, and any of them writes. One
//! that started earlier than a writer of another digest gives way: it brings in what changes of its objects,
//! in case that writer is no more, and leaves the rest as it is. It does so for [`PATIENCE`], then writes its
//! own entries. If it finds those of the same writer again, that one lives, and it waits longer each time.
//!
//! Clocks of nodes differ, so the wrong one may have its way for a while: the program is ready either way.

use std::{
    collections::BTreeMap,
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhook, ValidatingWebhook};
use tokio::time::Instant;

use super::Desired;
use crate::time::later_timer;

/// Annotation of a webhook configuration: replica of the manager that wrote it, by its start and a digest.
pub(super) const WRITTEN_BY: &str = "berth.dev/written-by";
/// Entries of a later replica are left as they are for so long; about as long as an update of the manager
/// takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// Most times that the patience is doubled.
const MOST_DOUBLED: u32 = 5;

/// A replica, as a configuration has it. The later one is the greater one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::admission) struct Writer {
    started: Timestamp,
    digest: u64,
}

impl Writer {
    /// A replica that started then, was told this, and wants these entries of the sample.
    pub(in crate::admission) fn new(started: Timestamp, told: &impl fmt::Debug, sample: &Desired) -> Self {
        let mut hasher = DefaultHasher::new();
        (env!("CARGO_PKG_VERSION"), format!("{told:?} {sample:?}")).hash(&mut hasher);
        // As precise as it is written.
        let started = Timestamp::from_millisecond(started.as_millisecond()).unwrap_or(started);
        Self { started, digest: hasher.finish() }
    }

    /// Reads the annotation. One that is none of ours is as none.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (started, digest) = text.split_once(' ')?;
        Some(Self { started: started.parse().ok()?, digest: u64::from_str_radix(digest, 16).ok()? })
    }

    /// The one that a write of ours names: the later of those that want the same.
    pub(super) fn named(&self, standing: Option<Self>) -> Self {
        standing.filter(|other| other.digest == self.digest && other > self).unwrap_or_else(|| self.clone())
    }
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} {:016x}", self.started, self.digest)
    }
}

/// Deference of this replica to later ones.
#[derive(Debug)]
pub(in crate::admission) struct Precedence {
    /// This replica.
    pub(super) mine: Writer,
    given: Option<Given>,
}

/// A replica that was given way to.
#[derive(Debug)]
struct Given {
    to: Writer,
    /// Its entries stand, as far as is known.
    stands: bool,
    until: Instant,
    times: u32,
    /// Entries that this replica wanted when it gave way, with those that it has brought in since.
    before: Desired,
    /// The same after the write that is under way.
    next: Option<Desired>,
}

impl Precedence {
    /// Precedence of this replica.
    pub(in crate::admission) fn of(mine: Writer) -> Self {
        Self { mine, given: None }
    }

    /// Says whether this replica leaves the entries that this writer wrote. If so, returns what it wanted
    /// before.
    pub(super) fn gives_way(
        &mut self,
        writer: Option<&Writer>,
        desired: &Desired,
        now: Instant,
    ) -> Option<&Desired> {
        let Some(writer) = writer.filter(|writer| writer.digest != self.mine.digest && **writer > self.mine)
        else {
            if let Some(given) = &mut self.given {
                given.stands = false;
            }
            return None;
        };
        let known = self.given.take().filter(|given| given.to == *writer);
        let given = self.given.insert(match known {
            Some(given) if given.stands => given,
            known => {
                let times = known.map_or(0, |given| given.times.saturating_add(1));
                let patience = PATIENCE.saturating_mul(2_u32.saturating_pow(times.min(MOST_DOUBLED)));
                let (until, before) = (later_timer(now, patience), desired.clone());
                Given { to: writer.clone(), stands: true, until, times, before, next: None }
            }
        });
        let waits = now < given.until;
        given.next.take_if(|_| !waits);
        waits.then_some(&given.before)
    }

    /// Notes what is wanted now by the replica that gives way: a write brings it in, or nothing of it is to
    /// be brought.
    pub(super) fn brings(&mut self, desired: Desired, by_a_write: bool) {
        let Some(given) = &mut self.given else { return };
        if by_a_write {
            given.next = Some(desired);
        } else {
            (given.before, given.next) = (desired, None);
        }
    }

    /// Notes that the write is done that was decided on last.
    pub(super) fn wrote(&mut self) {
        let Some(given) = &mut self.given else { return };
        match given.next.take() {
            Some(next) => given.before = next,
            None => given.stands = false,
        }
    }
}

/// An entry of either kind.
pub(in crate::admission) trait Named: Clone + PartialEq {
    /// Its name.
    fn name(&self) -> &str;
    /// The CAs that it is asked by.
    fn bundle(&self) -> Option<&[u8]>;
    /// Returns the rules by which it is asked, as a text.
    fn rules(&self) -> String;
    /// Says whether it lets nothing pass while nobody answers.
    fn guards(&self) -> bool;
    /// The same with the CAs of another one.
    fn asked_as(self, other: &Self) -> Self;
}

macro_rules! named {
    ($kind:ty) => {
        impl Named for $kind {
            fn name(&self) -> &str {
                &self.name
            }

            fn bundle(&self) -> Option<&[u8]> {
                self.client_config.ca_bundle.as_ref().map(|bundle| bundle.0.as_slice())
            }

            fn rules(&self) -> String {
                format!("{:?}", self.rules)
            }

            fn guards(&self) -> bool {
                self.failure_policy.as_deref() != Some("Ignore")
            }

            fn asked_as(mut self, other: &Self) -> Self {
                self.client_config.ca_bundle.clone_from(&other.client_config.ca_bundle);
                self
            }
        }
    };
}

named!(MutatingWebhook);
named!(ValidatingWebhook);

/// Brings what has changed since then into entries that stand; `None` is nothing. What is wanted still and
/// does not stand is not wanted by their writer.
pub(super) fn brought<E: Named>(before: &[E], now: &[E], standing: &[E]) -> Option<Vec<E>> {
    let by_name = |all: &[E]| all.iter().map(|entry| (entry.name().to_owned(), entry.clone())).collect();
    let (was, is): (BTreeMap<String, E>, BTreeMap<String, E>) = (by_name(before), by_name(now));
    let mut next = standing.to_vec();
    next.retain(|entry| !was.contains_key(entry.name()) || is.contains_key(entry.name()));
    for (at, entry) in now.iter().enumerate() {
        let known = was.get(entry.name());
        if known == Some(entry) {
            continue;
        }
        match next.iter_mut().find(|standing| standing.name() == entry.name()) {
            Some(standing) => *standing = entry.clone(),
            None if known.is_none() => next.insert(at.min(next.len()), entry.clone()),
            None => {}
        }
    }
    (next != standing).then_some(next)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn at(second: i64, told: &str) -> Writer {
        of_build(second, told, false)
    }

    fn of_build(second: i64, told: &str, shared: bool) -> Writer {
        let sample = Desired { shared, ..Desired::default() };
        Writer::new(Timestamp::from_second(second).unwrap(), &told, &sample)
    }

    /// A replica told "a" that started in second 10, and who wrote.
    #[rstest]
    #[case::nobody(None, false)]
    #[case::itself(Some(at(10, "a")), false)]
    #[case::a_later_one_that_wants_the_same(Some(at(20, "a")), false)]
    #[case::an_earlier_one(Some(at(5, "b")), false)]
    #[case::a_later_one(Some(at(20, "b")), true)]
    #[case::a_later_build_of_the_same_version(Some(of_build(20, "a", true)), true)]
    fn who_gives_way(#[case] writer: Option<Writer>, #[case] gives: bool) {
        let mut precedence = Precedence::of(at(10, "a"));
        let given = precedence.gives_way(writer.as_ref(), &Desired::default(), Instant::now());
        assert_eq!(given.is_some(), gives);
    }

    #[test]
    fn a_writer_is_read_as_it_is_written() {
        let writer = Timestamp::from_nanosecond(1_700_000_000_123_456_789).unwrap();
        let writer = Writer::new(writer, &"a", &Desired::default());
        assert_eq!(Writer::read(&writer.to_string()), Some(writer.clone()));
        assert_eq!(writer.named(Some(at(1_800_000_000, "a"))), at(1_800_000_000, "a"));
        assert_eq!(writer.named(Some(at(1_800_000_000, "b"))), writer);
        for text in ["", "2026-01-01T00:00:00Z", "soon 1", "2026-01-01T00:00:00Z z"] {
            assert_eq!(Writer::read(text), None, "{text}");
        }
    }

    #[test]
    fn patience_ends_and_grows_with_one_that_lives() {
        let (start, wanted) = (Instant::now(), Desired::default());
        let mut precedence = Precedence::of(at(10, "a"));
        let mut gives = |writer: &Writer, seconds: u64, wrote: bool| {
            let now = start + Duration::from_secs(seconds);
            let gives = precedence.gives_way(Some(writer), &wanted, now).is_some();
            if wrote {
                precedence.wrote();
            }
            gives
        };
        let later = at(20, "b");
        assert!(gives(&later, 0, false) && gives(&later, 59, false));
        assert!(!gives(&later, 60, false) && !gives(&later, 61, true), "a write may fail");
        assert!(gives(&later, 62, false) && gives(&later, 181, false), "it has written again");
        assert!(!gives(&later, 182, false));
        assert!(gives(&at(30, "b"), 183, false) && !gives(&at(30, "b"), 243, false), "that is another one");
    }

    /// Entries by name and content: before, now, standing, and then; an empty text is nothing new.
    #[rstest]
    #[case::the_same("a1 b1", "a1 b1", "b2 c1", "")]
    #[case::a_new_one("a1", "a1 n1", "a2 c1", "a2 n1 c1")]
    #[case::one_that_stands_already("a1", "a1 n1", "a2 n1", "")]
    #[case::another_form("a1", "a3", "a2", "a3")]
    #[case::another_form_of_one_that_is_not_wanted("a1", "a3", "c1", "")]
    #[case::one_that_went("a1 b1", "a1", "a2 b1 c1", "a2 c1")]
    #[case::one_of_theirs("a1", "a1", "a1 c1", "")]
    fn what_is_brought_in(
        #[case] before: &str,
        #[case] now: &str,
        #[case] standing: &str,
        #[case] then: &str,
    ) {
        let entries = |text: &str| -> Vec<MutatingWebhook> {
            let entry = |word: &str| {
                let (name, content) = word.split_at(1);
                MutatingWebhook {
                    name: name.to_owned(),
                    side_effects: content.to_owned(),
                    ..Default::default()
                }
            };
            text.split_whitespace().map(entry).collect()
        };
        let brought = brought(&entries(before), &entries(now), &entries(standing));
        assert_eq!(brought, Some(entries(then)).filter(|_| !then.is_empty()));
    }
}
