//! Fields of later versions of OpenKruise that the definitions keep and nothing reads. The API server takes
//! them without a word, so who gives one hears of it here. Pure.

use serde_json::Value;

use crate::admission::review::Request;

const DEADLINE: &str = "spec.progressDeadlineSeconds: is kept, and nothing follows from it: wait for a \
                        rollout with kubectl berth rollout status --timeout";
const CLAIMS: &str = "spec.volumeClaimUpdateStrategy.type: OnPodRollingUpdate is kept, and nothing follows \
                      from it: a change of volumeClaimTemplates is for claims that are made afterwards";

/// Sentences for the author of a set, about what the stored one has not.
pub(super) fn warnings(request: &Request) -> Vec<String> {
    let before = sentence(&request.old_object);
    sentence(&request.object).filter(|now| Some(*now) != before).map(str::to_owned).into_iter().collect()
}

fn sentence(set: &Value) -> Option<&'static str> {
    let spec = &set["spec"];
    match set["kind"].as_str()? {
        "CloneSet" => {
            // With the largest number a client says that there is no deadline.
            let deadline = spec["progressDeadlineSeconds"].as_i64();
            deadline.is_some_and(|seconds| seconds < i64::from(i32::MAX)).then_some(DEADLINE)
        }
        "StatefulSet" => {
            let way = &spec["volumeClaimUpdateStrategy"]["type"];
            (way == "OnPodRollingUpdate").then_some(CLAIMS)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::admission::{review::Verdict, workloads::complete};

    fn deadline(seconds: i32) -> Value {
        json!({ "progressDeadlineSeconds": seconds })
    }

    fn claims(way: &str) -> Value {
        json!({ "volumeClaimUpdateStrategy": { "type": way } })
    }

    #[rstest]
    #[case::deadline("CloneSet", json!({}), deadline(600), "spec.progressDeadlineSeconds")]
    #[case::deadline_of_a_new_set("CloneSet", json!(null), deadline(0), "spec.progressDeadlineSeconds")]
    #[case::no_deadline("CloneSet", json!({}), deadline(i32::MAX), "")]
    #[case::deadline_as_before("CloneSet", deadline(600), deadline(300), "")]
    #[case::claims("StatefulSet", claims("OnDelete"), claims("OnPodRollingUpdate"), "spec.volumeClaim")]
    #[case::claims_as_before("StatefulSet", claims("OnPodRollingUpdate"), claims("OnPodRollingUpdate"), "")]
    #[case::claims_of_old("StatefulSet", json!({}), claims("OnDelete"), "")]
    #[case::nothing("StatefulSet", json!({}), json!({ "volumeClaimUpdateStrategy": null }), "")]
    #[case::another_kind("DaemonSet", json!({}), deadline(600), "")]
    fn what_nothing_follows_from_is_said_once(
        #[case] kind: &str,
        #[case] old: Value,
        #[case] new: Value,
        #[case] field: &str,
    ) {
        let set = |spec: &Value| json!({ "kind": kind, "metadata": { "name": "s" }, "spec": spec });
        let old_object = if old.is_null() { Value::Null } else { set(&old) };
        let request = Request { object: set(&new), old_object, ..Request::default() };
        let Verdict::Allowed { object: Some(object), warnings } = complete(&request, true) else {
            panic!("refused")
        };
        let mut given = new.as_object().into_iter().flatten();
        assert!(given.all(|(name, value)| object["spec"][name] == *value), "{object}");
        assert_eq!(warnings.len(), usize::from(!field.is_empty()), "{warnings:?}");
        assert!(warnings.iter().all(|warning| warning.starts_with(field)), "{warnings:?}");
    }
}
