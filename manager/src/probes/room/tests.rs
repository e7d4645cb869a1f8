//! Shares of a node's object.

use rstest::rstest;

use super::{super::resolve::Resolved, *};

const NOTHING: usize = 0;

/// Pods of a namespace, each with as many probes of so many bytes, each probe of another marker, made one
/// after the other.
fn pods(namespace: &str, pods: usize, probes: usize, bytes: usize) -> Vec<(Uid, Arc<ProbedPod>)> {
    let share = |number: usize| Share {
        rank: (None, format!("m{number:05}").into()),
        probes: number..number + 1,
        weight: bytes,
    };
    let resolved = Arc::new(Resolved {
        markers: Box::default(),
        probes: Box::default(),
        shares: (0..probes).map(share).collect(),
        weight: probes.saturating_mul(bytes),
        text: "".into(),
        problems: Box::default(),
    });
    let pod = |number: usize| {
        let (name, namespace) = (format!("p{number:05}"), Arc::<str>::from(namespace));
        let uid = Uid::from(format!("{namespace}-{name}").as_str());
        let pod = ProbedPod {
            namespace,
            name: name.into(),
            uid: uid.clone(),
            ip: None,
            resolved: resolved.clone(),
        };
        (uid, Arc::new(pod))
    };
    (0..pods).map(pod).collect()
}

fn chosen(choice: &Choice, namespace: &str) -> usize {
    let of = choice.pods.iter().filter(|(uid, _)| uid.to_string().starts_with(&format!("{namespace}-")));
    of.map(|(_, parts)| parts.len()).sum()
}

#[rstest]
#[case::nothing(pods("a", 0, 0, 0))]
#[case::without_probes(pods("a", 1, 0, 0))]
#[case::the_smallest(pods("a", 1, 1, 1))]
#[case::the_largest(pods("a", 1, 1, OF_ALL - POD))]
#[case::a_full_node(pods("a", 110, 6, ANSWER + 300))]
fn there_is_room_for_everything(#[case] of: Vec<(Uid, Arc<ProbedPod>)>) {
    assert_eq!(choose(&of.into_iter().collect()), None);
}

/// Probes of `a` and `b` that run; what they want, and what each has.
#[rstest]
#[case::one_byte_too_much(pods("a", 1, 1, OF_ALL - POD + 1), vec![], 0, 0)]
#[case::endless(pods("a", 2, 1, usize::MAX), vec![], 0, 0)]
#[case::alone_it_has_all(pods("a", 2, 1024, 1024), vec![], 1023, 0)]
#[case::who_wants_little_has_all(pods("a", 100, 100, 2048), pods("b", 3, 3, 2048), 477, 9)]
#[case::of_two_that_want_much_each_has_half(pods("a", 100, 100, 2048), pods("b", 50, 50, 2048), 231, 243)]
#[case::ten_thousand(pods("a", 10_000, 1, 1), pods("b", 1, 1, 1), 2043, 1)]
#[case::nothing_of_what_is_too_large(pods("a", 1, 1, OF_ALL), pods("b", 1, 1, 1), 0, 1)]
fn namespaces_share(
    #[case] a: Vec<(Uid, Arc<ProbedPod>)>,
    #[case] b: Vec<(Uid, Arc<ProbedPod>)>,
    #[case] of_a: usize,
    #[case] of_b: usize,
) {
    let wanted: BTreeMap<_, _> = a.into_iter().chain(b).collect();
    let choice = choose(&wanted).expect("not all fits");
    assert_eq!((chosen(&choice, "a"), chosen(&choice, "b")), (of_a, of_b));
    let parts = |uid: &Uid| wanted[uid].resolved.shares.iter().map(|share| share.weight);
    let used = choice.pods.iter().map(|(uid, chosen)| {
        let all: Vec<_> = parts(uid).collect();
        POD + chosen.iter().map(|part| all[*part]).sum::<usize>()
    });
    assert!(used.sum::<usize>() <= OF_ALL);
    let all: usize = wanted.values().map(|pod| pod.resolved.shares.len()).sum();
    let out: usize = choice.left_out.values().sum();
    assert_eq!(out + of_a + of_b, all, "each runs or is named");
    assert_eq!(choose(&wanted), Some(choice), "the same every time");
}

/// The first markers run on all pods, and those after them on none: in the order of their age, whatever the
/// pods are called.
#[test]
fn the_oldest_markers_come_first() {
    let wanted: BTreeMap<_, _> = pods("a", 10, 64, 4096).into_iter().collect();
    let choice = choose(&wanted).unwrap();
    assert!(
        choice.pods.values().all(|parts| parts.len() >= 25 && *parts == (0..parts.len()).collect::<Vec<_>>())
    );
    let name = |number: usize| Key { namespace: "a".into(), name: format!("m{number:05}").into() };
    assert!(!choice.left_out.contains_key(&name(0)));
    assert_eq!(choice.left_out[&name(63)], 10);
    assert_eq!(NOTHING, choice.pods.values().filter(|parts| parts.contains(&63)).count());
}
