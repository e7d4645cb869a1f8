//! New pods that cannot be made, names that somebody has, and an API server that takes no request.

use super::*;
use crate::write::Wrote;

/// The pod of that name is looked for, and nothing else of the namespace is read. Rows: what is refused, what
/// is asked, what the end says, and whether all is read before the next plan.
#[tokio::test]
async fn a_name_that_somebody_else_has_is_read_by_itself() {
    let table: [(Refused, &str, Option<&str>, bool); 5] = [
        (&[("+a", TAKEN)], "+a find a open b", Some("pod a is there"), false),
        (&[("+a", TAKEN), ("find a", OWN)], "+a find a", None, true),
        (&[("+a", TAKEN), ("find a", NONE)], "+a find a", None, false),
        (&[("+a", TAKEN), ("find a", 403)], "+a find a open b", Some("find a is refused"), false),
        (&[("+a", TAKEN), ("find a", 500)], "+a find a open b", Some("find a is refused"), true),
    ];
    for (refused, asked, says, unread) in table {
        let plan = Plan { actions: vec![new("a"), open("b")], parts: vec![1], ..Plan::default() };
        let (was_asked, report, _) = report(plan, refused.to_vec()).await;
        assert_eq!((was_asked.as_str(), report.unread), (asked, unread), "{refused:?}");
        match (says, &report.end) {
            (None, end) => assert_eq!(*end, End::Changed, "{refused:?}"),
            (Some(says), End::ScaleFailed(text)) => assert!(text.contains(says), "{text}"),
            (Some(_), end) => panic!("{refused:?}: {end:?}"),
        }
    }
}

/// A claim of a pod that is there is somebody else's: it would be asked for again and again, as long as that
/// pod waits. One that comes with a new pod is as good. Rows: writes, what is refused, what is asked, the
/// end, and the number of answers.
#[tokio::test]
async fn a_claim_that_somebody_else_has_is_not_asked_for_again_and_again() {
    let named = |name: &str| {
        Action::CreateClaim(json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": { "namespace": "ns", "name": name }, "spec": {},
        }))
    };
    let claim = || named("data-a-0");
    let text = "claim data-a-0 is there, and is none of CloneSet/shop: take its owner off, or delete it";
    let table: [(Vec<Action>, Refused, &str, End, usize); 5] = [
        (
            vec![claim(), open("b")],
            &[("+data-a-0", TAKEN)],
            "+data-a-0 find data-a-0 open b",
            End::ScaleFailed(text.to_owned()),
            1,
        ),
        // The pod waits for its other claim, too.
        (
            vec![claim(), named("log-a-0"), open("b")],
            &[("+data-a-0", TAKEN)],
            "+data-a-0 +log-a-0 find data-a-0 open b",
            End::ScaleFailed(text.to_owned()),
            2,
        ),
        (
            vec![claim(), open("b")],
            &[("+data-a-0", TAKEN), ("find data-a-0", OWN)],
            "+data-a-0 find data-a-0 open b",
            End::Done,
            2,
        ),
        (
            vec![claim(), open("b")],
            &[("+data-a-0", TAKEN), ("find data-a-0", NONE)],
            "+data-a-0 find data-a-0",
            End::Changed,
            0,
        ),
        (
            vec![claim(), new("a-0"), open("b")],
            &[("+data-a-0", TAKEN)],
            "+data-a-0 +a-0 open b",
            End::Done,
            2,
        ),
    ];
    for (actions, refused, asked, end, answers) in table {
        let parts = vec![actions.len() - 1];
        let plan = Plan { actions, parts, ..Plan::default() };
        let (was_asked, report, _) = report(plan, refused.to_vec()).await;
        let came = (was_asked.as_str(), report.end, report.wrote.len());
        assert_eq!(came, (asked, end, answers), "{refused:?}");
    }
}

/// A webhook takes the owner off: the pod is nobody's, and no more of them are made than of those that are
/// refused.
#[tokio::test]
async fn a_pod_that_comes_without_its_owner_is_a_failure() {
    let owned = |name: &str| {
        let Action::CreatePod(mut pod) = new(name) else { panic!() };
        pod["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "shop", "uid": "set",
            "controller": true,
        }]);
        Action::CreatePod(pod)
    };
    let plan = Plan { actions: ["a", "b"].map(owned).into(), ..Plan::default() };
    let (asked, report, _) = report(plan, vec![("+a", CHANGED)]).await;
    let End::ScaleFailed(text) = &report.end else { panic!("{report:?}") };
    assert!(text.starts_with("owner of pod a: ") && text.contains("mutating webhooks"), "{text}");
    assert_eq!((asked.as_str(), report.wrote.len()), ("+a +b", 1));
}

/// A revision that nothing needs, and that somebody's finalizer holds, would be deleted by each plan.
#[tokio::test]
async fn a_revision_that_is_held_is_deleted_once() {
    let plan = Plan { actions: vec![Action::DeleteRevision(target("r"))], ..Plan::default() };
    let (asked, report, _) = report(plan, vec![("-r", HELD)]).await;
    assert_eq!((asked.as_str(), &report.end), ("-r", &End::Done));
    assert!(matches!(report.wrote.as_slice(), [Wrote::RevisionGone(uid)] if uid == "r"), "{report:?}");
}

/// It takes no request, whatever that is about: nothing more is asked of it.
#[tokio::test]
async fn an_api_server_with_too_much_to_do_ends_the_plan() {
    let text = || "the API server has too much to do: Too many requests, please try again later.".to_owned();
    let table: [(Refused, &str, End); 3] = [
        (&[("+a", BUSY)], "+a", End::ScaleFailed(text())),
        (&[("-c", BUSY)], "+a +b -c", End::ScaleFailed(text())),
        (&[("open d", BUSY)], "+a +b -c open d", End::UpdateFailed(text())),
    ];
    for (refused, asked, end) in table {
        assert_eq!(carried_out(refused).await, (asked.to_owned(), end), "{refused:?}");
    }
}

/// One that cannot be made keeps no other one from it; a quota that is used up is not asked for all.
#[tokio::test]
async fn pods_that_cannot_be_made_are_few_requests() {
    let table: [(Refused, &str); 4] = [
        (&[], "+0 +1 +2 +3 +4 +5 +6 +7 +8 +9"),
        (&[("+0", 500)], "+0 +1 +2 +3 +4 +5 +6 +7 +8 +9"),
        (&[("+4", 403), ("+8", 500)], "+0 +1 +2 +3 +4 +5 +6 +7 +8 +9"),
        (&[("+0", 403), ("+1", 403), ("+2", 403), ("+3", 403)], "+0 +1 +2 +3"),
    ];
    for (refused, asked) in table {
        let actions = (0..10).map(|at| new(&at.to_string())).collect();
        let made = carry_out(Plan { actions, ..Plan::default() }, refused).await;
        assert_eq!(made.0, asked, "{refused:?}");
        assert_eq!(made.1 == End::Done, refused.is_empty(), "{refused:?}");
    }
}
