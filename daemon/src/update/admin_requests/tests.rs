//! Requests that are kept, across restarts and accidents.

mod sources;

use std::{fs, os::unix::fs::PermissionsExt, time::Duration};

use berth_policy::in_place_update::{FailureReason, UpdateOutcome, UpdatePhase};

use super::{super::keys::LONGEST_ANNOTATIONS, *};

const REQUEST: &str = r#"
apiVersion: berth.dev/v1alpha1
kind: ContainerUpdateRequest
metadata: {namespace: shop, name: web-x7k2p, uid: u-1, creationTimestamp: "2026-01-02T03:04:05Z"}
spec:
  podName: web
  containers: [{name: main, image: "web:v2"}]
  metadata: {annotations: {config: " two\nlines\t\u00e9\u0001 # no: comment\n"}}
  ttlSecondsAfterFinished: 60
status: {nodeName: node, podUID: p-1}
"#;

fn request() -> ContainerUpdateRequest {
    serde_saphyr::from_str(REQUEST).unwrap()
}

async fn keep(admin_requests: &AdminRequests, updates: &SharedUpdates) -> RequestId {
    let object = admin_requests.prepare(request()).unwrap();
    let id = object.id.clone();
    admin_requests.keep(object, updates).await.unwrap();
    id
}

fn ended() -> UpdateReport {
    UpdateReport {
        phase: Some(UpdatePhase::Ended),
        message: "too late".to_owned(),
        outcome: Some(UpdateOutcome::Failed(FailureReason::DeadlineExceeded)),
        ..UpdateReport::default()
    }
}

#[tokio::test]
async fn what_was_taken_survives_the_agent() {
    let dir = tempfile::tempdir().unwrap();
    let (admin_requests, updates) = (AdminRequests::new(dir.path()), SharedUpdates::default());
    admin_requests.load(&updates).await;
    assert!(updates.has_heard(&[UpdateSource::Admin]) && updates.standing().is_empty());
    let id = keep(&admin_requests, &updates).await;
    let taken = updates.entry(&id).unwrap();
    assert_eq!((taken.request.key.as_str(), taken.flaw), ("shop/web-x7k2p", None));
    assert_eq!(taken.request.source, UpdateSource::Admin);
    assert_eq!(taken.request.pod.uid.as_str(), "p-1");
    let mode = fs::metadata(dir.path().join("updates")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);

    let (next, anew) = (AdminRequests::new(dir.path()), SharedUpdates::default());
    next.load(&anew).await;
    let loaded = anew.entry(&id).unwrap().request;
    assert_eq!(loaded.metadata, taken.request.metadata, "every character of it");
    assert_eq!((&loaded.images, &loaded.revision), (&taken.request.images, &taken.request.revision));
    assert_eq!(loaded.delete_after, Some(Duration::from_secs(60)));
    assert_eq!(next.object(&id).unwrap().request, request());
}

#[tokio::test]
async fn a_report_is_in_the_file_before_it_is_done() {
    let dir = tempfile::tempdir().unwrap();
    let (admin_requests, updates) = (AdminRequests::new(dir.path()), SharedUpdates::default());
    let id = keep(&admin_requests, &updates).await;
    assert_eq!(admin_requests.report(&id, &ended(), &updates).await, StepOutcome::Done);
    let shown = updates.entry(&id).unwrap().request;
    assert_eq!(shown.reported, ended());
    assert!(shown.ended.is_some());
    let file = dir.path().join("updates/web-x7k2p.json");
    let before = fs::metadata(&file).unwrap().modified().unwrap();
    assert_eq!(admin_requests.report(&id, &ended(), &updates).await, StepOutcome::Done);
    assert_eq!(fs::metadata(&file).unwrap().modified().unwrap(), before, "it says so already");

    let (next, anew) = (AdminRequests::new(dir.path()), SharedUpdates::default());
    next.load(&anew).await;
    let loaded = anew.entry(&id).unwrap().request;
    assert_eq!((loaded.reported, loaded.ended.is_some()), (ended(), true));
    assert_eq!(loaded.pod.uid.as_str(), "p-1", "what it is about stays");

    assert_eq!(next.delete(&id, &anew).await, StepOutcome::Done);
    assert!(!file.exists() && anew.entry(&id).is_none());
    assert_eq!(next.delete(&id, &anew).await, StepOutcome::Gone);
    assert_eq!(next.report(&id, &ended(), &anew).await, StepOutcome::Gone);
}

#[tokio::test]
async fn what_cannot_be_read_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let id = keep(&AdminRequests::new(dir.path()), &SharedUpdates::default()).await;
    let folder = dir.path().join("updates");
    for (name, text) in
        [("a.json", "{\"spec\""), ("b.json", "{}"), ("z.json", "\u{0}"), ("note.txt", ""), (".berthd-x", "")]
    {
        fs::write(folder.join(name), text).unwrap();
    }
    fs::create_dir(folder.join("d.json")).unwrap();
    fs::File::create(folder.join("long.json")).unwrap().set_len(LONGEST + 1).unwrap();
    let (admin_requests, updates) = (AdminRequests::new(dir.path()), SharedUpdates::default());
    admin_requests.load(&updates).await;
    assert_eq!(updates.standing().len(), 1);
    assert!(updates.entry(&id).is_some());
    assert!(["a.json", "b.json", "z.json", "note.txt"].iter().all(|name| folder.join(name).exists()));
    assert!(!folder.join(".berthd-x").exists(), "a write that was not finished");
}

#[tokio::test]
async fn what_cannot_be_written_is_not_done() {
    let dir = tempfile::tempdir().unwrap();
    let (admin_requests, updates) = (AdminRequests::new(dir.path()), SharedUpdates::default());
    let id = keep(&admin_requests, &updates).await;
    fs::remove_dir_all(dir.path().join("updates")).unwrap();
    assert_eq!(admin_requests.report(&id, &ended(), &updates).await, StepOutcome::Failed);
    assert_eq!(updates.entry(&id).unwrap().request.reported, UpdateReport::default(), "nobody was told");
    fs::write(dir.path().join("updates"), "a file").unwrap();
    let object = admin_requests.prepare(request()).unwrap();
    assert!(admin_requests.keep(object, &updates).await.unwrap_err().to_string().contains("updates"));
}

#[test]
fn what_cannot_be_is_not_taken() {
    let admin_requests = AdminRequests::new(Path::new("/nowhere"));
    let refused = |change: &dyn Fn(&mut ContainerUpdateRequest)| {
        let mut request = request();
        change(&mut request);
        admin_requests.prepare(request).unwrap_err().to_string()
    };
    let twice = refused(&|request| request.spec.containers.push(request.spec.containers[0].clone()));
    assert!(twice.contains("containers[1].name repeats \"main\""), "{twice}");
    let image = refused(&|request| request.spec.containers[0].image = "No Image".to_owned());
    assert!(image.contains("containers[main].image"), "{image}");
    let nothing = refused(&|request| {
        (request.spec.containers, request.spec.metadata) = (Vec::new(), None);
    });
    assert!(nothing.contains("what is to change"), "{nothing}");
    let long = refused(&|request| {
        let annotations = &mut request.spec.metadata.as_mut().unwrap().annotations;
        annotations.insert("long".to_owned(), "x".repeat(LONGEST_ANNOTATIONS));
    });
    assert!(long.contains("a pod has at most 262144"), "{long}");
    let label = refused(&|request| {
        let labels = &mut request.spec.metadata.as_mut().unwrap().labels;
        labels.insert("track".to_owned(), "not one word".to_owned());
    });
    let keys = |request: &mut ContainerUpdateRequest| {
        let annotations = &mut request.spec.metadata.as_mut().unwrap().annotations;
        annotations.insert("Example.com/Config".to_owned(), "capitals".to_owned());
        annotations.insert("two words".to_owned(), String::new());
    };
    assert!(refused(&keys).contains("metadata.annotations[two words]"), "{}", refused(&keys));
    assert!(label.contains("metadata.labels[track] cannot be set: the value"), "{label}");
    assert!(refused(&|request| request.metadata.uid = None).contains("metadata"));
}

/// A disk that cannot be read for a moment loses nothing, and it does not look as if nobody wanted anything.
#[tokio::test]
async fn a_directory_that_cannot_be_read_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let id = keep(&AdminRequests::new(dir.path()), &SharedUpdates::default()).await;
    let (there, away) = (dir.path().join("updates"), dir.path().join("away"));
    fs::rename(&there, &away).unwrap();
    fs::write(&there, "no directory").unwrap();
    let (next, anew) = (AdminRequests::new(dir.path()), SharedUpdates::default());
    let mends = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(!anew.has_heard(&[UpdateSource::Admin]), "that there are none");
        fs::remove_file(&there).unwrap();
        fs::rename(&away, &there).unwrap();
    };
    tokio::join!(next.load(&anew), mends);
    assert!(anew.has_heard(&[UpdateSource::Admin]));
    assert_eq!(anew.entry(&id).unwrap().request.key, "shop/web-x7k2p");
}
