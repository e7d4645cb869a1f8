//! Docker configurations as Secrets have them.

use berth_proto::docker_config::DockerConfig;
use k8s_openapi::api::core::v1::Secret;

/// Reads the Docker configuration in a Secret. Errors say what is wrong with its form and nothing of its
/// content.
pub(super) fn of(secret: &Secret) -> Result<DockerConfig, String> {
    let key = match secret.type_.as_deref() {
        Some("kubernetes.io/dockerconfigjson") => ".dockerconfigjson",
        Some("kubernetes.io/dockercfg") => ".dockercfg",
        _ => {
            return Err(
                "it is not of type kubernetes.io/dockerconfigjson or kubernetes.io/dockercfg".to_owned()
            );
        }
    };
    let bytes = secret.data.as_ref().and_then(|data| data.get(key)).ok_or(format!("it has no key {key}"))?;
    DockerConfig::parse(&bytes.0).map_err(|why| format!("its {key} is {why}"))
}
