//! Lines that are printed for one look after another.

use berth_proto::admin::{ContainerUpdateState, RecreateState, UpdateState};

use super::*;
use crate::fake_berthd::recreate_state as recreate;

fn update(phase: &str, message: &str, containers: &[(&str, &str)]) -> UpdateState {
    let containers = containers.iter().map(|(name, phase)| ContainerUpdateState {
        name: (*name).into(),
        phase: (*phase).into(),
        message: String::new(),
    });
    UpdateState {
        phase: phase.into(),
        message: message.into(),
        containers: containers.collect(),
        ..UpdateState::default()
    }
}

#[test]
fn only_what_changed_is_told() {
    let mut story = Story::default();
    let told = |story: &mut Story, state: &RecreateState| story.goes_on(&state.progress());
    assert!(told(&mut story, &recreate("", "", &[("app", "", false), ("logger-1", "", false)])).is_empty());
    let begun = recreate("Recreating", "", &[("app", "Recreating", false), ("logger-1", "Pending", false)]);
    let lines = ["app       Recreating", "logger-1  Pending", "request   Recreating"];
    assert_eq!(told(&mut story, &begun), lines);
    assert!(told(&mut story, &begun).is_empty());
    let stopped = recreate("Recreating", "", &[("app", "Recreating", true), ("logger-1", "Pending", false)]);
    assert_eq!(told(&mut story, &stopped), ["app       Recreating, told to stop"]);
    let mut ended =
        recreate("Completed", "Failed", &[("app", "Succeeded", true), ("logger-1", "Failed", false)]);
    (ended.reason, ended.message) = ("PodGone".into(), "pod has gone".into());
    ended.containers[1].message = "pod has gone".into();
    let lines = [
        "app       Succeeded",
        "logger-1  Failed: pod has gone",
        "request   Completed, failed (PodGone): pod has gone",
    ];
    assert_eq!(told(&mut story, &ended), lines);
    assert_eq!(why(&ended.progress()), "failed (PodGone): pod has gone; logger-1 is failed: pod has gone");
}

#[test]
fn an_update_that_returns() {
    let mut story = Story::default();
    assert!(story.goes_on(&update("", "", &[("main", "")]).progress()).is_empty());
    let pulls = update("Updating", "pulling web:v2 before anything is stopped", &[("main", "Pending")]);
    let lines = ["main     Pending", "request  Updating: pulling web:v2 before anything is stopped"];
    assert_eq!(story.goes_on(&pulls.progress()), lines);
    let begun = update("Updating", "waiting for main to be Ready", &[("main", "Updating")]);
    let lines = ["main     Updating", "request  Updating: waiting for main to be Ready"];
    assert_eq!(story.goes_on(&begun.progress()), lines);
    let mut back = update("RollingBack", "too late; the pod returns to what it was", &[("main", "Updating")]);
    back.reason = "DeadlineExceeded".into();
    assert_eq!(
        story.goes_on(&back.progress()),
        ["request  RollingBack: too late; the pod returns to what it was"]
    );
    let ended = UpdateState { phase: "Completed".into(), outcome: "Failed".into(), ..back };
    assert_eq!(
        why(&ended.progress()),
        "failed (DeadlineExceeded): too late; the pod returns to what it was; main is updating"
    );
}
