//! Objects of one kind as the API server shows them, kept for readers. A change of what is kept is seen by
//! all of them, and objects are read in place. An event that changes nothing of it, as one of a status does,
//! is none to them: they go over all objects.

mod room;

use std::{collections::BTreeMap, future::pending, pin::pin, time::Duration};

use berth_base::sent::full_name;
use futures::StreamExt;
use kube::{
    Api, Resource,
    runtime::watcher::{self, Event},
};
use serde::de::DeserializeOwned;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use tracing::{info, warn};

pub(super) use self::room::Bound;
use self::room::Room;
use crate::{
    reads::SMALL_PAGE,
    time::reached,
    watch::{Failure, Outage, WATCH_SECONDS, is_too_old},
};

/// Objects of one kind by name, of namespaced ones by `namespace/name`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct View<V> {
    objects: BTreeMap<String, V>,
    /// Whether all of them have been listed once, or the kind is known not to be installed.
    listed: bool,
}

impl<V> Default for View<V> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), listed: false }
    }
}

impl<V> View<V> {
    /// All objects, as they were listed.
    pub(super) fn of(objects: BTreeMap<String, V>) -> Self {
        Self { objects, listed: true }
    }

    /// Returns the objects, if they have been listed.
    pub(super) fn listed(&self) -> Option<&BTreeMap<String, V>> {
        self.listed.then_some(&self.objects)
    }

    /// Returns one of them.
    pub(super) fn get(&self, name: &str) -> Option<&V> {
        self.objects.get(name)
    }
}

/// Watches the objects that `config` selects, for ever, in pages of its size, and keeps of each what `keep`
/// makes of it. `what` names them in the log.
pub(super) async fn follow<K, V: PartialEq>(
    api: Api<K>,
    config: watcher::Config,
    what: &'static str,
    keep: impl Fn(K) -> Option<V>,
    view: watch::Sender<View<V>>,
) where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    follow_within(api, config, what, keep, None, view).await;
}

/// Watches them, and keeps as much of them as there is room for.
async fn follow_within<K, V: PartialEq>(
    api: Api<K>,
    config: watcher::Config,
    what: &'static str,
    keep: impl Fn(K) -> Option<V>,
    mut room: Option<Room<V>>,
    view: watch::Sender<View<V>>,
) where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    let config = config.timeout(WATCH_SECONDS);
    let mut events = pin!(watcher::watcher(api.clone(), config.clone()));
    let mut fresh = BTreeMap::new();
    let mut outage = Outage::default();
    let mut is_listing = true;
    loop {
        let due = room.as_ref().and_then(|room| room.next(Instant::now()));
        // Cancel-safe: the stream keeps what it has not given, and the time comes again.
        let event = tokio::select! {
            event = events.next() => event,
            () = reached(due), if !is_listing => {
                info!(what, "Room for what was not kept, all are listed");
                if let Some(room) = &mut room {
                    room.lists(Instant::now());
                }
                events.set(watcher::watcher(api.clone(), config.clone()));
                is_listing = true;
                continue;
            }
        };
        let pause = match event {
            None => return,
            Some(Ok(event)) => {
                // That a list begins is only an intention.
                if !matches!(event, Event::Init) && outage.ends() {
                    info!(what, "Watch follows again");
                }
                match &event {
                    Event::Init => is_listing = true,
                    Event::InitDone => is_listing = false,
                    _ => {}
                }
                take(event, &mut fresh, &mut room, &keep, &view);
                None
            }
            Some(Err(error)) => {
                if is_too_old(&error) {
                    events.set(watcher::watcher(api.clone(), config.clone()));
                    is_listing = true;
                }
                Some(lost(outage.fails(&error), what, &view))
            }
        };
        if let Some(pause) = pause {
            sleep(pause).await;
        }
    }
}

/// Watches all objects of a kind that OpenKruise has as well, as [`follow`] does, if it is ours. One that is
/// not shows none. They may be as large as their authors like, and within `bound` as many.
pub(super) async fn follow_owned<K, V: PartialEq>(
    ours: bool,
    api: Api<K>,
    what: &'static str,
    keep: impl Fn(K) -> Option<V>,
    bound: Option<Bound<V>>,
    view: watch::Sender<View<V>>,
) where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    if ours {
        let config = watcher::Config::default().page_size(SMALL_PAGE);
        let room = bound.map(|bound| Room::new(what, bound));
        return follow_within(api, config, what, keep, room, view).await;
    }
    drop(view.send_replace(View::of(BTreeMap::new())));
    // Its readers take the end of the view for the end of the program.
    pending::<()>().await;
    drop(view);
}

fn take<K: Resource, V: PartialEq>(
    event: Event<K>,
    fresh: &mut BTreeMap<String, V>,
    room: &mut Option<Room<V>>,
    keep: &impl Fn(K) -> Option<V>,
    view: &watch::Sender<View<V>>,
) {
    match event {
        Event::Init => {
            fresh.clear();
            room.iter_mut().for_each(Room::list_begins);
        }
        Event::InitApply(object) => {
            let name = key(&object);
            if let Some(kept) = fitting(keep(object), &name, room) {
                fresh.insert(name, kept);
            }
        }
        Event::InitDone => {
            room.iter_mut().for_each(Room::list_ends);
            let next = View::of(std::mem::take(fresh));
            view.send_if_modified(|view| {
                let is_news = *view != next;
                if is_news {
                    *view = next;
                }
                is_news
            });
        }
        Event::Apply(object) => {
            let name = key(&object);
            let kept = fitting(keep(object), &name, room);
            view.send_if_modified(|view| match kept {
                Some(kept) if view.objects.get(&name) == Some(&kept) => false,
                Some(kept) => {
                    view.objects.insert(name, kept);
                    true
                }
                None => view.objects.remove(&name).is_some(),
            });
        }
        Event::Delete(object) => {
            let name = key(&object);
            room.iter_mut().for_each(|room| room.gone(&name));
            view.send_if_modified(|view| view.objects.remove(&name).is_some());
        }
    }
    room.iter_mut().for_each(|room| make_room(room, fresh, view));
}

/// As much of an object as there is room for.
fn fitting<V>(kept: Option<V>, name: &str, room: &mut Option<Room<V>>) -> Option<V> {
    let Some(room) = room else { return kept };
    if kept.is_none() {
        room.gone(name);
    }
    kept.map(|kept| room.fit(name, kept))
}

/// Keeps little of objects for which there is no room any more, wherever they are.
fn make_room<V>(room: &mut Room<V>, fresh: &mut BTreeMap<String, V>, view: &watch::Sender<View<V>>) {
    let bare = room.news();
    let strip = |objects: &mut BTreeMap<String, V>| {
        let mut any = false;
        for name in &bare {
            if let Some(whole) = objects.remove(name) {
                objects.insert(name.clone(), room.bare(whole));
                any = true;
            }
        }
        any
    };
    strip(fresh);
    view.send_if_modified(|view| strip(&mut view.objects));
}

fn key(object: &impl Resource) -> String {
    full_name(object.meta())
}

/// A watch broke: its objects stay. A kind that is not installed has none. Returns when to try again.
fn lost<V>(failure: Failure, what: &str, view: &watch::Sender<View<V>>) -> Duration {
    let Failure { absent, news, pause } = failure;
    if let Some(error) = news {
        warn!(what, absent, error, "Watch lost, what it showed stays");
    }
    if absent {
        view.send_if_modified(|view| !std::mem::replace(&mut view.listed, true));
    }
    pause
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use k8s_openapi::api::core::v1::Namespace;
    use kube::{Client, ResourceExt, client::Body};
    use serde_json::{Value, json};
    use tokio::sync::mpsc;
    use tower::service_fn;

    use super::*;
    use crate::admission::{budgets, pod_states, sets, spreads};

    fn object(name: &str, version: &str) -> Namespace {
        serde_json::from_value(json!({"metadata": {"name": name, "resourceVersion": version}})).unwrap()
    }

    #[test]
    fn a_new_list_takes_the_place_of_the_old_one() {
        let (view, shown) = watch::channel(View::default());
        let mut fresh = BTreeMap::new();
        let keep = |object: Namespace| object.resource_version().filter(|version| version != "bad");
        let mut tell = |event| take(event, &mut fresh, &mut None, &keep, &view);
        tell(Event::Init);
        tell(Event::InitApply(object("a", "1")));
        tell(Event::InitApply(object("b", "1")));
        assert!(shown.borrow().listed().is_none(), "half a list is none");
        tell(Event::InitDone);
        tell(Event::Apply(object("a", "2")));
        tell(Event::Delete(object("b", "1")));
        assert_eq!(shown.borrow().listed().unwrap(), &BTreeMap::from([("a".to_owned(), "2".to_owned())]));
        tell(Event::Init);
        tell(Event::InitApply(object("c", "3")));
        assert_eq!(shown.borrow().get("a").map(String::as_str), Some("2"), "kept while it is listed anew");
        tell(Event::InitDone);
        assert_eq!(shown.borrow().listed().unwrap().len(), 1);
        // One that cannot be read any more is not kept as it was.
        tell(Event::Apply(object("c", "bad")));
        assert!(shown.borrow().get("c").is_none());
    }

    /// Texts are versions of objects, and of one that is bare a letter is left.
    #[test]
    fn what_there_is_no_room_for_is_bare() {
        let (view, mut shown) = watch::channel(View::default());
        let mut fresh = BTreeMap::new();
        let bare = |text: String| text.chars().take(1).collect::<String>();
        let mut room = Some(Room::new("texts", Bound { most: 800, bytes: String::len, bare }));
        let keep = |object: Namespace| object.resource_version().filter(|version| version != "bad");
        let mut tell = |event| take(event, &mut fresh, &mut room, &keep, &view);
        let mut all = || {
            let lengths = shown.borrow_and_update();
            let lengths = lengths.objects.iter().map(|(name, text)| format!("{name}{}", text.len()));
            lengths.collect::<Vec<_>>().join(" ")
        };
        let text = |length: usize| "7".repeat(length);
        tell(Event::Init);
        tell(Event::InitApply(object("a", &text(600))));
        tell(Event::InitApply(object("b", &text(300))));
        tell(Event::InitDone);
        assert_eq!(all(), "a1 b300", "while they are listed");
        tell(Event::Apply(object("c", &text(350))));
        assert_eq!(all(), "a1 b300 c350");
        tell(Event::Apply(object("d", &text(250))));
        assert_eq!(all(), "a1 b300 c1 d250", "one that was there");
        // One that cannot be read any more takes nothing, nor does one that is gone.
        tell(Event::Apply(object("a", "bad")));
        tell(Event::Delete(object("b", "1")));
        assert_eq!(all(), "c1 d250");
        tell(Event::Init);
        tell(Event::InitApply(object("c", &text(350))));
        tell(Event::InitApply(object("d", &text(250))));
        tell(Event::InitDone);
        assert_eq!(all(), "c350 d250");
        assert!(room.unwrap().next(Instant::now()).is_some(), "they were to be listed");
    }

    /// A page is read as a whole, and its authors decide how large an object is.
    #[tokio::test]
    async fn a_list_comes_in_pages() {
        let (told, mut asked) = mpsc::unbounded_channel();
        let service = service_fn(move |request: http::Request<Body>| {
            told.send(request.uri().to_string()).unwrap();
            std::future::pending::<Result<http::Response<Body>, Infallible>>()
        });
        let api: Api<Namespace> = Api::all(Client::new(service, "default"));
        let (view, _shown) = watch::channel(View::default());
        tokio::select! {
            () = follow_owned(true, api, "all", |_| None::<()>, None, view) => panic!("ended"),
            path = asked.recv() => {
                let path = path.unwrap();
                assert!(path.contains(&format!("limit={SMALL_PAGE}")), "{path}");
            }
        }
    }

    /// Tells of an object in four ways, and says which of them its readers see.
    fn seen<K, V>(keep: fn(K) -> Option<V>, kind: &str, spec: &Value, other: &Value) -> [bool; 4]
    where
        K: Resource + DeserializeOwned,
        V: PartialEq,
    {
        let object = |version: &str, spec: &Value, status: Value| -> K {
            let metadata = json!({"namespace": "shop", "name": "a", "uid": "u", "resourceVersion": version});
            let object = json!({ "apiVersion": "apps.kruise.io/v1alpha1", "kind": kind, "metadata": metadata,
                "spec": spec, "status": status });
            serde_json::from_value(object).unwrap()
        };
        let status = |number: i64| json!({ "observedGeneration": number });
        let (view, mut shown) = watch::channel(View::default());
        let mut fresh = BTreeMap::new();
        let mut news = |events: Vec<Event<K>>| {
            events.into_iter().for_each(|event| take(event, &mut fresh, &mut None, &keep, &view));
            let news = shown.has_changed().unwrap();
            shown.mark_unchanged();
            news
        };
        let listed = |object| vec![Event::Init, Event::InitApply(object), Event::InitDone];
        [
            news(listed(object("1", spec, status(1)))),
            news(vec![Event::Apply(object("2", spec, status(2)))]),
            news(listed(object("3", spec, status(3)))),
            news(vec![Event::Apply(object("4", other, status(3)))]),
        ]
    }

    /// Statuses change all the time where pods come and go, and all entries would be computed anew.
    #[test]
    fn a_status_is_no_news() {
        let budget = |most: i64| json!({"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": most});
        let target = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"});
        let spread = |name: &str| json!({"targetRef": target, "subsets": [{"name": name}]});
        let state = |name: &str| json!({"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name}, "requiredPersistentTopology": {"nodeTopologyKeys": ["zone"]}});
        let set = |app: &str| json!({"selector": {"matchLabels": {"app": app}}, "containers": [{"name": "a", "image": "a"}]});
        let first_and_last = [true, false, false, true];
        let of_budgets = seen(budgets::read, "PodUnavailableBudget", &budget(1), &budget(2));
        assert_eq!(of_budgets, first_and_last);
        assert_eq!(seen(spreads::read, "WorkloadSpread", &spread("a"), &spread("b")), first_and_last);
        assert_eq!(seen(pod_states::read, "PersistentPodState", &state("a"), &state("b")), first_and_last);
        assert_eq!(seen(sets::read, "SidecarSet", &set("a"), &set("b")), first_and_last);
    }
}
