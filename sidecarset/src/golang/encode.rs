//! Encoding of a value as the Go type that a table describes. It checks the types on the way: what a Go
//! program could not decode is a fault.

use serde_json::Value;

use super::quantity::rewritten;
use crate::{fault::Fault, json::Object};

/// The most members without a meaning that are told of.
const UNKNOWN_MOST: usize = 16;

/// Type of a member.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Text,
    Flag,
    Int32,
    Int64,
    /// A number or a text, as of a port.
    Either,
    Quantity,
    List(&'static Self),
    Map(&'static Self),
    Struct(&'static [Field]),
}

/// When a member is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// Even if it is absent.
    Always,
    /// If it is not zero, empty or false.
    Filled,
    /// If it is there, zero too.
    Given,
    /// Always, as null if it is absent.
    Nullable,
}

/// One member of a struct: name, when it is written, type.
pub(super) type Field = (&'static str, When, Kind);

/// Writes the members of an object in the order of the table.
pub(super) fn structure(fields: &[Field], of: &Object, path: &str, out: &mut String) -> Result<(), Fault> {
    out.push('{');
    let begin = out.len();
    for (name, when, kind) in fields {
        let value = of.get(*name).unwrap_or(&Value::Null);
        let is_struct = matches!(kind, Kind::Struct(_) | Kind::Quantity);
        let written = match when {
            When::Always | When::Nullable => true,
            When::Given => !value.is_null(),
            When::Filled => is_struct || !is_zero(*kind, value),
        };
        if !written {
            continue;
        }
        if out.len() > begin {
            out.push(',');
        }
        quoted(name, out);
        out.push(':');
        if value.is_null() && *when == When::Nullable {
            out.push_str("null");
        } else {
            encode(*kind, value, &format!("{path}.{name}"), out)?;
        }
    }
    out.push('}');
    Ok(())
}

fn is_zero(kind: Kind, value: &Value) -> bool {
    match (kind, value) {
        (_, Value::Null) | (Kind::Flag, Value::Bool(false)) => true,
        (Kind::Int32 | Kind::Int64, Value::Number(number)) => number.as_i64() == Some(0),
        (Kind::Text, Value::String(text)) => text.is_empty(),
        (Kind::List(_), Value::Array(values)) => values.is_empty(),
        (Kind::Map(_), Value::Object(members)) => members.is_empty(),
        _ => false,
    }
}

/// Writes a value of this type; null is its zero.
pub(super) fn encode(kind: Kind, value: &Value, path: &str, out: &mut String) -> Result<(), Fault> {
    let wrong = |wanted: &str| Fault::new(path, format!("is not {wanted}: correct it"));
    match kind {
        Kind::Text => {
            let text = if value.is_null() { Some("") } else { value.as_str() };
            quoted(text.ok_or_else(|| wrong("a text"))?, out);
        }
        Kind::Flag => {
            let flag = !value.is_null() && value.as_bool().ok_or_else(|| wrong("true or false"))?;
            out.push_str(if flag { "true" } else { "false" });
        }
        Kind::Int32 => integer(value, i32::MIN.into(), i32::MAX.into(), wrong, out)?,
        Kind::Int64 => integer(value, i64::MIN, i64::MAX, wrong, out)?,
        Kind::Either => match value {
            Value::String(text) => quoted(text, out),
            _ => integer(value, i32::MIN.into(), i32::MAX.into(), wrong, out)?,
        },
        Kind::Quantity => quoted(&quantity(value, wrong)?, out),
        Kind::List(items) => {
            out.push('[');
            let values = if value.is_null() {
                &[]
            } else {
                value.as_array().ok_or_else(|| wrong("a list"))?.as_slice()
            };
            for (at, item) in values.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                encode(*items, item, &format!("{path}[{at}]"), out)?;
            }
            out.push(']');
        }
        Kind::Map(items) => {
            out.push('{');
            let members = if value.is_null() {
                None
            } else {
                Some(value.as_object().ok_or_else(|| wrong("an object"))?)
            };
            for (at, (name, item)) in members.into_iter().flatten().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                quoted(name, out);
                out.push(':');
                encode(*items, item, &format!("{path}[{name}]"), out)?;
            }
            out.push('}');
        }
        Kind::Struct(fields) => {
            let empty = Object::new();
            let of =
                if value.is_null() { &empty } else { value.as_object().ok_or_else(|| wrong("an object"))? };
            structure(fields, of, path, out)?;
        }
    }
    Ok(())
}

fn integer(
    value: &Value,
    least: i64,
    most: i64,
    wrong: impl Fn(&str) -> Fault,
    out: &mut String,
) -> Result<(), Fault> {
    let number = if value.is_null() { Some(0) } else { value.as_i64() };
    let number = number.filter(|number| (least..=most).contains(number));
    out.push_str(&number.ok_or_else(|| wrong("a whole number that fits"))?.to_string());
    Ok(())
}

fn quantity(value: &Value, wrong: impl Fn(&str) -> Fault) -> Result<String, Fault> {
    let text = match value {
        Value::Null => Some("0".to_owned()),
        Value::String(text) => rewritten(text, false),
        Value::Number(number) => rewritten(&number.to_string(), false),
        _ => None,
    };
    text.ok_or_else(|| wrong("a quantity such as 500m or 128Mi"))
}

/// Paths of members that the table does not have, at most [`UNKNOWN_MOST`].
fn unknown_in(fields: &[Field], of: &Object, path: &str, found: &mut Vec<String>) {
    for (name, value) in of {
        if found.len() >= UNKNOWN_MOST {
            return;
        }
        let path = format!("{path}.{name}");
        match fields.iter().find(|(known, ..)| known == name) {
            Some((.., kind)) => unknown_below(*kind, value, &path, found),
            None => found.push(path),
        }
    }
}

fn unknown_below(kind: Kind, value: &Value, path: &str, found: &mut Vec<String>) {
    match (kind, value) {
        (Kind::Struct(fields), Value::Object(of)) => unknown_in(fields, of, path, found),
        (Kind::List(items), Value::Array(values)) => {
            for (at, value) in values.iter().enumerate() {
                unknown_below(*items, value, &format!("{path}[{at}]"), found);
            }
        }
        _ => {}
    }
}

/// Members of a sidecar that no table has, by path, at most [`UNKNOWN_MOST`].
pub(crate) fn unknown(sidecar: &Object, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    unknown_in(super::container::SIDECAR, sidecar, path, &mut found);
    found
}

/// JSON of a merged annotation: members sorted, as Go has them.
pub(crate) fn merged_text(value: &Value) -> String {
    let mut out = String::new();
    any(value, &mut out);
    out
}

fn any(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => quoted(text, out),
        Value::Array(values) => {
            out.push('[');
            for (at, value) in values.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                any(value, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            out.push('{');
            for (at, (name, value)) in members.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                quoted(name, out);
                out.push(':');
                any(value, out);
            }
            out.push('}');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => out.push_str(&value.to_string()),
    }
}

/// Writes a text with Go's escapes: those of JSON, and `<`, `>`, `&` and the two line separators of Unicode.
pub(crate) fn quoted(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}
