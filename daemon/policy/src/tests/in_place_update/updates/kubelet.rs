//! The kubelet of a play: what it stops and starts, lists and says.

use super::play::Play;
use crate::{ContainerName, in_place_update::Life};

impl Play {
    /// The kubelet syncs one container; an instance that it replaces stays, exited.
    pub(super) fn kubelet_syncs(&mut self, index: usize) {
        let before = self.world.containers[index].instance.id.clone();
        self.world.kubelet_syncs(index);
        let container = &self.world.containers[index];
        if container.instance.id != before {
            self.exited.entry(container.name.clone()).or_default().insert(before);
        }
        self.seq += 1;
    }

    pub(super) fn relists(&mut self) {
        self.seq += 1;
        self.relisted = Some(self.seq);
    }

    /// The kubelet writes the status of a container, if it has changed.
    pub(super) fn kubelet_reports(&mut self, index: usize) {
        let instance = &self.world.containers[index].instance;
        let mut status = self.statuses[index].clone();
        status.runs = matches!(instance.life, Life::Running { .. });
        if status.runs {
            status.id = Some(instance.id.clone());
            status.restarts = instance.restarts;
        }
        status.ready = instance.life == Life::Running { ready: true };
        status.backs_off = instance.life == Life::Crashing;
        let observed = self.world.known_version();
        if status != self.statuses[index] || observed != self.observed {
            self.statuses[index] = status;
            self.observed = observed;
            self.number += 1;
        }
    }

    /// Whether the kubelet has said that the newest instance is Ready.
    pub(super) fn is_said_ready(&self, name: &ContainerName) -> bool {
        let mut containers = self.world.containers.iter().zip(&self.statuses);
        containers.any(|(container, status)| {
            container.name == *name && status.ready && status.id.as_ref() == Some(&container.instance.id)
        })
    }

    /// The kubelet has written which version of the pod it works on, and it is the present one.
    pub(super) fn is_worked_on(&self) -> bool {
        self.observed == self.world.version
    }
}
