//! Messages in the status about a kubelet that stops nothing.

use std::time::Duration;

use super::play::{Play, one, strategy};

/// Rows: the second from which on the kubelet lists each second, the second that is looked at, how often the
/// status was written, and what it says then.
#[test]
fn a_kubelet_that_stops_nothing_is_told_once() {
    const NEVER: u64 = 100;
    let asks = "is its containerRuntimeEndpoint the socket of berthd?";
    let points = "look into the kubelet's log";
    for (lists_from, second, written, says) in [
        (NEVER, 9, 1, ""),
        (NEVER, 11, 2, asks),
        (NEVER, 60, 2, asks),
        (0, 11, 1, ""),
        (0, 29, 1, ""),
        (0, 31, 2, points),
        (12, 20, 2, asks),
        (12, 31, 3, points),
    ] {
        let row = format!("lists from {lists_from}, second {second}");
        let mut play = Play::new(one());
        play.request("r", &["a"], strategy());
        for passed in 1..=second {
            play.world.pass(Duration::from_secs(1));
            if passed >= lists_from {
                play.relist();
            }
            play.settle();
        }
        let message = &play.last("r").containers[0].message;
        assert!(message.ends_with(says) && message.is_empty() == says.is_empty(), "{row}: {message}");
        assert_eq!(play.reports.len(), written, "{row}: {:#?}", play.reports);
    }
}
