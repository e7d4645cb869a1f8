//! Parts of a swap: what the versions themselves take of it, by the log of the server and by the runtime.

use anyhow::{Context, Result};
use futures::{AsyncBufReadExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::LogParams;
use tokio::task::JoinHandle;

use super::{ACCEPTS, TOLD_TO_END, TWINS, web};
use crate::observe::{History, Instance};

const SECOND: f64 = 1e9;

/// Logs of the instances of both twins that run before a swap: both end in it, and leave nothing behind.
#[derive(Debug)]
pub struct Endings([JoinHandle<Result<i64>>; 2]);

impl Endings {
    /// Begins to follow them.
    pub fn follow(pods: &Api<Pod>, pod: &str) -> Self {
        let follow = |twin: &'static str| {
            let (pods, pod) = (pods.clone(), pod.to_owned());
            tokio::spawn(async move {
                let params = LogParams { follow: true, ..params(twin) };
                let mut lines = pods.log_stream(&pod, &params).await.context("follow a log")?.lines();
                let mut log = String::new();
                while let Some(line) = lines.try_next().await.context("follow a log")? {
                    log.push_str(&line);
                    log.push('\n');
                }
                said(&log, twin, TOLD_TO_END)
            })
        };
        Self(TWINS.map(follow))
    }
}

/// Times of a swap that has ended, in seconds. `migration`, `drain` and `stop` are the versions' own.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    /// Edit of the set until the empty image was told to end.
    pub asked: f64,
    /// From there to its end.
    pub stop: f64,
    /// From there to the start of the new version.
    pub start: f64,
    /// From there until connections came to the new version.
    pub migration: f64,
    /// From there until the old version was told to end: the end of the hook, the second patch, the relist.
    pub turn: f64,
    /// From there to its end.
    pub drain: f64,
    /// From there until the pod showed that it was over.
    pub shown: f64,
}

impl Parts {
    /// Reads the parts of a swap to this version, from its edit until it was seen to be over (by the clock of
    /// this machine, in nanoseconds). `endings` began to follow before the edit.
    pub async fn read(
        (pods, pod): (&Api<Pod>, &Pod),
        tag: &str,
        times: (i64, i64),
        endings: Endings,
        history: &History,
    ) -> Result<Self> {
        let name = pod.metadata.name.as_deref().context("no name")?;
        let mut containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        let target = containers.find(|one| one.image.as_deref() == Some(&*web(tag)));
        let target = &*target.context("no twin has the version")?.name;
        let Endings([first, second]) = endings;
        let told = [first.await.context("a log")??, second.await.context("a log")??];
        let (old, empty_told, old_told) =
            if target == TWINS[0] { (TWINS[1], told[0], told[1]) } else { (TWINS[0], told[1], told[0]) };
        let new = newest(history, target, |one| one.finished_at == 0)?;
        let empty = newest(history, target, |one| one.finished_at != 0)?;
        let ended = newest(history, old, |one| one.finished_at != 0)?;
        let log = pods.logs(name, &params(target)).await.with_context(|| format!("log of {target}"))?;
        let accepts = said(&log, target, ACCEPTS)?;
        let between = |from: i64, to: i64| (to - from) as f64 / SECOND;
        Ok(Self {
            asked: between(times.0, empty_told),
            stop: between(empty_told, empty.finished_at),
            start: between(empty.finished_at, new.started_at),
            migration: between(new.started_at, accepts),
            turn: between(accepts, old_told),
            drain: between(old_told, ended.finished_at),
            shown: between(ended.finished_at, times.1),
        })
    }

    /// Sum of all that is not the versions' own.
    pub fn beyond(&self) -> f64 {
        self.asked + self.start + self.turn + self.shown
    }
}

fn newest<'a>(history: &'a History, name: &str, is_it: fn(&Instance) -> bool) -> Result<&'a Instance> {
    let of_it = history.of(name).into_iter().filter(|one| is_it(one));
    of_it.max_by_key(|one| one.created_at).with_context(|| format!("no such instance of {name}: {history:?}"))
}

fn params(twin: &str) -> LogParams {
    LogParams { container: Some(twin.to_owned()), timestamps: true, ..LogParams::default() }
}

/// When a twin said this last, in nanoseconds since the epoch.
fn said(log: &str, twin: &str, line: &str) -> Result<i64> {
    let time = log.lines().rev().find_map(|text| text.split_once(' ').filter(|(_, said)| *said == line));
    let (time, _) = time.with_context(|| format!("{twin} did not say {line:?}: {log}"))?;
    let time: jiff::Timestamp = time.parse().with_context(|| format!("time of {line:?}: {time}"))?;
    i64::try_from(time.as_nanosecond()).context("time")
}
