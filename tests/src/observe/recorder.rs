//! Writes down what happens to a pod's containers while a test goes on. The kubelet removes containers soon
//! after their pod is gone, and with them the times that a test of an exit order is about.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use berth_proto::cri::ContainerState;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::cri::{Cri, Instance};

/// Short against the second or more between a container's end and its removal.
const POLL: Duration = Duration::from_millis(20);

type Seen = Arc<Mutex<BTreeMap<String, Instance>>>;

/// Watches one pod until it is told to stop.
#[derive(Debug)]
pub struct Recorder {
    seen: Seen,
    stop: watch::Sender<bool>,
    task: JoinHandle<Result<()>>,
}

impl Recorder {
    /// Begins to watch; the pod need not exist yet.
    pub fn watch(cri: &Cri, namespace: &str, pod: &str) -> Self {
        let seen = Seen::default();
        let (stop, stopped) = watch::channel(false);
        let task =
            tokio::spawn(record(cri.clone(), namespace.to_owned(), pod.to_owned(), seen.clone(), stopped));
        Self { seen, stop, task }
    }

    /// Returns the history of everything seen until now.
    pub fn so_far(&self) -> History {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut instances: Vec<_> = seen.values().cloned().collect();
        instances.sort_by_key(|instance| instance.created_at);
        History { instances }
    }

    /// Ends watching, after one more look.
    pub async fn finish(self) -> Result<History> {
        self.stop.send(true).map_err(|_| anyhow!("the recorder ended early"))?;
        let Self { seen, task, .. } = self;
        task.await.context("recorder")??;
        let mut instances: Vec<_> =
            seen.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        instances.sort_by_key(|instance| instance.created_at);
        Ok(History { instances })
    }
}

/// A pod's containers, in the order in which they were created.
#[derive(Clone, Debug)]
pub struct History {
    /// Every instance that was seen, in its last state.
    pub instances: Vec<Instance>,
}

impl History {
    /// The instances of a name, oldest first.
    pub fn of(&self, name: &str) -> Vec<&Instance> {
        self.instances.iter().filter(|instance| instance.name == name).collect()
    }

    /// When the first instance of a name was started.
    pub fn started(&self, name: &str) -> Result<i64> {
        let first = *self.of(name).first().with_context(|| format!("{name} was never created"))?;
        ensure!(first.started_at != 0, "{name} was never started: {first:?}");
        Ok(first.started_at)
    }

    /// When the last instance of a name ended.
    pub fn finished(&self, name: &str) -> Result<i64> {
        let last = *self.of(name).last().with_context(|| format!("{name} was never created"))?;
        ensure!(last.finished_at != 0, "{name} was not seen to end: {last:?}");
        Ok(last.finished_at)
    }

    /// Fails unless each name was started at least `apart` after the one before it.
    pub fn check_start_order(&self, names: &[&str], apart: Duration) -> Result<()> {
        let starts = names.iter().map(|name| self.started(name)).collect::<Result<Vec<_>>>()?;
        check_apart("was started", names, &starts, apart)
    }

    /// Fails unless each name ended at least `apart` after the one before it.
    pub fn check_exit_order(&self, names: &[&str], apart: Duration) -> Result<()> {
        let ends = names.iter().map(|name| self.finished(name)).collect::<Result<Vec<_>>>()?;
        check_apart("ended", names, &ends, apart)
    }
}

/// Fails unless each of these happened at least `apart` after the one before it.
pub(crate) fn check_apart(what: &str, names: &[&str], times: &[i64], apart: Duration) -> Result<()> {
    let apart = i64::try_from(apart.as_nanos()).context("time between two events")?;
    for (pair, gap) in names.windows(2).zip(times.windows(2).map(|pair| pair[1] - pair[0])) {
        let (before, after, ms) = (pair[0], pair[1], gap / 1_000_000);
        ensure!(
            gap > 0 && gap >= apart,
            "{after} {what} {ms} ms after {before}, not {} ms",
            apart / 1_000_000
        );
    }
    Ok(())
}

/// Errors are kept and not fatal: a test may restart the runtime. The last look must have worked, though.
async fn record(
    cri: Cri,
    namespace: String,
    pod: String,
    seen: Seen,
    mut stopped: watch::Receiver<bool>,
) -> Result<()> {
    loop {
        let last = *stopped.borrow();
        let looked = look(&cri, &namespace, &pod, &seen).await;
        if last {
            return looked;
        }
        // Either way the next thing to do is to look; a sender that is gone counts as being told to stop.
        if let Ok(Err(_)) = tokio::time::timeout(POLL, stopped.wait_for(|stop| *stop)).await {
            return looked;
        }
    }
}

async fn look(cri: &Cri, namespace: &str, pod: &str, seen: &Seen) -> Result<()> {
    for (id, state) in cri.states(namespace, pod).await? {
        let known =
            seen.lock().unwrap_or_else(PoisonError::into_inner).get(&id).map(|instance| instance.state);
        if known == Some(state) {
            continue;
        }
        if let Some(instance) = cri.container(&id).await? {
            // An exit whose end is not yet written is looked at again next time.
            if instance.state == ContainerState::ContainerExited && instance.finished_at == 0 {
                continue;
            }
            seen.lock().unwrap_or_else(PoisonError::into_inner).insert(id, instance);
        }
    }
    Ok(())
}
