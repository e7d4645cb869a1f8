//! Last answers to what every process of the node's network may have asked by opening a page: however many
//! do, whoever is asked is not kept busy by it.

use std::time::Duration;

use tokio::{
    sync::{Mutex, MutexGuard},
    time::Instant,
};

/// Last answer to one question, for all who ask. A failure is an answer, too.
#[derive(Debug)]
pub(super) struct LastAnswer<T>(Mutex<Option<(Instant, T)>>);

/// Turn of one who asks; others wait for its end.
#[derive(Debug)]
pub(super) struct Turn<'a, T>(MutexGuard<'a, Option<(Instant, T)>>);

// === impl LastAnswer ===

impl<T> Default for LastAnswer<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> LastAnswer<T> {
    /// Waits for a turn. Cancel-safe.
    pub(super) async fn turn(&self) -> Turn<'_, T> {
        Turn(self.0.lock().await)
    }
}

// === impl Turn ===

impl<T: Clone> Turn<'_, T> {
    /// Returns the last answer where it is younger than this, or else that to a new question.
    pub(super) async fn or_ask(mut self, fresh: Duration, question: impl Future<Output = T>) -> T {
        if let Some((at, answer)) = &*self.0
            && at.elapsed() < fresh
        {
            return answer.clone();
        }
        // Cancel-safe: the next one asks.
        let answer = question.await;
        *self.0 = Some((Instant::now(), answer.clone()));
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures::future::join_all;
    use tokio::time::{advance, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_is_asked_once_in_a_time_however_many_ask() {
        let fresh = Duration::from_secs(1);
        let (last, asked) = (LastAnswer::<Result<(), String>>::default(), Cell::new(0));
        let ask = || async {
            let question = async {
                asked.set(asked.get() + 1);
                sleep(Duration::from_millis(10)).await;
                Err::<(), _>(asked.get().to_string())
            };
            last.turn().await.or_ask(fresh, question).await
        };
        let answers = join_all((0..64).map(|_| ask())).await;
        assert_eq!(answers, vec![Err::<(), _>("1".to_owned()); 64]);
        assert_eq!(ask().await, Err("1".to_owned()));
        advance(fresh).await;
        assert_eq!(ask().await, Err("2".to_owned()));
    }
}
