//! Entries of workloads, which never go back: beside requests that do. And which pods are whose.

use std::time::Duration;

use super::{
    asking::Asking,
    world::{CONTROLLER, World, annotation},
};
use crate::in_place_update::{
    FailureReason, Observed, Sight, UpdateOutcome, UpdateOwner, UpdatePhase, UpdateSource,
};

const MINUTE: Duration = Duration::from_secs(60);
const FAILED: UpdateOutcome = UpdateOutcome::Failed(FailureReason::DeadlineExceeded);

fn pod() -> Asking {
    Asking::of(World::of(&[("a", Some(1), &[]), ("b", Some(0), &[])]))
}

fn entry(asking: &mut Asking, image: &str) {
    asking.ask("entry", &[("a", image)], &[]).source = UpdateSource::NodePodUpdate;
}

fn request(asking: &mut Asking, images: &[(&str, &str)]) {
    let deadline = Some(asking.world.now + MINUTE);
    let request = asking.ask("request", images, &[]);
    (request.rollback_on_failure, request.deadline) = (true, deadline);
}

/// Rows: what a request asks for that comes when the entry has begun and that fails, what is there in the
/// end, and how the entry ended. The entry never says that the pod is what it was before.
#[test]
fn an_entry_does_not_go_back_with_a_request() {
    let replaced = UpdateOutcome::Failed(FailureReason::Replaced);
    let table = [
        (&[("b", "bad")][..], ["a:2", "b:1"], UpdateOutcome::Complete),
        // It returns to what it found, which nobody had before the entry began.
        (&[("a", "bad")][..], ["a:2", "b:1"], replaced),
        (&[("a", "a:3"), ("b", "bad")][..], ["a:2", "b:1"], replaced),
    ];
    for (asked, there, ended) in table {
        let mut asking = pod();
        entry(&mut asking, "a:2");
        asking.act();
        assert_eq!(asking.images()[0], "a:2", "begun without a report");
        assert_eq!(asking.report("entry").previous, None);
        request(&mut asking, asked);
        asking.play(&["bad"]);
        assert_eq!(asking.images(), there, "{asked:?}");
        assert_eq!(asking.outcome("entry"), ended, "{asked:?}");
        assert_eq!(asking.outcome("request"), FAILED, "{asked:?}");
        assert!(asking.report("request").message.ends_with("the pod is what it was before"), "{asked:?}");
        assert!(!asking.report("entry").message.contains("before"), "{asked:?}");
    }
}

/// Statuses of requests have the UID that their writer likes. Rows: the pod of that UID, and
/// whether a request about `ns/pod` is carried out on it.
#[test]
fn a_request_changes_the_pod_that_it_names() {
    for (named, goes) in
        [(None, true), (Some("ns/pod"), true), (Some("ns/other"), false), (Some("other/pod"), false)]
    {
        let mut asking = pod();
        request(&mut asking, &[("b", "b:2")]);
        let seen = Observed { named: named.map(str::to_owned), ..asking.world.observed() };
        let planned = asking.plan_of(&Sight::Seen(Box::new(seen)));
        let [(_, report)] = &planned.reports[..] else { panic!("{planned:?}") };
        let refused = UpdateOutcome::Failed(FailureReason::InvalidRequest);
        assert_eq!(report.outcome, (!goes).then_some(refused), "{named:?}");
        assert!(planned.next.is_none(), "{planned:?}");
    }
}

/// Entries name any pod that their writer likes. Rows: UID of the workload that owns the entry, how it ends,
/// and the images that are there then: what somebody else asks for goes on.
#[test]
fn a_workload_has_entries_for_its_own_pods() {
    let refused = UpdateOutcome::Failed(FailureReason::NotAskedFor);
    for (controller, ended, there) in [
        (None, UpdateOutcome::Complete, ["a:2", "b:2"]),
        (Some(CONTROLLER), UpdateOutcome::Complete, ["a:2", "b:2"]),
        (Some("another"), refused, ["a:1", "b:2"]),
    ] {
        let mut asking = pod();
        entry(&mut asking, "a:2");
        asking.requests[0].controller = controller.map(Into::into);
        request(&mut asking, &[("b", "b:2")]);
        asking.play(&[]);
        assert_eq!((asking.outcome("entry"), asking.images()), (ended, there.to_vec()), "{controller:?}");
        assert_eq!(asking.outcome("request"), UpdateOutcome::Complete, "{controller:?}");
        let says = asking.report("entry").message.contains("none of the workload that asks");
        assert_eq!(says, ended == refused, "{controller:?}");
    }
}

/// The same of a SidecarSet. Rows: the annotation of the pod, and whether the entry is carried out.
#[test]
fn a_sidecar_set_has_entries_for_pods_that_got_it() {
    for (list, goes) in [
        (None, false),
        (Some(""), false),
        (Some("other,meshes"), false),
        (Some("mesh"), true),
        (Some("other, mesh"), true),
    ] {
        let mut asking = pod();
        let key = annotation("kruise.io/sidecarset-injected-list");
        asking.world.metadata.extend(list.map(|list| (key, list.to_owned())));
        entry(&mut asking, "a:2");
        let set = &mut asking.requests[0];
        set.owner = UpdateOwner::SidecarSet("mesh".to_owned());
        (set.keeps_service, set.injected_by) = (true, Some("mesh".to_owned()));
        asking.play(&[]);
        let refused = UpdateOutcome::Failed(FailureReason::NotAskedFor);
        let (ended, image) = if goes { (UpdateOutcome::Complete, "a:2") } else { (refused, "a:1") };
        assert_eq!((asking.outcome("entry"), asking.images()[0]), (ended, image), "{list:?}");
        assert_eq!(asking.report("entry").message.contains("has not got SidecarSet mesh"), !goes, "{list:?}");
    }
}

/// The way back of a request does not fail by an entry that comes meanwhile and fails.
#[test]
fn a_way_back_does_not_fail_by_an_entry() {
    let mut asking = pod();
    request(&mut asking, &[("b", "bad")]);
    while asking.report("request").phase != Some(UpdatePhase::RollingBack) {
        asking.act();
        asking.world.settle(&["bad"]);
        asking.world.pass(MINUTE / 4);
        let planned = asking.plan();
        asking.write(&planned);
    }
    entry(&mut asking, "missing");
    asking.world.refused.insert("missing".into(), "no".to_owned());
    asking.play(&["bad"]);
    assert_eq!(asking.images(), ["a:1", "b:1"]);
    assert_eq!(asking.outcome("entry"), UpdateOutcome::Failed(FailureReason::ImageNotPulled));
    assert_eq!(asking.outcome("request"), FAILED);
    assert!(asking.report("request").message.ends_with("the pod is what it was before"));
}
