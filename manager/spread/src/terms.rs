//! Terms and tolerations of a subset, checked as the API server checks those of a pod: it would refuse each
//! pod of a subset that has a wrong one. Pure.

use berth_proto::names::{is_label_value, is_qualified};
use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, Toleration};

/// Effects of taints.
const EFFECTS: [&str; 4] = ["", "NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Checks a term; the error names the field and the remedy.
pub(crate) fn check(field: &str, term: &NodeSelectorTerm) -> Result<(), String> {
    for (at, one) in term.match_expressions.iter().flatten().enumerate() {
        expression(&format!("{field}.matchExpressions[{at}]"), one)?;
    }
    for (at, one) in term.match_fields.iter().flatten().enumerate() {
        let values = one.values.iter().flatten().count();
        if one.key != "metadata.name" || !matches!(one.operator.as_str(), "In" | "NotIn") || values != 1 {
            return Err(format!("{field}.matchFields[{at}]: give metadata.name, In or NotIn, and one name"));
        }
    }
    Ok(())
}

fn expression(field: &str, one: &NodeSelectorRequirement) -> Result<(), String> {
    if !is_qualified(&one.key) {
        return Err(format!("{field}.key: is no key of a label; give one of nodes"));
    }
    let values = one.values.iter().flatten().count();
    let fits = match one.operator.as_str() {
        "In" | "NotIn" => values > 0,
        "Exists" | "DoesNotExist" => values == 0,
        "Gt" | "Lt" => values == 1,
        _ => return Err(format!("{field}.operator: give In, NotIn, Exists, DoesNotExist, Gt or Lt")),
    };
    if fits {
        return Ok(());
    }
    Err(format!("{field}.values: give some to In and NotIn, one to Gt and Lt, and none to the others"))
}

/// Checks a toleration. What later versions of Kubernetes compare values by is let in.
pub(crate) fn tolerates(field: &str, one: &Toleration) -> Result<(), String> {
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    let (key, operator, value) = (text(&one.key), text(&one.operator), text(&one.value));
    if key.is_empty() && operator != "Exists" {
        return Err(format!("{field}: without a key give the operator Exists, or give a key"));
    }
    if !key.is_empty() && !is_qualified(&key) {
        return Err(format!("{field}.key: is no key of a taint; give one"));
    }
    match operator.as_str() {
        "Exists" if !value.is_empty() => {
            return Err(format!("{field}.value: the operator Exists takes any; leave it out"));
        }
        "" | "Equal" if !is_label_value(&value) => {
            return Err(format!("{field}.value: is no value of a taint; give one"));
        }
        "" | "Equal" | "Exists" | "Gt" | "Lt" => {}
        _ => return Err(format!("{field}.operator: give Equal or Exists")),
    }
    let effect = text(&one.effect);
    if !EFFECTS.contains(&effect.as_str()) {
        return Err(format!("{field}.effect: give NoSchedule, PreferNoSchedule or NoExecute, or none"));
    }
    if one.toleration_seconds.is_some() && effect != "NoExecute" {
        return Err(format!("{field}.tolerationSeconds: is for the effect NoExecute; give that, or none"));
    }
    Ok(())
}
