//! The images of the tests, made here from Debian's static busybox: nothing is pulled from anywhere.
//!
//! One root filesystem, two images: `busybox` for the containers, `pause` for the sandboxes. They are made
//! once and kept in the cache as archives that `ctr image import` and `skopeo` both read.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tokio::sync::Mutex;

use super::programs::cache_dir;
use super::run_dir::Run;
use super::tool::run;

/// A shell and the usual tools.
pub const BUSYBOX: &str = "berth.test/busybox:1";
/// The same under another tag, for updates.
pub const BUSYBOX_NEXT: &str = "berth.test/busybox:2";
/// Holds the namespaces of a sandbox.
pub const PAUSE: &str = "berth.test/pause:1";

const SOURCE: &str = "/bin/busybox";
/// Part of the cache key: raise it when what is made below changes.
const RECIPE: &str = "1";

/// Held by whoever makes archives: nodes of one process come up at once, and would work in one folder.
static MAKES: Mutex<()> = Mutex::const_new(());

/// The archives of all images; makes those that are missing.
pub async fn archives() -> Result<Vec<PathBuf>> {
    let _alone = MAKES.lock().await;
    let size = fs::metadata(SOURCE).with_context(|| format!("{SOURCE}: install busybox-static"))?.len();
    let dir = cache_dir()?.join("images");
    fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
    let mut archives = Vec::new();
    for (image, command) in [
        (BUSYBOX, ["/bin/sh", "-c", "sleep 1000000"].as_slice()),
        (BUSYBOX_NEXT, &["/bin/sh", "-c", "sleep 1000001"]),
        (PAUSE, &["/bin/sleep", "1000000000"]),
    ] {
        let archive = dir.join(format!("{}-{RECIPE}-{size}.tar", image.replace(['/', ':'], "_")));
        if !archive.exists() {
            make(image, command, &dir, &archive).await.with_context(|| format!("make image {image}"))?;
        }
        archives.push(archive);
    }
    Ok(archives)
}

/// Imports every image into a containerd by its own client, so that no pod has to pull.
pub async fn import(ctr: &Path, containerd: &Path) -> Result<()> {
    let address = containerd.to_str().context("socket path")?;
    for archive in archives().await? {
        let archive = archive.to_str().context("archive path")?;
        run(ctr, &["--address", address, "-n", "k8s.io", "image", "import", archive]).await?;
    }
    Ok(())
}

/// The archive of an image that nobody has: busybox, and a layer of so many random bytes, which nothing can
/// compress.
pub async fn sized(run: &Run, name: &str, bytes: usize) -> Result<PathBuf> {
    let work = run.make_dir(&format!("images/{}", name.replace(['/', ':'], "_")))?;
    // Of another image of that name.
    fs::remove_dir_all(&work).and_then(|()| fs::create_dir(&work)).context("clear the work folder")?;
    let root = work.join("root");
    root_filesystem(&root).await?;
    let mut data = vec![0; bytes];
    fs::File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut data))
        .context("random bytes")?;
    fs::write(root.join("data"), data).context("write random bytes")?;
    let archive = work.join("image.tar");
    let config = ["--clear=config.entrypoint", "--config.cmd", "/bin/sleep", "--config.cmd", "1000000"];
    pack(&root, name, &config, &work, &archive).await?;
    fs::remove_dir_all(&root).context("remove the root filesystem")?;
    Ok(archive)
}

async fn make(image: &str, command: &[&str], dir: &Path, archive: &Path) -> Result<()> {
    // In a folder of this process and renamed at the end: two runs may make the same image at once.
    let work = dir.join(format!(".work-{}", std::process::id()));
    if work.exists() {
        fs::remove_dir_all(&work).context("clear the work folder")?;
    }
    fs::create_dir_all(&work).context("work folder")?;
    let root = work.join("root");
    root_filesystem(&root).await?;
    let mut config = vec!["--clear=config.entrypoint"];
    for part in command {
        config.extend(["--config.cmd", part]);
    }
    let new = work.join("image.tar");
    pack(&root, image, &config, &work, &new).await?;
    fs::rename(&new, archive).context("put the archive in its place")?;
    fs::remove_dir_all(&work).context("remove the work folder")
}

/// Makes an image of a root filesystem, with these flags of `umoci config`.
pub(super) async fn pack(
    root: &Path,
    image: &str,
    config: &[&str],
    work: &Path,
    archive: &Path,
) -> Result<()> {
    let oci = work.join("oci");
    let layout = oci.to_str().context("path")?;
    let tagged = format!("{layout}:it");
    run("umoci", &["init", "--layout", layout]).await?;
    run("umoci", &["new", "--image", &tagged]).await?;
    run("umoci", &["insert", "--image", &tagged, root.to_str().context("path")?, "/"]).await?;
    let mut args = vec!["config", "--image", &tagged, "--config.env", "PATH=/bin"];
    args.extend(config);
    run("umoci", &args).await?;

    let destination = format!("docker-archive:{}:{image}", archive.display());
    run("skopeo", &["copy", "--quiet", "--insecure-policy", &format!("oci:{tagged}"), &destination]).await?;
    Ok(())
}

pub(super) async fn root_filesystem(root: &Path) -> Result<()> {
    for dir in ["bin", "etc", "tmp", "dev", "proc", "sys", "root"] {
        fs::create_dir_all(root.join(dir)).context("root filesystem")?;
    }
    fs::set_permissions(root.join("tmp"), fs::Permissions::from_mode(0o1777)).context("/tmp")?;
    fs::write(root.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n").context("/etc/passwd")?;
    fs::write(root.join("etc/group"), "root:x:0:\n").context("/etc/group")?;
    fs::copy(SOURCE, root.join("bin/busybox")).context("busybox")?;
    for applet in run(SOURCE, &["--list"]).await?.lines().filter(|applet| *applet != "busybox") {
        symlink("busybox", root.join("bin").join(applet)).with_context(|| format!("link {applet}"))?;
    }
    Ok(())
}
