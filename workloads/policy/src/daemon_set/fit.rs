//! Fit of a node: whether a template's pod should run there, and whether one that is there may stay.

use serde_json::{Map, Value, json};

use crate::{plan::NodeView, selector::Labels};

/// Taints that a pod of a DaemonSet tolerates by itself, with their effects, as in Kubernetes.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
/// Tolerated by pods in the network of their host.
const OF_HOST_NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// Where a template's pods run; read once for all nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fit {
    node_name: String,
    selector: Labels,
    /// Terms of the required affinity, one of which must hold; `None`: there is none.
    terms: Option<Vec<Term>>,
    tolerations: Vec<Value>,
}

#[derive(Clone, Debug, Default)]
struct Term {
    expressions: Vec<Value>,
    fields: Vec<Value>,
}

/// Tolerations of a pod of a DaemonSet beside those of its template.
pub(super) fn tolerations(spec: &Map<String, Value>) -> Vec<Value> {
    let host = spec.get("hostNetwork").and_then(Value::as_bool).unwrap_or(false).then_some(OF_HOST_NETWORK);
    let all = TOLERATED.into_iter().chain(host);
    all.map(|(key, effect)| json!({ "key": key, "operator": "Exists", "effect": effect })).collect()
}

fn list(value: Option<&Value>) -> Vec<Value> {
    value.and_then(Value::as_array).cloned().unwrap_or_default()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

impl Fit {
    /// Reads a template, whose pods tolerate what those of a DaemonSet do.
    pub(super) fn of(template: &Map<String, Value>) -> Self {
        let spec = template.get("spec").and_then(Value::as_object);
        Self::with(template, spec.map(tolerations).unwrap_or_default())
    }

    /// Reads a template, whose pods have these tolerations beside their own.
    pub(crate) fn with(template: &Map<String, Value>, tolerations: Vec<Value>) -> Self {
        let none = Map::new();
        let spec = template.get("spec").and_then(Value::as_object).unwrap_or(&none);
        let selector = spec.get("nodeSelector").and_then(Value::as_object).into_iter().flatten();
        let required = spec.get("affinity").and_then(|affinity| {
            affinity
                .get("nodeAffinity")?
                .get("requiredDuringSchedulingIgnoredDuringExecution")?
                .get("nodeSelectorTerms")
        });
        let term = |term: &Value| Term {
            expressions: list(term.get("matchExpressions")),
            fields: list(term.get("matchFields")),
        };
        let mut all = tolerations;
        all.extend(list(spec.get("tolerations")));
        Self {
            node_name: spec.get("nodeName").and_then(Value::as_str).unwrap_or_default().to_owned(),
            selector: selector
                .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()))
                .collect(),
            terms: required.and_then(Value::as_array).map(|terms| terms.iter().map(term).collect()),
            tolerations: all,
        }
    }

    /// Tells whether a pod should run on the node, and whether one that does may go on.
    pub(crate) fn on(&self, node: &NodeView) -> (bool, bool) {
        let placed = (self.node_name.is_empty() || self.node_name == node.name)
            && self.selector.iter().all(|(key, value)| node.labels.get(key) == Some(value))
            && self.terms.as_ref().is_none_or(|terms| terms.iter().any(|term| term.holds(node)));
        let bears = |effects: &[&str]| {
            let mut taints = node.taints.iter().filter(|taint| effects.contains(&text(taint, "effect")));
            taints.all(|taint| self.tolerates(taint))
        };
        (placed && bears(&["NoSchedule", "NoExecute"]), placed && bears(&["NoExecute"]))
    }
}

impl Fit {
    /// Tells whether its pods tolerate a taint.
    pub(crate) fn tolerates(&self, taint: &Value) -> bool {
        self.tolerations.iter().any(|one| tolerates(one, taint))
    }
}

impl Term {
    /// A term that asks for nothing takes nothing.
    fn holds(&self, node: &NodeView) -> bool {
        let field = |one: &Value| {
            let value = (text(one, "key") == "metadata.name").then_some(node.name.as_str());
            holds(one, value)
        };
        (!self.expressions.is_empty() || !self.fields.is_empty())
            && self
                .expressions
                .iter()
                .all(|one| holds(one, node.labels.get(text(one, "key")).map(String::as_str)))
            && self.fields.iter().all(field)
    }
}

/// Tells whether a requirement holds for the value of its key.
fn holds(requirement: &Value, value: Option<&str>) -> bool {
    let values = list(requirement.get("values"));
    let is_one = |value: &str| values.iter().any(|one| one.as_str() == Some(value));
    let number = || values.first()?.as_str()?.parse::<i64>().ok();
    let own = || value?.parse::<i64>().ok();
    match text(requirement, "operator") {
        "In" => value.is_some_and(is_one),
        "NotIn" => value.is_none_or(|value| !is_one(value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => matches!((own(), number()), (Some(own), Some(number)) if own > number),
        "Lt" => matches!((own(), number()), (Some(own), Some(number)) if own < number),
        _ => false,
    }
}

fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let (key, effect) = (text(toleration, "key"), text(toleration, "effect"));
    let same_key = key == text(taint, "key") || (key.is_empty() && text(toleration, "operator") == "Exists");
    let same_value =
        text(toleration, "operator") == "Exists" || text(toleration, "value") == text(taint, "value");
    same_key && same_value && (effect.is_empty() || effect == text(taint, "effect"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn node(taints: Value) -> NodeView {
        NodeView {
            name: "a".to_owned(),
            labels: [("zone".to_owned(), "5".to_owned())].into(),
            taints: list(Some(&taints)),
        }
    }

    fn fit(spec: Value) -> Fit {
        Fit::of(json!({ "spec": spec }).as_object().unwrap())
    }

    #[rstest]
    #[case::anywhere(json!({}), true)]
    #[case::by_name(json!({ "nodeName": "b" }), false)]
    #[case::by_label(json!({ "nodeSelector": { "zone": "5" } }), true)]
    #[case::by_another(json!({ "nodeSelector": { "zone": "6" } }), false)]
    #[case::greater(required(json!([{ "matchExpressions": [{ "key": "zone", "operator": "Gt", "values": ["4"] }] }])), true)]
    #[case::one_of_two(required(json!([
        { "matchExpressions": [{ "key": "zone", "operator": "DoesNotExist" }] },
        { "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["a"] }] },
    ])), true)]
    #[case::an_empty_term(required(json!([{}])), false)]
    #[case::no_term(required(json!([])), false)]
    fn places(#[case] spec: Value, #[case] runs: bool) {
        assert_eq!(fit(spec).on(&node(json!([]))), (runs, runs));
    }

    fn required(terms: Value) -> Value {
        json!({ "affinity": { "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } } } })
    }

    #[rstest]
    #[case::tolerated("node.kubernetes.io/not-ready", "NoExecute", json!([]), (true, true))]
    #[case::not_scheduled("x", "NoSchedule", json!([]), (false, true))]
    #[case::evicted("x", "NoExecute", json!([]), (false, false))]
    #[case::preferred("x", "PreferNoSchedule", json!([]), (true, true))]
    #[case::by_key("x", "NoExecute", json!([{ "key": "x", "operator": "Exists" }]), (true, true))]
    #[case::another_value("x", "NoExecute", json!([{ "key": "x", "value": "1" }]), (false, false))]
    #[case::all("x", "NoExecute", json!([{ "operator": "Exists" }]), (true, true))]
    fn taints(
        #[case] key: &str,
        #[case] effect: &str,
        #[case] tolerations: Value,
        #[case] fits: (bool, bool),
    ) {
        let node = node(json!([{ "key": key, "effect": effect }]));
        assert_eq!(fit(json!({ "tolerations": tolerations })).on(&node), fits);
    }
}
