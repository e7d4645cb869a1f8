//! AdmissionReview, as far as it is looked at: one request in, one answer out.

use base64::{Engine, prelude::BASE64_STANDARD};
use berth_proto::{nested, text::cut};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::patch::difference;

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";
/// The API server shows at most so much of one warning.
const LONGEST_WARNING: usize = 250;
/// And no more than 4 KiB of all.
const MOST_WARNINGS: usize = 16;
/// A refusal is read by a person.
const LONGEST_MESSAGE: usize = 4096;
/// Beginning of the parser's own words for what is nested deeper than it goes, and what is said of it.
const PARSER_TOO_DEEP: &str = "recursion limit exceeded";
const TOO_DEEP: &str = "it is nested deeper than a parser goes, give it fewer levels: at most 110 are read";

/// Bytes that an object may take when it is read: three times what those of other programs may at their
/// largest, for it comes with its managed fields.
const MOST_MEMORY: usize = 3 * nested::MOST_MEMORY;
/// Memory that a byte of text stands for, about, when the text is read.
const MEMORY_OF_A_BYTE: usize = 10;
/// An object that is read is copied, and a list takes twice the memory of its values while it grows.
const TIMES: usize = 3;
/// Bytes of text whose memory is that of a map and its copies.
const BYTES_OF_A_MAP: usize = 700 * TIMES / MEMORY_OF_A_BYTE;
/// The same of a key in a map, and of a value, however short they are.
const BYTES_OF_A_KEY: usize = 84 * TIMES / MEMORY_OF_A_BYTE;
const BYTES_OF_A_VALUE: usize = 34 * TIMES / MEMORY_OF_A_BYTE;

/// Request for an admission.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Request {
    /// Identity of this request, which the answer has to repeat.
    pub(super) uid: String,
    /// CREATE, UPDATE or DELETE.
    #[serde(default)]
    pub(super) operation: String,
    /// Subresource, if it is one's.
    #[serde(default)]
    pub(super) sub_resource: String,
    /// Name of the object, if it has one yet.
    #[serde(default)]
    pub(super) name: String,
    /// Namespace of the object; empty for one of the whole cluster.
    #[serde(default)]
    pub(super) namespace: String,
    /// It is only tried.
    #[serde(default)]
    pub(super) dry_run: bool,
    /// Object as it is to be.
    #[serde(default, deserialize_with = "object")]
    pub(super) object: Value,
    /// Object as it is, in an update.
    #[serde(default, deserialize_with = "object")]
    pub(super) old_object: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    api_version: String,
    kind: String,
    request: Option<Request>,
}

/// Decision on a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    /// The object is let in, changed if need be.
    Allowed {
        /// Object as it is to be let in; `None` leaves it as it is.
        object: Option<Value>,
        /// Said to who asked.
        warnings: Vec<String>,
    },
    /// The object is refused.
    Refused {
        /// Code of HTTP.
        code: u16,
        /// Reason in the words of the API.
        reason: &'static str,
        /// Field, object and remedy.
        message: String,
    },
    /// Nothing can be decided; the failure policy of the entry says what happens.
    Unready(&'static str),
}

impl Request {
    /// Bytes of text that stand for its objects, once they are read.
    pub(super) fn weight(&self) -> usize {
        let memory = nested::memory(&self.object).saturating_add(nested::memory(&self.old_object));
        memory.saturating_mul(TIMES).div_ceil(MEMORY_OF_A_BYTE)
    }
}

impl Verdict {
    /// The object is let in as it is.
    pub(super) const AS_IT_IS: Self = Self::Allowed { object: None, warnings: Vec::new() };

    /// The object is not what it has to be.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::Refused { code: 422, reason: "Invalid", message: message.into() }
    }

    /// Refuses what cannot be done with what there is.
    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::Refused { code: 400, reason: "BadRequest", message: message.into() }
    }
}

/// Reads an object of a request.
fn object<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    nested::read_within(deserializer, MOST_MEMORY)
}

/// Bytes of text that a body stands for: read, it takes some ten times as much memory as its bytes, but many
/// small maps, keys and values take more. What is within texts is none of them.
pub(super) fn weight(body: &[u8]) -> usize {
    let (mut in_text, mut is_escaped) = (false, false);
    let mut values = 0_usize;
    for byte in body {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_text,
            b'"' => in_text = !in_text,
            b'{' if !in_text => values = values.saturating_add(BYTES_OF_A_MAP),
            b':' if !in_text => values = values.saturating_add(BYTES_OF_A_KEY),
            b',' if !in_text => values = values.saturating_add(BYTES_OF_A_VALUE),
            _ => {}
        }
    }
    body.len().max(values)
}

/// Reads the body of a request, or says what is wrong with it.
pub(super) fn read(body: &[u8]) -> Result<Request, String> {
    let review: Review = serde_json::from_slice(body).map_err(|error| {
        // No values of it: there may be any in an object.
        let text = error.to_string();
        let said = [(nested::TOO_LARGE, nested::TOO_LARGE), (PARSER_TOO_DEEP, TOO_DEEP)];
        let says = said.into_iter().find(|(begins, _)| text.starts_with(begins)).map_or("", |(_, says)| says);
        let (line, column) = (error.line(), error.column());
        format!("no AdmissionReview: line {line}, column {column} {says}").trim_end().to_owned()
    })?;
    if review.api_version != API_VERSION || review.kind != KIND {
        let found = cut(&review.api_version, 64);
        return Err(format!("the body is no {KIND} of {API_VERSION}, it says {found:?}"));
    }
    let request = review.request.ok_or_else(|| format!("the {KIND} has no request"))?;
    for (field, name) in [("name", &request.name), ("namespace", &request.namespace)] {
        if !is_part(name) {
            return Err(format!("request.{field} is no name: it says {:?}", cut(name, 64)));
        }
    }
    for (field, object) in [("object", &request.object), ("oldObject", &request.old_object)] {
        if !object.is_null() && !object.is_object() {
            return Err(format!("request.{field} is no object"));
        }
    }
    Ok(request)
}

/// Tells whether a name can be one part of a path. Objects are asked for by names of requests, with what the
/// manager may read, and nobody knows who sent them.
pub(super) fn is_part(name: &str) -> bool {
    !name.contains(['/', '?', '#', '%']) && ![".", ".."].contains(&name)
}

/// Writes the answer to a request; or says why there is none.
pub(super) fn answer(request: &Request, verdict: Verdict) -> Result<Vec<u8>, &'static str> {
    let mut response = json!({ "uid": request.uid });
    match verdict {
        Verdict::Allowed { object, warnings } => {
            response["allowed"] = true.into();
            let patch = object.map(|object| difference(&request.object, &object)).unwrap_or_default();
            if !patch.is_empty() {
                response["patchType"] = "JSONPatch".into();
                response["patch"] = BASE64_STANDARD.encode(Value::Array(patch).to_string()).into();
            }
            let warnings: Vec<_> =
                warnings.iter().take(MOST_WARNINGS).map(|warning| cut(warning, LONGEST_WARNING)).collect();
            if !warnings.is_empty() {
                response["warnings"] = json!(warnings);
            }
        }
        Verdict::Unready(missing) => return Err(missing),
        Verdict::Refused { code, reason, message } => {
            response["allowed"] = false.into();
            let message = cut(&message, LONGEST_MESSAGE);
            response["status"] = json!({ "code": code, "reason": reason, "message": message });
        }
    }
    Ok(json!({ "apiVersion": API_VERSION, "kind": KIND, "response": response }).to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn asked(object: Value) -> Request {
        Request { uid: "u".to_owned(), object, ..Request::default() }
    }

    fn answered(request: &Request, verdict: Verdict) -> Value {
        let value: Value = serde_json::from_slice(&answer(request, verdict).unwrap()).unwrap();
        assert_eq!((value["apiVersion"].as_str(), value["kind"].as_str()), (Some(API_VERSION), Some(KIND)));
        assert_eq!(value["response"]["uid"], request.uid);
        value["response"].clone()
    }

    #[test]
    fn a_request_is_read() {
        let body = json!({ "apiVersion": API_VERSION, "kind": KIND, "request": {
            "uid": "u", "namespace": "n", "operation": "CREATE", "object": {"a": 1}, "oldObject": null,
            "kind": {"group": "", "version": "v1", "kind": "Pod"}, "dryRun": false,
        }});
        let request = read(body.to_string().as_bytes()).unwrap();
        assert_eq!((request.uid.as_str(), request.namespace.as_str()), ("u", "n"));
        assert_eq!(request.object, json!({"a": 1}));
    }

    #[test]
    fn an_object_of_many_small_maps_is_not_read() {
        let body = |count: usize| {
            let object = json!({ "spec": vec![json!({ "a": 1 }); count] });
            let request = json!({ "uid": "u", "object": object });
            json!({ "apiVersion": API_VERSION, "kind": KIND, "request": request }).to_string()
        };
        assert!(read(body(10_000).as_bytes()).is_ok());
        let (large, least) = (body(300_000), 60 << 20);
        // 2.4 MB of text.
        let error = read(large.as_bytes()).unwrap_err();
        assert!(error.contains("fewer lists and maps"), "{error}");
        assert!(weight(large.as_bytes()) > least, "it is waited for as what it takes");
    }

    #[test]
    fn an_object_that_is_too_deep_says_so() {
        let body = |levels: usize| {
            let (open, close) = ("{\"a\":".repeat(levels), "}".repeat(levels));
            format!(
                r#"{{"apiVersion":"{API_VERSION}","kind":"{KIND}","request":{{"uid":"u","object":{open}1{close}}}}}"#
            )
        };
        assert!(read(body(110).as_bytes()).is_ok());
        let error = read(body(300).as_bytes()).unwrap_err();
        assert!(error.contains("fewer levels"), "{error}");
    }

    /// Weights of a thousand pieces, by the thousand.
    #[rstest]
    #[case::maps("{},", 220)]
    #[case::keys("\"a\":0,", 35)]
    #[case::numbers("0,", 10)]
    #[case::lists("[],", 10)]
    #[case::a_long_text("\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxx\",", 32)]
    #[case::braces_within_a_text("\"{{{{,,::\",", 11)]
    #[case::after_a_quote_in_a_text("\"\\\"{{{\",", 10)]
    #[case::after_a_backslash_in_a_text("\"\\\\\",{},", 230)]
    fn a_body_weighs_what_it_takes(#[case] piece: &str, #[case] each: usize) {
        assert_eq!(weight(piece.repeat(1000).as_bytes()), each * 1000, "{piece}");
    }

    /// An object that was read weighs no more than its text did.
    #[test]
    fn what_was_read_weighs_what_is_left() {
        let keys: serde_json::Map<_, _> = (1000..2000).map(|key| (key.to_string(), json!(0))).collect();
        let maps = vec![json!({ "a": 1 }); 1000];
        for object in [json!(maps), json!(keys), json!(vec![0; 1000]), json!("{".repeat(1000))] {
            let read = asked(object.clone()).weight();
            let text = weight(object.to_string().as_bytes());
            assert!(read <= text && nested::memory(&object) <= read * MEMORY_OF_A_BYTE, "{read} of {text}");
        }
    }

    #[rstest]
    #[case::nothing("", "no AdmissionReview")]
    #[case::no_json("{\"secret", "no AdmissionReview")]
    #[case::another_version(
        r#"{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{"uid":"u"}}"#,
        "v1beta1"
    )]
    #[case::another_kind(r#"{"apiVersion":"admission.k8s.io/v1","kind":"Pod"}"#, "no AdmissionReview")]
    #[case::empty(r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#, "no request")]
    #[case::a_way_out(
        r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","name":".."}}"#,
        "request.name"
    )]
    #[case::no_object(
        r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","object":[1]}}"#,
        "request.object"
    )]
    #[case::another_path(
        r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","namespace":"a/b?c"}}"#,
        "request.namespace"
    )]
    fn a_bad_body_is_told_from_others(#[case] body: &str, #[case] says: &str) {
        let error = read(body.as_bytes()).unwrap_err();
        assert!(error.contains(says) && !error.contains("secret"), "{error}");
    }

    #[test]
    fn verdicts_are_written() {
        let request = asked(json!({"spec": {"a": 1}}));
        assert_eq!(answered(&request, Verdict::AS_IT_IS), json!({"uid": "u", "allowed": true}));
        let same = Verdict::Allowed { object: Some(request.object.clone()), warnings: vec![] };
        assert_eq!(answered(&request, same), json!({"uid": "u", "allowed": true}));
        let changed =
            Verdict::Allowed { object: Some(json!({"spec": {"a": 2}})), warnings: vec!["w".to_owned()] };
        let answer = answered(&request, changed);
        assert_eq!((answer["patchType"].as_str(), &answer["warnings"]), (Some("JSONPatch"), &json!(["w"])));
        let patch = BASE64_STANDARD.decode(answer["patch"].as_str().unwrap()).unwrap();
        let patch: Value = serde_json::from_slice(&patch).unwrap();
        assert_eq!(patch, json!([{"op": "add", "path": "/spec", "value": {"a": 2}}]));
        let refused = answered(&request, Verdict::invalid("spec.a: is 1; give 2"));
        assert_eq!(refused["allowed"], false);
        assert_eq!(
            refused["status"],
            json!({"code": 422, "reason": "Invalid", "message": "spec.a: is 1; give 2"})
        );
    }

    #[test]
    fn without_a_decision_there_is_no_answer() {
        assert_eq!(answer(&asked(json!({})), Verdict::Unready("not yet")), Err("not yet"));
    }

    #[test]
    fn long_texts_are_cut() {
        let warnings = vec!["é".repeat(500); 100];
        let answer = answered(&asked(json!({})), Verdict::Allowed { object: None, warnings });
        let warnings = answer["warnings"].as_array().unwrap();
        assert_eq!(warnings.len(), MOST_WARNINGS);
        assert!(warnings.iter().all(|one| one.as_str().unwrap().len() <= LONGEST_WARNING));
        let refused = answered(&asked(json!({})), Verdict::invalid("x".repeat(10_000)));
        assert_eq!(refused["status"]["message"].as_str().unwrap().len(), LONGEST_MESSAGE);
    }
}
