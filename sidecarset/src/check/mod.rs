//! Faults of a set that is written. The rules are OpenKruise's, with its words in the messages, for scripts
//! look for them; then those it lacks, without which a set is taken and each of its pods refused.

mod containers;
mod metadata;
mod others;
mod pods;
mod spec;
mod volumes;
mod warnings;

use berth_proto::crd::SidecarSet;
use serde_json::Value;

pub use self::warnings::warnings;
use crate::{fault::Fault, json::Object, set::Set, white_list::WhiteList};

/// The most faults that are told at once.
const MOST_FAULTS: usize = 64;

/// A set that is written, with everything that it is compared with.
struct Written<'a> {
    set: &'a SidecarSet,
    /// Its spec as it was given.
    spec: &'a Object,
    old: Option<&'a SidecarSet>,
    others: &'a [&'a Set],
}

/// Faults of a set that has its defaults. `old` is the stored set, at an update; `others` are all other sets.
pub fn check(set: &Value, old: Option<&Value>, others: &[&Set], white_list: &WhiteList) -> Vec<Fault> {
    let typed = match typed(set) {
        Ok(typed) => typed,
        Err(fault) => return vec![fault],
    };
    // What is stored was taken once; it is compared with as far as it can be read.
    let old = old.and_then(|old| typed_set(old).ok());
    let empty = Object::new();
    let spec = set.get("spec").and_then(Value::as_object).unwrap_or(&empty);
    let others: Vec<&Set> =
        others.iter().copied().filter(|other| Some(other.name()) != typed.metadata.name.as_deref()).collect();
    let written = Written { set: &typed, spec, old: old.as_ref(), others: &others };
    let mut faults = Vec::new();
    spec::check(&written, &mut faults);
    containers::check(&written, &mut faults);
    volumes::check(&written, &mut faults);
    pods::check(&written, &mut faults);
    metadata::check(&written, white_list, &mut faults);
    if faults.is_empty() {
        match Set::parse(&typed) {
            Ok(parsed) => others::check(&parsed, &others, &mut faults),
            Err(fault) => faults.push(fault),
        }
    }
    faults.truncate(MOST_FAULTS);
    faults
}

fn typed(set: &Value) -> Result<SidecarSet, Fault> {
    typed_set(set).map_err(|error| Fault::new("", format!("is no SidecarSet: {error}: correct it")))
}

fn typed_set(set: &Value) -> Result<SidecarSet, serde_json::Error> {
    serde_json::from_value(set.clone())
}
