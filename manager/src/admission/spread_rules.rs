//! WorkloadSpreads that are written: what their definition cannot say of them. Pure.

use berth_proto::crd::WorkloadSpreadSpec;
use berth_spread::{Spread, Target};
use serde_json::Value;

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
    // The workload cannot be changed, so an update meets nobody new.
    if !request.old_object.is_null() {
        if !stays(&request.old_object["spec"]["targetRef"], &spread.target) {
            return Verdict::invalid(
                "spec.targetRef: is immutable, but for the version of apps.kruise.io; make a new WorkloadSpread",
            );
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

/// Tells whether the target is as before: the same workload, by the same version where the group is not
/// `apps.kruise.io`. The definition says the same.
fn stays(old: &Value, target: &Target) -> bool {
    let part = |field: &str| old[field].as_str().unwrap_or_default();
    let version = part("apiVersion");
    target.is(version, part("kind"), part("name"))
        && (target.api_version == version || target.group() == "apps.kruise.io")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

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
        let (namespace, name) = ("shop".to_owned(), other.to_owned());
        let kept = SpreadKept { namespace, name, spread, is_bare: false, bytes: 0 };
        let object = json!({"metadata": {"name": "b"}, "spec": spec(target)});
        let said = said(object, Value::Null, &[kept], on);
        assert!(said.contains(says) && said.is_empty() == says.is_empty(), "{said}");
    }

    const ALPHA: &str = "apps.kruise.io/v1alpha1";

    #[rstest]
    #[case::as_it_is(("apps/v1", "Deployment", "web"), ("apps/v1", "Deployment", "web"), true)]
    #[case::another_name(("apps/v1", "Deployment", "db"), ("apps/v1", "Deployment", "web"), false)]
    #[case::another_kind(("apps/v1", "ReplicaSet", "web"), ("apps/v1", "Deployment", "web"), false)]
    #[case::another_version(("apps/v1beta1", "Deployment", "web"), ("apps/v1", "Deployment", "web"), false)]
    #[case::another_group((ALPHA, "StatefulSet", "web"), ("apps/v1", "StatefulSet", "web"), false)]
    #[case::the_next_version((ALPHA, "StatefulSet", "web"), ("apps.kruise.io/v1beta1", "StatefulSet", "web"), true)]
    #[case::the_version_before(("apps.kruise.io/v1beta1", "CloneSet", "web"), (ALPHA, "CloneSet", "web"), true)]
    #[case::and_another_name((ALPHA, "CloneSet", "db"), ("apps.kruise.io/v1beta1", "CloneSet", "web"), false)]
    fn a_target_stays(
        #[case] before: (&str, &str, &str),
        #[case] after: (&str, &str, &str),
        #[case] taken: bool,
    ) {
        let object = |(version, kind, name): (&str, &str, &str)| {
            let target = json!({"apiVersion": version, "kind": kind, "name": name});
            json!({"metadata": {"name": "b"}, "spec": {"targetRef": target, "subsets": [{"name": "a"}]}})
        };
        let said = said(object(after), object(before), &[], true);
        assert_eq!(said.is_empty(), taken, "{said}");
        assert!(taken || said.contains("spec.targetRef: is immutable"), "{said}");
    }
}
