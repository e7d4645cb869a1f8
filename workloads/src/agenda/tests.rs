use std::{cell::Cell, time::Duration};

use berth_base::time::later;
use rstest::rstest;

use super::*;
use crate::timing::{AT_ONCE, SPACING};

/// Share of an object that is named `namespace/name`; of `!namespace/name`, one that fails; of
/// `namespace/~name`, one of another kind.
fn share(uid: &str) -> Share {
    let fails = uid.starts_with('!');
    let namespace = uid.trim_start_matches('!').split_once('/').map(|(namespace, _)| namespace.to_owned());
    let kind = if uid.contains('~') { "StatefulSet" } else { "CloneSet" };
    Share { namespace, kind, fails }
}

fn take(agenda: &mut Agenda, now: Instant) -> Vec<String> {
    agenda.take(now, AT_ONCE, share)
}

/// Counts by the part of the names before the slash.
fn counts(uids: &[String]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for uid in uids {
        *counts.entry(uid.split_once('/').map_or("", |(namespace, _)| namespace)).or_default() += 1;
    }
    counts
}

#[test]
fn each_of_many_busy_ones_has_its_turn() {
    let (mut agenda, start) = (Agenda::default(), Instant::now());
    let uids: Vec<String> = (0..20).map(|number| format!("{number:02}")).collect();
    uids.iter().for_each(|uid| agenda.add(uid.clone(), start));
    let mut turns: BTreeMap<String, usize> = BTreeMap::new();
    for round in 0..20 {
        let now = later(start, SPACING.saturating_mul(round));
        let taken = take(&mut agenda, now);
        assert_eq!(taken.len(), AT_ONCE);
        for uid in taken {
            *turns.entry(uid.clone()).or_default() += 1;
            // It is due again at once.
            agenda.add(uid, later(now, SPACING));
        }
    }
    // Those that are due at one instant have it by turns.
    assert!(turns.len() == uids.len() && turns.values().all(|turns| *turns >= 10), "{turns:?}");
}

#[test]
fn an_object_in_flight_waits() {
    let (mut agenda, now) = (Agenda::default(), Instant::now());
    agenda.add("a".to_owned(), now);
    agenda.add("a".to_owned(), now + Duration::from_secs(9));
    agenda.add("b".to_owned(), now + Duration::from_secs(5));
    agenda.begins("a");
    assert!(agenda.take(now, 9, share).is_empty());
    assert_eq!(agenda.next(9), Some(now + Duration::from_secs(5)));
    assert_eq!(agenda.next(1), None);
    // What is due of it meanwhile is due at its end.
    agenda.add("c".to_owned(), now);
    agenda.begins("c");
    agenda.add("c".to_owned(), now + Duration::from_secs(3));
    agenda.ends("a");
    agenda.ends("c");
    assert_eq!(agenda.take(now, 9, share), ["a", "c"]);
    assert_eq!(agenda.take(now + Duration::from_secs(9), 9, share), ["b"]);
    assert_eq!(agenda.next(9), None);
}

/// Rows: times at which an object is added, in their order, `now` between them, and when it is taken.
#[test]
fn the_soonest_time_counts() {
    let (start, second) = (Instant::now(), Duration::from_secs(1));
    for (times, taken) in [([5, 3, 9], 3), ([3, 5, 9], 3), ([9, 5, 3], 3), ([7, 7, 7], 7)] {
        let mut agenda = Agenda::default();
        times.iter().for_each(|at| agenda.add("a".to_owned(), start + second * *at));
        let at = (0..10).find(|at| !take(&mut agenda, start + second * *at).is_empty());
        assert_eq!(at, Some(taken), "{times:?}");
        assert!(take(&mut agenda, start + second * 20).is_empty(), "once");
    }
    // One whose time has come and that has no place is taken once, whatever is added.
    let mut agenda = Agenda::default();
    (0..AT_ONCE).for_each(|at| agenda.add(format!("a/{at:02}"), start));
    assert_eq!(take(&mut agenda, start).len(), AT_ONCE / 2);
    (0..AT_ONCE / 2).for_each(|at| agenda.begins(&format!("a/{at:02}")));
    agenda.add("a/15".to_owned(), start);
    agenda.add("a/15".to_owned(), start.checked_sub(second).unwrap_or(start));
    (0..AT_ONCE / 2).for_each(|at| agenda.ends(&format!("a/{at:02}")));
    let taken = take(&mut agenda, start);
    assert_eq!((taken.len(), taken.iter().filter(|uid| *uid == "a/15").count()), (AT_ONCE / 2, 1));
    assert!(take(&mut agenda, start).is_empty());
}

/// Rows: how many are due by the beginnings of their names, those of the first one the longest, and how many
/// are taken of each.
#[rstest]
#[case::one_namespace(&[("a", 40)], &[("a", 8)])]
#[case::another_one_comes_late(&[("a", 40), ("b", 1)], &[("a", 8), ("b", 1)])]
#[case::two_namespaces(&[("a", 40), ("b", 40), ("c", 40)], &[("a", 8), ("b", 8)])]
#[case::many_that_fail_in_one(&[("!a", 40), ("a", 40)], &[("!a", 4), ("a", 4)])]
#[case::one_comes_late(&[("!a", 40), ("a", 1)], &[("!a", 4), ("a", 1)])]
#[case::all_that_fail(&[("!a", 5), ("!b", 5), ("!c", 5), ("d", 5)], &[("!a", 4), ("!b", 4), ("d", 5)])]
#[case::few(&[("a", 2), ("!a", 1), ("b", 3)], &[("a", 2), ("!a", 1), ("b", 3)])]
#[case::in_no_namespace(&[("", 40)], &[("", 16)])]
fn nobody_has_all_places(#[case] due: &[(&str, usize)], #[case] taken: &[(&str, usize)]) {
    let (mut agenda, start) = (Agenda::default(), Instant::now());
    let mut now = start;
    for (namespace, count) in due {
        for at in 0..*count {
            let uid = if namespace.is_empty() { at.to_string() } else { format!("{namespace}/{at}") };
            agenda.add(uid, now);
        }
        now += Duration::from_secs(1);
    }
    let first = take(&mut agenda, now);
    assert_eq!(counts(&first), taken.iter().copied().collect());
    first.iter().for_each(|uid| agenda.begins(uid));
    assert_eq!((take(&mut agenda, now), agenda.next(AT_ONCE)), (Vec::new(), None), "no place is left");
    // A place that is given back goes to somebody who has waited, as long as there are any.
    first.iter().for_each(|uid| agenda.ends(uid));
    let (all, done) = (due.iter().map(|(_, count)| count).sum::<usize>(), first.len());
    assert_eq!(agenda.next(AT_ONCE).is_some(), done < all);
    let mut rest = 0;
    loop {
        match take(&mut agenda, now).len() {
            0 => break,
            more => rest += more,
        }
    }
    assert_eq!(done + rest, all, "each is taken once");
}

/// Each plan of a kind takes long, and thousands of it wait: those of another kind wait for the next place,
/// and not for all of them. Both have their places then.
#[test]
fn a_kind_that_is_slow_holds_up_no_other() {
    let (mut agenda, start) = (Agenda::default(), Instant::now());
    (0..1000).for_each(|at| agenda.add(format!("ns-{}/{at}", at % 10), start));
    let mut slow = take(&mut agenda, start);
    assert_eq!(slow.len(), AT_ONCE, "nobody else waits");
    slow.iter().for_each(|uid| agenda.begins(uid));
    let now = later(start, Duration::from_secs(9));
    (0..100).for_each(|at| agenda.add(format!("ns-{}/~{at}", at % 10), now));
    let mut others = Vec::new();
    for _ in 0..AT_ONCE {
        agenda.ends(&slow.remove(0));
        let taken = take(&mut agenda, now);
        taken.iter().for_each(|uid| agenda.begins(uid));
        let (of_other, of_slow): (Vec<_>, Vec<_>) = taken.into_iter().partition(|uid| uid.contains('~'));
        others.extend(of_other);
        slow.extend(of_slow);
    }
    assert_eq!((others.len(), slow.len()), (AT_ONCE / 2, AT_ONCE / 2));
    // Of one kind the one that waits longest comes first.
    assert_eq!(others.first().map(String::as_str), Some("ns-0/~0"));
}

/// Ten thousand sets are due at the start of a term, and each report of a plan is a turn.
#[test]
fn a_turn_looks_at_what_it_takes_and_no_more() {
    let (mut agenda, now) = (Agenda::default(), Instant::now());
    let looked_at = Cell::new(0);
    let counted = |uid: &str| {
        looked_at.set(looked_at.get() + 1);
        share(uid)
    };
    (0..10_000).for_each(|at| agenda.add(format!("ns-{}/{at}", at % 100), now));
    let mut in_flight = agenda.take(now, AT_ONCE, counted);
    in_flight.iter().for_each(|uid| agenda.begins(uid));
    assert_eq!((in_flight.len(), looked_at.get()), (AT_ONCE, 10_000));
    // Nothing is looked at while no place is free.
    agenda.add("late/1".to_owned(), now);
    assert!(agenda.take(now, AT_ONCE, counted).is_empty() && agenda.next(AT_ONCE).is_none());
    assert_eq!(looked_at.get(), 10_000);
    let mut done = 0;
    while let Some(uid) = in_flight.pop() {
        agenda.ends(&uid);
        done += 1;
        for uid in agenda.take(now, AT_ONCE, counted) {
            agenda.begins(&uid);
            in_flight.push(uid);
        }
    }
    assert_eq!((done, looked_at.get()), (10_001, 10_001), "each once");
}
