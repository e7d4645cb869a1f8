//! The seam between the data path and whoever decides: may a call go on, and how is it answered?

use std::{future::Future, pin::Pin};

use berth_policy::{
    Amendment, Call, CallId, ConnectionId, ContainerId, CreateContainer, CredentialKey, EnvValues, Event,
    HoldReason, Latch, Nudge, Refusal, Showing, Verdict,
};
use tokio::sync::watch;

use crate::{hold::decide_by_asking, trace::TraceParent};

/// A future on the heap: the gate is used as `dyn`.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Authority that is asked about the calls of the intercept table. Implemented by `berthd` around the pure
/// core. Used as `dyn`, so that the path of each call is compiled in this crate, for speed.
pub trait Gate: Send + Sync + 'static {
    /// May this call proceed? Never blocks. Asked again with the same call after each change while it is
    /// held.
    fn admit(&self, call: &Call) -> Verdict;

    /// The verdict on this call that lets it go, whenever that is: by asking again after each change, where
    /// the authority is in this process. Says each time why the call waits. Dropped, it ends the wait.
    fn decide<'a>(&'a self, call: &'a Call, holds: &'a dyn Holds) -> BoxFuture<'a, Decision> {
        Box::pin(decide_by_asking(self, call, holds))
    }

    /// Tells whether it wants to know where the calls that it is asked about belong in the traces of their
    /// clients.
    fn traces(&self) -> bool {
        false
    }

    /// Takes note of a call that goes on without having been asked about. Only where the data path is another
    /// process.
    fn passed(&self, call: &Call) {
        let _ = call;
    }

    /// Takes in what happened on the way. Never blocks, never fails.
    fn observe(&self, event: Event);

    /// A number that grows with every change that could alter a verdict. Subscribe before asking, so that no
    /// change between the answer and the wait is lost.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Makes a latch durable before its call is forwarded. A failure is logged and counted by the
    /// implementation: the call goes on, because the latch is also in memory.
    fn persist(&self, latch: Latch) -> BoxFuture<'_, ()>;

    /// Returns how this call is answered; usually [`Answer::Pass`]. May wait, but not any longer when the
    /// client takes its call back. All but [`Query::Pull`] are asked for calls of the kubelet's connections
    /// only.
    fn answer<'a>(&'a self, query: Query<'a>) -> BoxFuture<'a, Answer>;

    /// Tells whether [`Showing::Completed`] is what the kubelet sees of this container, wherever its status
    /// is told. Asked when the runtime has answered: the agent may have made up its mind since the call came,
    /// and the answer may tell what came of that. Never blocks.
    fn is_completed(&self, container: &ContainerId) -> bool {
        let _ = container;
        false
    }

    /// Waits, for a bounded time, until [`Gate::is_completed`] goes by what is known: a data path that is
    /// another process knows nothing when it begins.
    fn can_tell(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Told of each hold of one call.
pub trait Holds: Send + Sync {
    /// Returns where the call belongs in the trace of its client; `None` where the gate [wants](Gate::traces)
    /// none.
    fn trace(&self) -> Option<TraceParent> {
        None
    }

    /// The call waits now, for this reason. May be said again with each look at it.
    fn held(&self, why: &HoldReason);
}

/// Verdict on a call that has waited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Send it on, changed in this way and no other.
    Pass(Option<Amendment>),
    /// Answer with an error; the runtime never sees the call.
    Refuse(Refusal),
}

/// A call that may be answered otherwise than by the runtime alone, with its facts.
#[derive(Clone, Copy, Debug)]
pub enum Query<'a> {
    /// The kubelet asks for the status of this container. It is shown anything but the truth only once it is
    /// durable that it may have seen it.
    Status {
        /// Its connection.
        connection: ConnectionId,
        /// Which container.
        container: &'a ContainerId,
    },
    /// The kubelet begins a lifecycle hook, by a command without a time limit. The command goes on when it is
    /// durable that it may have begun, where that matters; one that had begun before is [`Answer::Done`].
    Hook {
        /// Its connection.
        connection: ConnectionId,
        /// The hook's container.
        container: &'a ContainerId,
    },
    /// The kubelet relists its containers. Asked after [`Event::RelistAsked`]; nudges count as delivered at
    /// [`Event::RelistAnswered`]. Not asked for lists that look like those of the kubelet's log rotation or
    /// statistics, on which a nudge would be lost.
    Relist(CallId),
    /// The kubelet creates a container; asked when the call goes on. Its values are no part of the verdict:
    /// they are those of the moment at which it goes, and not of an earlier one at which it was held.
    Create(&'a CreateContainer),
    /// A client asks for an image. Waits while the agent pulls just that with the same credentials;
    /// [`Answer::Pass`] at once when it does not, and when its pull fails.
    Pull {
        /// The call.
        call: CallId,
        /// The image, as it is asked for.
        image: &'a str,
        /// The credentials it is asked for with.
        credential: CredentialKey,
        /// Where it belongs in the trace of its client; `None` where the gate [wants](Gate::traces) none.
        trace: Option<TraceParent>,
    },
}

/// The answer to a call that may go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The runtime's, of the call as it came.
    Pass,
    /// The runtime's, of the creation with these env variables: their values are known to be newer than what
    /// the kubelet may have.
    WithEnv(EnvValues),
    /// The runtime's, with the container shown so.
    Shown(Showing),
    /// The runtime's, with these entries added to the list.
    Nudged(Vec<Nudge>),
    /// The call counts as carried out; the runtime never sees it.
    Done,
    /// The image was pulled already, and this is its `image_ref`; the runtime never sees the call.
    Pulled(String),
}
