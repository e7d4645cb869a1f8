//! Clients that ask web servers all the time, and what became of their requests.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

/// Longer than anything takes that is answered.
const ANSWERED: Duration = Duration::from_secs(60);
/// The pause between two requests on a connection that is kept.
const KEPT_APART: Duration = Duration::from_millis(250);

/// How much is asked.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Requests a second, each on a connection of its own.
    pub anew: u32,
    /// Connections that are kept.
    pub kept: usize,
}

/// Requests that are made until it is dropped.
#[derive(Debug)]
pub struct Load {
    counts: Arc<Counts>,
    _clients: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Counts {
    answered: AtomicUsize,
    failed: Mutex<Vec<String>>,
}

impl Counts {
    fn count(&self, outcome: Result<()>) {
        match outcome {
            Ok(()) => drop(self.answered.fetch_add(1, Ordering::Relaxed)),
            Err(error) => {
                self.failed.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{error:#}"));
            }
        }
    }
}

impl Load {
    /// Asks the server at this address from now on.
    pub fn begin(address: &str, pace: Pace) -> Self {
        let (counts, mut clients) = (Arc::new(Counts::default()), JoinSet::new());
        let (to, told) = (address.to_owned(), counts.clone());
        clients.spawn(async move {
            let apart = Duration::from_secs(1).checked_div(pace.anew).unwrap_or(Duration::from_secs(1));
            let (mut tick, mut requests) = (interval(apart), JoinSet::new());
            tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tick.tick().await;
                let (to, told) = (to.clone(), told.clone());
                requests.spawn(async move { told.count(once(&to).await.context("without keep-alive")) });
                while requests.try_join_next().is_some() {}
            }
        });
        for number in 0..pace.kept {
            let (to, told) = (address.to_owned(), counts.clone());
            clients.spawn(async move {
                // Not all at the same moment.
                sleep(Duration::from_millis(5).saturating_mul(u32::try_from(number).unwrap_or(0))).await;
                let mut kept = None;
                loop {
                    told.count(again(&to, &mut kept).await.context("with keep-alive"));
                    sleep(KEPT_APART).await;
                }
            });
        }
        Self { counts, _clients: clients }
    }

    /// Number of requests that were answered, and of those that were not, with what the first of them says.
    pub fn outcome(&self) -> (usize, usize, Option<String>) {
        let failed = self.counts.failed.lock().unwrap_or_else(PoisonError::into_inner);
        (self.counts.answered.load(Ordering::Relaxed), failed.len(), failed.first().cloned())
    }

    /// Number of requests so far; an error if one has failed.
    pub fn all_answered(&self) -> Result<usize> {
        let (answered, failed, first) = self.outcome();
        ensure!(failed == 0, "{failed} requests failed beside {answered} that did not: {first:?}");
        Ok(answered)
    }
}

async fn once(address: &str) -> Result<()> {
    let asked = async {
        let mut stream = TcpStream::connect(address).await.context("connect")?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n").await.context("ask")?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await.context("read")?;
        ensure!(text.starts_with("HTTP/1.1 200"), "{text:?}");
        Ok(())
    };
    timeout(ANSWERED, asked).await.context("no answer in time")?
}

/// One request on a connection that is kept until the server says that it closes it.
async fn again(address: &str, kept: &mut Option<BufReader<TcpStream>>) -> Result<()> {
    let asked = async {
        let mut stream = match kept.take() {
            Some(stream) => stream,
            None => BufReader::new(TcpStream::connect(address).await.context("connect")?),
        };
        stream.write_all(b"GET / HTTP/1.1\r\nHost: web\r\n\r\n").await.context("ask")?;
        let (mut close, mut length, mut first) = (false, 0, String::new());
        stream.read_line(&mut first).await.context("read")?;
        ensure!(first.starts_with("HTTP/1.1 200"), "{first:?}");
        loop {
            let mut header = String::new();
            stream.read_line(&mut header).await.context("read")?;
            match header.trim().split_once(": ") {
                Some(("Connection", value)) => close = value == "close",
                Some(("Content-Length", value)) => length = value.parse()?,
                Some(_) => {}
                None => break,
            }
        }
        stream.read_exact(&mut vec![0; length]).await.context("read")?;
        *kept = (!close).then_some(stream);
        Ok(())
    };
    timeout(ANSWERED, asked).await.context("no answer in time")?
}
