//! The room in the NodeImage of a node: what one namespace may have there, and what all may have together.
//!
//! etcd takes objects of 1.5 MiB. A third of that is left to what users and OpenKruise's controllers write
//! there; the rest is shared by the wishes of all namespaces. An agent reads an object that takes so much
//! memory and no more, so a wish of many small labels weighs more than its text. An entry once written stays
//! until its job goes, so nothing is taken from one namespace for another: a namespace has [`OF_ONE`] at the
//! most, and the last [`FOR_LITTLE`] are for those that have little.

use std::{collections::BTreeMap, sync::Arc};

use berth_proto::crd::DesiredImage;

use crate::size;

/// Room for the wishes of all namespaces together.
pub(super) const OF_ALL: usize = 1 << 20;
/// Room for those of one namespace: the largest job that the definition lets in, with its credentials. Each
/// write of the object sends and checks all of it, so what one namespace has there, all others wait for.
pub(super) const OF_ONE: usize = 16 << 10;
/// Part of it all that only those get that have [`LITTLE`] with it.
pub(super) const FOR_LITTLE: usize = 256 << 10;
/// Half a dozen wishes as they usually are.
pub(super) const LITTLE: usize = 8 << 10;
/// Bytes that a wish takes besides itself: what the agent answers (its message has 512 bytes at the most),
/// and who owns which field.
pub(super) const EACH: usize = 1 << 10;
/// Bytes that the credentials of a wish take, until they are sealed and weighed.
pub(super) const SEALED: usize = 10 << 10;

/// The room that a wish takes: bytes as JSON, or more (`size::weight`). Keys of maps count twice: they are in
/// `managedFields` too.
pub(super) fn weight(content: &DesiredImage, sealed: usize) -> usize {
    let config = content.sandbox_config.iter();
    let keys = config.flat_map(|config| config.labels.keys().chain(config.annotations.keys()));
    let keys = keys.map(|key| key.len().saturating_add(8)).fold(0, usize::saturating_add);
    [size::weight(content), keys, sealed, EACH].into_iter().fold(0, usize::saturating_add)
}

/// Use of the room of one node.
#[derive(Clone, Debug, Default)]
pub(super) struct Room {
    all: usize,
    by_namespace: BTreeMap<Arc<str>, usize>,
}

impl Room {
    /// Tells whether a wish of this namespace fits.
    pub(super) fn fits(&self, namespace: &str, weight: usize) -> bool {
        let own = self.of(namespace).saturating_add(weight);
        let all = self.all.saturating_add(weight);
        let most = if own <= LITTLE { OF_ALL } else { OF_ALL - FOR_LITTLE };
        own <= OF_ONE && all <= most
    }

    pub(super) fn take(&mut self, namespace: &Arc<str>, weight: usize) {
        self.all = self.all.saturating_add(weight);
        let own = self.by_namespace.entry(namespace.clone()).or_default();
        *own = own.saturating_add(weight);
    }

    pub(super) fn give_back(&mut self, namespace: &str, weight: usize) {
        self.all = self.all.saturating_sub(weight);
        if let Some(own) = self.by_namespace.get_mut(namespace) {
            *own = own.saturating_sub(weight);
            if *own == 0 {
                self.by_namespace.remove(namespace);
            }
        }
    }

    fn of(&self, namespace: &str) -> usize {
        self.by_namespace.get(namespace).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use berth_base::sent::Sent;
    use berth_proto::crd::{ImagePhase, NodeImage, NodeImageStatus, PullStatus, SandboxConfig, WantedBy};
    use rstest::rstest;

    use super::*;

    /// A wish with so many labels and annotations, whose values have so many bytes.
    fn wish(each: usize, bytes: usize) -> DesiredImage {
        let map = || (0..each).map(|key| (key.to_string(), "x".repeat(bytes))).collect();
        let namespace = "shop".to_owned();
        DesiredImage {
            uid: "0cbbf9c8-5d6a-4c3e-9a47-1a0f3d1f2b11".to_owned(),
            image: "registry.example.com/shop/app:1".to_owned(),
            wanted_by: Some(WantedBy { kind: "ImagePullJob".to_owned(), namespace, name: "job".to_owned() }),
            sandbox_config: (each > 0).then(|| SandboxConfig { labels: map(), annotations: map() }),
            ..DesiredImage::default()
        }
    }

    #[rstest]
    #[case::plain(0, 0, false)]
    #[case::large(1, 4096, false)]
    #[case::many_small_labels(256, 0, true)]
    fn many_small_labels_weigh_more_than_their_text(
        #[case] each: usize,
        #[case] bytes: usize,
        #[case] more: bool,
    ) {
        let wish = wish(each, bytes);
        let keys: usize = (0..each).map(|key| key.to_string().len() + 8).sum();
        let text = size::bytes(&wish) + 2 * keys + EACH;
        let is_more = weight(&wish, 0) > text + text / 8;
        assert_eq!(is_more, more, "{} {text}", weight(&wish, 0));
        assert!(weight(&wish, 0) <= OF_ONE, "the largest numbers of labels that the definition lets in");
    }

    /// With an answer to each wish.
    #[rstest]
    #[case::plain(0, 0)]
    #[case::small_labels(256, 0)]
    #[case::a_few_labels(8, 1)]
    fn an_object_that_is_full_can_be_read(#[case] each: usize, #[case] bytes: usize) {
        let wish = wish(each, bytes);
        let answer = PullStatus {
            uid: wish.uid.clone(),
            phase: ImagePhase::Failed,
            message: Some("x".repeat(512)),
            version: None,
            progress: None,
            start_time: None,
            completion_time: None,
            image_id: None,
        };
        let count = OF_ALL / weight(&wish, 0);
        let (desired_images, pulls) = (vec![wish; count], vec![answer; count]);
        let mut object = NodeImage::new("node-a", Default::default());
        object.status = Some(NodeImageStatus { desired_images, pulls, ..NodeImageStatus::default() });
        let read: Sent<NodeImage> = serde_json::from_str(&serde_json::to_string(&object).unwrap()).unwrap();
        assert!(matches!(read, Sent::Read(_)), "{count} wishes");
    }

    fn taken(of: &[(&str, usize)]) -> Room {
        let mut room = Room::default();
        for (namespace, weight) in of {
            room.take(&(*namespace).into(), *weight);
        }
        room
    }

    /// All that is not for the little, but for one namespace's part and 24 KiB.
    const MUCH: usize = OF_ALL - FOR_LITTLE - OF_ONE - (12 << 10);

    #[rstest]
    #[case::first_and_smallest(&[], "a", 1, true)]
    #[case::largest(&[], "a", OF_ONE, true)]
    #[case::larger(&[], "a", OF_ONE + 1, false)]
    #[case::endless(&[("a", 5)], "a", usize::MAX, false)]
    #[case::rest_of_its_own(&[("a", OF_ONE - 5)], "a", 5, true)]
    #[case::its_own_is_full(&[("a", OF_ONE - 5)], "a", 6, false)]
    #[case::another_has_its_own(&[("a", OF_ONE)], "b", OF_ONE, true)]
    #[case::the_large_leave_something(&[("a", OF_ONE), ("b", MUCH)], "c", 12 << 10, true)]
    #[case::but_not_what_is_for_the_little(&[("a", OF_ONE), ("b", MUCH)], "c", (12 << 10) + 1, false)]
    #[case::one_with_little(&[("a", OF_ONE), ("b", MUCH), ("c", 12 << 10)], "d", LITTLE, true)]
    #[case::one_with_more_than_little(&[("a", OF_ONE), ("b", MUCH), ("c", 12 << 10), ("d", 1)], "d", LITTLE, false)]
    #[case::all_is_full(&[("a", OF_ALL)], "d", 1, false)]
    #[case::fuller_than_full(&[("a", OF_ALL * 2)], "d", 1, false)]
    #[case::all_but_one(&[("a", OF_ALL - 1)], "d", 1, true)]
    fn who_finds_room(
        #[case] of: &[(&str, usize)],
        #[case] namespace: &str,
        #[case] weight: usize,
        #[case] fits: bool,
    ) {
        assert_eq!(taken(of).fits(namespace, weight), fits);
    }

    #[test]
    fn what_is_given_back_is_there_again() {
        let mut room = taken(&[("a", OF_ONE), ("b", 7)]);
        assert!(!room.fits("a", 1));
        room.give_back("a", OF_ONE);
        assert!(room.fits("a", OF_ONE) && !room.by_namespace.contains_key("a"));
        room.give_back("b", 70);
        room.give_back("nobody", 70);
        assert_eq!((room.all, room.by_namespace.len()), (0, 0));
    }
}
