//! The points, and on whose way they are.
//!
//! A point is declared once, with its name and its ways; every list of points comes from here.

/// The work that leads the agent past a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A recreate.
    Recreate,
    /// An update that restarts a container for its env.
    Update,
    /// A swap of twins that comes about.
    Swap,
    /// A swap of twins whose hook hangs.
    SwapBack,
    /// The end of a job sidecar.
    JobSidecar,
    /// A pull.
    Pull,
    /// The status of the node's images.
    Answer,
    /// A hand-over, in the successor.
    HandOver,
    /// A creation at the gate.
    Gate,
    /// A change of the store, by anything.
    Store,
}

macro_rules! points {
    ($($(#[$doc:meta])+ $point:ident = $name:literal on $($way:ident)|+;)+) => {
        /// A point on the way of some work. The order is that of the way.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Point {
            $($(#[$doc])+ $point,)+
        }

        impl Point {
            /// Every point.
            pub const ALL: &[Self] = &[$(Self::$point),+];

            /// The name, as the file spells it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$point => $name,)+
                }
            }

            /// The ways that it is on.
            pub fn ways(self) -> &'static [Way] {
                match self {
                    $(Self::$point => &[$(Way::$way),+],)+
                }
            }
        }
    };
}

points! {
    /// The old exited instances are about to be removed.
    Removing = "removing" on Recreate;
    /// The old exited instances are removed.
    Removed = "removed" on Recreate;
    /// The marks are about to be written.
    Marking = "marking" on Recreate | Update;
    /// The marks are durable.
    Marked = "marked" on Recreate | Update;
    /// A nudge is about to go out.
    Nudging = "nudging" on Recreate | Update;
    /// The mark says that the kubelet may have seen it; the answer has not gone.
    Shown = "shown" on Recreate | Update;
    /// The mark says that the hook may have begun; the command has not gone.
    Hooked = "hooked" on Recreate | Update;
    /// The kubelet's StopContainer is about to go on.
    StopAsked = "stop-asked" on Recreate | Update;
    /// The kubelet's StopContainer succeeded.
    Stopped = "stopped" on Recreate | Update;
    /// The new instance was created.
    Created = "created" on Recreate | Update;
    /// The new instance was started.
    Started = "started" on Recreate | Update;
    /// The status is about to be written.
    Reporting = "reporting" on Recreate;
    /// The status is written.
    Reported = "reported" on Recreate;
    /// The marks are about to be removed.
    Unmarking = "unmarking" on Recreate;
    /// The marks are removed.
    Unmarked = "unmarked" on Recreate;
    /// The runtime was asked to pull; the image is not there.
    Pulling = "pulling" on Pull;
    /// The runtime has pulled; nobody was told.
    Pulled = "pulled" on Pull;
    /// The status of an update is about to be written.
    Telling = "telling" on Update;
    /// The status of an update is written.
    Told = "told" on Update;
    /// The pod is about to be set not ready.
    Closing = "closing" on Update;
    /// The pod is set not ready.
    Closed = "closed" on Update;
    /// The mark of a job sidecar is about to be written.
    Ending = "ending" on JobSidecar;
    /// The mark of a job sidecar is durable.
    Ended = "ended" on JobSidecar;
    /// The agent has stopped a container without the kubelet, and nobody has seen it.
    DirectlyStopped = "directly-stopped" on JobSidecar;
    /// A batch is about to be patched.
    Patching = "patching" on Update;
    /// A batch is patched.
    Patched = "patched" on Update;
    /// The patch that starts a new version beside the old one is about to be written.
    SwapStarting = "swap-starting" on Swap | SwapBack;
    /// The patch that starts a new version is written.
    SwapStarted = "swap-started" on Swap | SwapBack;
    /// The new version has taken over: the patch that empties the old one is about to be written.
    SwapFinishing = "swap-finishing" on Swap;
    /// The patch that empties the old version is written.
    SwapFinished = "swap-finished" on Swap;
    /// The patch that gives a new version up is about to be written.
    SwapReturning = "swap-returning" on SwapBack;
    /// The patch that gives a new version up is written.
    SwapReturned = "swap-returned" on SwapBack;
    /// A container whose hook holds the kubelet is about to be stopped.
    Unholding = "unholding" on SwapBack;
    /// A container whose hook held the kubelet is stopped.
    Unheld = "unheld" on SwapBack;
    /// The pod is about to be set ready.
    Opening = "opening" on Update;
    /// The pod is set ready.
    Opened = "opened" on Update;
    /// A successor has taken the sockets and the store.
    Taken = "taken" on HandOver;
    /// A successor accepts, and has not said so.
    Accepting = "accepting" on HandOver;
    /// A successor has said that it accepts.
    Succeeded = "succeeded" on HandOver;
    /// The status of the node's images is about to be written.
    Answering = "answering" on Answer;
    /// The status of the node's images is written.
    Answered = "answered" on Answer;
    /// A creation is about to be held until other containers are up.
    Holding = "holding" on Gate;
    /// A creation is about to be refused.
    Refusing = "refusing" on Gate;
    /// A creation is about to go on.
    Forwarding = "forwarding" on Gate;
    /// The latch of a launch level is about to be written.
    Latching = "latching" on Gate;
    /// The latch of a launch level is durable; the creation that it was written for has not gone on.
    Latched = "latched" on Gate;
    /// A change of the store is about to be made durable.
    Committing = "committing" on Store;
    /// A change of the store is durable; whoever asked for it was not told.
    Committed = "committed" on Store;
}

impl Point {
    /// The points of a way, in its order.
    pub fn on(way: Way) -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(move |point| point.ways().contains(&way))
    }

    /// The point of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|point| point.name() == name)
    }
}
