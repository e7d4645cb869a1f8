//! ConversionReview: objects in, the same objects in another version out, or why not.
//!
//! The API server sends one object at a time; more are taken as well, as many as the bound of a body lets in.

use berth_proto::text::cut;
use serde_json::json;

use super::{
    Version, converted,
    text::{Members, is_json, items, quoted},
};

const API_VERSION: &str = "apiextensions.k8s.io/v1";
const KIND: &str = "ConversionReview";
/// A failure is read by a person.
const LONGEST_MESSAGE: usize = 4096;
/// An answer that is larger than this is none: the API server would not take it.
const MOST_BYTES: usize = 12 << 20;

/// Answers one request; or says what is wrong with its body.
pub(in crate::admission) fn answer(body: &[u8]) -> Result<Vec<u8>, String> {
    let text = std::str::from_utf8(body).ok().filter(|text| is_json(text));
    let text = text.ok_or_else(|| format!("the body is no {KIND}: it is no JSON"))?;
    let review = Members::of(text).ok_or_else(|| format!("the body is no {KIND}: it is no object"))?;
    let (version, kind) = (review.string("apiVersion"), review.string("kind"));
    if version.as_deref() != Some(API_VERSION) || kind.as_deref() != Some(KIND) {
        let found = version.unwrap_or_default();
        return Err(format!("the body is no {KIND} of {API_VERSION}, it says {:?}", cut(&found, 64)));
    }
    let request = review.get("request").and_then(Members::of);
    let request = request.ok_or_else(|| format!("the {KIND} has no request"))?;
    let uid = request.string("uid").ok_or_else(|| format!("request.uid of the {KIND} is no text"))?;
    let objects = request.get("objects").and_then(items);
    let objects = objects.ok_or_else(|| format!("request.objects of the {KIND} is no list"))?;
    let desired = request.string("desiredAPIVersion").unwrap_or_default();
    let mut response = Members::default();
    response.set("uid", quoted(&uid));
    match all(&objects, &desired) {
        Ok(objects) => {
            response.set("convertedObjects", format!("[{}]", objects.join(",")));
            response.set("result", json!({ "status": "Success" }).to_string());
        }
        Err(message) => {
            let message = cut(&message, LONGEST_MESSAGE);
            response.set("result", json!({ "status": "Failed", "message": message }).to_string());
        }
    }
    let mut answer = Members::default();
    answer.set("apiVersion", quoted(API_VERSION));
    answer.set("kind", quoted(KIND));
    answer.set("response", response.write());
    Ok(answer.write().into_bytes())
}

fn all(objects: &[&str], desired: &str) -> Result<Vec<String>, String> {
    let to = Version::parse(desired).ok_or_else(|| {
        format!(
            "request.desiredAPIVersion is {:?}: give apps.kruise.io/v1alpha1 or v1beta1",
            cut(desired, 64)
        )
    })?;
    let (mut all, mut bytes) = (Vec::new(), 0_usize);
    for object in objects {
        let object = converted(object, to)?;
        bytes = bytes.saturating_add(object.len());
        if bytes > MOST_BYTES {
            return Err(format!("the objects have more than {} MiB: send fewer of them", MOST_BYTES >> 20));
        }
        all.push(object);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::Value;

    use super::*;

    fn review(objects: &Value, desired: &str) -> String {
        let request = json!({ "uid": "u", "desiredAPIVersion": desired, "objects": objects });
        json!({ "apiVersion": API_VERSION, "kind": KIND, "request": request }).to_string()
    }

    fn set(version: &str, spec: Value) -> Value {
        json!({ "apiVersion": format!("apps.kruise.io/{version}"), "kind": "StatefulSet",
            "metadata": { "namespace": "n", "name": "s" }, "spec": spec })
    }

    fn answered(body: &str) -> Value {
        let value: Value = serde_json::from_slice(&answer(body.as_bytes()).unwrap()).unwrap();
        assert_eq!((value["apiVersion"].as_str(), value["kind"].as_str()), (Some(API_VERSION), Some(KIND)));
        assert_eq!(value["response"]["uid"], "u");
        value["response"].clone()
    }

    #[test]
    fn objects_come_back_in_their_order() {
        let objects =
            json!([set("v1beta1", json!({ "replicas": 1 })), set("v1alpha1", json!({ "replicas": 2 }))]);
        let answer = answered(&review(&objects, "apps.kruise.io/v1alpha1"));
        let expected =
            json!([set("v1alpha1", json!({ "replicas": 1 })), set("v1alpha1", json!({ "replicas": 2 }))]);
        assert_eq!(
            (&answer["convertedObjects"], &answer["result"]["status"]),
            (&expected, &json!("Success"))
        );
        let none = answered(&review(&json!([]), "apps.kruise.io/v1alpha1"));
        assert_eq!(none["convertedObjects"], json!([]));
    }

    #[rstest]
    #[case::another_version(json!([]), "apps.kruise.io/v2", "desiredAPIVersion")]
    #[case::another_group(json!([]), "apps/v1", "desiredAPIVersion")]
    #[case::another_kind(json!([{ "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet" }]), "apps.kruise.io/v1alpha1", "CloneSet of apps.kruise.io/v1beta1")]
    #[case::no_object(json!([1]), "apps.kruise.io/v1alpha1", "is no object")]
    #[case::no_spec(json!([set("v1beta1", json!("x"))]), "apps.kruise.io/v1alpha1", "spec is no object")]
    fn what_cannot_be_converted_is_said(#[case] objects: Value, #[case] desired: &str, #[case] says: &str) {
        let answer = answered(&review(&objects, desired));
        assert_eq!(answer["result"]["status"], "Failed");
        assert!(answer["result"]["message"].as_str().unwrap().contains(says), "{answer}");
        assert!(answer.get("convertedObjects").is_none());
    }

    #[rstest]
    #[case::nothing("", "no JSON")]
    #[case::broken("{\"secret", "no JSON")]
    #[case::more_than_one("{}{}", "no JSON")]
    #[case::a_list("[]", "no object")]
    #[case::another_kind(
        r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#,
        "admission.k8s.io/v1"
    )]
    #[case::no_request(r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview"}"#, "no request")]
    #[case::no_uid(
        r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{}}"#,
        "request.uid"
    )]
    #[case::no_list(
        r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u","objects":{}}}"#,
        "request.objects"
    )]
    fn a_bad_body_is_told_from_others(#[case] body: &str, #[case] says: &str) {
        let error = answer(body.as_bytes()).unwrap_err();
        assert!(error.contains(says) && !error.contains("secret"), "{error}");
    }

    /// The body is bounded where it is read, and what comes of it here.
    #[test]
    fn an_answer_that_is_too_large_is_none() {
        let large = set("v1beta1", json!({ "template": "x".repeat(1 << 20) }));
        let answer = answered(&review(&json!(vec![large; 13]), "apps.kruise.io/v1alpha1"));
        assert!(
            answer["result"]["message"].as_str().unwrap().contains("more than 12 MiB"),
            "{}",
            answer["result"]
        );
    }
}
