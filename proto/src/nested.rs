//! Objects that are nested deeper than a parser goes.
//!
//! The parser refuses a text that is nested deeper than 127 levels, and the text of a list is one. Whoever
//! may write an object with a part of free form, or with managed fields, can nest it deeper, and the API
//! server keeps it so. Then no list with it can be read, and whoever follows its kind begins anew for ever.
//! So an object is read only so deep, what is below is passed over, and who reads it is told.
//!
//! Managed fields are as deep as the object, anybody may write deeper ones, and nobody here reads them: they
//! are passed over always.

use std::fmt;

use serde::{
    Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};

/// Levels of any object that are read: the parser's, without those of a list and of a watch.
pub const LEVELS: usize = 110;

/// Levels of a part of an object that are read.
pub const PART_LEVELS: usize = LEVELS - 1;

/// Reads an object as deep as [`LEVELS`], without its managed fields.
///
/// # Errors
/// The text makes no sense, or has no end.
pub fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    Part { levels: LEVELS, of: Of::Object }.deserialize(deserializer)
}

/// Reads a part of an object, such as its spec: one level less.
///
/// # Errors
/// The text makes no sense, or has no end.
pub fn read_part<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    Part { levels: PART_LEVELS, of: Of::Rest }.deserialize(deserializer)
}

/// Checks that an object that was read is nested no deeper than [`LEVELS`].
///
/// # Errors
/// The message names the field that is.
pub fn check(object: &Value) -> Result<(), String> {
    shallow(object, LEVELS)
}

/// Checks that an object is nested at most so many levels deep.
///
/// # Errors
/// The message names the field that is not.
pub fn shallow(object: &Value, levels: usize) -> Result<(), String> {
    let deeper = |value, above| {
        let below = levels.saturating_sub(above);
        fields(value).find(move |(_, value)| is_deeper(value, below))
    };
    let Some((part, value)) = deeper(object, 1) else { return Ok(()) };
    let field = deeper(value, 2).map(|(field, _)| format!(".{field}")).unwrap_or_default();
    Err(format!("{part}{field} is nested deeper than {levels} levels"))
}

fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn is_deeper(value: &Value, levels: usize) -> bool {
    let below = levels.saturating_sub(1);
    match value {
        Value::Array(all) => levels == 0 || all.iter().any(|value| is_deeper(value, below)),
        Value::Object(all) => levels == 0 || all.values().any(|value| is_deeper(value, below)),
        _ => false,
    }
}

/// Part of an object that is read so many levels deep. A map or list below them is there, and empty.
#[derive(Clone, Copy)]
struct Part {
    levels: usize,
    of: Of,
}

#[derive(Clone, Copy)]
enum Of {
    Object,
    Metadata,
    Rest,
}

impl Part {
    /// The part below it; `None`: it is passed over.
    fn below(self, key: &str) -> Option<Self> {
        let of = match (self.of, key) {
            (Of::Metadata, "managedFields") => return None,
            (Of::Object, "metadata") => Of::Metadata,
            _ => Of::Rest,
        };
        Some(Self { levels: self.levels.saturating_sub(1), of })
    }
}

impl<'de> DeserializeSeed<'de> for Part {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Part {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        if self.levels == 0 {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(all.into());
        }
        let below = Self { levels: self.levels.saturating_sub(1), of: Of::Rest };
        while let Some(value) = seq.next_element_seed(below)? {
            all.push(value);
        }
        Ok(all.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            match self.below(&key).filter(|_| self.levels > 0) {
                Some(below) => drop(all.insert(key, map.next_value_seed(below)?)),
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(all.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Lists in lists.
    fn lists(levels: usize) -> Value {
        (0..levels).fold(Value::Null, |inner, _| json!([inner]))
    }

    #[test]
    fn what_is_too_deep_is_passed_over_and_said() {
        let read = |object: &Value| read(object).unwrap();
        let of = |levels| json!({ "metadata": { "name": "a" }, "spec": { "a": lists(levels) } });
        for (levels, fault) in [
            (108, None),
            (109, Some("spec.a is nested deeper than 110 levels")),
            (500, Some("spec.a is nested deeper than 110 levels")),
        ] {
            let object = read(&of(levels));
            assert_eq!(check(&object).err().as_deref(), fault, "{levels}");
            assert_eq!(object["metadata"]["name"], "a");
        }
        assert_eq!(read(&of(3)), of(3));
        assert_eq!(shallow(&of(3), 4), Err("spec.a is nested deeper than 4 levels".to_owned()));
    }

    #[test]
    fn managed_fields_are_passed_over() {
        let object =
            json!({ "metadata": { "name": "a", "managedFields": [lists(500)] }, "managedFields": 1 });
        let object = read(&object).unwrap();
        assert_eq!(
            object,
            json!({ "metadata": { "name": "a" }, "managedFields": 1 }),
            "others of that name are"
        );
    }
}
