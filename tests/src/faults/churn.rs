//! Pods that come and go all the time, and are looked at before they go. Whatever happens to the node, each
//! of them gets ready, in its order, with every container started once, and goes away.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::site::{PATIENCE, Site, ordered};
use crate::wait::await_condition;

/// At once. More would measure the machine.
const PODS: usize = 2;
/// How long a pod stays.
const STAY: Duration = Duration::from_millis(500);
const CONTAINERS: &[&str] = &["a", "b"];

/// Goes on until it is dropped.
pub(super) struct Churn {
    log: Arc<Mutex<Log>>,
    _tasks: JoinSet<()>,
}

/// Log of the pods' outcomes.
#[derive(Default)]
struct Log {
    /// When the last pod was made of those that went well.
    well: Option<Instant>,
    pods: usize,
    wrong: Vec<String>,
}

impl Churn {
    pub(super) fn start(site: &Site) -> Self {
        let log = Arc::<Mutex<Log>>::default();
        let mut tasks = JoinSet::new();
        for slot in 0..PODS {
            let (site, log) = (site.clone(), log.clone());
            tasks.spawn(async move {
                for round in 0.. {
                    let (began, name) = (Instant::now(), format!("churn-{slot}-{round}"));
                    let outcome = one(&site, &name).await;
                    let mut log = locked(&log);
                    match outcome {
                        Ok(()) => {
                            log.well = log.well.max(Some(began));
                            log.pods += 1;
                        }
                        Err(error) => log.wrong.push(format!("{error:#}")),
                    }
                }
            });
        }
        Self { log, _tasks: tasks }
    }

    /// Waits until a pod that was made since then has come and gone, and fails with whatever went wrong since
    /// the last call.
    pub(super) async fn goes_on(&self, since: Instant) -> Result<()> {
        let went_on = await_condition("a pod comes and goes", 2 * PATIENCE, async || {
            let log = locked(&self.log);
            ensure!(log.well.is_some_and(|well| well >= since) || !log.wrong.is_empty(), "none since");
            Ok(())
        })
        .await;
        let wrong = std::mem::take(&mut locked(&self.log).wrong);
        if !wrong.is_empty() {
            bail!("pods that come and go: {}", wrong.join("; "));
        }
        went_on
    }

    /// How many came and went well.
    pub(super) fn pods(&self) -> usize {
        locked(&self.log).pods
    }
}

async fn one(site: &Site, name: &str) -> Result<()> {
    site.create(&ordered(name, CONTAINERS)).await?;
    let started = async {
        let pod = site.ready(name).await?;
        site.started_in_order(&pod, CONTAINERS).await
    }
    .await;
    sleep(STAY).await;
    site.delete(name).await?;
    started
}

fn locked(log: &Mutex<Log>) -> MutexGuard<'_, Log> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}
