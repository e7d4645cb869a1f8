//! Descriptors that come as bare numbers, from systemd and from another process: the one place that makes
//! owners of them.

use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// Takes a descriptor for one's own.
#[expect(unsafe_code, reason = "a passed descriptor is a number; there is no safe way to own it")]
pub fn own(descriptor: RawFd) -> OwnedFd {
    // SAFETY: the callers have just been given this number, by systemd for this process (LISTEN_PID is ours)
    // or by the kernel in a message, and give it to nobody else: one is called once, before any thread is
    // started, and the other takes each message once. What it is a descriptor of shows at its first use.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}
