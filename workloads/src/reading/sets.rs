//! Workloads, read with their objects: the leader before this one may have acted on a version of one that the
//! watch has not shown here yet. Decided by the one before it, the pods that it made would be too many, and
//! those that it updated would go back.

use std::collections::BTreeMap;

use berth_base::sent::Sent;
use berth_workloads_policy::store::version;
use kube::{Api, api::DynamicObject};

use crate::{
    kinds::{Kind, Set},
    object::Filed,
    owned::Listed,
    write::{Failure, Writer},
};

/// Workloads that are known, by namespace: their kinds, and the version of each by its UID.
pub(crate) type KnownSets = BTreeMap<String, Vec<(&'static Kind, BTreeMap<String, u64>)>>;

/// Workload that there is: its UID, and all of it where that is newer than what is known. What is known is
/// not held twice.
pub(crate) type FoundSet = (String, Option<Filed<Set>>);

impl Writer {
    /// Reads the workloads of a namespace, of those kinds of which some are known there.
    pub(super) async fn found_sets(
        &self,
        namespace: &str,
        known: &KnownSets,
    ) -> Result<Vec<(&'static Kind, Listed<FoundSet>)>, Failure> {
        let mut found = Vec::new();
        for (kind, versions) in known.get(namespace).into_iter().flatten() {
            let resource = kind.resource();
            let api = Api::<Sent<DynamicObject>>::namespaced_with(self.client.clone(), namespace, &resource);
            let listed = self.list(&api, "", |object| found_set(kind, versions, object)).await?;
            found.push((*kind, listed));
        }
        Ok(found)
    }
}

/// Workload as a reading has found it; `None`: nobody can read what it is now, so it is set aside, as when
/// the watch shows it.
fn found_set(kind: &Kind, known: &BTreeMap<String, u64>, object: DynamicObject) -> Option<FoundSet> {
    let uid = object.metadata.uid.clone()?;
    let found = version(object.metadata.resource_version.as_deref().unwrap_or_default());
    let is_newer = known.get(&uid).is_some_and(|known| *known < found);
    let newer = if is_newer { Some(kind.file(object).ok()?) } else { None };
    Some((uid, newer))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::kinds::KINDS;

    /// Rows: the version that is known, the replicas of one that is listed at version 5, and whether all of
    /// it is kept; `None`: it is none that counts.
    #[rstest]
    #[case::newer(Some(3), json!(5), Some(true))]
    #[case::as_it_is_known(Some(5), json!(5), Some(false))]
    #[case::the_watch_was_faster(Some(7), json!(5), Some(false))]
    #[case::not_known(None, json!(5), Some(false))]
    #[case::not_readable(Some(3), json!("five"), None)]
    fn what_is_newer_is_kept(
        #[case] known: Option<u64>,
        #[case] replicas: Value,
        #[case] is_kept: Option<bool>,
    ) {
        let kind = KINDS.into_iter().find(|kind| kind.name == "StatefulSet").unwrap();
        let object = serde_json::from_value(json!({
            "apiVersion": kind.api_version(), "kind": kind.name,
            "metadata": { "namespace": "ns", "name": "db", "uid": "u", "resourceVersion": "5" },
            "spec": { "replicas": replicas, "selector": {}, "template": {} },
        }));
        let known = known.map(|version| ("u".to_owned(), version)).into_iter().collect();
        let found = found_set(kind, &known, object.unwrap());
        assert!(found.iter().all(|(uid, _)| uid == "u"));
        assert_eq!(found.map(|(_, newer)| newer.is_some()), is_kept);
    }
}
