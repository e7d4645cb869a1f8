//! Objects as people name them: `cloneset/a`, `clonesets.apps.kruise.io a`, `asts a b`.

use anyhow::{bail, ensure};
use kube::core::{ApiResource, GroupVersionKind};

/// Group of the kinds.
const GROUP: &str = "apps.kruise.io";

/// Kind whose rollouts are ours.
#[expect(clippy::enum_variant_names, reason = "these are the names of the kinds")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    CloneSet,
    StatefulSet,
    DaemonSet,
}

/// One object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) kind: Kind,
    pub(crate) name: String,
}

/// Whose the objects are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Targets {
    /// Ours, in the order in which they were named.
    Ours(Vec<Target>),
    /// Kubernetes' own: kubectl knows what to do.
    Native,
}

impl Kind {
    /// Resource of the API.
    pub(crate) fn resource(self) -> ApiResource {
        let (version, kind, plural) = match self {
            Self::CloneSet => ("v1alpha1", "CloneSet", "clonesets"),
            Self::StatefulSet => ("v1beta1", "StatefulSet", "statefulsets"),
            Self::DaemonSet => ("v1alpha1", "DaemonSet", "daemonsets"),
        };
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, version, kind), plural)
    }

    /// Name in the lines that are printed: `cloneset.apps.kruise.io`.
    pub(crate) fn printed(self) -> String {
        format!("{}.{GROUP}", self.resource().kind.to_lowercase())
    }

    /// Name for people.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::CloneSet => "CloneSet",
            Self::StatefulSet => "Advanced StatefulSet",
            Self::DaemonSet => "Advanced DaemonSet",
        }
    }
}

/// Reads the words that name objects.
pub(crate) fn parse(words: &[String]) -> anyhow::Result<Targets> {
    let with_slash = words.iter().filter(|word| word.contains('/')).count();
    ensure!(
        with_slash == 0 || with_slash == words.len(),
        "there is no need to specify a resource type as a separate argument when passing arguments in \
         resource/name form (e.g. 'kubectl berth rollout status cloneset/<name>')"
    );
    let pairs: Vec<(&str, &str)> = if with_slash > 0 {
        words.iter().filter_map(|word| word.split_once('/')).collect()
    } else {
        let Some((kind, names)) = words.split_first() else { bail!("required resource not specified") };
        ensure!(!names.is_empty(), "resource(s) were provided, but no name was specified");
        names.iter().map(|name| (kind.as_str(), name.as_str())).collect()
    };
    let (mut ours, mut native) = (Vec::new(), false);
    for (kind, name) in pairs {
        let letter = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit() || matches!(one, '.' | '-');
        ensure!(name.contains('/') || name.chars().all(letter), "invalid resource name \"{name}\"");
        ensure!(
            !name.is_empty() && !name.contains('/'),
            "arguments in resource/name form must have a single resource and name"
        );
        match of(kind)? {
            Some(kind) => ours.push(Target { kind, name: name.to_owned() }),
            None => native = true,
        }
    }
    ensure!(
        !native || ours.is_empty(),
        "kinds of Kubernetes and of {GROUP} cannot be named together: give them one after the other"
    );
    Ok(if native { Targets::Native } else { Targets::Ours(ours) })
}

/// Returns the kind of a word; `None`: it is Kubernetes' own. As for kubectl, what both groups have is
/// Kubernetes' own, unless the group is said.
fn of(word: &str) -> anyhow::Result<Option<Kind>> {
    let word = word.to_lowercase();
    let (name, group) = word.split_once('.').map_or((word.as_str(), ""), |(name, rest)| {
        // `statefulsets.v1beta1.apps.kruise.io` names a version as well.
        let version =
            |first: &str| first.starts_with('v') && first[1..].starts_with(|one: char| one.is_ascii_digit());
        (name, rest.split_once('.').filter(|(first, _)| version(first)).map_or(rest, |(_, group)| group))
    });
    Ok(match (name, group) {
        ("cloneset" | "clonesets" | "clone", "" | GROUP) => Some(Kind::CloneSet),
        ("asts" | "advancedstatefulset", "" | GROUP) | ("statefulset" | "statefulsets" | "sts", GROUP) => {
            Some(Kind::StatefulSet)
        }
        ("ads" | "daemon" | "advanceddaemonset", "" | GROUP) | ("daemonset" | "daemonsets" | "ds", GROUP) => {
            Some(Kind::DaemonSet)
        }
        (
            "deployment" | "deployments" | "deploy" | "statefulset" | "statefulsets" | "sts" | "daemonset"
            | "daemonsets" | "ds",
            "" | "apps",
        )
        | (
            "pod"
            | "pods"
            | "po"
            | "replicaset"
            | "replicasets"
            | "rs"
            | "replicationcontroller"
            | "replicationcontrollers"
            | "rc",
            _,
        ) => None,
        _ => bail!(
            "the server of this plugin knows no resource type \"{word}\": give cloneset, asts, ads, or a workload of Kubernetes"
        ),
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn parsed(words: &str) -> anyhow::Result<Targets> {
        parse(&words.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect::<Vec<_>>())
    }

    #[rstest]
    #[case("cloneset/a", Kind::CloneSet)]
    #[case("CloneSet a", Kind::CloneSet)]
    #[case("clone/a", Kind::CloneSet)]
    #[case("clonesets.apps.kruise.io/a", Kind::CloneSet)]
    #[case("asts/a", Kind::StatefulSet)]
    #[case("statefulsets.apps.kruise.io/a", Kind::StatefulSet)]
    #[case("statefulset.v1beta1.apps.kruise.io a", Kind::StatefulSet)]
    #[case("ads a", Kind::DaemonSet)]
    #[case("daemonsets.apps.kruise.io/a", Kind::DaemonSet)]
    fn kinds_have_the_names_of_the_definitions(#[case] words: &str, #[case] kind: Kind) {
        assert_eq!(parsed(words).unwrap(), Targets::Ours(vec![Target { kind, name: "a".to_owned() }]));
    }

    #[rstest]
    #[case("deploy/a")]
    #[case("sts a")]
    #[case("statefulsets.apps/a")]
    #[case("daemonsets.v1.apps a b")]
    fn kinds_of_kubernetes_are_kubectls(#[case] words: &str) {
        assert_eq!(parsed(words).unwrap(), Targets::Native);
    }

    #[rstest]
    #[case("", "required resource not specified")]
    #[case("cloneset", "no name was specified")]
    #[case("cloneset/a b", "there is no need to specify")]
    #[case("cloneset/a/b", "a single resource and name")]
    #[case("cloneset/", "a single resource and name")]
    #[case("cloneset/a?x=y", "invalid resource name")]
    #[case("gizmo/a", "knows no resource type \"gizmo\"")]
    #[case("cloneset.apps/a", "knows no resource type")]
    #[case("cloneset/a deploy/b", "cannot be named together")]
    fn what_is_wrong_is_said(#[case] words: &str, #[case] says: &str) {
        let error = parsed(words).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }

    #[test]
    fn several_are_taken_in_their_order() {
        let Targets::Ours(all) = parsed("clone/b asts/a").unwrap() else { panic!("ours") };
        let names: Vec<_> = all.iter().map(|one| format!("{}/{}", one.kind.printed(), one.name)).collect();
        assert_eq!(names, ["cloneset.apps.kruise.io/b", "statefulset.apps.kruise.io/a"]);
    }
}
