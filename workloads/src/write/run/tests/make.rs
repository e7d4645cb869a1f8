//! New pods that cannot be made, names that somebody has, and an API server that takes no request.

use super::*;

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
