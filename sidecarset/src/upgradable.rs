//! The condition of a pod that says whether SidecarSets can bring it to their newest sidecars in place, as
//! OpenKruise writes it from 1.5 on: its message is a JSON object with a word for each set.

use std::collections::BTreeMap;

use berth_proto::nested;

/// Type of the condition.
pub const CONDITION: &str = "SidecarSetUpgradable";
/// Its reason where all sets can.
const ALL: &str = "AllSidecarsetUpgradable";
/// Its reason where one cannot.
const IMMUTABLE: &str = "UpdateImmutableField";
/// The most sets that a message has a word for, and its longest text: a longer one tells nothing.
const MOST_SETS: usize = 256;
const LONGEST: usize = 64 << 10;

/// The condition as it is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upgradable {
    /// `True` or `False`.
    pub status: &'static str,
    /// For programs.
    pub reason: &'static str,
    /// The words of all sets.
    pub message: String,
}

/// Tells whether a pod differs from a set in images alone, by the set's hash without images and the pod's
/// annotation with those of all its sets (of an early OpenKruise the hashes alone).
pub fn is_upgradable(set: &str, of_set: Option<&str>, of_pod: Option<&str>) -> bool {
    let entries = of_pod.and_then(nested::read_text).unwrap_or_default();
    let entry = entries.get(set);
    let hash = entry.and_then(|entry| entry.as_str().or_else(|| entry.get("hash")?.as_str()));
    hash.is_some() && hash == of_set
}

/// Reads the words of the sets. A message that is not of that shape tells nothing.
pub fn words(message: Option<&str>) -> BTreeMap<String, bool> {
    let text = message.filter(|message| message.len() <= LONGEST).unwrap_or_default();
    let words: BTreeMap<String, bool> = serde_json::from_str(text).unwrap_or_default();
    words.into_iter().take(MOST_SETS).collect()
}

/// Returns the condition with the word of a set; `None` where it says so already.
pub fn with_word(message: Option<&str>, set: &str, upgradable: bool) -> Option<Upgradable> {
    let mut words = words(message);
    if words.insert(set.to_owned(), upgradable) == Some(upgradable) {
        return None;
    }
    while words.len() > MOST_SETS {
        let other = words.keys().find(|name| *name != set)?.clone();
        words.remove(&other);
    }
    let all = words.values().all(|upgradable| *upgradable);
    let message = serde_json::to_string(&words).ok()?;
    let (status, reason) = if all { ("True", ALL) } else { ("False", IMMUTABLE) };
    Some(Upgradable { status, reason, message })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::first(None, false, Some(("False", IMMUTABLE, r#"{"s":false}"#)))]
    #[case::said_before(Some(r#"{"s":false}"#), false, None)]
    #[case::it_can_again(Some(r#"{"s":false}"#), true, Some(("True", ALL, r#"{"s":true}"#)))]
    #[case::another_one_cannot(Some(r#"{"a":false,"s":false}"#), true, Some(("False", IMMUTABLE, r#"{"a":false,"s":true}"#)))]
    #[case::beside_one_that_can(Some(r#"{"a":true}"#), false, Some(("False", IMMUTABLE, r#"{"a":true,"s":false}"#)))]
    #[case::no_json(Some("not upgradable"), false, Some(("False", IMMUTABLE, r#"{"s":false}"#)))]
    #[case::of_another_shape(Some(r#"{"a":1}"#), false, Some(("False", IMMUTABLE, r#"{"s":false}"#)))]
    fn a_word(
        #[case] message: Option<&str>,
        #[case] upgradable: bool,
        #[case] expect: Option<(&str, &str, &str)>,
    ) {
        let told = with_word(message, "s", upgradable);
        let told = told.as_ref().map(|told| (told.status, told.reason, &*told.message));
        assert_eq!(told, expect);
    }

    #[rstest]
    #[case::the_same(Some("h"), Some(r#"{"s":{"hash":"h"}}"#), true)]
    #[case::of_an_early_one(Some("h"), Some(r#"{"s":"h"}"#), true)]
    #[case::another_one(Some("h"), Some(r#"{"s":{"hash":"g"}}"#), false)]
    #[case::of_another_set(Some("h"), Some(r#"{"t":{"hash":"h"}}"#), false)]
    #[case::nothing(None, None, false)]
    #[case::no_hash_of_the_set(None, Some(r#"{"s":{"hash":"h"}}"#), false)]
    #[case::no_json(Some("h"), Some("h"), false)]
    fn in_images_alone(#[case] of_set: Option<&str>, #[case] of_pod: Option<&str>, #[case] expect: bool) {
        assert_eq!(is_upgradable("s", of_set, of_pod), expect);
    }

    #[test]
    fn what_is_read_and_written_is_bounded() {
        let many: BTreeMap<String, bool> =
            (0..1000).map(|number| (format!("set-{number:04}"), true)).collect();
        let many = serde_json::to_string(&many).unwrap();
        assert_eq!(words(Some(&many)).len(), MOST_SETS);
        let told = words(Some(&with_word(Some(&many), "a", false).unwrap().message));
        assert_eq!((told.len(), told["a"]), (MOST_SETS, false));
        assert!(words(Some(&format!(r#"{{"{}":true}}"#, "x".repeat(LONGEST)))).is_empty());
    }
}
