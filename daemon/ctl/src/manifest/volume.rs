//! Volumes: which directory of the node a mount is, and making it.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use berth_proto::cri::{Mount, MountPropagation};

use super::Manifest;
use super::sandbox::{Places, path_text};
use super::types::{Container, HostPath, Volume};

/// The directory of a volume on the node.
fn source(volume: &Volume, places: &Places) -> PathBuf {
    match &volume.host_path {
        Some(host) => PathBuf::from(&host.path),
        None => places.data.join("volumes/kubernetes.io~empty-dir").join(&volume.name),
    }
}

/// The mounts of a container.
pub(crate) fn mounts(manifest: &Manifest, container: &Container, places: &Places) -> Result<Vec<Mount>> {
    let mut mounts = Vec::new();
    for mount in &container.volume_mounts {
        let field = format!("volumeMounts[{}] of container {:?}", mount.name, container.name);
        let volume = manifest
            .pod
            .spec
            .volumes
            .iter()
            .find(|volume| volume.name == mount.name)
            .with_context(|| format!("{field}: spec.volumes has no volume of that name"))?;
        let propagation = match mount.mount_propagation.as_deref() {
            None | Some("None") => MountPropagation::PropagationPrivate,
            Some("HostToContainer") => MountPropagation::PropagationHostToContainer,
            Some("Bidirectional") => MountPropagation::PropagationBidirectional,
            Some(other) => {
                bail!("{field}: mountPropagation {other:?} is none of None, HostToContainer, Bidirectional")
            }
        };
        // Relative paths are relative to the root, as in the kubelet.
        let container_path = Path::new("/").join(&mount.mount_path);
        mounts.push(Mount {
            container_path: path_text(&container_path)?,
            host_path: path_text(&source(volume, places))?,
            readonly: mount.read_only,
            selinux_relabel: false,
            propagation: propagation.into(),
        });
    }
    Ok(mounts)
}

/// Makes what the volumes need, before the sandbox.
pub(crate) fn prepare(manifest: &Manifest, places: &Places) -> Result<()> {
    let fs_group = manifest.pod.spec.security_context.as_ref().and_then(|context| context.fs_group);
    for volume in &manifest.pod.spec.volumes {
        let path = source(volume, places);
        let field = format!("spec.volumes[{}]", volume.name);
        match &volume.host_path {
            Some(host) => host_path(host, &path).with_context(|| format!("{field}.hostPath"))?,
            None => empty_dir(&path, fs_group).with_context(|| {
                format!("{field}: make the emptyDir {} (another place: --data-dir)", path.display())
            })?,
        }
    }
    Ok(())
}

fn empty_dir(path: &Path, fs_group: Option<i64>) -> Result<()> {
    fs::create_dir_all(path)?;
    let mut mode = 0o777;
    if let Some(group) = fs_group {
        chown(path, None, Some(u32::try_from(group).context("spec.securityContext.fsGroup")?))?;
        mode |= 0o2000; // what is made in it belongs to the group as well
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    Ok(())
}

fn host_path(host: &HostPath, path: &Path) -> Result<()> {
    let kind = host.r#type.as_deref().unwrap_or_default();
    let shown = path.display();
    let found = fs::metadata(path).map(|metadata| metadata.file_type());
    match (kind, found) {
        ("", _) => Ok(()),
        ("DirectoryOrCreate", Err(_)) => {
            fs::create_dir_all(path).with_context(|| format!("make the directory {shown}"))
        }
        ("FileOrCreate", Err(_)) => {
            let made = OpenOptions::new().append(true).create(true).open(path);
            made.map(drop).with_context(|| format!("make the file {shown}"))
        }
        ("Directory" | "File" | "Socket" | "CharDevice" | "BlockDevice", Err(error)) => {
            Err(anyhow!(error)).with_context(|| format!("type {kind}: {shown}"))
        }
        (_, Ok(found)) => {
            let fits = match kind {
                "Directory" | "DirectoryOrCreate" => found.is_dir(),
                "File" | "FileOrCreate" => found.is_file(),
                "Socket" => found.is_socket(),
                "CharDevice" => found.is_char_device(),
                "BlockDevice" => found.is_block_device(),
                _ => bail!("type {kind:?} is no hostPath type"),
            };
            if fits { Ok(()) } else { Err(anyhow!("{shown} is not of type {kind}")) }
        }
        (_, Err(_)) => bail!("type {kind:?} is no hostPath type"),
    }
}
