//! Variables of an injected container. Where two have one name, the first wins: its own, `IS_INJECTED`, those
//! that come from other containers, those that shared paths need.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::mounts::Shared;
use crate::{
    json::{Object, list, objects, text},
    names,
    selector::Labels,
    sidecar::{Sidecar, Source},
};

/// Circumstances of a pod that variables come from.
pub(super) struct Pod<'a> {
    /// Variables of its containers, by their names; of equal names the last counts.
    containers: BTreeMap<&'a str, BTreeMap<&'a str, &'a Object>>,
    labels: &'a Labels,
    annotations: &'a Labels,
}

impl<'a> Pod<'a> {
    /// Circumstances of a pod with these containers.
    pub(super) fn new(containers: &[&'a Object], labels: &'a Labels, annotations: &'a Labels) -> Self {
        let variables = |of: &'a Object| objects(of, "env").map(|env| (text(env, "name"), env)).collect();
        let containers = containers.iter().map(|of| (text(of, "name"), variables(of))).collect();
        Self { containers, labels, annotations }
    }
}

/// Variables of a sidecar in this pod, and of those that it misses a sentence each. `of_paths` are those that
/// the pod's mounts need.
pub(super) fn of(sidecar: &Sidecar, pod: &Pod, of_paths: &[&Object]) -> (Vec<Value>, Vec<String>) {
    let mut all: Vec<Value> = list(&sidecar.container, "env").to_vec();
    let mut seen: BTreeSet<String> = objects(&sidecar.container, "env").map(name_of).collect();
    let mut missing = Vec::new();
    if seen.insert(names::IS_INJECTED.to_owned()) {
        all.push(json!({"name": names::IS_INJECTED, "value": "true"}));
    }
    let mut add = |variable: &Object| {
        if seen.insert(name_of(variable)) {
            all.push(variable.clone().into());
        }
    };
    for transfer in &sidecar.transfers {
        let source = match &transfer.source {
            Source::Named(name) => Some(name),
            Source::Label(key) => pod.labels.get(key),
            Source::Annotation(key) => pod.annotations.get(key),
            Source::Nowhere => None,
        };
        let variables = source.and_then(|name| pod.containers.get(name.as_str()));
        for name in &transfer.names {
            match variables.and_then(|variables| variables.get(name.as_str())) {
                Some(variable) => add(variable),
                None => missing.push(format!(
                    "container {} gets no variable {name}: the pod has none in container {:?}",
                    sidecar.name,
                    source.map(String::as_str).unwrap_or_default()
                )),
            }
        }
    }
    if sidecar.shares_mounts {
        of_paths.iter().for_each(|variable| add(variable));
    }
    (all, missing)
}

/// Variables that the paths of the pod's mounts refer to, the first of each name. A pod that nobody has
/// checked may have a hundred thousand of both, so each is looked up, and none is looked for.
pub(super) fn of_paths<'a>(mounts: &[Shared<'a>]) -> Vec<&'a Object> {
    let mut found: Vec<&'a Object> = Vec::new();
    let mut names = BTreeSet::new();
    for of_one in mounts.chunk_by(|one, other| std::ptr::eq(one.container, other.container)) {
        let mut variables: Option<BTreeMap<&str, &'a Object>> = None;
        for shared in of_one {
            for name in references(text(shared.mount, "subPathExpr")) {
                let variables = variables.get_or_insert_with(|| by_name(shared.container));
                if let Some(variable) = variables.get(name)
                    && names.insert(name)
                {
                    found.push(variable);
                }
            }
        }
    }
    found
}

/// Variables of a container; of equal names the first.
fn by_name(container: &Object) -> BTreeMap<&str, &Object> {
    let mut all = BTreeMap::new();
    for variable in objects(container, "env") {
        all.entry(text(variable, "name")).or_insert(variable);
    }
    all
}

/// Adds to a twin what tells it its version and that of the other one.
pub(super) fn add_versions(env: &mut Vec<Value>, twin: &str) {
    let keys = [names::version_key(twin), names::other_version_key(twin)];
    for (name, key) in ["SIDECARSET_VERSION", "SIDECARSET_VERSION_ALT"].into_iter().zip(keys) {
        let field = json!({"apiVersion": "v1", "fieldPath": format!("metadata.annotations['{key}']")});
        env.push(json!({"name": name, "valueFrom": {"fieldRef": field}}));
    }
}

fn name_of(variable: &Object) -> String {
    text(variable, "name").to_owned()
}

/// Names in `$(NAME)`.
fn references(expression: &str) -> impl Iterator<Item = &str> {
    let valid = |name: &&str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '-' | '.' | '_'))
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_'))
    };
    expression.split("$(").skip(1).filter_map(|rest| rest.split_once(')')).map(|(name, _)| name).filter(valid)
}
