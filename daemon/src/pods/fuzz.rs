//! The kubelet's answer to `/pods`, from its bytes to what the policy makes of it.

use std::time::{Duration, Instant};

use berth_policy::{
    Call, CallId, Config, ConnectionId, Container, ContainerState, CreateContainer, Event, Node, Pod,
    Request, Step, StopContainer, Verdict,
};

use super::list::{Listed, listed};

const CLIENT: ConnectionId = ConnectionId(1);

/// An order has every container once, highest first; and whatever the pods say, the policy plans and answers,
/// and a hold has an end.
pub fn pods(data: &[u8]) {
    let Ok(Listed { pods, .. }) = listed(data) else { return };
    pods.iter().for_each(ordered);
    let mut node = Node::new(Config::default());
    let begin = Instant::now();
    let mut calls = 0..;
    node.apply(Event::ViewFresh(true), begin);
    node.apply(Event::PodsListed(pods.clone()), begin);
    node.apply(Event::RuntimeListed { sandboxes: Vec::new(), containers: Vec::new() }, begin);
    for (number, pod) in pods.iter().enumerate() {
        let sandbox: berth_policy::SandboxId = format!("sandbox-{number}").into();
        let created = Event::SandboxCreated {
            sandbox: sandbox.clone(),
            pod: pod.pod.clone(),
            declared: Default::default(),
        };
        node.apply(created, begin);
        let mut containers = Vec::new();
        for (position, name) in pod.containers.keys().enumerate() {
            let create = CreateContainer {
                sandbox: sandbox.clone(),
                pod: pod.pod.clone(),
                container: name.clone(),
                attempt: 0,
                declared: Default::default(),
                images: Vec::new(),
            };
            ask(&mut node, calls.next().unwrap_or(0), Request::CreateContainer(create), begin);
            let told = pod.statuses.get(name).map(|report| report.id.clone());
            let id = told.unwrap_or_else(|| format!("container-{number}-{position}").into());
            let (name, state) = (name.clone(), ContainerState::Running);
            containers.push(Container { id, name, attempt: 0, state });
        }
        let stops: Vec<_> = containers.iter().map(|container| container.id.clone()).collect();
        node.apply(Event::SandboxInspected { sandbox, containers }, begin);
        for container in stops {
            let stop = StopContainer { container, timeout: pod.grace };
            ask(&mut node, calls.next().unwrap_or(0), Request::StopContainer(stop), begin);
        }
    }
    for now in [begin, begin + Duration::from_secs(3600)] {
        for step in node.plan(now) {
            if let Step::Effect(effect) = step {
                node.apply(Event::EffectBegan(effect), now);
            }
        }
        assert!(node.plan(now).len() <= 4 * (1 + pods.len()) * 100, "what is owed does not grow without end");
        // Past or to come, and read without a panic.
        let _ = node.next_deadline();
    }
}

fn ordered(pod: &Pod) {
    let Ok(Some(order)) = &pod.order else { return };
    let sequence: Vec<_> = order.launch_sequence().collect();
    assert!(sequence.is_sorted_by(|(_, before), (_, after)| before >= after));
    for (_, priority) in &sequence {
        let same = sequence.iter().filter(|(_, other)| other == priority).count();
        assert_eq!(order.above(*priority).len() + same + order.below(*priority).len(), sequence.len());
    }
}

fn ask(node: &mut Node, id: u64, request: Request, now: Instant) {
    let call = Call { id: CallId(id), connection: CLIENT, arrived: now, deadline: None, request };
    if let Verdict::Hold { until, .. } = node.admit(&call, now) {
        assert!(until > now, "a hold that has ended");
        let again = node.admit(&call, until);
        assert!(!matches!(again, Verdict::Hold { until: still, .. } if still <= until), "{again:?}");
    }
    node.apply(Event::CallEnded(call.id), now);
}
