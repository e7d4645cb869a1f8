//! Label selectors, parsed once and evaluated often.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;

/// Requirements on labels; everything must hold. An empty one matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selector {
    requirements: Box<[Requirement]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: Box<str>,
    must: Must,
}

/// Values are sorted: there may be thousands, and each of thousands of nodes is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Must {
    Be(Box<[String]>),
    NotBe(Box<[String]>),
    Exist,
    NotExist,
}

impl Selector {
    /// Parses a selector; the error begins with the field.
    pub(crate) fn parse(
        labels: &BTreeMap<String, String>,
        expressions: &[LabelSelectorRequirement],
    ) -> Result<Self, String> {
        let equal = labels.iter().map(|(key, value)| {
            Ok(Requirement { key: key.as_str().into(), must: Must::Be([value.clone()].into()) })
        });
        let requirements = equal.chain(expressions.iter().map(requirement)).collect::<Result<_, _>>()?;
        Ok(Self { requirements })
    }

    /// Returns the key of which there is to be one of the fewest values, with these, if there is such a key.
    pub(crate) fn narrowest(&self) -> Option<(&str, &[String])> {
        let asked = self.requirements.iter().filter_map(|Requirement { key, must }| match must {
            Must::Be(values) => Some((&**key, &**values)),
            Must::NotBe(_) | Must::Exist | Must::NotExist => None,
        });
        asked.min_by_key(|(_, values)| values.len())
    }

    /// `labels` are sorted by key.
    pub(crate) fn matches(&self, labels: &[(Arc<str>, Arc<str>)]) -> bool {
        self.requirements.iter().all(|requirement| {
            let at = labels.binary_search_by(|(key, _)| (**key).cmp(&requirement.key));
            let value = at.ok().map(|at| &*labels[at].1);
            match &requirement.must {
                Must::Be(values) => value.is_some_and(|value| is_in(values, value)),
                // As everywhere in Kubernetes, a label that is not there is none of these.
                Must::NotBe(values) => value.is_none_or(|value| !is_in(values, value)),
                Must::Exist => value.is_some(),
                Must::NotExist => value.is_none(),
            }
        })
    }
}

fn requirement(given: &LabelSelectorRequirement) -> Result<Requirement, String> {
    let LabelSelectorRequirement { key, operator, values } = given;
    let values = values.as_deref().unwrap_or_default();
    let must = match operator.as_str() {
        "In" | "NotIn" if values.is_empty() => {
            return Err(format!("matchExpressions: {operator} of {key:?} has no values; give at least one"));
        }
        "In" => Must::Be(sorted(values)),
        "NotIn" => Must::NotBe(sorted(values)),
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            return Err(format!("matchExpressions: {operator} of {key:?} takes no values; leave them out"));
        }
        "Exists" => Must::Exist,
        "DoesNotExist" => Must::NotExist,
        other => {
            return Err(format!(
                "matchExpressions: the operator of {key:?} is {other:?}; use In, NotIn, Exists or DoesNotExist"
            ));
        }
    };
    Ok(Requirement { key: key.as_str().into(), must })
}

fn is_in(values: &[String], value: &str) -> bool {
    values.binary_search_by(|one| one.as_str().cmp(value)).is_ok()
}

fn sorted(values: &[String]) -> Box<[String]> {
    let mut values = values.to_vec();
    values.sort_unstable();
    values.into()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn expression(key: &str, operator: &str, values: &[&str]) -> LabelSelectorRequirement {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        LabelSelectorRequirement { key: key.to_owned(), operator: operator.to_owned(), values: Some(values) }
    }

    #[rstest]
    #[case::in_one("zone", "In", &["a", "b"], true)]
    #[case::in_one_of_many("zone", "In", &["c", "b", "d", "a"], true)]
    #[case::in_another("zone", "In", &["b"], false)]
    #[case::in_missing("gpu", "In", &["a"], false)]
    #[case::not_in("zone", "NotIn", &["b"], true)]
    #[case::not_in_one("zone", "NotIn", &["a"], false)]
    #[case::not_in_one_of_many("zone", "NotIn", &["c", "b", "d", "a"], false)]
    #[case::not_in_missing("gpu", "NotIn", &["a"], true)]
    #[case::exists("zone", "Exists", &[], true)]
    #[case::exists_missing("gpu", "Exists", &[], false)]
    #[case::not_exists("zone", "DoesNotExist", &[], false)]
    #[case::not_exists_missing("gpu", "DoesNotExist", &[], true)]
    fn each_operator(#[case] key: &str, #[case] operator: &str, #[case] values: &[&str], #[case] yes: bool) {
        let labels: [(Arc<str>, Arc<str>); 2] = [("disk".into(), "ssd".into()), ("zone".into(), "a".into())];
        let selector = Selector::parse(&BTreeMap::new(), &[expression(key, operator, values)]).unwrap();
        assert_eq!(selector.matches(&labels), yes);
        let ssd = BTreeMap::from([("disk".to_owned(), "ssd".to_owned())]);
        let selector = Selector::parse(&ssd, &[expression(key, operator, values)]).unwrap();
        assert_eq!(selector.matches(&labels), yes);
        let hdd = BTreeMap::from([("disk".to_owned(), "hdd".to_owned())]);
        assert!(!Selector::parse(&hdd, &[expression(key, operator, values)]).unwrap().matches(&labels));
    }

    #[rstest]
    #[case::unknown("Equals", &["a"], "\"Equals\"")]
    #[case::in_nothing("In", &[], "has no values")]
    #[case::exists_something("Exists", &["a"], "takes no values")]
    fn what_makes_no_sense_is_named(#[case] operator: &str, #[case] values: &[&str], #[case] says: &str) {
        let error = Selector::parse(&BTreeMap::new(), &[expression("k", operator, values)]).unwrap_err();
        assert!(error.contains(says) && error.contains("\"k\""), "{error}");
    }
}
