//! The points, and on whose way they are.

/// A point on the way of a recreate, a pull, an update, the end of a job sidecar, a hand-over, a creation at the gate, or a
/// change of the store. The order is that of the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// The old exited instances are about to be removed.
    Removing,
    /// They are removed.
    Removed,
    /// The marks are about to be written.
    Marking,
    /// They are durable.
    Marked,
    /// A nudge is about to go out.
    Nudging,
    /// The mark says that the kubelet may have seen it; the answer has not gone.
    Shown,
    /// The mark says that the hook may have begun; the command has not gone.
    Hooked,
    /// The kubelet's StopContainer is about to go on.
    StopAsked,
    /// It succeeded.
    Stopped,
    /// The new instance was created.
    Created,
    /// It was started.
    Started,
    /// The status is about to be written.
    Reporting,
    /// It is written.
    Reported,
    /// The marks are about to be removed.
    Unmarking,
    /// They are removed.
    Unmarked,
    /// The runtime was asked to pull; the image is not there.
    Pulling,
    /// The runtime has pulled; nobody was told.
    Pulled,
    /// The status of an update is about to be written.
    Telling,
    /// It is written.
    Told,
    /// The pod is about to be set not ready.
    Closing,
    /// It is.
    Closed,
    /// The mark of a job sidecar is about to be written.
    Ending,
    /// It is durable.
    Ended,
    /// The agent has stopped a container without the kubelet, and nobody has seen it.
    DirectlyStopped,
    /// A batch is about to be patched.
    Patching,
    /// It is patched.
    Patched,
    /// The pod is about to be set ready.
    Opening,
    /// It is.
    Opened,
    /// A successor has taken the sockets and the store.
    Taken,
    /// It accepts, and has not said so.
    Accepting,
    /// It has said so.
    Succeeded,
    /// The status of the node's images is about to be written.
    Answering,
    /// It is written.
    Answered,
    /// A creation is about to be held until other containers are up.
    Holding,
    /// A creation is about to be refused.
    Refusing,
    /// A creation is about to go on.
    Forwarding,
    /// The latch of a launch level is about to be written.
    Latching,
    /// It is durable; the creation that it was written for has not gone on.
    Latched,
    /// A change of the store is about to be made durable.
    Committing,
    /// It is durable; whoever asked for it was not told.
    Committed,
}

impl Point {
    /// Those of a recreate.
    pub const RECREATE: [Self; 15] = [
        Self::Removing,
        Self::Removed,
        Self::Marking,
        Self::Marked,
        Self::Nudging,
        Self::Shown,
        Self::Hooked,
        Self::StopAsked,
        Self::Stopped,
        Self::Created,
        Self::Started,
        Self::Reporting,
        Self::Reported,
        Self::Unmarking,
        Self::Unmarked,
    ];

    /// Those of a pull.
    pub const PULL: [Self; 2] = [Self::Pulling, Self::Pulled];

    /// Those of an update that restarts a container for its env.
    pub const UPDATE: [Self; 17] = [
        Self::Telling,
        Self::Told,
        Self::Closing,
        Self::Closed,
        Self::Patching,
        Self::Patched,
        Self::Marking,
        Self::Marked,
        Self::Nudging,
        Self::Shown,
        Self::Hooked,
        Self::StopAsked,
        Self::Stopped,
        Self::Created,
        Self::Started,
        Self::Opening,
        Self::Opened,
    ];

    /// Those of the end of a job sidecar.
    pub const SIDECAR: [Self; 3] = [Self::Ending, Self::Ended, Self::DirectlyStopped];

    /// Those of a hand-over, in the successor.
    pub const HANDOVER: [Self; 3] = [Self::Taken, Self::Accepting, Self::Succeeded];

    /// Those of what is told of images.
    pub const ANSWER: [Self; 2] = [Self::Answering, Self::Answered];

    /// Those of a creation at the gate.
    pub const GATE: [Self; 5] =
        [Self::Holding, Self::Refusing, Self::Forwarding, Self::Latching, Self::Latched];

    /// Those of the store, whatever it is that changes.
    pub const STORE: [Self; 2] = [Self::Committing, Self::Committed];

    /// As the file spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Removing => "removing",
            Self::Removed => "removed",
            Self::Marking => "marking",
            Self::Marked => "marked",
            Self::Nudging => "nudging",
            Self::Shown => "shown",
            Self::Hooked => "hooked",
            Self::StopAsked => "stop-asked",
            Self::Stopped => "stopped",
            Self::Created => "created",
            Self::Started => "started",
            Self::Reporting => "reporting",
            Self::Reported => "reported",
            Self::Unmarking => "unmarking",
            Self::Unmarked => "unmarked",
            Self::Pulling => "pulling",
            Self::Pulled => "pulled",
            Self::Telling => "telling",
            Self::Told => "told",
            Self::Closing => "closing",
            Self::Closed => "closed",
            Self::Ending => "ending",
            Self::Ended => "ended",
            Self::DirectlyStopped => "directly-stopped",
            Self::Patching => "patching",
            Self::Patched => "patched",
            Self::Opening => "opening",
            Self::Opened => "opened",
            Self::Taken => "taken",
            Self::Accepting => "accepting",
            Self::Succeeded => "succeeded",
            Self::Answering => "answering",
            Self::Answered => "answered",
            Self::Holding => "holding",
            Self::Refusing => "refusing",
            Self::Forwarding => "forwarding",
            Self::Latching => "latching",
            Self::Latched => "latched",
            Self::Committing => "committing",
            Self::Committed => "committed",
        }
    }
}
