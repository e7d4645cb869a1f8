//! `ContainerRecreateRequest`s as an API server could show them.

use std::time::{Duration, Instant};

use berth_policy::{Config, Event, Node, Step};

use super::requests::shown;
use crate::{
    base::clock::Clock,
    cluster::{object::Object, raw::Raw},
    recreate::codec,
};

/// Checks that a request names its pod and instances and can be planned with, or says why not.
pub fn recreate(data: &[u8]) {
    let Ok(object) = serde_json::from_slice::<Raw>(data) else { return };
    let Some(object) = Object::read(object) else { return };
    match codec::request(shown(&object), &Clock::read()) {
        Ok(request) => {
            assert!(request.ended.is_some() || !request.containers.is_empty());
            let mut node = Node::new(Config::default());
            let begin = Instant::now();
            node.apply(Event::RecreatesListed(request.origin, vec![request]), begin);
            for now in [begin, begin + Duration::from_secs(3600)] {
                for step in node.plan(now) {
                    if let Step::Effect(effect) = step {
                        node.apply(Event::EffectBegan(effect), now);
                    }
                }
                // Read without a panic.
                let _ = (node.next_deadline(), node.requests(now));
            }
        }
        Err(refused) => assert!(!refused.report().message.is_empty()),
    }
}
