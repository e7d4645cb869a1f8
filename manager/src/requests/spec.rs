//! Checks whether a request's spec can be carried out. Admission asks the same; it may be absent, so it is
//! asked again here.

use std::collections::HashSet;

use berth_proto::{
    crd::{ContainerRecreateRequestSpec, ContainerUpdateRequestSpec, SpecStatusContext, StatusContext},
    image::Reference,
};

/// OpenKruise's bound, which its users' manifests know.
const SHORTEST_DEADLINE: i64 = 3;

/// Spec of both kinds of requests.
pub(super) trait Spec {
    /// The pod.
    fn pod(&self) -> &str;
    /// The containers that are named.
    fn containers(&self) -> impl Iterator<Item = &str>;
    /// The end it sets itself.
    fn active_deadline_seconds(&self) -> Option<i64>;
    /// Seconds for which it is kept after its end, where the manager sees to it.
    fn kept_seconds(&self) -> Option<i32>;
    /// The instances that its containers had when it was made, where a webhook noted them.
    fn noted(&self) -> Vec<StatusContext>;
    /// Names the first fault: which field, what is wrong with it and what would be right.
    fn check(&self) -> Result<(), String>;
}

impl Spec for ContainerRecreateRequestSpec {
    fn pod(&self) -> &str {
        &self.pod_name
    }

    fn containers(&self) -> impl Iterator<Item = &str> {
        self.containers.iter().map(|container| container.name.as_str())
    }

    fn active_deadline_seconds(&self) -> Option<i64> {
        self.active_deadline_seconds
    }

    fn kept_seconds(&self) -> Option<i32> {
        self.ttl_seconds_after_finished
    }

    fn noted(&self) -> Vec<StatusContext> {
        let noted = self.containers.iter().filter_map(|container| {
            let SpecStatusContext { container_id, restart_count } = container.status_context.clone()?;
            Some(StatusContext { name: container.name.clone(), container_id, restart_count })
        });
        noted.collect()
    }

    fn check(&self) -> Result<(), String> {
        Self::check(self).map_err(|invalid| invalid.to_string())
    }
}

impl Spec for ContainerUpdateRequestSpec {
    fn pod(&self) -> &str {
        &self.pod_name
    }

    fn containers(&self) -> impl Iterator<Item = &str> {
        self.containers.iter().map(|container| container.name.as_str())
    }

    fn active_deadline_seconds(&self) -> Option<i64> {
        self.active_deadline_seconds
    }

    /// Its agent alone deletes it.
    fn kept_seconds(&self) -> Option<i32> {
        None
    }

    fn noted(&self) -> Vec<StatusContext> {
        Vec::new()
    }

    fn check(&self) -> Result<(), String> {
        pod(self)?;
        let metadata = self.metadata.clone().unwrap_or_default();
        if self.containers.is_empty() && metadata.labels.is_empty() && metadata.annotations.is_empty() {
            let remedy = "give containers with images, or metadata with labels or annotations";
            return Err(format!("spec asks for nothing: {remedy}"));
        }
        containers(self)?;
        for (index, container) in self.containers.iter().enumerate() {
            let (field, image) = (format!("spec.containers[{index}].image"), &container.image);
            if image.is_empty() {
                return Err(format!("{field} is empty: give the image that the container is to have"));
            }
            image.parse::<Reference>().map_err(|error| format!("{field} cannot be used: {error}"))?;
        }
        for (field, pairs) in [("labels", &metadata.labels), ("annotations", &metadata.annotations)] {
            if pairs.contains_key("") {
                return Err(format!("spec.metadata.{field} has an empty key: name what is to be set"));
            }
        }
        deadline(self)?;
        let grace = self.strategy.as_ref().and_then(|strategy| strategy.grace_period_seconds);
        not_negative(&[
            ("spec.ttlSecondsAfterFinished", self.ttl_seconds_after_finished.map(i64::from)),
            ("spec.strategy.gracePeriodSeconds", grace.map(i64::from)),
        ])
    }
}

fn pod(spec: &impl Spec) -> Result<(), String> {
    if spec.pod().is_empty() {
        return Err("spec.podName is empty: name a pod of this namespace".to_owned());
    }
    Ok(())
}

fn containers(spec: &impl Spec) -> Result<(), String> {
    let mut names = HashSet::new();
    for (index, name) in spec.containers().enumerate() {
        if name.is_empty() {
            return Err(format!("spec.containers[{index}].name is empty: name a container of the pod"));
        }
        if !names.insert(name) {
            return Err(format!("spec.containers[{index}].name repeats {name:?}: name each container once"));
        }
    }
    Ok(())
}

fn deadline(spec: &impl Spec) -> Result<(), String> {
    match spec.active_deadline_seconds() {
        Some(seconds) if seconds < SHORTEST_DEADLINE => Err(format!(
            "spec.activeDeadlineSeconds is {seconds}: give at least {SHORTEST_DEADLINE}, or leave it out"
        )),
        _ => Ok(()),
    }
}

fn not_negative(numbers: &[(&str, Option<i64>)]) -> Result<(), String> {
    let negative = numbers.iter().find(|(_, number)| number.is_some_and(|number| number < 0));
    match negative {
        Some((field, Some(number))) => Err(format!("{field} is {number}: give 0 or more, or leave it out")),
        _ => Ok(()),
    }
}
