//! Resources that a pod asks for and a node has, in billionths.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::quantity::quantity;

const NANO: i128 = 1_000_000_000;

/// Amounts by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Resources(BTreeMap<String, i128>);

impl Resources {
    /// Reads amounts; one that is none counts as nothing.
    pub(super) fn read<'a>(given: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        Self(given.map(|(name, amount)| (name.to_owned(), quantity(amount).unwrap_or(0))).collect())
    }

    /// Reads what a pod of the template asks of its node: what its containers do together, or one that runs
    /// before them alone does.
    pub(super) fn of_pod(template: &Map<String, Value>) -> Self {
        let spec = template.get("spec");
        let list = |key: &str| spec.and_then(|spec| spec.get(key)?.as_array()).into_iter().flatten();
        let (mut together, mut most) = (Self::default(), Self::default());
        for container in list("initContainers") {
            let asks = Self::of_container(container);
            if container.get("restartPolicy").and_then(Value::as_str) == Some("Always") {
                together.add(&asks);
                most.raise(&together);
            } else {
                let mut alone = together.clone();
                alone.add(&asks);
                most.raise(&alone);
            }
        }
        list("containers").for_each(|container| together.add(&Self::of_container(container)));
        most.raise(&together);
        most.add(&Self::of(spec.and_then(|spec| spec.get("overhead"))));
        // Each is looked at for each node, and any node has as much as nothing.
        most.0.retain(|_, asks| *asks > 0);
        most
    }

    /// Requests of a container; of what it has only a limit of, that.
    fn of_container(container: &Value) -> Self {
        let resources = container.get("resources");
        let mut asks = Self::of(resources.and_then(|all| all.get("limits")));
        asks.0.extend(Self::of(resources.and_then(|all| all.get("requests"))).0);
        asks
    }

    fn of(given: Option<&Value>) -> Self {
        let given = given.and_then(Value::as_object).into_iter().flatten();
        let amount = |value: &Value| match value {
            Value::String(text) => quantity(text),
            Value::Number(number) => quantity(&number.to_string()),
            _ => None,
        };
        Self(given.map(|(name, value)| (name.clone(), amount(value).unwrap_or(0))).collect())
    }

    /// Tells whether an empty node has as much, and room for a pod. One whose kubelet has said nothing yet
    /// has none: the scheduler would give it no pod either.
    pub(super) fn are_within(&self, node: &Self) -> bool {
        let has = |name: &str| node.0.get(name).copied().unwrap_or(0);
        has("pods") >= NANO && self.0.iter().all(|(name, asks)| *asks <= has(name))
    }

    fn add(&mut self, more: &Self) {
        for (name, amount) in &more.0 {
            let sum = self.0.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*amount);
        }
    }

    fn raise(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let own = self.0.entry(name.clone()).or_default();
            *own = (*own).max(*amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case("2", Some(2 * NANO))]
    #[case("500m", Some(NANO / 2))]
    #[case("0.5", Some(NANO / 2))]
    #[case("1e3", Some(1000 * NANO))]
    #[case("1E-3", Some(NANO / 1000))]
    #[case("1E", Some(NANO * 1_000_000_000_000_000_000))]
    #[case("64Mi", Some(NANO * (64 << 20)))]
    #[case("1.5Ki", Some(NANO * 1536))]
    #[case("0.0000000001", Some(1))]
    #[case("9e99", Some(i128::MAX))]
    #[case("", None)]
    #[case(".", None)]
    #[case("1.2.3", None)]
    #[case("-1", None)]
    #[case("1x", None)]
    #[case("1e99999999999", None)]
    fn quantities(#[case] text: &str, #[case] nano: Option<i128>) {
        assert_eq!(quantity(text), nano);
    }

    #[test]
    fn a_pod_asks_for_what_runs_at_once() {
        let container = |cpu: &str| json!({ "resources": { "requests": { "cpu": cpu } } });
        let template = json!({ "spec": {
            "initContainers": [
                { "restartPolicy": "Always", "resources": { "limits": { "cpu": "1" } } },
                container("3"),
            ],
            "containers": [container("1"), container("500m")],
            "overhead": { "cpu": "250m" },
        }});
        let asks = Resources::of_pod(template.as_object().unwrap());
        // The sidecar and the container after it ask for four, and the others together for less.
        assert_eq!(asks.0["cpu"], 4 * NANO + NANO / 4);
        let node = |cpu: &str, pods: &str| Resources::read([("cpu", cpu), ("pods", pods)].into_iter());
        assert!(asks.are_within(&node("4250m", "110")));
        assert!(!asks.are_within(&node("4249m", "110")) && !asks.are_within(&node("8", "0")));
        assert!(!Resources::default().are_within(&Resources::default()), "it has said nothing");
    }

    /// A template has room for thousands of names, and each would be looked at for each node.
    #[test]
    fn what_asks_for_nothing_is_not_looked_at() {
        let names = (0..10_000).map(|number| (format!("example.com/{number}"), json!("0")));
        let requests: Map<String, Value> = names.chain([("cpu".to_owned(), json!("1"))]).collect();
        let template = json!({ "spec": { "containers": [{ "resources": { "requests": requests } }] } });
        let asks = Resources::of_pod(template.as_object().unwrap());
        assert_eq!(asks.0, BTreeMap::from([("cpu".to_owned(), NANO)]));
        assert!(asks.are_within(&Resources::read([("cpu", "1"), ("pods", "1")].into_iter())));
    }
}
