//! Fields that an object may have, from the definition of its kind, which is made from its type.
//!
//! The type of the API forgives unknown fields, because a newer server may send them. A file has no newer
//! author than its reader, so there a field that is not known is a misspelt one: an error with its line, and
//! not a surprise later.

use std::{collections::BTreeMap, iter, sync::LazyLock};

use serde_json::Value;

use crate::base::yaml::{Content, Document, Node, YamlError, field};

/// Fields of a `ContainerRecreateRequest`.
pub(crate) static CONTAINER_RECREATE_REQUEST: LazyLock<KnownFields> = LazyLock::new(|| {
    KnownFields::of_definition(include_str!("../../../deploy/crds/containerrecreaterequests.yaml"))
});
/// Fields of a `NodeImage`.
pub(crate) static NODE_IMAGE: LazyLock<KnownFields> =
    LazyLock::new(|| KnownFields::of_definition(include_str!("../../../deploy/crds/nodeimages.yaml")));

/// The fields of `metadata` that a file may have; `kubectl create --dry-run` writes the last one.
const METADATA: [&str; 5] = ["name", "namespace", "labels", "annotations", "creationTimestamp"];

/// Fields of a value. Where none are known, any may be there.
#[derive(Debug, Default)]
pub(crate) struct KnownFields {
    fields: Option<BTreeMap<String, Self>>,
    /// Fields of each entry of a list or a map.
    entries: Option<Box<Self>>,
}

impl KnownFields {
    /// Reads them from the definition of a custom resource, which is ours and right.
    fn of_definition(text: &str) -> Self {
        let definition: Value = Document::parse(text).and_then(|text| text.typed()).unwrap_or_default();
        let schema = definition.pointer("/spec/versions/0/schema/openAPIV3Schema");
        let mut known = schema.map(Self::of_schema).unwrap_or_default();
        let fields = known.fields.get_or_insert_default();
        let metadata = METADATA.map(|name| (name.to_owned(), Self::default()));
        let metadata = Self { fields: Some(metadata.into()), entries: None };
        let head = ["apiVersion", "kind"].map(|name| (name.to_owned(), Self::default()));
        fields.extend(head.into_iter().chain(iter::once(("metadata".to_owned(), metadata))));
        known
    }

    fn of_schema(schema: &Value) -> Self {
        let fields = schema.get("properties").and_then(Value::as_object).map(|fields| {
            fields.iter().map(|(name, schema)| (name.clone(), Self::of_schema(schema))).collect()
        });
        let entries = schema.get("items").or_else(|| schema.get("additionalProperties"));
        Self { fields, entries: entries.map(|schema| Box::new(Self::of_schema(schema))) }
    }

    /// Names the first field of a document that is not known.
    pub(crate) fn check(&self, document: &Document<'_>) -> Result<(), YamlError> {
        self.check_value(document, &document.root, "")
    }

    fn check_value(&self, document: &Document<'_>, node: &Node, path: &str) -> Result<(), YamlError> {
        match &node.value {
            Content::Scalar(_) => Ok(()),
            Content::List(entries) => {
                let Some(known) = &self.entries else { return Ok(()) };
                let mut entries = entries.iter().enumerate();
                entries
                    .try_for_each(|(at, entry)| known.check_value(document, entry, &format!("{path}[{at}]")))
            }
            Content::Fields(fields) => fields.iter().try_for_each(|(name, value)| {
                let here = field(path, &name.value);
                let known = match (&self.fields, &self.entries) {
                    (Some(known), _) => known.get(&name.value).ok_or_else(|| {
                        let what = format!("unknown field `{}`", name.value);
                        document.error(&here, name.referenced, &what)
                    })?,
                    (None, Some(known)) => known,
                    (None, None) => return Ok(()),
                };
                known.check_value(document, value, &here)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_name_the_fields_of_the_types() {
        for (known, field) in [(&*CONTAINER_RECREATE_REQUEST, "podName"), (&*NODE_IMAGE, "images")] {
            let fields = known.fields.as_ref().unwrap();
            assert_eq!(
                fields.keys().map(String::as_str).collect::<Vec<_>>(),
                ["apiVersion", "kind", "metadata", "spec", "status"]
            );
            assert!(fields["spec"].fields.as_ref().unwrap().contains_key(field), "{known:?}");
        }
    }

    #[test]
    fn an_unknown_field_is_named_at_any_depth() {
        let table = [
            (&CONTAINER_RECREATE_REQUEST, "spec: {podName: x, containers: [{name: a}]}", None),
            (&CONTAINER_RECREATE_REQUEST, "metadata: {labels: {any: x}}", None),
            (&CONTAINER_RECREATE_REQUEST, "sepc: {}", Some("sepc: unknown field `sepc` at line 1")),
            (&CONTAINER_RECREATE_REQUEST, "metadata: {uid: x}", Some("metadata.uid: unknown field `uid`")),
            (
                &CONTAINER_RECREATE_REQUEST,
                "spec:\n  containers: [{name: a}, {nme: b}]",
                Some("spec.containers[1].nme: unknown field `nme` at line 2"),
            ),
            (&NODE_IMAGE, "spec: {images: {a: {tags: [{tag: v1}]}}}", None),
            (
                &NODE_IMAGE,
                "spec: {images: {a: {tags: [{tga: v1}]}}}",
                Some("spec.images.a.tags[0].tga: unknown"),
            ),
            (&NODE_IMAGE, "spec: {images: {a: {sandboxConfig: {labels: {any: x}}}}}", None),
            (
                &NODE_IMAGE,
                "spec: {images: {a: {sandboxConfig: {label: {}}}}}",
                Some("spec.images.a.sandboxConfig.label: unknown"),
            ),
        ];
        for (known, text, expected) in table {
            let error = known.check(&Document::parse(text).unwrap()).err().map(|error| error.to_string());
            match (&error, expected) {
                (None, None) => {}
                (Some(error), Some(part)) => {
                    assert!(error.contains(part), "{part:?} is missing in {error:?}")
                }
                _ => panic!("{error:?} for {text}"),
            }
        }
    }
}
