//! Label selectors, parsed once and evaluated often.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::fault::Fault;

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

#[cfg(test)]
thread_local! {
    /// Selectors that were parsed by this thread: those of a test.
    pub(crate) static PARSED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// A label selector. An empty one takes everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector(Vec<(String, Must)>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Must {
    Be(BTreeSet<String>),
    NotBe(BTreeSet<String>),
    Exist,
    NotExist,
}

impl Selector {
    /// Parses the selector of this field.
    pub fn parse(field: &str, given: &LabelSelector) -> Result<Self, Fault> {
        #[cfg(test)]
        PARSED.set(PARSED.get() + 1);
        let mut all = Vec::new();
        for (key, value) in given.match_labels.iter().flatten() {
            all.push((key.clone(), Must::Be(BTreeSet::from([value.clone()]))));
        }
        for (at, one) in given.match_expressions.iter().flatten().enumerate() {
            let field = format!("{field}.matchExpressions[{at}]");
            let values: BTreeSet<String> = one.values.iter().flatten().cloned().collect();
            let must = match (one.operator.as_str(), values.is_empty()) {
                ("In" | "NotIn", true) => return Err(Fault::new(field, "has no values: give at least one")),
                ("Exists" | "DoesNotExist", false) => {
                    return Err(Fault::new(field, "takes no values: leave them out"));
                }
                ("In", false) => Must::Be(values),
                ("NotIn", false) => Must::NotBe(values),
                ("Exists", true) => Must::Exist,
                ("DoesNotExist", true) => Must::NotExist,
                (other, _) => {
                    let why = format!("has operator {other:?}: give In, NotIn, Exists or DoesNotExist");
                    return Err(Fault::new(field, why));
                }
            };
            all.push((one.key.clone(), must));
        }
        Ok(Self(all))
    }

    /// Tells whether it asks for nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of its requirements.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Tells whether it takes these labels.
    pub fn takes(&self, labels: &Labels) -> bool {
        self.0.iter().all(|(key, must)| {
            let value = labels.get(key);
            match must {
                Must::Be(values) => value.is_some_and(|value| values.contains(value)),
                // As everywhere in Kubernetes, a label that is not there is none of these.
                Must::NotBe(values) => value.is_none_or(|value| !values.contains(value)),
                Must::Exist => value.is_some(),
                Must::NotExist => value.is_none(),
            }
        })
    }

    /// Text of the selector, as the scale subresource has it.
    pub fn text(&self) -> String {
        let join = |values: &BTreeSet<String>| values.iter().cloned().collect::<Vec<_>>().join(",");
        let one = |(key, must): &(String, Must)| match must {
            Must::Be(values) if values.len() == 1 => format!("{key}={}", join(values)),
            Must::Be(values) => format!("{key} in ({})", join(values)),
            Must::NotBe(values) => format!("{key} notin ({})", join(values)),
            Must::Exist => key.clone(),
            Must::NotExist => format!("!{key}"),
        };
        self.0.iter().map(one).collect::<Vec<_>>().join(",")
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn selector(given: Value) -> Result<Selector, Fault> {
        Selector::parse("spec.selector", &serde_json::from_value(given).unwrap())
    }

    #[rstest]
    #[case(json!({"matchLabels": {"a": "1"}}), true, "a=1")]
    #[case(json!({"matchLabels": {"a": "2"}}), false, "a=2")]
    #[case(json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}), true, "a in (1,2)")]
    #[case(json!({"matchExpressions": [{"key": "b", "operator": "NotIn", "values": ["1"]}]}), true, "b notin (1)")]
    #[case(json!({"matchExpressions": [{"key": "b", "operator": "Exists"}]}), false, "b")]
    #[case(json!({"matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]}), true, "!b")]
    fn labels_are_taken(#[case] given: Value, #[case] takes: bool, #[case] text: &str) {
        let selector = selector(given).unwrap();
        let labels = Labels::from([("a".to_owned(), "1".to_owned())]);
        assert_eq!((selector.takes(&labels), selector.text().as_str()), (takes, text));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let fault = selector(json!({"matchExpressions": [{"key": "a", "operator": "in", "values": ["1"]}]}));
        assert!(fault.unwrap_err().to_string().starts_with("spec.selector.matchExpressions[0] has operator"));
    }
}
