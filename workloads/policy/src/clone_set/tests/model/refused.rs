//! Histories in which every write to one pod is refused.

use super::*;

impl Cluster {
    /// Whatever cannot be done with one pod, all others get the newest revision, and serve.
    fn others_are_new(&self, refused: &str) {
        let update = self.world.set.status.as_ref().unwrap().update_revision.clone().unwrap();
        let others = self.played.pods.values().filter(|pod| pod.uid != refused);
        let others: Vec<&PodView> = others.collect();
        assert!(others.len() as i64 >= self.replicas() - 1, "{others:?}");
        for pod in others {
            let is_new = pod.label(REVISION_LABEL) == update;
            assert!(is_new && self.played.is_available(pod), "{}: {:?}", pod.name, pod.labels);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// A pod that a policy lets nobody write to, and that somebody wants deleted or not.
    #[test]
    fn a_pod_that_is_refused_stops_no_other_one(
        type_ in prop_oneof![Just("ReCreate"), Just("InPlaceIfPossible"), Just("InPlaceOnly")],
        (claims, hooked, specified) in any::<(bool, bool, bool)>(),
        bounds in prop_oneof![Just((1, 0)), Just((2, 0)), Just((0, 1)), Just((1, 2))],
        at in 0..3_usize,
    ) {
        let (most_unavailable, most_surge) = if type_ == "InPlaceOnly" { (bounds.0.max(1), 0) } else { bounds };
        let kind = Kind { type_, claims, most_unavailable, most_surge, hooked, goes_back: false };
        let mut cluster = Cluster::new(kind);
        cluster.is_as_wanted();
        let uid = cluster.played.nth(at).unwrap();
        cluster.played.refuse(uid.clone());
        if specified {
            cluster.play(&Op::MarkForDeletion(at));
        }
        cluster.play(&Op::Image(3));
        cluster.settle();
        cluster.others_are_new(&uid);
        cluster.is_as_wanted();
    }
}
