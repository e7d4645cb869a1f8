//! Rules of a UnitedDeployment: its spec, checked, with its defaults.

use std::collections::{BTreeMap, BTreeSet};

use berth_proto::{
    crd::{Subset, UnitedDeployment, WorkloadTemplate},
    names::is_dns_label,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Map, Value, json};

use super::{
    Kind,
    allocation::{Replicas, Share},
};
use crate::{
    fault::Fault,
    selector::{Labels, Selector},
};

/// The most pods that all subsets have together; no cluster has as many.
const MOST_REPLICAS: i64 = 1_000_000;
/// The most subsets.
const MOST_SUBSETS: usize = 128;
/// The longest name: a revision's is the value of a label, and has a hash too.
const LONGEST_NAME: usize = 52;

/// A UnitedDeployment's spec.
#[derive(Clone, Debug)]
pub(super) struct Rules<'a> {
    pub(super) replicas: i64,
    pub(super) selector: Selector,
    pub(super) match_labels: &'a Labels,
    pub(super) kind: Kind,
    pub(super) template: &'a Map<String, Value>,
    /// The template with the name of its kind, as revisions have it.
    pub(super) whole: Map<String, Value>,
    pub(super) subsets: Vec<(&'a Subset, Replicas)>,
    pub(super) partitions: BTreeMap<&'a str, i64>,
    pub(super) history_limit: usize,
}

impl<'a> Rules<'a> {
    /// Reads and checks the spec.
    pub(super) fn of(united: &'a UnitedDeployment) -> Result<Self, Fault> {
        let spec = &united.spec;
        let name = united.metadata.name.as_deref().unwrap_or_default();
        if name.len() > LONGEST_NAME {
            let why =
                format!("has {} letters: {LONGEST_NAME} leave room for the hash of a revision", name.len());
            return Err(Fault::new("metadata.name", why));
        }
        let replicas = i64::from(spec.replicas.unwrap_or(1));
        if !(0..=MOST_REPLICAS).contains(&replicas) {
            let why = format!("is {replicas}: give a number from 0 to {MOST_REPLICAS}");
            return Err(Fault::new("spec.replicas", why));
        }
        let selector = Selector::parse("spec.selector", &spec.selector)?;
        let Some(match_labels) = spec.selector.match_labels.as_ref().filter(|labels| !labels.is_empty())
        else {
            let why =
                "is empty, and the workloads of the subsets get these labels: give it labels of the template";
            return Err(Fault::new("spec.selector.matchLabels", why));
        };
        let (kind, template) = template(united)?;
        check_template(kind, template, &selector)?;
        check_schedule(united)?;
        let subsets = subsets(united, replicas)?;
        let names: BTreeSet<&str> = subsets.iter().map(|(subset, _)| subset.name.as_str()).collect();
        let manual = spec.update_strategy.as_ref().and_then(|strategy| strategy.manual_update.as_ref());
        let mut partitions = BTreeMap::new();
        for (name, partition) in manual.iter().flat_map(|manual| &manual.partitions) {
            let field = format!("spec.updateStrategy.manualUpdate.partitions[{name:?}]");
            if !names.contains(name.as_str()) {
                return Err(Fault::new(field, "is of no subset: take it out, or correct its name"));
            }
            if *partition < 0 {
                return Err(Fault::new(field, format!("is {partition}: give a number from 0 on")));
            }
            partitions.insert(name.as_str(), i64::from(*partition));
        }
        Ok(Self {
            replicas,
            selector,
            match_labels,
            kind,
            template,
            whole: json!(spec.template).as_object().cloned().unwrap_or_default(),
            subsets,
            partitions,
            history_limit: usize::try_from(spec.revision_history_limit.unwrap_or(10)).unwrap_or(0),
        })
    }

    /// Pods of a subset that stay as they are.
    pub(super) fn partition(&self, subset: &str, replicas: i64) -> i64 {
        self.partitions.get(subset).copied().unwrap_or(0).min(replicas)
    }
}

fn template(united: &UnitedDeployment) -> Result<(Kind, &Map<String, Value>), Fault> {
    let template = &united.spec.template;
    let given: [(Kind, &Option<WorkloadTemplate>); 4] = [
        (Kind::StatefulSet, &template.stateful_set_template),
        (Kind::AdvancedStatefulSet, &template.advanced_stateful_set_template),
        (Kind::CloneSet, &template.clone_set_template),
        (Kind::Deployment, &template.deployment_template),
    ];
    let mut given = given.into_iter().filter_map(|(kind, one)| Some((kind, &one.as_ref()?.0)));
    match (given.next(), given.next()) {
        (Some(one), None) => Ok(one),
        _ => {
            let why = "has not exactly one of statefulSetTemplate, advancedStatefulSetTemplate, cloneSetTemplate and \
                       deploymentTemplate: give one of them";
            Err(Fault::new("spec.template", why))
        }
    }
}

fn check_template(kind: Kind, template: &Map<String, Value>, selector: &Selector) -> Result<(), Fault> {
    let field = format!("spec.template.{}.spec", kind.member());
    let spec = template.get("spec").and_then(Value::as_object);
    let pods = spec.and_then(|spec| spec.get("template")).and_then(Value::as_object);
    let (Some(spec), Some(pods)) = (spec, pods) else {
        let why = format!("has no template of pods: give the spec of a {}", kind.name());
        return Err(Fault::new(field, why));
    };
    if !selector.takes(&crate::clone_set::template_labels(pods)) {
        let why = "are not those of spec.selector: give the template the labels that are selected";
        return Err(Fault::new(format!("{field}.template.metadata.labels"), why));
    }
    let has = |path: &[&str]| {
        let mut at = spec.get(path[0]);
        for key in &path[1..] {
            at = at.and_then(|value| value.get(key));
        }
        at.is_some_and(|value| !value.is_null())
    };
    if kind != Kind::CloneSet && has(&["replicas"]) {
        let why = "is that of the subset: leave it out, and give spec.replicas";
        return Err(Fault::new(format!("{field}.replicas"), why));
    }
    if kind.is_numbered() && has(&["updateStrategy", "rollingUpdate", "partition"]) {
        let why = "is that of the subset: leave it out, and give spec.updateStrategy.manualUpdate.partitions";
        return Err(Fault::new(format!("{field}.updateStrategy.rollingUpdate.partition"), why));
    }
    Ok(())
}

/// Pods stay in their subset: what would move them is not left out without a word.
fn check_schedule(united: &UnitedDeployment) -> Result<(), Fault> {
    let strategy = united.spec.topology.as_ref().and_then(|topology| topology.schedule_strategy.as_ref());
    match strategy.and_then(|strategy| strategy.type_.as_deref()) {
        None | Some("" | "Fixed") => Ok(()),
        Some(other) => {
            let why = format!(
                "is {other:?}, and pods stay in their subset: leave it out, or spread one CloneSet by a WorkloadSpread \
                 of type Adaptive"
            );
            Err(Fault::new("spec.topology.scheduleStrategy.type", why))
        }
    }
}

fn subsets(united: &UnitedDeployment, replicas: i64) -> Result<Vec<(&Subset, Replicas)>, Fault> {
    let given = united.spec.topology.as_ref().map(|topology| topology.subsets.as_slice()).unwrap_or_default();
    if given.len() > MOST_SUBSETS {
        let why = format!("are {}: give at most {MOST_SUBSETS}", given.len());
        return Err(Fault::new("spec.topology.subsets", why));
    }
    let mut names = BTreeSet::new();
    let mut subsets = Vec::new();
    for (at, subset) in given.iter().enumerate() {
        let field = format!("spec.topology.subsets[{at}]");
        if !is_dns_label(&subset.name) {
            let why = format!("is {:?}: give small letters, digits and dashes, 63 at most", subset.name);
            return Err(Fault::new(format!("{field}.name"), why));
        }
        if !names.insert(subset.name.as_str()) {
            let why = format!("is {:?} as in another subset: give each a name of its own", subset.name);
            return Err(Fault::new(format!("{field}.name"), why));
        }
        subsets.push((subset, asked(subset, &field, replicas)?));
    }
    let is_bounded = subsets.iter().any(|(_, asked)| asked.is_bounded());
    if let Some(at) = subsets.iter().position(|(_, asked)| is_bounded && asked.share.is_some()) {
        let why = "goes not with minReplicas and maxReplicas of any subset: leave it out, or these";
        return Err(Fault::new(format!("spec.topology.subsets[{at}].replicas"), why));
    }
    Ok(subsets)
}

/// Reads the numbers of a subset.
fn asked(subset: &Subset, field: &str, replicas: i64) -> Result<Replicas, Fault> {
    let parse = |name: &str, given: &Option<IntOrString>| {
        given.as_ref().map(|given| Share::parse(&format!("{field}.{name}"), given)).transpose()
    };
    let asked = Replicas {
        share: parse("replicas", &subset.replicas)?,
        least: parse("minReplicas", &subset.min_replicas)?,
        most: parse("maxReplicas", &subset.max_replicas)?,
    };
    if let (Some(least), Some(most)) = (asked.least, asked.most) {
        let (least, most) = (least.of(replicas), most.of(replicas));
        if most < least {
            let why = format!("is {most}, less than the {least} of minReplicas: give as many at least");
            return Err(Fault::new(format!("{field}.maxReplicas"), why));
        }
    }
    Ok(asked)
}
