//! Objects of a set, read from the API server where nobody knows what there is.

use berth_workloads_policy::{revision::Revision, selector::Selector};
use kube::Api;

use super::{End, Work, Wrote, failure::Failure};
use crate::{
    owned::Ownable,
    revisions::SentRevision,
    trimmed::{TrimmedClaim, TrimmedPod},
    watch::{Claims, Pods, Revisions, Watched},
};

impl Work {
    /// Another revision may have this name, or the picture is old. One of the set's own that has another
    /// template than its name says was changed on its way: so it would be under the next name, without end.
    pub(super) async fn name_taken(&mut self, name: &str) -> End {
        let before = self.wrote.len();
        match self.read().await {
            End::Done => {}
            end => return end,
        }
        let (mut is_there, mut is_changed) = (false, false);
        for wrote in self.wrote.get(before..).unwrap_or_default() {
            let Wrote::Read(_, _, _, revisions) = wrote else { continue };
            for one in &revisions.objects {
                is_there |= one.has(self.set.template());
                is_changed |= one.name == name && !one.is_named_after_its_template();
            }
        }
        match (is_there, is_changed) {
            (true, _) => End::Changed,
            (false, true) => self.revision_changed(name).await,
            (false, false) => End::NameTaken,
        }
    }

    /// Reads all objects of the set.
    pub(super) async fn read(&mut self) -> End {
        self.read_with(None).await
    }

    /// Reads all objects of the set, and the revisions that nothing decides on and that have this key.
    pub(super) async fn read_with(&mut self, orphans: Option<String>) -> End {
        let selector = match Selector::parse("spec.selector", self.set.selector()) {
            Ok(selector) => selector,
            Err(fault) => return End::UpdateFailed(fault.to_string()),
        };
        let uid = self.set.uid();
        let (client, namespace) = (|| self.writer.client.clone(), &self.namespace);
        let pods = Api::<TrimmedPod>::namespaced(client(), namespace);
        let claims = Api::<TrimmedClaim>::namespaced(client(), namespace);
        let revisions = Api::<SentRevision>::namespaced(client(), namespace);
        let ask = async {
            let own = |object| Pods::view(object).filter(|pod| pod.owner() == uid);
            let pods = self.writer.list(&pods, &selector.text(), own).await?;
            // Their labels are those of templates, which need not match the selector, and anybody may change
            // them: what they belong to is told by their owner or name.
            let own = |object| Claims::view(object).filter(|claim| self.set.has_claim(claim));
            let claims = self.writer.list(&claims, "", own).await?;
            let is_orphan = |one: &Revision| one.owner.is_empty() && Some(&*one.key()) == orphans.as_deref();
            let own = |object| Revisions::view(object).filter(|one| one.owner == uid || is_orphan(one));
            let revisions = self.writer.list(&revisions, "", own).await?;
            Ok::<_, Failure>((pods, claims, revisions))
        };
        match ask.await {
            Ok((pods, claims, revisions)) => {
                self.wrote.push(Wrote::Read(selector, pods, claims, revisions));
                self.unread = false;
                End::Done
            }
            Err(failure) => End::UpdateFailed(failure.text()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use berth_proto::crd::CloneSet;
    use serde_json::{Value, json};

    use super::*;
    use crate::served;

    /// Lists of the API server: of claims two pages, of which none has labels of the selector.
    fn list(path: &str, query: &str) -> Value {
        let claim = |name: &str, owner: &str| {
            let owner = json!({
                "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": owner, "uid": owner,
                "controller": true,
            });
            json!({
                "metadata": { "namespace": "ns", "name": name, "uid": name, "resourceVersion": "3",
                    "labels": { "app": "relabelled" }, "ownerReferences": [owner] },
            })
        };
        let is_claims = path.ends_with("/persistentvolumeclaims");
        // What the API server does with a selector that no claim matches.
        if !is_claims || query.contains("labelSelector") {
            return json!({ "metadata": { "resourceVersion": "5" }, "items": [] });
        }
        let (next, items) = match query.contains("continue=second") {
            true => ("", json!([claim("data-b", "set")])),
            false => ("second", json!([claim("data-a", "set"), claim("data-other", "other")])),
        };
        json!({ "metadata": { "resourceVersion": "5", "continue": next }, "items": items })
    }

    /// A claim that is not listed counts as gone, for good.
    #[tokio::test]
    async fn all_claims_of_a_set_are_read_whatever_their_labels() {
        let set: CloneSet = serde_json::from_value(json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet",
            "metadata": { "namespace": "ns", "name": "set", "uid": "set" },
            "spec": {
                "selector": {
                    "matchLabels": { "app": "a" },
                    "matchExpressions": [{ "key": "tier", "operator": "In", "values": ["web"] }],
                },
                "template": { "metadata": { "labels": { "app": "a", "tier": "web" } } },
            },
        }))
        .unwrap();
        let writer = served::reads(|path, query| list(path, query).to_string());
        let report = writer.read(Arc::new(set)).await;
        assert_eq!(report.end, End::Read);
        let Some(Wrote::Read(_, _, claims, _)) = report.wrote.first() else { panic!("{:?}", report.wrote) };
        let names: Vec<&str> = claims.objects.iter().map(|claim| claim.name.as_str()).collect();
        assert_eq!(names, ["data-a", "data-b"]);
    }
}
