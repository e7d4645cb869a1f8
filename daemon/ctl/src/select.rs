//! Finding the pod a user means: by ID prefix, UID, `namespace/name`, name, or name prefix.

use anyhow::{Result, bail};
use berth_proto::cri::{PodSandbox, PodSandboxState};

use super::cri::Cri;
use super::output;

/// The sandbox that `wanted` names; an error lists the candidates when there are several.
pub(crate) async fn sandbox(cri: &Cri, wanted: &str) -> Result<PodSandbox> {
    one(cri.sandboxes(None).await?, wanted)
}

fn one(all: Vec<PodSandbox>, wanted: &str) -> Result<PodSandbox> {
    // From the most exact to the least: a name is never taken for a prefix of another one.
    let rules: [fn(&PodSandbox, &str) -> bool; 5] = [
        |sandbox, wanted| sandbox.id == wanted,
        |sandbox, wanted| sandbox.metadata.as_ref().is_some_and(|metadata| metadata.uid == wanted),
        |sandbox, wanted| {
            sandbox.metadata.as_ref().is_some_and(|metadata| {
                metadata.name == wanted || format!("{}/{}", metadata.namespace, metadata.name) == wanted
            })
        },
        |sandbox, wanted| sandbox.id.starts_with(wanted),
        |sandbox, wanted| sandbox.metadata.as_ref().is_some_and(|metadata| metadata.name.starts_with(wanted)),
    ];
    if wanted.is_empty() {
        bail!("the pod is an empty string; give an ID, a name or namespace/name");
    }
    for rule in rules {
        let mut found: Vec<&PodSandbox> = all.iter().filter(|sandbox| rule(sandbox, wanted)).collect();
        if found.len() > 1 {
            // A pod's earlier sandboxes are not what is meant while a later one runs.
            let live: Vec<_> =
                found.iter().copied().filter(|one| one.state() == PodSandboxState::SandboxReady).collect();
            if live.len() == 1 {
                found = live;
            }
        }
        match found.as_slice() {
            [] => {}
            [only] => return Ok((*only).clone()),
            several => {
                let list: Vec<String> = several.iter().map(|sandbox| describe(sandbox)).collect();
                bail!(
                    "{wanted:?} is the name of {} pods; give the ID of one: {}",
                    list.len(),
                    list.join(", ")
                );
            }
        }
    }
    bail!("there is no pod {wanted:?}; berthctl pods lists those there are")
}

/// `namespace/name (ID)`.
pub(crate) fn describe(sandbox: &PodSandbox) -> String {
    let metadata = sandbox.metadata.clone().unwrap_or_default();
    format!("{}/{} ({})", metadata.namespace, metadata.name, output::id(&sandbox.id, false))
}

#[cfg(test)]
mod tests {
    use berth_proto::cri::PodSandboxMetadata;

    use super::*;

    fn pod(id: &str, namespace: &str, name: &str, state: PodSandboxState) -> PodSandbox {
        let metadata = PodSandboxMetadata {
            name: name.into(),
            namespace: namespace.into(),
            uid: format!("uid-{id}"),
            attempt: 0,
        };
        PodSandbox { id: id.into(), metadata: Some(metadata), state: state.into(), ..PodSandbox::default() }
    }

    #[test]
    fn the_most_exact_match_wins() {
        use PodSandboxState::{SandboxNotready as Gone, SandboxReady as Live};
        let all = vec![
            pod("abc1", "default", "web", Live),
            pod("abd2", "default", "web-2", Live),
            pod("fff3", "other", "db", Gone),
            pod("ffe4", "other", "db", Live),
            pod("web9", "one", "twin", Live),
            pod("eee5", "two", "twin", Live),
        ];
        for (wanted, id) in [
            ("abc1", Some("abc1")),
            ("abd", Some("abd2")),
            ("ab", None),
            ("web", Some("abc1")), // a name before an ID prefix
            ("web-", Some("abd2")),
            ("default/web", Some("abc1")),
            ("db", Some("ffe4")), // the live one
            ("twin", None),
            ("two/twin", Some("eee5")),
            ("uid-fff3", Some("fff3")),
            ("nothing", None),
            ("", None),
        ] {
            assert_eq!(one(all.clone(), wanted).ok().map(|sandbox| sandbox.id).as_deref(), id, "{wanted:?}");
        }
        let error = one(all, "twin").unwrap_err().to_string();
        assert!(error.contains("one/twin (web9)") && error.contains("two/twin (eee5)"), "{error}");
    }
}
