//! Names of revisions that are taken.

use berth_workloads_policy::{
    revision::{Namesake, Owner},
    selector::Labels,
};
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::{Api, api::ListParams};
use serde_json::Value;

use super::{End, Work, Wrote};
use crate::watch::Revisions;

impl Work {
    /// The picture may be old, or a revision of a set that had this name is there still.
    pub(super) async fn name_taken(&mut self, object: &Value) -> End {
        let before = self.wrote.len();
        match self.read().await {
            End::Done => {}
            end => return end,
        }
        let found = self.wrote.get(before..).unwrap_or_default().iter().any(|wrote| match wrote {
            Wrote::Read(_, _, _, revisions) => {
                revisions.iter().any(|revision| revision.has(self.set.template()))
            }
            _ => false,
        });
        if found {
            return End::Changed;
        }
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        match self.namesake(name).await {
            Ok(None | Some(Namesake::Own)) => End::Changed,
            Ok(Some(Namesake::Other)) => End::NameTaken,
            Ok(Some(Namesake::Free(target, patch))) => {
                self.adopt::<Revisions>(target, patch, Wrote::Revision, Wrote::RevisionGone).await
            }
            Ok(Some(Namesake::Going)) => {
                let text = format!(
                    "revision {name} of the {} that had this name is there still, and is waited for",
                    self.set.kind().name
                );
                End::Held(Box::new(End::UpdateFailed(text)))
            }
            Err(end) => end,
        }
    }

    /// Looks at the revision that has this name; `None`: it is gone.
    async fn namesake(&mut self, name: &str) -> Result<Option<Namesake>, End> {
        let api = Api::<ControllerRevision>::namespaced(self.writer.client.clone(), &self.namespace);
        // Revisions may be listed, and not be got.
        let only = ListParams::default().fields(&format!("metadata.name={name}"));
        let listed = match self.writer.ask("revision_read", api.list(&only)).await {
            Ok(listed) => listed,
            Err(failure) => return Err(self.failed(failure, "FailedUpdate", End::UpdateFailed).await),
        };
        let (kind, none) = (self.set.kind(), Labels::new());
        let owner = Owner {
            api_version: &kind.api_version(),
            kind: kind.name,
            namespace: &self.namespace,
            name: self.set.name(),
            uid: self.set.uid(),
            annotations: self.set.meta().annotations.as_ref().unwrap_or(&none),
        };
        let found = listed.items.iter().find(|revision| revision.metadata.name.as_deref() == Some(name));
        Ok(found.map(|revision| owner.namesake(revision, self.set.template())))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use berth_proto::crd::CloneSet;
    use berth_workloads_policy::action::Action;
    use http::Method;
    use serde_json::json;

    use super::*;
    use crate::{kinds::Plan, served};

    fn set() -> Value {
        json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet",
            "metadata": { "namespace": "ns", "name": "web", "uid": "new", "resourceVersion": "9" },
            "spec": {
                "selector": { "matchLabels": { "app": "web" } },
                "template": { "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [] } },
            },
        })
    }

    /// Revision with the name, of this owner or nobody's, and with another template or not.
    fn there(owner: &str, is_other: bool) -> Value {
        let mut template = set()["spec"]["template"].clone();
        template["spec"]["hostNetwork"] = is_other.into();
        let owner = json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web", "uid": owner,
            "controller": true,
        });
        let owners: Vec<Value> = Some(owner).into_iter().filter(|one| one["uid"] != "").collect();
        json!({
            "metadata": { "namespace": "ns", "name": "web-5d4b", "uid": "r", "resourceVersion": "3",
                "ownerReferences": owners },
            "data": { "spec": { "template": template } },
            "revision": 1,
        })
    }

    /// A set that is made anew under its name finds what the one before has left, and only another template
    /// is a collision. Rows: what has the name, the end, and whether it was adopted.
    #[tokio::test]
    async fn a_name_that_is_taken_is_looked_at() {
        let waits = || {
            let text =
                "revision web-5d4b of the CloneSet that had this name is there still, and is waited for";
            End::Held(Box::new(End::UpdateFailed(text.to_owned())))
        };
        for (there, end, adopted) in [
            (Some(there("", false)), End::Done, true),
            (Some(there("old", false)), waits(), false),
            (Some(there("new", false)), End::Changed, false),
            (Some(there("", true)), End::NameTaken, false),
            (Some(there("old", true)), End::NameTaken, false),
            (None, End::Changed, false),
        ] {
            let patched: Arc<Mutex<Option<Value>>> = Arc::default();
            let (seen, known) = (patched.clone(), there.clone());
            let writer = served::writer(move |method, path, body| match (method, path.rsplit('/').next()) {
                (&Method::POST, _) => json!({
                    "kind": "Status", "status": "Failure", "code": 409, "metadata": {}, "message": "",
                    "reason": "AlreadyExists",
                }),
                (&Method::PATCH, _) => {
                    *seen.lock().unwrap() = Some(body.clone());
                    let mut object = known.clone().unwrap();
                    object["metadata"]["ownerReferences"] = body["metadata"]["ownerReferences"].clone();
                    object
                }
                (_, last) => {
                    let items: Vec<Value> = match last {
                        Some("controllerrevisions") => known.clone().into_iter().collect(),
                        Some("clonesets") => vec![set()],
                        _ => Vec::new(),
                    };
                    json!({ "metadata": { "resourceVersion": "5" }, "items": items })
                }
            });
            let actions = vec![Action::CreateRevision(json!({ "metadata": { "name": "web-5d4b" } }))];
            let set = Arc::new(serde_json::from_value::<CloneSet>(set()).unwrap());
            let report = writer.carry_out(set, Plan { actions, ..Plan::default() }).await;
            assert_eq!(report.end, end, "{there:?}");
            let patch = patched.lock().unwrap().take();
            let owner = patch.map(|patch| patch["metadata"]["ownerReferences"][0]["uid"].clone());
            assert_eq!(owner, adopted.then(|| "new".into()), "{there:?}");
        }
    }
}
