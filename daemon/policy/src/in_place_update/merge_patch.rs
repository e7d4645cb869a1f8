//! JSON merge patches (RFC 7386) of annotations that several owners share: each changes its own members, and
//! those of the others stay.

use serde_json::{Map, Value};

/// A patch of one annotation whose value is a JSON object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergePatch(Map<String, Value>);

/// Reasons why an annotation cannot be merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// The patch is no JSON object.
    #[error("the patch is no JSON object")]
    Patch,
    /// The value that the pod has is no JSON.
    #[error("the pod's value is no JSON: correct or remove it")]
    Value,
}

impl MergePatch {
    /// Reads a patch.
    pub fn parse(text: &str) -> Result<Self, MergeError> {
        match serde_json::from_str(text) {
            Ok(Value::Object(members)) => Ok(Self(members)),
            _ => Err(MergeError::Patch),
        }
    }

    /// The patch that sets one member to a text.
    pub(crate) fn of(member: &str, text: &str) -> Self {
        Self(Map::from_iter([(member.to_owned(), Value::String(text.to_owned()))]))
    }

    /// Names of the members that it sets or removes.
    pub fn members(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Gives the value after the patch. One that says the same already stays letter for letter, so merging
    /// twice is merging once; otherwise keys are sorted. Anything but an object is replaced.
    pub fn merge(&self, value: Option<&str>) -> Result<String, MergeError> {
        let there = value.filter(|value| !value.is_empty());
        let before = there.map(serde_json::from_str::<Value>).transpose().map_err(|_| MergeError::Value)?;
        let mut members = match &before {
            Some(Value::Object(members)) => members.clone(),
            _ => Map::new(),
        };
        apply(&mut members, &self.0);
        let after = Value::Object(members);
        match (there, before) {
            (Some(text), Some(before)) if before == after => Ok(text.to_owned()),
            _ => Ok(sorted(after).to_string()),
        }
    }

    /// Gives the patch that takes this one back: its members as they were in `before`.
    pub fn inverse(&self, before: Option<&str>) -> Self {
        let before = before.and_then(|text| serde_json::from_str::<Value>(text).ok());
        let nothing = Map::new();
        Self(taken_back(&self.0, before.as_ref().and_then(Value::as_object).unwrap_or(&nothing)))
    }
}

/// The depth is bounded by what the parser takes.
fn apply(target: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (name, value) in patch {
        match value {
            Value::Null => {
                target.remove(name);
            }
            Value::Object(patch) => {
                let mut members = match target.remove(name) {
                    Some(Value::Object(members)) => members,
                    _ => Map::new(),
                };
                apply(&mut members, patch);
                target.insert(name.clone(), Value::Object(members));
            }
            value => {
                target.insert(name.clone(), value.clone());
            }
        }
    }
}

fn taken_back(patch: &Map<String, Value>, before: &Map<String, Value>) -> Map<String, Value> {
    let back = |(name, value): (&String, &Value)| {
        let back = match (value, before.get(name)) {
            (Value::Object(patch), Some(Value::Object(before))) => Value::Object(taken_back(patch, before)),
            (_, before) => before.cloned().unwrap_or(Value::Null),
        };
        (name.clone(), back)
    };
    patch.iter().map(back).collect()
}

/// Sorts the keys of a value, whatever order the parser keeps.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.into_iter().collect();
            members.sort_by(|(a, _), (b, _)| a.cmp(b));
            Value::Object(members.into_iter().map(|(name, value)| (name, sorted(value))).collect())
        }
        Value::Array(values) => Value::Array(values.into_iter().map(sorted).collect()),
        value => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_as_rfc_7386_says() {
        for (value, patch, expect) in [
            (None, r#"{"b":1,"a":{"d":2,"c":3}}"#, Ok(r#"{"a":{"c":3,"d":2},"b":1}"#)),
            (Some(""), r#"{"a":1}"#, Ok(r#"{"a":1}"#)),
            (Some(r#"{"main":2}"#), r#"{"log":1}"#, Ok(r#"{"log":1,"main":2}"#)),
            (Some(r#"{"a":{"x":1,"y":2}}"#), r#"{"a":{"x":null}}"#, Ok(r#"{"a":{"y":2}}"#)),
            (Some(r#"{"a":1}"#), r#"{"a":null,"b":null}"#, Ok("{}")),
            (None, r#"{"a":null,"b":{"c":null}}"#, Ok(r#"{"b":{}}"#)),
            (Some("7"), r#"{"log":1}"#, Ok(r#"{"log":1}"#)),
            (Some(r#"{ "b" : 2, "a": 1 }"#), r#"{"a":1}"#, Ok(r#"{ "b" : 2, "a": 1 }"#)),
            (Some(r#"{"a":[1,2]}"#), r#"{"a":[3]}"#, Ok(r#"{"a":[3]}"#)),
            (Some("x=1"), r#"{"log":1}"#, Err(MergeError::Value)),
        ] {
            let patch = MergePatch::parse(patch).unwrap();
            let merged = patch.merge(value);
            assert_eq!(merged.as_deref().map_err(|error| *error), expect, "{value:?} {patch:?}");
            if let Ok(merged) = merged {
                assert_eq!(patch.merge(Some(&merged)).as_deref(), Ok(merged.as_str()), "once is enough");
            }
        }
        for none in ["", "7", "[]", "{", "x"] {
            assert_eq!(MergePatch::parse(none), Err(MergeError::Patch), "{none}");
        }
        assert_eq!(MergePatch::parse(&"{\"a\":".repeat(100_000)), Err(MergeError::Patch), "too deep");
    }

    #[test]
    fn taken_back_beside_the_changes_of_others() {
        for (before, patch, since, expect) in [
            (Some(r#"{"s":1}"#), r#"{"s":2}"#, r#"{"s":2,"t":9}"#, r#"{"s":1,"t":9}"#),
            (None, r#"{"s":2}"#, r#"{"s":2,"t":9}"#, r#"{"t":9}"#),
            (
                Some(r#"{"s":{"a":1,"b":2}}"#),
                r#"{"s":{"a":null}}"#,
                r#"{"s":{"b":3}}"#,
                r#"{"s":{"a":1,"b":3}}"#,
            ),
        ] {
            let patch = MergePatch::parse(patch).unwrap();
            assert_eq!(patch.inverse(before).merge(Some(since)).as_deref(), Ok(expect));
        }
    }
}
