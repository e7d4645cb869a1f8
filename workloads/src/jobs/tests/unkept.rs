//! Statuses that the API server does not keep.

use super::*;

/// A definition of another version does not know a field of the status. That is written once, and not with
/// each plan; a status that says something else is written.
#[tokio::test]
async fn a_status_that_is_not_kept_is_written_once() {
    let served = Served::default();
    served.prune("type");
    let pod = json!({ "containers": [{ "name": "main", "image": "a:1" }], "restartPolicy": "Never" });
    let made = json!({ "spec": { "template": { "spec": pod } } });
    let spec = json!({ "schedule": "0 0 1 1 *", "paused": true, "template": { "jobTemplate": made } });
    let mut cron = object(Kind::Cron, "nightly", spec);
    served.put("advancedcronjobs", &cron);
    let (inputs, _lease) = replica(&served, &[(Kind::Cron, cron.clone())]).await;
    let writes = |served: &Served| served.count("PATCH advancedcronjobs one");
    served.until("it is written", |served| writes(served) > 0).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(writes(&served), 1, "{served:?}");
    cron["metadata"]["generation"] = 2.into();
    cron["metadata"]["resourceVersion"] = "100".into();
    let filed = Kind::Cron.read(serde_json::from_value(cron).unwrap()).unwrap();
    inputs.send(Input::Object(Kind::Cron, Shown::Applied(filed))).await.unwrap();
    served.until("another one is written", |served| writes(served) == 2).await;
}
