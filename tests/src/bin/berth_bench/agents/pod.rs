//! Facts of a pod whose kubelet is played.

use berth_proto::crd::DesiredPod;
use serde_json::Value;

/// Tells whether a pod runs what an entry wants, and serves.
pub(super) fn is_through(pod: &Value, entry: &DesiredPod) -> bool {
    let of = |list: &str, name: &str| {
        let list =
            if list == "spec" { &pod["spec"]["containers"] } else { &pod["status"]["containerStatuses"] };
        let found = list.as_array().into_iter().flatten().find(|one| one["name"] == *name);
        found.and_then(|one| one["image"].as_str()).map(str::to_owned)
    };
    let runs = entry
        .containers
        .iter()
        .all(|one| ["spec", "status"].iter().all(|list| of(list, &one.name).as_deref() == Some(&*one.image)));
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let mut shut = conditions.filter(|one| one["type"] == "InPlaceUpdateReady" && one["status"] != "True");
    runs && shut.next().is_none()
}

/// Statuses of the containers of a pod when its kubelet has come to its spec; `None`: it has.
pub(super) fn restarted(pod: &Value) -> Option<Value> {
    let specs = pod["spec"]["containers"].as_array()?;
    let mut statuses = pod["status"]["containerStatuses"].clone();
    let mut is_other = false;
    for status in statuses.as_array_mut()? {
        let Some(spec) = specs.iter().find(|spec| spec["name"] == status["name"]) else { continue };
        if spec["image"] == status["image"] {
            continue;
        }
        let image = spec["image"].as_str().unwrap_or_default().to_owned();
        let restarts = status["restartCount"].as_i64().unwrap_or(0);
        status["imageID"] = format!("{image}@sha256:{:064x}", restarts + 1).into();
        status["restartCount"] = (restarts + 1).into();
        status["image"] = image.into();
        is_other = true;
    }
    is_other.then_some(statuses)
}
