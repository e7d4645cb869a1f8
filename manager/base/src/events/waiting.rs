//! News that wait to be written, by the namespaces of what they are about. Namespaces take turns, and of one
//! only so many wait: a tenant of whom thousands of things are told leaves the others theirs.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::round_robin::RoundRobin;

/// News of one namespace that wait; one more is lost.
const OF_ONE: usize = 64;
/// News that wait; past them a namespace has one.
const MOST: usize = 512;

/// News that wait.
#[derive(Debug)]
pub struct Waiting<T> {
    queue: RoundRobin<T>,
    count: usize,
}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Self { queue: RoundRobin::default(), count: 0 }
    }
}

impl<T> Waiting<T> {
    /// Gives the next of what is told, by turns. `None`: nobody tells any more.
    ///
    /// Cancel-safe: what was told and not given waits for the next call.
    pub async fn next(&mut self, told: &mut mpsc::Receiver<T>, namespace: impl Fn(&T) -> &str) -> Option<T> {
        loop {
            while let Ok(news) = told.try_recv() {
                self.add(namespace(&news).into(), news);
            }
            if let Some(news) = self.take() {
                return Some(news);
            }
            let news = told.recv().await?;
            self.add(namespace(&news).into(), news);
        }
    }

    fn add(&mut self, namespace: Arc<str>, news: T) {
        let own = self.queue.count_of(&namespace);
        if own >= OF_ONE || (own > 0 && self.count >= MOST) {
            return;
        }
        self.queue.push(namespace, news);
        self.count = self.count.saturating_add(1);
    }

    fn take(&mut self) -> Option<T> {
        let news = self.queue.take(|_| true)?;
        self.count = self.count.saturating_sub(1);
        Some(news)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// News, by their namespace.
    type News = (String, usize);

    fn waiting(news: impl IntoIterator<Item = News>) -> Waiting<News> {
        let mut waiting = Waiting::default();
        news.into_iter().for_each(|news| waiting.add(news.0.as_str().into(), news));
        waiting
    }

    fn all(mut waiting: Waiting<News>) -> Vec<News> {
        let all = std::iter::from_fn(|| waiting.take()).collect();
        assert_eq!(waiting.count, 0);
        all
    }

    #[test]
    fn few_of_one_and_of_all_wait() {
        let crowd = (0..10_000).map(|at| ("crowd".to_owned(), at));
        let shop = [("shop".to_owned(), 7)];
        let given = all(waiting(crowd.chain(shop.clone())));
        assert_eq!((given.len(), &given[1]), (OF_ONE + 1, &shop[0]), "the oldest of it, and the other one's");
        let many = (0..20 * OF_ONE).map(|at| (format!("ns-{}", at % 20), at));
        let given = all(waiting(many.chain(shop.clone())));
        assert_eq!(given.len(), MOST + 1);
        assert_eq!(given.iter().filter(|news| **news == shop[0]).count(), 1);
    }

    #[tokio::test]
    async fn what_was_told_is_given_before_the_end() {
        let (tell, mut told) = mpsc::channel(8);
        for (at, namespace) in ["a", "a", "b"].into_iter().enumerate() {
            tell.send((namespace.to_owned(), at)).await.unwrap();
        }
        drop(tell);
        let mut waiting = Waiting::default();
        let mut given = Vec::new();
        while let Some((_, at)) = waiting.next(&mut told, |news: &News| news.0.as_str()).await {
            given.push(at);
        }
        assert_eq!(given, [0, 2, 1]);
    }
}
