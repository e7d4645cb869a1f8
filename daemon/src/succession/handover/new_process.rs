//! The side of the new process: asks the old one for its place and says when it fills it.

use std::{io, os::fd::AsFd, time::Duration};

use anyhow::{Context, bail};
use berth_shim::PassingLine;
use tokio::net::UnixStream;
use tracing::info;

use super::{TakeOver, line::Word, sockets::Sockets};

/// How long the old process may take to give: it ends its own work first.
const GIVE_TIMEOUT: Duration = Duration::from_secs(60);

/// The old process, whose place is taken.
#[derive(Debug)]
pub(crate) struct OldProcess(PassingLine);

impl OldProcess {
    /// Goes to it; `None` when nobody is there, which is no error for one that was started beside it.
    pub(crate) async fn meet(at: &TakeOver) -> anyhow::Result<Option<Self>> {
        let stream = match at {
            TakeOver::Stdin => {
                let stdin = io::stdin().as_fd().try_clone_to_owned()?;
                let stream = std::os::unix::net::UnixStream::from(stdin);
                stream.set_nonblocking(true)?;
                UnixStream::from_std(stream).context("standard input is not the line of a hand-over")?
            }
            TakeOver::Socket(path) => match UnixStream::connect(path).await {
                Ok(stream) => stream,
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) =>
                {
                    info!(socket = ?path, "No berthd to take the place of");
                    return Ok(None);
                }
                Err(error) => return Err(error).with_context(|| format!("hand-over socket {path:?}")),
            },
        };
        Ok(Some(Self(PassingLine::new(stream))))
    }

    /// Takes what it has. From now on the store is this process's.
    pub(crate) async fn take(&mut self) -> anyhow::Result<Sockets> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        self.0.say(&Word::Take { version }, &[]).await.context("hand-over not asked for")?;
        let answer = tokio::time::timeout(GIVE_TIMEOUT, self.0.hear()).await;
        let (word, descriptors) =
            answer.context("the berthd that runs gives nothing")?.context("the berthd that runs is gone")?;
        match word {
            Word::Taken { sockets } => {
                let sockets = Sockets::received(sockets, descriptors)
                    .context("the berthd that runs gave other sockets than it says")?;
                info!(%sockets, "Taken over from the berthd that ran");
                Ok(sockets)
            }
            Word::Refused { why } => bail!("the berthd that runs hands nothing over: {why}"),
            Word::Take { .. } | Word::Ready => bail!("the berthd that runs answered with another word"),
        }
    }

    /// Says that this process accepts: the old one need not any more. An error means that it has given the
    /// place to somebody else.
    pub(crate) async fn ready(self) -> anyhow::Result<()> {
        self.0.say(&Word::Ready, &[]).await.context("the berthd that ran has taken its place back")
    }
}
