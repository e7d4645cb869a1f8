//! Places of connections. There are so many, and one that does nothing gives its place away when all are
//! taken: a caller who holds connections open for nothing keeps nobody out.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::{Instant, sleep_until},
};

/// A connection on which nothing was asked for so long gives its place away.
pub(super) const SPARED: Duration = Duration::from_secs(1);

/// All places.
pub(super) struct Places {
    free: Arc<Semaphore>,
    /// Somebody waits for one.
    wanted: watch::Sender<bool>,
}

impl Places {
    pub(super) fn new(number: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(number)), wanted: watch::Sender::new(false) }
    }

    /// Takes a place, when one is free.
    pub(super) async fn take(&self) -> Place {
        let free = match self.free.clone().try_acquire_owned() {
            Ok(free) => Some(free),
            Err(_) => {
                self.wanted.send_replace(true);
                let free = self.free.clone().acquire_owned().await.ok();
                self.wanted.send_replace(false);
                free
            }
        };
        let pulse = Arc::new(Pulse(Mutex::new((0, Instant::now()))));
        Place { _free: free, wanted: self.wanted.subscribe(), pulse }
    }
}

/// Place of one connection.
pub(super) struct Place {
    _free: Option<OwnedSemaphorePermit>,
    wanted: watch::Receiver<bool>,
    pulse: Arc<Pulse>,
}

impl Place {
    /// Tells of requests on the connection.
    pub(super) fn pulse(&self) -> Arc<Pulse> {
        self.pulse.clone()
    }

    /// Ends when another one needs the place, and nothing is done on this connection.
    pub(super) async fn given_away(&self) {
        let mut wanted = self.wanted.clone();
        loop {
            if wanted.wait_for(|wanted| *wanted).await.is_err() {
                return std::future::pending().await;
            }
            let (in_hand, since) = self.pulse.now();
            let at = since.checked_add(SPARED).filter(|_| in_hand == 0);
            match at {
                Some(at) if at <= Instant::now() => return,
                Some(at) => sleep_until(at).await,
                None => tokio::time::sleep(SPARED).await,
            }
        }
    }
}

/// Requests of a connection: how many are worked on, and when one last was.
pub(super) struct Pulse(Mutex<(usize, Instant)>);

impl Pulse {
    /// Counts a request, which has come as a whole, until the guard is dropped.
    pub(super) fn begin(self: Arc<Self>) -> InHand {
        self.change(|in_hand| in_hand.saturating_add(1));
        InHand(self)
    }

    fn now(&self) -> (usize, Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(usize) -> usize) {
        let mut now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *now = (change(now.0), Instant::now());
    }
}

/// Request that is worked on.
pub(super) struct InHand(Arc<Pulse>);

impl Drop for InHand {
    fn drop(&mut self) {
        self.0.change(|in_hand| in_hand.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{sleep, timeout};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_idle_ones_give_their_places_away() {
        let places = Places::new(2);
        let (idle, busy) = (places.take().await, places.take().await);
        let in_hand = busy.pulse().begin();
        sleep(SPARED * 10).await;
        assert!(timeout(SPARED, idle.given_away()).await.is_err(), "nobody needs it");
        let third = async {
            let third = timeout(SPARED * 10, places.take()).await.unwrap();
            assert!(timeout(SPARED * 10, third.given_away()).await.is_err(), "there is one again");
        };
        let first = async {
            timeout(SPARED / 2, idle.given_away()).await.unwrap();
            drop(idle);
        };
        let second = async { assert!(timeout(SPARED * 5, busy.given_away()).await.is_err(), "it works") };
        tokio::join!(third, first, second);
        drop(in_hand);
    }
}
