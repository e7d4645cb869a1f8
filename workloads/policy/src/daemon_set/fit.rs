//! Fit of a node: whether a template's pod should run there, and whether one that is there may stay.
//!
//! A template is its author's, and all that it asks for is looked at for each node. So it is read once for
//! all of them, the values of a requirement are sorted then, and there may be [`MOST_RULES`] rules.

use serde_json::{Map, Value, json};

use crate::{fault::Fault, plan::NodeView};

/// The most terms, requirements and tolerations that a template has together.
const MOST_RULES: usize = 1024;
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
pub(crate) struct Fit<'a> {
    node_name: &'a str,
    selector: Vec<(&'a str, &'a str)>,
    /// Terms of the required affinity, one of which must hold; `None`: there is none.
    terms: Option<Vec<Term<'a>>>,
    tolerations: Vec<Toleration<'a>>,
}

#[derive(Clone, Debug, Default)]
struct Term<'a> {
    expressions: Vec<Requirement<'a>>,
    fields: Vec<Requirement<'a>>,
}

#[derive(Clone, Debug)]
struct Requirement<'a> {
    key: &'a str,
    operator: &'a str,
    /// Sorted.
    values: Vec<&'a str>,
    /// The first value, where it is a number.
    number: Option<i64>,
}

#[derive(Clone, Copy, Debug)]
struct Toleration<'a> {
    key: &'a str,
    value: &'a str,
    effect: &'a str,
    /// Any value of the key is tolerated; without a key any taint.
    exists: bool,
}

/// Checks that a template has no more rules than can be looked at for each node.
pub(crate) fn check(template: &Map<String, Value>) -> Result<(), Fault> {
    let Some(spec) = template.get("spec").and_then(Value::as_object) else { return Ok(()) };
    let of_term = |term: &Value| {
        let (expressions, fields) = (list(term.get("matchExpressions")), list(term.get("matchFields")));
        expressions.len().saturating_add(fields.len()).saturating_add(1)
    };
    let of_terms = list(terms(spec)).iter().map(of_term).fold(0, usize::saturating_add);
    let rules = of_terms.saturating_add(list(spec.get("tolerations")).len());
    if rules <= MOST_RULES {
        return Ok(());
    }
    let why = format!(
        "has {rules} tolerations, nodeSelectorTerms and requirements: give at most {MOST_RULES} together"
    );
    Err(Fault::new("spec.template.spec", why))
}

/// Tolerations of a pod of a DaemonSet beside those of its template.
pub(super) fn tolerations(spec: &Map<String, Value>) -> Vec<Value> {
    let one = |(key, effect): (&str, &str)| json!({ "key": key, "operator": "Exists", "effect": effect });
    tolerated(spec).into_iter().map(one).collect()
}

/// Taints that a pod of a DaemonSet tolerates by itself.
fn tolerated(spec: &Map<String, Value>) -> Vec<(&'static str, &'static str)> {
    let host = spec.get("hostNetwork").and_then(Value::as_bool).unwrap_or(false).then_some(OF_HOST_NETWORK);
    TOLERATED.into_iter().chain(host).collect()
}

/// Terms of the required affinity.
fn terms(spec: &Map<String, Value>) -> Option<&Value> {
    let nodes = spec.get("affinity")?.get("nodeAffinity")?;
    nodes.get("requiredDuringSchedulingIgnoredDuringExecution")?.get("nodeSelectorTerms")
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

impl<'a> Fit<'a> {
    /// Reads a template, whose pods tolerate what those of a DaemonSet do.
    pub(super) fn of(template: &'a Map<String, Value>) -> Self {
        let mut fit = Self::plain(template);
        let spec = template.get("spec").and_then(Value::as_object);
        let own = spec.map(tolerated).unwrap_or_default().into_iter();
        fit.tolerations.extend(own.map(|(key, effect)| Toleration { key, value: "", effect, exists: true }));
        fit
    }

    /// Reads a template, whose pods tolerate what it says.
    pub(crate) fn plain(template: &'a Map<String, Value>) -> Self {
        let Some(spec) = template.get("spec").and_then(Value::as_object) else { return Self::default() };
        let selector = spec.get("nodeSelector").and_then(Value::as_object).into_iter().flatten();
        let terms = terms(spec).and_then(Value::as_array);
        Self {
            node_name: spec.get("nodeName").and_then(Value::as_str).unwrap_or_default(),
            selector: selector
                .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
                .collect(),
            terms: terms.map(|terms| terms.iter().map(Term::of).collect()),
            tolerations: list(spec.get("tolerations")).iter().map(Toleration::of).collect(),
        }
    }

    /// Takes rules of others; without terms any node has them.
    pub(crate) fn of_rules(terms: &'a [Value], tolerations: &'a [Value]) -> Self {
        Self {
            terms: (!terms.is_empty()).then(|| terms.iter().map(Term::of).collect()),
            tolerations: tolerations.iter().map(Toleration::of).collect(),
            ..Self::default()
        }
    }

    /// Tells whether a pod should run on the node, and whether one that does may go on.
    pub(crate) fn on(&self, node: &NodeView) -> (bool, bool) {
        let placed = self.places(node);
        let bears = |effects: &[&str]| {
            let mut taints = node.taints.iter().filter(|taint| effects.contains(&text(taint, "effect")));
            taints.all(|taint| self.tolerates(taint))
        };
        (placed && bears(&["NoSchedule", "NoExecute"]), placed && bears(&["NoExecute"]))
    }

    /// Tells whether the node is one that the pods ask for, whatever its taints.
    pub(crate) fn places(&self, node: &NodeView) -> bool {
        (self.node_name.is_empty() || self.node_name == node.name)
            && self.selector.iter().all(|(key, value)| node.labels.get(*key).is_some_and(|own| own == value))
            && self.terms.as_ref().is_none_or(|terms| terms.iter().any(|term| term.holds(node)))
    }

    /// Tells whether its pods tolerate a taint.
    pub(crate) fn tolerates(&self, taint: &Value) -> bool {
        self.tolerations.iter().any(|one| one.tolerates(taint))
    }
}

impl<'a> Term<'a> {
    fn of(given: &'a Value) -> Self {
        let part = |name: &str| -> Vec<Requirement<'a>> {
            list(given.get(name)).iter().map(Requirement::of).collect()
        };
        Self { expressions: part("matchExpressions"), fields: part("matchFields") }
    }

    /// A term that asks for nothing takes nothing.
    fn holds(&self, node: &NodeView) -> bool {
        let field =
            |one: &Requirement<'_>| one.holds((one.key == "metadata.name").then_some(node.name.as_str()));
        (!self.expressions.is_empty() || !self.fields.is_empty())
            && self.expressions.iter().all(|one| one.holds(node.labels.get(one.key).map(String::as_str)))
            && self.fields.iter().all(field)
    }
}

impl<'a> Requirement<'a> {
    fn of(given: &'a Value) -> Self {
        let all = list(given.get("values"));
        let mut values: Vec<&str> = all.iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let number = all.first().and_then(|one| one.as_str()?.parse().ok());
        Self { key: text(given, "key"), operator: text(given, "operator"), values, number }
    }

    /// Tells whether it holds for the value of its key.
    fn holds(&self, value: Option<&str>) -> bool {
        let is_one = |value: &str| self.values.binary_search_by(|one| (**one).cmp(value)).is_ok();
        let own = || value?.parse::<i64>().ok();
        match self.operator {
            "In" => value.is_some_and(is_one),
            "NotIn" => value.is_none_or(|value| !is_one(value)),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            "Gt" => matches!((own(), self.number), (Some(own), Some(number)) if own > number),
            "Lt" => matches!((own(), self.number), (Some(own), Some(number)) if own < number),
            _ => false,
        }
    }
}

impl<'a> Toleration<'a> {
    fn of(given: &'a Value) -> Self {
        Self {
            key: text(given, "key"),
            value: text(given, "value"),
            effect: text(given, "effect"),
            exists: text(given, "operator") == "Exists",
        }
    }

    fn tolerates(&self, taint: &Value) -> bool {
        let same_key = self.key == text(taint, "key") || (self.key.is_empty() && self.exists);
        let same_value = self.exists || self.value == text(taint, "value");
        same_key && same_value && (self.effect.is_empty() || self.effect == text(taint, "effect"))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn node(taints: Value) -> NodeView {
        NodeView {
            name: "a".to_owned(),
            labels: [("zone".to_owned(), "5".to_owned())].into(),
            taints: list(Some(&taints)).to_vec(),
        }
    }

    /// Whether a pod with this spec should run on the node, and may go on there.
    fn on(spec: Value, node: &NodeView) -> (bool, bool) {
        let template = json!({ "spec": spec });
        Fit::of(template.as_object().unwrap()).on(node)
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
        assert_eq!(on(spec, &node(json!([]))), (runs, runs));
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
        assert_eq!(on(json!({ "tolerations": tolerations }), &node), fits);
    }

    /// Rows: how many terms, requirements of each and tolerations a template has, and whether it is taken.
    #[rstest]
    #[case::none(0, 0, 0, true)]
    #[case::as_many_as_there_may_be(2, 500, 22, true)]
    #[case::one_toleration_more(2, 500, 23, false)]
    #[case::requirements(1, 10_000, 0, false)]
    #[case::empty_terms(10_000, 0, 0, false)]
    #[case::tolerations_alone(0, 0, 10_000, false)]
    fn rules_of_a_template_are_few(
        #[case] terms: usize,
        #[case] each: usize,
        #[case] tolerations: usize,
        #[case] is_taken: bool,
    ) {
        let one = json!({ "key": "zone", "operator": "Exists" });
        let term = json!({ "matchFields": vec![one.clone(); each] });
        let mut spec = required(json!(vec![term; terms]));
        spec["tolerations"] = json!(vec![one; tolerations]);
        let template = json!({ "spec": spec });
        let said = check(template.as_object().unwrap()).map_err(|fault| fault.to_string());
        assert_eq!(said.is_ok(), is_taken, "{said:?}");
        if let Err(said) = said {
            assert!(
                said.starts_with("spec.template.spec has ") && said.contains("give at most 1024"),
                "{said}"
            );
        }
    }

    /// Values are as many as an object has room for: 50,000 nodes take a moment, and would take many
    /// minutes if the values were copied for each of them.
    #[test]
    fn values_of_a_requirement_are_many() {
        let values: Vec<String> = (0..100_000).map(|number| format!("zone-{number}")).collect();
        let term = |operator: &str| json!([{ "matchExpressions": [{ "key": "zone", "operator": operator, "values": values }] }]);
        for (operator, known, unknown) in [("In", true, false), ("NotIn", false, true)] {
            let template = json!({ "spec": required(term(operator)) });
            let fit = Fit::of(template.as_object().unwrap());
            let mut node = node(json!([]));
            for number in 0..50_000 {
                let zone = format!("zone-{}", number * 4);
                node.labels.insert("zone".to_owned(), zone);
                let expected = if number < 25_000 { known } else { unknown };
                assert_eq!(fit.on(&node), (expected, expected), "{operator} {number}");
            }
        }
    }
}
