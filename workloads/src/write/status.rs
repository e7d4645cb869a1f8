//! Writes to the set itself: its status, and the pods that it names to be deleted.

use kube::{
    Api,
    api::{DynamicObject, Patch},
};
use serde_json::{Value, json};

use super::{End, Failure, Work, Wrote, params};
use crate::unkept::changed;

impl Work {
    pub(super) async fn keep_pods_to_delete(&mut self, names: Vec<String>) -> End {
        let meta = self.set.meta();
        let patch = json!({
            "metadata": { "uid": meta.uid, "resourceVersion": meta.resource_version },
            "spec": { "scaleStrategy": { "podsToDelete": &names } },
        });
        let (api, params, patch) = (self.sets(), params::patch(), Patch::Merge(&patch));
        let written = self.writer.ask("workload", api.patch(self.set.name(), &params, &patch)).await;
        let kept = |set: &DynamicObject| {
            let there = set.data.pointer("/spec/scaleStrategy/podsToDelete").and_then(Value::as_array);
            there.map(Vec::as_slice).unwrap_or_default().iter().eq(&names)
        };
        let is_changed = matches!(&written, Ok(set) if !kept(set));
        let end = self.settle_set(written).await;
        if is_changed { self.changed("podsToDelete", End::UpdateFailed).await } else { end }
    }

    /// Writes the status. What the API server has just written is as it was sent, or never will be.
    pub(super) async fn status(&mut self, status: Value) -> End {
        let mut patch = json!({ "metadata": { "uid": self.set.uid() }, "status": status });
        // What is not in it any more is taken out.
        for field in ["conditions", "collisionCount"] {
            if status.get(field).is_none() {
                patch["status"][field] = Value::Null;
            }
        }
        let (api, params, patch) = (self.sets(), params::patch(), Patch::Merge(&patch));
        let write = api.patch_status(self.set.name(), &params, &patch);
        let written = self.writer.ask("workload_status", write).await;
        if let Ok(object) = &written
            && let Some(field) = changed(&object.data["status"], &status)
        {
            self.wrote.push(Wrote::StatusUnkept(status, field));
        }
        self.settle_set(written).await
    }

    pub(super) fn sets(&self) -> Api<DynamicObject> {
        let resource = self.set.kind().resource();
        Api::namespaced_with(self.writer.client.clone(), &self.namespace, &resource)
    }

    async fn settle_set(&mut self, written: Result<DynamicObject, Failure>) -> End {
        match written {
            Ok(object) => {
                // One that nobody can read is set aside when the watch shows it.
                self.wrote.extend(self.set.kind().read(object).ok().map(Wrote::Set));
                End::Done
            }
            Err(Failure::Gone) => End::Changed,
            Err(failure) => self.failed(failure, "FailedUpdate", End::UpdateFailed).await,
        }
    }
}
