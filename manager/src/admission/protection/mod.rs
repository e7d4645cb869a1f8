//! Deletion protection `Cascading` of namespaces and CustomResourceDefinitions: one that has something in it
//! is not deleted. What it has is counted at the API server, when the question comes; the decision is pure.
//!
//! The rest of deletion protection takes no counting, and is a policy of the API server's own
//! (deploy/protection). The words of a refusal are OpenKruise's.

mod count;

use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;

pub(super) use self::count::{Counted, Counter};
use super::review::{Request, Verdict, is_part};

/// The label that protects an object, and the value that asks what it has.
pub(super) const LABEL: &str = "policy.kruise.io/delete-protection";
pub(super) const CASCADING: &str = "Cascading";

/// Says whether the object is protected by what it has. One that is being deleted is not.
pub(super) fn asks(request: &Request) -> bool {
    let metadata = &request.old_object["metadata"];
    metadata["labels"][LABEL] == CASCADING && metadata["deletionTimestamp"].is_null()
}

/// Resources of a definition, at a version that is served.
pub(super) enum Resources {
    /// They can be listed.
    Served(ApiResource),
    /// Nobody could make one: another definition has their name.
    None,
    /// Objects may be stored, and no version shows them.
    Hidden,
}

/// Reads a definition.
pub(super) fn resources(definition: &Value) -> Resources {
    let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let mut conditions =
        definition.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    if !conditions.any(|one| one["type"] == "Established" && one["status"] == "True") {
        return Resources::None;
    }
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
    let mut served: Vec<&Value> = versions.filter(|one| one["served"] == true).collect();
    // Of the stored version nothing is converted.
    served.sort_by_key(|one| one["storage"] != true);
    let Some(version) = served.first().and_then(|one| one["name"].as_str()) else { return Resources::Hidden };
    let (group, plural) = (text("/spec/group"), text("/spec/names/plural"));
    // The API server stores no other ones, and nobody knows who sent this one: nothing else is listed. Groups
    // without a dot are of Kubernetes itself.
    if !group.contains('.') || plural.is_empty() || ![group, version, plural].into_iter().all(is_part) {
        return Resources::Hidden;
    }
    let kind = GroupVersionKind::gvk(group, version, text("/spec/names/kind"));
    Resources::Served(ApiResource::from_gvk_with_plural(&kind, plural))
}

/// Decides on a namespace.
pub(super) fn namespace(pods: Counted, claims: Counted) -> Verdict {
    for (counted, what, listed) in [(pods, "active pods", "pods"), (claims, "\"Bound\" status pvc", "pvc")] {
        match counted {
            Counted::Some(0) => {}
            Counted::Some(number) => return protected(what, number),
            Counted::Unknown(error) => {
                return refused(format!(
                    "forbidden by ResourcesProtectionDeletion for list {listed} error: {error}"
                ));
            }
            Counted::Forbidden => {
                return refused(format!(
                    "forbidden by ResourcesProtectionDeletion for list {listed} error: the manager may not; apply deploy/rbac"
                ));
            }
        }
    }
    Verdict::AS_IT_IS
}

/// Decides on a definition; `account` is the manager's, as `namespace:name`.
pub(super) fn definition(name: &str, counted: Counted, account: &str) -> Verdict {
    match counted {
        Counted::Some(0) => Verdict::AS_IT_IS,
        Counted::Some(number) => protected("active CRs", number),
        Counted::Unknown(error) => uncounted(name, &error),
        Counted::Forbidden => uncounted(
            name,
            &format!("the manager may not; let it, or take the label {LABEL}{}", grant(name, account)),
        ),
    }
}

/// Decides on a definition none of whose versions is served.
pub(super) fn hidden(name: &str) -> Verdict {
    let why = format!("no version of spec.versions is served; serve one, or take the label {LABEL}");
    uncounted(name, &why)
}

fn uncounted(name: &str, why: &str) -> Verdict {
    refused(format!("forbidden by ResourcesProtectionDeletion, failed to list CRs of {name}: {why}"))
}

/// The command that grants the right. Names of definitions are DNS names: one that is none has no command.
fn grant(name: &str, account: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    if name.is_empty() || !name.bytes().all(plain) {
        return String::new();
    }
    let role = format!("berth-counts-{name}");
    format!(
        ": kubectl create clusterrole {role} --verb=list --resource={name} \
         && kubectl create clusterrolebinding {role} --clusterrole={role} --serviceaccount={account}"
    )
}

fn protected(what: &str, number: usize) -> Verdict {
    refused(format!("forbidden by ResourcesProtectionDeletion for {LABEL}={CASCADING} and {what} {number}>0"))
}

fn refused(message: String) -> Verdict {
    Verdict::Refused { code: 403, reason: "Forbidden", message }
}

#[cfg(test)]
mod tests;
