//! A kubeconfig, read by the reader of YAML that the agent has for everything else: one of its own for these
//! types would be program text that is used once.

use std::{
    fs,
    path::{MAIN_SEPARATOR, Path},
};

use kube::config::{Kubeconfig, KubeconfigError};

use super::client::ClientError;
use crate::base::yaml;

/// Reads a kubeconfig. Paths in it are relative to its directory.
///
/// # Errors
/// It cannot be read, or is none. Nothing of its text is told: lines of it have tokens.
pub(super) fn read(path: &Path) -> Result<Kubeconfig, ClientError> {
    let text = fs::read_to_string(path).map_err(|error| ClientError::Kubeconfig {
        path: path.to_owned(),
        source: Box::new(KubeconfigError::ReadConfig(error, path.to_owned())),
    })?;
    let form = |error: yaml::YamlError| ClientError::Form {
        path: path.to_owned(),
        line: error.line().unwrap_or_default(),
    };
    let mut read: Kubeconfig = yaml::from_str(&text).map_err(form)?;
    if let Some(directory) = path.parent() {
        resolve(&mut read, directory);
    }
    Ok(read)
}

fn resolve(kubeconfig: &mut Kubeconfig, directory: &Path) {
    let absolute = |path: &mut Option<String>| {
        if let Some(path) = path.as_mut().filter(|path| Path::new(path).is_relative()) {
            *path = directory.join(&*path).display().to_string();
        }
    };
    for cluster in kubeconfig.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
        absolute(&mut cluster.certificate_authority);
    }
    for user in kubeconfig.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut()) {
        absolute(&mut user.client_certificate);
        absolute(&mut user.client_key);
        absolute(&mut user.token_file);
        // A bare name is looked for in PATH.
        let plugin = user.exec.as_mut().map(|plugin| &mut plugin.command);
        plugin
            .filter(|command| command.as_ref().is_some_and(|name| name.contains(MAIN_SEPARATOR)))
            .map(absolute);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_to_its_directory() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kubeconfig");
        let text = "
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1', certificate-authority: pki/ca.crt}}]
users:
- {name: a, user: {client-certificate: /abs/a.crt, client-key: a.key, tokenFile: ../token}}
- {name: b, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: ./plugin, args: [x]}}}
- {name: c, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: plugin}}}
contexts: [{name: x, context: {cluster: c, user: a}}]
current-context: x
";
        fs::write(&path, text).unwrap();
        let read = read(&path).unwrap();
        let of = |path: &str| Some(directory.path().join(path).display().to_string());
        let cluster = read.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(cluster.certificate_authority, of("pki/ca.crt"));
        let users: Vec<_> = read.auth_infos.iter().map(|named| named.auth_info.as_ref().unwrap()).collect();
        assert_eq!(users[0].client_certificate.as_deref(), Some("/abs/a.crt"));
        assert_eq!((&users[0].client_key, &users[0].token_file), (&of("a.key"), &of("../token")));
        let command = |user: usize| users[user].exec.as_ref().and_then(|plugin| plugin.command.clone());
        assert_eq!((command(1), command(2)), (of("./plugin"), Some("plugin".to_owned())));
        assert_eq!(read.current_context.as_deref(), Some("x"));
    }
}
