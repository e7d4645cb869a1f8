//! PersistentPodStates that are written: what their definition cannot say of them. Pure.

use berth_pod_state::Rules;
use berth_proto::crd::PersistentPodStateSpec;

use super::{
    pod_states::StateKept,
    review::{Request, Verdict},
};

/// Checks a state against its rules and the other ones of its namespace. `on` says whether any is carried
/// out.
pub(super) fn judge<'a>(request: &Request, others: impl Iterator<Item = &'a StateKept>, on: bool) -> Verdict {
    if !on {
        let message =
            "the manager carries out no PersistentPodStates (--persistent-pod-states=false): switch them on"
                .to_owned();
        return Verdict::Refused { code: 403, reason: "Forbidden", message };
    }
    let spec: PersistentPodStateSpec = match serde_json::from_value(request.object["spec"].clone()) {
        Ok(spec) => spec,
        Err(error) => return Verdict::invalid(format!("spec: {error}")),
    };
    let rules = match Rules::of(&spec) {
        Ok(rules) => rules,
        Err(fault) => return Verdict::invalid(fault.to_string()),
    };
    // The target cannot be changed, so an update meets nobody new.
    if !request.old_object.is_null() {
        if request.old_object["spec"]["targetRef"] != request.object["spec"]["targetRef"] {
            return Verdict::invalid("spec.targetRef: is immutable; make a new PersistentPodState");
        }
        return Verdict::AS_IT_IS;
    }
    let name = request.object["metadata"]["name"].as_str().unwrap_or_default();
    for other in others.filter(|other| other.name != name) {
        if other.rules.as_ref().is_ok_and(|known| known.target() == rules.target()) {
            return Verdict::invalid(format!(
                "spec.targetRef: PersistentPodState {:?} has the same StatefulSet; change it, or this one",
                other.name
            ));
        }
    }
    Verdict::AS_IT_IS
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn spec(group: &str, keys: &[&str]) -> Value {
        json!({
            "targetRef": { "apiVersion": group, "kind": "StatefulSet", "name": "web" },
            "requiredPersistentTopology": { "nodeTopologyKeys": keys },
        })
    }

    fn kept(name: &str) -> StateKept {
        let spec = serde_json::from_value(spec("apps/v1", &["zone"])).unwrap();
        StateKept {
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            rules: Rules::of(&spec).map_err(|fault| fault.to_string()),
        }
    }

    #[rstest]
    #[case::good("apps/v1", &["zone"], "one", true, "")]
    #[case::same_set("apps/v1", &["zone"], "other", true, "has the same StatefulSet")]
    #[case::of_the_other_group("apps.kruise.io/v1beta1", &["zone"], "other", true, "")]
    #[case::off("apps/v1", &["zone"], "one", false, "--persistent-pod-states=false")]
    #[case::an_empty_key("apps/v1", &[""], "one", true, "nodeTopologyKeys[0] is empty")]
    #[case::another_kind("batch/v1", &["zone"], "one", true, "spec.targetRef is no StatefulSet")]
    fn one_for_each_set(
        #[case] group: &str,
        #[case] keys: &[&str],
        #[case] other: &str,
        #[case] on: bool,
        #[case] says: &str,
    ) {
        let object = json!({ "metadata": { "name": "one" }, "spec": spec(group, keys) });
        let said = said(&Request { object, ..Request::default() }, &[kept(other)], on);
        assert!(said.contains(says) && said.is_empty() == says.is_empty(), "{said}");
    }

    #[test]
    fn a_target_stays() {
        let object = |group: &str| json!({ "metadata": { "name": "one" }, "spec": spec(group, &["zone"]) });
        let request =
            |old: &str| Request { object: object("apps/v1"), old_object: object(old), ..Request::default() };
        assert!(said(&request("apps.kruise.io/v1beta1"), &[], true).contains("is immutable"));
        assert_eq!(said(&request("apps/v1"), &[kept("other")], true), "");
    }

    fn said(request: &Request, others: &[StateKept], on: bool) -> String {
        match judge(request, others.iter(), on) {
            Verdict::Allowed { .. } => String::new(),
            Verdict::Refused { message, .. } => message,
            other => panic!("{other:?}"),
        }
    }
}
