//! Failures of writes, and what follows from each.

use std::time::Duration;

use berth_base::{overload::is_overload, telemetry::chain};
use tokio::time::timeout;

use super::{End, Work, Writer, run::MOST_ERRORS};

/// A question without an answer has failed after it.
const READ_WITHIN: Duration = Duration::from_secs(10);
/// A write without an answer has an unknown end after it. A webhook has up to 30 s, and the API server goes
/// on without one that may be ignored only as long as somebody waits for its answer.
const WRITTEN_WITHIN: Duration = Duration::from_secs(35);

/// Why a write was not done.
pub(crate) enum Failure {
    Changed,
    Gone,
    Taken,
    /// No answer came.
    Unknown(String),
    /// The API server, or a webhook of its, answers with an error of its own: it is not done, most likely.
    ServerError(String),
    /// It may be done later, by the word of whoever refused it: a budget.
    Held(String),
    /// The API server itself has too much to do, or what is before it: it takes no request, whatever that is
    /// about.
    Busy(String),
    Refused(String),
}

impl Work {
    /// Consequence of a failure.
    pub(super) async fn failed(
        &mut self,
        failure: Failure,
        reason: &'static str,
        end: fn(String) -> End,
    ) -> End {
        let text = failure.text();
        match failure {
            Failure::Changed | Failure::Gone => End::Changed,
            Failure::Taken => match self.read().await {
                // What there is now says what is left to do.
                End::Done => End::Changed,
                _ => {
                    self.errors = self.errors.saturating_add(1);
                    self.unread = true;
                    end(text)
                }
            },
            // As a refusal: it may be about one object alone. Should it be done all the same, that is seen
            // before anything else is decided.
            Failure::Unknown(_) | Failure::ServerError(_) => {
                self.errors = self.errors.saturating_add(1);
                self.unread = true;
                self.warn(reason, text.clone());
                end(text)
            }
            Failure::Held(_) => End::Held(Box::new(end(text))),
            // Nothing else would be done either: the plan ends, and the next one comes later each time.
            Failure::Busy(_) => {
                self.errors = self.errors.saturating_add(MOST_ERRORS);
                self.busy = true;
                end(text)
            }
            Failure::Refused(_) => {
                self.warn(reason, text.clone());
                end(text)
            }
        }
    }
}

impl Writer {
    /// One write to the API server.
    pub(crate) async fn ask<T>(
        &self,
        what: &'static str,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, Failure> {
        self.within(WRITTEN_WITHIN, what, request).await
    }

    /// One question to the API server, which changes nothing.
    pub(crate) async fn fetch<T>(
        &self,
        what: &'static str,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, Failure> {
        self.within(READ_WITHIN, what, request).await
    }

    async fn within<T>(
        &self,
        within: Duration,
        what: &'static str,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, Failure> {
        let answer = match timeout(within, request).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(Failure::of(&error)),
            Err(_) => Err(Failure::Unknown(format!("no answer within {} s", within.as_secs()))),
        };
        let outcome = answer.as_ref().map_or_else(Failure::name, |_| "done");
        self.metrics.wrote(what, outcome);
        answer
    }
}

impl Failure {
    pub(crate) fn of(error: &kube::Error) -> Self {
        let kube::Error::Api(status) = error else { return Self::Unknown(chain(error)) };
        match status.code {
            404 => Self::Gone,
            409 if status.reason == "AlreadyExists" => Self::Taken,
            409 => Self::Changed,
            429 if is_overload(status) => {
                Self::Busy(format!("the API server has too much to do: {}", status.message))
            }
            429 => Self::Held(format!("held back for now: {}", status.message)),
            // A list has become too old to go on with: nobody has refused it.
            410 => Self::Unknown(status.message.clone()),
            400..=499 => Self::Refused(status.message.clone()),
            500..=599 => Self::ServerError(status.message.clone()),
            _ => Self::Unknown(status.message.clone()),
        }
    }

    /// Tells whether the API server, or a webhook of its, has an error of its own, takes no request or gives
    /// no answer.
    pub(crate) const fn is_error(&self) -> bool {
        matches!(self, Self::Unknown(_) | Self::ServerError(_) | Self::Busy(_))
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::Changed => "conflict",
            Self::Gone => "gone",
            Self::Taken => "taken",
            Self::Unknown(_) | Self::ServerError(_) => "unknown",
            Self::Held(_) | Self::Busy(_) => "held",
            Self::Refused(_) => "refused",
        }
    }

    pub(crate) fn text(&self) -> String {
        match self {
            Self::Changed => "the object has changed since".to_owned(),
            Self::Gone => "the object is gone".to_owned(),
            Self::Taken => "the name is taken".to_owned(),
            Self::Unknown(text)
            | Self::ServerError(text)
            | Self::Held(text)
            | Self::Busy(text)
            | Self::Refused(text) => text.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_base::overload::NO_OBJECT;
    use kube::core::Status;

    use super::*;

    /// Rows: code, reason, and what it is taken for.
    #[test]
    fn what_an_answer_means() {
        let table = [
            (404, "NotFound", "gone"),
            (409, "AlreadyExists", "taken"),
            (409, "Conflict", "conflict"),
            (403, "Forbidden", "refused"),
            (410, "Expired", "unknown"),
            (422, "Invalid", "refused"),
            (429, "TooManyRequests", "held"),
            (429, NO_OBJECT, "held"),
            (500, "InternalError", "unknown"),
            (503, "ServiceUnavailable", "unknown"),
        ];
        for (code, reason, name) in table {
            let is_server_error = code >= 500;
            let status = Status::failure("budget \"web\" is forbidden", reason).with_code(code);
            let failure = Failure::of(&kube::Error::Api(Box::new(status)));
            assert_eq!(failure.name(), name, "{code} {reason}");
            assert_eq!(matches!(failure, Failure::ServerError(_)), is_server_error, "{code} {reason}");
            assert_eq!(matches!(failure, Failure::Busy(_)), reason == NO_OBJECT, "{code} {reason}");
            let says = failure.text().contains("budget \"web\"");
            assert_eq!(says, !["gone", "taken", "conflict"].contains(&name), "{}", failure.text());
        }
    }
}
