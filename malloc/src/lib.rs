//! Keeps memory from staying with a program that needs it no more: what a burst of large lists took, the
//! free room between what is kept ([`heap`]), and the pages of code that only its start needed ([`text`]).
//!
//! glibc's malloc keeps what was freed, the more the larger the pieces were. After 16 concurrent lists of 500
//! containers the agent would hold 6 MB more than before, with these settings under 1 MB, at the same speed
//! (`berth-bench proxy`). The manager with 2,000 nodes and 30,000 pods would hold 3 MB more. malloc reads its
//! settings from the environment, once, when the program begins; so the program begins a second time.

pub mod growth;
mod heap;
mod text;

use std::{env, fs, io, os::unix::process::CommandExt, process::Command};

/// Settings of mallopt(3), in bytes but for the last one.
const SETTINGS: [(&str, &str); 3] = [
    // Large pieces are mapped, and unmapped when they are freed.
    ("MALLOC_MMAP_THRESHOLD_", "65536"),
    // What is free at the end of the heap goes back to the system.
    ("MALLOC_TRIM_THRESHOLD_", "131072"),
    // Two threads that seldom allocate at the same time share one heap.
    ("MALLOC_ARENA_MAX", "1"),
];

/// Returns the free pages of the heap, and the pages of the program: those in use come back piece by piece.
/// To be called after the start and now and then: a rare event leaves its pages behind, as the start does.
fn return_unused() -> io::Result<()> {
    heap::return_free();
    text::return_all().map(drop)
}

/// Bytes of memory that the process has, of the system's own count.
fn resident() -> io::Result<usize> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<usize>().ok());
    let kilobytes = kilobytes.ok_or_else(|| io::Error::other("/proc/self/status has no VmRSS in kB"))?;
    Ok(kilobytes.saturating_mul(1024))
}

/// Replaces the process by itself with the settings in its environment, same PID and same open sockets.
/// Returns when they are there already, whoever gave them, or with the error when it does not work; a program
/// runs without them as well.
pub fn settle() -> io::Result<()> {
    let missing: Vec<_> = SETTINGS.into_iter().filter(|(name, _)| env::var_os(name).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Command::new(env::current_exe()?).args(env::args_os().skip(1)).envs(missing).exec())
}
