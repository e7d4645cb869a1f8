//! Pauses between attempts to reach the API server.

use std::time::Duration;

use berth_policy::API_PAUSES;

/// The pause after the attempt of this number, counted from 0.
pub fn after(attempt: usize) -> Duration {
    API_PAUSES[attempt.min(API_PAUSES.len() - 1)]
}
