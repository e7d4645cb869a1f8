//! Both sides of the line, for the fuzz targets: any bytes of a hostile peer.

use berth_policy::InAdvance;
use prost::Message;

use super::{
    answers::{answer_of, answer_to_wire, decision_of, decision_to_wire, held_of, held_to_wire},
    calls::{call_of, call_to_wire, event_of, event_to_wire},
    frame::{Incoming, MAX_FRAME},
    gate::RemoteGate,
    message::{Asks, Said, TableChange, ToAgent, ToShim, Told},
    table::{Table, changes},
};
use crate::Metrics;

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

/// Frames that a hostile shim sends to the agent: what is read can be told again, as the same.
pub fn line_to_agent(data: &[u8]) {
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
