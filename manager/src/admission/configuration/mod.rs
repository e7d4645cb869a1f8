//! The manager's webhook configurations: what is to stand in them, from the SidecarSets and the bundle of
//! CAs. Pure; `reconciler` writes it.
//!
//! One entry for each set, with the set's own selectors: when no manager answers, exactly the pods that the
//! set selects wait, or start without its sidecars where the set's annotation `berth.dev/failure-policy` says
//! `Ignore`. Above [`MOST_SETS`] sets one entry is for all pods, and it ignores: no list of pods that wait
//! could be told from all of them. While a set's selectors change it has a second one (`changing`).
//!
//! Defaults that the API server would fill in are written out, so that what it shows compares equal.

mod budgets;
mod changing;
mod coming;
mod kind;
mod left;
mod pace;
mod pod_states;
mod precedence;
mod protection;
mod reconciler;
mod refused;
mod selectors;
mod spreads;
mod standing;
mod trial;
mod wanted;

use berth_base::ownership::Ownership;
use k8s_openapi::{
    ByteString,
    api::admissionregistration::v1::{
        MatchCondition, MutatingWebhook, RuleWithOperations, ServiceReference, ValidatingWebhook,
        WebhookClientConfig,
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement},
};

pub(super) use self::{
    budgets::BudgetOptions,
    changing::{next_of, set_of},
    coming::{Announced, Announcer, announce, announcements},
    kind::Configuration,
    pace::PAUSES,
    pod_states::{StateOptions, is_shared as one_is_for_all_states},
    precedence::{Precedence, Writer},
    reconciler::{ANSWER_WITHIN, ConfigurationReconciler, QUIET},
    spreads::{SpreadOptions, all_spreads_are_asked, has_entry, is_shared as one_is_for_all_spreads},
    wanted::{Choices, sample},
};
use super::{path::Route, sets::SetRules, workloads};
use crate::size;

/// Most sets with an entry for each: beyond, one entry is for all of them.
pub(super) const MOST_SETS: usize = 200;
/// Most bytes of entries that are written: the API server takes objects of 1.5 MiB, and keeps who owns which
/// field beside them.
const MOST_BYTES: usize = 512 << 10;
/// Bytes among them that are of sets, without their bundles: a bundle gets a second CA when the certificate
/// is renewed, and no set is to lose its entry by that.
const MOST_OF_SETS: usize = 384 << 10;
/// Bytes of sets with their bundles, however large these are.
const MOST_WITH_BUNDLES: usize = 1 << 20;
/// Namespaces whose pods and requests are never taken in: those must start without us.
pub(super) const LEFT_OUT: [&str; 2] = ["kube-system", "berth-system"];
/// The label by which every namespace has its name.
const NAME_OF_NAMESPACE: &str = "kubernetes.io/metadata.name";
/// The API server waits so long for an answer.
const TIMEOUT_SECONDS: i32 = 5;
/// Names of the entries of sets and of spreads end with it, before the domain.
const OF_A_SET: &str = "sidecarset";
const OF_A_SPREAD: &str = "workloadspread";
/// Names of entries end with it.
const DOMAIN: &str = "berth.dev";
/// Name of the entry for all sets, without the domain.
const OF_ALL_SETS: &str = "sidecarsets.pods";

/// Says whether this entry has that name, which is without the domain.
fn is_named(entry: &MutatingWebhook, name: &str) -> bool {
    entry.name.strip_suffix(DOMAIN).and_then(|start| start.strip_suffix('.')) == Some(name)
}

/// Where the API server finds the manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Service {
    pub(super) namespace: String,
    pub(super) name: String,
}

/// Options besides sidecars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    /// Every pod gets the readiness gate KruisePodReady.
    pub(super) pod_readiness_gate: bool,
    /// Namespaces and definitions that are protected by what they have are asked about.
    pub(super) deletion_protection: bool,
    /// Owner of each kind that OpenKruise has as well.
    pub(super) ownership: Ownership,
}

/// Entries as they are to be.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Desired {
    /// Entries of the MutatingWebhookConfiguration.
    pub(super) mutating: Vec<MutatingWebhook>,
    /// Entries of the ValidatingWebhookConfiguration.
    pub(super) validating: Vec<ValidatingWebhook>,
    /// Sets without an entry, and why.
    pub(super) left_out: Vec<(String, String)>,
    /// Whether one entry is for all sets.
    pub(super) shared: bool,
}

/// Computes the entries.
pub(super) fn desired<'a>(
    sets: impl Iterator<Item = (&'a String, &'a SetRules)>,
    bundle: &[u8],
    service: &Service,
    options: Options,
) -> Desired {
    let (mut entries, mut left_out) = (Vec::new(), Vec::new());
    for (name, set) in sets {
        match selectors::of(name, set) {
            Ok((pods, namespaces)) => {
                let failure = if set.ignore { "Ignore" } else { "Fail" };
                let entry = Entry { name: of_set(name), failure, pods, namespaces };
                let route = Route::Pods(Some(name.clone()));
                entries.push(entry.mutating(pods_created(), &route, bundle, service));
            }
            Err(reason) => left_out.push((name.clone(), reason)),
        }
    }
    let shared = entries.len() > MOST_SETS || are_too_large(&entries, bundle.len());
    if shared {
        entries.clear();
    }
    if shared || options.pod_readiness_gate {
        let name = if shared { OF_ALL_SETS } else { "readiness-gate.pods" };
        let entry = Entry::everywhere(name.to_owned(), "Ignore");
        entries.push(entry.mutating(pods_created(), &Route::Pods(None), bundle, service));
    }
    let sets = || rule("apps.kruise.io", "v1alpha1", "sidecarsets", &["CREATE", "UPDATE"], "Cluster");
    let requests = rule("apps.kruise.io", "v1alpha1", "containerrecreaterequests", &["CREATE"], "Namespaced");
    let defaults = Entry::of_cluster("defaults.sidecarsets".to_owned(), "Fail");
    entries.push(defaults.mutating(sets(), &Route::DefaultSets, bundle, service));
    let completes = Entry::everywhere("containerrecreaterequests.defaults".to_owned(), "Ignore");
    entries.push(completes.mutating(requests, &Route::Requests, bundle, service));
    let workloads = Entry::everywhere("workloads.defaults".to_owned(), "Ignore");
    entries.push(workloads.of_workloads(bundle, service));
    // Everywhere, though it is in no namespace: so it takes in none that must do without us.
    let images = Entry::everywhere("nodeimages.defaults".to_owned(), "Ignore");
    entries.push(images.of_node_images(bundle, service));
    let checks = Entry::of_cluster("checks.sidecarsets".to_owned(), "Fail");
    let mut validating = vec![checks.validating(sets(), &Route::CheckSets, bundle, service)];
    validating.push(Entry::everywhere("checks.workloads".to_owned(), "Ignore").of_rules(bundle, service));
    if options.deletion_protection {
        validating.extend(protection::entries(bundle, service));
    }
    Desired { mutating: entries, validating, left_out, shared }
}

/// Tells whether the entries of sets, each with a bundle of so many bytes, are more than what is written.
fn are_too_large(entries: &[MutatingWebhook], bundle: usize) -> bool {
    let all = size::bytes(&entries);
    // As base64.
    let bundles = bundle.div_ceil(3).saturating_mul(4).saturating_mul(entries.len());
    all > MOST_WITH_BUNDLES || all.saturating_sub(bundles) > MOST_OF_SETS
}

/// Name of the entry of a set, without the domain.
fn of_set(name: &str) -> String {
    format!("{name}.{OF_A_SET}")
}

/// Selectors of one entry, and what happens when nobody answers.
struct Entry {
    name: String,
    failure: &'static str,
    pods: LabelSelector,
    namespaces: LabelSelector,
}

impl Entry {
    fn everywhere(name: String, failure: &'static str) -> Self {
        Self { name, failure, pods: LabelSelector::default(), namespaces: selectors::elsewhere() }
    }

    /// Entry for objects that are in no namespace.
    fn of_cluster(name: String, failure: &'static str) -> Self {
        Self { name, failure, pods: LabelSelector::default(), namespaces: LabelSelector::default() }
    }

    fn mutating(
        self,
        rule: RuleWithOperations,
        route: &Route,
        bundle: &[u8],
        service: &Service,
    ) -> MutatingWebhook {
        let mirrors = rule.resources.as_deref().is_some_and(|resources| resources == ["pods"]);
        MutatingWebhook {
            admission_review_versions: vec!["v1".to_owned()],
            client_config: client(route, bundle, service),
            failure_policy: Some(self.failure.to_owned()),
            match_conditions: mirrors.then(|| vec![no_mirror()]),
            match_policy: Some("Equivalent".to_owned()),
            name: format!("{}.{DOMAIN}", self.name),
            namespace_selector: Some(self.namespaces),
            object_selector: Some(self.pods),
            // All sets are injected at the first call, and others see all of them.
            reinvocation_policy: Some("Never".to_owned()),
            rules: Some(vec![rule]),
            side_effects: "None".to_owned(),
            timeout_seconds: Some(TIMEOUT_SECONDS),
        }
    }

    /// Entry for workloads that are made, and those whose spec changes.
    fn of_workloads(self, bundle: &[u8], service: &Service) -> MutatingWebhook {
        let rule = RuleWithOperations {
            api_versions: Some(["v1alpha1", "v1beta1"].map(str::to_owned).into()),
            resources: Some(workloads::RESOURCES.map(str::to_owned).into()),
            ..rule("apps.kruise.io", "", "", &["CREATE", "UPDATE"], "Namespaced")
        };
        MutatingWebhook {
            match_conditions: Some(vec![spec_changes()]),
            ..self.mutating(rule, &Route::Workloads, bundle, service)
        }
    }

    /// Entry for NodeImages with tags that lack something. What agents copy lacks nothing.
    fn of_node_images(self, bundle: &[u8], service: &Service) -> MutatingWebhook {
        let rule = rule("apps.kruise.io", "v1alpha1", "nodeimages", &["CREATE", "UPDATE"], "Cluster");
        MutatingWebhook {
            match_conditions: Some(vec![spec_changes(), tags_lack_defaults()]),
            ..self.mutating(rule, &Route::NodeImages, bundle, service)
        }
    }

    /// Entry for those whose controllers refuse what no definition can say. They look at them again.
    fn of_rules(self, bundle: &[u8], service: &Service) -> ValidatingWebhook {
        let rule = RuleWithOperations {
            resources: Some(workloads::rules::RESOURCES.map(str::to_owned).into()),
            ..rule("apps.kruise.io", "v1alpha1", "", &["CREATE", "UPDATE"], "*")
        };
        ValidatingWebhook {
            match_conditions: Some(vec![spec_changes()]),
            side_effects: "None".to_owned(),
            ..self.validating(rule, &Route::CheckWorkloads, bundle, service)
        }
    }

    fn validating(
        self,
        rule: RuleWithOperations,
        route: &Route,
        bundle: &[u8],
        service: &Service,
    ) -> ValidatingWebhook {
        ValidatingWebhook {
            admission_review_versions: vec!["v1".to_owned()],
            client_config: client(route, bundle, service),
            failure_policy: Some(self.failure.to_owned()),
            match_conditions: None,
            match_policy: Some("Equivalent".to_owned()),
            name: format!("{}.{DOMAIN}", self.name),
            namespace_selector: Some(self.namespaces),
            object_selector: Some(self.pods),
            rules: Some(vec![rule]),
            // The entry of a new set is written while its creation waits.
            side_effects: "NoneOnDryRun".to_owned(),
            timeout_seconds: Some(TIMEOUT_SECONDS),
        }
    }
}

fn client(route: &Route, bundle: &[u8], service: &Service) -> WebhookClientConfig {
    WebhookClientConfig {
        ca_bundle: Some(ByteString(bundle.to_vec())),
        service: Some(ServiceReference {
            namespace: service.namespace.clone(),
            name: service.name.clone(),
            path: Some(route.path()),
            port: Some(443),
        }),
        url: None,
    }
}

fn pods_created() -> RuleWithOperations {
    rule("", "v1", "pods", &["CREATE"], "Namespaced")
}

fn rule(group: &str, version: &str, resource: &str, operations: &[&str], scope: &str) -> RuleWithOperations {
    RuleWithOperations {
        api_groups: Some(vec![group.to_owned()]),
        api_versions: Some(vec![version.to_owned()]),
        operations: Some(operations.iter().map(|operation| (*operation).to_owned()).collect()),
        resources: Some(vec![resource.to_owned()]),
        scope: Some(scope.to_owned()),
    }
}

fn spec_changes() -> MatchCondition {
    MatchCondition {
        name: "spec-changes".to_owned(),
        expression: "request.operation == 'CREATE' || object.spec != oldObject.spec".to_owned(),
    }
}

fn tags_lack_defaults() -> MatchCondition {
    MatchCondition {
        name: "tags-lack-defaults".to_owned(),
        expression:
            "has(object.spec.images) && object.spec.images.exists(n, object.spec.images[n].tags.exists(t, \
                     !has(t.createdAt) || !has(t.pullPolicy) || !has(t.pullPolicy.timeoutSeconds) \
                     || !has(t.pullPolicy.backoffLimit)))"
                .to_owned(),
    }
}

/// The image of a static pod runs already: what is added to it never would.
fn no_mirror() -> MatchCondition {
    MatchCondition {
        name: "no-mirror".to_owned(),
        expression: "!has(object.metadata.annotations) || !('kubernetes.io/config.mirror' in object.metadata.annotations)"
            .to_owned(),
    }
}

fn by_name(operator: &str, values: &[&str]) -> LabelSelectorRequirement {
    LabelSelectorRequirement {
        key: NAME_OF_NAMESPACE.to_owned(),
        operator: operator.to_owned(),
        values: Some(values.iter().map(|value| (*value).to_owned()).collect()),
    }
}

#[cfg(test)]
mod tests;
