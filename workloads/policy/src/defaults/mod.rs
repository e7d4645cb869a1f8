//! Defaults of templates, as OpenKruise's webhook fills them in.
//!
//! The webhook of the manager completes with them what is written, and the controller of UnitedDeployments
//! the workloads that it changes: their templates are the same then, whether a webhook stands or not.

mod fill;
pub mod pod;

pub use self::fill::{Filling, Object};
use crate::template::same;

/// Parts of the spec of a set that have defaults, and that its revision or its claims are made of.
const PARTS: [&str; 2] = ["template", "volumeClaimTemplates"];

/// Completes the template and the claims of a set whose pods run for ever.
pub fn of_set(spec: &mut Filling<'_>) {
    spec.within("template", |template| template.within("spec", pod::fill_endless));
    spec.each("volumeClaimTemplates", pod::claim);
}

/// Gives the spec of a set the defaults that the one in whose place it comes has. A template, or claims, that
/// differ in nothing but defaults are those of before, to the letter: no revision comes of them.
pub fn keep(spec: &mut Object, before: &Object) {
    of_set(&mut Filling::new(spec, Some(before)));
    let (whole, whole_before) = (whole(spec), whole(before));
    for part in PARTS {
        let of = |whole: &Object| Object::from_iter([(part.to_owned(), whole.get(part).cloned().into())]);
        if let Some(value) = before.get(part)
            && same(&of(&whole), &of(&whole_before))
        {
            spec.insert(part.to_owned(), value.clone());
        }
    }
}

/// Parts that have defaults, with all of them.
fn whole(spec: &Object) -> Object {
    let part = |part: &str| Some((part.to_owned(), spec.get(part)?.clone()));
    let mut whole: Object = PARTS.into_iter().filter_map(part).collect();
    of_set(&mut Filling::new(&mut whole, None));
    whole
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn spec(value: &Value) -> Object {
        value.as_object().cloned().unwrap()
    }

    fn of_pod(pod: Value) -> Value {
        json!({ "template": { "metadata": { "labels": { "app": "a" } }, "spec": pod } })
    }

    /// A spec that is new, as a webhook leaves it.
    fn filled(given: &Value) -> Value {
        let mut spec = spec(given);
        of_set(&mut Filling::new(&mut spec, None));
        spec.into()
    }

    fn kept(given: &Value, before: &Value) -> Value {
        let mut new = spec(given);
        keep(&mut new, &spec(before));
        new.into()
    }

    fn main(container: Value) -> Value {
        let mut main = json!({ "name": "main", "image": "a:1" });
        main.as_object_mut().unwrap().extend(spec(&container));
        of_pod(json!({ "containers": [main] }))
    }

    fn claims(more: Value) -> Value {
        json!({ "template": {}, "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": more }] })
    }

    /// Rows: a spec as its author gave it. With all defaults or without any, it is no other one.
    #[rstest]
    #[case::pod(of_pod(json!({})))]
    #[case::container(main(json!({})))]
    #[case::probe(main(json!({ "livenessProbe": { "httpGet": { "port": 1 } } })))]
    #[case::port(main(json!({ "ports": [{ "containerPort": 80 }] })))]
    #[case::field(main(json!({ "env": [{ "name": "A", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }] })))]
    #[case::volume(of_pod(json!({ "volumes": [{ "name": "v" }, { "name": "s", "secret": { "secretName": "s" } }] })))]
    #[case::claims(claims(json!({ "resources": { "requests": { "storage": "1Gi" } } })))]
    fn defaults_alone_change_nothing(#[case] given: Value) {
        let whole = filled(&given);
        assert_ne!(whole, given, "nothing is tested");
        assert_eq!(kept(&given, &whole), whole, "nobody fills in");
        assert_eq!(kept(&whole, &given), given, "somebody has filled in");
        assert_eq!(kept(&given, &given), given);
    }

    /// Rows: a spec before and after an edit.
    #[rstest]
    #[case::image(main(json!({})), main(json!({ "image": "a:2" })))]
    #[case::env(main(json!({})), main(json!({ "env": [{ "name": "A", "value": "1" }] })))]
    #[case::host(of_pod(json!({})), of_pod(json!({ "hostNetwork": true })))]
    #[case::class(claims(json!({})), claims(json!({ "storageClassName": "fast" })))]
    fn an_edit_is_an_edit_alone(#[case] before: Value, #[case] after: Value) {
        assert_eq!(kept(&after, &filled(&before)), filled(&after), "the defaults stay");
        assert_eq!(kept(&after, &before), after, "none are added");
    }

    /// An object whose defaults nobody fills in any more keeps those that it has, and with them its revision.
    #[test]
    fn only_defaults_of_before_come_in() {
        let given = main(json!({}));
        let whole = filled(&given);
        let as_before = |old: Option<&Value>| {
            let (mut new, old) = (spec(&given), old.map(spec));
            of_set(&mut Filling::as_before(&mut new, old.as_ref()));
            Value::from(new)
        };
        assert_eq!(as_before(None), given);
        assert_eq!(as_before(Some(&json!({ "template": {} }))), given);
        assert_eq!(as_before(Some(&given)), given);
        assert_eq!(as_before(Some(&whole)), whole);
    }

    /// A policy of restarts that is taken out is the default again.
    #[test]
    fn what_is_no_default_does_not_stay() {
        let before = filled(&of_pod(json!({ "dnsPolicy": "Default", "schedulerName": "mine" })));
        assert_eq!(kept(&of_pod(json!({})), &before), filled(&of_pod(json!({}))));
    }
}
