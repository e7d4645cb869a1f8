//! Foresight: order and ends that a pod declares, before anything of it is there. For people; it decides
//! nothing, and reads the declarations as the decisions do.

use crate::{
    job_sidecars::is_job,
    model::{ContainerName, Pod},
};

/// Order and ends of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Foreseen {
    /// Levels of the launch, the first to start first; empty without an order that can be followed.
    pub launch: Vec<Level>,
    /// Containers that end with the job of the pod, in the order of the spec.
    pub job_sidecars: Vec<ContainerName>,
    /// Containers that are to end with it and cannot, as the kubelet starts them again; in the order of the
    /// spec.
    pub endless: Vec<ContainerName>,
    /// Containers whose end is that of the job; empty where nothing ends with it.
    pub mains: Vec<ContainerName>,
}

/// Containers of one launch priority: they start together, and stop together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// The priority.
    pub priority: i32,
    /// Their names, in the order of the spec.
    pub containers: Vec<ContainerName>,
}

impl Foreseen {
    /// Levels in the order in which they stop when the whole pod ends.
    pub fn exit(&self) -> impl Iterator<Item = &Level> {
        self.launch.iter().rev()
    }
}

/// Reads a pod that is not there yet.
pub fn foresee(pod: &Pod) -> Foreseen {
    let mut foreseen = Foreseen::default();
    if let Ok(Some(order)) = &pod.order {
        for (name, priority) in order.launch_sequence() {
            match foreseen.launch.last_mut().filter(|level| level.priority == priority) {
                Some(level) => level.containers.push(name.clone()),
                None => foreseen.launch.push(Level { priority, containers: vec![name.clone()] }),
            }
        }
    }
    if is_job(pod) {
        let mut regular: Vec<_> = pod.containers.iter().filter(|(_, spec)| !spec.sidecar).collect();
        regular.sort_by_key(|(_, spec)| spec.position);
        for (name, spec) in regular {
            let side = match (spec.ends_with_job, pod.restarts_completed(name)) {
                (true, false) => &mut foreseen.job_sidecars,
                (true, true) => &mut foreseen.endless,
                (false, _) => &mut foreseen.mains,
            };
            side.push(name.clone());
        }
        if foreseen.job_sidecars.is_empty() {
            foreseen.mains.clear();
        }
    }
    foreseen
}
