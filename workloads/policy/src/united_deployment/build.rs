//! Workloads of subsets, built from the template and their subset.

use berth_proto::crd::Subset;
use serde_json::{Map, Value, json};

use super::{HASH_ANNOTATION, Kind, Pass, SUBSET_LABEL, SUBSET_REVISION_LABEL, patch};
use crate::{
    build::{object, values},
    defaults,
    fault::Fault,
    hash,
    revision::sorted,
};

/// Changed with how workloads are built: all of them are written anew then.
const BUILD: u8 = 2;
/// The longest part of a name before its suffix. A StatefulSet's name is part of a label's value, with a
/// hash.
const LONGEST_BASE: usize = 47;
/// The most bytes that the expressions of a subset take in all terms of its pods together: no object has room
/// for more.
const MOST_ADDED: usize = 1 << 20;
/// Names of pods that a CloneSet deletes first.
const TO_DELETE: &str = "podsToDelete";

/// Numbers of a subset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbers {
    pub(super) replicas: i64,
    /// Pods that stay as they are.
    pub(super) partition: i64,
}

impl Pass<'_> {
    /// Hash of all that the workload of a subset is made of.
    pub(super) fn hash(&self, subset: &Subset, numbers: Numbers) -> String {
        let Numbers { replicas, partition } = numbers;
        // The name of the revision stands for the template.
        let parts = json!([
            BUILD,
            self.live.update.name,
            self.input.united.spec.selector,
            subset.name,
            subset.node_selector_term,
            subset.tolerations,
            subset.patch,
            replicas,
            partition,
        ]);
        hash::revision(sorted(&parts).to_string().as_bytes(), 0)
    }

    /// Tells whether updates of this kind of workload are held by a number.
    pub(super) fn has_partition(&self) -> bool {
        match self.rules.kind {
            Kind::CloneSet => true,
            Kind::Deployment => false,
            Kind::StatefulSet | Kind::AdvancedStatefulSet => {
                let strategy = self.rules.template.get("spec").and_then(|spec| spec.get("updateStrategy"));
                strategy.and_then(|one| one.get("type")).and_then(Value::as_str) != Some("OnDelete")
            }
        }
    }

    /// Builds the workload of a subset, but for its name.
    pub(super) fn workload(&self, subset: &Subset, numbers: Numbers) -> Result<Value, Fault> {
        let (rules, kind) = (self.rules, self.rules.kind);
        let field = format!("spec.template.{}", kind.member());
        let own =
            [(SUBSET_LABEL, subset.name.as_str()), (SUBSET_REVISION_LABEL, self.live.update.name.as_str())];
        let mut metadata = object(rules.template.get("metadata"));
        let mut labels = object(metadata.remove("labels").as_ref());
        labels.extend(values(rules.match_labels));
        labels.insert(SUBSET_LABEL.to_owned(), subset.name.clone().into());
        for label in [kind.revision_label(), SUBSET_REVISION_LABEL] {
            labels.insert(label.to_owned(), self.live.update.name.clone().into());
        }
        let mut annotations = object(metadata.remove("annotations").as_ref());
        annotations.insert(HASH_ANNOTATION.to_owned(), self.hash(subset, numbers).into());

        let mut spec = object(rules.template.get("spec"));
        spec.insert("replicas".to_owned(), numbers.replicas.into());
        let mut selector = json!(self.input.united.spec.selector);
        selector["matchLabels"][SUBSET_LABEL] = subset.name.clone().into();
        spec.insert("selector".to_owned(), selector);
        let mut pods = object(spec.get("template"));
        if let Some(changes) = &subset.patch {
            let at = format!("spec.topology.subsets[{:?}].patch", subset.name);
            patch::merge(&mut pods, &changes.0, &at)?;
        }
        let at = format!("{field}.spec.template");
        let pod_labels = child(child(&mut pods, "metadata", &at)?, "labels", &at)?;
        pod_labels.extend(own.map(|(key, value)| (key.to_owned(), value.into())));
        place(child(&mut pods, "spec", &at)?, subset, &format!("{at}.spec"))?;
        spec.insert("template".to_owned(), pods.into());
        if self.has_partition() {
            let at = format!("{field}.spec");
            let strategy = child(&mut spec, "updateStrategy", &at)?;
            let holder = match kind {
                Kind::CloneSet => strategy,
                _ => {
                    strategy.insert("type".to_owned(), "RollingUpdate".into());
                    child(strategy, "rollingUpdate", &at)?
                }
            };
            holder.insert("partition".to_owned(), numbers.partition.into());
        }
        Ok(json!({
            "apiVersion": format!("{}/{}", kind.group(), kind.version()),
            "kind": kind.name(),
            "metadata": {
                "namespace": self.owner.namespace,
                "labels": labels,
                "annotations": annotations,
                "ownerReferences": [self.owner.reference()],
            },
            "spec": spec,
        }))
    }

    /// Name of a new workload.
    pub(super) fn name(&mut self, subset: &str) -> String {
        let mut base = format!("{}-{subset}-", self.owner.name);
        let cut = base.char_indices().map(|(at, _)| at).find(|at| *at >= LONGEST_BASE);
        base.truncate(cut.unwrap_or(base.len()));
        loop {
            let name = format!("{base}{}", self.suffixes.next());
            if !self.input.children.iter().any(|child| child.name == name) {
                return name;
            }
        }
    }
}

/// Ties pods to the nodes of their subset, beside what they ask for anyway.
fn place(pod: &mut Map<String, Value>, subset: &Subset, path: &str) -> Result<(), Fault> {
    if !subset.tolerations.is_empty() {
        list(pod, "tolerations", path)?.extend(subset.tolerations.iter().map(|one| json!(one)));
    }
    let expressions = subset.node_selector_term.as_ref().and_then(|term| term.match_expressions.as_ref());
    let Some(expressions) = expressions.filter(|all| !all.is_empty()) else {
        // An empty term selects no node at all.
        return Ok(());
    };
    let affinity = child(pod, "affinity", path)?;
    let nodes = child(affinity, "nodeAffinity", path)?;
    let required = child(nodes, "requiredDuringSchedulingIgnoredDuringExecution", path)?;
    let terms = list(required, "nodeSelectorTerms", path)?;
    if terms.is_empty() {
        terms.push(json!({}));
    }
    // A term is three bytes, and each gets all of them.
    let size = json!(expressions).to_string().len();
    if terms.len().saturating_mul(size) > MOST_ADDED {
        let why = format!(
            "has {} nodeSelectorTerms, and each gets {size} bytes of its subset: give fewer of either",
            terms.len()
        );
        return Err(Fault::new(format!("{path}.affinity"), why));
    }
    for term in terms {
        let Some(term) = term.as_object_mut() else {
            let why = "has a nodeSelectorTerm that is no object: correct it";
            return Err(Fault::new(format!("{path}.affinity"), why));
        };
        list(term, "matchExpressions", path)?.extend(expressions.iter().map(|one| json!(one)));
    }
    Ok(())
}

/// Changes a workload as it is to what it is to be. Labels and annotations that others gave it stay, and so
/// does how a CloneSet is to be scaled, where the template does not say it. Names of pods to delete stay
/// where the template has none: a client with types writes the rest of the strategy though it is empty.
/// Defaults stay that a webhook has filled in: without them its controller would see another template, and
/// update all pods for it. Those of Kubernetes' own kinds the API server fills in.
pub fn update(kind: Kind, current: &mut Value, wanted: &Value) {
    for part in ["labels", "annotations"] {
        let mut all = object(current["metadata"].get(part));
        all.extend(object(wanted["metadata"].get(part)));
        current["metadata"][part] = all.into();
    }
    let mut spec = object(wanted.get("spec"));
    if kind == Kind::CloneSet
        && let Some(before) = current["spec"].get("scaleStrategy").filter(|before| !before.is_null())
    {
        let strategy = spec.entry("scaleStrategy").or_insert(Value::Null);
        if strategy.is_null() {
            strategy.clone_from(before);
        } else if let (Some(strategy), Some(names)) = (strategy.as_object_mut(), before.get(TO_DELETE))
            && is_empty(strategy.get(TO_DELETE))
        {
            strategy.insert(TO_DELETE.to_owned(), names.clone());
        }
    }
    if matches!(kind, Kind::CloneSet | Kind::AdvancedStatefulSet)
        && let Some(before) = current["spec"].as_object()
    {
        defaults::keep(&mut spec, before);
    }
    current["spec"] = spec.into();
}

/// Tells whether a list has nothing, or is not there.
fn is_empty(list: Option<&Value>) -> bool {
    list.is_none_or(|list| list.is_null() || list.as_array().is_some_and(Vec::is_empty))
}

/// Object in a field, made where there is none.
fn child<'a>(
    parent: &'a mut Map<String, Value>,
    key: &str,
    path: &str,
) -> Result<&'a mut Map<String, Value>, Fault> {
    let value = parent.entry(key).or_insert(Value::Null);
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().ok_or_else(|| Fault::new(format!("{path}.{key}"), "is no object: correct it"))
}

/// List in a field, made where there is none.
fn list<'a>(parent: &'a mut Map<String, Value>, key: &str, path: &str) -> Result<&'a mut Vec<Value>, Fault> {
    let value = parent.entry(key).or_insert(Value::Null);
    if value.is_null() {
        *value = Value::Array(Vec::new());
    }
    value.as_array_mut().ok_or_else(|| Fault::new(format!("{path}.{key}"), "is no list: correct it"))
}
