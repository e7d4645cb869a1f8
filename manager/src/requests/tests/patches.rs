//! Patches, as they are written.

use serde_json::json;

use super::world::*;

#[test]
fn an_assignment() {
    let mut world = World::new();
    world.pod(pod("p", &[container("a", 1)]));
    let patches = world.request(request("r", "p", &["a"]));
    let expected = json!({
        "nodeName": "node-1",
        "podUID": "uid-of-p",
        "containerStatusContexts": [{ "name": "a", "containerID": id(1), "restartCount": 1 }],
    });
    assert_eq!(serde_json::to_value(patches[0].status()).unwrap(), expected);
}

#[test]
fn a_failure_before_the_assignment() {
    let mut world = World::new();
    let patches = world.request(request("r", "", &["a"]));
    let message = "spec.podName is empty: name a pod of this namespace";
    let expected = json!({
        "phase": "Completed",
        "completionTime": "2023-11-14T22:13:20Z",
        "message": message,
        "conditions": [{
            "type": "Failed",
            "status": "True",
            "reason": "InvalidSpec",
            "message": message,
            "lastTransitionTime": "2023-11-14T22:13:20Z",
        }],
    });
    assert_eq!(serde_json::to_value(patches[0].status()).unwrap(), expected);
}

/// With server-side apply a field that is left out is taken back.
#[test]
fn a_failure_after_the_assignment_has_the_assignment_too() {
    let mut world = World::new();
    world.pod(pod("p", &[container("a", 1)]));
    let patches = world.request(request("r", "p", &["a"]));
    world.write_only(&patches);
    let patches = world.pass(seconds(60));
    let status = serde_json::to_value(patches[0].status()).unwrap();
    assert_eq!(status["nodeName"], "node-1");
    assert_eq!(status["podUID"], "uid-of-p");
    assert_eq!(status["containerStatusContexts"][0]["containerID"], id(1));
    assert_eq!(status["conditions"][0]["reason"], "AgentSilent");
}
