//! The system calls: which may be made, and with which arguments not.

use std::collections::BTreeMap;

use nix::errno::Errno;
use seccompiler::{SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};

/// Rules by the numbers of calls: one that is met decides.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// The calls that may be made: what was seen, and what other versions of the C library and of the Rust
/// runtime use in its place. A test holds them to what the unit allows.
const ALLOWED: &[i64] = &[
    // Memory.
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    // Descriptors, the wait for them, and time.
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_fcntl,
    libc::SYS_flock,
    libc::SYS_getrandom,
    libc::SYS_gettimeofday,
    libc::SYS_ioctl,
    libc::SYS_lseek,
    libc::SYS_nanosleep,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_pselect6,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_gettime,
    libc::SYS_timerfd_settime,
    libc::SYS_write,
    libc::SYS_writev,
    // Sockets.
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_listen,
    libc::SYS_recvfrom,
    libc::SYS_recvmmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_socket,
    libc::SYS_socketpair,
    // Files: the sockets, their locks and directory, the program, its log, and /proc.
    libc::SYS_chdir,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fchdir,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_ftruncate,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_linkat,
    libc::SYS_mkdirat,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_readlinkat,
    libc::SYS_renameat2,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_umask,
    libc::SYS_unlinkat,
    // Threads, signals and processes: a successor is started.
    libc::SYS_clone,
    libc::SYS_execve,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_futex_waitv,
    libc::SYS_getcpu,
    libc::SYS_get_robust_list,
    libc::SYS_kill,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_prctl,
    libc::SYS_prlimit64,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_sigaltstack,
    libc::SYS_tgkill,
    libc::SYS_tkill,
    libc::SYS_wait4,
    libc::SYS_waitid,
    // About this process and its machine.
    libc::SYS_capget,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getgroups,
    libc::SYS_getpgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getresgid,
    libc::SYS_getresuid,
    libc::SYS_getrusage,
    libc::SYS_getsid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_sysinfo,
    libc::SYS_times,
    libc::SYS_uname,
];

/// Forerunners of calls, which newer machines never had.
#[cfg(target_arch = "x86_64")]
const FORERUNNERS: &[i64] = &[
    libc::SYS_access,
    libc::SYS_arch_prctl,
    libc::SYS_chmod,
    libc::SYS_creat,
    libc::SYS_dup2,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_eventfd,
    libc::SYS_fork,
    libc::SYS_getdents,
    libc::SYS_getpgrp,
    libc::SYS_getrlimit,
    libc::SYS_link,
    libc::SYS_lstat,
    libc::SYS_mkdir,
    libc::SYS_open,
    libc::SYS_pause,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_rmdir,
    libc::SYS_select,
    libc::SYS_stat,
    libc::SYS_time,
    libc::SYS_unlink,
    libc::SYS_vfork,
];
#[cfg(not(target_arch = "x86_64"))]
const FORERUNNERS: &[i64] = &[];

/// Flags with which neither a thread nor a process is made: a namespace of its own.
const NAMESPACES: i32 = libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWUTS;

/// The calls that may be made. `clone3` is not among them: what it asks for cannot be read here, and the C
/// library makes do with `clone`.
pub(super) fn allowed() -> Rules {
    ALLOWED.iter().chain(FORERUNNERS).map(|call| (*call, Vec::new())).collect()
}

/// Arguments that are refused, by the answer to them.
pub(super) fn refused() -> Result<[(Errno, Rules); 2], seccompiler::BackendError> {
    let no_unix = || rule(&[is(0, SeccompCmpOp::Ne, libc::AF_UNIX)]);
    let families = [(libc::SYS_socket, vec![no_unix()?]), (libc::SYS_socketpair, vec![no_unix()?])];
    let bit = |argument, bit: i32| is(argument, SeccompCmpOp::MaskedEq(bits(bit)), bit);
    let namespaces =
        (0..i32::BITS).map(|number| 1_i32.rotate_left(number)).filter(|bit| NAMESPACES & bit != 0);
    let namespaces = namespaces.map(|one| rule(&[bit(0, one)])).collect::<Result<_, _>>()?;
    // Nothing that was written is run.
    let new = rule(&[bit(2, libc::PROT_EXEC), bit(2, libc::PROT_WRITE)])?;
    let changed = rule(&[bit(2, libc::PROT_EXEC)])?;
    let rights =
        [(libc::SYS_clone, namespaces), (libc::SYS_mmap, vec![new]), (libc::SYS_mprotect, vec![changed])];
    Ok([(Errno::EAFNOSUPPORT, families.into()), (Errno::EPERM, rights.into())])
}

/// A rule that is met where all of these are.
fn rule(conditions: &[Condition]) -> Result<SeccompRule, seccompiler::BackendError> {
    let made = conditions.iter().map(|Condition { argument, operator, value }| {
        SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, operator.clone(), bits(*value))
    });
    SeccompRule::new(made.collect::<Result<_, _>>()?)
}

/// One condition on an argument, of which the lower half counts: an `int` has no other.
struct Condition {
    argument: u8,
    operator: SeccompCmpOp,
    value: i32,
}

fn is(argument: u8, operator: SeccompCmpOp, value: i32) -> Condition {
    Condition { argument, operator, value }
}

fn bits(value: i32) -> u64 {
    u64::from(value.cast_unsigned())
}
