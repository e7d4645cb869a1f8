//! Where the programs of the node are: Debian's by their names, the Kubernetes ones in the cache of
//! `k8s/build.sh`, and Berth's own beside the program that runs us.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};

/// Names a folder with `berthd`, `berthctl` and `berth-manager` to test, instead of building them from this
/// checkout.
pub const BIN_DIR: &str = "BERTH_BIN_DIR";

/// The folder of this package.
pub fn package_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the directory for everything that is kept between runs and can be made again at any time.
pub fn cache_dir() -> Result<PathBuf> {
    if let Some(dir) = env::var_os("BERTH_CACHE") {
        return Ok(dir.into());
    }
    let home = env::var_os("HOME").context("HOME is not set: set it, or BERTH_CACHE")?;
    Ok(Path::new(&home).join(".cache/berth"))
}

/// Names the release of the kubelet, and of the rest where that would be older; `k8s/build.sh` knows which
/// there are.
pub const KUBERNETES: &str = "BERTH_TESTS_KUBERNETES";

/// A Kubernetes program; built when it is not there yet, which takes minutes.
pub fn kubernetes(program: &str) -> Result<PathBuf> {
    let script = package_dir().join("k8s/build.sh");
    let done = Command::new(&script).arg(program).output().with_context(|| script.display().to_string())?;
    if !done.status.success() {
        bail!("{} {program}: {}", script.display(), String::from_utf8_lossy(&done.stderr).trim());
    }
    let path = String::from_utf8(done.stdout).context("the path build.sh names")?;
    Ok(path.trim().into())
}

/// The command helm; built when it is not there yet.
pub fn helm() -> Result<PathBuf> {
    let script = package_dir().join("packages/helm.sh");
    let done = Command::new(&script).output().with_context(|| script.display().to_string())?;
    if !done.status.success() {
        bail!("{}: {}", script.display(), String::from_utf8_lossy(&done.stderr).trim());
    }
    let path = String::from_utf8(done.stdout).context("the path helm.sh names")?;
    Ok(path.trim().into())
}

/// Puts a shell script there. Another process writes it: what this one has open for writing while another
/// test starts a program is "text busy" for a moment. Whoever runs it meanwhile finds the old one.
pub fn script(path: &Path, text: &str) -> Result<()> {
    const SH: &str = r#"printf '#!/bin/sh\n%s\n' "$1" >"$0.new" && chmod 755 "$0.new" && mv "$0.new" "$0""#;
    let done = Command::new("sh")
        .args(["-c", SH])
        .arg(path)
        .arg(text)
        .output()
        .with_context(|| path.display().to_string())?;
    if !done.status.success() {
        bail!("write {}: {}", path.display(), String::from_utf8_lossy(&done.stderr).trim());
    }
    Ok(())
}

/// `berthd` or `berthctl`.
pub fn berth(program: &str) -> Result<PathBuf> {
    up_to_date(program)
}

/// `berth-manager`.
pub fn manager() -> Result<PathBuf> {
    up_to_date("berth-manager")
}

/// `berth-workloads`.
pub fn workloads() -> Result<PathBuf> {
    up_to_date("berth-workloads")
}

/// `kubectl-berth`.
pub fn kubectl_plugin() -> Result<PathBuf> {
    up_to_date("kubectl-berth")
}

fn up_to_date(program: &str) -> Result<PathBuf> {
    if let Some(dir) = env::var_os(BIN_DIR) {
        return present(Path::new(&dir).join(program));
    }
    let dir = build_dir()?;
    static BUILT: OnceLock<Result<(), String>> = OnceLock::new();
    // A test of yesterday's berthd is worse than none: what is to be tested is brought up to date first. When
    // it is, this takes the half second that cargo needs to see it.
    let built = BUILT.get_or_init(|| build(&dir).map_err(|error| format!("{error:#}")));
    if let Err(error) = built {
        bail!("{error}");
    }
    present(dir.join(program))
}

/// A program of this package; cargo builds it along with whatever of this package runs now.
pub fn own(program: &str) -> Result<PathBuf> {
    present(build_dir()?.join(program))
}

fn build(dir: &Path) -> Result<()> {
    let profile = match dir.file_name().and_then(|name| name.to_str()) {
        Some("debug") => "dev",
        Some(name) => name,
        None => bail!("{} names no cargo profile", dir.display()),
    };
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // What cargo says of the test's own package would make build scripts (ring's) believe that everything has
    // changed.
    let of_the_test = |name: &std::ffi::OsStr| {
        let name = name.to_string_lossy();
        name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
    };
    let environment = env::vars_os().filter(|(name, _)| !of_the_test(name));
    let done = Command::new(cargo)
        .env_clear()
        .envs(environment)
        // All of the workspace and the suite itself, as `cargo test` builds them: the features of the
        // libraries are those of all of it and of the tests, so that nothing is built a second time.
        .args(["build", "--quiet", "--profile", profile, "--workspace", "--bins", "--test", "node"])
        .args(["--features", "berthd/fault-points"])
        .arg("--target-dir")
        .arg(dir.parent().context("target folder")?)
        .current_dir(package_dir())
        .output()
        .context("cargo build --workspace --bins")?;
    if !done.status.success() {
        bail!("cargo build --workspace --bins: {}", String::from_utf8_lossy(&done.stderr).trim());
    }
    Ok(())
}

/// `target/debug` for `target/debug/berth-node` and for `target/debug/deps/node-0123`.
fn build_dir() -> Result<PathBuf> {
    let own = env::current_exe().context("our own path")?;
    let dir = own.parent().context("our own folder")?;
    let dir = if dir.ends_with("deps") { dir.parent().context("target folder")? } else { dir };
    Ok(dir.to_owned())
}

fn present(path: PathBuf) -> Result<PathBuf> {
    if !path.exists() {
        bail!("{} is not there", path.display());
    }
    Ok(path)
}
