//! Words of people to a `berth-shim`: how it is, that a new process of its program shall take its place, and
//! that it shall end.

use std::{io, path::Path, time::Duration};

use tokio::{
    io::AsyncWriteExt,
    net::{UnixStream, unix::OwnedReadHalf},
    sync::mpsc,
    time::timeout,
};

use super::{
    frame::{Incoming, Outgoing},
    line::{LineError, next},
    message::{Nothing, Said, ShimState, ToAgent, ToShim, Told, UpgradeStage},
};

/// How long it may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an upgrade may take to its next stage: more than a new process has.
const STAGE: Duration = Duration::from_secs(60);

/// Request for an upgrade, which somebody at the socket has made.
#[derive(Debug)]
pub struct UpgradeAsk(mpsc::UnboundedSender<UpgradeStage>);

/// A `berth-shim` could not be asked, or did not do it.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Nobody is there.
    #[error("no berth-shim answers")]
    Away(#[source] io::Error),
    /// It said something else.
    #[error("berth-shim answers with something else; berthctl and it are of different releases")]
    Mumbles(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// It does not say any more.
    #[error("berth-shim went away before it said how it ended; ask for its state")]
    Silent,
    /// It goes on as it was.
    #[error("the old berth-shim goes on: {0}")]
    Refused(String),
}

impl UpgradeAsk {
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<UpgradeStage>) {
        let (tell, told) = mpsc::unbounded_channel();
        (Self(tell), told)
    }

    /// One to which nobody listens.
    pub fn unheard() -> Self {
        Self::new().0
    }

    /// Tells of a stage. Nobody may listen any more.
    pub fn tell(&self, stage: UpgradeStage) {
        let _ = self.0.send(stage);
    }
}

/// Asks the `berth-shim` at this socket how it is.
pub async fn look(socket: &Path) -> Result<ShimState, ControlError> {
    match told(socket, Said::Look(Nothing {})).await? {
        Some(Told::State(state)) => Ok(state),
        _ => Err(ControlError::Mumbles("no state".into())),
    }
}

/// Asks the `berth-shim` at this socket for its metrics, as OpenMetrics.
pub async fn scrape(socket: &Path) -> Result<String, ControlError> {
    match told(socket, Said::Scrape(Nothing {})).await? {
        Some(Told::Metrics(text)) => Ok(text),
        _ => Err(ControlError::Mumbles("no metrics".into())),
    }
}

/// The one word that it has to say to this.
async fn told(socket: &Path, said: Said) -> Result<Option<Told>, ControlError> {
    let asked = async {
        let (mut incoming, mut reader) = ask(socket, said).await?;
        heard(&mut incoming, &mut reader).await
    };
    timeout(ANSWER_TIMEOUT, asked).await.map_err(|late| ControlError::Away(late.into()))?
}

/// Has the `berth-shim` at this socket start its program anew and give its place to it. Tells of each stage
/// before the last, which is returned.
pub async fn upgrade(socket: &Path, tell: impl Fn(&UpgradeStage)) -> Result<UpgradeStage, ControlError> {
    let (mut incoming, mut reader) = ask(socket, Said::Upgrade(Nothing {})).await?;
    loop {
        let told = timeout(STAGE, heard(&mut incoming, &mut reader)).await;
        match told.map_err(|_| ControlError::Silent)?? {
            Some(Told::Stage(stage)) if !stage.error.is_empty() => {
                return Err(ControlError::Refused(stage.error));
            }
            Some(Told::Stage(stage)) if stage.ready => return Ok(stage),
            Some(Told::Stage(stage)) => tell(&stage),
            _ => return Err(ControlError::Mumbles("no stage".into())),
        }
    }
}

/// Has the `berth-shim` at this socket end with its last open call. Tells of each state until then; gives the
/// last one.
pub async fn drain(socket: &Path, tell: impl Fn(&ShimState)) -> Result<ShimState, ControlError> {
    let (mut incoming, mut reader) = ask(socket, Said::Drain(Nothing {})).await?;
    let mut last = None;
    loop {
        // It says so every second.
        let told = timeout(STAGE, heard(&mut incoming, &mut reader)).await;
        match (told.map_err(|_| ControlError::Silent)?, last) {
            (Ok(Some(Told::State(state))), _) => {
                tell(&state);
                last = Some(state);
            }
            // Its end, which is what was asked for.
            (Err(ControlError::Silent), Some(last)) => return Ok(last),
            (Ok(_), _) => return Err(ControlError::Mumbles("no state".into())),
            (Err(error), _) => return Err(error),
        }
    }
}

async fn ask(socket: &Path, said: Said) -> Result<(Incoming, OwnedReadHalf), ControlError> {
    let stream = UnixStream::connect(socket).await.map_err(ControlError::Away)?;
    let (reader, mut writer) = stream.into_split();
    let outgoing = Outgoing::default();
    outgoing.put(&ToShim { said: Some(said) }).map_err(|error| ControlError::Mumbles(error.into()))?;
    writer.write_all(&outgoing.take().await).await.map_err(ControlError::Away)?;
    // Its end would be taken for ours.
    writer.forget();
    Ok((Incoming::default(), reader))
}

async fn heard(incoming: &mut Incoming, reader: &mut OwnedReadHalf) -> Result<Option<Told>, ControlError> {
    match next::<ToAgent>(incoming, reader).await {
        Ok(word) => Ok(word.told),
        Err(LineError::Io(_)) => Err(ControlError::Silent),
        Err(error) => Err(ControlError::Mumbles(error.into())),
    }
}

#[cfg(test)]
#[path = "../tests/remote_control.rs"]
mod tests;
