//! When the objects that have entries are looked at.

use std::any::Any;

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::{Client, client::Body};
use tower::service_fn;

use super::*;
use crate::admission::configuration::{Announcer, announce, announcements};

mod rivals;

/// A reconciler that is never answered, and those who tell it of changes.
struct Stage {
    reconciler: ConfigurationReconciler<MutatingWebhookConfiguration>,
    budgets: watch::Sender<View<BudgetKept>>,
    coming: Announcer,
    /// They end the reconciler when they go.
    _others: [Box<dyn Any>; 5],
}

fn stage() -> Stage {
    let asked = |_: http::Request<Body>| async {
        Err::<http::Response<Body>, _>(std::io::Error::other("nobody is asked"))
    };
    let (shower, shown) = watch::channel(View::default());
    let (set, sets) = watch::channel(View::default());
    let (budget, budgets) = watch::channel(View::default());
    let (spread, spreads) = watch::channel(View::default());
    let (state, states) = watch::channel(View::default());
    let (server, served) = watch::channel(Served::default());
    let (announcer, coming) = announcements();
    let reconciler = ConfigurationReconciler {
        api: Api::all(Client::new(service_fn(asked), "ns")),
        name: "berth-manager",
        service: Service { namespace: "berth-system".to_owned(), name: "berth-manager".to_owned() },
        options: Options::default(),
        precedence: Precedence::of(Writer::new(Default::default(), &"", &Desired::default())),
        shown,
        sets,
        budgets: (budgets, BudgetOptions { deletions: true, updates: true, ignore: false }),
        spreads: (spreads, SpreadOptions::default()),
        states: (states, StateOptions::default()),
        coming,
        served,
        bundled: watch::channel(Vec::new()).0,
        webhooks: None,
        entered: watch::channel(Entered::unknown()).0,
        metrics: Admission::default(),
    };
    let others: [Box<dyn Any>; 5] =
        [Box::new(shower), Box::new(set), Box::new(spread), Box::new(state), Box::new(server)];
    Stage { reconciler, budgets: budget, coming: announcer, _others: others }
}

/// The clock stands still but for the pauses.
#[tokio::test(start_paused = true)]
async fn many_changes_are_one_look_and_what_waits_for_its_entry_does_not_wait() {
    let Stage { mut reconciler, budgets, coming, _others } = stage();
    let changed = || budgets.send_modify(|_| {});
    let looked = Instant::now();
    changed();
    reconciler.news(looked).await.unwrap();
    assert_eq!(looked.elapsed().as_millis(), LOOKED_EVERY.as_millis());
    // The first change after some time.
    let now = Instant::now();
    changed();
    reconciler.news(looked).await.unwrap();
    assert_eq!(now.elapsed(), Duration::ZERO);
    announce(&coming.sets, "a", Default::default());
    reconciler.news(now).await.unwrap();
    assert_eq!(now.elapsed(), Duration::ZERO);
    changed();
    announce(&coming.sets, "b", Default::default());
    reconciler.news(now).await.unwrap();
    assert_eq!(now.elapsed(), Duration::ZERO, "though others have changed as well");
}
