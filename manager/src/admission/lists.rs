//! Lists of a namespace for new pods that belong to nothing that is known: the watch may be behind.
//!
//! An entry that is for one object asks about its pods alone, so what it is about is there. One entry for all
//! objects of a kind asks about every pod of their namespaces, most of which belong to none, and a list of
//! all objects for each of them would hold up all that is asked here. There one list answers for a moment:
//! who asks while it is on its way waits for it, and one that failed is made again.
//!
//! A list goes on when those who waited for it are gone: if it takes longer than anybody waits, it answers
//! who comes next. So an answer may be older than that moment by the time that its list took.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use k8s_openapi::api::admissionregistration::v1::{MutatingWebhook, MutatingWebhookConfiguration};
use tokio::{
    sync::{Semaphore, watch},
    time::{Instant, timeout},
};

use super::{configuration::Configuration, locks::ObjectLock, view::View};

/// A list answers for so long after its end, where one entry is for all objects.
const ANSWERS_FOR: Duration = Duration::from_secs(1);
/// A list has failed that has not ended by then.
const LISTED_WITHIN: Duration = Duration::from_secs(20);
/// Lists of a kind that go on at once, whoever waits for them; the others wait.
const AT_ONCE: usize = 16;

/// Lists of one kind.
pub(super) struct Lists<T> {
    entries: watch::Receiver<View<MutatingWebhookConfiguration>>,
    /// Says whether one entry is for all objects of the kind.
    is_shared: fn(&[MutatingWebhook]) -> bool,
    /// The newest list of each namespace that was listed of late. A std lock: nothing is awaited under it.
    newest: Mutex<HashMap<String, ObjectLock<Listed<T>>>>,
    places: Arc<Semaphore>,
}

struct Listed<T> {
    ended: Instant,
    all: Arc<[T]>,
}

impl<T: Send + Sync + 'static> Lists<T> {
    pub(super) fn new(
        entries: watch::Receiver<View<MutatingWebhookConfiguration>>,
        is_shared: fn(&[MutatingWebhook]) -> bool,
    ) -> Self {
        Self { entries, is_shared, newest: Mutex::default(), places: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// All objects of a namespace, listed now or a moment ago.
    pub(super) async fn of(
        &self,
        namespace: &str,
        list: impl Future<Output = Result<Vec<T>, &'static str>> + Send + 'static,
    ) -> Result<Arc<[T]>, &'static str> {
        if !self.are_shared() {
            return list.await.map(Arc::from);
        }
        let asked = Instant::now();
        let mut newest = self.turn(namespace).lock_owned().await;
        if let Some(listed) = newest.as_ref().filter(|listed| listed.is_new_to(asked)) {
            return Ok(listed.all.clone());
        }
        let places = self.places.clone();
        let list = async move {
            let _place = places.acquire().await;
            list.await
        };
        // Its own task, which has the turn: it ends by itself, within its time.
        let listing = tokio::spawn(async move {
            let listed = timeout(LISTED_WITHIN, list).await;
            let all: Arc<[T]> =
                listed.map_err(|_| "the objects of the namespace take too long to list")??.into();
            *newest = Some(Listed { ended: Instant::now(), all: all.clone() });
            Ok(all)
        });
        listing.await.unwrap_or(Err("the objects of the namespace could not be listed"))
    }

    fn are_shared(&self) -> bool {
        let entries = self.entries.borrow();
        let one = entries.listed().and_then(|entries| entries.values().next());
        one.is_some_and(|one| (self.is_shared)(one.mutating()))
    }

    fn turn(&self, namespace: &str) -> ObjectLock<Listed<T>> {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        // One that somebody holds is needed.
        newest.retain(|_, turn| {
            turn.try_lock().map_or(true, |listed| listed.as_ref().is_some_and(|one| one.is_new_to(now)))
        });
        newest.entry(namespace.to_owned()).or_default().clone()
    }
}

impl<T> Listed<T> {
    /// Tells whether it answers who asked then, before its end or a moment after it.
    fn is_new_to(&self, asked: Instant) -> bool {
        asked.saturating_duration_since(self.ended) < ANSWERS_FOR
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeMap,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use kube::Client;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        admission::{
            configuration::{one_is_for_all_spreads, one_is_for_all_states},
            locks::ObjectLocks,
            pod_states::Restorer,
            review::{Request, Verdict},
            spreads::Placer,
        },
        served::{self, Asked},
    };

    /// A client whose lists have the objects that are given.
    fn client(items: Value) -> (Client, Asked) {
        failing_client(items, 0)
    }

    /// The same, and so many lists fail first.
    fn failing_client(items: Value, failures: usize) -> (Client, Asked) {
        slow_client(items, failures, Duration::ZERO)
    }

    /// The same, and each takes so long.
    fn slow_client(items: Value, failures: usize, takes: Duration) -> (Client, Asked) {
        let count = AtomicUsize::new(0);
        let list = json!({ "kind": "List", "apiVersion": "v1", "metadata": {}, "items": items });
        served::slow_client(takes, move |_| {
            let fails = count.fetch_add(1, Ordering::Relaxed) < failures;
            if fails { served::failure(500) } else { list.clone() }
        })
    }

    /// The entries that stand.
    fn entries(name: &str) -> watch::Receiver<View<MutatingWebhookConfiguration>> {
        let entry = MutatingWebhook { name: name.to_owned(), ..MutatingWebhook::default() };
        let standing = MutatingWebhookConfiguration { webhooks: Some(vec![entry]), ..Default::default() };
        watch::channel(View::of(BTreeMap::from([("berth-manager".to_owned(), standing)]))).1
    }

    fn pod(api_version: &str, kind: &str) -> Request {
        let owner =
            json!({ "apiVersion": api_version, "kind": kind, "name": "web", "uid": "u", "controller": true });
        let pod = json!({ "metadata": { "name": "web-0", "ownerReferences": [owner] } });
        let (uid, namespace, operation) = ("u".to_owned(), "shop".to_owned(), "CREATE".to_owned());
        Request { uid, namespace, operation, object: pod, ..Request::default() }
    }

    const PODS: usize = 20;

    /// Pods that belong to nothing come in a row, twice.
    #[rstest]
    #[case::one_for_all("pods.workloadspreads.berth.dev", 2)]
    #[case::of_its_own("a.shop.workloadspread.berth.dev", 2 * PODS)]
    #[tokio::test(start_paused = true)]
    async fn a_pod_without_a_spread_is_not_listed_for(#[case] entry: &str, #[case] asked: usize) {
        let (client, lists) = client(json!([]));
        let placer = Placer {
            client,
            spreads: watch::channel(View::of(BTreeMap::new())).1,
            lists: Lists::new(entries(entry), one_is_for_all_spreads),
            locks: ObjectLocks::default(),
        };
        for _ in 0..2 {
            for _ in 0..PODS {
                assert_eq!(placer.place(&pod("batch/v1", "Job")).await, Verdict::AS_IT_IS);
            }
            tokio::time::advance(ANSWERS_FOR).await;
        }
        assert_eq!(lists.count(), asked);
    }

    #[rstest]
    #[case::one_for_all("pods.persistentpodstates.berth.dev", 2)]
    #[case::of_its_own("a.shop.persistentpodstate.berth.dev", 2 * PODS)]
    #[tokio::test(start_paused = true)]
    async fn a_pod_without_a_state_is_not_listed_for(#[case] entry: &str, #[case] asked: usize) {
        let (client, lists) = client(json!([]));
        let restorer = Restorer {
            client,
            states: watch::channel(View::of(BTreeMap::new())).1,
            lists: Lists::new(entries(entry), one_is_for_all_states),
        };
        for _ in 0..2 {
            for _ in 0..PODS {
                assert_eq!(restorer.restore(&pod("apps/v1", "StatefulSet")).await, Verdict::AS_IT_IS);
            }
            tokio::time::advance(ANSWERS_FOR).await;
        }
        assert_eq!(lists.count(), asked);
    }

    /// The watch is behind. A pod whose list fails is refused, and its next try is placed, and so are all
    /// others that come in that moment.
    #[tokio::test(start_paused = true)]
    async fn a_list_that_fails_answers_for_nobody() {
        let target = json!({ "apiVersion": "batch/v1", "kind": "Job", "name": "web" });
        let spread = json!({ "metadata": { "name": "a", "namespace": "shop" },
            "spec": { "targetRef": target, "subsets": [{ "name": "a" }] } });
        let (client, lists) = failing_client(json!([spread]), 1);
        let placer = Placer {
            client,
            spreads: watch::channel(View::of(BTreeMap::new())).1,
            lists: Lists::new(entries("pods.workloadspreads.berth.dev"), one_is_for_all_spreads),
            locks: ObjectLocks::default(),
        };
        let is_placed = |verdict: &Verdict| matches!(verdict, Verdict::Allowed { object: Some(_), .. });
        let first = placer.place(&pod("batch/v1", "Job")).await;
        assert!(!is_placed(&first) && first != Verdict::AS_IT_IS, "{first:?}");
        for _ in 0..PODS {
            assert!(is_placed(&placer.place(&pod("batch/v1", "Job")).await));
        }
        assert_eq!(lists.count(), 2);
    }

    /// Pods come in crowds, in these milliseconds, and are answered or not. There is one list.
    #[rstest]
    #[case::longer_than_it_answers(1500, &[(0, true), (2000, true)])]
    #[case::longer_than_anybody_waits(5000, &[(0, false), (3500, true), (5500, true)])]
    #[tokio::test(start_paused = true)]
    async fn a_slow_list_answers_all_who_wait(#[case] takes: u64, #[case] crowds: &[(u64, bool)]) {
        let (client, lists) = slow_client(json!([]), 0, Duration::from_millis(takes));
        let placer = Placer {
            client,
            spreads: watch::channel(View::of(BTreeMap::new())).1,
            lists: Lists::new(entries("pods.workloadspreads.berth.dev"), one_is_for_all_spreads),
            locks: ObjectLocks::default(),
        };
        let (begun, pod) = (Instant::now(), pod("batch/v1", "Job"));
        for (millis, answered) in crowds {
            tokio::time::sleep_until(begun + Duration::from_millis(*millis)).await;
            let verdicts = futures::future::join_all((0..PODS).map(|_| placer.place(&pod))).await;
            for verdict in verdicts {
                assert_eq!(verdict == Verdict::AS_IT_IS, *answered, "at {millis}: {verdict:?}");
            }
        }
        assert_eq!(lists.count(), 1);
    }

    /// A spread that cannot be read hides none that the watch has not shown yet.
    #[tokio::test]
    async fn one_that_cannot_be_read_hides_no_other() {
        let mut nested = json!({});
        for _ in 0..150 {
            nested = json!({ "a": nested });
        }
        let spread = |name: &str, patch: &Value| {
            let target = json!({ "apiVersion": "batch/v1", "kind": "Job", "name": "web" });
            json!({ "metadata": { "name": name, "namespace": "shop" },
                "spec": { "targetRef": target, "subsets": [{ "name": "a", "patch": patch }] } })
        };
        let (client, _) = client(json!([spread("a", &nested), spread("b", &json!({}))]));
        let placer = Placer {
            client,
            spreads: watch::channel(View::of(BTreeMap::new())).1,
            lists: Lists::new(entries("b.shop.workloadspread.berth.dev"), one_is_for_all_spreads),
            locks: ObjectLocks::default(),
        };
        let Verdict::Allowed { object: Some(pod), .. } = placer.place(&pod("batch/v1", "Job")).await else {
            panic!("not placed");
        };
        assert!(pod["metadata"]["annotations"].to_string().contains(r#"\"b\""#), "{pod}");
    }
}
