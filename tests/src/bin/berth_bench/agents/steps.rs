//! Steps of an entry: those of an agent, and of the kubelet that it waits for.

use super::*;

/// Outcome of a step.
enum After {
    /// The pod is so now.
    Shown(Value),
    /// There was nothing to do: something else has to happen first.
    Nothing,
    /// A write to the pod was not taken.
    Untaken,
    /// A report was not taken, and the pod is as it was.
    Unsaid(Value),
    /// The entry has ended.
    Ended,
}

impl Shared {
    /// Brings a pod to what an entry wants of it, all but the word that it is there; the pod as it is then.
    pub(super) async fn bring(&self, agent: &SimulatedAgent, entry: &DesiredPod) -> Option<Value> {
        let pod = self.steps(agent, entry, None, is_through).await?;
        let Upgrade::Sidecars = self.upgrade else { return Some(pod) };
        // Kept where containers have env from metadata, as sidecars may.
        let image = entry.containers.first().map(|one| one.image.clone()).unwrap_or_default();
        let meta = json!({ "containers": [{ "name": "log", "restartCount": 1, "image": image }] });
        let meta = json!({ "metadata": { "annotations": {
            "apps.kruise.io/runtime-containers-meta": meta.to_string() } } });
        Some(self.write(&self.pods(entry), &entry.name, "", &Patch::Merge(meta)).await.unwrap_or(pod))
    }

    /// Says that the entry has ended, which is all that is left.
    pub(super) async fn end(&self, agent: &SimulatedAgent, entry: DesiredPod, pod: Value) {
        self.steps(agent, &entry, Some(pod), |_, _| false).await;
    }

    /// Takes steps until the pod is as it should be: the pod then. `None`: the entry has ended before. Almost
    /// all writes to the pod are made here, so it is as the newest one was answered, and is read only where
    /// that is not known: an agent has a watch, which would cost the API server less than polls do.
    async fn steps(
        &self,
        agent: &SimulatedAgent,
        entry: &DesiredPod,
        mut known: Option<Value>,
        is_there: impl Fn(&Value, &DesiredPod) -> bool,
    ) -> Option<Value> {
        let pods = self.pods(entry);
        let mut in_vain = 0;
        loop {
            let pod = match known.take() {
                Some(pod) => pod,
                None => self.look(&pods, &entry.name).await?,
            };
            if is_there(&pod, entry) {
                return Some(pod);
            }
            match self.step(agent, entry, &pods, pod).await {
                After::Ended => return None,
                After::Unsaid(pod) => {
                    known = Some(pod);
                    in_vain = again(in_vain).await;
                    agent.renew().await;
                }
                After::Shown(pod) => (known, in_vain) = (Some(pod), 0),
                After::Nothing => {
                    let pause = PAUSE.saturating_mul(1 << in_vain.min(4));
                    in_vain += 1;
                    tokio::time::sleep(pause).await;
                }
                After::Untaken => in_vain = again(in_vain).await,
            }
        }
    }

    /// Takes one step of an agent, or of a kubelet that it waits for.
    async fn step(
        &self,
        agent: &SimulatedAgent,
        entry: &DesiredPod,
        pods: &Api<DynamicObject>,
        pod: Value,
    ) -> After {
        let shown = |written: Option<Value>| written.map_or(After::Untaken, After::Shown);
        match agent.next(entry, pod.clone()).await {
            Ok(SimulatedStep::Patch(body)) => {
                shown(self.write(pods, &entry.name, "", &Patch::Strategic(body)).await)
            }
            Ok(SimulatedStep::PatchStatus(body)) => {
                let opens = body["status"]["conditions"][0]["status"] == "True";
                let written = self.write(pods, &entry.name, "status", &Patch::Strategic(body)).await;
                if opens {
                    let ready =
                        json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
                    return shown(self.show_status(pods, &entry.name, ready).await);
                }
                shown(written)
            }
            Ok(SimulatedStep::Wait) => match restarted(&pod) {
                Some(statuses) => {
                    tokio::time::sleep(RESTART).await;
                    let status = json!({ "status": { "containerStatuses": statuses } });
                    shown(self.show_status(pods, &entry.name, status).await)
                }
                None => After::Nothing,
            },
            Ok(SimulatedStep::Unsaid) => After::Unsaid(pod),
            Ok(SimulatedStep::Ended) => After::Ended,
            Err(error) => {
                eprintln!("pod {}: {error}", entry.name);
                After::Ended
            }
        }
    }

    fn pods(&self, entry: &DesiredPod) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&());
        Api::namespaced_with(self.client.clone(), &entry.namespace, &resource)
    }

    /// The pod as it is now; `None` when it is gone.
    async fn look(&self, pods: &Api<DynamicObject>, name: &str) -> Option<Value> {
        let _turn = self.looks.acquire().await.ok()?;
        loop {
            match pods.get_opt(name).await {
                Ok(pod) => return pod.and_then(|pod| serde_json::to_value(pod).ok()),
                Err(error) => eprintln!("a pod was not read: {error}"),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// A kubelet's status, until it is taken: the pod as it is then.
    async fn show_status(&self, pods: &Api<DynamicObject>, name: &str, status: Value) -> Option<Value> {
        let status = Patch::Strategic(status);
        loop {
            match pods.patch_status(name, &PatchParams::default(), &status).await {
                Ok(pod) => return serde_json::to_value(pod).ok(),
                Err(error) => eprintln!("a kubelet's status failed: {error}"),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// A write of an agent to a pod, which is counted: the pod as it is then. One that is not taken is
    /// decided anew.
    async fn write(
        &self,
        pods: &Api<DynamicObject>,
        name: &str,
        part: &str,
        patch: &Patch<Value>,
    ) -> Option<Value> {
        let params = PatchParams::default();
        let written = match part {
            "" => pods.patch(name, &params, patch).await,
            part => pods.patch_subresource(part, name, &params, patch).await,
        };
        match written {
            Ok(pod) => {
                self.writes.fetch_add(1, Ordering::Relaxed);
                serde_json::to_value(pod).ok()
            }
            Err(error) => {
                eprintln!("an agent's write failed: {error}");
                None
            }
        }
    }
}

/// Waits as the agent does after so many failures in a row, and counts one more.
async fn again(failures: usize) -> usize {
    tokio::time::sleep(API_PAUSES[failures.min(API_PAUSES.len() - 1)]).await;
    failures + 1
}
