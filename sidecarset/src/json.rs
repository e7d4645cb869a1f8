//! Reading of JSON that may be anything. What is not of the type that is asked for is as if it were absent;
//! where that matters, somebody else has checked the types.

use serde_json::{Map, Value};

pub(crate) type Object = Map<String, Value>;

const NOTHING: &[Value] = &[];

/// Text of a member; empty when there is none.
pub(crate) fn text<'a>(of: &'a Object, member: &str) -> &'a str {
    of.get(member).and_then(Value::as_str).unwrap_or_default()
}

/// List of a member; empty when there is none.
pub(crate) fn list<'a>(of: &'a Object, member: &str) -> &'a [Value] {
    of.get(member).and_then(Value::as_array).map_or(NOTHING, Vec::as_slice)
}

/// Objects in the list of a member.
pub(crate) fn objects<'a>(of: &'a Object, member: &str) -> impl Iterator<Item = &'a Object> + Clone {
    list(of, member).iter().filter_map(Value::as_object)
}

/// Object of a member.
pub(crate) fn object<'a>(of: &'a Object, member: &str) -> Option<&'a Object> {
    of.get(member).and_then(Value::as_object)
}

/// Objects in the list of a member, to be changed.
pub(crate) fn objects_mut<'a>(of: &'a mut Object, member: &str) -> impl Iterator<Item = &'a mut Object> {
    of.get_mut(member).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Object of a member, to be changed.
pub(crate) fn object_mut<'a>(of: &'a mut Object, member: &str) -> Option<&'a mut Object> {
    of.get_mut(member).and_then(Value::as_object_mut)
}

/// Sets a member that is absent, null or an empty text.
pub(crate) fn default(of: &mut Object, member: &str, value: impl Into<Value>) {
    let absent = match of.get(member) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(_) => false,
    };
    if absent {
        of.insert(member.to_owned(), value.into());
    }
}

/// Object of a member, made when it is absent or null. None when it is of another type.
pub(crate) fn made<'a>(of: &'a mut Object, member: &str) -> Option<&'a mut Object> {
    let value = of.entry(member).or_insert(Value::Null);
    if value.is_null() {
        *value = Value::Object(Object::new());
    }
    value.as_object_mut()
}

/// About as many bytes as the value has as JSON.
pub(crate) fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(_) => 8,
        Value::String(text) => text.len().saturating_add(3),
        Value::Array(values) => values.iter().map(size).fold(2, usize::saturating_add),
        Value::Object(members) => size_of_object(members),
    }
}

/// About as many bytes as the object has as JSON.
pub(crate) fn size_of_object(members: &Object) -> usize {
    let sizes = members.iter().map(|(name, value)| name.len().saturating_add(4).saturating_add(size(value)));
    sizes.fold(2, usize::saturating_add)
}
