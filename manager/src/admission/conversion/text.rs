//! JSON texts, cut at their first level. A value that is passed on is never read: its bytes stay as they are,
//! however deep it is and whatever its numbers are.

use std::borrow::Cow;

use serde::de::IgnoredAny;

/// An object: its members in their order, each with its value as it was written.
#[derive(Clone, Debug, Default)]
pub(super) struct Members<'a>(Vec<(String, Cow<'a, str>)>);

impl<'a> Members<'a> {
    /// Cuts an object; `None`: it is none. The text has to be JSON ([`is_json`]).
    pub(super) fn of(text: &'a str) -> Option<Self> {
        let text = text.trim();
        let inner = text.strip_prefix('{')?.strip_suffix('}')?;
        let member = |part: &'a str| {
            let part = part.trim();
            let name = part.get(..=end_of_string(part)?)?;
            let value = part.get(name.len()..)?.trim_start().strip_prefix(':')?.trim();
            Some((serde_json::from_str(name).ok()?, Cow::Borrowed(value)))
        };
        parts(inner).into_iter().map(member).collect::<Option<_>>().map(Self)
    }

    /// Returns a value.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(member, _)| member == name).map(|(_, value)| value.as_ref())
    }

    /// Returns a value that is a text.
    pub(super) fn string(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.get(name)?).ok()
    }

    /// Cuts a value that is an object; empty when there is none.
    pub(super) fn members(&self, name: &str) -> Option<Members<'_>> {
        match self.get(name) {
            Some(value) if value != "null" => Members::of(value),
            _ => Some(Members::default()),
        }
    }

    /// Puts a value in the place of the one before, or at the end.
    pub(super) fn set(&mut self, name: &str, value: impl Into<Cow<'a, str>>) {
        match self.0.iter_mut().find(|(member, _)| member == name) {
            Some((_, before)) => *before = value.into(),
            None => self.0.push((name.to_owned(), value.into())),
        }
    }

    /// Takes the members with these names out.
    pub(super) fn take(&mut self, names: &[&str]) -> Self {
        let (taken, kept) =
            std::mem::take(&mut self.0).into_iter().partition(|(name, _)| names.contains(&name.as_str()));
        self.0 = kept;
        Self(taken)
    }

    /// Names of the members.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// Members with their values.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_ref()))
    }

    /// Tells whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes the object.
    pub(super) fn write(&self) -> String {
        let members: Vec<_> = self.iter().map(|(name, value)| format!("{}:{value}", quoted(name))).collect();
        format!("{{{}}}", members.join(","))
    }
}

/// Tells whether a text is JSON from its beginning to its end.
pub(super) fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Cuts a list; `None`: it is none. The text has to be JSON.
pub(super) fn items(text: &str) -> Option<Vec<&str>> {
    let inner = text.trim().strip_prefix('[')?.strip_suffix(']')?;
    Some(parts(inner).into_iter().map(str::trim).collect())
}

/// A text as JSON.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Parts between the commas of the first level.
fn parts(inner: &str) -> Vec<&str> {
    let (mut parts, mut from, mut depth) = (Vec::new(), 0, 0_usize);
    let (mut in_string, mut escaped) = (false, false);
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => depth = depth.saturating_add(1),
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                parts.extend(inner.get(from..at));
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.extend(inner.get(from..).filter(|last| !last.trim().is_empty()));
    parts
}

/// Finds where the string ends that the text begins with.
fn end_of_string(text: &str) -> Option<usize> {
    let mut escaped = false;
    let ends = |byte: u8| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    };
    text.strip_prefix('"')?.bytes().position(ends).map(|at| at + 1)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::Value;

    use super::*;

    #[rstest]
    #[case::plain(r#"{"a":1,"b":[1,{"c":2}],"d":"x"}"#)]
    #[case::spaces(" { \"a\" : 1 ,\n \"b\" : { } } ")]
    #[case::signs_in_strings(r#"{"a":"},]\"{[","b\",:{":{"c":"\\"},"d\\":1}"#)]
    #[case::letters(r#"{"é\u00e9":"é","":null}"#)]
    #[case::numbers(r#"{"a":1e400,"b":0.1000000000000000055511151231257827,"c":12345678901234567890123}"#)]
    #[case::empty("{}")]
    fn an_object_is_written_as_it_was_read(#[case] text: &str) {
        assert!(is_json(text));
        let members = Members::of(text).unwrap();
        let again = members.write();
        let same: Vec<_> = Members::of(&again).unwrap().0;
        assert_eq!(same, members.0);
        let blanks = |text: &str| text.replace([' ', '\n'], "").replace("\\u00e9", "é");
        assert_eq!(blanks(&again), blanks(text));
    }

    #[test]
    fn values_of_any_depth_pass() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let text = format!("{{\"deep\":{deep},\"b\":true}}");
        assert!(is_json(&text));
        let members = Members::of(&text).unwrap();
        assert_eq!((members.get("deep"), members.get("b")), (Some(deep.as_str()), Some("true")));
        assert_eq!(items("[1, [2,3] ,\"a,b\"]").unwrap(), ["1", "[2,3]", "\"a,b\""]);
        assert!(items("[]").unwrap().is_empty() && items("{}").is_none() && Members::of("[]").is_none());
    }

    #[test]
    fn members_are_set_and_taken() {
        let mut members = Members::of(r#"{"a":1,"b":2,"c":null,"d":"x"}"#).unwrap();
        members.set("a", "3");
        members.set("e", "{}");
        assert_eq!(members.take(&["b", "z"]).write(), r#"{"b":2}"#);
        assert_eq!(members.write(), r#"{"a":3,"c":null,"d":"x","e":{}}"#);
        assert!(members.members("c").unwrap().is_empty() && members.members("z").unwrap().is_empty());
        assert!(members.members("a").is_none() && members.string("a").is_none());
        assert_eq!(members.string("d").as_deref(), Some("x"));
        assert_eq!(serde_json::from_str::<Value>(&quoted("a\"\n")).unwrap(), "a\"\n");
    }
}
