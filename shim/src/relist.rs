//! Which of the kubelet's lists of all containers is the one of its PLEG.
//!
//! A nudge that another part of the kubelet gets is lost: log rotation and the statistics list all containers
//! too, every ten seconds, and complain of one they cannot find. PLEG, each second, lists all sandboxes and
//! then all containers; so the first list of containers after such a list of sandboxes is taken for it. The
//! statistics list sandboxes after containers, with a filter that says nothing; PLEG sends none, and from
//! kubelet 1.36 on the same one. So lists without a filter count, and where there are none, those with an
//! empty one. That is a habit and no contract: when neither is seen any more, every list of containers may be
//! the one.

use std::sync::atomic::{AtomicU8, Ordering};

/// More lists of containers than the rest of the kubelet asks for between two relists.
const STRAY: u8 = 6;

/// The lists of one connection.
#[derive(Debug, Default)]
pub(crate) struct Relists {
    /// The lists of all containers since the last one of all sandboxes; stays at [`STRAY`].
    since: AtomicU8,
    /// The same, since the last one with an empty filter.
    since_empty: AtomicU8,
}

impl Relists {
    /// All sandboxes were asked for.
    pub(crate) fn sandboxes(&self, empty_filter: bool) {
        let since = if empty_filter { &self.since_empty } else { &self.since };
        since.store(0, Ordering::Relaxed);
    }

    /// All containers were asked for: by PLEG, as far as can be told?
    pub(crate) fn containers(&self) -> bool {
        let counted = [&self.since, &self.since_empty].map(|since| {
            // One thread serves a connection; nothing comes between these two.
            let lists = since.load(Ordering::Relaxed);
            since.store((lists + 1).min(STRAY), Ordering::Relaxed);
            lists
        });
        match counted {
            [STRAY, STRAY] => true,
            [STRAY, lists] | [lists, _] => lists == 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `s` lists all sandboxes, `e` with an empty filter, `c` all containers. Gives the answers to the last.
    fn plegs(lists: &str) -> Vec<bool> {
        let relists = Relists::default();
        let answers = lists.chars().filter_map(|list| match list {
            's' | 'e' => {
                relists.sandboxes(list == 'e');
                None
            }
            _ => Some(relists.containers()),
        });
        answers.collect()
    }

    #[test]
    fn tells_plegs_from_others() {
        let table: [(&str, &[bool]); 8] = [
            ("scscsc", &[true, true, true]),
            // Log rotation, statistics and garbage collection in between.
            ("sccsc", &[true, false, true]),
            ("sccccsc", &[true, false, false, false, true]),
            ("sccesc", &[true, false, true]),
            ("scceccsc", &[true, false, false, false, true]),
            // A kubelet with the other order.
            ("cscscs", &[true, true, true]),
            // One that lists no sandboxes.
            ("ccccccccc", &[true, false, false, false, false, false, true, true, true]),
            // Kubelet 1.36 lists without a filter when it starts, and never again.
            ("sccccccececcceec", &[true, false, false, false, false, false, true, true, false, false, true]),
        ];
        for (lists, expected) in table {
            assert_eq!(plegs(lists), expected, "{lists}");
        }
    }
}
