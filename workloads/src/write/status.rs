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

    /// Writes the status, on the version that it was decided on: one of a leader that stood still comes after
    /// those of the next one. What the API server has just written is as it was sent, or never will be.
    pub(super) async fn status(&mut self, status: Value) -> End {
        let meta = self.set.meta();
        let mut patch = json!({
            "metadata": { "uid": meta.uid, "resourceVersion": meta.resource_version },
            "status": status,
        });
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
                if let Ok(set) = self.set.kind().read(object) {
                    // What is written next is on this version.
                    self.set = set.clone();
                    self.wrote.push(Wrote::Set(set));
                }
                End::Done
            }
            Err(Failure::Gone) => End::Changed,
            Err(failure) => self.failed(failure, "FailedUpdate", End::UpdateFailed).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::{BTreeMap, BTreeSet},
        sync::{Arc, Mutex},
    };

    use berth_proto::crd::CloneSet;
    use berth_workloads_policy::action::Action;

    use super::*;
    use crate::{
        kinds::{Plan, Set},
        served,
    };

    fn object(version: u64) -> Value {
        json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet",
            "metadata": {
                "namespace": "ns", "name": "shop", "uid": "set", "resourceVersion": version.to_string(),
            },
            "spec": { "selector": {}, "template": {}, "scaleStrategy": { "podsToDelete": ["a"] } },
            "status": { "replicas": 2 },
        })
    }

    /// Rows: version on file, whether the spec is written before, whether somebody else writes after each
    /// write, versions that are named, and the end.
    #[tokio::test]
    async fn a_status_is_written_on_the_version_that_it_was_decided_on() {
        let rows: [(u64, bool, bool, &[&str], End); 4] = [
            (7, false, false, &["7"], End::Done),
            (7, true, false, &["7", "8"], End::Done),
            // Somebody has written since: it is decided anew.
            (9, false, false, &["7"], End::Changed),
            // So it is, and what was done is no failure.
            (7, true, true, &["7", "8"], End::Done),
        ];
        for (on_file, keeps, is_late, expected, end) in rows {
            let (on_file, named) = (Mutex::new(on_file), Arc::<Mutex<Vec<String>>>::default());
            let seen = named.clone();
            let writer = served::writer(move |_, _, body| {
                let mut on_file = on_file.lock().unwrap();
                let version = body["metadata"]["resourceVersion"].as_str().unwrap_or_default();
                seen.lock().unwrap().push(version.to_owned());
                if version != on_file.to_string() {
                    return json!({
                        "kind": "Status", "status": "Failure", "code": 409, "metadata": {}, "message": "",
                        "reason": "Conflict",
                    });
                }
                *on_file += 1;
                let written = object(*on_file);
                *on_file += u64::from(is_late);
                written
            });
            let set: Set = Arc::new(serde_json::from_value::<CloneSet>(object(7)).unwrap());
            let keep = keeps.then(|| Action::KeepPodsToDelete(vec!["a".to_owned()]));
            let plan = Plan {
                actions: keep.into_iter().collect(),
                status: Some(json!({ "replicas": 2 })),
                ..Plan::default()
            };
            let report = writer.carry_out(set, plan, &BTreeSet::new(), BTreeMap::new()).await;
            assert_eq!(report.end, end);
            assert_eq!(*named.lock().unwrap(), expected);
        }
    }
}
