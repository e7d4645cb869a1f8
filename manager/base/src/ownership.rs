//! Owners of the kinds that OpenKruise has as well. One that is left to OpenKruise is not watched, so nothing
//! is decided on it.

use std::{fmt, str::FromStr};

/// Owner of each shared kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ownership {
    /// All are Berth's while no OpenKruise decides, and left to one that does.
    detects: bool,
    /// Bits of those that are left to OpenKruise.
    left: u32,
}

/// Kind that OpenKruise has as well. NodeImage goes with ImagePullJob, NodePodProbe with PodProbeMarker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedKind {
    /// `advancedcronjobs.apps.kruise.io`.
    AdvancedCronJob,
    /// `broadcastjobs.apps.kruise.io`.
    BroadcastJob,
    /// `clonesets.apps.kruise.io`.
    CloneSet,
    /// `containerrecreaterequests.apps.kruise.io`.
    ContainerRecreateRequest,
    /// `daemonsets.apps.kruise.io`.
    DaemonSet,
    /// `imagepulljobs.apps.kruise.io`.
    ImagePullJob,
    /// `persistentpodstates.apps.kruise.io`.
    PersistentPodState,
    /// `podprobemarkers.apps.kruise.io`.
    PodProbeMarker,
    /// `podunavailablebudgets.policy.kruise.io`.
    PodUnavailableBudget,
    /// `resourcedistributions.apps.kruise.io`.
    ResourceDistribution,
    /// `sidecarsets.apps.kruise.io`.
    SidecarSet,
    /// `statefulsets.apps.kruise.io`.
    StatefulSet,
    /// `uniteddeployments.apps.kruise.io`.
    UnitedDeployment,
    /// `workloadspreads.apps.kruise.io`.
    WorkloadSpread,
}

/// An ownership that makes no sense; its text says what would.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unclear(String);

// === impl Ownership ===

impl Ownership {
    /// Tells whether Berth decides on a kind.
    pub const fn has(self, kind: SharedKind) -> bool {
        self.left & kind.bit() == 0
    }

    /// Tells whether the kinds are left to an OpenKruise that decides.
    pub const fn detects(self) -> bool {
        self.detects
    }

    /// Ownership as it is where an OpenKruise decides, or none does.
    pub(crate) const fn beside(self, decides: bool) -> Self {
        match self.detects && decides {
            true => Self { left: u32::MAX, ..self },
            false => self,
        }
    }

    /// Tells whether the kinds are left because an OpenKruise decides, and nobody has said whose they are.
    pub const fn yields(self) -> bool {
        self.detects && self.left != 0
    }

    /// Tells whether all kinds are Berth's, so that an OpenKruise beside it is one too many.
    pub const fn has_all(self) -> bool {
        self.left == 0
    }
}

impl Default for Ownership {
    fn default() -> Self {
        Self { detects: true, left: 0 }
    }
}

impl fmt::Display for Ownership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.detects {
            return f.write_str("detect");
        }
        f.write_str("berth")?;
        let left = SharedKind::ALL.into_iter().filter(|kind| !self.has(*kind));
        left.into_iter().try_for_each(|kind| write!(f, ",{}=openkruise", kind.name()))
    }
}

/// Reads `detect`, or the owner of all kinds, and after it those of another: `berth,CloneSet=openkruise`.
impl FromStr for Ownership {
    type Err = Unclear;

    fn from_str(text: &str) -> Result<Self, Unclear> {
        let mut words = text.split(',');
        let all = words.next().unwrap_or_default();
        if all == "detect" {
            return match words.next() {
                None => Ok(Self::default()),
                Some(word) => Err(Unclear(format!(
                    "{word:?}: an owner of one kind needs an owner of the others; say berth,{word} or \
                     openkruise,{word}"
                ))),
            };
        }
        let left = if is_left(all)? { u32::MAX } else { 0 };
        let mut named = 0;
        let mut ownership = Self { detects: false, left };
        for word in words {
            let Some((kind, owner)) = word.split_once('=') else {
                return Err(Unclear(format!("{word:?}: say KIND=berth or KIND=openkruise")));
            };
            let kind = SharedKind::of(kind)?;
            if named & kind.bit() != 0 {
                return Err(Unclear(format!("{} has two owners; name it once", kind.name())));
            }
            named |= kind.bit();
            ownership.left =
                if is_left(owner)? { ownership.left | kind.bit() } else { ownership.left & !kind.bit() };
        }
        Ok(ownership)
    }
}

fn is_left(owner: &str) -> Result<bool, Unclear> {
    match owner {
        "berth" => Ok(false),
        "openkruise" => Ok(true),
        _ => Err(Unclear(format!("{owner:?} is no owner; say berth or openkruise, or detect for all kinds"))),
    }
}

// === impl SharedKind ===

impl SharedKind {
    /// All of them, by name.
    pub const ALL: [Self; 14] = [
        Self::AdvancedCronJob,
        Self::BroadcastJob,
        Self::CloneSet,
        Self::ContainerRecreateRequest,
        Self::DaemonSet,
        Self::ImagePullJob,
        Self::PersistentPodState,
        Self::PodProbeMarker,
        Self::PodUnavailableBudget,
        Self::ResourceDistribution,
        Self::SidecarSet,
        Self::StatefulSet,
        Self::UnitedDeployment,
        Self::WorkloadSpread,
    ];

    /// Its name, as in `kind:`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AdvancedCronJob => "AdvancedCronJob",
            Self::BroadcastJob => "BroadcastJob",
            Self::CloneSet => "CloneSet",
            Self::ContainerRecreateRequest => "ContainerRecreateRequest",
            Self::DaemonSet => "DaemonSet",
            Self::ImagePullJob => "ImagePullJob",
            Self::PersistentPodState => "PersistentPodState",
            Self::PodProbeMarker => "PodProbeMarker",
            Self::PodUnavailableBudget => "PodUnavailableBudget",
            Self::ResourceDistribution => "ResourceDistribution",
            Self::SidecarSet => "SidecarSet",
            Self::StatefulSet => "StatefulSet",
            Self::UnitedDeployment => "UnitedDeployment",
            Self::WorkloadSpread => "WorkloadSpread",
        }
    }

    /// Finds the kind of a resource, such as `clonesets` or `clonesets/scale`.
    pub fn of_resource(resource: &str) -> Option<Self> {
        let plural = resource.split_once('/').map_or(resource, |(plural, _)| plural);
        let name = plural.strip_suffix('s')?;
        Self::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(name))
    }

    fn of(name: &str) -> Result<Self, Unclear> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Unclear(match name {
                "NodeImage" => "NodeImage goes with ImagePullJob; name that".to_owned(),
                "NodePodProbe" => "NodePodProbe goes with PodProbeMarker; name that".to_owned(),
                _ => format!("{name:?} is no kind that both have; those are {names}"),
            })
        })
    }

    const fn bit(self) -> u32 {
        1 << self as u32
    }
}

impl fmt::Display for Unclear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unclear {}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn of_berth(text: &str) -> Vec<&'static str> {
        let ownership: Ownership = text.parse().unwrap();
        let all = SharedKind::ALL.into_iter().filter(|kind| ownership.has(*kind));
        all.map(SharedKind::name).collect()
    }

    #[test]
    fn each_kind_has_its_owner() {
        assert_eq!(of_berth("detect").len(), 14);
        assert!("detect".parse::<Ownership>().unwrap().detects());
        assert_eq!(of_berth("berth").len(), 14);
        assert!(!"berth".parse::<Ownership>().unwrap().detects());
        assert_eq!(of_berth("openkruise").len(), 0);
        assert_eq!(of_berth("openkruise,CloneSet=berth,SidecarSet=berth"), ["CloneSet", "SidecarSet"]);
        let but_one = of_berth("berth,WorkloadSpread=openkruise");
        assert!(but_one.len() == 13 && !but_one.contains(&"WorkloadSpread"));
        assert!(SharedKind::ALL.map(SharedKind::name).is_sorted());
    }

    #[test]
    fn resources_have_their_kind() {
        for (resource, kind) in [
            ("clonesets", Some(SharedKind::CloneSet)),
            ("clonesets/scale", Some(SharedKind::CloneSet)),
            ("podunavailablebudgets", Some(SharedKind::PodUnavailableBudget)),
            ("pods", None),
            ("namespaces", None),
            ("", None),
        ] {
            assert_eq!(SharedKind::of_resource(resource), kind, "{resource}");
        }
    }

    #[test]
    fn it_reads_as_it_is_written() {
        for text in ["detect", "berth", "berth,AdvancedCronJob=openkruise,CloneSet=openkruise"] {
            assert_eq!(text.parse::<Ownership>().unwrap().to_string(), text);
        }
    }

    #[rstest]
    #[case::empty("", "\"\" is no owner")]
    #[case::nobody("kruise", "\"kruise\" is no owner; say berth or openkruise")]
    #[case::no_default("CloneSet=berth", "\"CloneSet=berth\" is no owner")]
    #[case::detect_and_one("detect,CloneSet=berth", "say berth,CloneSet=berth or openkruise,CloneSet=berth")]
    #[case::no_owner("berth,CloneSet", "say KIND=berth or KIND=openkruise")]
    #[case::empty_word("berth,", "say KIND=berth")]
    #[case::no_kind("berth,Deployment=openkruise", "no kind that both have; those are AdvancedCronJob, ")]
    #[case::spaces("berth, CloneSet=openkruise", "\" CloneSet\" is no kind")]
    #[case::a_part("berth,NodeImage=openkruise", "goes with ImagePullJob")]
    #[case::twice("berth,CloneSet=openkruise,CloneSet=berth", "CloneSet has two owners")]
    #[case::detect_one("berth,CloneSet=detect", "\"detect\" is no owner")]
    fn others_are_refused(#[case] text: &str, #[case] says: &str) {
        let error = text.parse::<Ownership>().unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}
