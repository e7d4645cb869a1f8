//! Room for answers in the node's object: what is too large for etcd is refused as a whole, and what takes
//! too much memory is not read. Nobody's answer would be written any more.

use berth_proto::{
    crd::{DesiredPod, UpdatedPod},
    size::weight,
};

/// Weight of entries and answers together. etcd takes 1.5 MiB, and the names of all fields are in there
/// again; what weighs more may take more memory than an object may.
const MOST: usize = 768 << 10;
/// Weight that answers have however much is asked for.
const LEAST: usize = 256 << 10;

/// Weight that is left for answers.
#[derive(Debug)]
pub(super) struct Room(usize);

impl Room {
    /// Room beside what is asked for, entries of this weight that cannot be read, and what was answered.
    pub(super) fn of<'a>(
        desired: &[DesiredPod],
        unreadable: usize,
        answers: impl Iterator<Item = &'a UpdatedPod>,
    ) -> Self {
        let most = MOST.saturating_sub(weight(&desired)).saturating_sub(unreadable).max(LEAST);
        Self(answers.fold(most, |left, answer| left.saturating_sub(weight(answer))))
    }

    /// Takes the room of an answer in the place of another one. False: there is not so much. One that is no
    /// larger than what it replaces always has room.
    pub(super) fn take(&mut self, old: Option<&UpdatedPod>, new: &UpdatedPod) -> bool {
        let (old, new) = (old.map_or(0, weight), weight(new));
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
    use berth_proto::crd::{NodePodUpdate, NodePodUpdateStatus, UpdateContainer, UpdatePhase, UpdateState};
    use k8s_openapi::jiff::Timestamp;

    use super::*;
    use crate::{cluster::raw::Raw, update::report};

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
            (0, 0, None, 700 * KIB, true),
            (0, 0, None, 800 * KIB, false),
            (0, 700 * KIB, None, 100 * KIB, false),
            (400 * KIB, 0, None, 300 * KIB, true),
            (400 * KIB, 0, None, 400 * KIB, false),
            // Some room is always left.
            (1200 * KIB, 0, None, 250 * KIB, true),
            (1200 * KIB, 200 * KIB, None, 100 * KIB, false),
            // One that shrinks has room, even where too much is said already.
            (1200 * KIB, 400 * KIB, Some(400 * KIB), 399 * KIB, true),
            (1200 * KIB, 400 * KIB, Some(400 * KIB), 401 * KIB, false),
        ];
        for (asked, said, old, new, has_room) in table {
            let answers = [answer(said)];
            let mut room = Room::of(&[entry(asked)], 0, answers.iter());
            let old = old.map(answer);
            assert_eq!(room.take(old.as_ref(), &answer(new)), has_room, "{asked} {said} {new}");
        }
        // What cannot be read takes room, too.
        let beside = |unreadable: usize| Room::of(&[], unreadable, [].iter()).0;
        assert_eq!([beside(300 * KIB), beside(1200 * KIB)], [beside(0) - 300 * KIB, LEAST]);
        let mut room = Room::of(&[], 0, [].iter());
        assert!(room.take(None, &answer(600 * KIB)) && !room.take(None, &answer(600 * KIB)));
        assert!(room.take(Some(&answer(600 * KIB)), &answer(0)) && room.take(None, &answer(600 * KIB)));
    }

    /// Lists of small maps take most memory for their text, such as containers with short names and images.
    #[test]
    fn an_object_that_is_full_can_be_read() {
        for containers in [0, 1, 250] {
            let names: Vec<String> = (0..containers).map(|name: u32| name.to_string()).collect();
            let asked =
                names.iter().map(|name| UpdateContainer { name: name.clone(), image: "a".to_owned() });
            let entry = DesiredPod { containers: asked.collect(), ..DesiredPod::default() };
            // As much as the two writers have.
            let desired = vec![entry.clone(); (512 << 10) / (weight(&entry) + 1)];
            let state = |name: String| UpdateState { name, phase: UpdatePhase::Pending, message: None };
            let states = names.into_iter().map(state);
            let small = UpdatedPod { containers: states.collect(), ..answer(0) };
            let (mut room, mut pods) = (Room::of(&desired, 0, [].iter()), Vec::new());
            while room.take(None, &small) {
                pods.push(small.clone());
            }
            let mut object = NodePodUpdate::new("node-a", Default::default());
            object.status = Some(NodePodUpdateStatus { desired_pods: desired, pods, ..Default::default() });
            let read: Raw = serde_json::from_str(&serde_json::to_string(&object).unwrap()).unwrap();
            assert_eq!(read.whole(), Ok(()), "{containers}");
        }
    }
}
