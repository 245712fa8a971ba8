//! seccomp: the list of system calls that serving needs. All others fail with EPERM.
//!
//! Rings of io_uring are made before: the calls that make one are not in the list, and the rings themselves are restricted to reading and
//! writing, or to the commands of FUSE.

use std::{collections::BTreeMap, env::consts::ARCH};

use rustix::io::Errno;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Width, SeccompCmpOp as Compare, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter_all_threads,
};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Calls that are allowed whatever they are given.
const ALLOWED: &[i64] = &[
    // The image, the mount, the process that started this one. All descriptors are open already.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_lseek,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_sync_file_range,
    libc::SYS_fallocate,
    libc::SYS_fadvise64,
    // Its lock: a mount for reading shares it until it is to take changes.
    libc::SYS_flock,
    // Between the image, pipes and the mount.
    libc::SYS_splice,
    libc::SYS_fstat,
    libc::SYS_close,
    libc::SYS_ppoll,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_recvfrom,
    libc::SYS_sendto,
    libc::SYS_io_uring_enter,
    libc::SYS_eventfd2,
    // Memory.
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_mincore,
    libc::SYS_membarrier,
    // Threads.
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_getcpu,
    // Signals of this process.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    // Time, randomness.
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_sysinfo,
    libc::SYS_uname,
];

/// Calls of which the C library has only newer forms on other machines.
#[cfg(target_arch = "x86_64")]
const ALLOWED_HERE: &[i64] = &[libc::SYS_poll, libc::SYS_time];
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_HERE: &[i64] = &[];

/// A thread of this process, and nothing else that clone(2) makes.
const NEW_NAMESPACES: u64 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u64;
const THREAD: u64 = (libc::CLONE_THREAD | libc::CLONE_VM) as u64;
const EXECUTABLE: u64 = libc::PROT_EXEC as u64;
/// prctl(2): names of memory, which allocators give, and of threads.
const NAMES: [u64; 2] = [libc::PR_SET_NAME as u64, 0x5356_4d41];
/// fcntl(2): flags, locks of the image, further descriptors of what is open.
const FILE_CONTROL: [i32; 7] = [
    libc::F_GETFD,
    libc::F_SETFD,
    libc::F_GETFL,
    libc::F_DUPFD_CLOEXEC,
    libc::F_OFD_SETLK,
    libc::F_OFD_GETLK,
    libc::F_GET_SEALS,
];
/// ioctl(2): discarding on a device.
const DEVICE_CONTROL: [u64; 1] = [0x1277];

/// Takes all other system calls away from all threads.
///
/// # Errors
/// The kernel has no seccomp.
pub fn take_away() -> Result<(), String> {
    let arch = TargetArch::try_from(ARCH).map_err(|error| error.to_string())?;
    // The C library then uses clone(2), whose flags can be looked at.
    let clone3 = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let missing = SeccompAction::Errno(Errno::NOSYS.raw_os_error() as u32);
    apply(clone3, SeccompAction::Allow, missing, arch)?;
    let refused = SeccompAction::Errno(Errno::PERM.raw_os_error() as u32);
    let allowed = rules().map_err(|error| error.to_string())?;
    apply(allowed, refused, SeccompAction::Allow, arch)
}

fn apply(
    rules: Rules,
    otherwise: SeccompAction,
    matched: SeccompAction,
    arch: TargetArch,
) -> Result<(), String> {
    let filter = SeccompFilter::new(rules, otherwise, matched, arch).map_err(|error| error.to_string())?;
    let program = BpfProgram::try_from(filter).map_err(|error| error.to_string())?;
    apply_filter_all_threads(&program).map_err(|error| error.to_string())
}

fn rules() -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = ALLOWED.iter().chain(ALLOWED_HERE).map(|call| (*call, Vec::new())).collect();
    rules.insert(libc::SYS_clone3, Vec::new());
    let is = |argument, value| one(argument, Compare::Eq, value);
    let no_code = |argument| one(argument, Compare::MaskedEq(EXECUTABLE), 0);
    rules.insert(libc::SYS_mmap, vec![no_code(2)?]);
    rules.insert(libc::SYS_mprotect, vec![no_code(2)?]);
    rules.insert(libc::SYS_clone, vec![one(0, Compare::MaskedEq(NEW_NAMESPACES | THREAD), THREAD)?]);
    let each =
        |argument, values: &[u64]| values.iter().map(|value| is(argument, *value)).collect::<Result<_, _>>();
    rules.insert(libc::SYS_prctl, each(0, &NAMES)?);
    rules.insert(libc::SYS_fcntl, each(1, &FILE_CONTROL.map(|command| command as u64))?);
    rules.insert(libc::SYS_ioctl, each(1, &DEVICE_CONTROL)?);
    // Of itself.
    rules.insert(libc::SYS_sched_setaffinity, vec![is(0, 0)?]);
    // A failed assertion of the C library ends this process.
    rules.insert(libc::SYS_tgkill, vec![is(0, std::process::id().into())?]);
    // Of itself, and only to read.
    rules.insert(libc::SYS_prlimit64, vec![both(is_condition(0, 0)?, is_condition(2, 0)?)?]);
    // fstat(2) is a form of this on newer C libraries: with an empty path.
    rules.insert(libc::SYS_newfstatat, vec![one(3, Compare::MaskedEq(EMPTY_PATH), EMPTY_PATH)?]);
    rules.insert(libc::SYS_statx, vec![one(2, Compare::MaskedEq(EMPTY_PATH), EMPTY_PATH)?]);
    Ok(rules)
}

const EMPTY_PATH: u64 = libc::AT_EMPTY_PATH as u64;

fn is_condition(argument: u8, value: u64) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, Width::Qword, Compare::Eq, value)
}

fn both(one: SeccompCondition, other: SeccompCondition) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(vec![one, other])
}

/// A rule of one condition.
fn one(argument: u8, compare: Compare, value: u64) -> Result<SeccompRule, seccompiler::BackendError> {
    // Flags and commands are 32 bits wide: what the caller leaves in the upper half counts for nothing.
    SeccompRule::new(vec![SeccompCondition::new(argument, Width::Dword, compare, value)?])
}
