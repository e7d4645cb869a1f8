//! A way to the registry that does what registries do on bad days: slow, silent in the middle, away.
//!
//! It passes bytes on loopback, so containerd's pulls are real ones, and it has an address of its own, so
//! each test can have a bad day for itself.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

/// How the day is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Day {
    /// Everything passes.
    Good,
    /// So many bytes a second come back, over all connections.
    Slow(u64),
    /// Nothing comes back any more, once so many bytes have since the gateway began; connections stay open.
    Silent(u64),
    /// Connections end at once.
    Away,
}

/// The way. It ends when it is dropped.
#[derive(Debug)]
pub struct Gateway {
    address: SocketAddr,
    day: watch::Sender<Day>,
    served: Arc<AtomicU64>,
    accepting: AbortHandle,
}

impl Gateway {
    /// Opens one to this address.
    pub async fn open(to: &str) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("gateway")?;
        let address = listener.local_addr()?;
        let (day, served) = (watch::Sender::new(Day::Good), Arc::<AtomicU64>::default());
        let passing = Passing { to: to.to_owned(), day: day.subscribe(), served: served.clone() };
        let accepting = tokio::spawn(async move {
            // Owned here, so that the connections end with the gateway.
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(passing.clone().pass(client));
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { address, day, served, accepting: accepting.abort_handle() })
    }

    /// The reference of an image by this way.
    pub fn reference(&self, name: &str) -> String {
        format!("{}/{name}", self.address)
    }

    /// Sets the day from now on, for open connections as well.
    pub fn day(&self, day: Day) {
        self.day.send_replace(day);
    }

    /// Bytes that came back.
    pub fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

#[derive(Clone)]
struct Passing {
    to: String,
    day: watch::Receiver<Day>,
    served: Arc<AtomicU64>,
}

impl Passing {
    async fn pass(mut self, client: TcpStream) {
        let Ok(server) = TcpStream::connect(&self.to).await else { return };
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        let up = async {
            // An error is the end of the connection.
            let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
        };
        let mut away = self.day.clone();
        let down = async {
            let mut buffer = vec![0; 16 << 10];
            loop {
                let Ok(read @ 1..) = from_server.read(&mut buffer).await else { return };
                if self.permit(read as u64).await.is_none()
                    || to_client.write_all(&buffer[..read]).await.is_err()
                {
                    return;
                }
            }
        };
        tokio::select! {
            () = down => {}
            () = async { up.await; std::future::pending().await } => {}
            _ = away.wait_for(|day| *day == Day::Away) => {}
        }
    }

    /// Waits until so many bytes may go back; `None` when the gateway has ended.
    async fn permit(&mut self, bytes: u64) -> Option<()> {
        loop {
            let day = *self.day.borrow_and_update();
            match day {
                Day::Silent(limit) if self.served.load(Ordering::Relaxed) + bytes > limit => {
                    self.day.changed().await.ok()?;
                    continue;
                }
                Day::Slow(rate) => sleep(Duration::from_secs_f64(bytes as f64 / rate as f64)).await,
                Day::Good | Day::Silent(_) | Day::Away => {}
            }
            self.served.fetch_add(bytes, Ordering::Relaxed);
            return Some(());
        }
    }
}
