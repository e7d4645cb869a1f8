//! One call of the API server: how long it may take, and what an answer means that is not as wished.

use std::time::Duration;

use kube::runtime::watcher;

use super::ClientError;
use crate::base::deadline;

/// A single question to an API server that is well takes milliseconds.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// How often that doubles where answers do not come in time.
const MOST_DOUBLINGS: u32 = 2;

/// A question to the API server that was not answered as wished.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// There is no client to ask with.
    #[error(transparent)]
    NoClient(ClientError),
    /// The API server said no.
    #[error("the API server refused with {code}: {message}")]
    Refused {
        /// HTTP status.
        code: u16,
        /// In its own words.
        message: String,
    },
    /// No answer that can be read.
    #[error("no answer of the API server")]
    Failed(#[source] Box<kube::Error>),
    /// No answer in time.
    #[error("the API server did not answer within {0:?}")]
    Silent(Duration),
}

impl CallError {
    /// Returns whether the object of the call does not exist.
    pub(crate) fn is_gone(&self) -> bool {
        self.code() == Some(404)
    }

    /// Gives the API server's message where it refuses a call for good, however often it is asked.
    pub(crate) fn refusal(&self) -> Option<&str> {
        match self {
            Self::Refused { code: 400 | 422, message } => Some(message),
            Self::Refused { .. } | Self::NoClient(_) | Self::Failed(_) | Self::Silent(_) => None,
        }
    }

    /// Gives the same, and what it says where a right is missing: that may be given a moment later, and is
    /// meant only when it is said again and again.
    pub(crate) fn refusal_or_forbidden(&self) -> Option<&str> {
        match self {
            Self::Refused { code: 403, message } => Some(message),
            _ => self.refusal(),
        }
    }

    /// Gives the API server's message where it would take the same call later.
    pub(crate) fn hold(&self) -> Option<&str> {
        match self {
            Self::Refused { code: 429, message } => Some(message),
            Self::Refused { .. } | Self::NoClient(_) | Self::Failed(_) | Self::Silent(_) => None,
        }
    }

    /// Tells whether somebody else wrote in between, or it is another object of that name.
    pub(crate) fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }

    fn code(&self) -> Option<u16> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            Self::NoClient(_) | Self::Failed(_) | Self::Silent(_) => None,
        }
    }

    /// Tells whether a new client could do better: its certificate or token may be too old, or its connection
    /// dead.
    pub(super) fn may_be_the_client(&self) -> bool {
        match self {
            Self::Refused { code, .. } => *code == 401,
            // What cannot be asked or read is the fault of one object. The others would lose their client.
            Self::Failed(error) => {
                !matches!(**error, kube::Error::SerdeError(_) | kube::Error::BuildRequest(_))
            }
            Self::Silent(_) => true,
            Self::NoClient(_) => false,
        }
    }
}

/// The time for a question to an API server that is so slow.
pub(super) fn patience(slow: u32) -> Duration {
    CALL_TIMEOUT.saturating_mul(1 << slow.min(MOST_DOUBLINGS))
}

/// Returns how slow it counts as after an answer that took so long; `None`: it did not come in time.
pub(super) fn slowness(before: u32, took: Option<Duration>) -> u32 {
    let less = before.saturating_sub(1);
    match took {
        None => before.saturating_add(1).min(MOST_DOUBLINGS),
        // The shorter time would have done twice.
        Some(took) if took.saturating_mul(2) <= patience(less) => less,
        Some(_) => before,
    }
}

/// Waits for one answer, but not for ever.
pub(in crate::cluster) async fn once<T>(
    answer: impl Future<Output = kube::Result<T>>,
) -> Result<T, CallError> {
    within(CALL_TIMEOUT, answer).await
}

pub(super) async fn within<T>(
    patience: Duration,
    answer: impl Future<Output = kube::Result<T>>,
) -> Result<T, CallError> {
    match deadline::within(patience, answer).await {
        Some(Ok(answer)) => Ok(answer),
        Some(Err(kube::Error::Api(status))) => {
            Err(CallError::Refused { code: status.code, message: status.message.clone() })
        }
        Some(Err(error)) => Err(CallError::Failed(Box::new(error))),
        None => Err(CallError::Silent(patience)),
    }
}

/// Code with which the API server refused a watch; `None` when it did not, and the watch broke in another
/// way.
pub(crate) fn watch_refusal(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status.code),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_api_server_that_is_slow_has_more_time_until_it_is_not() {
        let table = [
            (0, None, 1),
            (1, None, 2),
            (2, None, 2),
            (2, Some(10), 2),
            (2, Some(6), 2),
            (2, Some(5), 1),
            (1, Some(3), 1),
            (1, Some(2), 0),
            (0, Some(4), 0),
        ];
        for (before, took, expected) in table {
            let took = took.map(Duration::from_secs);
            assert_eq!(slowness(before, took), expected, "{before} {took:?}");
        }
        assert_eq!([0, 1, 2, 3].map(|slow| patience(slow).as_secs()), [5, 10, 20, 20]);
    }
}
