//! Entries that the API server refuses, as where an admission policy is older than this program, or somebody
//! has rules of their own: the others are kept without them. Pure; `reconciler` asks.
//!
//! A refusal is about the whole configuration and does not say which entry it is for. So entries are tried in
//! dry runs: those with the same rules together, and then halves of those that are refused. What is refused
//! is tried again now and then, for the policy comes without an event here.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use super::precedence::Named;
use crate::time::later_timer;

/// Trials after which no group is halved any more: all of it counts as refused.
const MOST_TRIALS: usize = 64;
/// Time after which refused entries are tried again: a policy that is applied with the programs may come
/// after them.
const TRIED_AGAIN: Duration = Duration::from_secs(10);
/// It is looked for what is refused after it, where all is or nothing by itself.
const SEARCHED_AGAIN: Duration = Duration::from_secs(60);

/// Search for the entries that are refused.
#[derive(Debug)]
pub(super) struct Sieve<E> {
    /// Groups that are to be tried, the last one first.
    open: Vec<Vec<E>>,
    refused: Vec<E>,
    trials: usize,
}

impl<E: Named> Sieve<E> {
    /// A search among these.
    pub(super) fn of(entries: &[E]) -> Self {
        let mut groups: BTreeMap<String, Vec<E>> = BTreeMap::new();
        for entry in entries {
            groups.entry(entry.rules()).or_default().push(entry.clone());
        }
        Self { open: groups.into_values().collect(), refused: Vec::new(), trials: 0 }
    }

    /// Returns the entries that are to be tried next; `None`: all have been.
    pub(super) fn next_group(&self) -> Option<Vec<E>> {
        self.open.last().cloned()
    }

    /// Takes in whether these were taken.
    pub(super) fn answered(&mut self, taken: bool) {
        let Some(mut group) = self.open.pop() else { return };
        self.trials = self.trials.saturating_add(1);
        if taken {
            return;
        }
        if group.len() > 1 && self.trials < MOST_TRIALS {
            let rest = group.split_off(group.len() / 2);
            self.open.extend([rest, group]);
        } else {
            self.refused.extend(group);
        }
    }

    /// Puts in, behind the others, what is new among these entries, and takes out what is not among them any
    /// more. `before` were those until now.
    fn follow(&mut self, before: &[E], entries: &[E]) {
        let has = |all: &[E], entry: &E| all.iter().any(|one| is_same(one, entry));
        self.open.iter_mut().for_each(|group| group.retain(|entry| has(entries, entry)));
        self.open.retain(|group| !group.is_empty());
        self.refused.retain(|entry| has(entries, entry));
        let new: Vec<E> = entries.iter().filter(|entry| !has(before, entry)).cloned().collect();
        self.open.splice(0..0, Self::of(&new).open);
    }

    /// Number of the trials.
    pub(super) const fn trials(&self) -> usize {
        self.trials
    }

    /// Returns those that were refused.
    pub(super) fn refused(self) -> Vec<E> {
        self.refused
    }
}

/// Search that may take several looks: an API server that answers slowly must not keep the reconciler away
/// from what changes meanwhile.
#[derive(Debug)]
pub(super) struct Search<E> {
    /// Entries that it is about.
    among: Vec<E>,
    /// `None`: none has begun.
    sieve: Option<Sieve<E>>,
}

impl<E: Named> Search<E> {
    /// None yet.
    pub(super) const fn none() -> Self {
        Self { among: Vec::new(), sieve: None }
    }

    /// Goes on with these entries where it was. It does not begin anew where some are others by now: while
    /// objects come and go it would have no end.
    pub(super) fn go_on(&mut self, entries: &[E]) -> &mut Sieve<E> {
        let sieve = self.sieve.get_or_insert_with(|| Sieve::of(&[]));
        sieve.follow(&self.among, entries);
        self.among = entries.to_vec();
        sieve
    }

    /// Ends it. Returns the entries that were refused.
    pub(super) fn end(&mut self) -> Vec<E> {
        self.among.clear();
        self.sieve.take().map(Sieve::refused).unwrap_or_default()
    }

    /// Says whether one has begun.
    const fn is_open(&self) -> bool {
        self.sieve.is_some()
    }
}

/// Entries that were refused the last time.
#[derive(Debug)]
pub(super) struct Refused<E> {
    entries: Vec<E>,
    /// They are tried again then; none were tried yet.
    until: Option<Instant>,
    /// Search among entries that are to be written.
    pub(super) search: Search<E>,
    /// Search among those that were refused.
    pub(super) again: Search<E>,
}

impl<E: Named> Refused<E> {
    /// Nothing is known.
    pub(super) const fn nothing() -> Self {
        Self { entries: Vec::new(), until: None, search: Search::none(), again: Search::none() }
    }

    /// Entries that are refused.
    pub(super) fn entries(&self) -> &[E] {
        &self.entries
    }

    /// Says whether they are to be tried again.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        !self.entries.is_empty() && self.until.is_none_or(|until| now >= until)
    }

    /// Says whether it is to be looked for what is refused of these, which were just refused together. What
    /// was not found a short while ago, or is known, is not looked for again. A search that has begun goes
    /// on.
    pub(super) fn is_worth_a_search(&self, together: &[E], now: Instant) -> bool {
        let is_new = !self.entries.is_empty() && !together.iter().any(|entry| self.has(entry));
        is_new || self.search.is_open() || self.until.is_none_or(|until| now >= until)
    }

    /// Takes in what was found among those that were refused together. Says whether the others can be
    /// written: nothing is to be had of a server that refuses each of them, or none.
    pub(super) fn found(&mut self, refused: Vec<E>, together: &[E], now: Instant) -> bool {
        if refused.is_empty() || refused.len() >= together.len() {
            self.until = Some(later_timer(now, SEARCHED_AGAIN));
            return false;
        }
        self.until = Some(later_timer(now, TRIED_AGAIN));
        // What is known and was not among them is not known to be taken.
        self.entries.retain(|known| !together.iter().any(|entry| is_same(entry, known)));
        self.entries.extend(refused);
        true
    }

    /// Takes in which of them are still refused.
    pub(super) fn still(&mut self, refused: Vec<E>, now: Instant) {
        self.entries = refused;
        self.until = Some(later_timer(now, TRIED_AGAIN));
    }

    /// Returns what is written in place of the entries that are wanted: those that are refused are as they
    /// stand, or left out. One that is refused as it stands, and lets nothing pass while nobody answers, is a
    /// guard: `None` is returned, for nothing is to take it away.
    pub(super) fn lesser(&self, wanted: &[E], standing: &[E]) -> Option<Vec<E>> {
        let mut next = Vec::with_capacity(wanted.len());
        for entry in wanted {
            if !self.has(entry) {
                next.push(entry.clone());
                continue;
            }
            match standing.iter().find(|standing| standing.name() == entry.name()) {
                Some(stands) if !self.has(stands) => next.push(stands.clone().asked_as(entry)),
                Some(stands) if stands.guards() => return None,
                _ => {}
            }
        }
        Some(next)
    }

    /// Puts that in the place of the entries that are wanted, unless there is such a guard.
    pub(super) fn lessen(&self, wanted: &mut Vec<E>, standing: &[E]) {
        if !self.entries.is_empty()
            && let Some(lesser) = self.lesser(wanted, standing)
        {
            *wanted = lesser;
        }
    }

    /// Forgets those that are neither wanted nor stand, as of an object that is gone or has another reach by
    /// now: nobody is to try them again, and none of them is missing.
    pub(super) fn keep(&mut self, wanted: &[E], standing: &[E]) {
        self.entries.retain(|known| wanted.iter().chain(standing).any(|entry| is_same(entry, known)));
    }

    /// Says whether one of them has this in its name.
    pub(super) fn has_named(&self, part: &str) -> bool {
        self.entries.iter().any(|entry| entry.name().contains(part))
    }

    fn has(&self, entry: &E) -> bool {
        self.entries.iter().any(|refused| is_same(refused, entry))
    }
}

/// Says whether both are the same but for their CAs.
fn is_same<E: Named>(one: &E, other: &E) -> bool {
    one.name() == other.name() && one.clone().asked_as(other) == *other
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{
        ByteString,
        api::admissionregistration::v1::{MutatingWebhook, RuleWithOperations},
    };
    use rstest::rstest;

    use super::*;

    /// Entries by words: name, form, and the CA in capitals. Names with the same first letter have the same
    /// rules. Those of form 9 guard.
    fn entries(text: &str) -> Vec<MutatingWebhook> {
        let entry = |word: &str| {
            let (name, form) = word.split_at(2);
            let (form, bundle) = form.split_at(1);
            let rule =
                RuleWithOperations { resources: Some(vec![name[..1].to_owned()]), ..Default::default() };
            let mut entry = MutatingWebhook {
                name: name.to_owned(),
                side_effects: form.to_owned(),
                failure_policy: Some(if form == "9" { "Fail" } else { "Ignore" }.to_owned()),
                rules: Some(vec![rule]),
                ..Default::default()
            };
            entry.client_config.ca_bundle = Some(ByteString(bundle.into()));
            entry
        };
        text.split_whitespace().map(entry).collect()
    }

    fn sifted(all: &[MutatingWebhook], refuses: impl Fn(&str) -> bool) -> (Vec<String>, usize) {
        let (mut sieve, mut trials) = (Sieve::of(all), 0);
        while let Some(group) = sieve.next_group() {
            sieve.answered(!group.iter().any(|entry| refuses(&entry.name)));
            trials += 1;
        }
        let mut refused: Vec<_> = sieve.refused().into_iter().map(|entry| entry.name).collect();
        refused.sort();
        (refused, trials)
    }

    /// Rows: entries that are refused, and the trials that it takes to find them.
    #[rstest]
    #[case::none("", 3)]
    #[case::one_of_its_kind("c0", 3)]
    #[case::one_of_many("a2", 7)]
    #[case::some("a2 c0", 7)]
    #[case::a_whole_kind("b0 b1", 5)]
    fn those_that_are_refused_are_found(#[case] refuses: &str, #[case] tries: usize) {
        let all = entries("a01A b01A a11A a21A a31A b11A c01A");
        let (refused, trials) = sifted(&all, |name| refuses.contains(name));
        assert_eq!(refused, refuses.split_whitespace().collect::<Vec<_>>());
        assert_eq!(trials, tries);
    }

    #[test]
    fn a_search_has_an_end() {
        let all: Vec<_> = (0..900)
            .map(|at| MutatingWebhook { name: format!("s{at:0>3}"), ..MutatingWebhook::default() })
            .collect();
        let (refused, trials) = sifted(&all, |_| true);
        assert_eq!(refused.len(), 900);
        assert!(trials < 2 * MOST_TRIALS, "{trials}");
        let (refused, trials) = sifted(&all, |name| name == "s123");
        assert!(refused == ["s123"] && trials < 24, "{refused:?} {trials}");
    }

    /// Another CA makes no other entries of them. Rows: entries before the first trial, which refuses `b0`,
    /// and after it; the names that are tried then, and those that are refused in the end.
    #[rstest]
    #[case::the_same("a01A b01A", "a01A b01A", "a0", "b0")]
    #[case::with_another_ca("a01A b01A", "a01B b01B", "a0", "b0")]
    #[case::in_another_form("a01A b01A", "a01A b02A", "a0 b0", "")]
    #[case::one_more("a01A b01A", "a01A b01A c01A", "a0 c0", "b0")]
    #[case::one_that_was_refused_is_gone("a01A b01A", "a01A", "a0", "")]
    #[case::one_that_is_open_is_gone("a01A a11A b01A", "a11A b01A", "a1", "b0")]
    #[case::no_other_is_left("a01A b01A", "b01B", "", "b0")]
    fn a_search_goes_on_where_it_was(
        #[case] before: &str,
        #[case] after: &str,
        #[case] tried: &str,
        #[case] found: &str,
    ) {
        let names = |all: Vec<MutatingWebhook>| all.into_iter().map(|entry| entry.name).collect::<Vec<_>>();
        let (mut refused, now) = (Refused::nothing(), Instant::now());
        refused.until = Some(now + SEARCHED_AGAIN);
        assert!(!refused.is_worth_a_search(&entries(after), now));
        let sieve = refused.search.go_on(&entries(before));
        assert_eq!(sieve.next_group().map(names), Some(vec!["b0".to_owned()]));
        sieve.answered(false);
        assert!(refused.is_worth_a_search(&entries(after), now));
        let sieve = refused.search.go_on(&entries(after));
        assert_eq!(sieve.trials(), 1);
        let mut then = Vec::new();
        while let Some(group) = sieve.next_group() {
            then.extend(names(group));
            sieve.answered(true);
        }
        assert_eq!(then.join(" "), tried);
        assert_eq!(names(refused.search.end()).join(" "), found);
        assert!(!refused.is_worth_a_search(&entries(after), now));
    }

    /// Entries that are wanted, that stand, and that are refused, and what is written.
    #[rstest]
    #[case::nothing_refused("a01B b01B", "a01A", "", Some("a01B b01B"))]
    #[case::a_new_one("a01B n01B", "a01A", "n01A", Some("a01B"))]
    #[case::in_its_new_form("a01B b02B", "a01A b01A", "b02B", Some("a01B b01B"))]
    #[case::as_it_stands_too("a01B b02B", "a01A b01A", "b02B b01B", Some("a01B"))]
    #[case::a_guard("a01B b09B", "a01A b09A", "b09A", None)]
    #[case::a_guard_in_its_new_form("a01B b02B", "a01A b09A", "b02A", Some("a01B b09B"))]
    #[case::a_guard_that_does_not_stand("a01B b09B", "a01A", "b09A", Some("a01B"))]
    #[case::of_another_form("a01B", "", "a02B", Some("a01B"))]
    fn what_is_written_without_them(
        #[case] wanted: &str,
        #[case] standing: &str,
        #[case] refused: &str,
        #[case] written: Option<&str>,
    ) {
        let refused = Refused { entries: entries(refused), ..Refused::nothing() };
        assert_eq!(refused.lesser(&entries(wanted), &entries(standing)), written.map(entries));
    }

    /// Entries that are wanted, that stand, and that are refused, and those of them that are remembered.
    #[rstest]
    #[case::wanted("a01A b01A", "a01A", "b01B", "b01B")]
    #[case::wanted_in_another_form("a01A b02A", "a01A", "b01A", "")]
    #[case::standing("a01A", "a01A b01A", "b01A", "b01A")]
    #[case::of_nobody("a01A", "a01A", "b01A a01A", "a01A")]
    fn what_nobody_wants_is_forgotten(
        #[case] wanted: &str,
        #[case] standing: &str,
        #[case] refused: &str,
        #[case] kept: &str,
    ) {
        let mut refused = Refused { entries: entries(refused), ..Refused::nothing() };
        refused.keep(&entries(wanted), &entries(standing));
        assert_eq!(refused.entries(), entries(kept));
    }

    #[test]
    fn what_is_refused_is_tried_again() {
        let (mut refused, now) = (Refused::nothing(), Instant::now());
        let (whole, later) = (entries("a01A b01A"), now + TRIED_AGAIN);
        assert!(!refused.is_due(now) && refused.is_worth_a_search(&whole, now));
        assert!(!refused.found(whole.clone(), &whole, now), "it takes nothing at all");
        assert!(!refused.is_due(later) && !refused.is_worth_a_search(&whole, now));
        assert!(refused.is_worth_a_search(&whole, now + SEARCHED_AGAIN));
        assert!(refused.found(entries("b01A"), &whole, now));
        assert!(!refused.is_due(now) && refused.is_due(later));
        // Another one is refused, or one that is known.
        assert!(refused.is_worth_a_search(&entries("a01A c01A"), now));
        assert!(!refused.is_worth_a_search(&entries("a01A b01B"), now));
        assert!(refused.found(entries("c01A"), &entries("a01A c01A"), now));
        assert_eq!(refused.entries(), entries("b01A c01A"));
        refused.still(Vec::new(), later);
        assert!(refused.entries().is_empty() && !refused.is_due(later + TRIED_AGAIN));
    }
}
