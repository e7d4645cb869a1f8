//! Shares of a node's object.

use berth_base::sent::Sent;
use berth_proto::crd::{
    ContainerProbe, ContainerProbeState, NodePodProbe, NodePodProbeStatus, PodProbe, PodProbeStatus,
    ProbeState,
};
use rstest::rstest;
use serde_json::{Value, json};

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

/// A probe whose command has so many words.
fn probe(words: usize, word: &str, marks: &Value) -> ContainerProbe {
    let exec = json!({ "command": vec![word; words] });
    let probe = json!({ "name": "marker#idle", "containerName": "game", "probe": { "exec": exec },
        "markerPolicy": marks });
    serde_json::from_value(probe).unwrap()
}

#[rstest]
#[case::plain(probe(2, "/idle.sh", &json!([])), false)]
#[case::large(probe(1, &"x".repeat(20_000), &json!([])), false)]
#[case::many_words(probe(4096, "", &json!([])), true)]
#[case::many_labels(probe(1, "x", &marks(64)), true)]
fn many_small_parts_weigh_more_than_their_text(#[case] probe: ContainerProbe, #[case] more: bool) {
    let (text, weighed) = (size::bytes(&probe) + ANSWER, weight(&probe, 0));
    assert_eq!(weighed > text, more, "{weighed} {text}");
    assert!(weight(&probe, 253) >= weighed + 253 / LIGHT);
}

/// Both states set so many labels.
fn marks(labels: usize) -> Value {
    let labels: serde_json::Map<String, Value> =
        (0..labels).map(|label| (label.to_string(), json!(""))).collect();
    json!([{ "state": "Succeeded", "labels": labels }, { "state": "Failed", "labels": labels }])
}

/// With an answer to each probe, and the agent's copy in the spec.
#[rstest]
#[case::plain(probe(1, "/idle.sh", &json!([])), 6)]
#[case::one_a_pod(probe(1, "", &json!([])), 1)]
#[case::many_words(probe(6000, "", &json!([])), 1)]
#[case::labels(probe(1, "", &marks(40)), 2)]
fn an_object_that_is_full_can_be_read(#[case] probe: ContainerProbe, #[case] of_pod: usize) {
    /// Bytes that the agent's copy takes at the most.
    const COPY: usize = 2 << 20;
    let (name, namespace, uid) = ("p".to_owned(), "shop".to_owned(), "u".repeat(36));
    let time = || serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    let answer = || ContainerProbeState {
        name: probe.name.clone(),
        state: ProbeState::Failed,
        last_probe_time: time(),
        last_transition_time: time(),
        message: Some("x".repeat(1000)),
    };
    let answers = PodProbeStatus {
        name: name.clone(),
        namespace: namespace.clone(),
        uid: uid.clone(),
        probe_states: (0..of_pod).map(|_| answer()).collect(),
    };
    let weighed = of_pod * weight(&probe, 0);
    let (ip, probes) = ("10.0.0.1".to_owned(), vec![probe.clone(); of_pod]);
    let pod = PodProbe { name, namespace, uid, ip, probes };
    assert!(weighed <= OF_POD, "{weighed}");
    let count = OF_ALL / (weighed + POD);
    let mut object = NodePodProbe::new("node-a", Default::default());
    object.spec.pod_probes = vec![pod.clone(); COPY / size::memory(&pod)];
    object.status = Some(NodePodProbeStatus {
        desired_pod_probes: vec![pod; count],
        pod_probe_statuses: vec![answers; count],
        conditions: Vec::new(),
    });
    let read: Sent<NodePodProbe> = serde_json::from_str(&serde_json::to_string(&object).unwrap()).unwrap();
    assert!(matches!(read, Sent::Read(_)), "{count} pods");
}
