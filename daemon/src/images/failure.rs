//! Why a pull failed, in words for people: from the runtime's errors, and from those of several credentials.

use std::error::Error;

use berth_policy::PullFailure;
use berth_proto::cri::AuthConfig;
use tonic::{Code, Status};

use crate::base::causes::innermost;

/// A registry can answer with a whole page.
const LONGEST: usize = 512;

/// Meaning of an error of the runtime for the pull.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It ends.
    Final(PullFailure),
    /// Other credentials may do better. The runtime does not say what it was that failed.
    Next(String),
}

/// The attempts of one pull so far.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    with_credentials: usize,
    anonymous: bool,
    /// The first of those with credentials. What the anonymous one says would hide that a password is wrong.
    first: Option<String>,
    anonymous_text: Option<String>,
}

impl Refusal {
    /// Reads the answer to an attempt with these credentials; none of them is in the result.
    pub(super) fn of(status: &Status, auth: Option<&AuthConfig>) -> Self {
        // A status with a cause was made here: there was no answer. Other credentials get none either.
        if let Some(cause) = status.source() {
            let text = format!("the runtime went away: {}", innermost(cause));
            return Self::Final(PullFailure::Away(cut(&text)));
        }
        let text = text(status, auth);
        match status.code() {
            Code::InvalidArgument => Self::Final(PullFailure::Impossible(text)),
            // The runtime's own limit, or somebody ended it there.
            Code::DeadlineExceeded | Code::Cancelled => Self::Final(PullFailure::Refused(text)),
            _ => Self::Next(text),
        }
    }
}

impl Attempts {
    /// One failed with this text.
    pub(super) fn failed(&mut self, with_credentials: bool, text: String) {
        if with_credentials {
            self.with_credentials += 1;
            self.first.get_or_insert(text);
        } else {
            self.anonymous = true;
            self.anonymous_text.get_or_insert(text);
        }
    }

    /// All of them failed; `notes` is about credentials that could not be had.
    pub(super) fn failure(self, notes: &[String]) -> PullFailure {
        let tried = match (self.with_credentials, self.anonymous) {
            (0, _) => "without credentials".to_owned(),
            (1, false) => "with 1 credential".to_owned(),
            (1, true) => "with 1 credential and without".to_owned(),
            (many, false) => format!("with {many} credentials"),
            (many, true) => format!("with {many} credentials and without"),
        };
        let text = self.first.or(self.anonymous_text).unwrap_or_default();
        let notes: String = notes.iter().map(|note| format!("; {note}")).collect();
        PullFailure::Refused(format!("{text} (tried {tried}{notes})"))
    }
}

/// Gives the runtime's text, without the marks of the gRPC calls it went through on its way.
fn text(status: &Status, auth: Option<&AuthConfig>) -> String {
    const MARK: &str = "rpc error: code = ";
    const END: &str = " desc = ";
    let mut text = status.message().to_owned();
    while let Some(begin) = text.find(MARK) {
        let Some(length) = text[begin..].find(END) else { break };
        text.replace_range(begin..begin + length + END.len(), "");
    }
    // No runtime is known to print them. What it prints is the registry's, who knows them.
    for secret in auth.into_iter().flat_map(secrets) {
        text = text.replace(secret, "***");
    }
    let text = without_queries(text.trim());
    if text.is_empty() {
        return format!("the runtime gives no reason ({:?})", status.code());
    }
    cut(&text)
}

/// Registries send a client to storage with a signature in the query of a URL, and runtimes put that URL into
/// their errors.
fn without_queries(text: &str) -> String {
    let word = |word: &str| match word.split_once('?') {
        Some((address, _)) if address.contains("://") => {
            let quote = if word.contains('"') { "\"" } else { "" };
            format!("{address}?***{quote}")
        }
        _ => word.to_owned(),
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// Short ones would tear words apart that have nothing to do with them.
fn secrets(auth: &AuthConfig) -> impl Iterator<Item = &str> {
    let fields = [&auth.password, &auth.auth, &auth.identity_token, &auth.registry_token];
    fields.into_iter().map(String::as_str).filter(|secret| secret.len() >= 4)
}

fn cut(text: &str) -> String {
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    format!("{}…", crate::base::text::cut(text, LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtimes_words() {
        let table = [
            (
                "rpc error: code = NotFound desc = failed to pull: rpc error: code = Unknown desc = not found",
                "failed to pull: not found",
            ),
            ("  plain\n", "plain"),
            (
                "httpReadSeeker: failed open: Get \"https://s.example/b?X-Amz-Signature=canary&x=1\": dial tcp",
                "httpReadSeeker: failed open: Get \"https://s.example/b?***\" dial tcp",
            ),
            ("what? why", "what? why"),
            ("rpc error: code = ", "rpc error: code ="),
            ("", "the runtime gives no reason (Unknown)"),
        ];
        for (message, text) in table {
            assert_eq!(Refusal::of(&Status::unknown(message), None), Refusal::Next(text.to_owned()));
        }
    }

    #[test]
    fn codes_decide() {
        let of = |code| Refusal::of(&Status::new(code, "x"), None);
        assert_eq!(of(Code::InvalidArgument), Refusal::Final(PullFailure::Impossible("x".to_owned())));
        assert_eq!(of(Code::DeadlineExceeded), Refusal::Final(PullFailure::Refused("x".to_owned())));
        assert_eq!(of(Code::Cancelled), Refusal::Final(PullFailure::Refused("x".to_owned())));
        for code in [Code::NotFound, Code::Unavailable, Code::PermissionDenied, Code::Internal] {
            assert_eq!(of(code), Refusal::Next("x".to_owned()));
        }
    }

    #[tokio::test]
    async fn a_runtime_that_is_away_is_not_asked_twice() {
        let runtime = crate::images::runtime::ImageRuntime::new(&"unix:///nowhere.sock".parse().unwrap());
        let status = runtime.pull("app:1", None, &Default::default(), &Default::default()).await.unwrap_err();
        let text = "the runtime went away: No such file or directory (os error 2)".to_owned();
        assert_eq!(Refusal::of(&status, None), Refusal::Final(PullFailure::Away(text)));
    }

    #[test]
    fn no_secrets_and_no_novels() {
        let auth = AuthConfig { password: "hunter22".to_owned(), ..AuthConfig::default() };
        let status = Status::unknown(format!("no hunter22 here {}", "ä".repeat(2000)));
        let Refusal::Next(text) = Refusal::of(&status, Some(&auth)) else { panic!("final") };
        assert!(text.starts_with("no *** here ä") && text.ends_with("ä…"), "{text}");
        assert!(text.len() <= LONGEST + '…'.len_utf8());
    }

    #[test]
    fn the_first_failure_counts() {
        let failure = |texts: &[(bool, &str)], notes: &[&str]| {
            let mut attempts = Attempts::default();
            for (with_credentials, text) in texts {
                attempts.failed(*with_credentials, (*text).to_owned());
            }
            let notes: Vec<String> = notes.iter().map(|note| (*note).to_owned()).collect();
            attempts.failure(&notes).to_string()
        };
        let table = [
            (failure(&[(false, "not found")], &[]), "not found (tried without credentials)"),
            (
                failure(&[(true, "wrong password"), (false, "unauthorized")], &[]),
                "wrong password (tried with 1 credential and without)",
            ),
            (
                failure(&[(true, "one"), (true, "two"), (false, "none")], &["1 of 1 not opened"]),
                "one (tried with 2 credentials and without; 1 of 1 not opened)",
            ),
        ];
        for (failure, expect) in table {
            assert_eq!(failure, expect);
        }
    }
}
