//! Room for answers in the node's object: what is too large for etcd is refused as a whole, and nobody's
//! answer would be written any more.

use berth_proto::{
    crd::{DesiredPod, UpdatedPod},
    size::bytes,
};

/// Bytes of entries and answers together. etcd takes 1.5 MiB, and the names of all fields are in there again.
const MOST: usize = 1 << 20;
/// Bytes that answers have however much is asked for.
const LEAST: usize = 256 << 10;

/// Bytes that are left for answers.
#[derive(Debug)]
pub(super) struct Room(usize);

impl Room {
    /// Room beside what is asked for and was answered.
    pub(super) fn of<'a>(desired: &[DesiredPod], answers: impl Iterator<Item = &'a UpdatedPod>) -> Self {
        let most = MOST.saturating_sub(bytes(&desired)).max(LEAST);
        Self(answers.fold(most, |left, answer| left.saturating_sub(bytes(answer))))
    }

    /// Takes the room of an answer in the place of another one. False: there is not so much. One that is no
    /// larger than what it replaces always has room.
    pub(super) fn take(&mut self, old: Option<&UpdatedPod>, new: &UpdatedPod) -> bool {
        let (old, new) = (old.map_or(0, bytes), bytes(new));
        match new.checked_sub(old) {
            None | Some(0) => self.0 = self.0.saturating_add(old.saturating_sub(new)),
            Some(more) if more <= self.0 => self.0 = self.0.saturating_sub(more),
            Some(_) => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use berth_policy::in_place_update::UpdateReport;
    use k8s_openapi::jiff::Timestamp;

    use super::*;
    use crate::update::report;

    fn answer(bytes: usize) -> UpdatedPod {
        let plain =
            report::pod(&DesiredPod::default(), &UpdateReport::default(), None, Timestamp::UNIX_EPOCH);
        UpdatedPod { message: Some("x".repeat(bytes)), ..plain }
    }

    fn entry(bytes: usize) -> DesiredPod {
        let annotations = [("a".to_owned(), "x".repeat(bytes))].into();
        DesiredPod { annotations, ..DesiredPod::default() }
    }

    #[test]
    fn answers_have_what_entries_leave() {
        const KIB: usize = 1024;
        // What is asked for, what was answered, the old and the new answer, and whether it has room.
        let table = [
            (0, 0, None, 900 * KIB, true),
            (0, 0, None, 1100 * KIB, false),
            (0, 900 * KIB, None, 200 * KIB, false),
            (600 * KIB, 0, None, 400 * KIB, true),
            (600 * KIB, 0, None, 500 * KIB, false),
            // Some room is always left.
            (1200 * KIB, 0, None, 250 * KIB, true),
            (1200 * KIB, 200 * KIB, None, 100 * KIB, false),
            // One that shrinks has room, even where too much is said already.
            (1200 * KIB, 400 * KIB, Some(400 * KIB), 399 * KIB, true),
            (1200 * KIB, 400 * KIB, Some(400 * KIB), 401 * KIB, false),
        ];
        for (asked, said, old, new, has_room) in table {
            let answers = [answer(said)];
            let mut room = Room::of(&[entry(asked)], answers.iter());
            let old = old.map(answer);
            assert_eq!(room.take(old.as_ref(), &answer(new)), has_room, "{asked} {said} {new}");
        }
        let mut room = Room::of(&[], [].iter());
        assert!(room.take(None, &answer(600 * KIB)) && !room.take(None, &answer(600 * KIB)));
        assert!(room.take(Some(&answer(600 * KIB)), &answer(0)) && room.take(None, &answer(600 * KIB)));
    }
}
