//! A controller at an API server where webhooks fail in most namespaces.

use std::{sync::Mutex, time::Duration};

use berth_base::lease::{Tenure, Term};
use berth_workloads_policy::distribution::{Action, NamespaceView};
use http::Method;
use rstest::rstest;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{super::watches::Filed, *};
use crate::{event_loop::Listed, served, watch::Shown, write::Writer};

const PATIENCE: Duration = Duration::from_secs(60);

fn distribution(version: u64, status: &Value) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "ResourceDistribution",
        "metadata": { "name": "games", "uid": "rd", "generation": 1, "resourceVersion": version.to_string() },
        "spec": {
            "resource": { "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "game" }, "data": {} },
            "targets": { "allNamespaces": true },
        },
        "status": status,
    })
}

fn list(object: &Value) -> Value {
    json!({ "metadata": { "resourceVersion": "9" }, "items": [object] })
}

fn filed() -> Filed {
    Filed::read(serde_json::from_value(distribution(1, &Value::Null)).unwrap()).unwrap()
}

/// API server that lets nobody make a copy but in the last namespace, and says this instead. Namespaces in
/// which one was asked for.
fn server(code: u16) -> (Writer, Arc<Mutex<Vec<String>>>) {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = asked.clone();
    let writer = served::writer(move |method, path, body| {
        if *method == Method::PATCH {
            return distribution(2, &body["status"]);
        }
        if *method == Method::GET {
            return list(&distribution(1, &Value::Null));
        }
        let namespace = path.split('/').skip_while(|part| *part != "namespaces").nth(1).unwrap();
        seen.lock().unwrap().push(namespace.to_owned());
        if namespace == "ns-63" {
            let mut copy = body.clone();
            copy["metadata"]["uid"] = "copy".into();
            copy["metadata"]["resourceVersion"] = "3".into();
            return copy;
        }
        json!({ "kind": "Status", "status": "Failure", "code": code, "metadata": {}, "message": "a webhook",
            "reason": "" })
    });
    (writer, asked)
}

fn names() -> impl Iterator<Item = String> {
    (0..64).map(|number| format!("ns-{number:02}"))
}

/// Each error may be a webhook that hangs: a plan is not to have the place of others for a quarter of an
/// hour. After a plan with such errors all of the next one are met at once, so that it waits for one of them.
#[rstest]
#[case::errors(500, false, 7)]
#[case::errors_again(500, true, 16)]
#[case::refusals(403, false, 64)]
#[tokio::test]
async fn errors_of_the_api_server_are_few_requests_of_a_plan(
    #[case] code: u16,
    #[case] met_errors: bool,
    #[case] tried: usize,
) {
    let (writer, asked) = server(code);
    let object = filed().object;
    let rules = Arc::new(Rules::of(&object).unwrap());
    let actions = names().map(|namespace| Action::Create { namespace }).collect();
    let plan = Plan { actions, ..Plan::default() };
    let report = write::carry_out(writer, object, Some(rules), plan, names().collect(), met_errors).await;
    assert_eq!(report.met_errors, code == 500);
    assert_eq!((report.outcomes.len(), asked.lock().unwrap().len()), (tried, tried));
    assert_eq!(report.end, End::Done, "those that are left are the next plan's");
}

/// A controller that leads, and whose watches have shown the distribution and these namespaces.
async fn leads(
    writer: Writer,
    names: impl Iterator<Item = String>,
) -> (mpsc::Sender<Input>, watch::Sender<Option<Term>>) {
    let (inputs, receiver) = mpsc::channel(128);
    let (lease, tenure) = Tenure::of_test();
    let (listed, _) = watch::channel(Listed::default());
    tokio::spawn(Controller::new(Connections { tenure, writer, listed }, false, receiver).run());
    inputs.send(Input::Distribution(Shown::ListBegins)).await.unwrap();
    inputs.send(Input::Distribution(Shown::Applied(filed()))).await.unwrap();
    inputs.send(Input::Namespace(Shown::ListBegins)).await.unwrap();
    for name in names {
        let view = NamespaceView { uid: name.clone(), ..NamespaceView::default() };
        inputs.send(Input::Namespace(Shown::Applied((name, view)))).await.unwrap();
    }
    for input in [
        Input::Distribution(Shown::ListEnds),
        Input::Namespace(Shown::ListEnds),
        Input::Secret(Shown::ListEnds),
        Input::ConfigMap(Shown::ListEnds),
    ] {
        inputs.send(input).await.unwrap();
    }
    lease.send_replace(Some(Term::of_test(tokio::time::Instant::now() + Duration::from_secs(3600))));
    (inputs, lease)
}

/// The last namespace has its copy all the same.
#[tokio::test]
async fn no_namespace_waits_for_those_that_fail() {
    let (writer, asked) = server(500);
    let _controller = leads(writer, names()).await;
    let made = async {
        while !asked.lock().unwrap().iter().any(|namespace| namespace == "ns-63") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, made).await.is_ok(), "{:?}", asked.lock().unwrap());
}

/// A status that is answered with a conflict each time, or with 404, is written less and less often.
#[tokio::test]
async fn a_reading_between_two_failures_makes_the_pause_no_shorter() {
    let (_inputs, receiver) = mpsc::channel(1);
    let ((_lease, tenure), (listed, _)) = (Tenure::of_test(), watch::channel(Listed::default()));
    let connections = Connections { tenure, writer: server(500).0, listed };
    let mut controller = Controller::new(connections, true, receiver);
    let ends = |end: End| {
        let (uid, wrote, outcomes) = ("rd".to_owned(), Vec::new(), Vec::new());
        controller.settle(Report { uid, wrote, outcomes, met_errors: false, unkept: None, end });
        controller.backoff.get("rd").is_some_and(Backoff::fails)
    };
    let fails = [End::Changed, End::Read, End::Changed, End::Read, End::Done].map(ends);
    assert_eq!(fails, [false, false, true, true, false]);
}

/// The leader before this one has given out a newer one, which the watch has not shown here: it stays.
#[tokio::test]
async fn a_distribution_that_the_watch_shows_late_is_given_out_as_it_is() {
    let given: Arc<Mutex<Vec<Value>>> = Arc::default();
    let seen = given.clone();
    let writer = served::writer(move |method, _, body| {
        let mut now = distribution(5, &body["status"]);
        now["metadata"]["generation"] = 2.into();
        now["spec"]["resource"]["data"] = json!({ "level": "2" });
        if *method == Method::GET {
            return list(&now);
        }
        if *method == Method::PATCH {
            return now;
        }
        seen.lock().unwrap().push(body["data"].clone());
        let mut copy = body.clone();
        copy["metadata"]["uid"] = "copy".into();
        copy["metadata"]["resourceVersion"] = "6".into();
        copy
    });
    let _controller = leads(writer, ["ns".to_owned()].into_iter()).await;
    let made = async {
        while given.lock().unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, made).await.is_ok());
    assert_eq!(*given.lock().unwrap(), [json!({ "level": "2" })]);
}

/// The other one has its name by now, and the watch says so.
#[tokio::test]
async fn one_that_was_set_aside_is_read_when_there_is_room() {
    let writer = served::reads(|_, _| {
        let items = [distribution(3, &Value::Null)];
        json!({ "metadata": { "resourceVersion": "9" }, "items": items }).to_string()
    });
    for (uid, read, expected) in [("rd", 1, End::Read), ("another", 0, End::Changed)] {
        let report = write::read(writer.clone(), "games".to_owned(), uid.to_owned()).await;
        assert_eq!((report.wrote.len(), report.end), (read, expected), "{uid}");
    }
}
