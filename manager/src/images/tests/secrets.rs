//! Jobs with `pullSecrets`.

use serde_json::json;

use super::world::*;

fn spec() -> serde_json::Value {
    json!({ "pullSecrets": ["one"], "parallelism": 2 })
}

#[test]
fn nothing_begins_before_the_secrets_are_there() {
    let mut world = World::with_nodes(0);
    world.node("n0", &[]);
    world.agent("n0", Some("key-0"));
    world.job("j", spec());
    assert_eq!(world.fetches.len(), 1);
    assert_eq!(&*world.fetches[0].names, ["one".to_owned()]);
    assert!(world.asked("j").is_empty() && world.status("j").start_time.is_none());
    let uid = world.fetches.remove(0).uid;
    let effects = world.index.index.secrets_missing(&uid, "Secret shop/one: make a Role", world.now());
    world.carry_out(effects);
    let accepted = world.condition("j", "Accepted").unwrap();
    assert_eq!((&*accepted.status, &*accepted.reason), ("False", "SecretUnavailable"));
    assert_eq!(world.message("j"), "Secret shop/one: make a Role");
    world.pass(seconds(29));
    assert!(world.fetches.is_empty());
    world.pass(seconds(1));
    assert_eq!(world.fetches.len(), 1, "tried again");
    let effects = world.index.index.secrets_ready(&uid, world.now());
    world.carry_out(effects);
    assert_eq!(world.asked("j"), ["n0"]);
    world.pass(seconds(1));
    assert_eq!(world.condition("j", "Accepted").unwrap().status, "True");
    assert!(world.images["n0"].desired[0].sealed_credentials[0].starts_with("sealed to key-0"));
    world.succeed_all("j");
    assert!(world.is_over("j"));
    assert_eq!(world.forgotten, [uid], "not kept longer than needed");
}

/// An older definition lets it change: another registry must not see what is for the first one.
#[test]
fn what_was_read_for_one_image_is_not_for_another() {
    let mut world = World::with_nodes(2);
    world.agent("n0", Some("key-0"));
    world.agent("n1", Some("key-1"));
    world.job("j", json!({ "pullSecrets": ["one"], "image": "a.example.com/app:1" }));
    let first = world.fetches.remove(0);
    world.waits = true;
    let effects = world.index.index.secrets_ready(&first.uid, world.now());
    world.carry_out(effects);
    assert_eq!(world.index.size().asked, 1);
    world.job("j", json!({ "pullSecrets": ["one"], "image": "b.example.com/app:1" }));
    assert_eq!((&world.forgotten, world.index.size().asked), (&vec![first.uid.clone()], 0));
    assert!(!world.index.wants_secrets(&first), "an answer that is late");
    let second = world.fetches.remove(0);
    assert_eq!(second.image, "b.example.com/app:1");
    assert!(world.index.wants_secrets(&second));
    // The first order is the only one on its way; what was sealed for it is of that image.
    world.orders.clear();
    let effects = world.index.index.secrets_ready(&second.uid, world.now());
    world.waits = false;
    world.carry_out(effects);
    assert_eq!(world.images["n0"].desired[0].image, "b.example.com/app:1");
    world.job("j", json!({ "pullSecrets": ["one"], "image": "b.example.com/app:1", "parallelism": 2 }));
    assert_eq!((world.asked("j").len(), world.fetches.len()), (2, 0), "other limits need no other reading");
}

#[test]
fn a_node_without_a_key_waits() {
    let mut world = World::with_nodes(2);
    world.job("j", spec());
    let uid = world.fetches[0].uid.clone();
    let effects = world.index.index.secrets_ready(&uid, world.now());
    world.carry_out(effects);
    assert!(world.asked("j").is_empty());
    assert!(world.message("j").contains("2 nodes wait until they have published a sealingKey"));
    world.agent("n1", Some("key-1"));
    assert_eq!(world.asked("j"), ["n1"]);
    world.pass(seconds(1));
    assert!(world.message("j").contains("1 nodes wait"), "{}", world.message("j"));
}

#[test]
fn a_seal_is_not_made_anew() {
    let mut world = World::with_nodes(1);
    world.agent("n0", Some("key"));
    world.job("j", spec());
    let uid = world.fetches[0].uid.clone();
    let effects = world.index.index.secrets_ready(&uid, world.now());
    world.carry_out(effects);
    let sealed = world.images["n0"].desired[0].sealed_credentials.clone();
    world.job("k", json!({}));
    let entry = world.images["n0"].desired.iter().find(|entry| *entry.uid == *uid).unwrap();
    assert_eq!((world.images["n0"].desired.len(), &entry.sealed_credentials), (2, &sealed));
    world.hear_all("j");
    world.pass(seconds(300));
    assert_eq!(world.fetches.len(), 2, "read again, as its owner may have changed it");
    let effects = world.index.index.secrets_missing(&uid, "gone", world.now());
    world.carry_out(effects);
    assert!(world.asked("j").contains(&"n0".to_owned()), "what was asked stays asked");
}

#[test]
fn without_its_secrets_a_job_still_ends() {
    let spec = json!({
        "pullSecrets": ["one"],
        "parallelism": 1,
        "completionPolicy": { "activeDeadlineSeconds": 700 },
    });
    // What was asked ends, and nothing more is to be done; or the deadline passes.
    for (nodes, end) in [(1, "Complete"), (2, "Failed")] {
        let mut world = World::with_nodes(0);
        for number in 0..nodes {
            world.node(&format!("n{number}"), &[]);
            world.agent(&format!("n{number}"), Some("key"));
        }
        world.job("j", spec.clone());
        let uid = world.fetches.remove(0).uid;
        let effects = world.index.index.secrets_ready(&uid, world.now());
        world.carry_out(effects);
        assert_eq!(world.asked("j"), ["n0"]);
        world.hear_all("j");
        world.pass(seconds(301));
        let effects = world.index.index.secrets_missing(&uid, "gone", world.now());
        world.carry_out(effects);
        world.succeed_all("j");
        world.pass(seconds(400));
        assert!(world.is_over("j"), "{:?}", world.status("j"));
        assert_eq!(world.condition("j", end).unwrap().status, "True");
        assert_eq!(world.status("j").succeeded, Some(1), "counted all the same");
    }
}

/// A Secret may be on its way, or its Role; one that is not there after a while holds up no job, as it holds
/// up no pod.
#[test]
fn a_job_goes_on_without_a_secret_that_does_not_come() {
    let mut world = World::with_nodes(0);
    world.node("n0", &[]);
    world.agent("n0", Some("key-0"));
    world.job("j", spec());
    let uid = world.fetches.remove(0).uid;
    let text = "Secret shop/one: it does not exist";
    let lacking = |world: &mut World, text: &str| {
        let effects = world.index.index.secrets_lacking(&uid, text, world.now());
        world.carry_out(effects);
    };
    lacking(&mut world, text);
    let said = |world: &World| {
        let accepted = world.condition("j", "Accepted").unwrap();
        (accepted.status.clone(), accepted.reason.clone(), world.message("j").contains(text))
    };
    let unavailable = "SecretUnavailable".to_owned();
    assert_eq!(said(&world), ("False".to_owned(), unavailable.clone(), true));
    assert_eq!((world.asked("j").len(), world.status("j").desired), (0, Some(1)), "counted all the same");
    world.pass(seconds(9));
    assert_eq!((world.fetches.len(), world.asked("j").len()), (0, 0));
    world.pass(seconds(1));
    assert_eq!(world.fetches.len(), 1, "looked for again");
    lacking(&mut world, text);
    assert_eq!(world.asked("j"), ["n0"]);
    world.pass(seconds(1));
    assert_eq!(said(&world), ("True".to_owned(), unavailable, true));
    // It comes after all.
    world.pass(seconds(30));
    assert_eq!(world.fetches.len(), 2);
    let effects = world.index.index.secrets_ready(&uid, world.now());
    world.carry_out(effects);
    world.pass(seconds(1));
    assert_eq!(said(&world), ("True".to_owned(), "Accepted".to_owned(), false));
    world.succeed_all("j");
    assert!(world.is_over("j"));
}
