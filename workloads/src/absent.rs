//! Workloads that are set aside for want of room: what is remembered of each, and how it is brought back.

use berth_base::sent::{Received, Sent};
use berth_workloads_policy::action::Note;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Api,
    api::{DynamicObject, ListParams},
};

use crate::{
    kinds::{Kind, Set},
    object::Filed,
    room,
    write::Writer,
};

/// A workload that is set aside for want of room.
#[derive(Clone, Debug)]
pub(crate) struct Absent {
    pub(crate) kind: &'static Kind,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
}

impl Absent {
    pub(crate) fn of(set: &Set) -> Self {
        Self {
            kind: set.kind(),
            namespace: set.namespace().to_owned(),
            name: set.name().to_owned(),
            uid: set.uid().to_owned(),
        }
    }

    /// Names it in an Event.
    pub(crate) fn reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: Some(self.kind.api_version()),
            kind: Some(self.kind.name.to_owned()),
            namespace: Some(self.namespace.clone()),
            name: Some(self.name.clone()),
            uid: Some(self.uid.clone()),
            ..ObjectReference::default()
        }
    }
}

/// Note on a workload for which there is no room.
pub(crate) fn no_room() -> Note {
    let remedy = "Make its template smaller and delete ControllerRevisions of its that no pod has, or raise \
                  --workload-memory of berth-workloads";
    let why = "its namespace takes most and it is among the largest there, with its revisions";
    room::no_room("workloads", why, remedy)
}

/// Note on a workload with such a pod.
pub(crate) fn unread_pod(pod: &str) -> Note {
    let text = format!(
        "set aside: labels, annotations, finalizers and owners of pod {pod} take more than 32 KiB of memory, \
         so nothing is decided on its pods: take some of them off, or delete the pod"
    );
    Note { warning: true, reason: "SetAside", text }
}

impl Writer {
    /// Reads a workload that was set aside. `None`: it is gone, or nobody can read it any more.
    pub(crate) async fn bring_back(self, absent: Absent) -> Result<Option<Filed<Set>>, String> {
        let Absent { kind, namespace, name, uid } = absent;
        let (client, resource) = (self.client.clone(), kind.resource());
        let api = Api::<Sent<DynamicObject>>::namespaced_with(client, &namespace, &resource);
        // There is no right to get one.
        let params = ListParams::default().fields(&format!("metadata.name={name}"));
        // Many may come back at once, and each of them is large.
        let _place = self.pages.acquire().await;
        let listed = self.fetch("read", api.list(&params)).await.map_err(|failure| failure.text())?;
        let read = listed.items.into_iter().filter_map(|sent| sent.read().ok());
        let mut read = read.filter(|object| object.metadata.uid.as_deref() == Some(uid.as_str()));
        Ok(read.next().and_then(|object| kind.file(object).ok()))
    }
}

#[cfg(test)]
mod tests {
    use std::{pin::pin, time::Duration};

    use serde_json::json;

    use super::*;
    use crate::{kinds::KINDS, served::reads};

    #[tokio::test]
    async fn no_more_come_back_beside_each_other_than_there_are_places() {
        let writer = reads(|_, _| {
            let metadata = json!({ "namespace": "ns", "name": "web", "uid": "u", "resourceVersion": "5" });
            let template = json!({ "metadata": { "labels": { "app": "a" } } });
            let spec = json!({ "selector": { "matchLabels": { "app": "a" } }, "template": template });
            let kind = KINDS[0];
            let item = json!({ "apiVersion": kind.api_version(), "kind": kind.name, "metadata": metadata,
                "spec": spec });
            json!({ "metadata": { "resourceVersion": "5" }, "items": [item] }).to_string()
        });
        let text = str::to_owned;
        let absent = Absent { kind: KINDS[0], namespace: text("ns"), name: text("web"), uid: text("u") };
        let pages = writer.pages.clone();
        let all = u32::try_from(pages.available_permits()).unwrap();
        let others = pages.acquire_many(all).await.unwrap();
        let mut back = pin!(writer.bring_back(absent));
        let waits = tokio::time::timeout(Duration::from_millis(200), back.as_mut()).await;
        assert!(waits.is_err(), "{waits:?}");
        drop(others);
        let back = tokio::time::timeout(Duration::from_secs(20), back).await.unwrap();
        assert!(back.unwrap().is_some_and(|filed| filed.bytes > 0));
    }
}
