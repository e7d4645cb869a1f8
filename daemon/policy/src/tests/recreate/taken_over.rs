//! Requests that an earlier process has begun go first, whichever is read first.

use std::time::Duration;

use super::play::{Play, exec, one, strategy, with_hook};
use crate::{Config, Event, MarkPhase, Origin, RecreateMark, RecreateStrategy, RequestPhase};

/// Both were made in the same second, so a list has them by their identities.
#[test]
fn a_request_that_was_begun_goes_before_one_that_is_listed_first() {
    let mut play = Play::new(with_hook(one(), "a", exec()));
    play.request("z", &["a"], strategy());
    assert!(play.relist() > 0 && play.looks("a-1") && play.hook("a-1"));
    play.request("b", &["a"], RecreateStrategy { force: true, ..strategy() });
    play.dies();
    assert_eq!(play.last("b").containers[0].message, "waits for request ns/z");
    assert_eq!(play.store.len(), 1, "{:?}", play.store);
    play.world.pass(Duration::from_secs(1));
    play.settle();
    assert!(play.relist() > 0 && play.looks("a-1"));
    assert!(!play.hook("a-1"), "it was begun before");
    play.stop("a-1", 30);
    let next = play.start("a");
    play.succeeded("z");
    let last = play.replaced_by_kubelet("a", &next);
    play.succeeded("b");
    assert!(play.runs(&last) && play.instances == 3, "{}", play.instances);
}

#[test]
fn one_whose_source_is_still_to_be_read_goes_first_too() {
    for is_there in [true, false] {
        let config = Config { file_requests: true, ..Config::default() };
        let mut play = Play::on(config, one());
        let (request, name, container) = ("z".into(), "a".into(), "a-1".into());
        let mark = RecreateMark { request, name, container, phase: MarkPhase::Shown };
        play.world.apply(Event::MarksLoaded(vec![mark]));
        let strategy = RecreateStrategy { unready_grace: Some(Duration::ZERO), ..strategy() };
        play.request("b", &["a"], strategy.clone());
        let marks = |play: &Play| play.effects.iter().filter(|effect| effect.starts_with("mark")).count();
        assert_eq!(marks(&play), 0, "{:?}", play.effects);
        assert!(play.last("b").containers[0].message.starts_with("waits until all requests are read"));
        assert_eq!(play.last("b").phase, Some(RequestPhase::Pending));
        assert!(!play.last("b").unready, "nor is the pod drained for it");
        let listed = match is_there {
            true => vec![crate::RecreateRequest { origin: Origin::File, ..play.asks("z", &["a"], strategy) }],
            false => Vec::new(),
        };
        play.world.apply(Event::RecreatesListed(Origin::File, listed));
        play.settle();
        assert_eq!(marks(&play), usize::from(!is_there), "{:?}", play.effects);
        if is_there {
            assert_eq!(play.last("b").containers[0].message, "waits for request ns/z");
        }
    }
}
