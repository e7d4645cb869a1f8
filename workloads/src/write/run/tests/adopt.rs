//! Pods and revisions that cannot be adopted.

use super::*;

/// Rows: what is refused, what is asked, and the UIDs of what was not adopted.
#[tokio::test]
async fn one_that_cannot_be_adopted_keeps_nothing_from_being_written() {
    let adopts = |names: &[String]| {
        let owner = json!({ "apiVersion": "v1", "kind": "CloneSet", "name": "shop", "uid": "set", "controller": true });
        let patch = json!({ "metadata": { "ownerReferences": [owner] } });
        let adopt = |name: &String| Action::AdoptPod(target(name), patch.clone());
        let revision = Action::AdoptRevision(target("r"), patch.clone());
        let actions: Vec<Action> = [revision].into_iter().chain(names.iter().map(adopt)).collect();
        Plan { parts: vec![actions.len()], actions, ..Plan::default() }
    };
    let all = "read open r read open a read open b +c";
    let table: [(Refused, &str, &[&str]); 6] = [
        (&[], all, &[]),
        (&[("open r", CHANGED), ("open b", CHANGED)], all, &["r", "b"]),
        (&[("open r", 422)], all, &["r"]),
        (&[("open a", 403), ("open b", 500)], all, &["a", "b"]),
        (&[("read", 403)], "read read read +c", &["r", "a", "b"]),
        // The picture is old.
        (&[("open r", 409)], "read open r", &[]),
    ];
    for (refused, asked, unadopted) in table {
        let mut plan = adopts(&["a".to_owned(), "b".to_owned()]);
        plan.actions.push(new("c"));
        let (was_asked, report, reasons) = report(plan, refused.to_vec()).await;
        assert_eq!(was_asked, asked, "{refused:?}");
        let uids: Vec<&str> = report.unadopted.iter().map(|(uid, _)| uid.as_str()).collect();
        assert_eq!(uids, unadopted, "{refused:?}");
        let said = reasons.iter().filter(|reason| **reason == "FailedUpdate").count();
        assert_eq!(said, unadopted.len(), "{refused:?}");
        let end = if asked.ends_with("+c") { End::Done } else { End::Changed };
        let is_server_error = refused.iter().any(|(_, code)| *code == 500);
        assert_eq!((report.end, report.unread), (end, is_server_error), "{refused:?}");
    }
    let many: Vec<String> = (0..20).map(|at| format!("p{at}")).collect();
    let refused: Vec<String> = many.iter().map(|name| format!("open {name}")).collect();
    let refused = refused.iter().map(|what| (what.as_str(), 403)).collect();
    let (asked, report, _) = report(adopts(&many), refused).await;
    assert_eq!((report.unadopted.len(), asked.matches("open p").count()), (16, 16), "{asked}");
    let refused: Vec<String> = many.iter().map(|name| format!("open {name}")).collect();
    let refused = refused.iter().map(|what| (what.as_str(), 500)).collect();
    let (asked, report, _) = self::report(adopts(&many), refused).await;
    assert_eq!((report.unadopted.len(), asked.matches("open p").count()), (3, 3), "{asked}");
}
