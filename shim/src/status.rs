//! The answers the shim gives itself: the one place where a failure becomes a gRPC status.
//!
//! The kubelet shows the message to the user. It looks at the code only for NOT_FOUND and UNIMPLEMENTED,
//! which are therefore never made up here. Nor is DEADLINE_EXCEEDED before the deadline: it would fail an
//! exec probe.

use berth_policy::Refusal;
use http::{HeaderMap, HeaderName, HeaderValue, Response, header::CONTENT_TYPE};

use crate::{bounds::OutOfMemory, frames::TooLarge, upstream::DialError};

/// A gRPC status that is not OK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    code: Code,
    message: String,
}

/// The gRPC codes the shim uses, with their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Unavailable = 14,
}

// === impl Status ===

impl Status {
    /// The client's own deadline passed while its call was held.
    pub(crate) fn deadline_exceeded() -> Self {
        Self {
            code: Code::DeadlineExceeded,
            message: "the deadline of the call passed while it was held".to_owned(),
        }
    }

    /// The agent goes away, and with it a stream that would never end.
    pub(crate) fn restarting() -> Self {
        Self { code: Code::Unavailable, message: "the agent is restarting".to_owned() }
    }

    /// The connection to the runtime broke while the call was under way: nobody knows what came of it.
    pub(crate) fn connection_lost(endpoint: &crate::RuntimeEndpoint, error: &h2::Error) -> Self {
        Self {
            code: Code::Unavailable,
            message: format!("the connection to the container runtime at {endpoint} was lost: {error}"),
        }
    }

    /// A whole answer in one HEADERS frame ("trailers-only").
    pub(crate) fn into_response(self) -> Response<()> {
        let mut response = Response::new(());
        *response.headers_mut() = self.into_trailers();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        response
    }

    /// The headers of an answer with a message.
    pub(crate) fn beginning() -> Response<()> {
        let mut response = Response::new(());
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        response
    }

    /// The end of an answer that went well.
    pub(crate) fn success() -> HeaderMap {
        [(HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"))].into_iter().collect()
    }

    /// The end of an answer that has begun.
    pub(crate) fn into_trailers(self) -> HeaderMap {
        let mut trailers = HeaderMap::with_capacity(3);
        trailers.insert("grpc-status", HeaderValue::from(self.code as u16));
        if let Ok(message) = HeaderValue::try_from(percent_encoded(&self.message)) {
            trailers.insert("grpc-message", message);
        }
        trailers
    }
}

impl From<&Refusal> for Status {
    fn from(refusal: &Refusal) -> Self {
        let code = match refusal {
            Refusal::Waiting(_)
            | Refusal::Terminating
            | Refusal::PodUnknown
            | Refusal::RuntimeSilent
            | Refusal::AgentAway => Code::FailedPrecondition,
            Refusal::BadOrder(_) => Code::InvalidArgument,
            Refusal::Draining => Code::Unavailable,
        };
        Self { code, message: refusal.to_string() }
    }
}

impl From<TooLarge> for Status {
    fn from(error: TooLarge) -> Self {
        Self { code: Code::ResourceExhausted, message: error.to_string() }
    }
}

impl From<OutOfMemory> for Status {
    fn from(error: OutOfMemory) -> Self {
        Self { code: Code::ResourceExhausted, message: error.to_string() }
    }
}

impl From<&DialError> for Status {
    fn from(error: &DialError) -> Self {
        // The system's own words belong into the text: it is all the user gets to see.
        let cause = std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default();
        Self { code: Code::Unavailable, message: format!("{error}{cause}") }
    }
}

/// `grpc-message` carries printable ASCII; everything else, and `%`, as `%XX` of its UTF-8 bytes.
fn percent_encoded(message: &str) -> String {
    let mut encoded = String::with_capacity(message.len());
    for byte in message.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => encoded.push(byte.into()),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use berth_policy::launch_priority::OrderError;

    use super::*;

    #[test]
    fn every_refusal_has_its_code_and_says_why() {
        let bad = OrderError::NotOrdered { value: "Sorted".to_owned() };
        let table = [
            (
                Refusal::Waiting(vec!["a".into(), "b".into()]),
                "9",
                "launch order: waiting for container(s) a, b",
            ),
            (Refusal::Terminating, "9", "launch order: the pod is terminating"),
            (
                Refusal::BadOrder(bad),
                "3",
                "launch order: annotation apps.kruise.io/container-launch-priority is \"Sorted\"; its only value is \"Ordered\"",
            ),
            (Refusal::Draining, "14", "launch order: the agent is restarting"),
            (
                Refusal::PodUnknown,
                "9",
                "launch order: the agent does not see the pod yet; the kubelet asks again, and on the node berthctl status says why (Pod view)",
            ),
            (
                Refusal::RuntimeSilent,
                "9",
                "launch order: the runtime does not tell which containers of the pod run; the kubelet asks again, and on the node berthctl status says why (Runtime)",
            ),
            (
                Refusal::AgentAway,
                "9",
                "launch order: not ready, the agent is away; the kubelet asks again, and on the node journalctl -u berthd, or the log of its pod, says why",
            ),
        ];
        for (refusal, code, message) in table {
            let response = Status::from(&refusal).into_response();
            assert_eq!(response.headers()["grpc-status"], code);
            assert_eq!(response.headers()["grpc-message"], message);
            assert_eq!(response.headers()["content-type"], "application/grpc");
        }
    }

    #[test]
    fn encodes_what_a_header_cannot_carry() {
        let table = [
            ("plain text ~", "plain text ~"),
            ("100%", "100%25"),
            ("a\nb", "a%0Ab"),
            ("für\u{7f}", "f%C3%BCr%7F"),
            ("", ""),
        ];
        for (message, encoded) in table {
            assert_eq!(percent_encoded(message), encoded);
        }
    }
}
