//! Volumes: what can be played without a cluster.

use std::collections::BTreeSet;

use super::{Findings, is_label};
use crate::manifest::types::Volume;

impl Findings<'_> {
    pub(super) fn volumes(&mut self, volumes: &[Volume]) {
        let mut names = BTreeSet::new();
        for volume in volumes {
            let field = format!("spec.volumes[{}]", volume.name);
            if !is_label(&volume.name) {
                self.error(&field, "the name is not a DNS label (a-z, 0-9, '-')");
            }
            if !names.insert(&volume.name) {
                self.error(&field, "the name is used twice");
            }
            let mut refused = false;
            for (kind, value) in [
                ("configMap", &volume.config_map),
                ("secret", &volume.secret),
                ("projected", &volume.projected),
                ("downwardAPI", &volume.downward_api),
                ("persistentVolumeClaim", &volume.persistent_volume_claim),
                ("csi", &volume.csi),
                ("ephemeral", &volume.ephemeral),
                ("image", &volume.image),
                ("nfs", &volume.nfs),
                ("iscsi", &volume.iscsi),
                ("fc", &volume.fc),
            ] {
                refused |= value.is_some();
                self.refuse(
                    &format!("{field}.{kind}"),
                    value,
                    "put the files on the node and use a hostPath volume",
                );
            }
            match (&volume.empty_dir, &volume.host_path) {
                (Some(_), Some(_)) => self.error(&field, "has both emptyDir and hostPath; give one"),
                (None, None) if !refused => {
                    self.error(&field, "has no source; give emptyDir: {} or hostPath");
                }
                (Some(dir), None) => {
                    if let Some(medium) = dir.medium.as_ref().filter(|medium| !medium.is_empty()) {
                        let line = self.document.line_of(&format!("{field}.emptyDir.medium"));
                        self.errors.push(format!(
                            "line {line}: {field}.emptyDir.medium {medium} is not supported by berthctl play; take it out"
                        ));
                    }
                    if dir.size_limit.is_some() {
                        self.ignored.push(format!("{field}.emptyDir.sizeLimit"));
                    }
                }
                (None, Some(path)) if !path.path.starts_with('/') => {
                    self.error(&format!("{field}.hostPath.path"), "is not absolute");
                }
                _ => {}
            }
        }
    }
}
