//! Outages of watches: what is said of them, and when the API server is tried again.

use std::time::Duration;

use kube::runtime::watcher;

use crate::telemetry::chain;

/// Pauses between attempts to reach the API server; the last one is repeated. Ours and not the watcher's own:
/// that begins anew before every list, so it would never grow while lists fail.
pub const PAUSES: [Duration; 5] = [
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
];
/// The pause before a kind is looked for again that is not installed: nobody waits for it but who installs
/// it.
pub const ABSENT_PAUSE: Duration = Duration::from_secs(10);

/// The outage of one watch, if there is one.
#[derive(Debug, Default)]
pub struct Outage {
    /// The cause that was said last.
    said: Option<String>,
    failures: usize,
}

/// One failed attempt.
#[derive(Debug)]
pub struct Failure {
    /// The kind is not installed.
    pub absent: bool,
    /// The cause, if it was not said of this outage: it is said once, and not at each attempt.
    pub news: Option<String>,
    /// Time until the next attempt.
    pub pause: Duration,
}

impl Outage {
    /// Counts a failure.
    pub fn fails(&mut self, error: &watcher::Error) -> Failure {
        let (absent, text) = (is_absent(error), chain(error));
        let news = (self.said.as_ref() != Some(&text)).then(|| text.clone());
        self.said = Some(text);
        if absent {
            return Failure { absent, news, pause: ABSENT_PAUSE };
        }
        let pause = PAUSES[self.failures.min(PAUSES.len() - 1)];
        self.failures = self.failures.saturating_add(1);
        Failure { absent, news, pause }
    }

    /// Ends the outage: the watch shows something. Returns whether there was one.
    pub fn ends(&mut self) -> bool {
        self.failures = 0;
        self.said.take().is_some()
    }
}

/// Tells whether the API server refuses a watch because it has the version no more that it would go on from.
/// Mostly it begins the watch and ends it with that word, and the library lists anew. Where it refuses the
/// request itself, the library would ask for the same version for ever.
pub fn is_too_old(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchStartFailed(kube::Error::Api(status)) if status.code == 410)
}

/// The API server has no such path: the kind's definition is not there, or gone.
fn is_absent(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code == 404,
        _ => false,
    }
}
