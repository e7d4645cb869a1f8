//! YAML, read once: into a tree of plain values that knows their lines, from which objects are typed.
//!
//! A reader of YAML costs program text for each type anew, while that of JSON is there already, for the
//! answers of the API server. So the tree is written as JSON, one value a line, and the object typed from
//! that; the line of an error leads back to the field, and to its line in the document.
//!
//! ```text
//!   YAML ── parse ──▶ tree: values, lines ──▶ JSON ── typed ──▶ object
//!                            ▲                  │
//!                            └── line of error ─┘
//! ```
//!
//! Reading is strict: no key twice, `yes` is a string and no truth, a number is no string (quote it), as with
//! `kubectl`. What aliases may multiply is bounded by the parser.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Number, Value};
use serde_saphyr::{Location, NonFiniteFloatPolicy, Spanned};

/// Why a text is not the object it should be. The message has field and line.
#[derive(Debug, thiserror::Error)]
pub enum YamlError {
    /// It has several documents.
    #[error("it has several YAML documents: give each its own file")]
    Several,
    /// It is no YAML, or not of that kind.
    #[error("{message}")]
    Yaml {
        /// Text with field, line and column.
        message: String,
        /// Line of the document, where it is known.
        line: Option<u64>,
    },
}

/// A document. It can be typed more than once.
#[derive(Debug)]
pub struct Document<'a> {
    text: &'a str,
    pub(crate) root: Node,
}

/// A value and its place.
pub(crate) type Node = Spanned<Content>;

/// A value of the tree.
#[derive(Debug)]
pub(crate) enum Content {
    /// Null, a truth, a number or a string.
    Scalar(Value),
    /// A list.
    List(Vec<Node>),
    /// Fields, in the order of the document.
    Fields(Vec<(Spanned<String>, Node)>),
}

/// The `apiVersion` and `kind` of a document.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    api_version: Option<String>,
    kind: Option<String>,
}

/// A line of the JSON text.
#[derive(Clone, Copy, Debug)]
struct Line<'d> {
    step: Step<'d>,
    /// Line at which the list or object around it begins.
    around: Option<usize>,
    at: Location,
    /// Line of the last entry, for a line that ends a list or an object.
    last: Option<usize>,
}

/// The way from a value to one in it.
#[derive(Clone, Copy, Debug)]
enum Step<'d> {
    Root,
    Field(&'d str),
    Entry(usize),
}

/// The document as JSON, with what each line is about.
#[derive(Debug, Default)]
struct Json<'d> {
    text: String,
    lines: Vec<Line<'d>>,
}

/// Reads a document as an object.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, YamlError> {
    Document::parse(text)?.typed()
}

impl<'a> Document<'a> {
    /// Reads the only document of a text.
    pub fn parse(text: &'a str) -> Result<Self, YamlError> {
        let options = serde_saphyr::options! {
            strict_booleans: true,
            with_snippet: false,
            // The tree refuses them itself, in words of its own.
            non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        };
        let root = serde_saphyr::from_str_with_options(text, options);
        root.map(|root| Self { text, root }).map_err(|error| {
            if matches!(error.without_snippet(), serde_saphyr::Error::MultipleDocuments { .. }) {
                return YamlError::Several;
            }
            match error.location() {
                Some(at) => error_at(text, at, &before(&error.to_string(), " at line")),
                None => YamlError::Yaml { message: error.to_string(), line: None },
            }
        })
    }

    /// Returns its `apiVersion` and `kind`, where it has both.
    pub fn head(&self) -> Option<(String, String)> {
        let Head { api_version, kind } = self.typed().ok()?;
        Some((api_version?, kind?))
    }

    /// Reads it as an object.
    pub fn typed<T: DeserializeOwned>(&self) -> Result<T, YamlError> {
        let json = Json::of(&self.root);
        serde_json::from_slice(json.text.as_bytes()).map_err(|error| self.blame(&json, &error))
    }

    /// Finds the value that an error of the JSON reader is about.
    fn blame(&self, json: &Json<'_>, error: &serde_json::Error) -> YamlError {
        let mut what = before(&error.to_string(), " at line");
        let is_bare = ["integer", "floating point", "boolean"]
            .iter()
            .any(|kind| what.strip_prefix("invalid type: ").is_some_and(|found| found.starts_with(kind)));
        if is_bare && what.ends_with("expected a string") {
            what.push_str(", which must be quoted");
        }
        let found = error.line().checked_sub(1).and_then(|line| json.lines.get(line));
        let Some(mut line) = found else { return YamlError::Yaml { message: what, line: None } };
        // At the end of an object either a field is missing in it, or its last value is not as it should be.
        if let Some(last) = line.last.filter(|_| !what.starts_with("missing field")) {
            line = &json.lines[last];
        }
        self.error(&json.path(line), line.at, &what)
    }

    /// Returns the line of a field, or of the last field on the way to it that is there. An entry of a list
    /// is named by its index or its `name`: `spec.containers[app].image`.
    pub fn line_of(&self, path: &str) -> u64 {
        let (mut node, mut line) = (&self.root, self.root.referenced.line());
        for step in steps(path) {
            let found = match &node.value {
                Content::Scalar(_) => None,
                Content::List(entries) => {
                    let index = || step.parse().ok().and_then(|index: usize| entries.get(index));
                    let named = entries.iter().find(|entry| entry.value.name() == Some(step));
                    named.or_else(index).map(|entry| (entry, entry.referenced.line()))
                }
                Content::Fields(fields) => fields
                    .iter()
                    .find(|(name, _)| name.value == step)
                    .map(|(name, value)| (value, name.referenced.line())),
            };
            let Some(found) = found else { return line };
            (node, line) = found;
        }
        line
    }

    /// Makes an error about a field; without a path, about the document.
    pub(crate) fn error(&self, path: &str, at: Location, what: &str) -> YamlError {
        match path {
            "" => error_at(self.text, at, what),
            path => error_at(self.text, at, &format!("{path}: {what}")),
        }
    }
}

impl Content {
    /// Value of the field `name`.
    fn name(&self) -> Option<&str> {
        let Self::Fields(fields) = self else { return None };
        let (_, value) = fields.iter().find(|(name, _)| name.value == "name")?;
        match &value.value {
            Self::Scalar(Value::String(name)) => Some(name),
            _ => None,
        }
    }
}

impl<'d> Json<'d> {
    fn of(root: &'d Node) -> Self {
        let mut json = Self::default();
        json.write(root, Line { step: Step::Root, around: None, at: root.referenced, last: None });
        json
    }

    /// Writes a value from a line of its own on; returns that line.
    fn write(&mut self, node: &'d Node, line: Line<'d>) -> usize {
        let own = self.lines.len();
        self.lines.push(line);
        let mut last = None;
        let mut entry =
            |json: &mut Self, name: Option<&str>, value: &'d Node, step: Step<'d>, at: Location| {
                json.text.push_str(if last.is_some() { ",\n" } else { "\n" });
                if let Some(name) = name {
                    json.text.push_str(&Value::from(name).to_string());
                    json.text.push(':');
                }
                last = Some(json.write(value, Line { step, around: Some(own), at, last: None }));
            };
        match &node.value {
            Content::Scalar(value) => return self.scalar(value, own),
            Content::List(entries) => {
                self.text.push('[');
                for (index, value) in entries.iter().enumerate() {
                    entry(self, None, value, Step::Entry(index), value.referenced);
                }
                self.text.push_str("\n]");
            }
            Content::Fields(fields) => {
                self.text.push('{');
                for (name, value) in fields {
                    let step = Step::Field(name.value.as_str());
                    entry(self, Some(&name.value), value, step, name.referenced);
                }
                self.text.push_str("\n}");
            }
        }
        self.lines.push(Line { last, ..line });
        own
    }

    fn scalar(&mut self, value: &Value, line: usize) -> usize {
        self.text.push_str(&value.to_string());
        line
    }

    /// The way to a value, as `spec.containers[2].name`.
    fn path(&self, line: &Line<'_>) -> String {
        let mut steps = vec![line.step];
        let mut around = line.around;
        while let Some(outer) = around.map(|around| &self.lines[around]) {
            steps.push(outer.step);
            around = outer.around;
        }
        path(steps.iter().rev().copied())
    }
}

fn path<'d>(steps: impl Iterator<Item = Step<'d>>) -> String {
    let mut path = String::new();
    for step in steps {
        match step {
            Step::Root => {}
            Step::Field(name) => path = field(&path, name),
            Step::Entry(index) => path = format!("{path}[{index}]"),
        }
    }
    path
}

/// The parts of a path.
fn steps(path: &str) -> impl Iterator<Item = &str> {
    let mut rest = path;
    std::iter::from_fn(move || {
        rest = rest.strip_prefix('.').unwrap_or(rest);
        let (step, after) = match rest.strip_prefix('[') {
            Some(entry) => entry.split_once(']')?,
            None => rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len())),
        };
        rest = after;
        (!step.is_empty()).then_some(step)
    })
}

/// The path of a field in what has this path.
pub(crate) fn field(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// A message with the line it is about. The list of all fields that there are is left out.
fn error_at(text: &str, at: Location, what: &str) -> YamlError {
    let what = before(what, ", expected one of");
    let content = usize::try_from(at.line()).ok().and_then(|line| text.lines().nth(line.checked_sub(1)?));
    let content = content.map(str::trim).filter(|content| !content.is_empty()).unwrap_or("the end");
    let message = format!("{what} at line {}, column {} ({content})", at.line(), at.column());
    YamlError::Yaml { message, line: Some(at.line()) }
}

fn before(text: &str, end: &str) -> String {
    text.find(end).map_or(text, |end| &text[..end]).to_owned()
}

impl YamlError {
    /// Returns the line of the document, where it is known.
    pub fn line(&self) -> Option<u64> {
        match self {
            Self::Several => None,
            Self::Yaml { line, .. } => *line,
        }
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyContent)
    }
}

struct AnyContent;

impl<'de> Visitor<'de> for AnyContent {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that JSON has too")
    }

    fn visit_unit<E: Error>(self) -> Result<Content, E> {
        Ok(Content::Scalar(Value::Null))
    }

    fn visit_none<E: Error>(self) -> Result<Content, E> {
        Ok(Content::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Content, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Content, E> {
        Ok(Content::Scalar(Value::Bool(value)))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Content, E> {
        Ok(Content::Scalar(Value::from(value)))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Content, E> {
        Ok(Content::Scalar(Value::from(value)))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Content, E> {
        let number =
            Number::from_f64(value).ok_or_else(|| E::custom(format_args!("{value} is no number")))?;
        Ok(Content::Scalar(Value::Number(number)))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Content, E> {
        Ok(Content::Scalar(Value::from(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Content, A::Error> {
        let mut list = Vec::new();
        while let Some(entry) = entries.next_element()? {
            list.push(entry);
        }
        Ok(Content::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Content, A::Error> {
        let mut fields = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            fields.push(entry);
        }
        Ok(Content::Fields(fields))
    }
}

#[cfg(test)]
mod tests;
