//! The white list of SidecarSets, a ConfigMap.

use std::sync::Once;

use berth_sidecarset::WHITE_LIST_KEY;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use tokio::time::timeout;
use tracing::warn;

use super::{Handler, READ_WITHIN};

/// The ConfigMap with the white list, and the namespace that OpenKruise has it in.
pub(super) const WHITE_LIST: &str = "kruise-configuration";
const OF_OPENKRUISE: &str = "kruise-system";

impl Handler {
    /// Ours, or OpenKruise's. One that may not be read is none.
    pub(super) async fn white_list(&self) -> Result<Option<String>, ()> {
        for namespace in [self.namespace.as_str(), OF_OPENKRUISE] {
            let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
            let found = match timeout(READ_WITHIN / 2, maps.get_opt(WHITE_LIST)).await {
                Ok(Ok(found)) => found,
                Ok(Err(kube::Error::Api(status))) if status.code == 403 => {
                    static SAID: Once = Once::new();
                    SAID.call_once(|| {
                        warn!(namespace, name = WHITE_LIST, "White list may not be read: apply deploy/rbac");
                    });
                    None
                }
                Ok(Err(_)) | Err(_) => return Err(()),
            };
            if let Some(text) = found.and_then(|map| map.data?.remove(WHITE_LIST_KEY)) {
                return Ok(Some(text));
            }
        }
        Ok(None)
    }
}
