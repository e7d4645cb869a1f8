//! Upgrade and drain: the agent's own place, given to another program or given up.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use berth_proto::admin::{self, upgrade_stage};
use berth_shim::{Metrics, Shutdown};
use futures::Stream;
use tokio::sync::mpsc::{self, error::TrySendError};
use tonic::{Code, Status};
use tracing::{info, warn};

use super::Admin;
use crate::{
    base::causes::chain,
    succession::{
        handover::{HandOverError, NotAProgram, Program, Stage},
        stop,
        takeover::RuntimePlace,
    },
};

/// Time that the new program has to become ready.
const LIMIT: Duration = Duration::from_secs(30);
/// How often a drain is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Stages of one upgrade: all that there can be, so that none waits for whoever listens, and none is lost.
const STAGES: usize = 8;

type Stages = mpsc::Sender<Result<admin::UpgradeStage, Status>>;

/// Begins the upgrade; it goes on whether anybody listens or not.
pub(super) fn upgrade(
    admin: &Admin,
    request: admin::UpgradeRequest,
) -> impl Stream<Item = Result<admin::UpgradeStage, Status>> + use<> {
    let (stages, told) = mpsc::channel(STAGES);
    let (handover, config) = (admin.handover.clone(), admin.config_file.clone());
    let limit = match request.timeout_seconds {
        0 => LIMIT,
        seconds => Duration::from_secs(seconds.into()),
    };
    tokio::spawn(async move {
        let path = match request.program.as_str() {
            "" => installed(),
            path => Ok(PathBuf::from(path)),
        };
        let upgraded = async {
            let path = path.map_err(|error| Status::internal(format!("which program is this? {error}")))?;
            let (program, version) =
                Program::checked(&path, config.as_deref()).await.map_err(|error| refusal(&error))?;
            info!(program = ?path, version, "Upgrade asked for");
            let stage = |stage, pid, version: &str| admin::UpgradeStage {
                stage: i32::from(stage),
                program: path.display().to_string(),
                version: version.to_owned(),
                pid,
            };
            tell(&stages, Ok(stage(upgrade_stage::Stage::Checked, 0, &version)));
            let told = |reached: Stage| {
                let stage = match reached {
                    Stage::Started { pid, version } => stage(upgrade_stage::Stage::Started, pid, &version),
                    Stage::Given => stage(upgrade_stage::Stage::Given, 0, &version),
                    Stage::Ready => stage(upgrade_stage::Stage::Ready, 0, &version),
                    Stage::TakenBack => stage(upgrade_stage::Stage::TakenBack, 0, &version),
                };
                tell(&stages, Ok(stage));
            };
            handover.upgrade(&program, limit, told).await.map_err(|error| failure(&error))
        };
        if let Err(status) = upgraded.await {
            warn!(error = status.message(), "Not upgraded");
            tell(&stages, Err(status));
        }
    });
    tokio_stream::wrappers::ReceiverStream::new(told)
}

/// The upgrade waits for nobody: who does not listen any more, or not fast enough, misses a stage.
fn tell(stages: &Stages, stage: Result<admin::UpgradeStage, Status>) {
    if let Err(TrySendError::Full(_)) = stages.try_send(stage) {
        warn!(most = STAGES, "Stage of the upgrade not told, nobody takes them");
    }
}

/// The file this process was started from, which by now may be a newer one.
fn installed() -> std::io::Result<PathBuf> {
    let path = std::fs::read_link("/proc/self/exe")?;
    let text = path.to_string_lossy();
    Ok(text.strip_suffix(" (deleted)").map_or_else(|| path.clone(), |path| Path::new(path).to_owned()))
}

fn refusal(error: &NotAProgram) -> Status {
    Status::invalid_argument(chain(error))
}

fn failure(error: &HandOverError) -> Status {
    let code = match error {
        HandOverError::Done => Code::FailedPrecondition,
        HandOverError::Slow(_) => Code::DeadlineExceeded,
        HandOverError::Start(_) | HandOverError::Ended(_) | HandOverError::Mumbles => Code::Aborted,
    };
    Status::new(code, chain(error))
}

/// Begins the drain, and tells what is still open until nothing is. Whoever goes away does not end it.
pub(super) fn drain(
    shutdown: &Shutdown,
    metrics: &Metrics,
    place: Option<&RuntimePlace>,
) -> impl Stream<Item = Result<admin::DrainState, Status>> + use<> {
    info!("Drain asked for");
    if !shutdown.token.is_cancelled() {
        stop::begin(shutdown, place);
    }
    let metrics = metrics.clone();
    futures::stream::unfold(None, move |last| {
        let metrics = metrics.clone();
        async move {
            loop {
                let state = admin::DrainState {
                    connections: metrics.connections_open().try_into().unwrap_or(0),
                    held: metrics.held_now().try_into().unwrap_or(0),
                };
                match last {
                    Some(last) if last == state && state.connections == 0 => return None,
                    Some(last) if last == state => tokio::time::sleep(POLL_INTERVAL).await,
                    _ => return Some((Ok(state), Some(state))),
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_upgrade_waits_for_nobody_who_listens() {
        let (stages, mut told) = mpsc::channel(STAGES);
        for pid in 0..100 {
            tell(&stages, Ok(admin::UpgradeStage { pid, ..admin::UpgradeStage::default() }));
        }
        drop(stages);
        let mut pids = Vec::new();
        while let Some(stage) = told.recv().await {
            pids.push(stage.unwrap().pid);
        }
        assert_eq!(pids, (0..8).collect::<Vec<_>>());
        // All that there can be have room: those of an upgrade, and its failure.
        let all = [
            upgrade_stage::Stage::Checked,
            upgrade_stage::Stage::Started,
            upgrade_stage::Stage::Given,
            upgrade_stage::Stage::Ready,
            upgrade_stage::Stage::TakenBack,
        ];
        assert!(all.len() < STAGES);
    }
}
