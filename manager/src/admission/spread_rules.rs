//! WorkloadSpreads that are written: what their definition cannot say of them. Pure.

use berth_proto::crd::WorkloadSpreadSpec;
use berth_spread::Spread;

use super::{
    review::{Request, Verdict},
    spreads::SpreadKept,
};

/// Checks a spread against its rules and the other ones of its namespace. `on` says whether any is carried
/// out.
pub(super) fn judge<'a>(
    request: &Request,
    others: impl Iterator<Item = &'a SpreadKept>,
    on: bool,
) -> Verdict {
    if !on {
        let message = "the manager carries out no WorkloadSpreads (--workload-spreads=false): switch them on"
            .to_owned();
        return Verdict::Refused { code: 403, reason: "Forbidden", message };
    }
    let spec: WorkloadSpreadSpec = match serde_json::from_value(request.object["spec"].clone()) {
        Ok(spec) => spec,
        Err(error) => return Verdict::invalid(format!("spec: {error}")),
    };
    let spread = match Spread::parse(&spec) {
        Ok(spread) => spread,
        Err(error) => return Verdict::invalid(error),
    };
    // The target cannot be changed, so an update meets nobody new.
    if !request.old_object.is_null() {
        if request.old_object["spec"]["targetRef"] != request.object["spec"]["targetRef"] {
            return Verdict::invalid("spec.targetRef: is immutable; make a new WorkloadSpread");
        }
        return Verdict::AS_IT_IS;
    }
    let name = request.object["metadata"]["name"].as_str().unwrap_or_default();
    for other in others.filter(|other| other.name != name) {
        let Ok(known) = &other.spread else { continue };
        let target = &spread.target;
        if known.target.is(&target.api_version, &target.kind, &target.name) {
            return Verdict::invalid(format!(
                "spec.targetRef: WorkloadSpread {:?} has the same workload; change it, or this one",
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

    fn spec(name: &str) -> Value {
        json!({"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}, "subsets": [{"name": "a"}]})
    }

    fn said(object: Value, old_object: Value, others: &[SpreadKept], on: bool) -> String {
        let request = Request { object, old_object, ..Request::default() };
        match judge(&request, others.iter(), on) {
            Verdict::Allowed { .. } => String::new(),
            Verdict::Refused { message, .. } => message,
            other => panic!("{other:?}"),
        }
    }

    #[rstest]
    #[case::good("web", "b", true, "")]
    #[case::same_workload("web", "other", true, "has the same workload")]
    #[case::another_workload("db", "other", true, "")]
    #[case::off("web", "b", false, "--workload-spreads=false")]
    fn one_for_each_workload(
        #[case] target: &str,
        #[case] other: &str,
        #[case] on: bool,
        #[case] says: &str,
    ) {
        let parsed = serde_json::from_value(spec("web")).map_err(|error| error.to_string());
        let spread = parsed.and_then(|spec| Spread::parse(&spec));
        let kept = SpreadKept { namespace: "shop".to_owned(), name: other.to_owned(), spread };
        let object = json!({"metadata": {"name": "b"}, "spec": spec(target)});
        let said = said(object, Value::Null, &[kept], on);
        assert!(said.contains(says) && said.is_empty() == says.is_empty(), "{said}");
    }

    #[test]
    fn a_target_stays() {
        let object = |name: &str| json!({"metadata": {"name": "b"}, "spec": spec(name)});
        assert!(said(object("web"), object("db"), &[], true).contains("spec.targetRef: is immutable"));
        assert_eq!(said(object("web"), object("web"), &[], true), "");
    }
}
