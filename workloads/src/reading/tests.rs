use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::ConfigMap;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::{revisions::SentRevision, served::reads, trimmed::TrimmedPod};

pub(super) fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn each_term_is_read_once_and_again_after_it_was_lost() {
    let (mut reading, now) = (Reading::default(), Instant::now());
    assert_eq!(reading.next(0, now), Some(now));
    reading.begins(0);
    assert_eq!((reading.next(0, now), reading.is_done(0)), (None, false), "on its way");
    reading.is_lost(now);
    let again = reading.next(0, now).unwrap();
    assert!(again > now && !reading.is_done(0));
    reading.begins(0);
    // Meanwhile another term has begun.
    reading.ends(0, names(&["ns"]), names(&[]), now);
    assert!(reading.covers("ns") && !reading.covers("another"));
    assert_eq!((reading.next(0, now), reading.next(1, now)), (None, Some(now)));
    reading.begins(1);
    reading.is_lost(now);
    assert!(reading.next(1, now).is_some_and(|again| again > now));
}

/// Rows: namespaces of a term that are read and that are not, one reading after the other; what is left after
/// each of them.
#[test]
fn what_was_not_read_is_read_again_by_itself() {
    let all = || names(&["a", "b", "c"]);
    let (mut reading, now) = (Reading::default(), Instant::now());
    let table: [(&[&str], &[&str], &[&str]); 4] = [
        (&[], &["a", "b", "c"], &["a", "b", "c"]),
        (&["a"], &["b", "c"], &["b", "c"]),
        (&["c"], &["b"], &["b"]),
        (&["b"], &[], &[]),
    ];
    let mut pause = std::time::Duration::ZERO;
    for (read, missing, left) in table {
        reading.begins(1);
        reading.ends(1, names(read), names(missing), now);
        assert!(reading.is_done(1), "what was read is planned");
        for namespace in ["a", "b", "c"] {
            assert_eq!(reading.misses(namespace), left.contains(&namespace), "{namespace}");
            assert_eq!(reading.covers(namespace), !left.contains(&namespace), "{namespace}");
        }
        let next = reading.next(1, now).map(|next| next.duration_since(now));
        assert_eq!(next.is_none(), left.is_empty());
        assert_eq!(reading.left(1, all(), now), names(&[]), "after a pause");
        assert_eq!(reading.left(1, all(), later(now, next.unwrap_or_default())), names(left));
        assert!(next.is_none_or(|next| next > pause), "less and less often");
        pause = next.unwrap_or_default();
    }
}

/// Objects come into two namespaces that had none, into one of them while it is read; that one cannot be read
/// at first.
#[test]
fn a_namespace_into_which_many_come_is_read() {
    let (mut reading, now) = (Reading::default(), Instant::now());
    let all = || names(&["a", "new", "small"]);
    reading.begins(1);
    reading.ends(1, names(&["a"]), names(&[]), now);
    let apart =
        |reading: &mut Reading, name: &str| (0..3 * MOST_APART).filter(|_| reading.reads_apart(name)).count();
    assert!(reading.reads_apart("small"));
    assert_eq!(reading.next(1, now), None, "one is read by itself");
    assert_eq!(reading.left(1, all(), now), names(&[]));
    assert_eq!(apart(&mut reading, "new"), MOST_APART);
    assert_eq!((reading.next(1, now), reading.left(1, all(), now)), (Some(now), names(&["new"])));
    reading.begins(1);
    assert!(!reading.reads_apart("new") && reading.next(1, now).is_none(), "it is on its way");
    reading.ends(1, names(&[]), names(&["new"]), now);
    assert!(reading.misses("new") && reading.next(1, now).is_some_and(|next| next > now), "after a pause");
    reading.begins(1);
    reading.ends(1, names(&["new"]), names(&[]), now);
    assert!(reading.covers("new") && !reading.covers("small") && reading.next(1, now).is_none());
    // It has gone before it was read.
    assert_eq!(apart(&mut reading, "gone"), MOST_APART);
    assert_eq!((reading.left(1, all(), now), reading.next(1, now)), (names(&[]), None));
    // Another term reads all, and counts anew.
    assert_eq!(apart(&mut reading, "small"), MOST_APART - 1);
    assert_eq!(reading.left(2, all(), now), all());
    reading.begins(2);
    reading.ends(2, names(&["a"]), names(&[]), now);
    assert_eq!((reading.next(2, now), apart(&mut reading, "small")), (None, MOST_APART));
}

/// Rows: namespaces that there are, and how many are read by each of the first readings of a term. The ones
/// of a reading are planned when it has ended, and the others wait.
#[rstest]
#[case::few(3, &[3])]
#[case::as_many_as_fit(MOST_AT_ONCE, &[MOST_AT_ONCE])]
#[case::one_more(MOST_AT_ONCE + 1, &[MOST_AT_ONCE, 1])]
#[case::many(3 * MOST_AT_ONCE - 5, &[MOST_AT_ONCE, MOST_AT_ONCE, MOST_AT_ONCE - 5])]
fn many_namespaces_are_read_some_at_a_time(#[case] count: usize, #[case] readings: &[usize]) {
    let all = || -> BTreeSet<String> { (0..count).map(|number| format!("ns-{number:03}")).collect() };
    let (mut reading, now) = (Reading::default(), Instant::now());
    let mut all_read = BTreeSet::new();
    for (at, count) in readings.iter().enumerate() {
        assert_eq!(reading.next(1, now), Some(now));
        let mut left = reading.left(1, all(), now);
        assert_eq!(left.len(), *count);
        reading.begins(1);
        assert_eq!(reading.next(1, now), None, "it is on its way");
        // One of the first cannot be read: it is tried again after a pause, and the others are not.
        let fails = (at == 0).then(|| left.pop_first()).flatten();
        reading.ends(1, left.clone(), fails.into_iter().collect(), now);
        all_read.append(&mut left);
        for namespace in all() {
            assert_eq!(reading.misses(&namespace), !all_read.contains(&namespace), "{namespace}");
            assert_eq!(reading.covers(&namespace), all_read.contains(&namespace), "{namespace}");
        }
    }
    let again = reading.next(1, now).unwrap();
    assert!(again > now);
    assert_eq!(reading.left(1, all(), again), names(&["ns-000"]));
    // Another term begins with all of them.
    assert_eq!(reading.left(2, all(), again).len(), count.min(MOST_AT_ONCE));
}

/// An API server that fails for a moment: all of many namespaces are tried again as they were tried at first,
/// some at a time, and the pause is no longer for their number.
#[test]
fn many_namespaces_that_fail_are_read_again_some_at_a_time() {
    let all =
        || -> BTreeSet<String> { (0..10 * MOST_AT_ONCE).map(|number| format!("ns-{number:03}")).collect() };
    let (mut reading, mut now) = (Reading::default(), Instant::now());
    for pause in [100, 500] {
        for _ in 0..10 {
            let left = reading.left(1, all(), now);
            assert_eq!(left.len(), MOST_AT_ONCE);
            reading.begins(1);
            reading.ends(1, names(&[]), left, now);
        }
        let next = reading.next(1, now).unwrap();
        assert_eq!(next.duration_since(now).as_millis(), pause);
        now = next;
    }
    let left = reading.left(1, all(), now);
    reading.begins(1);
    reading.ends(1, left, names(&[]), now);
    assert!(!reading.misses("ns-000") && reading.misses("ns-100"));
    assert_eq!(reading.next(1, now), Some(now), "these are planned, and the next ones follow");
}

/// One of two namespaces was never read, and the other one is to be read again and cannot be: nothing of it
/// waits but those that asked for it, and neither is read more often for the other one.
#[test]
fn a_namespace_that_is_read_again_holds_up_nothing_else_of_it() {
    let (mut reading, mut now) = (Reading::default(), Instant::now());
    let all = || names(&["again", "missing", "well"]);
    for _ in 0..6 {
        now = reading.next(1, now).unwrap();
        assert!(reading.left(1, all(), now).contains("missing"));
        reading.begins(1);
        reading.ends(1, names(&["again", "well"]), names(&["missing"]), now);
    }
    let retry = reading.next(1, now).unwrap();
    assert!(retry > later(now, std::time::Duration::from_secs(20)));
    let apart = (0..3 * MOST_APART).filter(|_| reading.reads_again_apart("again", now)).count();
    assert_eq!(apart, MOST_APART);
    let next = reading.next(1, now).unwrap();
    assert!(next > now && next < retry, "it does not wait for the other one");
    assert_eq!(reading.left(1, all(), now), names(&[]));
    assert_eq!(reading.left(1, all(), next), names(&["again"]));
    reading.begins(1);
    reading.ends(1, names(&[]), names(&["again"]), next);
    assert!(reading.covers("again") && !reading.misses("again"), "the others go on");
    assert!(reading.misses("missing"), "nobody has read it");
    assert!(reading.next(1, next).is_some_and(|again| again > next && again < retry));
    assert_eq!(reading.left(1, all(), retry), names(&["again", "missing"]));
    reading.begins(1);
    reading.is_lost(retry);
    let next = reading.next(1, retry).unwrap();
    assert!(next > retry);
    // Another term reads all.
    assert_eq!((reading.next(2, retry), reading.left(2, all(), retry)), (Some(retry), all()));
    reading.begins(2);
    reading.ends(2, all(), names(&[]), retry);
    assert_eq!(reading.next(2, retry), None);
    assert_eq!(reading.begun(), 9);
}

#[test]
fn what_failed_in_a_term_is_no_matter_of_the_next_one() {
    let (mut reading, now) = (Reading::default(), Instant::now());
    for _ in 0..9 {
        reading.begins(1);
        reading.ends(1, names(&["a"]), names(&["b"]), now);
    }
    assert!(reading.next(1, now).is_some_and(|next| next > now));
    assert_eq!(reading.next(2, now), Some(now), "it begins at once");
    assert_eq!(reading.left(2, names(&["a", "b"]), now), names(&["a", "b"]));
    reading.begins(2);
    reading.ends(2, names(&["a"]), names(&["b"]), now);
    assert!(reading.next(2, now).is_some_and(|next| next < now + std::time::Duration::from_secs(1)));
    // Nobody has objects there any more: whoever has some later is read by itself.
    assert_eq!((reading.left(2, names(&["a"]), now), reading.next(2, now)), (names(&[]), None));
    assert!(!reading.misses("b") && !reading.covers("b"));
}

#[rstest]
#[case::all_well(&[])]
#[case::one_fails(&["c"])]
#[case::some_fail(&["a", "e"])]
#[case::all_fail(&["a", "b", "c", "d", "e", "f"])]
#[tokio::test]
async fn a_namespace_that_fails_takes_nothing_from_the_others(#[case] fails: &[&str]) {
    let all = names(&["a", "b", "c", "d", "e", "f"]);
    let ended = each(7, all.clone(), |namespace| {
        let fails = fails.contains(&namespace.as_str());
        async move { if fails { Err(Failure::Refused(format!("not {namespace}"))) } else { Ok(namespace) } }
    })
    .await;
    assert_eq!((ended.term, ended.missing()), (7, names(fails)));
    assert_eq!(ended.read(), &all - &names(fails));
    assert!(ended.found.iter().all(|(namespace, found)| namespace == found));
    assert!(ended.failed.iter().all(|(namespace, why)| *why == format!("not {namespace}")));
}

#[test]
fn objects_of_all_namespaces_of_a_reading_are_found_in_one_look() {
    let all = [("a", "1"), ("b", "2"), ("other", "3"), ("a", "4")];
    let uids = uids_in(&names(&["a", "b", "empty"]), all.into_iter());
    let expected = [("a", vec!["1", "4"]), ("b", vec!["2"]), ("empty", vec![])];
    let expected = expected.map(|(namespace, uids)| {
        (namespace.to_owned(), uids.into_iter().map(str::to_owned).collect::<Vec<_>>())
    });
    assert_eq!(uids, BTreeMap::from(expected));
}

/// An answer is in memory as a whole before an object of it is reduced.
#[tokio::test]
async fn lists_come_in_small_pages() {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = asked.clone();
    let writer = reads(move |path, query| {
        let limit = query.split('&').find(|part| part.starts_with("limit=")).unwrap_or_default();
        seen.lock().unwrap().push(format!("{} {limit}", path.rsplit('/').next().unwrap_or_default()));
        let next = if query.contains("continue=") { "" } else { "second" };
        json!({ "metadata": { "resourceVersion": "5", "continue": next }, "items": [] }).to_string()
    });
    let pods = Api::<TrimmedPod>::namespaced(writer.client.clone(), "ns");
    writer.list(&pods, "", Pods::view).await.ok().unwrap();
    let maps = Api::<berth_base::sent::Sent<ConfigMap>>::namespaced(writer.client.clone(), "ns");
    writer.list(&maps, "", Some).await.ok().unwrap();
    let revisions = Api::<SentRevision>::namespaced(writer.client.clone(), "ns");
    writer.list(&revisions, "", Revisions::view).await.ok().unwrap();
    let limits = ["pods limit=50", "configmaps limit=16", "controllerrevisions limit=16"];
    let pages: Vec<&str> = limits.into_iter().flat_map(|limit| [limit; 2]).collect();
    assert_eq!(*asked.lock().unwrap(), pages);
}
