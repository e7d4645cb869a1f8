//! Whole updates, from the first step to the last.

use super::*;

impl World {
    /// Everything the kubelet has to do, but for the containers that fall over with these images.
    pub(in crate::tests::in_place_update) fn settle(&mut self, bad: &[&str]) {
        self.kubelet_learns();
        for index in 0..self.containers.len() {
            for _ in 0..3 {
                self.kubelet_syncs(index);
            }
            if !bad.contains(&&*self.containers[index].runs) {
                self.becomes_ready(index);
            }
        }
    }

    /// Asks and carries out until the end, and returns it with the steps before it.
    pub(in crate::tests::in_place_update) fn play(
        &mut self,
        update: &Update,
        bad: &[&str],
    ) -> (Vec<Next>, Next) {
        let mut steps = Vec::new();
        for _ in 0..100 {
            let step = self.next(update);
            match &step {
                Next::Done | Next::Failed(_) | Next::RollBack(..) => return (steps, step),
                Next::Wait { until, .. } => {
                    self.settle(bad);
                    if self.next(update) == step {
                        self.now = until.expect("waits for ever").max(self.now);
                    }
                    continue;
                }
                Next::Recreate(_) => {
                    assert!(self.carry_out(&step, self.version));
                    self.settle(bad);
                }
                _ => assert!(self.carry_out(&step, self.version)),
            }
            self.wall += 10;
            steps.push(step);
        }
        panic!("never ends: {steps:#?}");
    }

    /// Restarts by container, in spec order.
    pub(in crate::tests::in_place_update) fn restarts(&self) -> Vec<u32> {
        self.containers.iter().map(|container| container.restarted).collect()
    }

    /// The pod is exactly what `update` wants, and so is what runs.
    pub(in crate::tests::in_place_update) fn is_what_is_wanted(&self, update: &Update) {
        for container in &self.containers {
            if let Some(image) = update.images.get(&container.name) {
                assert_eq!(container.image, *image, "{}", container.name);
            }
            assert_eq!(container.runs, container.image, "{}", container.name);
            assert_eq!(container.instance.life, Life::Running { ready: true }, "{}", container.name);
            assert_eq!(
                container.instance.env,
                Some(env(&container.reads, &self.metadata)),
                "{}",
                container.name
            );
        }
        for (key, value) in &update.metadata {
            assert_eq!(self.metadata.get(key), Some(value));
        }
        assert!(!matches!(self.gate, Gate::NotReady { .. }));
        if let Some(record) = &self.record {
            assert_eq!(record.revision, update.revision);
            assert!(record.next_container_images.is_empty() && record.next_container_ref_metadata.is_empty());
            assert!(record.containers_required_ready.is_empty());
        }
    }
}
