//! Writes that keep others from being made: how long a plan goes on with them, and what comes last then.

use super::*;

/// New pod that is tied to a node.
fn tied(name: &str, node: &str) -> Action {
    let Action::CreatePod(mut pod) = new(name) else { panic!() };
    let term = json!({ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [node] }] });
    pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
        json!({ "nodeSelectorTerms": [term] });
    Action::CreatePod(pod)
}

/// Update of the pod of a node.
fn update_at(node: &str) -> Action {
    Action::UpdateInPlace(update(node, &format!("uid-{node}")))
}

fn plan(actions: Vec<Action>) -> Plan {
    Plan { actions, ..Plan::default() }
}

/// A policy lets nobody make pods on four nodes, or four numbers are somebody else's: the next plan begins
/// with all others, with deletions too.
#[tokio::test]
async fn new_pods_that_are_refused_are_last_in_the_next_plan() {
    let letters = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let of_nodes = letters.map(|node| tied(&format!("log-{node}"), &format!("n-{node}")));
    let of_numbers = [0, 1, 2, 3, 4, 5].map(|number| new(&format!("db-{number}")));
    let random = letters.map(|name| new(&format!("shop-{name}")));
    let delete = || Action::DeletePod(target("x"));
    type Row = (Vec<Action>, Refused, &'static str, &'static [&'static str], &'static str);
    let table: [Row; 3] = [
        (
            [of_nodes.as_slice(), &[delete()]].concat(),
            &[("+log-a", 403), ("+log-b", 403), ("+log-c", 403), ("+log-d", 403)],
            "+log-a +log-b +log-c +log-d",
            &["n-a", "n-b", "n-c", "n-d"],
            "+log-e +log-f +log-g +log-h -x +log-a +log-b +log-c +log-d",
        ),
        (
            of_numbers.to_vec(),
            &[("+db-0", 500), ("+db-1", 422), ("+db-2", 429), ("+db-4", 403)],
            "+db-0 +db-1 +db-2 +db-3 +db-4 +db-5",
            &["db-0", "db-1", "db-2", "db-4"],
            "+db-3 +db-5 +db-0 +db-1 +db-2 +db-4",
        ),
        // Another name is another pod.
        (
            random.to_vec(),
            &[("+shop-a", 403)],
            "+shop-a +shop-b +shop-c +shop-d +shop-e +shop-f +shop-g +shop-h",
            &[],
            "",
        ),
    ];
    for (actions, refused, asked, put_off, then) in table {
        let (was_asked, report, _) = report(plan(actions.clone()), refused.to_vec()).await;
        assert_eq!(was_asked, asked);
        assert_eq!(late(&report), put_off, "{asked}");
        if !put_off.is_empty() {
            let (was_asked, ..) = report_after(plan(actions), refused.to_vec(), put_off).await;
            assert_eq!(was_asked, then);
        }
    }
}

/// A webhook hangs at the objects of all nodes: others wait for the place of this plan, and for no longer
/// than a few of them take.
#[tokio::test(start_paused = true)]
async fn nodes_without_an_answer_are_few_and_come_last_in_the_next_plan() {
    let nodes: Vec<String> = (0..64).map(|node| format!("n-{node:02}")).collect();
    let actions = || nodes.iter().map(|node| update_at(node)).collect::<Vec<_>>();
    let names: Vec<String> = nodes.iter().map(|node| format!("open {node}")).collect();
    let hang = || names.iter().map(|what| (what.as_str(), HANGS)).collect::<Vec<_>>();
    let begun = tokio::time::Instant::now();
    let (asked, report, _) = report(plan(actions()), hang()).await;
    assert_eq!(asked, names[..10].join(" "), "eight at once, and two more before there are three errors");
    assert!(begun.elapsed() <= std::time::Duration::from_secs(70), "{:?}", begun.elapsed());
    let put_off: Vec<String> = nodes[..10].iter().map(|node| format!("uid-{node}")).collect();
    assert_eq!((late(&report), report.unread, report.end.is_failure()), (put_off.clone(), true, true));
    // Those that were not begun are first.
    let put_off: Vec<&str> = put_off.iter().map(String::as_str).collect();
    let (asked, ..) = report_after(plan(actions()), hang(), &put_off).await;
    assert_eq!(asked, names[10..20].join(" "));
    // What is not known of a node keeps its pod from being deleted, and no other one.
    let forget = |node: &str| Action::ForgetInPlace { node: node.to_owned(), uid: node.to_owned() };
    let actions =
        ["y", "x"].map(forget).into_iter().chain(["x", "y"].map(|pod| Action::DeletePod(target(pod))));
    let (asked, ..) = self::report(plan(actions.collect()), vec![("open x", 500)]).await;
    assert_eq!(asked, "open y open x -y");
}

/// A webhook that does not answer takes many seconds each time. Rows: codes of the pods in their order, those
/// that were put off before, what is asked, and what is put off now.
#[tokio::test]
async fn errors_of_the_api_server_end_their_part_and_the_others_come_first_then() {
    type Row = (&'static [u16], &'static [&'static str], &'static str, &'static [&'static str]);
    let table: [Row; 7] = [
        (&[500, 0, 503, 0, 500, 0, 0], &[], "0 1 2 3 4", &["0", "2", "4"]),
        (&[500, 0, 503, 0, 500, 0, 0], &["0", "2", "4"], "1 3 5 6 0 2 4", &["0", "2", "4"]),
        (&[500, 500, 0], &[], "0 1 2", &["0", "1"]),
        (&[403, 403, 403, 500, 403, 0], &[], "0 1 2 3 4 5", &["0", "1", "2", "3", "4"]),
        (&[500, 500, 500, 500, 500, 500], &["0", "1", "2"], "3 4 5", &["3", "4", "5"]),
        (&[0, 0, 0], &["1"], "0 2 1", &[]),
        (&[0, 0, 0], &["0", "1", "2", "gone"], "0 1 2", &[]),
    ];
    for (codes, before, asked, put_off) in table {
        let actions: Vec<Action> = (0..codes.len()).map(|at| open(&at.to_string())).collect();
        let names: Vec<String> = (0..codes.len()).map(|at| format!("open {at}")).collect();
        let refused = names.iter().zip(codes).filter(|(_, code)| **code > 0);
        let refused = refused.map(|(name, code)| (name.as_str(), *code)).collect();
        let plan = Plan { actions, ..Plan::default() };
        let (was_asked, report, _) = report_after(plan, refused, before).await;
        assert_eq!(was_asked.replace("open ", ""), asked, "{codes:?} {before:?}");
        assert_eq!(late(&report), put_off, "{codes:?} {before:?}");
    }
    // They are counted over all parts, and each part is tried.
    let actions = ["0", "1", "2", "3", "4", "5"].map(open).to_vec();
    let plan = Plan { actions, parts: vec![2, 4], ..Plan::default() };
    let all = ["open 0", "open 1", "open 2", "open 3", "open 4", "open 5"];
    let refused = all.iter().map(|what| (*what, 500)).collect();
    assert_eq!(report(plan, refused).await.0, "open 0 open 1 open 2 open 4");
    // Claims of a pod stay behind it.
    let claim = |name: &str| Action::DeleteClaim(target(name));
    let delete = |name: &str| Action::DeletePod(target(name));
    let actions = vec![claim("first"), delete("x"), claim("of-x"), delete("y"), claim("of-y"), new("z")];
    let plan = Plan { actions, ..Plan::default() };
    assert_eq!(report_after(plan, Vec::new(), &["x"]).await.0, "-first -y -of-y +z -x -of-x");
}

/// Rows: codes in two parts, and what is asked. The first part meets errors of the API server each time.
#[tokio::test]
async fn a_refusal_is_about_one_pod_whatever_failed_in_another_part() {
    type Row = ([u16; 6], &'static str, &'static [&'static [&'static str]]);
    let table: [Row; 3] = [
        ([500, 500, 500, 403, 403, 0], "0 1 2 3 4 5", &[&["0", "1", "2"], &["3", "4"]]),
        ([500, 500, 500, 500, 0, 0], "0 1 2 3", &[&["0", "1", "2"], &["3"]]),
        ([500, 500, 500, 429, 500, 0], "0 1 2 3 4", &[&["0", "1", "2"], &["3", "4"]]),
    ];
    for (codes, asked, put_off) in table {
        let actions = ["0", "1", "2", "3", "4", "5"].map(open).to_vec();
        let names: Vec<String> = (0..6).map(|at| format!("open {at}")).collect();
        let refused = names.iter().zip(codes).filter(|(_, code)| *code > 0);
        let refused = refused.map(|(name, code)| (name.as_str(), code)).collect();
        let (was_asked, report, _) =
            report_after(Plan { parts: vec![3], ..plan(actions) }, refused, &["1", "5"]).await;
        let order = asked.replace("0 1 2", "0 2 1");
        assert_eq!(was_asked.replace("open ", ""), order, "{codes:?}");
        let names: Vec<Vec<String>> = report.put_off.iter().map(|late| late.names.clone()).collect();
        assert_eq!(names, put_off, "{codes:?}");
        let known: Vec<Vec<String>> = report.put_off.into_iter().map(|late| late.known).collect();
        let of_parts = [vec!["1".to_owned()], vec!["5".to_owned()]];
        assert_eq!(known, of_parts[..put_off.len()], "{codes:?}");
    }
}

/// A quota for claims is used up: the claim of a pod that waits for it is refused, and no new pod waits.
#[tokio::test]
async fn a_claim_that_is_refused_is_about_its_own_pod() {
    let claim = |name: &str| {
        Action::CreateClaim(json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": { "namespace": "ns", "name": name }, "spec": {},
        }))
    };
    let one = || vec![claim("data-db-1"), new("db-5")];
    let two = || [one(), vec![claim("data-db-6"), new("db-6")]].concat();
    for (actions, refused, put_off, asked, late_now) in [
        (one(), "+data-db-1", vec![], "+data-db-1 +db-5", "data-db-1"),
        (one(), "+data-db-1", vec!["data-db-1"], "+db-5 +data-db-1", "data-db-1"),
        (two(), "+data-db-6", vec![], "+data-db-1 +db-5 +data-db-6", "db-6"),
    ] {
        let (was_asked, report, _) = report_after(plan(actions), vec![(refused, 403)], &put_off).await;
        assert_eq!((was_asked.as_str(), late(&report)), (asked, vec![late_now.to_owned()]), "{refused}");
    }
}
