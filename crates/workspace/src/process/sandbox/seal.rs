//! System calls that a sealed program may not make (seccomp).
//!
//! Landlock covers files, TCP and abstract sockets. This filter refuses the other ways in which a program could
//! change something outside itself: all sockets, attributes of files, signals and memory of other processes,
//! and messages between processes. A filter sees numbers and no paths, so it would break ordinary programs; it
//! is meant for programs that only read and print. Refused calls return `EPERM`.

use std::collections::BTreeMap;
use std::io;
use std::thread;

use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};

/// System calls that every architecture has.
const FORBIDDEN: [c_long; 43] = [
    // Sockets, and io_uring, whose operations no filter sees.
    libc::SYS_socket,
    libc::SYS_io_uring_setup,
    // Attributes of files.
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    SETXATTRAT,
    REMOVEXATTRAT,
    FILE_SETATTR,
    // Other processes.
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_pidfd_send_signal,
    libc::SYS_pidfd_getfd,
    libc::SYS_ptrace,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_setpriority,
    libc::SYS_ioprio_set,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setaffinity,
    // Messages and memory shared between processes, and the user's kernel keys.
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_mq_open,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
];

/// System calls that are too new for `libc` to name everywhere. Their numbers are the same on all
/// architectures.
const FCHMODAT2: c_long = 452;
const SETXATTRAT: c_long = 463;
const REMOVEXATTRAT: c_long = 466;
const FILE_SETATTR: c_long = 469;

/// Older system calls with the same effect, which only this architecture still has.
#[cfg(target_arch = "x86_64")]
const OLD: [c_long; 6] = [
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD: [c_long; 0] = [];

/// Bit that marks system calls of the x32 variant of x86-64; such a call is otherwise the same.
#[cfg(target_arch = "x86_64")]
const VARIANT: c_long = 0x4000_0000;
#[cfg(not(target_arch = "x86_64"))]
const VARIANT: c_long = 0;

/// Commands to open files that change attributes or type into a terminal: `FS_IOC_SETFLAGS`, its 32-bit
/// variant, `FS_IOC_FSSETXATTR`, `TIOCSTI` and `TIOCLINUX`.
const FORBIDDEN_IOCTLS: [u64; 5] = [0x4008_6602, 0x4004_6602, 0x401c_5820, 0x5412, 0x541c];

/// Returns true if the kernel accepts the filter.
pub(super) fn works() -> bool {
    // The filter stays in force for the lifetime of the thread, so the trial runs on its own thread.
    let trial = thread::Builder::new().name("seal".to_owned()).spawn(apply);
    trial.is_ok_and(|trial| trial.join().is_ok_and(|applied| applied.is_ok()))
}

/// Enforces the filter for the calling thread and everything it starts.
pub(super) fn apply() -> io::Result<()> {
    let program = program().map_err(io::Error::other)?;
    apply_filter(&program).map_err(io::Error::other)
}

fn program() -> Result<BpfProgram, BackendError> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    let mut rules = BTreeMap::new();
    for call in FORBIDDEN.into_iter().chain(OLD) {
        rules.insert(call, Vec::new());
        rules.insert(call | VARIANT, Vec::new());
    }
    for call in [libc::SYS_ioctl, libc::SYS_ioctl | VARIANT] {
        rules.insert(call, ioctls()?);
    }
    let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, refused, architecture)?.try_into()
}

fn ioctls() -> Result<Vec<SeccompRule>, BackendError> {
    let rule = |command| {
        let condition = SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, command)?;
        SeccompRule::new(vec![condition])
    };
    FORBIDDEN_IOCTLS.into_iter().map(rule).collect()
}
