//! Objects as people name them: `cloneset/a`, `clonesets.apps.kruise.io a`, `asts a b`.

use anyhow::{bail, ensure};
use kube::core::{ApiResource, GroupVersionKind};

/// Group of the kinds.
const GROUP: &str = "apps.kruise.io";

/// Kind that is ours: workloads, and SidecarSets, whose images are set.
#[expect(clippy::enum_variant_names, reason = "these are the names of the kinds")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    CloneSet,
    StatefulSet,
    DaemonSet,
    SidecarSet,
}

/// One object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    /// As a file says it; that of the command where none does.
    pub(crate) namespace: Option<String>,
}

/// Object that a file names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
}

/// Objects that are named, by whose they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Targets {
    /// Ours, in the order in which they were named.
    Ours(Vec<Target>),
    /// All objects of a kind of ours that are selected.
    Selected(Kind),
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
            Self::SidecarSet => ("v1alpha1", "SidecarSet", "sidecarsets"),
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
            Self::SidecarSet => "SidecarSet",
        }
    }
}

/// Refuses what has no pods of its own, where their rollout or their number is meant.
pub(crate) fn have_pods(targets: &Targets) -> anyhow::Result<()> {
    let is_other = match targets {
        Targets::Ours(all) => all.iter().any(|one| one.kind == Kind::SidecarSet),
        Targets::Selected(kind) => *kind == Kind::SidecarSet,
        Targets::Native => false,
    };
    ensure!(
        !is_other,
        "a SidecarSet has no pods of its own: kubectl berth sidecarsets lists how far each is rolled out, and set image \
         changes one"
    );
    Ok(())
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
        let Some((kind, names)) = words.split_first() else {
            bail!("required resource not specified: give TYPE/NAME")
        };
        ensure!(!names.is_empty(), "resource(s) were provided, but no name was specified: give {kind}/NAME");
        names.iter().map(|name| (kind.as_str(), name.as_str())).collect()
    };
    let (mut ours, mut native) = (Vec::new(), false);
    for (kind, name) in pairs {
        let letter = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit() || matches!(one, '.' | '-');
        ensure!(
            name.contains('/') || name.chars().all(letter),
            "invalid resource name \"{name}\": names are of small letters, digits, '-' and '.'"
        );
        ensure!(
            !name.is_empty() && !name.contains('/'),
            "arguments in resource/name form must have a single resource and name, as in cloneset/web"
        );
        match of(kind)? {
            Some(kind) => ours.push(Target { kind, name: name.to_owned(), namespace: None }),
            None => native = true,
        }
    }
    one_sort(ours, native)
}

/// Reads the one word that says which kind of objects is selected.
pub(crate) fn selected(words: &[String]) -> anyhow::Result<Targets> {
    let [word] = words else {
        ensure!(!words.is_empty(), "required resource not specified: give the type");
        bail!("name cannot be provided when a selector is specified: give the type alone");
    };
    ensure!(!word.contains('/'), "name cannot be provided when a selector is specified: give the type alone");
    Ok(of(word)?.map_or(Targets::Native, Targets::Selected))
}

/// Objects that files name. `namespace`: that of the command line, which they must not contradict.
pub(crate) fn of_files(all: Vec<Named>, namespace: Option<&str>) -> anyhow::Result<Targets> {
    let (mut ours, mut native) = (Vec::new(), false);
    for Named { group, kind, name, namespace: own } in all {
        if let (Some(own), Some(asked)) = (&own, namespace) {
            ensure!(
                own == asked,
                "the namespace from the provided object \"{own}\" does not match the namespace \"{asked}\". You must \
                 pass '--namespace={own}' to perform this operation."
            );
        }
        match (group.as_str(), kind.as_str()) {
            (GROUP, "CloneSet") => ours.push(Target { kind: Kind::CloneSet, name, namespace: own }),
            (GROUP, "StatefulSet") => ours.push(Target { kind: Kind::StatefulSet, name, namespace: own }),
            (GROUP, "DaemonSet") => ours.push(Target { kind: Kind::DaemonSet, name, namespace: own }),
            (GROUP, "SidecarSet") => ours.push(Target { kind: Kind::SidecarSet, name, namespace: None }),
            ("apps", "Deployment" | "StatefulSet" | "DaemonSet") => native = true,
            _ => bail!(
                "{kind} {name} of group \"{group}\" has no rollouts: leave it out of the file, or name the others"
            ),
        }
    }
    one_sort(ours, native)
}

fn one_sort(ours: Vec<Target>, native: bool) -> anyhow::Result<Targets> {
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
        ("sidecarset" | "sidecarsets", "" | GROUP) => Some(Kind::SidecarSet),
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
            "there is no resource type \"{word}\" with rollouts: give cloneset, asts, ads, or a workload of Kubernetes"
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
    #[case("sidecarset/a", Kind::SidecarSet)]
    #[case("sidecarsets.v1alpha1.apps.kruise.io a", Kind::SidecarSet)]
    fn kinds_have_the_names_of_the_definitions(#[case] words: &str, #[case] kind: Kind) {
        assert_eq!(
            parsed(words).unwrap(),
            Targets::Ours(vec![Target { kind, name: "a".to_owned(), namespace: None }])
        );
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
    #[case("gizmo/a", "no resource type \"gizmo\"")]
    #[case("cloneset.apps/a", "no resource type")]
    #[case("cloneset/a deploy/b", "cannot be named together")]
    fn what_is_wrong_is_said(#[case] words: &str, #[case] says: &str) {
        let error = parsed(words).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }

    #[test]
    fn with_labels_the_type_stands_alone() {
        let of = |words: &str| selected(&words.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(of("asts").unwrap(), Targets::Selected(Kind::StatefulSet));
        assert_eq!(of("deploy").unwrap(), Targets::Native);
        for wrong in ["cloneset/a", "cloneset a", "gizmo"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
        assert!(selected(&[]).is_err());
    }

    #[test]
    fn a_sidecar_set_has_no_pods() {
        let refused = |words: &str| have_pods(&parsed(words).unwrap()).is_err();
        assert_eq!(["cloneset/b sidecarset/a", "cloneset/b", "deploy/b"].map(refused), [true, false, false]);
        assert!(have_pods(&selected(&["sidecarsets".to_owned()]).unwrap()).is_err());
        assert!(have_pods(&selected(&["asts".to_owned()]).unwrap()).is_ok());
    }

    #[test]
    fn files_say_kind_and_namespace() {
        let named = |group: &str, kind: &str, namespace: Option<&str>| Named {
            group: group.to_owned(),
            kind: kind.to_owned(),
            name: "a".to_owned(),
            namespace: namespace.map(str::to_owned),
        };
        let ours = |namespace| named(GROUP, "StatefulSet", namespace);
        let Targets::Ours(all) = of_files(vec![ours(Some("shop")), ours(None)], Some("shop")).unwrap() else {
            panic!("ours")
        };
        let spaces: Vec<_> = all.iter().map(|one| one.namespace.as_deref()).collect();
        assert_eq!((spaces, all[0].kind), (vec![Some("shop"), None], Kind::StatefulSet));
        assert_eq!(of_files(vec![named("apps", "StatefulSet", None)], None).unwrap(), Targets::Native);
        for (all, says) in [
            (vec![ours(Some("shop"))], "'--namespace=shop'"),
            (vec![named("", "Service", None)], "Service a of group \"\" has no rollouts"),
            (vec![ours(None), named("apps", "Deployment", None)], "cannot be named together"),
        ] {
            let error = of_files(all, Some("other")).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn several_are_taken_in_their_order() {
        let Targets::Ours(all) = parsed("clone/b asts/a").unwrap() else { panic!("ours") };
        let names: Vec<_> = all.iter().map(|one| format!("{}/{}", one.kind.printed(), one.name)).collect();
        assert_eq!(names, ["cloneset.apps.kruise.io/b", "statefulset.apps.kruise.io/a"]);
    }
}
