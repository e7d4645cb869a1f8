//! A swap of twins: one of two containers of a pod serves, the other one runs an empty image; a new version
//! is started in the empty one, and when it has taken over, the old one becomes empty.
//!
//! ```text
//!   serves v1 | empty   --Start-->   v1 | v2   --Finish-->   empty | serves v2
//!                                     |  \ not taken over: GoBack, or another version into the same twin
//!                                     | v1 or v3 is wanted while v2 runs: v2 has its time to take over first
//! ```
//!
//! [`swap_step`] is a total function of the pod as it is, so a swap goes on wherever an agent died. Which
//! twin served before it began the pod's annotations say (see `stage`); that one is never overwritten.

use std::{collections::BTreeMap, sync::Arc};

/// A swap that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swap {
    /// The version to serve.
    pub image: Arc<str>,
    /// Image of the twin that does not serve.
    pub empty_image: Arc<str>,
    /// Its version, which grows; at least one more than any the pod has.
    pub version: u64,
}

/// One of the twins: the first, `<name>-1`, or the second, `<name>-2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Twin {
    /// `<name>-1`.
    First,
    /// `<name>-2`.
    Second,
}

/// One twin in the pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TwinView {
    /// Its image in the spec.
    pub image: Arc<str>,
    /// Its version by the pod's annotation.
    pub version: u64,
    /// It runs that image, its hook has ended well, and it is Ready.
    pub has_taken_over: bool,
    /// It runs that image, and may be about to take over.
    pub is_taking_over: bool,
}

/// The twins of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TwinsView {
    /// `<name>-1`.
    pub first: TwinView,
    /// `<name>-2`.
    pub second: TwinView,
    /// The one that served before the swap began.
    pub served: Option<Twin>,
}

/// Step that is to be done to twins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SwapStep {
    /// Patch the twins so.
    Patch(SwapPatch),
    /// The new version has not taken over yet.
    Wait(Twin),
    /// This one serves what is wanted, and the other one is empty.
    Done(Twin),
    /// It makes no sense.
    Refused(&'static str),
}

/// One patch of the twins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwapPatch {
    /// The stage that begins with it.
    pub stage: Stage,
    /// New images.
    pub images: BTreeMap<Twin, Arc<str>>,
    /// New values of `version.sidecarset.kruise.io/<twin>`.
    pub versions: BTreeMap<Twin, u64>,
    /// New values of `versionalt.sidecarset.kruise.io/<twin>`: the version of the other twin.
    pub other_versions: BTreeMap<Twin, u64>,
    /// The twin that works from now on.
    pub working: Twin,
}

/// Stages of a swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The new version starts beside the old one.
    Start,
    /// The new version has taken over: the old one becomes empty.
    Finish,
    /// The new version has not taken over in time: it becomes empty, and the old one works on.
    GoBack,
}

impl Twin {
    /// The other one.
    pub fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }
}

impl TwinsView {
    pub(super) fn of(&self, twin: Twin) -> &TwinView {
        match twin {
            Twin::First => &self.first,
            Twin::Second => &self.second,
        }
    }
}

/// The next step of a swap. `gave_up`: the time for taking over has passed.
pub fn swap_step(swap: &Swap, pod: &TwinsView, gave_up: bool) -> SwapStep {
    if swap.image == swap.empty_image {
        return SwapStep::Refused("the empty image is no version: give another image");
    }
    let is_empty = |twin| pod.of(twin).image == swap.empty_image;
    let target = match (is_empty(Twin::First), is_empty(Twin::Second)) {
        (true, true) => return start(swap, pod, Twin::First),
        (true, false) | (false, true) => {
            let serving = if is_empty(Twin::First) { Twin::Second } else { Twin::First };
            return match pod.of(serving).image == swap.image {
                true => SwapStep::Done(serving),
                false => start(swap, pod, serving.other()),
            };
        }
        (false, false) => match pod.served {
            Some(served) => served.other(),
            None => {
                return SwapStep::Refused(
                    "no twin is empty, and nobody knows which one serves: make a new pod",
                );
            }
        },
    };
    let new = pod.of(target);
    // Stopped now, it could leave nobody who serves: the old one may be giving away its sockets.
    let has_time = new.is_taking_over && !gave_up;
    match (new.has_taken_over, pod.of(target.other()).image == swap.image) {
        // Also where another one is wanted, and be it that of before: the old twin may have given everything
        // away, and the way there is from a pod with one version.
        (true, _) => finish(swap, pod, target),
        // The version of before is wanted again.
        (false, true) if has_time => SwapStep::Wait(target),
        (false, true) => go_back(swap, pod, target),
        // A third one is wanted, which goes into the same twin.
        (false, false) if new.image != swap.image && has_time => SwapStep::Wait(target),
        (false, false) if new.image != swap.image => start(swap, pod, target),
        (false, false) if gave_up => go_back(swap, pod, target),
        (false, false) => SwapStep::Wait(target),
    }
}

/// Scripts in the twins compare the two versions: the larger one takes over.
fn start(swap: &Swap, pod: &TwinsView, target: Twin) -> SwapStep {
    let highest = pod.first.version.max(pod.second.version);
    let version = swap.version.max(highest.saturating_add(1));
    SwapStep::Patch(SwapPatch {
        stage: Stage::Start,
        images: [(target, swap.image.clone())].into(),
        versions: [(target, version)].into(),
        other_versions: [(target, pod.of(target.other()).version), (target.other(), version)].into(),
        working: target,
    })
}

fn finish(swap: &Swap, pod: &TwinsView, target: Twin) -> SwapStep {
    empty(swap, pod, target.other(), Stage::Finish)
}

fn go_back(swap: &Swap, pod: &TwinsView, target: Twin) -> SwapStep {
    empty(swap, pod, target, Stage::GoBack)
}

fn empty(swap: &Swap, pod: &TwinsView, twin: Twin, stage: Stage) -> SwapStep {
    SwapStep::Patch(SwapPatch {
        stage,
        images: [(twin, swap.empty_image.clone())].into(),
        versions: [(twin, 0)].into(),
        other_versions: [(twin, pod.of(twin.other()).version), (twin.other(), 0)].into(),
        working: twin.other(),
    })
}
