//! Values of each kind, and errors that lead back to their place.

use std::collections::BTreeMap;

use serde_json::json;

use super::*;

#[test]
fn every_kind_of_value_is_read_as_json_has_it() {
    let text = "a: 1\nb: -2\nc: 1.5\nd: true\ne: ~\nf: yes\ng: '1'\nh: [x, {y: \"z\\n\"}]\ni: {}\nj: []\nk: |\n  two\n  lines\n\
                l: 2026-01-02T03:04:05Z\nm: &a {n: 1}\no: *a\n1: x\nq: 18446744073709551615\n";
    let expected = json!({
        "a": 1, "b": -2, "c": 1.5, "d": true, "e": null, "f": "yes", "g": "1", "h": ["x", {"y": "z\n"}], "i": {}, "j": [],
        "k": "two\nlines\n", "l": "2026-01-02T03:04:05Z", "m": {"n": 1}, "o": {"n": 1}, "1": "x",
        "q": 18_446_744_073_709_551_615_u64,
    });
    assert_eq!(from_str::<Value>(text).unwrap(), expected);
    for (text, expected) in [("", Value::Null), ("x", json!("x")), ("- 1\n- 2\n", json!([1, 2]))] {
        assert_eq!(from_str::<Value>(text).unwrap(), expected, "{text:?}");
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shop {
    #[serde(rename = "name")]
    _name: String,
    #[serde(default, rename = "shelves")]
    _shelves: Vec<Shelf>,
    #[serde(default, rename = "prices")]
    _prices: BTreeMap<String, u8>,
    #[serde(default, rename = "opens")]
    _opens: Option<Hour>,
}

#[derive(Debug, Deserialize)]
struct Shelf {
    #[serde(rename = "width")]
    _width: u8,
}

#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct Hour;

impl TryFrom<String> for Hour {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Err(format!("{text:?} is no hour"))
    }
}

#[test]
fn an_error_names_the_field_and_its_line() {
    let table = [
        ("name: x\nshelfs: []\n", "shelfs: unknown field `shelfs` at line 2, column 1 (shelfs: [])"),
        (
            "name: 5\n",
            "name: invalid type: integer `5`, expected a string, which must be quoted at line 1, column 1 (name: 5)",
        ),
        ("shelves: []\n", "missing field `name` at line 1, column 1 (shelves: [])"),
        (
            "name: x\nshelves:\n- width: 1\n- {}\n",
            "shelves[1]: missing field `width` at line 4, column 3 (- {})",
        ),
        (
            "name: x\nshelves:\n- width: 300\n",
            "shelves[0].width: invalid value: integer `300`, expected u8 at line 3, column 3 (- width: 300)",
        ),
        ("name: x\nprices: {a: 1,\n  b: x}\n", "prices.b: invalid type: string \"x\", expected u8 at line 3"),
        // The reader says only afterwards that a value is wrong, so it may be at the end of the object.
        ("name: x\nopens: soon\n", "opens: \"soon\" is no hour at line 2, column 1 (opens: soon)"),
        ("opens: soon\nname: x\n", "opens: \"soon\" is no hour at line 1, column 1 (opens: soon)"),
        ("", "invalid type: null, expected struct Shop at line"),
        ("name: x\nname: y\n", "at line 2, column 1 (name: y)"),
        ("name: [x\n", "at line"),
        ("name: .inf\n", "inf is no number at line 1, column 7 (name: .inf)"),
        ("name: x\n---\nname: y\n", "several YAML documents"),
    ];
    for (text, expected) in table {
        let error = from_str::<Shop>(text).unwrap_err();
        assert!(error.to_string().contains(expected), "{expected:?} is missing in {error} for\n{text}");
    }
    assert_eq!(from_str::<Shop>("name: x\nshelves: 1\n").unwrap_err().line(), Some(2));
}

#[test]
fn what_an_author_can_make_large_or_deep_is_refused() {
    let deep = "[".repeat(1000) + &"]".repeat(1000);
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..10 {
        let before = format!("*a{}, ", level - 1).repeat(10);
        bomb += &format!("a{level}: &a{level} [{}]\n", before.trim_end_matches(", "));
    }
    for text in [deep, bomb] {
        assert!(from_str::<Value>(&text).is_err(), "{}", &text[..40]);
    }
}

#[test]
fn the_line_of_a_field() {
    let text =
        "spec:\n  list:\n  - name: a.b\n    x: 1\n  - name: c\n    y:\n      z: 2\n  plain: [5,\n    6]\n";
    let document = Document::parse(text).unwrap();
    let table = [
        ("spec", 1),
        ("spec.list[a.b].x", 4),
        ("spec.list[1].y.z", 7),
        ("spec.list[c].missing", 5),
        ("spec.list[d].x", 2),
        ("spec.plain[1]", 9),
        ("other", 1),
        ("", 1),
    ];
    for (path, line) in table {
        assert_eq!(document.line_of(path), line, "{path}");
    }
}

#[test]
fn the_head_tells_what_a_document_is() {
    let head = |text| Document::parse(text).unwrap().head();
    assert_eq!(head("kind: Pod\napiVersion: v1\nspec: {}\n"), Some(("v1".to_owned(), "Pod".to_owned())));
    for text in ["", "kind: Pod\n", "x", "kind: {}\napiVersion: v1\n"] {
        assert_eq!(head(text), None, "{text:?}");
    }
}
