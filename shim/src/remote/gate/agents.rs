//! The gate as its line sees it: agents that come, say something, are silent, and go.

use std::sync::{Arc, atomic::Ordering};

use tokio::time::Instant;
use tracing::debug;

use super::{GONE, Link, RemoteGate, SILENT, State};
use crate::remote::{
    VERSION,
    answers::held_of,
    calls::Beyond,
    frame::Outgoing,
    message::{Answers, Counts, Nothing, Refused, Said, ShimHello, ShimState, ToAgent, ToShim, Told},
    questions::{Heard, locked},
};

impl RemoteGate {
    /// An agent has come: it takes the place of the one before. Gives the number of its connection, and what
    /// is to be written to it: first of all, what goes on and what waits.
    pub(in crate::remote) fn begin(&self) -> (u64, Arc<Outgoing>) {
        let mut state = locked(&self.state);
        self.unlink(&mut state);
        state.links += 1;
        let (number, outgoing) = (state.links, Arc::new(Outgoing::default()));
        state.link = Some(Link {
            number,
            outgoing: outgoing.clone(),
            heard: Instant::now(),
            pinged: None,
            complete: false,
            told: Counts::default(),
        });
        let hello = ShimHello {
            version: VERSION,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            process: self.process,
            connections: state.connections.iter().map(|connection| connection.0).collect(),
        };
        let now = std::time::Instant::now();
        let mut words = vec![Told::Hello(hello)];
        for (id, going) in &state.going {
            words.extend(going.told(*id, now));
        }
        let waiting = state.questions.all().filter_map(|(id, question)| question.to_wire(id, now).ok());
        words.extend(waiting.map(Told::Question));
        words.push(Told::CaughtUp(Nothing {}));
        if state.succeeded {
            words.push(Told::Succeeded(Nothing {}));
        }
        for told in words {
            if let Err(error) = outgoing.put_first(&ToAgent { told: Some(told) }) {
                debug!(?error, "Not told");
            }
        }
        (number, outgoing)
    }

    /// Tells whether this connection is the agent's.
    pub(in crate::remote) fn is_current(&self, number: u64) -> bool {
        locked(&self.state).link.as_ref().is_some_and(|link| link.number == number)
    }

    /// The connection has ended.
    pub(in crate::remote) fn ended(&self, number: u64) {
        let mut state = locked(&self.state);
        if state.link.as_ref().is_some_and(|link| link.number == number) {
            self.unlink(&mut state);
        }
    }

    /// Takes a word of the agent.
    pub(in crate::remote) fn heard(&self, number: u64, word: ToShim) -> Result<(), Beyond> {
        let mut state = locked(&self.state);
        let State { table, questions, link: Some(link), .. } = &mut *state else { return Ok(()) };
        if link.number != number {
            return Ok(());
        }
        link.heard = Instant::now();
        link.pinged = None;
        match word.said {
            // One that a later version says.
            None | Some(Said::Hello(_) | Said::Pong(_)) => {}
            // Words of others.
            Some(Said::Look(_) | Said::Upgrade(_) | Said::Scrape(_) | Said::Drain(_)) => {}
            Some(Said::Table(change)) => {
                let (complete, traces) = (change.complete, change.traces);
                table.change(change)?;
                self.traces.store(traces, Ordering::Relaxed);
                link.complete |= complete;
            }
            Some(Said::Answer(answer)) => {
                // Of a kind that a later version has: as none at all would be, or its question waits for
                // ever.
                let answers = answer.answer.unwrap_or(Answers::Refuse(Refused::default()));
                questions.heard(answer.question, Heard::Answer(answers));
            }
            Some(Said::Held(held)) => match held_of(&held) {
                Ok(why) => questions.heard(held.question, Heard::Held(why)),
                Err(error) => debug!(%error, "A call waits for a reason that is not known here"),
            },
        }
        if link.complete {
            self.presence.send_if_modified(|presence| presence.comes());
        }
        Ok(())
    }

    /// Tells the agent that another process has the sockets now: it connects to that one, too, and goes on to
    /// answer for what is left here.
    pub fn succeeded(&self) {
        let mut state = locked(&self.state);
        state.succeeded = true;
        self.tell(&mut state, Told::Succeeded(Nothing {}));
    }

    /// State of the shim, for people.
    pub(in crate::remote) fn state(&self) -> ShimState {
        let table = locked(&self.state).table.version;
        ShimState {
            program: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            agent: self.has_agent(),
            table,
            connections: self.metrics.connections_open(),
            kubelet: self.metrics.kubelet_connections_open(),
            held: self.metrics.held_now(),
            line: VERSION,
            ..ShimState::default()
        }
    }

    /// Looks, now and then, whether the agent is there, and tells it how many connections there are.
    pub(in crate::remote) fn look(&self, number: u64) {
        let mut state = locked(&self.state);
        let asked = !state.questions.is_empty();
        let counts = Counts {
            connections: self.metrics.connections_open(),
            kubelet: self.metrics.kubelet_connections_open(),
            held: self.metrics.held_now(),
        };
        let Some(link) = state.link.as_mut().filter(|link| link.number == number) else { return };
        let mut words = Vec::new();
        if std::mem::replace(&mut link.told, counts) != counts {
            words.push(Told::Counts(counts));
        }
        match link.pinged {
            Some(pinged) if pinged.elapsed() >= GONE => self.is_away(pinged),
            Some(_) => {}
            None if asked && link.heard.elapsed() >= SILENT => {
                link.pinged = Some(Instant::now());
                words.push(Told::Ping(Nothing {}));
            }
            None => {}
        }
        words.into_iter().for_each(|told| self.tell(&mut state, told));
    }
}
