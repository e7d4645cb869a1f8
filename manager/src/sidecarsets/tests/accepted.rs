//! A set is accepted when its webhook entry stands.

use std::sync::Arc;

use serde_json::json;

use super::world::{World, pod, set};
use crate::store::{Entries, Entry, Reach, Webhooks};

fn reach(app: &str) -> Reach {
    let selector = serde_json::from_value(json!({ "matchLabels": { "app": app } })).ok();
    Reach { selector, ..Reach::default() }
}

fn known(entry: Entry, shared: bool) -> Webhooks {
    Webhooks::Known(Arc::new(Entries { sets: [("s".to_owned(), entry)].into(), shared }))
}

fn told(world: &mut World, webhooks: Webhooks, pass: u64) -> (String, String) {
    let now = world.now();
    world.index.webhooks_stand(webhooks, now);
    world.pass(pass);
    let condition = world.status().conditions.iter().find(|condition| condition.type_ == "Accepted");
    condition.map(|condition| (condition.status.clone(), condition.reason.clone())).unwrap_or_default()
}

fn is(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

#[test]
fn a_set_is_accepted_when_its_entry_stands() {
    let mut world = World::new();
    let now = world.now();
    world.index.webhooks_stand(Webhooks::Unknown, now);
    world.set(set("s", "log:1"));
    assert_eq!(told(&mut world, Webhooks::Unknown, 2_000), is("", ""), "nothing is said before it is known");
    assert_eq!(told(&mut world, known(Entry::Pending, false), 2_000), is("False", "WebhookPending"));
    let other = known(Entry::Stands(reach("other")), false);
    assert_eq!(told(&mut world, other, 2_000), is("False", "WebhookPending"), "it is for other pods");
    let stands = || known(Entry::Stands(reach("web")), false);
    assert_eq!(told(&mut world, stands(), 2_000), is("True", "Accepted"));

    // One that is spoiled, and put right at once, is no news.
    let writes = world.set_writes;
    assert_eq!(told(&mut world, known(Entry::Pending, false), 1_900), is("True", "Accepted"));
    assert_eq!(told(&mut world, stands(), 10_000), is("True", "Accepted"));
    assert_eq!(world.set_writes, writes);
    assert_eq!(told(&mut world, known(Entry::Pending, false), 3_000), is("False", "WebhookPending"));

    let shared = known(Entry::Stands(reach("web")), true);
    assert_eq!(told(&mut world, shared, 2_000), is("True", "SharedWebhook"));
    let left_out = known(Entry::LeftOut("spec.selector: is bad".to_owned()), false);
    assert_eq!(told(&mut world, left_out, 2_000), is("False", "NotInjectable"));
    // The next replica does not take back what it does not know.
    assert_eq!(told(&mut world, Webhooks::Unknown, 2_000), is("False", "NotInjectable"));
    assert_eq!(told(&mut world, Webhooks::Off, 2_000), is("True", "Accepted"), "nobody injects here");
}

#[test]
fn pods_that_were_made_without_it_are_told() {
    let mut world = World::new();
    world.set(set("s", "log:1"));
    world.pod(pod("with", "log:1"));
    let mut without = pod("without", "log:1");
    without.sidecars = None;
    world.pod(without);
    world.pass(3_000);
    assert_eq!(world.reason("Accepted"), "PodsNotInjected");
    let notes: Vec<_> = world.notes.iter().map(|note| (note.reason, note.warning)).collect();
    assert_eq!(notes, [("NotInjectedPods", true)], "once");
    world.pass(60_000);
    world.pod(pod("another", "log:1"));
    world.pass(3_000);
    assert_eq!(world.notes.len(), 1);
    world.no_pod("without");
    world.pass(3_000);
    assert_eq!(world.reason("Accepted"), "Accepted");
}
