//! Takes the label `crr.apps.kruise.io/active` from requests that have ended: OpenKruise's clients select by
//! it those that go on. Only the leader does; it is the one write to an object that is no status, and the
//! policy of the manager's writes lets it take this label and nothing else.

use std::time::Duration;

use berth_proto::crd::ContainerRecreateRequest;
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, Patch, PatchParams},
    core::ApiResource,
    runtime::watcher,
};
use serde_json::json;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tracing::warn;

use super::{
    recreate::ACTIVE,
    view::{View, follow},
};
use crate::{lease::Tenure, telemetry::chain};

/// A write without an answer has failed.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// One that failed is tried again after it.
const AGAIN: Duration = Duration::from_secs(10);

/// Request that has ended and still has the label.
#[derive(Clone, Debug)]
struct Ended {
    namespace: String,
    name: String,
    uid: String,
}

/// Takes the labels, for ever.
pub(super) async fn run(client: Client, mut tenure: Tenure) {
    let resource = ApiResource::erase::<ContainerRecreateRequest>(&());
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let config = watcher::Config::default().labels(&format!("{ACTIVE}=true"));
    let (view, mut shown) = watch::channel(View::default());
    let mut following = std::pin::pin!(follow(api, config, "requests that have not ended", read, view));
    loop {
        let ended: Vec<Ended> = {
            let shown = shown.borrow_and_update();
            shown.listed().map(|all| all.values().cloned().collect()).unwrap_or_default()
        };
        let mut failed = false;
        if tenure.holds() {
            for one in &ended {
                // The watch goes on meanwhile.
                tokio::select! {
                    taken = take(&client, &resource, one) => failed |= !taken,
                    () = following.as_mut() => return,
                }
            }
        }
        let pause = if failed { AGAIN } else { Duration::from_secs(600) };
        // Cancel-safe: a change that is not taken is seen the next time.
        tokio::select! {
            changed = shown.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            () = tenure.changed(), if !ended.is_empty() => {}
            () = sleep(pause) => {}
            () = following.as_mut() => return,
        }
    }
}

fn read(object: DynamicObject) -> Option<Ended> {
    object.data.pointer("/status/completionTime").filter(|time| time.is_string())?;
    Some(Ended { namespace: object.namespace()?, name: object.name_any(), uid: object.uid()? })
}

async fn take(client: &Client, resource: &ApiResource, one: &Ended) -> bool {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &one.namespace, resource);
    // Of this one, and not of another one by its name.
    let patch = json!({ "metadata": { "uid": one.uid, "labels": { ACTIVE: null } } });
    let error =
        match timeout(ANSWER_WITHIN, api.patch(&one.name, &PatchParams::default(), &Patch::Merge(&patch)))
            .await
        {
            Ok(Ok(_)) => return true,
            // It is gone, or is another one.
            Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => return true,
            Ok(Err(error)) => chain(&error),
            Err(_) => "no answer".to_owned(),
        };
    warn!(namespace = one.namespace, name = one.name, error, "Label of a request that has ended not taken");
    false
}
