//! Ends of requests are told, once, by who has seen the request before and leads.

use std::time::Instant;

use berth_proto::crd::{StatusContext, UpdatePhase};

use super::world::*;
use crate::{
    effect::Effect,
    index::alone::Alone,
    notes::Note,
    requests::RequestIndex,
    store::{Now, Object, RecreateSeen},
};

struct Telling {
    index: Alone<RequestIndex, Effect>,
    start: Instant,
    passed: u64,
    notes: Vec<Note>,
}

impl Telling {
    fn new() -> Self {
        Self { index: Alone::default(), start: Instant::now(), passed: 100, notes: Vec::new() }
    }

    fn now(&self) -> Now {
        let passed = seconds(self.passed);
        Now { instant: self.start + passed, wall: World::BEGUN + passed }
    }

    fn lead(&mut self) {
        let effects = self.index.owed(self.now());
        self.keep(effects);
    }

    fn show(&mut self, object: Object) {
        let effects = self.index.apply(object, self.now());
        self.keep(effects);
    }

    fn recreate(&mut self, request: RecreateSeen) {
        self.show(Object::Request(Box::new(request)));
    }

    fn keep(&mut self, effects: Vec<Effect>) {
        self.notes.extend(effects.into_iter().filter_map(|effect| match effect {
            Effect::Note(note) => Some(note),
            _ => None,
        }));
    }

    fn told(&mut self) -> Vec<(&'static str, String)> {
        std::mem::take(&mut self.notes).into_iter().map(|note| (note.reason, note.text)).collect()
    }
}

/// The request ended so many seconds after the beginning of the world.
fn ended(request: RecreateSeen, at: u64) -> RecreateSeen {
    let mut request = request;
    let named = request.spec.iter().flat_map(|spec| &spec.containers);
    let contexts =
        named.map(|container| StatusContext { name: container.name.clone(), ..Default::default() });
    request.status.as_mut().unwrap().container_status_contexts = contexts.collect();
    let mut request = succeeded(request);
    let at = (World::BEGUN + seconds(at)).to_string();
    request.status.as_mut().unwrap().completion_time = Some(serde_json::from_value(at.into()).unwrap());
    request
}

#[test]
fn an_end_is_told_once() {
    let mut world = Telling::new();
    world.lead();
    let open = request("r", "web", &["a", "b"]);
    world.recreate(open.clone());
    assert_eq!(world.told(), []);
    world.recreate(ended(open.clone(), 100));
    let text = "2 of 2 containers of pod web recreated".to_owned();
    assert_eq!(world.told(), [("RecreateCompleted", text)]);
    // Its label is taken, and somebody writes its status anew.
    world.recreate(changed(ended(open.clone(), 100)));
    world.recreate(open.clone());
    world.recreate(ended(open, 101));
    assert_eq!(world.told(), [], "told already");
}

#[test]
fn an_update_is_told_with_its_counts() {
    let mut world = Telling::new();
    world.lead();
    let mut seen = update("u", "web", &["a"]);
    world.show(Object::Update(Box::new(seen.clone())));
    let states =
        serde_json::json!([{ "name": "a", "phase": "Succeeded" }, { "name": "b", "phase": "Failed" }]);
    let status = seen.status.as_mut().unwrap();
    status.phase = Some(UpdatePhase::Completed);
    status.container_update_states = serde_json::from_value(states).unwrap();
    world.show(Object::Update(Box::new(changed(seen))));
    let text = "1 of 2 containers of pod web updated, 1 failed".to_owned();
    assert_eq!(world.told(), [("UpdateFailed", text)]);
}

#[test]
fn what_ended_before_is_not_told() {
    let open = request("r", "web", &["a"]);
    for (how, seen_open, leads_before, at, told) in [
        ("nobody led", true, false, 100, 0),
        ("it was over at first sight", false, true, 100, 0),
        ("it ended before this manager led, and is seen late", true, true, 99, 0),
        ("it ended in the term", true, true, 100, 1),
    ] {
        let mut world = Telling::new();
        if leads_before {
            world.lead();
        }
        if seen_open {
            world.recreate(open.clone());
        }
        world.recreate(ended(open.clone(), at));
        world.lead();
        world.recreate(changed(ended(open.clone(), at)));
        assert_eq!(world.told().len(), told, "{how}");
    }
}

#[test]
fn another_request_of_the_name_is_another() {
    let mut world = Telling::new();
    world.lead();
    let open = request("r", "web", &["a"]);
    world.recreate(open.clone());
    world.recreate(ended(RecreateSeen { uid: "another".to_owned(), ..open }, 100));
    assert_eq!(world.told(), [], "nobody has seen it open");
}
