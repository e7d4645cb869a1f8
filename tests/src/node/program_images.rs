//! Images of Berth's own programs, as `deploy/` wants them: made from the programs under test, without a
//! container engine.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};

use super::images;
use super::run_dir::Run;
use super::tool::run as tool;

/// The archive of an image that runs the first of these programs, with the libraries it needs and busybox for
/// whoever looks inside.
pub async fn archive(run: &Arc<Run>, programs: &[&Path]) -> Result<PathBuf> {
    let program = programs.first().context("an image without a program")?;
    let name = program.file_name().and_then(|name| name.to_str()).context("a program without a name")?;
    let work = run.make_dir(&format!("image-{name}"))?;
    // Another one of this name may have been made.
    fs::remove_dir_all(&work).and_then(|()| fs::create_dir(&work)).context("an empty folder")?;
    let root = work.join("root");
    images::root_filesystem(&root).await?;
    for program in programs {
        add(program, &root).await?;
    }
    let archive = work.join("image.tar");
    let config = ["--config.entrypoint", &format!("/bin/{name}"), "--clear=config.cmd"];
    images::pack(&root, &format!("berth.test/{name}:0.1.0"), &config, &work, &archive).await?;
    fs::remove_dir_all(&root).context("remove the root filesystem")?;
    Ok(archive)
}

/// The archives of images of a program under these names, each with env of its own.
pub async fn variants(run: &Arc<Run>, program: &Path, images: &[(&str, &str)]) -> Result<Vec<PathBuf>> {
    let name = program.file_name().and_then(|name| name.to_str()).context("a program without a name")?;
    let work = run.make_dir(&format!("images-{name}"))?;
    // Others of this name may have been made.
    fs::remove_dir_all(&work).and_then(|()| fs::create_dir(&work)).context("an empty folder")?;
    let root = work.join("root");
    images::root_filesystem(&root).await?;
    add(program, &root).await?;
    let mut archives = Vec::new();
    for (number, (image, env)) in images.iter().enumerate() {
        let own = work.join(number.to_string());
        fs::create_dir(&own).context("a folder")?;
        let archive = own.join("image.tar");
        let entrypoint = format!("/bin/{name}");
        let config = ["--config.entrypoint", &entrypoint, "--clear=config.cmd", "--config.env", env];
        images::pack(&root, image, &config, &own, &archive).await?;
        archives.push(archive);
    }
    fs::remove_dir_all(&root).context("remove the root filesystem")?;
    Ok(archives)
}

async fn add(program: &Path, root: &Path) -> Result<()> {
    let name = program.file_name().context("a program without a name")?;
    let (from, to) = (program.display().to_string(), root.join("bin").join(name).display().to_string());
    // Nine tenths of a debug build are for debuggers.
    tool("strip", &["-o", &to, &from]).await?;
    for library in libraries(&from).await? {
        let place = root.join(library.strip_prefix("/").context("a library without a path")?);
        fs::create_dir_all(place.parent().context("a library without a folder")?)
            .context("library folder")?;
        fs::copy(&library, &place).with_context(|| library.display().to_string())?;
    }
    Ok(())
}

/// Lists the libraries that the dynamic linker takes into the process, by where it finds them here.
async fn libraries(program: &str) -> Result<Vec<PathBuf>> {
    let listed = tool("ldd", &[program]).await?;
    let paths = listed.split_whitespace().filter(|word| word.starts_with('/'));
    Ok(paths.map(|path| PathBuf::from(path.trim_end_matches(':'))).collect())
}
