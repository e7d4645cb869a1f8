//! Earlier sandboxes of a pod, in whose place the kubelet has put another one: its sandbox died, or the node
//! was started anew.
//!
//! Launch levels begin anew in the next sandbox. Under `OnFailure` the kubelet does not start in it what has
//! succeeded before (`computePodActions`), so nobody there is to wait for that. What happened in an earlier
//! sandbox may have told nobody, and a list has no exit codes: the runtime is asked before anything is
//! decided by it.

use std::collections::BTreeSet;

use crate::{
    call::Call,
    instances::newest_of,
    model::{Container, ContainerName, ContainerState, Pod, RestartPolicy, SandboxId},
    node::Node,
    sandbox::Sandbox,
};

impl Node {
    /// The containers of this pod that have succeeded before this sandbox, and are not started in it. `None`:
    /// the runtime has not said yet since this call came.
    pub(crate) fn succeeded_before<'a>(
        &'a self,
        call: &Call,
        pod: &'a Pod,
        current: &'a SandboxId,
    ) -> Option<BTreeSet<&'a ContainerName>> {
        if self.untold_before(pod, current).any(|(_, sandbox)| !self.inspected_since(call, sandbox)) {
            return None;
        }
        let newest = newest_of(self.earlier(pod, current), |_| true);
        let has_succeeded = |name: &ContainerName, container: &Container| {
            let ContainerState::Exited { code } = container.state else { return false };
            // So the kubelet is shown a job sidecar that was ended.
            let code = if self.is_completed(&container.id) { Some(0) } else { code };
            code == Some(0) && pod.leaves_exited(name, &container.id, code)
        };
        let succeeded = newest.into_iter().filter(|(name, (_, one))| has_succeeded(name, &one.container));
        Some(succeeded.map(|(name, _)| name).collect())
    }

    /// The earlier sandboxes with a container of which it is not known that it has exited, and how.
    pub(crate) fn untold_before<'a>(
        &'a self,
        pod: &'a Pod,
        current: &'a SandboxId,
    ) -> impl Iterator<Item = (&'a SandboxId, &'a Sandbox)> {
        let is_told = |state| matches!(state, ContainerState::Exited { code: Some(_) });
        self.earlier(pod, current).filter(move |(_, sandbox)| {
            sandbox.instances.values().any(|instance| !is_told(instance.container.state))
        })
    }

    /// The other sandboxes of a pod. Under another policy all that was there is started again, or no sandbox
    /// is made.
    fn earlier<'a>(
        &'a self,
        pod: &'a Pod,
        current: &'a SandboxId,
    ) -> impl Iterator<Item = (&'a SandboxId, &'a Sandbox)> {
        let sandboxes = (pod.restart_policy == RestartPolicy::OnFailure).then_some(&self.sandboxes);
        let is_earlier =
            move |id: &SandboxId, sandbox: &Sandbox| *id != *current && sandbox.pod.uid == pod.pod.uid;
        sandboxes.into_iter().flatten().filter(move |(id, sandbox)| is_earlier(id, sandbox))
    }
}
