//! Owners of the kinds that OpenKruise has as well, as `--ownership` names them, and which of the kinds a
//! running OpenKruise can be kept from. Pure.

use Division::{By, Never, Untried};

/// Gate without which OpenKruise's manager leaves the three kinds of its daemon alone.
const DAEMON: Gate = Gate { name: "KruiseDaemon", is_on: true };
const DISTRIBUTION: Gate = Gate { name: "ResourceDistributionGate", is_on: false };

/// Feature gate of OpenKruise's manager.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Gate {
    /// Name of it.
    pub name: &'static str,
    /// It is on where nobody says so.
    pub is_on: bool,
}

/// Way to keep OpenKruise's manager from a kind while it runs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Division {
    /// None: it acts on the kind as long as it runs.
    Never,
    /// Nobody has tried one.
    Untried,
    /// Gate that has to be off. Its webhooks refuse such objects from then on, unless their entries go.
    By(Gate),
}

/// Kind that both have.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shared {
    /// Name of it, as in `kind:`.
    pub name: &'static str,
    /// Resources that go with it.
    pub resources: &'static [&'static str],
    /// Way to keep OpenKruise from it.
    pub division: Division,
}

/// All of them, by name.
pub(super) const SHARED: [Shared; 14] = [
    of("AdvancedCronJob", &["advancedcronjobs"], Never),
    of("BroadcastJob", &["broadcastjobs"], Never),
    of("CloneSet", &["clonesets"], Never),
    of("ContainerRecreateRequest", &["containerrecreaterequests"], By(DAEMON)),
    of("DaemonSet", &["daemonsets"], Never),
    of("ImagePullJob", &["imagepulljobs", "nodeimages"], By(DAEMON)),
    of("PersistentPodState", &["persistentpodstates"], Never),
    of("PodProbeMarker", &["podprobemarkers", "nodepodprobes"], By(DAEMON)),
    of("PodUnavailableBudget", &["podunavailablebudgets"], Untried),
    of("ResourceDistribution", &["resourcedistributions"], By(DISTRIBUTION)),
    of("SidecarSet", &["sidecarsets"], Never),
    of("StatefulSet", &["statefulsets"], Never),
    of("UnitedDeployment", &["uniteddeployments"], Never),
    of("WorkloadSpread", &["workloadspreads"], Untried),
];

const fn of(name: &'static str, resources: &'static [&'static str], division: Division) -> Shared {
    Shared { name, resources, division }
}

impl Gate {
    /// Tells whether it is on, by the values of `--feature-gates`: the last word counts.
    pub(super) fn is_on(&self, gates: &str) -> bool {
        let mut words = gates.split(',').filter_map(|word| word.trim().split_once('='));
        let said = words.rfind(|(name, _)| *name == self.name);
        said.map_or(self.is_on, |(_, value)| value.eq_ignore_ascii_case("true"))
    }
}

/// Tells whether a kind is Berth's by an `--ownership`, while an OpenKruise decides.
pub(super) fn is_of_berth(ownership: &str, kind: &Shared) -> bool {
    let mut words = ownership.split(',');
    let all = words.next();
    let own = words.filter_map(|word| word.split_once('=')).find(|(name, _)| *name == kind.name);
    own.map(|(_, owner)| owner).or(all) == Some("berth")
}

/// Kind of a resource such as `nodeimages`.
pub(super) fn kind_of(resource: &str) -> Option<&'static Shared> {
    SHARED.iter().find(|kind| kind.resources.contains(&resource))
}
