//! Both sides of the line, for the fuzz targets: any bytes of a hostile peer.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use berth_policy::{Call, CallId, Event, InAdvance, Latch, Verdict};
use prost::Message;
use tokio::sync::watch;

use super::{
    AgentLink, Foresight,
    answers::{answer_of, answer_to_wire, decision_of, decision_to_wire, held_of, held_to_wire},
    calls::{call_of, call_to_wire, event_of, event_to_wire},
    frame::{Incoming, MAX_FRAME},
    gate::RemoteGate,
    message::{Asks, Said, TableChange, ToAgent, ToShim, Told},
    questions::locked,
    table::{Table, changes},
};
use crate::{
    Metrics,
    gate::{Answer, BoxFuture, Gate, Query},
};

/// An agent that lets everything pass, and knows which calls go on.
#[derive(Debug, Default)]
struct Seen {
    calls: Mutex<BTreeSet<CallId>>,
    changes: watch::Sender<u64>,
}

impl Gate for Seen {
    fn admit(&self, call: &Call) -> Verdict {
        self.passed(call);
        Verdict::Forward
    }

    fn passed(&self, call: &Call) {
        locked(&self.calls).insert(call.id);
    }

    fn observe(&self, event: Event) {
        match event {
            Event::RelistAsked { call, .. } | Event::PullPassed { call, .. } => {
                locked(&self.calls).insert(call);
            }
            Event::CallEnded(call) => {
                locked(&self.calls).remove(&call);
            }
            _ => {}
        }
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn persist(&self, _: Latch) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    fn answer<'a>(&'a self, _: Query<'a>) -> BoxFuture<'a, Answer> {
        Box::pin(async { Answer::Pass })
    }
}

impl Foresight for Seen {
    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn foretold(&self) -> u64 {
        0
    }

    fn in_advance(&self) -> Option<InAdvance> {
        Some(InAdvance::default())
    }

    fn told(&self, _: Option<u64>) {}
}

/// Frames that a hostile agent sends to the shim: whatever they are, the gate lives, and what it takes can be
/// told again.
pub fn line_to_shim(data: &[u8]) {
    let gate = RemoteGate::new(Metrics::default());
    let (number, _) = gate.begin();
    for frame in frames(data) {
        let Ok(word) = ToShim::decode(frame) else { continue };
        if let Some(Said::Answer(answer)) = &word.said
            && let Some(answers) = &answer.answer
        {
            if let Ok(answer) = answer_of(answers.clone()) {
                assert_eq!(answer_of(answer_to_wire(&answer)), Ok(answer));
            }
            if let Ok(decision) = decision_of(answers.clone()) {
                assert!(decision_of(decision_to_wire(&decision)).is_ok());
            }
        }
        if let Some(Said::Held(held)) = &word.said
            && let Ok(why) = held_of(held)
        {
            assert_eq!(held_of(&held_to_wire(held.question, &why)), Ok(why));
        }
        if gate.heard(number, word).is_err() {
            break;
        }
        gate.look(number);
    }
    gate.ended(number);
}

/// Frames that a hostile shim sends to the agent: what is read can be told again, as the same; and whatever
/// is told in whatever order, in the end no call goes on.
pub fn line_to_agent(data: &[u8]) {
    let seen = Arc::new(Seen::default());
    let resync = Arc::new(|| -> BoxFuture<'static, ()> { Box::pin(async {}) });
    let link = AgentLink::new(seen.clone(), seen.clone(), resync, Metrics::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    // A machine without memory for one is no finding.
    let Ok(runtime) = runtime else { return };
    runtime.block_on(link.play(frames(data).map_while(|frame| ToAgent::decode(frame).ok())));
    assert!(locked(&seen.calls).is_empty(), "{:?}", seen.calls);
    for frame in frames(data) {
        let Ok(ToAgent { told: Some(told) }) = ToAgent::decode(frame) else { continue };
        // Far enough from the beginning of the clock that an age can be taken off.
        let now = std::time::Instant::now();
        match told {
            Told::Passed(made) => drop(call_of(made, now)),
            Told::Question(question) => {
                if let Some(Asks::Call(made)) = question.asks
                    && let Ok(call) = call_of(made, now)
                {
                    assert!(call_to_wire(&call, now).is_ok());
                }
            }
            Told::Event(event) => {
                if let Ok(Some(event)) = event_of(event) {
                    assert!(matches!(event_to_wire(&event), Ok(Some(_))), "{event:?}");
                }
            }
            _ => {}
        }
    }
}

/// Changes of the table: never more rows than the bounds, and nothing that was not said.
pub fn line_table(data: &[u8]) {
    let mut table = Table::default();
    for frame in frames(data) {
        if let Ok(change) = TableChange::decode(frame) {
            let _ = table.change(change);
        }
        table.check_bounds();
    }
    let whole = changes(None, &InAdvance::default(), 1);
    assert!(whole.into_iter().all(|change| table.change(change).is_ok()));
    table.check_empty();
}

fn frames(data: &[u8]) -> impl Iterator<Item = bytes::Bytes> {
    let mut incoming = Incoming::default();
    incoming.push(data);
    std::iter::from_fn(move || {
        let frame = incoming.next().ok().flatten()?;
        assert!(frame.len() <= MAX_FRAME);
        Some(frame)
    })
}
