//! Objects that are nested deeper than a parser goes, or take far more memory than their text.
//!
//! The parser refuses a text that is nested deeper than 127 levels, and the text of a list is one. Whoever
//! may write an object with a part of free form, or with managed fields, can nest it deeper, and the API
//! server keeps it so. Then no list with it can be read, and whoever follows its kind begins anew for ever.
//! So an object is read only so deep, what is below is passed over, and who reads it is told.
//!
//! A map that was read takes some 650 bytes, however little is in it: `{"a":1},` has 8. So an object is read
//! only so far as it takes [`MOST_MEMORY`], and set aside as one that is too deep is.
//!
//! Managed fields are as deep as the object, anybody may write deeper ones, and nobody here reads them: they
//! are passed over always.

use std::{cell::Cell, fmt};

use serde::{
    Deserializer,
    de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};

/// Levels of any object that are read: the parser's, without those of a list and of a watch.
pub const LEVELS: usize = 110;

/// Levels of a part of an object that are read.
pub const PART_LEVELS: usize = LEVELS - 1;

/// Bytes that one object may take when it is read. Those that people make take less than a tenth.
pub const MOST_MEMORY: usize = 8 << 20;

/// Beginning of the error of a value that takes too much memory.
pub const TOO_LARGE: &str = "it takes too much memory when it is read: give it fewer lists and maps";

/// Fields of metadata by which an object is named, and by which a watch goes on. They are read whatever comes
/// before them: labels and annotations do, and may fill the memory alone.
const IDENTITY: [&str; 6] =
    ["name", "namespace", "uid", "resourceVersion", "generation", "deletionTimestamp"];

/// Bytes of a value in a list, or in a map.
const VALUE: usize = size_of::<Value>();
/// Bytes of a map that is not empty: the standard library's has room for eleven entries at once.
const MAP: usize = 632;
/// Bytes of one more entry of a map, and of its key without the text.
const ENTRY: usize = 64;
/// Bytes that an allocation takes beside its text.
const ALLOCATION: usize = 16;

/// A value as far as it was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// The value.
    pub value: Value,
    /// It took more memory than it may, so there is only a beginning of it.
    pub is_cut: bool,
}

/// Reads an object as deep as [`LEVELS`] and as far as it takes [`MOST_MEMORY`], without its managed fields.
///
/// # Errors
/// The text makes no sense, or has no end.
pub fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Reading, D::Error> {
    reading(deserializer, LEVELS, Of::Object, MOST_MEMORY)
}

/// Reads a part of an object, such as its spec: one level less.
///
/// # Errors
/// The text makes no sense, or has no end.
pub fn read_part<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Reading, D::Error> {
    reading(deserializer, PART_LEVELS, Of::Rest, MOST_MEMORY)
}

/// Reads a value as a whole, if it takes no more memory than so many bytes.
///
/// # Errors
/// The text makes no sense, or what it says takes more: [`TOO_LARGE`].
pub fn read_within<'de, D: Deserializer<'de>>(deserializer: D, most: usize) -> Result<Value, D::Error> {
    let Reading { value, is_cut } = reading(deserializer, usize::MAX, Of::Rest, most)?;
    if is_cut { Err(D::Error::custom(TOO_LARGE)) } else { Ok(value) }
}

/// Reads the JSON text that a part of an object is, such as an annotation, if it takes no more memory than
/// [`MOST_MEMORY`]: what counts where an object is read says nothing of what is within its texts.
pub fn read_text(text: &str) -> Option<Value> {
    let mut text = serde_json::Deserializer::from_str(text);
    let value = read_within(&mut text, MOST_MEMORY).ok()?;
    text.end().ok()?;
    Some(value)
}

fn reading<'de, D: Deserializer<'de>>(
    deserializer: D,
    levels: usize,
    of: Of,
    most: usize,
) -> Result<Reading, D::Error> {
    let part = Part { levels, of, most, taken: &Cell::new(0) };
    let value = part.deserialize(deserializer)?;
    Ok(Reading { value, is_cut: part.is_full() })
}

/// Checks that an object that was read is nested no deeper than [`LEVELS`], and was read to its end.
///
/// # Errors
/// The message names the field that is deeper, or says how much memory an object may take.
pub fn check(object: &Reading) -> Result<(), String> {
    shallow(&object.value, LEVELS)?;
    object.whole()
}

impl Reading {
    /// Checks that it was read to its end.
    ///
    /// # Errors
    /// The message says how much memory it may take.
    pub fn whole(&self) -> Result<(), String> {
        match self.is_cut {
            true => Err(format!("{TOO_LARGE}, at most {MOST_MEMORY} bytes are read")),
            false => Ok(()),
        }
    }
}

/// Checks that a value takes no more memory than so many bytes.
///
/// # Errors
/// The message says how much it takes.
pub fn fits(value: &Value, most: usize) -> Result<(), String> {
    let bytes = memory(value);
    if bytes <= most {
        return Ok(());
    }
    Err(format!(
        "it takes {bytes} bytes of memory or more, and at most {most} are read; give it fewer lists and maps"
    ))
}

/// Bytes that a value takes in memory, about.
pub fn memory(value: &Value) -> usize {
    let below = match value {
        Value::Array(all) => all.iter().map(memory).fold(0, usize::saturating_add),
        Value::Object(all) => all
            .iter()
            .enumerate()
            .map(|(at, (key, value))| of_entry(at == 0, key).saturating_add(memory(value)))
            .fold(0, usize::saturating_add),
        Value::String(text) => of_text(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    VALUE.saturating_add(below)
}

/// Bytes of an entry of a map without its value; the first one brings the map with it.
fn of_entry(is_first: bool, key: &str) -> usize {
    of_text(key).saturating_add(if is_first { MAP } else { ENTRY })
}

fn of_text(text: &str) -> usize {
    text.len().saturating_add(ALLOCATION)
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

/// Part of an object that is read so many levels deep. A map or list below them is there, and empty; of one
/// that goes beyond the memory there is a beginning.
#[derive(Clone, Copy)]
struct Part<'a> {
    levels: usize,
    of: Of,
    /// Bytes that the whole object may take.
    most: usize,
    /// Bytes that it takes so far.
    taken: &'a Cell<usize>,
}

#[derive(Clone, Copy)]
enum Of {
    Object,
    Metadata,
    Rest,
}

impl Part<'_> {
    /// The part below it; `None`: it is passed over.
    fn below(self, key: &str) -> Option<Self> {
        let of = match (self.of, key) {
            (_, _) if self.levels == 0 => return None,
            (Of::Metadata, "managedFields") => return None,
            // As a text or a number: anything else has no level left, and is empty.
            (Of::Metadata, key) if IDENTITY.contains(&key) => {
                return Some(Self { levels: 0, of: Of::Rest, ..self });
            }
            (Of::Object, "metadata") => Of::Metadata,
            (_, _) if self.is_full() => return None,
            _ => Of::Rest,
        };
        Some(Self { levels: self.levels.saturating_sub(1), of, ..self })
    }

    fn take(self, bytes: usize) {
        self.taken.set(self.taken.get().saturating_add(bytes));
    }

    /// Takes in that what was read is not kept.
    fn give_back(self, bytes: usize) {
        self.taken.set(self.taken.get().saturating_sub(bytes));
    }

    fn is_full(self) -> bool {
        self.taken.get() > self.most
    }

    fn plain<E>(self, value: impl Into<Value>) -> Result<Value, E> {
        let value = value.into();
        self.take(memory(&value));
        Ok(value)
    }
}

impl<'de> DeserializeSeed<'de> for Part<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Part<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        self.plain(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        self.plain(value)
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        self.plain(value)
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        self.plain(value)
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        self.plain(value)
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        self.plain(value)
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        self.plain(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        self.take(VALUE);
        while let Some(below) = self.below("") {
            match seq.next_element_seed(below)? {
                Some(value) => all.push(value),
                None => return Ok(all.into()),
            }
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(all.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        self.take(VALUE);
        while let Some(key) = map.next_key::<String>()? {
            let Some(below) = self.below(&key) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let entry = of_entry(all.is_empty(), &key);
            self.take(entry);
            // Whoever sets an object aside names it: its metadata are read, whatever came before them.
            let before = matches!(below.of, Of::Metadata).then(|| self.taken.replace(0));
            let value = map.next_value_seed(below)?;
            self.take(before.unwrap_or(0));
            if let Some(before) = all.insert(key, value) {
                self.give_back(entry.saturating_add(memory(&before)));
            }
        }
        Ok(all.into())
    }
}

#[cfg(test)]
mod tests;
