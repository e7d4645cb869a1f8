//! Workloads that pull ahead of their update.

use berth_proto::crd::{ImagePhase, WantedBy};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use rstest::rstest;

use super::world::*;
use crate::{
    images::{Progress, PullAhead, predownload::*},
    seen::PodStage,
};

fn ahead(annotations: &[(&str, &str)], image: &str) -> Result<PullAhead, String> {
    let owner = WantedBy { kind: "CloneSet".into(), namespace: NAMESPACE.into(), name: "web".into() };
    let pods = LabelSelector { match_labels: Some(labels(&[("app", "web")])), match_expressions: None };
    PullAhead::new(owner, "uid-of-web", &labels(annotations), image, &pods, None)
}

#[test]
fn nodes_of_its_pods_are_asked_like_those_of_a_job() {
    let mut world = World::with_nodes(4);
    for number in 0..3 {
        world.pod(&format!("p{number}"), &format!("n{number}"), &[("app", "web")], PodStage::Active);
    }
    let wanted = ahead(&[(PARALLELISM, "50%")], "r.example.com/web:2").unwrap();
    let effects = world.index.want_ahead(&wanted, world.now());
    world.carry_out(effects);
    let uid = wanted.uid().clone();
    assert_eq!(world.placed(&uid), ["n0", "n1"]);
    let entry = &world.images["n0"].desired[0];
    let limits = entry.pull_policy.as_ref().unwrap();
    assert_eq!((limits.timeout_seconds, limits.backoff_limit), (Some(300), Some(1)));
    assert_eq!(entry.wanted_by.as_ref().unwrap().kind, "CloneSet");
    world.answer("n0", &uid, ImagePhase::Succeeded);
    world.answer("n1", &uid, ImagePhase::Failed);
    let progress = Progress { desired: 3, active: 1, succeeded: 1, failed: 1 };
    assert_eq!(world.index.ahead(&uid), Some(progress));

    // A manager that comes new reads the same from the NodeImages.
    world.fail_over();
    let effects = world.index.want_ahead(&wanted, world.now());
    world.carry_out(effects);
    assert_eq!(world.index.ahead(&uid), Some(progress));
    world.pass(seconds(60));
    assert!(world.asks.values().all(|times| *times == 1));
    let effects = world.index.index.forget_ahead(&uid, world.now());
    world.carry_out(effects);
    assert!(world.placed(&uid).is_empty() && world.index.ahead(&uid).is_none());
}

#[rstest]
#[case::parallelism(&[(PARALLELISM, "lots")], "r.example.com/web:2", PARALLELISM)]
#[case::timeout(&[(TIMEOUT_SECONDS, "0")], "r.example.com/web:2", TIMEOUT_SECONDS)]
#[case::image(&[], "UPPER/case", "image")]
fn what_makes_no_sense_is_named(
    #[case] annotations: &[(&str, &str)],
    #[case] image: &str,
    #[case] names: &str,
) {
    let error = ahead(annotations, image).unwrap_err();
    assert!(error.contains(names) && error.contains("CloneSet shop/web"), "{error}");
    assert!(ahead(&[], "r.example.com/web:2").is_ok());
}
