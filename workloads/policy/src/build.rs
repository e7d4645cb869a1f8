//! New objects of templates: what pods and claims of all kinds of sets have in common.

use berth_proto::crd::ClaimTemplate;
use serde_json::{Map, Value, json};

use crate::{plan::generate_name, revision::Owner, selector::Labels};

/// Parts of a new pod.
pub(crate) struct NewPod<'a> {
    pub(crate) name: &'a str,
    /// Metadata that the template gives it, of which the finalizers are taken.
    pub(crate) given: &'a Map<String, Value>,
    pub(crate) labels: Map<String, Value>,
    pub(crate) annotations: Map<String, Value>,
    pub(crate) spec: Map<String, Value>,
}

impl NewPod<'_> {
    /// The pod that an owner makes of them.
    pub(crate) fn of(self, owner: Owner<'_>) -> Value {
        let Self { name, given, labels, annotations, spec } = self;
        let mut metadata = Map::new();
        metadata.insert("namespace".to_owned(), owner.namespace.into());
        metadata.insert("name".to_owned(), name.into());
        metadata.insert("generateName".to_owned(), generate_name(owner.name).into());
        metadata.insert("labels".to_owned(), labels.into());
        metadata.insert("annotations".to_owned(), annotations.into());
        if let Some(finalizers) = given.get("finalizers").filter(|given| given.is_array()) {
            metadata.insert("finalizers".to_owned(), finalizers.clone());
        }
        metadata.insert("ownerReferences".to_owned(), json!([owner.reference()]));
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec })
    }
}

/// Gives a new pod a readiness gate. One write of the agent opens all that nobody has written.
pub(crate) fn add_gate(spec: &mut Map<String, Value>, type_: &str) {
    let gates = spec.entry("readinessGates").or_insert_with(|| json!([]));
    if gates.is_null() {
        *gates = json!([]);
    }
    let Some(gates) = gates.as_array_mut() else { return };
    if gates.iter().all(|gate| gate.get("conditionType") != Some(&type_.into())) {
        gates.push(json!({ "conditionType": type_ }));
    }
}

/// Gives a new pod its claims as volumes, in the place of volumes of the same name.
pub(crate) fn mount(
    spec: &mut Map<String, Value>,
    claims: &[ClaimTemplate],
    claim_name: impl Fn(&str) -> String,
) {
    if claims.is_empty() {
        return;
    }
    let volume = |template: &str| {
        let claim = claim_name(template);
        json!({ "name": template, "persistentVolumeClaim": { "claimName": claim } })
    };
    let mut volumes: Vec<Value> = claims.iter().map(|claim| volume(claim.name())).collect();
    let is_claimed = |one: &Value| claims.iter().any(|claim| one.get("name") == Some(&claim.name().into()));
    let others = spec.get("volumes").and_then(Value::as_array).into_iter().flatten();
    volumes.extend(others.filter(|one| !is_claimed(one)).cloned());
    spec.insert("volumes".to_owned(), volumes.into());
}

/// Builds a claim of a template, with these labels beside its own; `owner`: a reference to it.
pub(crate) fn claim(
    template: &ClaimTemplate,
    (namespace, name): (&str, String),
    own: &Map<String, Value>,
    owner: Option<Value>,
) -> Value {
    let mut claim = template.0.clone();
    let mut metadata = object(claim.get("metadata"));
    let mut labels = object(metadata.get("labels"));
    labels.extend(own.clone());
    metadata.insert("labels".to_owned(), labels.into());
    metadata.insert("name".to_owned(), name.into());
    metadata.insert("namespace".to_owned(), namespace.into());
    if let Some(owner) = owner {
        metadata.insert("ownerReferences".to_owned(), json!([owner]));
    }
    claim.insert("apiVersion".to_owned(), "v1".into());
    claim.insert("kind".to_owned(), "PersistentVolumeClaim".into());
    claim.insert("metadata".to_owned(), metadata.into());
    claim.remove("status");
    Value::Object(claim)
}

/// Labels as values of an object.
pub(crate) fn values(labels: &Labels) -> Map<String, Value> {
    labels.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect()
}

/// Object in a field, empty where there is none.
pub(crate) fn object(value: Option<&Value>) -> Map<String, Value> {
    value.and_then(Value::as_object).cloned().unwrap_or_default()
}
