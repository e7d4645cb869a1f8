//! Signs that an OpenKruise decides in this cluster.
//!
//! Its manager renews a Lease while it leads (`kruise-manager`), and its Deployment wants pods while it is
//! installed. They are in `kruise-system` by its defaults, or wherever its webhook configurations say that
//! its Service is: only administrators write those, and a Lease of that name elsewhere may be anybody's.
//! As in our own election only that the lease moves counts, by our own clock; a sign of life that is ten
//! minutes old needs no second look.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::api::{apps::v1::Deployment, coordination::v1::Lease};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::{Api, Client};
use tokio::time::{Instant, timeout};
use tracing::warn;

use super::signs::Signs;
use crate::telemetry::chain;

const NAMESPACE: &str = "kruise-system";
pub(super) const LEASE: &str = "kruise-manager";
pub(super) const DEPLOYMENT: &str = "kruise-controller-manager";
pub(super) const MUTATING: &str = "kruise-mutating-webhook-configuration";
pub(super) const VALIDATING: &str = "kruise-validating-webhook-configuration";
/// Most namespaces that are looked into.
const MOST_NAMESPACES: usize = 8;
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Promise of a holder that makes none, and the most that is believed.
const PROMISED: (Duration, Duration) = (Duration::from_secs(15), Duration::from_secs(60));
const UNKNOWN: &str = "Whether an OpenKruise runs is not known, looking again";
const FORBIDDEN: &str = "Whether an OpenKruise runs may not be looked for; apply the new roles, or say with \
                         --ownership whose the kinds are";
/// Age of a sign of life that cannot be a difference of clocks.
const LONG_GONE: SignedDuration = SignedDuration::from_mins(10);

/// Verdict of one look; of several namespaces the last in this order counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    /// No OpenKruise runs.
    Free,
    /// It is not known before the next look.
    Unclear,
    /// One runs, and by what that is known.
    Decides(String),
}

/// A state of the lease, and since when it is so.
#[derive(Clone, Debug)]
struct Observed {
    holder: String,
    renewed: Option<MicroTime>,
    since: Instant,
    moved: bool,
}

/// Looks at leases and Deployments, again and again.
pub(super) struct Look {
    client: Client,
    /// States of the leases, by namespace.
    observed: BTreeMap<String, Observed>,
    /// Namespaces that the last look was into.
    namespaces: BTreeSet<String>,
    /// Outcome that was said last.
    said: Option<String>,
}

// === impl Look ===

impl Look {
    pub(super) fn new(client: &Client) -> Self {
        Self { client: client.clone(), observed: BTreeMap::new(), namespaces: BTreeSet::new(), said: None }
    }

    /// Takes one look; `None` without an answer.
    pub(super) async fn take(&mut self) -> Option<Verdict> {
        let answer = timeout(ANSWER_WITHIN, self.look()).await;
        told(answer.map_err(drop)).map_err(|(about, words)| self.say(about, words)).ok()
    }

    async fn look(&mut self) -> kube::Result<Verdict> {
        self.namespaces = self.find().await?;
        self.observed.retain(|namespace, _| self.namespaces.contains(namespace));
        let mut all = Verdict::Free;
        for namespace in self.namespaces.clone() {
            let leases: Api<Lease> = Api::namespaced(self.client.clone(), &namespace);
            let lease = leases.get_opt(LEASE).await?;
            let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), &namespace);
            let deployment = deployments.get_opt(DEPLOYMENT).await?;
            let now = Instant::now();
            let before = self.observed.remove(&namespace);
            let observed = lease.as_ref().and_then(|lease| Observed::next(before, lease, now));
            let of_lease = observed.as_ref().zip(lease.as_ref());
            let of_lease =
                of_lease.map(|(seen, lease)| seen.verdict(&namespace, lease, Timestamp::now(), now));
            let of_deployment = deployment
                .filter(wants_pods)
                .map(|_| Verdict::Decides(format!("Deployment {namespace}/{DEPLOYMENT}, which wants pods")));
            all = of_lease.into_iter().chain(of_deployment).fold(all, Verdict::max);
            self.observed.extend(observed.map(|observed| (namespace, observed)));
        }
        Ok(all)
    }

    /// Watches of all that the last look was at: those that there are, if it was at the same.
    pub(super) fn signs(&self, before: Option<Signs>) -> Signs {
        let same = before.filter(|signs| signs.are_of(&self.namespaces));
        same.unwrap_or_else(|| Signs::new(&self.client, self.namespaces.clone()))
    }

    /// Namespaces that OpenKruise may be in.
    async fn find(&self) -> kube::Result<BTreeSet<String>> {
        let mutating: Api<MutatingWebhookConfiguration> = Api::all(self.client.clone());
        let mutating = mutating.get_opt(MUTATING).await?.and_then(|one| one.webhooks).unwrap_or_default();
        let validating: Api<ValidatingWebhookConfiguration> = Api::all(self.client.clone());
        let validating =
            validating.get_opt(VALIDATING).await?.and_then(|one| one.webhooks).unwrap_or_default();
        let mutating = mutating.into_iter().map(|one| one.client_config);
        Ok(namespaces(mutating.chain(validating.into_iter().map(|one| one.client_config))))
    }

    /// Says it, if it is news.
    pub(super) fn say(&mut self, about: String, words: &'static str) {
        if self.said.as_ref() != Some(&about) {
            warn!(about, "{words}");
        }
        self.said = Some(about);
    }

    /// Forgets what was said: it is news again.
    pub(super) fn forget(&mut self) {
        self.said = None;
    }
}

/// Verdict of an answer; without one, what is to be said of it, and the words for that.
fn told(answer: Result<kube::Result<Verdict>, ()>) -> Result<Verdict, (String, &'static str)> {
    match answer {
        Ok(Ok(verdict)) => Ok(verdict),
        // With roles of another release. Taken for a cluster without one, it could make two that decide.
        Ok(Err(kube::Error::Api(status))) if status.code == 403 => Err((status.message.clone(), FORBIDDEN)),
        Ok(Err(error)) => Err((chain(&error), UNKNOWN)),
        Err(()) => Err(("no answer".to_owned(), UNKNOWN)),
    }
}

/// Namespaces of the Services that webhooks are answered by, and the one of OpenKruise's defaults.
fn namespaces(webhooks: impl Iterator<Item = WebhookClientConfig>) -> BTreeSet<String> {
    let mut found = BTreeSet::from([NAMESPACE.to_owned()]);
    for namespace in webhooks.filter_map(|one| Some(one.service?.namespace)) {
        if found.len() < MOST_NAMESPACES && !namespace.is_empty() {
            found.insert(namespace);
        }
    }
    found
}

fn wants_pods(deployment: &Deployment) -> bool {
    deployment.spec.as_ref().is_some_and(|spec| spec.replicas.unwrap_or(1) > 0)
}

// === impl Observed ===

impl Observed {
    /// State after this look; `None` where nobody holds the lease.
    fn next(before: Option<Self>, lease: &Lease, now: Instant) -> Option<Self> {
        let spec = lease.spec.as_ref()?;
        let holder = spec.holder_identity.clone().filter(|holder| !holder.is_empty())?;
        let renewed = spec.renew_time.clone();
        Some(match before {
            Some(before) if before.holder == holder && before.renewed == renewed => before,
            before => Self { holder, renewed, since: now, moved: before.is_some() },
        })
    }

    fn verdict(&self, namespace: &str, lease: &Lease, wall: Timestamp, now: Instant) -> Verdict {
        let old = self.renewed.as_ref().is_some_and(|renewed| wall.duration_since(renewed.0) > LONG_GONE);
        let promised = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
        let promised = promised.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs);
        let silent = now.saturating_duration_since(self.since);
        match silent >= promised.unwrap_or(PROMISED.0).min(PROMISED.1) {
            true => Verdict::Free,
            false if self.moved => {
                Verdict::Decides(format!("Lease {namespace}/{LEASE}, held by {}", self.holder))
            }
            false if old => Verdict::Free,
            false => Verdict::Unclear,
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::admissionregistration::v1::ServiceReference;
    use k8s_openapi::api::apps::v1::DeploymentSpec;
    use k8s_openapi::api::coordination::v1::LeaseSpec;
    use kube::core::Status;
    use rstest::rstest;

    use super::*;

    const WALL: i64 = 1_000_000;

    fn lease(holder: Option<&str>, renewed: i64, promised: Option<i32>) -> Lease {
        let spec = LeaseSpec {
            holder_identity: holder.map(str::to_owned),
            renew_time: Some(MicroTime(Timestamp::from_second(WALL + renewed).unwrap())),
            lease_duration_seconds: promised,
            ..LeaseSpec::default()
        };
        Lease { spec: Some(spec), ..Lease::default() }
    }

    fn decides() -> Verdict {
        Verdict::Decides("Lease n/kruise-manager, held by a".to_owned())
    }

    /// Looks, each with the seconds since the first, at leases renewed so long before the first.
    fn last(holder: Option<&str>, promised: Option<i32>, looks: &[(u64, i64)]) -> Verdict {
        let start = Instant::now();
        let (mut observed, mut verdict) = (None, Verdict::Unclear);
        for (after, renewed) in looks {
            let (lease, now) = (lease(holder, *renewed, promised), start + Duration::from_secs(*after));
            let wall = Timestamp::from_second(WALL + i64::try_from(*after).unwrap()).unwrap();
            observed = Observed::next(observed, &lease, now);
            verdict = observed.as_ref().map_or(Verdict::Free, |seen| seen.verdict("n", &lease, wall, now));
        }
        verdict
    }

    #[rstest]
    #[case::nobody(None, None, &[(0, 0)], Verdict::Free)]
    #[case::given_up(Some(""), None, &[(0, 0)], Verdict::Free)]
    #[case::first_look(Some("a"), Some(15), &[(0, -1)], Verdict::Unclear)]
    #[case::moves(Some("a"), Some(15), &[(0, -1), (2, 1)], decides())]
    #[case::moves_by_a_clock_far_behind(Some("a"), Some(15), &[(0, -9000), (2, -8998)], decides())]
    #[case::long_gone(Some("a"), Some(15), &[(0, -9000)], Verdict::Free)]
    #[case::goes_silent(Some("a"), Some(15), &[(0, -1), (14, -1)], Verdict::Unclear)]
    #[case::silent(Some("a"), Some(15), &[(0, -1), (15, -1)], Verdict::Free)]
    #[case::silent_after_it_moved(Some("a"), Some(15), &[(0, -1), (2, 1), (17, 1)], Verdict::Free)]
    #[case::no_promise(Some("a"), None, &[(0, -1), (15, -1)], Verdict::Free)]
    #[case::no_end(Some("a"), Some(i32::MAX), &[(0, -1), (60, -1)], Verdict::Free)]
    #[case::less_than_nothing(Some("a"), Some(-1), &[(0, -1), (2, -1)], Verdict::Unclear)]
    fn verdict(
        #[case] holder: Option<&str>,
        #[case] promised: Option<i32>,
        #[case] looks: &[(u64, i64)],
        #[case] expected: Verdict,
    ) {
        assert_eq!(last(holder, promised, looks), expected);
    }

    /// A lease without a time has no age.
    #[test]
    fn no_time_is_no_sign_of_age() {
        let mut lease = lease(Some("a"), 0, None);
        lease.spec.as_mut().unwrap().renew_time = None;
        let now = Instant::now();
        let seen = Observed::next(None, &lease, now).unwrap();
        assert_eq!(seen.verdict("n", &lease, Timestamp::MAX, now), Verdict::Unclear);
    }

    /// An administrator has put it elsewhere; others' leases are not asked for.
    #[test]
    fn it_is_looked_for_where_its_webhooks_are_answered() {
        let of = |namespace: Option<&str>| WebhookClientConfig {
            service: namespace.map(|namespace| ServiceReference {
                namespace: namespace.to_owned(),
                name: "kruise-webhook-service".to_owned(),
                ..ServiceReference::default()
            }),
            ..WebhookClientConfig::default()
        };
        let found =
            |all: Vec<Option<&str>>| namespaces(all.into_iter().map(of)).into_iter().collect::<Vec<_>>();
        assert_eq!(found(vec![]), ["kruise-system"]);
        assert_eq!(found(vec![Some("kruise-system"), None, Some("")]), ["kruise-system"]);
        assert_eq!(found(vec![Some("elsewhere"), Some("elsewhere")]), ["elsewhere", "kruise-system"]);
        let many: Vec<String> = (0..100).map(|at| format!("n{at}")).collect();
        assert_eq!(found(many.iter().map(|name| Some(name.as_str())).collect()).len(), MOST_NAMESPACES);
    }

    #[rstest]
    #[case::as_by_default(None, true)]
    #[case::some(Some(2), true)]
    #[case::stopped(Some(0), false)]
    #[case::less_than_nothing(Some(-1), false)]
    fn a_deployment_that_wants_pods_decides(#[case] replicas: Option<i32>, #[case] expected: bool) {
        let spec = DeploymentSpec { replicas, ..DeploymentSpec::default() };
        assert_eq!(wants_pods(&Deployment { spec: Some(spec), ..Deployment::default() }), expected);
        assert!(!wants_pods(&Deployment::default()));
    }

    #[test]
    fn one_that_decides_counts_more_than_what_is_not_known() {
        let all = [Verdict::Unclear, decides(), Verdict::Free];
        assert_eq!(all.iter().cloned().fold(Verdict::Free, Verdict::max), decides());
        assert_eq!(
            [Verdict::Unclear, Verdict::Free].into_iter().fold(Verdict::Free, Verdict::max),
            Verdict::Unclear
        );
    }

    /// A right that is missing is no sign that there is none.
    #[test]
    fn only_an_answer_is_a_verdict() {
        let api =
            |code| kube::Error::Api(Box::new(Status::failure("leases is forbidden", "").with_code(code)));
        assert_eq!(told(Ok(Ok(Verdict::Free))), Ok(Verdict::Free));
        assert_eq!(told(Ok(Err(api(403)))), Err(("leases is forbidden".to_owned(), FORBIDDEN)));
        assert_eq!(told(Ok(Err(api(500)))).map_err(|(_, words)| words), Err(UNKNOWN));
        assert_eq!(told(Err(())), Err(("no answer".to_owned(), UNKNOWN)));
    }
}
