//! Which of the kubelet's lists of all containers is the one of its PLEG.
//!
//! A nudge that another part of the kubelet gets is lost: log rotation and the statistics list all containers
//! too, every ten seconds, and complain of one they cannot find. PLEG, each second, lists all sandboxes
//! (without a filter, while the statistics send an empty one) and then all containers; so the first list of
//! containers after such a list of sandboxes is taken for it. That is a habit and no contract: when no such
//! list of sandboxes is seen any more, every list of containers may be the one.

use std::sync::atomic::{AtomicU8, Ordering};

/// More lists of containers than the rest of the kubelet asks for between two relists.
const STRAY: u8 = 6;

/// The lists of one connection.
#[derive(Debug, Default)]
pub(crate) struct Relists {
    /// The lists of all containers since the last one of all sandboxes; stays at [`STRAY`].
    since: AtomicU8,
}

impl Relists {
    /// All sandboxes were asked for.
    pub(crate) fn sandboxes(&self) {
        self.since.store(0, Ordering::Relaxed);
    }

    /// All containers were asked for: by PLEG, as far as can be told?
    pub(crate) fn containers(&self) -> bool {
        // One thread serves a connection; nothing comes between these two.
        let since = self.since.load(Ordering::Relaxed);
        self.since.store((since + 1).min(STRAY), Ordering::Relaxed);
        since == 0 || since == STRAY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `s` lists all sandboxes, `c` all containers. Gives the answers to the latter.
    fn plegs(lists: &str) -> Vec<bool> {
        let relists = Relists::default();
        let answers = lists.chars().filter_map(|list| match list {
            's' => {
                relists.sandboxes();
                None
            }
            _ => Some(relists.containers()),
        });
        answers.collect()
    }

    #[test]
    fn tells_plegs_from_others() {
        let table: [(&str, &[bool]); 5] = [
            ("scscsc", &[true, true, true]),
            // Log rotation, statistics and garbage collection in between.
            ("sccsc", &[true, false, true]),
            ("sccccsc", &[true, false, false, false, true]),
            // A kubelet with the other order.
            ("cscscs", &[true, true, true]),
            // One that lists no sandboxes.
            ("ccccccccc", &[true, false, false, false, false, false, true, true, true]),
        ];
        for (lists, expected) in table {
            assert_eq!(plegs(lists), expected, "{lists}");
        }
    }
}
