//! Label selectors: which labels they take, and whether two of them may take the same.

use std::collections::{BTreeMap, BTreeSet};

use berth_proto::names::{is_label_value, is_qualified};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::fault::Fault;

/// Labels, or annotations.
pub(crate) type Labels = BTreeMap<String, String>;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operator {
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Exists,
    DoesNotExist,
}

/// A label selector, parsed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selector {
    requirements: Vec<(String, Operator)>,
}

impl Selector {
    /// Parses the selector at this path.
    pub(crate) fn parse(selector: &LabelSelector, path: &str) -> Result<Self, Fault> {
        let mut requirements = Vec::new();
        for (key, value) in selector.match_labels.iter().flatten() {
            if !is_qualified(key) || !is_label_value(value) {
                let message = format!("{key:?}: {value:?} is no label: correct it");
                return Err(Fault::new(format!("{path}.matchLabels"), message));
            }
            requirements.push((key.clone(), Operator::In(BTreeSet::from([value.clone()]))));
        }
        for (at, expression) in selector.match_expressions.iter().flatten().enumerate() {
            let field = |member: &str| format!("{path}.matchExpressions[{at}].{member}");
            let values: BTreeSet<_> = expression.values.iter().flatten().cloned().collect();
            if !is_qualified(&expression.key) {
                return Err(Fault::new(
                    field("key"),
                    format!("{:?} is no label key: correct it", expression.key),
                ));
            }
            if let Some(value) = values.iter().find(|value| !is_label_value(value)) {
                return Err(Fault::new(field("values"), format!("{value:?} is no label value: correct it")));
            }
            let with_values = matches!(expression.operator.as_str(), "In" | "NotIn");
            if with_values == values.is_empty() {
                let wanted = if with_values { "give at least one" } else { "remove them" };
                return Err(Fault::new(
                    field("values"),
                    format!("do not fit {}: {wanted}", expression.operator),
                ));
            }
            let operator = match expression.operator.as_str() {
                "In" => Operator::In(values),
                "NotIn" => Operator::NotIn(values),
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    let message =
                        format!("{other:?} is none of In, NotIn, Exists and DoesNotExist: give one of them");
                    return Err(Fault::new(field("operator"), message));
                }
            };
            requirements.push((expression.key.clone(), operator));
        }
        Ok(Self { requirements })
    }

    /// Selector of this one value.
    pub(crate) fn of(key: &str, value: &str) -> Self {
        Self { requirements: vec![(key.to_owned(), Operator::In(BTreeSet::from([value.to_owned()])))] }
    }

    /// Tells whether it asks for nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Tells whether it takes these labels; an empty one takes none.
    pub(crate) fn takes(&self, labels: &Labels) -> bool {
        !self.is_empty()
            && self.requirements.iter().all(|(key, operator)| match (operator, labels.get(key)) {
                (Operator::In(values), Some(value)) => values.contains(value),
                (Operator::NotIn(values), Some(value)) => !values.contains(value),
                (Operator::Exists, found) => found.is_some(),
                (Operator::DoesNotExist, found) => found.is_none(),
                (Operator::In(_), None) => false,
                (Operator::NotIn(_), None) => true,
            })
    }

    /// Tells whether some labels may be taken by both: no key rules it out.
    pub(crate) fn may_overlap(&self, other: &Self) -> bool {
        let mut keys: BTreeMap<&str, Vec<&Operator>> = BTreeMap::new();
        for (key, operator) in self.requirements.iter().chain(&other.requirements) {
            keys.entry(key).or_default().push(operator);
        }
        keys.into_values().all(|operators| is_possible(&operators))
    }
}

/// Tells whether one label, or its absence, can fulfil all of these.
fn is_possible(operators: &[&Operator]) -> bool {
    let mut allowed: Option<BTreeSet<&str>> = None;
    let mut forbidden = BTreeSet::new();
    let (mut present, mut absent) = (false, false);
    for operator in operators {
        match operator {
            Operator::In(values) => {
                present = true;
                let values: BTreeSet<_> = values.iter().map(String::as_str).collect();
                allowed = Some(allowed.map_or(values.clone(), |before| &before & &values));
            }
            Operator::NotIn(values) => forbidden.extend(values.iter().map(String::as_str)),
            Operator::Exists => present = true,
            Operator::DoesNotExist => absent = true,
        }
    }
    let one_is_left = allowed.is_none_or(|allowed| allowed.difference(&forbidden).next().is_some());
    !(present && absent) && one_is_left
}
