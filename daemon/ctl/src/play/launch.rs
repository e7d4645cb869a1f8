//! The launch of the regular containers, pass by pass, as the kubelet's SyncPod does it.
//!
//! A pass tries every container that has not started, in spec order. A refusal (FAILED_PRECONDITION) moves on
//! to the next one; any other failure ends the launch. Probes run beside the passes, so that a held
//! CreateContainer does not keep a container from becoming ready.
//!
//! Readiness is for whoever runs the probes to know, and without a kubelet that is us: to berthd a container
//! of a played pod is ready when it runs. So a container is not tried before those above it that were started
//! have passed their probes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use berth_policy::ContainerName;
use berth_proto::cri::{ContainerState, CreateContainerRequest};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::Code;

use super::record::{LaunchMoment, Record};
use super::{Playing, hook, image, probe};
use crate::manifest::container;
use crate::manifest::types::Container;
use crate::output::progress;

/// Pause between two passes, unless a container became ready earlier.
const PAUSE: Duration = Duration::from_millis(100);
/// A CreateContainer that takes longer is worth a line.
const NOTICEABLE: Duration = Duration::from_secs(1);

/// A container that was started.
#[derive(Clone, Debug)]
pub(crate) struct Started {
    /// Its name.
    pub name: String,
    /// Its ID.
    pub id: String,
}

/// One that has not started.
struct Waiting<'a> {
    index: usize,
    spec: &'a Container,
    image_ref: String,
    refusal: Option<String>,
}

impl Waiting<'_> {
    /// Remembers why it may not start yet, and tells it once.
    fn refused(&mut self, reason: String) {
        if self.refusal.as_ref() != Some(&reason) {
            progress(&format!("{}: {reason}", self.spec.name));
            self.refusal = Some(reason);
        }
    }
}

/// Starts the containers and waits until they are ready; those started, in the order of their start.
pub(crate) async fn launch(playing: &Playing<'_>, record: &mut Record) -> Result<Vec<Started>> {
    let mut waiting = Vec::new();
    for (index, spec) in playing.manifest.pod.spec.containers.iter().enumerate() {
        record.mark(index, LaunchMoment::Pull, Instant::now());
        let image_ref = image::ensure(playing, spec).await?;
        record.mark(index, LaunchMoment::Pulled, Instant::now());
        waiting.push(Waiting { index, spec, image_ref, refusal: None });
    }
    let mut started = Vec::new();
    let mut readiness = Readiness::default();
    while !waiting.is_empty() {
        let mut refused = Vec::new();
        for mut one in waiting {
            readiness.drain(record)?;
            if let Some(reason) = readiness.above(playing, &one.spec.name) {
                one.refused(reason);
                refused.push(one);
                continue;
            }
            match attempt(playing, &mut one, record).await? {
                Some(id) => {
                    readiness.watch(playing, one.index, one.spec, &id);
                    started.push(Started { name: one.spec.name.clone(), id });
                }
                None => refused.push(one),
            }
        }
        waiting = refused;
        if !waiting.is_empty() {
            if Instant::now() > playing.deadline {
                return Err(out_of_time(playing, &waiting, &started).await);
            }
            tokio::select! {
                // Cancel-safe both: a task that has ended stays in the set until it is taken.
                () = sleep(PAUSE) => {}
                Some(done) = readiness.tasks.join_next() => readiness.note(done, record)?,
            }
        }
    }
    readiness.all(playing.deadline, record).await?;
    Ok(started)
}

/// Tries to start one container: its ID, or none when berthd refused it.
async fn attempt(
    playing: &Playing<'_>,
    one: &mut Waiting<'_>,
    record: &mut Record,
) -> Result<Option<String>> {
    let name = &one.spec.name;
    // Anew every time, as the kubelet does: the environment may refer to what has changed.
    let config =
        container::config(playing.manifest, one.spec, playing.places, &playing.facts, &one.image_ref)?;
    let request = CreateContainerRequest {
        pod_sandbox_id: playing.sandbox_id.clone(),
        config: Some(config),
        sandbox_config: Some(playing.sandbox_config.clone()),
    };
    let create = playing.cri.create(request, name);
    tokio::pin!(create);
    let answer = tokio::select! {
        answer = &mut create => answer,
        () = sleep(NOTICEABLE) => {
            progress(&format!("{name}: CreateContainer is held or takes long; waiting"));
            create.await
        }
    };
    let id = match answer {
        Ok(id) => id,
        Err(error) if error.code() == Code::FailedPrecondition => {
            record.container(one.index).refusals += 1;
            one.refused(error.status.message().to_owned());
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    let at = record.mark(one.index, LaunchMoment::Created, Instant::now());
    record.container(one.index).container_id = Some(id.clone());
    progress(&format!("{name}: created after {at} ms"));
    playing.cri.start(&id, name).await?;
    let at = record.mark(one.index, LaunchMoment::Started, Instant::now());
    progress(&format!("{name}: started after {at} ms"));
    if let Some(hook) = &one.spec.lifecycle.post_start {
        hook::post_start(playing, hook, &id, name).await?;
    }
    Ok(Some(id))
}

async fn out_of_time(playing: &Playing<'_>, waiting: &[Waiting<'_>], started: &[Started]) -> anyhow::Error {
    let mut lines: Vec<String> = waiting
        .iter()
        .map(|one| {
            format!("container {:?}: {}", one.spec.name, one.refusal.as_deref().unwrap_or("was not tried"))
        })
        .collect();
    // Why the awaited ones are not what is waited for, as far as the runtime knows.
    for one in started {
        if let Ok(status) = playing.cri.status(&one.id, &one.name).await
            && status.state() == ContainerState::ContainerExited
        {
            lines.push(format!(
                "container {:?}: ended with exit code {} ({})",
                one.name, status.exit_code, status.reason
            ));
        }
    }
    anyhow::anyhow!("not all containers have started within --timeout:\n  {}", lines.join("\n  "))
}

type Outcome = (usize, String, Result<Instant>);

/// The containers on their way to being ready.
#[derive(Default)]
struct Readiness {
    tasks: JoinSet<Outcome>,
    /// Messages of the probes of the containers that are not ready, by container.
    last: BTreeMap<String, Arc<Mutex<String>>>,
}

impl Readiness {
    fn watch(&mut self, playing: &Playing<'_>, index: usize, spec: &Container, id: &str) {
        let last = Arc::new(Mutex::new("no probe has run yet".to_owned()));
        self.last.insert(spec.name.clone(), Arc::clone(&last));
        let watch = probe::Watch {
            cri: playing.cri.clone(),
            id: id.to_owned(),
            name: spec.name.clone(),
            startup: probe::Check::new(spec.startup_probe.as_ref(), spec, &playing.facts),
            readiness: probe::Check::new(spec.readiness_probe.as_ref(), spec, &playing.facts),
            last,
        };
        let name = spec.name.clone();
        self.tasks.spawn(async move { (index, name, watch.until_ready().await) });
    }

    /// Says why this container is not tried yet: those above it that run and are not ready.
    fn above(&self, playing: &Playing<'_>, name: &str) -> Option<String> {
        let order = playing.manifest.order.as_ref()?;
        let above = order.above(order.priority(&name.into())?);
        let names: Vec<&str> = above
            .into_iter()
            .map(ContainerName::as_str)
            .filter(|name| self.last.contains_key(*name))
            .collect();
        (!names.is_empty()).then(|| format!("waiting for container(s) {} to be ready", names.join(", ")))
    }

    fn drain(&mut self, record: &mut Record) -> Result<()> {
        while let Some(done) = self.tasks.try_join_next() {
            self.note(done, record)?;
        }
        Ok(())
    }

    fn note(&mut self, done: Result<Outcome, tokio::task::JoinError>, record: &mut Record) -> Result<()> {
        let (index, name, outcome) = done.context("the task that runs the probes")?;
        let at = record.mark(index, LaunchMoment::Ready, outcome?);
        self.last.remove(&name);
        progress(&format!("{name}: ready after {at} ms"));
        Ok(())
    }

    /// Waits for the rest.
    async fn all(&mut self, deadline: Instant, record: &mut Record) -> Result<()> {
        loop {
            match timeout_at(deadline, self.tasks.join_next()).await {
                Ok(Some(done)) => self.note(done, record)?,
                Ok(None) => return Ok(()),
                Err(_) => break,
            }
        }
        let lines: Vec<String> = self
            .last
            .iter()
            .map(|(name, last)| {
                format!(
                    "container {name:?}: {}",
                    last.lock().map_or_else(|_| String::new(), |text| text.clone())
                )
            })
            .collect();
        bail!("not all containers are ready within --timeout:\n  {}", lines.join("\n  "))
    }
}
