//! A file as its author wrote it: one `ContainerRecreateRequest`, read strictly.

use berth_proto::crd::{ContainerRecreateRequest, Invalid};
use kube::Resource;

use crate::{
    base::yaml::{Document, YamlError},
    files::fields::CONTAINER_RECREATE_REQUEST,
    recreate::codec,
};

/// Why a file is no request. `Display` names the field and the remedy; who knows the file puts its name
/// before.
#[derive(Debug, thiserror::Error)]
pub(super) enum ManifestError {
    /// It says that it is something else.
    #[error(
        "it is {api_version} {kind}; one apps.kruise.io/v1alpha1 ContainerRecreateRequest is what a file has here"
    )]
    Kind {
        /// `apiVersion`.
        api_version: String,
        /// `kind`.
        kind: String,
    },
    /// It is no YAML, or not of that kind.
    #[error(transparent)]
    Yaml(#[from] YamlError),
    /// Its values cannot be.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

/// Reads a request and checks it.
pub(super) fn read(text: &str) -> Result<ContainerRecreateRequest, ManifestError> {
    let document = Document::parse(text)?;
    // The kind first, or a Deployment would be told that its fields are unknown.
    if let Some((api_version, kind)) = document.head()
        && (kind != ContainerRecreateRequest::kind(&())
            || api_version != ContainerRecreateRequest::api_version(&()))
    {
        return Err(ManifestError::Kind { api_version, kind });
    }
    CONTAINER_RECREATE_REQUEST.check(&document)?;
    let request: ContainerRecreateRequest = document.typed()?;
    codec::authored(&request)?;
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(body: &str) -> String {
        format!("apiVersion: apps.kruise.io/v1alpha1\nkind: ContainerRecreateRequest\n{body}")
    }

    #[test]
    fn a_request_with_all_its_fields() {
        let text = manifest(
            "metadata:\n  name: again\n  namespace: shop\n  labels: {a: b}\nspec:\n  podName: web\n  containers:\n  - name: \
             app\n  - name: log\n  strategy:\n    failurePolicy: Ignore\n    orderedRecreate: true\n    forceRecreate: \
             true\n    terminationGracePeriodSeconds: 5\n    unreadyGracePeriodSeconds: 3\n    minStartedSeconds: 10\n  \
             activeDeadlineSeconds: 300\n  ttlSecondsAfterFinished: 1800\n",
        );
        let request = read(&text).unwrap();
        assert_eq!(request.metadata.namespace.as_deref(), Some("shop"));
        assert_eq!(request.spec.containers.len(), 2);
        assert_eq!(request.spec.strategy.unwrap().min_started_seconds, Some(10));
        assert_eq!(request.spec.active_deadline_seconds, Some(300));
    }

    #[test]
    fn the_least_there_may_be() {
        let request =
            read(&manifest("metadata: {}\nspec:\n  podName: web\n  containers: [{name: app}]\n")).unwrap();
        assert_eq!((request.metadata.name, request.spec.strategy), (None, None));
    }

    #[test]
    fn what_is_no_request_says_where_and_why() {
        let spec = "spec:\n  podName: web\n  containers: [{name: app}]\n";
        let table = [
            (manifest(&format!("metadata: {{name: x}}\n{spec}  podname: y\n")), vec!["podname", "line 7"]),
            (
                manifest(&format!("metadata: {{name: x}}\n{spec}  strategy: {{orderd: true}}\n")),
                vec!["orderd", "line 7"],
            ),
            (manifest(&format!("metadata: {{nam: x}}\n{spec}")), vec!["nam", "line 3"]),
            (
                manifest("metadata: {name: x}\nspec:\n  podName: web\n  containers: [{nme: app}]\n"),
                vec!["nme", "line 6"],
            ),
            (
                manifest(&format!("metadata: {{name: x}}\n{spec}  activeDeadlineSeconds: soon\n")),
                vec!["activeDeadlineSeconds: soon", "line 7"],
            ),
            (
                manifest(&format!("metadata: {{name: x}}\n{spec}  strategy: {{failurePolicy: Maybe}}\n")),
                vec!["Maybe", "line 7"],
            ),
            (manifest("metadata: {name: x}\nspec: {containers: [{name: app}]}\n"), vec!["podName", "line 4"]),
            (
                manifest(&format!("metadata: {{name: x}}\n{spec}---\nkind: X\n")),
                vec!["several", "its own file"],
            ),
            ("apiVersion: v1\nkind: Pod\nspec: {nodeName: x}\n".to_owned(), vec!["it is v1 Pod"]),
            ("apiVersion: v1\nkind: List\nitems: []\n".to_owned(), vec!["it is v1 List"]),
            (String::new(), vec![""]),
            ("kind: ContainerRecreateRequest\n".to_owned(), vec!["apiVersion"]),
            (
                manifest(&format!("metadata: {{name: x}}\n{spec}status: {{phase: Completed}}\n")),
                vec!["status is"],
            ),
        ];
        for (text, parts) in table {
            let error = read(&text).unwrap_err().to_string();
            for part in parts {
                assert!(error.contains(part), "{part:?} is missing in {error:?} for\n{text}");
            }
        }
    }
}
