//! Failures in parts of a plan, and what is written all the same.

use super::*;

#[tokio::test]
async fn a_failure_keeps_nothing_else_from_being_written() {
    let scale = |what: &str| End::ScaleFailed(format!("{what} is refused"));
    let held =
        |what: &str| End::Held(Box::new(End::ScaleFailed(format!("held back for now: {what} is refused"))));
    let update = |what: &str| End::UpdateFailed(format!("{what} is refused"));
    let all = "+a +b -c open d open e status";
    let table: [(Refused, &str, End); 10] = [
        (&[], all, End::Done),
        (&[("+a", 403)], all, scale("+a")),
        // A webhook fails on one pod.
        (&[("+a", 500)], all, scale("+a")),
        (&[("+b", 403)], all, scale("+b")),
        (&[("-c", 429)], all, held("-c")),
        (&[("+a", 503), ("-c", 429), ("open d", 403)], all, scale("+a")),
        // What is held back for long hides no failure.
        (&[("-c", 429), ("open d", 403)], all, update("open d")),
        (&[("open d", 403)], all, update("open d")),
        (&[("open d", 500)], all, update("open d")),
        // The picture is old: all is decided anew, and what has failed goes on counting.
        (&[("open d", 409)], "+a +b -c open d", End::Changed),
    ];
    for (refused, asked, end) in table {
        assert_eq!(carried_out(refused).await, (asked.to_owned(), end), "{refused:?}");
    }
    assert_eq!(
        carried_out(&[("+a", 403), ("open d", 409)]).await,
        ("+a +b -c open d status".to_owned(), scale("+a"))
    );
}

/// A webhook that hangs has the default of ten seconds, or up to thirty.
#[tokio::test(start_paused = true)]
async fn a_write_without_an_answer_keeps_nothing_else_from_being_written() {
    let (asked, end) = carried_out(&[("+a", HANGS)]).await;
    assert_eq!(asked, "+a +b -c open d open e status");
    assert!(matches!(&end, End::ScaleFailed(text) if text.contains("no answer")), "{end:?}");
    let plan = Plan { actions: ["0", "1", "2", "3"].map(open).to_vec(), ..Plan::default() };
    let (asked, report, reasons) = report(plan, vec![("open 0", HANGS), ("open 2", HANGS)]).await;
    assert_eq!((asked.as_str(), report.unread), ("open 0 open 1 open 2 open 3", true));
    assert_eq!(late(&report), ["0", "2"]);
    assert_eq!((reasons.len(), report.end.is_failure()), (2, true));
    let plan = Plan { actions: ["0", "1", "2", "3"].map(open).to_vec(), ..Plan::default() };
    let hang = vec![("open 0", HANGS), ("open 1", HANGS), ("open 2", HANGS)];
    let (asked, report, _) = self::report(plan, hang).await;
    assert_eq!(
        (asked.as_str(), late(&report)),
        ("open 0 open 1 open 2", ["0", "1", "2"].map(str::to_owned).to_vec())
    );
}

/// All of these are in one part.
#[tokio::test]
async fn a_pod_that_cannot_be_written_to_is_set_aside_with_its_claims() {
    let forget = || Action::ForgetInPlace { node: "n".to_owned(), uid: "x".to_owned() };
    let delete = |name: &str| Action::DeletePod(target(name));
    let claim = |name: &str| Action::DeleteClaim(target(name));
    let table: [(Vec<Action>, Refused, &str); 7] = [
        (
            vec![delete("x"), claim("of-x"), delete("y"), claim("of-y"), open("z")],
            &[],
            "-x -of-x -y -of-y open z",
        ),
        (
            vec![delete("x"), claim("of-x"), delete("y"), claim("of-y"), open("z")],
            &[("-x", 429)],
            "-x -y -of-y open z",
        ),
        (
            vec![delete("x"), claim("of-x"), delete("y"), claim("of-y"), open("x"), claim("of-x")],
            &[("-x", 500)],
            "-x -y -of-y",
        ),
        // Its update is not taken back, so it is not deleted.
        (vec![forget(), delete("x"), claim("of-x"), delete("y")], &[("open n", 503)], "open n -y"),
        // A claim is a claim alone: what has to wait for it is none of this plan.
        (vec![claim("c"), claim("d"), delete("x"), claim("of-x")], &[("-c", 403)], "-c -d -x -of-x"),
        (
            vec![delete("x"), claim("of-x"), claim("more"), delete("y")],
            &[("-of-x", 403)],
            "-x -of-x -more -y",
        ),
        ((0..20).map(|_| open("z")).collect(), &[("open z", 403)], "open z"),
    ];
    for (actions, refused, asked) in table {
        let plan = Plan { actions, ..Plan::default() };
        assert_eq!(carry_out(plan, refused).await.0, asked, "{refused:?}");
    }
    let many = (0..20).map(|at| open(&format!("p{at}"))).collect();
    let all: Vec<String> = (0..20).map(|at| format!("open p{at}")).collect();
    let refused = all.iter().map(|what| (what.as_str(), 403)).collect::<Vec<_>>();
    let asked = report(Plan { actions: many, ..Plan::default() }, refused).await.0;
    assert_eq!(asked, all[..MOST_ASIDE].join(" "), "what refuses all is not asked a thousand times");
}
