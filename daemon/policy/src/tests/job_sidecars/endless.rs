//! Job sidecars that the kubelet starts again whatever they exit with.

use std::time::Duration;

use super::{
    COMPLETED, TRUTH,
    play::{Play, job},
};
use crate::{Event, RestartPolicy, RestartRule, announced::Announcement};

/// By its own policy or a rule the kubelet starts it again after exit code 0 too. It is not stopped only to
/// be started again; the others are, and an Event says so once.
#[test]
fn a_sidecar_that_cannot_end() {
    let (never, on_failure) = (RestartPolicy::Never, RestartPolicy::OnFailure);
    // policy and rules of the sidecar, it cannot end
    let table: [(RestartPolicy, Vec<RestartRule>, bool); 8] = [
        (RestartPolicy::Always, vec![], true),
        (on_failure, vec![], false),
        (never, vec![], false),
        (never, vec![RestartRule::In(vec![0])], true),
        (never, vec![RestartRule::In(vec![42])], false),
        (on_failure, vec![RestartRule::NotIn(vec![42])], true),
        (on_failure, vec![RestartRule::NotIn(vec![0])], false),
        (never, vec![RestartRule::Unknown], false),
    ];
    for (own, rules, endless) in table {
        let case = format!("{own:?} {rules:?}");
        let mut pod = job(never, &[("m", "0"), ("s", "0"), ("s2", "0")]);
        let spec = pod.containers.get_mut(&"s".into()).unwrap();
        (spec.restart_policy, spec.restart_rules) = (Some(own), rules);
        let mut play = Play::of(&pod);
        play.settle();
        assert_eq!(play.did, [""; 0], "{case}: its mains run");
        play.exits("m-0", 1);
        let told = |play: &Play| play.did.iter().filter(|did| did.starts_with("tell!")).count();
        assert_eq!(told(&play), usize::from(endless), "{case}");
        let ended: &[&str] = if endless {
            &["mark s2", "stop s2-0 30s"]
        } else {
            &["mark s s2", "stop s-0 30s", "stop s2-0 30s"]
        };
        assert_eq!(play.done(), ended, "{case}");
        assert_eq!(play.shown("s-0"), if endless { TRUTH } else { COMPLETED }, "{case}");
        play.world.apply(Event::PodsListed(vec![pod.clone()]));
        play.world.pass(Duration::from_secs(1));
        play.looks("s-0");
        assert_eq!(told(&play), 0, "{case}: it is said once");
        assert_eq!(play.done(), [""; 0], "{case}: nothing is done to it");
        let facts = play.world.node.facts(play.world.now, |_, _| true);
        let s = facts[0].containers.iter().find(|container| container.name.as_str() == "s").unwrap();
        assert_eq!(s.ends_with_job, !endless, "{case}: and people are told so");
        play.world.apply(Event::PodGone(pod.pod.uid.clone()));
        assert!(!play.world.node.announced.has(&pod.pod.uid, Announcement::EndlessSidecars));
    }
}
