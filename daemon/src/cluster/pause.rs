//! How long to wait between attempts to reach the API server.

use std::time::Duration;

/// The last one is repeated.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
];

/// The pause after the attempt of this number, counted from 0.
pub fn after(attempt: usize) -> Duration {
    PAUSES[attempt.min(PAUSES.len() - 1)]
}
