//! Sets whose objects the cluster changes on their way.

use super::*;

/// A replica that leads, and whose watches have shown the set, and show nothing of what is written.
async fn replica(served: &Served) -> (mpsc::Sender<Input>, watch::Sender<Option<Term>>) {
    served.put("clonesets", &set(1));
    let (inputs, receiver) = mpsc::channel(64);
    let (lease, tenure) = Tenure::of_test();
    let (listed, _) = watch::channel(Cluster::default().listed());
    let connections = Connections { tenure, writer: served.writer(), listed };
    tokio::spawn(
        Controller { settings: Settings::default(), most_held: crate::cluster::MOST_HELD, connections }
            .run(receiver),
    );
    for input in lists() {
        inputs.send(input).await.unwrap();
    }
    let until = tokio::time::Instant::now() + Duration::from_secs(3600);
    lease.send_replace(Some(Term::of_test(until)));
    (inputs, lease)
}

fn says(served: &Served, text: &str) -> bool {
    served.get("clonesets", "shop").is_some_and(|one| one["status"].to_string().contains(text))
}

/// A webhook changes the template of each revision: none is made under another name, and the status says why.
#[tokio::test]
async fn a_revision_that_the_cluster_changes_is_made_once() {
    let served = Served::default();
    served.change(|object| {
        if object["kind"] == "ControllerRevision" {
            object["data"]["spec"]["template"]["spec"]["priority"] = 1.into();
        }
    });
    let begun = Instant::now();
    let _replica = replica(&served).await;
    served.until("it is said", |served| says(served, "see its mutating webhooks")).await;
    tokio::time::sleep(Duration::from_millis(1400)).await;
    assert_eq!(served.names("controllerrevisions").len(), 1);
    // Less and less often, and twice before the first one that failed.
    let (tries, most) = (served.count("POST controllerrevisions"), 2 + most_failing(begun.elapsed()));
    assert!((1..=most).contains(&tries), "{tries}, at most {most}: {served:?}");
    assert!(served.names("pods").is_empty());
}
