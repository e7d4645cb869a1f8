//! Confinement of this process, however it was started: no system calls beyond those that it needs, and no
//! more memory than it could need.
//!
//! The unit has a filter as well. In the runtime's place there is no unit, and whoever starts the program by
//! hand has none either; so the program sees to it itself. A call beyond the filter is refused and not
//! punished: a program that is killed for a call that nobody thought of is an outage of the node, one that is
//! told that its kernel has no such call does without.
//!
//! A filter stays for as long as the process lives, and the processes that it starts have it as well, a
//! successor of another release included. So it has room for what the C library and the Rust runtime may
//! come to use, and one that is in force already is not put on twice.

mod calls;

use std::io;

use anyhow::Context;
use berth_shim::Confined;
use nix::{
    errno::Errno,
    sys::{
        resource::{Resource, getrlimit, setrlimit},
        socket::{AddressFamily, SockFlag, SockType, socket},
    },
};
use rustix::mm::munlockall;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};
use tracing::warn;

/// Bytes of data that the process may have: twice what requests take at the most, once as they came and once
/// as they are read, and as much again for answers on their way. A node whose memory is short would end
/// others first, for the kernel spares this one; so the process ends itself, and another one follows.
///
/// Not a cgroup: the root, where the process is, has no limit, a group of our own beside systemd's and the
/// kubelet's is in nobody's plan, and the old process and the new one of a hand-over would share it.
const MOST_DATA: u64 = 4 * berth_shim::MOST_MEMORY as u64;

/// Takes from this process what it does not need. To be called before there is a second thread. What cannot
/// be taken is told: a node without a data path would be worse.
pub(crate) fn confine() -> Confined {
    let filtered = filter().unwrap_or_else(|error| {
        warn!(error = format!("{error:#}"), "System calls not filtered");
        false
    });
    let memory_limit = limit_data().unwrap_or_else(|error| {
        warn!(%error, "Memory not limited");
        None
    });
    Confined { filtered, memory_limit }
}

/// Sees to it that there is a filter; says whether it works.
fn filter() -> anyhow::Result<bool> {
    if refuses() {
        return Ok(true);
    }
    for program in programs().context("make the filter")? {
        apply_filter(&program).context("put the filter on")?;
    }
    Ok(refuses())
}

/// Tells whether this thread is refused what it has no need for: a call, and an argument of one that it
/// needs. Both do nothing where they are allowed.
fn refuses() -> bool {
    let internet = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None);
    let unlocked = munlockall();
    let refused = unlocked.map_err(|errno| Errno::from_raw(errno.raw_os_error()));
    internet.err() == Some(Errno::EAFNOSUPPORT) && matches!(refused, Err(Errno::ENOSYS | Errno::EPERM))
}

/// The filter, in parts by what is answered to a call that is refused.
fn programs() -> anyhow::Result<Vec<BpfProgram>> {
    let arch = std::env::consts::ARCH.try_into()?;
    let errno = |errno: Errno| SeccompAction::Errno((errno as i32).unsigned_abs());
    let mut filters = Vec::new();
    for (answer, rules) in calls::refused()? {
        filters.push(SeccompFilter::new(rules, SeccompAction::Allow, errno(answer), arch)?);
    }
    // The last one: with it there are no more.
    filters.push(SeccompFilter::new(calls::allowed(), errno(Errno::ENOSYS), SeccompAction::Allow, arch)?);
    filters.into_iter().map(|filter| Ok(filter.try_into()?)).collect()
}

/// Limits what may be written to. Whoever has set less for good is obeyed. The limit that holds now may be a
/// predecessor's, which a successor chooses anew.
fn limit_data() -> io::Result<Option<u64>> {
    let (_, hard) = getrlimit(Resource::RLIMIT_DATA)?;
    let limit = MOST_DATA.min(hard);
    setrlimit(Resource::RLIMIT_DATA, limit, hard)?;
    Ok(Some(limit))
}

#[cfg(test)]
mod tests;
