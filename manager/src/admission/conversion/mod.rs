//! Conversion of Advanced StatefulSets between `v1beta1`, which is stored, and `v1alpha1`.
//!
//! `v1alpha1` lacks a few fields of `v1beta1`. A client that reads with its types and writes back would take
//! them away, so an object that is read as `v1alpha1` has them in an annotation, which every client keeps;
//! written, it gets them back. A field that stands in `spec` counts more than the one of the annotation.
//! Nothing else of an object is looked at.
//!
//! - `text`: JSON cut at its first level;
//! - `review`: one ConversionReview, and its answer;
//! - `reconciler`: tells the API server, in `spec.conversion` of the definition, to ask here;
//! - here: the conversion of one object.

mod reconciler;
mod review;
mod text;

use berth_proto::crd::MOST_ANNOTATION_BYTES;

use self::text::{Members, is_json, quoted};
pub(super) use self::{
    reconciler::{Bundled, ConversionReconciler, DEFINITION, read},
    review::answer,
};

/// The annotation of a `v1alpha1` object that has the fields which are in `v1beta1` alone.
const ANNOTATION: &str = "berth.dev/v1beta1-fields";
/// The fields of `spec` that `v1alpha1` lacks.
const LATER: [&str; 6] = [
    "lifecycle",
    "ordinals",
    "persistentVolumeClaimRetentionPolicy",
    "reserveOrdinals",
    "scaleStrategy",
    "volumeClaimUpdateStrategy",
];
const KIND: &str = "StatefulSet";
/// Members of the annotation: the fields, and the annotation of this name that the object had itself.
const SPEC: &str = "spec";
const OWN: &str = "annotation";

/// Version of the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Alpha,
    Beta,
}

impl Version {
    fn parse(api_version: &str) -> Option<Self> {
        match api_version {
            "apps.kruise.io/v1alpha1" => Some(Self::Alpha),
            "apps.kruise.io/v1beta1" => Some(Self::Beta),
            _ => None,
        }
    }

    const fn api_version(self) -> &'static str {
        match self {
            Self::Alpha => "apps.kruise.io/v1alpha1",
            Self::Beta => "apps.kruise.io/v1beta1",
        }
    }
}

/// Converts one object, which has to be JSON. The failure says field, object and remedy.
fn converted(object: &str, to: Version) -> Result<String, String> {
    let mut top = Members::of(object).ok_or("an object to convert is no object: give a StatefulSet")?;
    let (api_version, kind) = (top.string("apiVersion"), top.string("kind"));
    let from = api_version.as_deref().and_then(Version::parse);
    let (Some(from), Some(KIND)) = (from, kind.as_deref()) else {
        return Err(format!(
            "{} of {} is not converted here: give a {KIND} of apps.kruise.io, v1alpha1 or v1beta1",
            kind.unwrap_or_default(),
            api_version.unwrap_or_default()
        ));
    };
    if from == to {
        return Ok(object.to_owned());
    }
    let whole = top.clone();
    let parts = || Some((whole.members("metadata")?, whole.members("spec")?));
    let (metadata, spec) = parts().ok_or("metadata or spec is no object: correct it")?;
    let annotations = metadata
        .members("annotations")
        .ok_or_else(|| format!("metadata.annotations of {} is no object: correct it", name(&metadata)))?;
    let changed = match to {
        Version::Alpha => without_later(annotations, spec),
        Version::Beta => with_later(annotations, spec).map_err(|fault| {
            format!("metadata.annotations[{ANNOTATION}] of {KIND} {} {fault}", name(&metadata))
        })?,
    };
    top.set("apiVersion", quoted(to.api_version()));
    if let Some((annotations, spec)) = changed {
        let mut metadata = metadata.clone();
        metadata.set("annotations", annotations);
        if metadata.get("annotations") == Some("{}") {
            metadata.take(&["annotations"]);
        }
        top.set("metadata", metadata.write());
        top.set("spec", spec);
    }
    Ok(top.write())
}

/// Moves the fields that `v1alpha1` lacks into the annotation. Returns annotations and spec, if they change.
fn without_later(mut annotations: Members<'_>, mut spec: Members<'_>) -> Option<(String, String)> {
    let own = annotations.take(&[ANNOTATION]).get(ANNOTATION).map(str::to_owned);
    let whole = spec.clone();
    let taken = spec.take(&LATER);
    if taken.is_empty() && own.is_none() {
        return None;
    }
    let payload = |taken: Option<String>| {
        let mut payload = Members::default();
        taken.into_iter().for_each(|taken| payload.set(SPEC, taken));
        own.iter().for_each(|own| payload.set(OWN, own.clone()));
        payload.write()
    };
    let size = |name: &str, value: &str| name.len().saturating_add(value.len());
    let others: usize = annotations.iter().map(|(name, value)| size(name, value)).sum();
    let mut text = payload((!taken.is_empty()).then(|| taken.write()));
    // An object with more could not be written back. The definition knows these fields in both versions.
    if others.saturating_add(size(ANNOTATION, &text)) > MOST_ANNOTATION_BYTES {
        own.as_ref()?;
        (text, spec) = (payload(None), whole);
    }
    annotations.set(ANNOTATION, quoted(&text));
    Some((annotations.write(), spec.write()))
}

/// Moves what is in the annotation back. Returns annotations and spec, if they change; or the fault of the
/// annotation.
fn with_later(
    mut annotations: Members<'_>,
    mut spec: Members<'_>,
) -> Result<Option<(String, String)>, String> {
    let fault = || {
        let known = LATER.join(", ");
        format!(
            "is not what this server wrote: take it out, or give {{\"{SPEC}\":{{}}}} with fields of {known}"
        )
    };
    let taken = annotations.take(&[ANNOTATION]);
    if taken.is_empty() {
        return Ok(None);
    }
    let text = taken.string(ANNOTATION).filter(|text| is_json(text)).ok_or_else(fault)?;
    let payload = Members::of(&text).ok_or_else(fault)?;
    let fields = payload.members(SPEC).ok_or_else(fault)?;
    // A name may come as often as there is room for, and this server writes each once.
    let are_known = |members: &Members<'_>, known: &[&str]| {
        members.names().count() <= known.len() && members.names().all(|name| known.contains(&name))
    };
    if !are_known(&payload, &[SPEC, OWN]) || !are_known(&fields, &LATER) {
        return Err(fault());
    }
    for (name, value) in fields.iter() {
        if spec.get(name).is_none() {
            spec.set(name, value.to_owned());
        }
    }
    if let Some(own) = payload.get(OWN) {
        if payload.string(OWN).is_none() {
            return Err(fault());
        }
        annotations.set(ANNOTATION, own.to_owned());
    }
    Ok(Some((annotations.write(), spec.write())))
}

fn name(metadata: &Members<'_>) -> String {
    let text = |name: &str| metadata.string(name).unwrap_or_default();
    format!("{}/{}", text("namespace"), text("name"))
}

#[cfg(test)]
mod tests;
