//! Env values that containers are created with while their pod is updated.

use std::collections::BTreeSet;

use super::view::{DeclaredContainer, PodView};
use crate::{
    call::EnvValues,
    creation_env::CreationEnv,
    in_place_update::{Metadata, MetadataKey, UpdateRequest},
};

/// The most bytes of values of one pod. A value counts for each variable that reads it: a pod may name one
/// annotation any number of times. What is beyond is the kubelet's to read, and may be read too early.
const MOST: usize = 1 << 20;

/// The labels and annotations that these requests are about.
pub(crate) fn named(requests: &[UpdateRequest]) -> BTreeSet<MetadataKey> {
    let before = requests.iter().filter_map(|request| request.reported.previous.as_ref());
    let before = before.flat_map(|previous| previous.metadata.keys());
    let named = requests.iter().flat_map(|request| request.metadata.keys()).chain(before).cloned();
    let merged = requests.iter().flat_map(|request| request.merges.keys().chain(request.defaults.keys()));
    named.chain(merged.map(|key| MetadataKey::Annotation(key.clone()))).collect()
}

/// The values that the containers are to be created with once the pod has these values, too: as far as they
/// come from these keys. Only containers that read some of them are in it, and none in which the kubelet puts
/// such a value into another text (`$(NAME)`): the two would not fit together. Nor are those for which there
/// is no room any more.
pub(crate) fn values(view: &PodView, changes: &Metadata, keys: &BTreeSet<MetadataKey>) -> CreationEnv {
    let value = |key: &MetadataKey| {
        let value = changes.get(key).or_else(|| view.metadata.get(key));
        value.map(String::as_str).unwrap_or_default()
    };
    let mut room = MOST;
    let mut of = |container: &DeclaredContainer| {
        let references =
            || container.references.iter().filter(|(_, reference)| keys.contains(&reference.key));
        let sizes = references().map(|(name, reference)| name.len() + value(&reference.key).len());
        let left = room.checked_sub(sizes.fold(0, usize::saturating_add));
        if left.is_none() || references().any(|(_, reference)| reference.is_expanded) {
            return EnvValues::default();
        }
        room = left.unwrap_or(room);
        let values = references().map(|(name, reference)| (name.clone(), value(&reference.key).to_owned()));
        EnvValues(values.collect())
    };
    let all = view.containers.iter().map(|container| (container.name.clone(), of(container)));
    all.filter(|(_, values)| !values.0.is_empty()).collect()
}
