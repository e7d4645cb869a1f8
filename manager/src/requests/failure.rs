//! Why the manager ends a request that no agent will end: its reason and its text.

pub use berth_proto::crd::FailureReason;

use super::kind::RequestKind;

/// A request's end, written by the manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// For programs: the reason of the condition `Failed`.
    pub reason: FailureReason,
    /// For people: names what to look at.
    pub message: String,
}

impl Failure {
    pub(super) fn new(reason: FailureReason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// OpenKruise's text.
pub(super) const POD_GONE: &str = "pod has gone";
/// OpenKruise's text.
pub(super) const AGENT_SILENT: &str = "daemon has not responded for a long time";
/// OpenKruise's text, and one like it.
pub(super) const fn deadline_exceeded(kind: RequestKind) -> &'static str {
    match kind {
        RequestKind::Recreate => "recreating has exceeded the activeDeadlineSeconds",
        RequestKind::Update => "updating has exceeded the activeDeadlineSeconds",
    }
}
