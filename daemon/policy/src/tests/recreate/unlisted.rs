//! A new berthd while the runtime does not answer its list: what it does not know it does not say.

use crate::{
    RestartPolicy, Restate, Showing,
    tests::recreate::play::{Play, one, strategy},
};

/// The container had exited for its request when berthd died: told as it is, it may be the pod's end.
#[test]
fn a_marked_container_is_shown_when_the_runtime_was_listed_and_not_before() {
    for (policy, shown) in [
        (RestartPolicy::Never, Showing::StillRunning),
        (RestartPolicy::OnFailure, Showing::StillRunning),
        (RestartPolicy::Always, Showing::Truth),
    ] {
        let mut play = Play::new(one().restarts(policy));
        play.request("r", &["a"], strategy());
        assert!(play.relist() > 0 && play.looks("a-1"), "{policy:?}");
        play.stop("a-1", 30);
        play.comes_back();
        let (kubelet, now) = (play.world.connection, play.world.now);
        let restated = |play: &Play, id: &str| play.world.node.restate(kubelet, &id.into(), now);
        assert_eq!(restated(&play, "a-1"), Restate::Later, "{policy:?}");
        assert_eq!(restated(&play, "b-1"), Restate::Show(Showing::Truth), "it has no mark");
        let row = play.world.node.in_advance(now).containers.get(&"a-1".into()).copied();
        assert!(row.is_none_or(|row| row.status.is_none()), "{policy:?} {row:?}");
        play.lists();
        assert_eq!(play.sees("a-1"), shown, "{policy:?}");
        // The runtime has listed, and does not have it.
        play.world.runtime.clear();
        play.lists();
        assert_eq!(restated(&play, "a-1"), Restate::Show(Showing::Truth), "{policy:?}");
    }
}
