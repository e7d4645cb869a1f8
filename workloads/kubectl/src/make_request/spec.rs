//! Specs of requests, from flags and the pod that they are for. Pure.

use std::time::Duration;

use anyhow::{bail, ensure};
use berth_proto::names::is_dns_subdomain;
use serde_json::{Map, Value, json};

use super::flags::{FailurePolicy, Recreate, RequestArgs, Update};
use crate::object::{list, text};

/// The shortest deadline that the kinds take.
const SHORTEST_DEADLINE: Duration = Duration::from_secs(3);
/// A request that is deleted sooner may be gone before its end was seen.
const SHORTEST_TTL: Duration = Duration::from_secs(10);
/// Letters of the beginning of a name that is made: the API server adds five.
const LONGEST_PREFIX: usize = 240;

/// Name of the pod, of `NAME` or `pod/NAME`.
pub(super) fn pod(word: &str) -> anyhow::Result<String> {
    let name = match word.split_once('/') {
        Some(("pod" | "pods" | "po", name)) => name,
        Some((kind, _)) => bail!("requests are for pods, and {kind} is none: give the name of a pod"),
        None => word,
    };
    ensure!(
        is_dns_subdomain(name),
        "invalid pod name \"{name}\": names are of small letters, digits, '-' and '.'"
    );
    Ok(name.to_owned())
}

/// Beginning of the name of a request for a pod.
pub(super) fn prefix(pod: &str) -> String {
    format!("{}-", pod.get(..LONGEST_PREFIX).unwrap_or(pod).trim_end_matches(['-', '.']))
}

/// Images that are given, by container; and whether anything is asked for.
pub(super) fn images(asked: &RequestArgs) -> anyhow::Result<Vec<(String, String)>> {
    let following = asked.following();
    if let Some(deadline) = following.deadline {
        ensure!(deadline >= SHORTEST_DEADLINE, "--deadline: give 3s or more");
    }
    ensure!(following.ttl >= SHORTEST_TTL, "--ttl: give 10s or more, so that its end can be seen");
    let RequestArgs::Update(Update { images, label, annotation, .. }) = asked else { return Ok(Vec::new()) };
    ensure!(
        !(images.is_empty() && label.is_empty() && annotation.is_empty()),
        "nothing is asked for: give CONTAINER=IMAGE, --label or --annotation"
    );
    let mut found: Vec<(String, String)> = Vec::new();
    for word in images {
        let (name, image) = word.split_once('=').unwrap_or((word, ""));
        ensure!(
            !name.is_empty() && !image.is_empty(),
            "\"{word}\" is not of the form CONTAINER=IMAGE, as in main=shop:2"
        );
        ensure!(
            found.iter().all(|(other, _)| other != name),
            "container {name} is given twice: give it once"
        );
        found.push((name.to_owned(), image.to_owned()));
    }
    Ok(found)
}

/// The spec of a request. Containers that the pod has not are said here, with those that it has.
pub(super) fn spec(asked: &RequestArgs, pod: &Value, images: &[(String, String)]) -> anyhow::Result<Value> {
    let name = text(pod, "/metadata/name");
    let mut spec = Map::new();
    spec.insert("podName".to_owned(), name.into());
    let mut strategy = Map::new();
    match asked {
        RequestArgs::Recreate(flags) => {
            let names = chosen(flags, pod)?;
            let containers: Vec<Value> = names.into_iter().map(|name| json!({ "name": name })).collect();
            spec.insert("containers".to_owned(), containers.into());
            if flags.ordered {
                strategy.insert("orderedRecreate".to_owned(), true.into());
            }
            if flags.force {
                strategy.insert("forceRecreate".to_owned(), true.into());
            }
            for (field, given) in [
                ("terminationGracePeriodSeconds", flags.grace),
                ("unreadyGracePeriodSeconds", flags.unready_grace),
                ("minStartedSeconds", flags.min_started),
            ] {
                insert(&mut strategy, field, given);
            }
        }
        RequestArgs::Update(flags) => {
            known(images.iter().map(|(name, _)| name.as_str()), pod)?;
            if !images.is_empty() {
                let containers = images.iter().map(|(name, image)| json!({ "name": name, "image": image }));
                spec.insert("containers".to_owned(), containers.collect::<Vec<_>>().into());
            }
            let mut metadata = Map::new();
            for (field, pairs) in [("labels", &flags.label), ("annotations", &flags.annotation)] {
                if !pairs.is_empty() {
                    let pairs = pairs.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str())));
                    metadata.insert(field.to_owned(), pairs.collect::<Map<_, _>>().into());
                }
            }
            if !metadata.is_empty() {
                spec.insert("metadata".to_owned(), metadata.into());
            }
            if flags.rollback_on_failure {
                spec.insert("rollbackOnFailure".to_owned(), true.into());
            }
            insert(&mut strategy, "gracePeriodSeconds", flags.grace);
        }
    }
    let following = asked.following();
    if let Some(policy) = following.failure_policy {
        let policy = if policy == FailurePolicy::Fail { "Fail" } else { "Ignore" };
        strategy.insert("failurePolicy".to_owned(), policy.into());
    }
    if !strategy.is_empty() {
        spec.insert("strategy".to_owned(), strategy.into());
    }
    insert(&mut spec, "activeDeadlineSeconds", following.deadline);
    insert(&mut spec, "ttlSecondsAfterFinished", Some(following.ttl));
    Ok(spec.into())
}

fn insert(fields: &mut Map<String, Value>, name: &str, given: Option<Duration>) {
    if let Some(given) = given {
        fields.insert(name.to_owned(), given.as_secs().into());
    }
}

/// The containers to recreate: those that are named, else all but init containers.
fn chosen(flags: &Recreate, pod: &Value) -> anyhow::Result<Vec<String>> {
    if flags.containers.is_empty() {
        return Ok(list(pod, "/spec/containers").map(|one| text(one, "/name").to_owned()).collect());
    }
    known(flags.containers.iter().map(String::as_str), pod)?;
    let mut names = Vec::new();
    for name in &flags.containers {
        ensure!(!names.contains(name), "container {name} is given twice: give it once");
        names.push(name.clone());
    }
    Ok(names)
}

fn known<'a>(mut names: impl Iterator<Item = &'a str>, pod: &Value) -> anyhow::Result<()> {
    let sidecars = list(pod, "/spec/initContainers").filter(|one| one["restartPolicy"] == "Always");
    let there: Vec<&str> =
        list(pod, "/spec/containers").chain(sidecars).map(|one| text(one, "/name")).collect();
    match names.find(|name| !there.contains(name)) {
        Some(name) => bail!(
            "pod {} has no container \"{name}\" that can be restarted: it has {}",
            text(pod, "/metadata/name"),
            there.join(", ")
        ),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn asked(words: &str) -> RequestArgs {
        let cli = Cli::try_parse_from(std::iter::once("kubectl-berth").chain(words.split(' '))).unwrap();
        let Command::Request(asked) = cli.command else { panic!("{words}") };
        asked
    }

    fn made(words: &str) -> anyhow::Result<Value> {
        let pod = json!({ "metadata": { "name": "web" }, "spec": {
            "containers": [{ "name": "app" }, { "name": "log" }],
            "initContainers": [{ "name": "first" }, { "name": "mesh", "restartPolicy": "Always" }] } });
        let asked = asked(words);
        spec(&asked, &pod, &images(&asked)?)
    }

    #[test]
    fn flags_make_the_spec() {
        for (words, expected) in [
            (
                "recreate web",
                json!({ "podName": "web", "containers": [{ "name": "app" }, { "name": "log" }], "ttlSecondsAfterFinished": 3600 }),
            ),
            (
                "recreate pod/web -c mesh --ordered --force --grace 5s --unready-grace 3s --min-started 2s --deadline 1m --ttl 10s --failure-policy ignore",
                json!({ "podName": "web", "containers": [{ "name": "mesh" }], "activeDeadlineSeconds": 60, "ttlSecondsAfterFinished": 10,
                    "strategy": { "orderedRecreate": true, "forceRecreate": true, "terminationGracePeriodSeconds": 5,
                        "unreadyGracePeriodSeconds": 3, "minStartedSeconds": 2, "failurePolicy": "Ignore" } }),
            ),
            (
                "update web app=shop:2 --label a=b --annotation c=d=e --rollback-on-failure --grace 1s",
                json!({ "podName": "web", "containers": [{ "name": "app", "image": "shop:2" }], "rollbackOnFailure": true,
                    "metadata": { "labels": { "a": "b" }, "annotations": { "c": "d=e" } },
                    "strategy": { "gracePeriodSeconds": 1 }, "ttlSecondsAfterFinished": 3600 }),
            ),
        ] {
            assert_eq!(made(words).unwrap(), expected, "{words}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_what_there_is() {
        for (words, says) in [
            ("recreate web -c first", "no container \"first\" that can be restarted: it has app, log, mesh"),
            ("recreate web -c app -c app", "given twice"),
            ("update web", "nothing is asked for"),
            ("update web app", "\"app\" is not of the form CONTAINER=IMAGE"),
            ("update web app=", "not of the form"),
            ("update web app=a:1 app=a:2", "given twice"),
            ("update web other=a:1", "no container \"other\""),
            ("recreate web --deadline 1s", "--deadline: give 3s or more"),
            ("recreate web --ttl 0s", "--ttl: give 10s or more"),
        ] {
            let error = made(words).unwrap_err().to_string();
            assert!(error.contains(says), "{words}: {error}");
        }
        assert_eq!(pod("po/web").unwrap(), "web");
        assert!(pod("deploy/web").unwrap_err().to_string().contains("deploy is none"));
        assert!(pod("Web").unwrap_err().to_string().contains("invalid pod name"));
        assert_eq!(prefix("web"), "web-");
        assert_eq!(prefix(&"a".repeat(253)).len(), 241);
    }
}
