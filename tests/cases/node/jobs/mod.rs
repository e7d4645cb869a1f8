//! Job sidecars: they end when the job ends, and what they exit with does not count. All by real Jobs: what
//! is to be right in the end is what the job controller counts.

mod beside;
mod codes;
mod faults;
mod several;

use anyhow::{Context, Result, ensure};
use berth_proto::cri::ContainerState;
use berth_tests::jobs::Jobs;
use berth_tests::manifest::PodManifest;
use berth_tests::observe::Seen;
use berth_tests::recreate::Evidence;
use berth_tests::wait::await_condition;
use k8s_openapi::api::events::v1::Event;
use kube::{Api, ResourceExt};

use crate::case::{Case, PATIENCE, container};

/// Time that a sidecar costs that does not listen, in seconds.
const GRACE: i64 = 3;
/// Grace that is far more than sidecars that listen take for their hooks and their ends, in seconds.
const LISTENS: i64 = 60;
/// The reason of the Events.
const REASON: &str = "SidecarTerminator";

/// The Jobs of a test.
pub(crate) struct Scene<'a> {
    case: &'a Case,
    jobs: Jobs,
}

/// Outcome that is expected of a Job that makes one pod.
struct Outcome<'a> {
    job: &'a str,
    succeeds: bool,
    /// Exit code that each container shows in the end.
    codes: &'a [(&'a str, i32)],
    /// Containers that the kubelet may start more than once.
    restarted: &'a [&'a str],
}

impl<'a> Scene<'a> {
    async fn begin(case: &'a Case) -> Result<Self> {
        Ok(Self { case, jobs: Jobs::watch(&case.node.client().await?, &case.namespace).await? })
    }

    /// A pod for a Job, whose containers can leave evidence.
    fn pod(&self, job: &str, policy: &str) -> Result<(PodManifest, Evidence)> {
        let evidence = Evidence::new(self.case.node.run(), &self.case.namespace, job)?;
        let pod = self.case.manifest(job).spec("restartPolicy", policy).grace(GRACE);
        Ok((evidence.mount(pod), evidence))
    }

    /// Waits for the end of a Job, and looks at the whole way there.
    async fn judge(&self, wanted: &Outcome<'_>) -> Result<Seen> {
        self.judged(wanted).await.with_context(|| format!("Job {}", wanted.job))
    }

    async fn judged(&self, wanted: &Outcome<'_>) -> Result<Seen> {
        let status = self.jobs.over(wanted.job).await?;
        let counted = (status.succeeded.unwrap_or(0), status.failed.unwrap_or(0));
        let expected = if wanted.succeeds { (1, 0) } else { (0, 1) };
        ensure!(counted == expected, "(succeeded, failed) = {counted:?}");
        let seen = self.jobs.pod_of(wanted.job)?;
        let (ended_at, phase) = seen.ended()?;
        ensure!(phase == if wanted.succeeds { "Succeeded" } else { "Failed" }, "the pod has {phase}");
        shows(&seen, wanted.codes)?;
        self.nothing_ran_after(&seen, ended_at).await?;
        for (name, restarts) in
            seen.restarts.iter().filter(|(name, _)| !wanted.restarted.contains(&name.as_str()))
        {
            ensure!(*restarts == 0, "{name} was restarted");
        }
        Ok(seen)
    }

    /// By the runtime's own words: at this time all containers were down, none was started since, and there
    /// is no instance but those that the pod shows.
    async fn nothing_ran_after(&self, seen: &Seen, ended_at: i64) -> Result<()> {
        let instances = self.case.cri.containers(&self.case.namespace, &seen.last.name_any()).await?;
        ensure!(!instances.is_empty(), "the runtime has no containers of the pod any more");
        for instance in &instances {
            let down = instance.state == ContainerState::ContainerExited && instance.finished_at <= ended_at;
            ensure!(down, "the pod was over at {ended_at}: {instance:?}");
            let restarts = seen.restarts.get(&instance.name).copied().unwrap_or(0);
            ensure!(i64::from(instance.attempt) <= i64::from(restarts), "{restarts} restarts: {instance:?}");
        }
        Ok(())
    }

    /// Lists the Events that were written about a pod.
    async fn events(&self, pod: &str) -> Result<Vec<Event>> {
        let events: Api<Event> = Api::namespaced(self.case.node.client().await?, &self.case.namespace);
        let all = events.list(&Default::default()).await.context("list Events")?.items;
        let about = |event: &Event| event.regarding.as_ref().and_then(|regarding| regarding.name.clone());
        let wanted =
            |event: &Event| event.reason.as_deref() == Some(REASON) && about(event).as_deref() == Some(pod);
        Ok(all.into_iter().filter(wanted).collect())
    }

    /// There is one Event for each of these sidecars, as for something that went well.
    async fn told(&self, seen: &Seen, sidecars: &[&str]) -> Result<()> {
        let pod = seen.last.name_any();
        // berthd says so beside its work; the Job does not wait for that.
        let events = await_condition(format!("the ends in {pod} are told"), PATIENCE, async || {
            let events = self.events(&pod).await?;
            ensure!(events.len() >= sidecars.len(), "{events:?}");
            Ok(events)
        })
        .await?;
        ensure!(events.iter().all(|event| event.type_.as_deref() == Some("Normal")), "{events:?}");
        for name in sidecars {
            let end = format!("terminating sidecar {name}");
            let of =
                events.iter().filter(|event| event.note.as_ref().is_some_and(|note| note.ends_with(&end)));
            ensure!(of.count() == 1, "{name}: {events:?}");
        }
        ensure!(events.len() == sidecars.len(), "{events:?}");
        Ok(())
    }
}

/// The pod's status shows that its containers exited with these codes, and with the reason that goes with
/// each.
fn shows(seen: &Seen, codes: &[(&str, i32)]) -> Result<()> {
    for (name, code) in codes {
        let status = container(&seen.last, name)?;
        let state = status.state.as_ref().and_then(|state| state.terminated.as_ref());
        let state = state.with_context(|| format!("{name} has not ended: {:?}", status.state))?;
        let reason = if *code == 0 { "Completed" } else { "Error" };
        let right = state.exit_code == *code && state.reason.as_deref() == Some(reason);
        ensure!(right, "{name} shows {} {:?}, not {code}", state.exit_code, state.reason);
    }
    Ok(())
}
