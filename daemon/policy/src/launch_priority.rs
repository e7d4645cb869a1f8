//! Launch priorities: from what a pod declares to an order of its containers.
//!
//! The inputs are OpenKruise's. The env [`PRIORITY_ENV`] of a container is an integer: higher starts first,
//! missing = 0. The pod annotation [`ORDERED_ANNOTATION`] with the value `Ordered` overrides it, and gives
//! the priorities 0, -1, -2 … by list index. Only regular containers take part, and a pod with one of them
//! has nothing to order. Otherwise a value that is no such integer is refused, never ignored.

use std::collections::BTreeSet;

use crate::model::ContainerName;

/// Pod annotation; its only value is `Ordered`.
pub const ORDERED_ANNOTATION: &str = "apps.kruise.io/container-launch-priority";
/// Container env with the launch priority.
pub const PRIORITY_ENV: &str = "KRUISE_CONTAINER_PRIORITY";
/// Sandbox annotation of pods played without a kubelet: a JSON map from container name to priority.
pub const PLAN_ANNOTATION: &str = "berth.dev/container-launch-plan";
/// The largest priority; the smallest is its negative.
pub const MAX_PRIORITY: i32 = i32::MAX;

/// The regular containers of a pod with their launch priorities, at least two of them different.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchOrder {
    /// In spec order where that is known, by name otherwise.
    containers: Vec<(ContainerName, i32)>,
}

/// The value of [`PRIORITY_ENV`] in a container spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnvValue<'a> {
    /// `value: "…"`.
    Plain(&'a str),
    /// `valueFrom: …`: not known before the container is created.
    ValueFrom,
}

/// A declared order that cannot be followed. `Display` names the field, the value and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// The env is not an integer.
    #[error(
        "env {PRIORITY_ENV} of container {container:?} is {value:?}, not an integer from -{MAX_PRIORITY} to {MAX_PRIORITY}; correct it and create the pod anew"
    )]
    NotAPriority {
        /// The container that has it.
        container: ContainerName,
        /// Value of the env.
        value: String,
    },
    /// The env comes from somewhere else.
    #[error(
        "env {PRIORITY_ENV} of container {container:?} uses valueFrom; give it a plain value and create the pod anew"
    )]
    ValueFrom {
        /// The container that has it.
        container: ContainerName,
    },
    /// The annotation has another value than `Ordered`.
    #[error("annotation {ORDERED_ANNOTATION} is {value:?}; its only value is \"Ordered\"")]
    NotOrdered {
        /// Value of the annotation.
        value: String,
    },
    /// The plan is not a JSON map from name to integer.
    #[error("annotation {PLAN_ANNOTATION} is not a JSON map from container name to integer: {reason}")]
    MalformedPlan {
        /// Error of the JSON parser.
        reason: String,
    },
    /// A priority in the plan is out of range.
    #[error(
        "annotation {PLAN_ANNOTATION} gives container {container:?} the priority {value}, not one from -{MAX_PRIORITY} to {MAX_PRIORITY}"
    )]
    PlanOutOfRange {
        /// The container.
        container: ContainerName,
        /// Priority that the plan gives.
        value: i64,
    },
}

impl LaunchOrder {
    /// The order a pod spec declares: `annotation` is the value of [`ORDERED_ANNOTATION`], `containers` the
    /// regular containers in spec order with their [`PRIORITY_ENV`]. `None` when no two containers differ.
    pub fn declared<'a>(
        annotation: Option<&str>,
        containers: impl IntoIterator<Item = (&'a str, Option<EnvValue<'a>>)>,
    ) -> Result<Option<Self>, OrderError> {
        let containers: Vec<_> = containers.into_iter().collect();
        if containers.len() < 2 {
            return Ok(None);
        }
        let containers = containers.into_iter();
        match annotation {
            Some("Ordered") => Ok(Self::of(
                containers.zip(0_i32..).map(|((name, _), index)| (name.into(), -index)).collect(),
            )),
            Some(value) => Err(OrderError::NotOrdered { value: value.to_owned() }),
            None => Ok(Self::of(
                containers
                    .map(|(name, env)| Ok((name.into(), priority(name, env)?)))
                    .collect::<Result<_, _>>()?,
            )),
        }
    }

    /// The order of a plan annotation, already read as JSON.
    pub fn planned(
        entries: impl IntoIterator<Item = (ContainerName, i64)>,
    ) -> Result<Option<Self>, OrderError> {
        entries
            .into_iter()
            .map(|(container, value)| match in_range(value) {
                Some(priority) => Ok((container, priority)),
                None => Err(OrderError::PlanOutOfRange { container, value }),
            })
            .collect::<Result<_, _>>()
            .map(Self::of)
    }

    fn of(containers: Vec<(ContainerName, i32)>) -> Option<Self> {
        let levels: BTreeSet<i32> = containers.iter().map(|(_, priority)| *priority).collect();
        (levels.len() > 1).then_some(Self { containers })
    }

    /// The launch priority of a regular container; `None` for init and ephemeral ones, which have none.
    pub fn priority(&self, name: &ContainerName) -> Option<i32> {
        self.containers.iter().find(|(other, _)| other == name).map(|(_, priority)| *priority)
    }

    /// Finds where the container stands in the spec.
    pub fn index(&self, name: &ContainerName) -> Option<usize> {
        self.containers.iter().position(|(other, _)| other == name)
    }

    /// The containers that start before those of `priority`, highest first.
    pub fn above(&self, priority: i32) -> Vec<&ContainerName> {
        self.launch_sequence().take_while(|(_, other)| *other > priority).map(|(name, _)| name).collect()
    }

    /// The containers that stop before those of `priority`, lowest last.
    pub fn below(&self, priority: i32) -> Vec<&ContainerName> {
        self.launch_sequence().skip_while(|(_, other)| *other >= priority).map(|(name, _)| name).collect()
    }

    /// All containers in the order of their launch: highest priority first, spec order within one.
    pub fn launch_sequence(&self) -> impl Iterator<Item = (&ContainerName, i32)> {
        let mut sorted: Vec<_> = self.containers.iter().map(|(name, priority)| (name, *priority)).collect();
        sorted.sort_by_key(|(_, priority)| std::cmp::Reverse(*priority));
        sorted.into_iter()
    }
}

fn priority(name: &str, env: Option<EnvValue<'_>>) -> Result<i32, OrderError> {
    match env {
        None => Ok(0),
        Some(EnvValue::ValueFrom) => Err(OrderError::ValueFrom { container: name.into() }),
        Some(EnvValue::Plain(value)) => value
            .parse::<i64>()
            .ok()
            .and_then(in_range)
            .ok_or_else(|| OrderError::NotAPriority { container: name.into(), value: value.to_owned() }),
    }
}

fn in_range(value: i64) -> Option<i32> {
    i32::try_from(value).ok().filter(|value| *value >= -MAX_PRIORITY)
}
