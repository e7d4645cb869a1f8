//! Carries out steps, one at a time, while nobody else does. It waits for its turn and for the disk: not for
//! a thread that has calls to answer.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown},
    path::Path,
    time::{Duration, Instant},
};

use berth_policy::time::later;

use nix::{
    errno::Errno,
    fcntl::{AT_FDCWD, Flock, FlockArg, RenameFlags, renameat2},
    unistd::geteuid,
};
use tracing::info;

use super::{
    Paths,
    decide::{Shown, Step, View},
    look::{FileId, OwnSocket, look, metadata},
};

/// How long another one may take for its steps.
const TURN: Duration = Duration::from_secs(1);
/// Pause before the lock is tried again.
const TRY_PAUSE: Duration = Duration::from_millis(10);
/// No way from anywhere is as long; a runtime that restarts meanwhile costs a few.
const MOST: usize = 16;

/// Looks, decides and changes until there is nothing more to do. Gives the last decision, never one that
/// changes something.
///
/// # Errors
/// The system's answer. What was done until then is a state like any other.
pub(super) fn walk(paths: &Paths, own: OwnSocket, rule: impl Fn(View) -> Step) -> io::Result<Step> {
    walk_at_most(MOST, paths, own, rule)
}

/// The same, ended after so many changes, as a crash would.
pub(super) fn walk_at_most(
    most: usize,
    paths: &Paths,
    own: OwnSocket,
    rule: impl Fn(View) -> Step,
) -> io::Result<Step> {
    let _turn = turn(paths)?;
    for _ in 0..most {
        let view = look(paths, own)?;
        let step = rule(view);
        if step.ends() {
            return Ok(step);
        }
        info!(?step, front = ?view.front, aside = ?view.aside, "Socket of the runtime");
        carry_out(step, view, paths)?;
    }
    Ok(Step::Await)
}

/// The lock of those who change the names: berthd and the guardian may both want to act. Nobody else can hold
/// it.
fn turn(paths: &Paths) -> io::Result<Flock<File>> {
    let locks = paths.locks();
    match fs::DirBuilder::new().mode(0o700).create(&locks) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = locks.symlink_metadata()?;
    if !found.is_dir() || found.uid() != geteuid().as_raw() || found.mode() & 0o077 != 0 {
        let found = format!("{locks:?} must be a directory of berthd's own user, with mode 0700: remove it");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, found));
    }
    let until = later(Instant::now(), TURN);
    let open = File::options().create(true).truncate(false).write(true).mode(0o600).open(locks.join("turn"));
    let mut file = open?;
    loop {
        file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(lock),
            Err((file, Errno::EWOULDBLOCK)) if Instant::now() < until => file,
            Err((_, errno)) => return Err(errno.into()),
        };
        std::thread::sleep(TRY_PAUSE);
    }
}

fn carry_out(step: Step, view: View, paths: &Paths) -> io::Result<()> {
    let (front, own, aside, next) = (paths.front(), &paths.own(), &paths.aside(), &paths.next());
    match step {
        Step::Stay | Step::Await | Step::Refuse => Ok(()),
        // To rename a file to another name of itself does nothing.
        Step::Adopt if FileId::of(next)? == FileId::of(aside)? => fs::remove_file(next),
        Step::Adopt => fs::rename(next, aside),
        Step::Tidy => fs::remove_file(next),
        Step::Fill => {
            let_in_whom(aside, own)?;
            unless_changed(fs::hard_link(own, front))
        }
        Step::Swap => {
            let_in_whom(if view.front == Shown::Runtime { front } else { aside }, own)?;
            fs::hard_link(own, next)?;
            unless_changed(exchange(next, front))
        }
        Step::Return if view.front == Shown::Nothing => unless_changed(fs::hard_link(aside, front)),
        Step::Return => {
            fs::hard_link(aside, next)?;
            unless_changed(exchange(next, front))
        }
        Step::Clear => fs::remove_file(front),
    }
}

/// Lets everybody dial berthd who may dial the runtime: the same owner, the same mode.
fn let_in_whom(runtime: &Path, own: &Path) -> io::Result<()> {
    let ours = own.symlink_metadata()?;
    // Where the runtime has just removed it, it is looked at again.
    let Some(theirs) = metadata(runtime)? else { return Ok(()) };
    if (theirs.uid(), theirs.gid()) != (ours.uid(), ours.gid()) {
        chown(own, Some(theirs.uid()), Some(theirs.gid()))?;
    }
    fs::set_permissions(own, fs::Permissions::from_mode(theirs.mode() & 0o777))
}

/// Exchanges the files at two names; there is no moment in which one is missing.
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    Ok(renameat2(AT_FDCWD, one, AT_FDCWD, other, RenameFlags::RENAME_EXCHANGE)?)
}

/// The runtime may have removed or bound its path since it was looked at: then it is looked at again.
fn unless_changed(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists) => {
            Ok(())
        }
        done => done,
    }
}
