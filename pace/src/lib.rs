//! Pace of watches, and the end of patience with a server that says nothing.
//!
//! A watch that its server ends at once, with nothing said, is no failure to the library: it asks again, and
//! shows nobody that it does. A proxy before the API server that ends all long answers would be asked some
//! hundred times a second, by each replica and each agent for each kind. So watches of one path are spaced,
//! where more came than a start asks for.
//!
//! A server whose machine is gone ends no connection. The library gives up a watch after five minutes, and
//! waits for a list without an end: nobody would see what happens after it is back.

#![cfg_attr(
    test,
    allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails, as it should")
)]

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use http::Request;
use kube::{Config, client::Body};
use tower::{Layer, Service};

/// Pause between two watches of one path.
const PAUSE: Duration = Duration::from_millis(200);
/// Watches of one path that come without a pause, as after a start or a lost connection: there may be several
/// of one kind.
const AT_ONCE: u32 = 8;

/// Longest silence of a server that owes something. It gives up a list of its own accord after a minute. A
/// watch may well be silent until it ends (290 s after its begin, by the library): an API server has
/// bookmarks only for kinds of which it has seen a change since its start.
const SILENCE: Duration = Duration::from_secs(310);

/// Has a client take a connection for dead on which nothing comes for too long.
pub fn limit_silence(config: &mut Config) {
    config.read_timeout = Some(SILENCE);
    // Or the time counted in which a connection was kept for the next question.
    config.reset_reader_on_write = true;
}

/// Paths with when their next watch would be due, had all of them been spaced.
#[derive(Debug, Default)]
struct Paths(HashMap<String, Instant>);

impl Paths {
    /// Takes in a watch, and says how long it waits.
    fn wait(&mut self, path: &str, now: Instant) -> Duration {
        self.0.retain(|_, due| *due > now);
        let due = self.0.get(path).copied().unwrap_or(now);
        self.0.insert(path.to_owned(), due.checked_add(PAUSE).unwrap_or(due));
        let ahead = due.saturating_duration_since(now);
        ahead.saturating_sub(PAUSE.saturating_mul(AT_ONCE))
    }
}

/// Layer of a client that spaces its watches.
#[derive(Clone, Debug, Default)]
pub struct Pace;

/// Service behind it.
#[derive(Clone, Debug)]
pub struct Paced<S> {
    inner: S,
    /// A std lock: nothing is awaited under it.
    paths: Arc<Mutex<Paths>>,
}

impl<S> Layer<S> for Pace {
    type Service = Paced<S>;

    fn layer(&self, inner: S) -> Paced<S> {
        Paced { inner, paths: Arc::default() }
    }
}

impl<S> Service<Request<Body>> for Paced<S>
where
    S: Service<Request<Body>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if !is_watch(&request) {
            return Box::pin(self.inner.call(request));
        }
        let now = tokio::time::Instant::now().into_std();
        let wait = {
            let mut paths = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
            paths.wait(request.uri().path(), now)
        };
        // Nothing is sent before it is polled.
        let answer = self.inner.call(request);
        Box::pin(async move {
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            answer.await
        })
    }
}

fn is_watch(request: &Request<Body>) -> bool {
    request.uri().query().is_some_and(|query| query.split('&').any(|part| part == "watch=true"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn watches_of_one_path_are_spaced() {
        let (mut paths, start) = (Paths::default(), Instant::now());
        let mut now = start;
        // Each is asked as soon as the one before has ended, which is at once.
        for number in 0..=100 + AT_ONCE {
            let wait = paths.wait("/api/v1/pods", now);
            assert_eq!(wait.is_zero(), number <= AT_ONCE, "{number}");
            now += wait;
        }
        assert_eq!(now - start, PAUSE * 100);
        assert_eq!(paths.wait("/api/v1/nodes", now), Duration::ZERO, "another kind");
        now += PAUSE * (AT_ONCE + 2);
        assert_eq!(paths.wait("/api/v1/pods", now), Duration::ZERO, "one that has lasted");
        assert_eq!(paths.0.len(), 1, "a path that nobody watches any more is forgotten");
    }

    #[rstest]
    #[case::watch("/api/v1/pods?&watch=true&timeoutSeconds=60&resourceVersion=7", true)]
    #[case::list("/api/v1/pods?&limit=100", false)]
    #[case::no_query("/api/v1/pods", false)]
    #[case::another("/api/v1/pods?labelSelector=watch%3Dtrue", false)]
    fn watches_are_told_from_others(#[case] uri: &str, #[case] watch: bool) {
        assert_eq!(is_watch(&Request::get(uri).body(Body::empty()).unwrap()), watch);
    }
}
