//! Reasons of the Events that writes to pods make.

use berth_workloads_policy::{names::GRACE_ANNOTATION, plan::Cause};

use super::*;

/// Clients watch for these reasons.
#[tokio::test]
async fn what_is_told_of_a_write_to_a_pod() {
    let delete = || Action::DeletePod(target("c"));
    let patch = || {
        let labels = json!({ "a": "b", "gone": null });
        Action::PatchPod(target("c"), json!({ "metadata": { "labels": labels } }))
    };
    let mark =
        || Action::MarkRevision(target("c"), json!({ "metadata": { "labels": { "a": "b", "gone": null } } }));
    let ended = || {
        let annotations = json!({ GRACE_ANNOTATION: null, "unread": "b" });
        Action::PatchPod(target("c"), json!({ "metadata": { "annotations": annotations } }))
    };
    let condition = || {
        let one = json!({ "type": "InPlaceUpdateReady", "status": "True", "message": "m" });
        Action::PatchPodStatus(target("c"), json!({ "status": { "conditions": [one] } }))
    };
    let owners = || json!({ "metadata": { "ownerReferences": [reference("other")] } });
    let release = || Action::PatchPod(target("c"), owners());
    let claim = || Action::PatchClaim(target("c"), owners());
    let raise = || Action::RaiseRevision(target("c"), 3);
    let keep = || Action::KeepPodsToDelete(vec!["c".to_owned()]);
    let table: [(Action, Option<Cause>, Refused, &[&str]); 25] = [
        (delete(), None, &[], &["SuccessfulDelete"]),
        (delete(), None, &[("-c", 403)], &["FailedDelete"]),
        (delete(), Some(Cause::Update), &[], &["SuccessfulDelete", "SuccessfulUpdatePodReCreate"]),
        (delete(), Some(Cause::Update), &[("-c", 403)], &["FailedUpdatePodReCreate"]),
        (patch(), None, &[], &[]),
        (patch(), Some(Cause::Repair), &[], &["SuccessfulUpdate"]),
        (patch(), None, &[("open c", CHANGED)], &["FailedUpdate"]),
        (patch(), Some(Cause::Repair), &[("open c", CHANGED)], &["FailedUpdate"]),
        (patch(), Some(Cause::InPlace), &[], &["SuccessfulUpdatePodInPlace"]),
        (patch(), Some(Cause::InPlace), &[("open c", 403)], &["FailedUpdatePodInPlace"]),
        (patch(), Some(Cause::InPlace), &[("open c", CHANGED)], &["FailedUpdatePodInPlace"]),
        (mark(), None, &[], &[]),
        (mark(), None, &[("open c", CHANGED)], &["FailedUpdate"]),
        (ended(), None, &[], &[]),
        (ended(), None, &[("open c", CHANGED)], &["FailedUpdate"]),
        (condition(), None, &[], &[]),
        (condition(), None, &[("open c", CHANGED)], &["FailedUpdate"]),
        (release(), None, &[], &[]),
        (release(), None, &[("open c", CHANGED)], &["FailedUpdate"]),
        (claim(), None, &[], &[]),
        (claim(), None, &[("open c", CHANGED)], &["FailedUpdate"]),
        (raise(), None, &[], &[]),
        (raise(), None, &[("open c", CHANGED)], &["FailedUpdate"]),
        (keep(), None, &[], &[]),
        (keep(), None, &[("status", CHANGED)], &["FailedUpdate"]),
    ];
    for (action, cause, refused, reasons) in table {
        let mut plan = Plan { actions: vec![action.clone()], ..Plan::default() };
        plan.causes.extend(cause.map(|cause| ("c".to_owned(), cause)));
        assert_eq!(carry_out(plan, refused).await.2, reasons, "{action:?} {cause:?}");
    }
}

fn reference(uid: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": uid })
}
