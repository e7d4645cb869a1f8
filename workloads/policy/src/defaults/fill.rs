//! Fills in what an object leaves out, beside the object that it takes the place of.
//!
//! A field that the old object has none of stays left out: the template of an object that exists gets no
//! fields by an update, so it stays the same template, with the same revision. Parts that are new get all.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Map, Value};

/// Object of JSON.
pub type Object = Map<String, Value>;

/// Part of an object that is being completed, and the same part of the old one.
#[derive(Debug)]
pub struct Filling<'a> {
    new: &'a mut Object,
    old: Option<&'a Object>,
    /// Whether parts that are new get defaults.
    adds: bool,
}

impl<'a> Filling<'a> {
    /// A whole object.
    pub fn new(new: &'a mut Object, old: Option<&'a Object>) -> Self {
        Self { new, old, adds: true }
    }

    /// A whole object that gets no defaults but those of the old one.
    pub fn as_before(new: &'a mut Object, old: Option<&'a Object>) -> Self {
        Self { new, old, adds: false }
    }

    /// Tells whether a default may come in: the old part `has` it, or the part is new.
    fn fills(&self, has: impl FnOnce(&Object) -> bool) -> bool {
        self.old.map_or(self.adds, has)
    }

    /// Gives a field that is left out its default.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) {
        if absent(self.new, name) && self.fills(|old| !absent(old, name)) {
            self.new.insert(name.to_owned(), value.into());
        }
    }

    /// Gives a field another value.
    pub fn replace(&mut self, name: &str, value: impl Into<Value>) {
        self.new.insert(name.to_owned(), value.into());
    }

    /// Gives a number that 0 leaves out its default.
    pub fn set_number(&mut self, name: &str, value: i64) {
        if is_zero(self.new, name) && self.fills(|old| !is_zero(old, name)) {
            self.new.remove(name);
        }
        self.set(name, value);
    }

    /// Gives a text that is not there its default, which is the empty one.
    pub fn set_empty(&mut self, name: &str) {
        if !self.new.contains_key(name) && self.fills(|old| old.contains_key(name)) {
            self.new.insert(name.to_owned(), "".into());
        }
    }

    /// The old value of a field that is left out, or else its default.
    pub fn keep(&mut self, name: &str, value: impl Into<Value>) {
        match self.old.filter(|old| !absent(old, name)).and_then(|old| old.get(name)) {
            Some(old) if absent(self.new, name) => drop(self.new.insert(name.to_owned(), old.clone())),
            _ => self.set(name, value),
        }
    }

    /// Returns a text; empty when there is none.
    pub fn text(&self, name: &str) -> &str {
        self.new.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns a value.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.new.get(name)
    }

    /// Tells whether nothing but these members is given.
    pub fn has_only(&self, names: &[&str]) -> bool {
        self.new.iter().all(|(name, value)| names.contains(&name.as_str()) || value.is_null())
    }

    /// Completes a member that is an object.
    pub fn within(&mut self, name: &str, fill: impl FnOnce(&mut Filling<'_>)) {
        if let Some(new) = self.new.get_mut(name).and_then(Value::as_object_mut) {
            let old = self.old.and_then(|old| old.get(name)).and_then(Value::as_object);
            fill(&mut Filling { new, old, adds: self.adds });
        }
    }

    /// Completes a member that is an object, and that is no template, whatever the old one had: fields that
    /// go with the type of a strategy are there when an update changes the type, and no pod is updated for
    /// it.
    pub fn anew(&mut self, name: &str, fill: impl FnOnce(&mut Filling<'_>)) {
        if let Some(new) = self.new.get_mut(name).and_then(Value::as_object_mut) {
            fill(&mut Filling { new, old: None, adds: self.adds });
        }
    }

    /// Completes each object of a list. The old one of one is that of its name, of several with this name
    /// that of the same turn; without a name that of the same place.
    pub fn each(&mut self, name: &str, mut fill: impl FnMut(&mut Filling<'_>)) {
        let old = self.old.and_then(|old| old.get(name)).and_then(Value::as_array);
        let mut named: BTreeMap<String, VecDeque<&Object>> = BTreeMap::new();
        for one in old.into_iter().flatten().filter_map(Value::as_object) {
            if let Some(name) = name_of(one) {
                named.entry(name).or_default().push_back(one);
            }
        }
        let list = self.new.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten();
        for (at, new) in list.enumerate() {
            let Some(new) = new.as_object_mut() else { continue };
            let old = match name_of(new) {
                Some(name) => named.get_mut(&name).and_then(VecDeque::pop_front),
                None => old.and_then(|old| old.get(at)).and_then(Value::as_object),
            };
            fill(&mut Filling { new, old, adds: self.adds });
        }
    }
}

/// Tells whether a field is left out: it is not there, null, or an empty text.
fn absent(of: &Object, name: &str) -> bool {
    of.get(name).is_none_or(|value| value.is_null() || value.as_str() == Some(""))
}

fn is_zero(of: &Object, name: &str) -> bool {
    of.get(name).and_then(Value::as_f64) == Some(0.0)
}

/// Name of an item, of a claim in its metadata.
fn name_of(item: &Object) -> Option<String> {
    let of_metadata = item.get("metadata").and_then(|metadata| metadata.get("name"));
    item.get("name").or(of_metadata).and_then(Value::as_str).map(str::to_owned)
}
