//! An object whose evaluation panics, as the people of the node see it.

use std::collections::BTreeMap;

use berth_policy::{
    Declared, Effect, Origin, Pod, PodEffect, PodRef, RecreateReport, RecreateRequest, RecreateStrategy,
    RequestEffect, trap,
};
use berth_shim::Gate;
use prometheus_client::registry::Registry;

use super::*;

fn pod(uid: &str) -> Pod {
    Pod {
        pod: PodRef { uid: uid.into(), namespace: "shop".to_owned(), name: uid.to_owned() },
        order: Ok(None),
        restart_policy: berth_policy::RestartPolicy::Always,
        deletion: None,
        grace: Duration::from_secs(30),
        ended: false,
        ip: None,
        mirror: None,
        containers: BTreeMap::new(),
        statuses: BTreeMap::new(),
        unready: None,
    }
}

fn request(id: &str, pod: &str) -> RecreateRequest {
    RecreateRequest {
        id: id.into(),
        origin: Origin::Api,
        key: format!("shop/{id}"),
        created: now(),
        pod: pod.into(),
        named: None,
        containers: Vec::new(),
        strategy: RecreateStrategy::default(),
        deadline: None,
        delete_after: None,
        reported: RecreateReport::default(),
        ended: None,
        unready_since: None,
    }
}

#[tokio::test]
async fn an_object_that_panics_is_set_aside_counted_and_told_and_the_others_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(dir.path()).unwrap());
    let metrics = AgentMetrics::register(&mut Registry::default());
    let config = berth_policy::Config { api_requests: true, ..berth_policy::Config::default() };
    let agent = Agent::new(config, store, metrics.clone());
    for uid in ["web", "db"] {
        agent.observe(Event::PodSeen(Box::new(pod(uid))));
        let (sandbox, pod) = (format!("sandbox-{uid}").as_str().into(), pod(uid).pod);
        agent.observe(Event::SandboxCreated { sandbox, pod, declared: Declared::default() });
    }
    agent.observe(Event::RecreatesListed(
        Origin::Api,
        vec![request("sets-off-a-bug", "web"), request("usual", "db")],
    ));
    trap::set("sets-off-a-bug");
    let (steps, deadline) = agent.plan();
    trap::clear("sets-off-a-bug");

    let told = steps.iter().find_map(|step| match step {
        Step::Effect(Effect::Pod(pod, PodEffect::Tell(notice))) => {
            Some((pod.name.as_str(), notice.reason, notice.note.as_str()))
        }
        _ => None,
    });
    let (pod, reason, note) = told.unwrap();
    assert_eq!((pod, reason), ("web", "SetAside"));
    assert!(note.contains("request shop/sets-off-a-bug"), "{note}");
    let reported = |id: &str| {
        steps.iter().any(|step| match step {
            Step::Effect(Effect::Request(_, request, RequestEffect::Report(_))) => request.as_str() == id,
            _ => false,
        })
    };
    assert!(reported("usual") && !reported("sets-off-a-bug"));
    assert_eq!(metrics.policy_panics(), 1);
    let [(object, again)] = &metrics.all_set_aside()[..] else { panic!("nothing is shown") };
    assert_eq!(object, "request shop/sets-off-a-bug");
    assert!(deadline.is_some_and(|deadline| deadline <= *again), "it is tried again by itself");
}
