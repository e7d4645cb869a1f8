//! Replicas that want different entries, at one API server.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use http::Response;
use http_body_util::BodyExt;
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhook;
use rstest::rstest;
use serde_json::json;
use tokio::task::JoinHandle;

use super::*;
use crate::{
    admission::{certificates::made_for_tests, configuration::sample, sets::SetRules},
    budgets::Budget,
    store::Reach,
};

mod refusals;

type Changes = MutatingWebhookConfiguration;

const NAME: &str = "berth-manager";

/// The configuration at the API server, and who watches it.
#[derive(Default)]
struct Server {
    stored: Changes,
    writes: usize,
    watches: Vec<watch::Sender<View<Changes>>>,
    /// Says which entries a policy refuses.
    policy: Option<fn(&MutatingWebhook) -> bool>,
    /// Time that an answer takes.
    takes: Duration,
    /// Number of the dry runs.
    tried: usize,
}

impl Server {
    fn new() -> Arc<Mutex<Self>> {
        let mut server = Self::default();
        server.stored.metadata.name = Some(NAME.to_owned());
        server.stored.metadata.resource_version = Some("0".to_owned());
        Arc::new(Mutex::new(server))
    }

    fn store(&mut self, mut next: Changes) {
        self.writes += 1;
        next.metadata.resource_version = Some(self.writes.to_string());
        self.stored = next;
        let shown = View::of([(NAME.to_owned(), self.stored.clone())].into());
        self.watches.retain(|watch| watch.send(shown.clone()).is_ok());
    }

    /// Writes this, if nobody was first and no policy is against it; nothing in a dry run.
    fn replace(&mut self, next: Changes, dry: bool) -> Response<Body> {
        self.tried += usize::from(dry);
        let is_new = next.metadata.resource_version == self.stored.metadata.resource_version;
        let refuses = self.policy.unwrap_or(|_: &MutatingWebhook| false);
        let refused = if is_new {
            let refused = next.webhooks.iter().flatten().any(refuses);
            refused.then_some(("Forbidden", 403, "denied request"))
        } else {
            Some(("Conflict", 409_u16, "changed"))
        };
        let (code, body) = if let Some((reason, code, message)) = refused {
            let status = json!({ "kind": "Status", "reason": reason, "message": message, "code": code });
            (code, serde_json::to_vec(&status))
        } else if dry {
            (200, serde_json::to_vec(&next))
        } else {
            self.store(next);
            (200, serde_json::to_vec(&self.stored))
        };
        Response::builder().status(code).body(Body::from(body.unwrap())).unwrap()
    }
}

/// Names of the entries that stand, without the domain.
fn standing(server: &Mutex<Server>) -> Vec<String> {
    let server = server.lock().unwrap();
    let entries = server.stored.webhooks.iter().flatten();
    entries.map(|entry| entry.name.trim_end_matches(".berth.dev").to_owned()).collect()
}

struct Replica {
    task: JoinHandle<()>,
    sets: watch::Sender<View<SetSeen>>,
    budgets: watch::Sender<View<BudgetKept>>,
    bundled: watch::Receiver<Vec<u8>>,
    entered: watch::Receiver<Entered>,
    _others: [Box<dyn Any>; 5],
}

/// A replica that was started then. It wants an entry for the readiness gate, or not.
fn replica(server: &Arc<Mutex<Server>>, served: &Served, started: i64, gate: bool) -> Replica {
    let Stage { mut reconciler, budgets, coming, _others } = stage();
    let shared = server.clone();
    let asked = move |request: http::Request<Body>| {
        let server = shared.clone();
        async move {
            let dry = request.uri().query().is_some_and(|query| query.contains("dryRun=All"));
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let next = serde_json::from_slice(&body).unwrap();
            let takes = server.lock().unwrap().takes;
            if !takes.is_zero() {
                sleep(takes).await;
            }
            Ok::<_, Infallible>(server.lock().unwrap().replace(next, dry))
        }
    };
    reconciler.api = Api::all(Client::new(service_fn(asked), "ns"));
    reconciler.options.pod_readiness_gate = gate;
    // Two builds: they were told the same.
    let choices = Choices {
        others: reconciler.options,
        budgets: reconciler.budgets.1,
        spreads: reconciler.spreads.1,
        states: reconciler.states.1,
    };
    let wanted = sample(&reconciler.service, choices);
    let started = Timestamp::from_second(started).unwrap();
    reconciler.precedence = Precedence::of(Writer::new(started, &"", &wanted));
    let mut server = server.lock().unwrap();
    let shown = View::of([(NAME.to_owned(), server.stored.clone())].into());
    let (shower, shown) = watch::channel(shown);
    server.watches.push(shower);
    let (set, sets) = watch::channel(View::of(BTreeMap::new()));
    let none = (
        watch::channel(View::of(BTreeMap::new())),
        watch::channel(View::of(BTreeMap::new())),
        watch::channel(View::of(BTreeMap::new())),
    );
    let (server, served) = watch::channel(served.clone());
    let (bundle, bundled) = watch::channel(Vec::new());
    let (enters, entered) = watch::channel(Entered::unknown());
    reconciler.entered = enters;
    (reconciler.shown, reconciler.sets) = (shown, sets);
    (reconciler.served, reconciler.bundled) = (served, bundle);
    (reconciler.budgets.0, reconciler.spreads.0, reconciler.states.0) = (none.0.1, none.1.1, none.2.1);
    let others: [Box<dyn Any>; 5] = [
        Box::new((budgets, coming)),
        Box::new(_others),
        Box::new(none.1.0),
        Box::new(none.2.0),
        Box::new(server),
    ];
    let task = tokio::spawn(reconciler.run());
    Replica { task, sets: set, budgets: none.0.0, bundled, entered, _others: others }
}

fn certificate() -> Served {
    let (mut served, _) = made_for_tests("berth-manager.berth-system.svc");
    served.bundle = b"bundle".to_vec();
    served
}

fn set(names: &[&str]) -> View<SetSeen> {
    let one = |name: &&str| {
        let selector = serde_json::from_value(json!({ "matchLabels": { "app": name } })).ok();
        let reach = Reach { selector, ..Reach::default() };
        let rules = SetRules { reach, ..SetRules::default() };
        ((*name).to_owned(), SetSeen { rules, set: Err("not needed here".to_owned()), bytes: 0 })
    };
    View::of(names.iter().map(one).collect())
}

async fn pass(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

const GATE: &str = "readiness-gate.pods";

fn has(server: &Mutex<Server>, name: &str) -> bool {
    standing(server).iter().any(|entry| entry == name)
}

fn writes(server: &Mutex<Server>) -> usize {
    server.lock().unwrap().writes
}

/// The budget of a namespace.
fn budget(namespace: &str) -> View<BudgetKept> {
    let spec = json!({ "selector": { "matchLabels": { "app": "web" } }, "maxUnavailable": 1 });
    let kept = BudgetKept {
        namespace: namespace.to_owned(),
        name: "b".to_owned(),
        selector: serde_json::from_value(spec["selector"].clone()).ok(),
        budget: Budget::parse(&serde_json::from_value(spec).unwrap(), &BTreeMap::new()),
    };
    View::of([(format!("{namespace}/b"), kept)].into())
}

/// A budget is told of when its entry stands, and not when it is wanted.
#[tokio::test(start_paused = true)]
async fn a_budget_is_asked_about_when_its_entry_stands() {
    let (server, served) = (Server::new(), certificate());
    let one = replica(&server, &served, 10, false);
    pass(1).await;
    let told = |one: &Replica| one.entered.borrow().clone();
    let mut expected = Entered::unknown();
    assert_eq!(told(&one), expected);
    expected.stand(0, [&"shop/b".to_owned()].into_iter());
    // Nobody writes meanwhile.
    let version = server.lock().unwrap().stored.metadata.resource_version.replace("old".to_owned());
    one.budgets.send_replace(budget("shop"));
    pass(1).await;
    assert!(!has(&server, "evictions.podunavailablebudgets") && told(&one) == Entered::unknown());
    server.lock().unwrap().stored.metadata.resource_version = version;
    pass(60).await;
    assert!(has(&server, "evictions.podunavailablebudgets"));
    assert_eq!(told(&one), expected);
}

/// The later one wants fewer entries, or more.
#[rstest]
#[case::fewer(true)]
#[case::more(false)]
#[tokio::test(start_paused = true)]
async fn the_later_one_has_its_way(#[case] gate: bool) {
    let (server, served) = (Server::new(), certificate());
    let older = [replica(&server, &served, 10, gate), replica(&server, &served, 11, gate)];
    pass(100).await;
    assert_eq!((writes(&server), has(&server, GATE)), (1, gate));
    let newer = replica(&server, &served, 20, !gate);
    pass(1).await;
    let all = older.iter().chain([&newer]);
    assert!(all.clone().all(|one| *one.bundled.borrow() == b"bundle"), "all are ready");
    assert_eq!((writes(&server), has(&server, GATE)), (2, !gate));

    // A set that one of the older ones hears of first.
    older[0].sets.send_replace(set(&["a"]));
    pass(1).await;
    assert_eq!((writes(&server), has(&server, GATE), has(&server, "a.sidecarset")), (3, !gate, true));
    for one in all {
        one.sets.send_replace(set(&["a"]));
    }
    pass(20).await;
    assert_eq!((writes(&server), has(&server, "a.sidecarset")), (3, true));
    assert!(!older[0].task.is_finished() && *older[0].bundled.borrow() == b"bundle");

    // The update ends.
    older.iter().for_each(|one| one.task.abort());
    newer.sets.send_replace(set(&[]));
    pass(600).await;
    assert_eq!((writes(&server), has(&server, GATE), has(&server, "a.sidecarset")), (4, !gate, false));
}

/// The later one is gone, and its place stays empty.
#[tokio::test(start_paused = true)]
async fn an_older_one_goes_on_alone() {
    let (server, served) = (Server::new(), certificate());
    let older = [replica(&server, &served, 10, true), replica(&server, &served, 11, true)];
    pass(1).await;
    let newer = replica(&server, &served, 20, false);
    pass(1).await;
    newer.task.abort();
    // What changes is written at once.
    older[1].sets.send_replace(set(&["a", "b"]));
    pass(1).await;
    assert!(has(&server, "a.sidecarset") && has(&server, "b.sidecarset") && !has(&server, GATE));
    older.iter().for_each(|one| drop(one.sets.send_replace(set(&["b"]))));
    pass(1).await;
    assert!(!has(&server, "a.sidecarset") && has(&server, "b.sidecarset") && !has(&server, GATE));
    pass(75).await;
    assert!(has(&server, GATE) && has(&server, "b.sidecarset"));
    assert_eq!(writes(&server), 5);
    pass(600).await;
    assert_eq!(writes(&server), 5);
}

/// An update that never ends.
#[tokio::test(start_paused = true)]
async fn entries_stay_while_both_live() {
    let (server, served) = (Server::new(), certificate());
    let _older = [replica(&server, &served, 10, true), replica(&server, &served, 11, true)];
    pass(1).await;
    let _newer = replica(&server, &served, 20, false);
    let mut others = 0;
    for _ in 0..3600 {
        pass(1).await;
        others += usize::from(has(&server, GATE));
    }
    // At 1, 3, 7, 15 and 31 minutes each of the older ones may look whether the later one lives.
    assert!(writes(&server) <= 2 + 5 * 4 && others <= 1, "{} writes, {others}", writes(&server));
}

/// Another program writes its own each time, and says nothing of itself: an older version.
#[rstest]
#[case::at_once(0)]
#[case::after_some_time(40)]
#[tokio::test(start_paused = true)]
async fn one_that_is_overwritten_is_ready(#[case] millis: u64) {
    let (server, served) = (Server::new(), certificate());
    let (shower, mut shown) = watch::channel(View::default());
    let wants = || Some(vec![MutatingWebhook { name: "old.berth.dev".to_owned(), ..Default::default() }]);
    let stored = server.clone();
    server.lock().unwrap().watches.push(shower);
    let rival = tokio::spawn(async move {
        while shown.changed().await.is_ok() {
            sleep(Duration::from_millis(millis)).await;
            let mut server = stored.lock().unwrap();
            if server.stored.webhooks != wants() {
                let next = Changes { webhooks: wants(), ..server.stored.clone() };
                server.store(next);
            }
        }
    });
    let mut newer = replica(&server, &served, 20, false);
    let ready = timeout(Duration::from_secs(5), newer.bundled.wait_for(|bundle| bundle == b"bundle")).await;
    assert!(ready.unwrap().is_ok());
    // They write ever more slowly, and the one that is left has its way.
    pass(600).await;
    let written = writes(&server);
    assert!(written < 70, "{written}");
    rival.abort();
    pass(60).await;
    assert!(has(&server, "defaults.sidecarsets") && writes(&server) <= written + 1);
}

/// Somebody changes the entries, and the annotation with them or not: they are put right at once.
#[rstest]
#[case::entries_alone(false)]
#[case::both(true)]
#[tokio::test(start_paused = true)]
async fn what_is_spoiled_is_put_right(#[case] both: bool) {
    let (server, served) = (Server::new(), certificate());
    let _two = [replica(&server, &served, 10, true), replica(&server, &served, 11, true)];
    pass(100).await;
    {
        let mut server = server.lock().unwrap();
        let mut next = Changes { webhooks: None, ..server.stored.clone() };
        next.metadata.annotations.take_if(|_| both);
        server.store(next);
    }
    pass(1).await;
    assert!(has(&server, GATE));
}
