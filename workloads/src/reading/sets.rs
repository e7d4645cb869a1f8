//! Workloads, read with their objects: the leader before this one may have acted on a version of one that the
//! watch has not shown here yet. Decided by the one before it, the pods that it made would be too many, and
//! those that it updated would go back.
//!
//! A kind that nobody may list any more, or that is not installed any more, holds up nothing else of its
//! namespace: its workloads are as the watch has shown them.

use std::collections::BTreeMap;

use berth_base::{line_pace::SharedPace, sent::Sent};
use berth_workloads_policy::store::version;
use kube::{Api, api::DynamicObject};
use tracing::warn;

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

/// Pace of the lines about kinds that are not read: each namespace has them.
static NOT_READ: SharedPace = SharedPace::new();

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
            match self.list(&api, "", |object| found_set(kind, versions, object)).await {
                Ok(listed) => found.push((*kind, listed)),
                // It may be so for ever.
                Err(failure @ (Failure::Gone | Failure::Refused(_))) => tell_of(kind, namespace, &failure),
                Err(failure) => return Err(failure),
            }
        }
        Ok(found)
    }
}

fn tell_of(kind: &Kind, namespace: &str, failure: &Failure) {
    if let Some(left_out) = NOT_READ.take() {
        let (kind, error) = (kind.name, failure.text());
        warn!(kind, namespace, error, left_out, "Workloads not read, they are as the watch has shown them");
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
    use crate::{kinds::KINDS, served};

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

    /// Rows: the code that a list of CloneSets is answered with, and whether the others are read.
    #[rstest]
    #[case::forbidden(403, true)]
    #[case::not_installed(404, true)]
    #[case::too_old(410, false)]
    #[case::an_error(500, false)]
    #[tokio::test]
    async fn a_kind_that_nobody_may_list_holds_no_other_one_up(#[case] code: u16, #[case] goes_on: bool) {
        let writer = served::writer(move |_, path, _| {
            if path.ends_with("/clonesets") {
                return json!({
                    "kind": "Status", "status": "Failure", "code": code, "metadata": {}, "message": "no",
                    "reason": "",
                });
            }
            json!({ "metadata": { "resourceVersion": "9" }, "items": [] })
        });
        let kinds = ["CloneSet", "StatefulSet"].map(|name| {
            let kind = KINDS.into_iter().find(|kind| kind.name == name).unwrap();
            (kind, BTreeMap::from([("u".to_owned(), 3)]))
        });
        let known = KnownSets::from([("ns".to_owned(), kinds.to_vec())]);
        let found = writer.found_sets("ns", &known).await;
        let names = found.map(|found| found.iter().map(|(kind, _)| kind.name).collect::<Vec<_>>());
        assert_eq!(names.ok(), goes_on.then(|| vec!["StatefulSet"]));
    }
}
