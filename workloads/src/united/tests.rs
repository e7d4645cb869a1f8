//! A controller of UnitedDeployments at an API server in memory.

use std::time::{Duration, Instant};

use berth_base::lease::{Tenure, Term};
use berth_workloads_policy::united_deployment::{KINDS, UID_LABEL};
use http::Method;
use rstest::rstest;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{object::Filed, watches::Input, *};
use crate::{served::Served, timing::most_failing, watch::Shown};

fn object(name: &str) -> Value {
    let labels = json!({ "app": name });
    let template = json!({
        "metadata": { "labels": labels },
        "spec": { "containers": [{ "name": "main", "image": "a:1" }] },
    });
    let deployment = json!({
        "metadata": { "labels": labels },
        "spec": { "selector": { "matchLabels": labels }, "template": template },
    });
    json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "UnitedDeployment",
        "metadata": { "namespace": "ns", "name": name, "uid": name, "resourceVersion": "1", "generation": 1 },
        "spec": {
            "replicas": 0,
            "selector": { "matchLabels": labels },
            "template": { "deploymentTemplate": deployment },
            "topology": { "subsets": [] },
        },
    })
}

/// A replica that leads, and whose watches have shown these and show nothing of what is written.
async fn replica(served: &Served, shown: &[Value]) -> (mpsc::Sender<Input>, watch::Sender<Option<Term>>) {
    let (inputs, receiver) = mpsc::channel(INPUTS);
    let (lease, tenure) = Tenure::of_test();
    let (listed, _) = watch::channel(Listed::default());
    let connections = Connections { tenure, writer: served.writer(), listed };
    tokio::spawn(Controller::new(UnitedDeployments::default(), connections, receiver).run());
    inputs.send(Input::United(Shown::ListBegins)).await.unwrap();
    for object in shown {
        let filed = Filed::read(serde_json::from_value(object.clone()).unwrap()).unwrap();
        inputs.send(Input::United(Shown::Applied(filed))).await.unwrap();
    }
    inputs.send(Input::United(Shown::ListEnds)).await.unwrap();
    for kind in KINDS {
        inputs.send(Input::Child(kind, Shown::ListEnds)).await.unwrap();
    }
    inputs.send(Input::Revision(Shown::ListEnds)).await.unwrap();
    inputs.send(Input::Pod(Shown::ListEnds)).await.unwrap();
    lease.send_replace(Some(Term::of_test(tokio::time::Instant::now() + Duration::from_secs(3600))));
    (inputs, lease)
}

/// Objects are read at the start of a term, once for all of a namespace, and none by itself. A replica that
/// follows on another one writes nothing where nothing is to be done, whatever its watches have shown.
#[tokio::test]
async fn a_term_begins_with_one_list_of_each_kind_for_all_of_them() {
    let served = Served::default();
    let shown: Vec<Value> = (0..20).map(|number| object(&format!("shop-{number}"))).collect();
    shown.iter().for_each(|object| served.put("uniteddeployments", object));
    let _one = replica(&served, &shown).await;
    served.until("all are planned", |served| served.count("PATCH uniteddeployments one") >= 20).await;
    served.rests().await;
    let writes = served.writes();
    let _two = replica(&served, &shown).await;
    served.until("all is read again", |served| served.count("GET uniteddeployments") == 2).await;
    served.rests().await;
    // Two kinds have this plural.
    let lists = [("statefulsets", 4), ("clonesets", 2), ("deployments", 2), ("controllerrevisions", 2)];
    for (plural, times) in lists.into_iter().chain([("uniteddeployments", 2)]) {
        let asked = (served.count(&format!("GET {plural}")), served.count(&format!("GET {plural} one")));
        assert_eq!(asked, (times, 0), "{plural}");
    }
    assert_eq!(served.writes(), writes, "{served:?}");
}

/// An API server, or a webhook before it, that has errors of its own is not asked for all subsets in a plan,
/// and the others come first in the next one.
#[tokio::test]
async fn errors_of_the_api_server_are_few_requests_of_a_plan() {
    let served = Served::default();
    let subsets: Vec<String> = (0..12).map(|at| format!("s-{at:02}")).collect();
    subsets.iter().take(10).for_each(|subset| served.refuse(Method::POST, subset, 500));
    let mut shop = object("shop");
    shop["spec"]["replicas"] = 12.into();
    shop["spec"]["topology"]["subsets"] = subsets.iter().map(|name| json!({ "name": name })).collect();
    served.put("uniteddeployments", &shop);
    let _one = replica(&served, &[shop]).await;
    let made = |served: &Served| served.names("deployments").len() == 2;
    served.until("the others are made", made).await;
    // All is read between two plans.
    let tries = served.tries("POST deployments", "GET uniteddeployments one");
    assert!(tries.iter().all(|tries| *tries <= 6), "{tries:?}");
    assert_eq!(tries.first(), Some(&4), "{tries:?}");
    served.relent();
    served.until("all are made", |served| served.names("deployments").len() == 12).await;
}

/// A webhook caps what is written: the workload is as it is, the status says so, and the API server is asked
/// less and less.
#[rstest]
#[case::replicas(|workload: &mut Value| {
    let replicas = &mut workload["spec"]["replicas"];
    *replicas = replicas.as_i64().map(|replicas| replicas.min(3)).into();
})]
#[case::an_annotation(|workload: &mut Value| {
    let annotations = workload["metadata"]["annotations"].as_object_mut();
    annotations.and_then(|all| all.remove("berth.dev/subset-hash"));
})]
#[tokio::test]
async fn what_the_cluster_changes_is_not_written_for_ever(#[case] webhook: fn(&mut Value)) {
    let served = Served::default();
    served.change(webhook);
    let mut shop = object("shop");
    shop["spec"]["replicas"] = 5.into();
    shop["spec"]["topology"]["subsets"] = json!([{ "name": "a" }]);
    served.put("uniteddeployments", &shop);
    let begun = Instant::now();
    let _one = replica(&served, &[shop]).await;
    let says = |served: &Served| {
        served
            .get("uniteddeployments", "shop")
            .is_some_and(|one| one["status"].to_string().contains("webhooks"))
    };
    served.until("it is said", says).await;
    tokio::time::sleep(Duration::from_millis(1400)).await;
    // Less and less often, and once before the first one that failed.
    let (tries, most) = (served.count("PUT deployments one"), 1 + most_failing(begun.elapsed()));
    assert!((1..=most).contains(&tries), "{tries}, at most {most}: {served:?}");
    assert_eq!(served.names("deployments").len(), 1);
}

/// A UnitedDeployment with one subset of one pod.
fn of_one_subset() -> Value {
    let mut shop = object("shop");
    shop["spec"]["replicas"] = 1.into();
    shop["spec"]["topology"]["subsets"] = json!([{ "name": "blue" }]);
    shop
}

/// A revision that came without a label of ours gets one, and is there after all is read anew.
#[tokio::test]
async fn a_revision_of_openkruise_is_adopted() {
    let (before, shop) = (Served::default(), of_one_subset());
    before.put("uniteddeployments", &shop);
    let replica_before = replica(&before, std::slice::from_ref(&shop)).await;
    before.until("it is carried out", |served| served.names("deployments").len() == 1).await;
    drop(replica_before);
    let names = before.names("controllerrevisions");
    let mut revision = before.get("controllerrevisions", &names[0]).unwrap();
    revision["metadata"]["labels"].as_object_mut().unwrap().remove(UID_LABEL).unwrap();

    let served = Served::default();
    served.put("uniteddeployments", &shop);
    served.put("controllerrevisions", &revision);
    served.refuse(Method::POST, "blue", 500);
    let _one = replica(&served, &[shop]).await;
    let is_read = |served: &Served| served.count("GET uniteddeployments one") >= 2;
    served.until("all is read anew, and again", is_read).await;
    served.relent();
    served.until("it goes on", |served| served.names("deployments").len() == 1).await;
    served.rests().await;
    assert_eq!(served.names("controllerrevisions"), names);
    let labels = served.get("controllerrevisions", &names[0]).unwrap()["metadata"]["labels"].clone();
    assert_eq!((labels[UID_LABEL].as_str(), labels["app"].as_str()), (Some("shop"), Some("shop")));
    assert_eq!(served.count("POST controllerrevisions"), 1, "{served:?}");
}

/// OpenKruise names revisions otherwise where a template has letters that Go escapes in JSON. Its workload
/// says which one it has, and its pods are not made anew.
#[tokio::test]
async fn a_revision_of_another_name_is_adopted() {
    let (before, shop) = (Served::default(), of_one_subset());
    before.put("uniteddeployments", &shop);
    let replica_before = replica(&before, std::slice::from_ref(&shop)).await;
    before.until("it is carried out", |served| served.names("deployments").len() == 1).await;
    drop(replica_before);
    let theirs = |object: Value, name: &str| {
        let text = object.to_string().replace(name, "shop-theirs");
        let mut object: Value = serde_json::from_str(&text).unwrap();
        object["metadata"]["labels"].as_object_mut().unwrap().remove(UID_LABEL);
        object
    };
    let name = before.names("controllerrevisions").remove(0);
    let revision = theirs(before.get("controllerrevisions", &name).unwrap(), &name);
    let workload = before.names("deployments").remove(0);
    let mut deployment = theirs(before.get("deployments", &workload).unwrap(), &name);
    deployment["metadata"].as_object_mut().unwrap().remove("annotations");

    let served = Served::default();
    served.put("uniteddeployments", &shop);
    served.put("controllerrevisions", &revision);
    served.put("deployments", &deployment);
    let _one = replica(&served, &[shop]).await;
    served.until("the workload is taken over", |served| served.count("PUT deployments one") == 1).await;
    served.rests().await;
    assert_eq!(served.names("controllerrevisions"), ["shop-theirs"]);
    let labels = served.get("controllerrevisions", "shop-theirs").unwrap()["metadata"]["labels"].clone();
    assert_eq!(labels[UID_LABEL], "shop");
    let now = served.get("deployments", &workload).unwrap();
    assert_eq!(now["spec"]["template"], deployment["spec"]["template"], "its pods would be made anew");
    assert_eq!(
        (served.count("POST controllerrevisions"), served.count("POST deployments")),
        (0, 0),
        "{served:?}"
    );
}

/// A watch that says that a revision is gone, while the API server says that it is there.
#[tokio::test]
async fn a_revision_that_is_not_shown_is_asked_for_less_and_less() {
    let (served, shop) = (Served::default(), of_one_subset());
    served.put("uniteddeployments", &shop);
    let (inputs, _lease) = replica(&served, &[shop]).await;
    served.until("it is carried out", |served| served.names("deployments").len() == 1).await;
    let name = served.names("controllerrevisions").remove(0);
    let uid = served.get("controllerrevisions", &name).unwrap()["metadata"]["uid"].clone();
    let begun = Instant::now();
    inputs.send(Input::Revision(Shown::Gone(uid.as_str().unwrap().to_owned()))).await.unwrap();
    // Its workload names it, so it is read and not made.
    let asked = |served: &Served| served.count("GET controllerrevisions one");
    served.until("it is asked for", |served| asked(served) >= 1).await;
    tokio::time::sleep(Duration::from_millis(1400)).await;
    // Less and less often, and once before the first one that failed.
    let (tries, most) = (asked(&served), 1 + most_failing(begun.elapsed()));
    assert!((1..=most).contains(&tries), "{tries}, at most {most}: {served:?}");
    assert_eq!(served.count("POST controllerrevisions"), 1);
}

/// A webhook changes the template of each revision: none is made under another name, and the status says why.
#[tokio::test]
async fn a_revision_that_the_cluster_changes_is_made_once() {
    let (served, shop) = (Served::default(), of_one_subset());
    served.change(|object| {
        if object["kind"] == "ControllerRevision" {
            object["data"]["spec"]["template"]["deploymentTemplate"]["spec"]["paused"] = true.into();
        }
    });
    served.put("uniteddeployments", &shop);
    let begun = Instant::now();
    let _one = replica(&served, &[shop]).await;
    let says = |served: &Served| {
        served
            .get("uniteddeployments", "shop")
            .is_some_and(|one| one["status"].to_string().contains("webhooks"))
    };
    served.until("it is said", says).await;
    tokio::time::sleep(Duration::from_millis(1400)).await;
    assert_eq!(served.names("controllerrevisions").len(), 1);
    // Less and less often, and twice before the first one that failed.
    let (tries, most) = (served.count("POST controllerrevisions"), 2 + most_failing(begun.elapsed()));
    assert!((1..=most).contains(&tries), "{tries}, at most {most}: {served:?}");
    assert!(served.names("deployments").is_empty());
}
