//! Words and bounds of every status that is written: how long its texts and how fine its times may be.

use std::time::Duration;

use berth_proto::crd::LONGEST_MESSAGE;
use k8s_openapi::jiff::Timestamp;

use super::text::cut;

/// Condition of a request: it ended well.
pub(crate) const COMPLETE: &str = "Complete";
/// Condition of a request: it ended otherwise.
pub(crate) const FAILED: &str = "Failed";
/// The reason of [`COMPLETE`].
pub(crate) const SUCCEEDED: &str = "Succeeded";

/// Text for a status, cut to its limit; `None` of an empty one.
pub(crate) fn said(message: &str) -> Option<String> {
    (!message.is_empty()).then(|| bounded(message))
}

/// A text as long as the definitions let a status have it: one that is longer, as a runtime's or a webhook's
/// words may be, would have the whole status refused.
pub(crate) fn bounded(message: &str) -> String {
    cut(message, LONGEST_MESSAGE).to_owned()
}

/// Cuts a time to whole seconds, which is what the API's times have.
pub(crate) fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// Takes a time to the next whole second, for what must not be taken for earlier than it was.
pub(crate) fn next_whole_second(time: Timestamp) -> Timestamp {
    let second = whole_second(time);
    if second < time { second.checked_add(Duration::from_secs(1)).unwrap_or(time) } else { second }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_as_long_as_a_status_may_have_it() {
        assert_eq!(said(""), None);
        assert_eq!(said("why").as_deref(), Some("why"));
        assert_eq!(bounded(&"x".repeat(LONGEST_MESSAGE)).len(), LONGEST_MESSAGE);
        let cut = bounded(&format!("x{}", "ü".repeat(LONGEST_MESSAGE)));
        assert!(cut.len() <= LONGEST_MESSAGE && cut.len() > LONGEST_MESSAGE - 4);
    }
}
