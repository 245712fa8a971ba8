//! What a confined process must not be able to do. Each gives an error if it cannot.
#![allow(unsafe_code)]

use std::{
    ffi::CString,
    fs::{self, File},
    io::{Error, Result},
    net::{TcpListener, TcpStream},
    os::unix::{ffi::OsStrExt, fs::PermissionsExt, net::UnixStream},
    path::Path,
    process::Command,
};

type Act = fn(other: &Path, image: &Path) -> Result<()>;

/// A system call.
fn call(number: i64, arguments: [usize; 6]) -> Result<()> {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: where an act gives memory, it owns that until the call returns.
    match unsafe { libc::syscall(number, a, b, c, d, e, f) } {
        0.. => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

fn parent() -> usize {
    std::os::unix::process::parent_id() as usize
}

/// Maps memory.
fn map(length_bytes: usize, protection: i32) -> Result<()> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    call(libc::SYS_mmap, [0, length_bytes, protection as usize, flags as usize, usize::MAX, 0])
}

/// Names and acts.
pub const ACTS: &[(&str, Act)] = &[
    ("read a file of the host", |other, _| fs::read(other).map(drop)),
    ("read the list of users", |_, _| fs::read("/etc/passwd").map(drop)),
    ("write a file of the host", |other, _| fs::write(other, b"spoilt")),
    ("make a file", |other, _| File::create(other.with_extension("new")).map(drop)),
    ("remove a file", |other, _| fs::remove_file(other)),
    ("rename a file", |other, _| fs::rename(other, other.with_extension("moved"))),
    ("link a file", |other, _| fs::hard_link(other, other.with_extension("linked"))),
    ("cut a file off", |other, _| {
        let path = CString::new(other.as_os_str().as_bytes())?;
        call(libc::SYS_truncate, [path.as_ptr() as usize, 0, 0, 0, 0, 0])
    }),
    ("change the mode of a file", |other, _| fs::set_permissions(other, fs::Permissions::from_mode(0o777))),
    ("list a directory", |_, _| fs::read_dir("/").map(drop)),
    ("make a directory", |other, _| fs::create_dir(other.with_extension("directory"))),
    ("open the image again", |_, image| File::open(image).map(drop)),
    ("open the device of another mount", |_, _| File::open("/dev/fuse").map(drop)),
    ("start a program", |_, _| Command::new("/bin/true").status().map(drop)),
    ("become another program", |_, _| {
        let arguments = [c"/bin/true".as_ptr() as usize, 0];
        call(libc::SYS_execve, [arguments[0], arguments.as_ptr() as usize, 0, 0, 0, 0])
    }),
    ("have a child", |_, _| call(libc::SYS_clone, [libc::SIGCHLD as usize, 0, 0, 0, 0, 0])),
    ("connect to a host", |_, _| TcpStream::connect("127.0.0.1:9").map(drop)),
    ("listen to the network", |_, _| TcpListener::bind("127.0.0.1:0").map(drop)),
    ("talk to other processes", |_, _| UnixStream::pair().map(drop)),
    ("signal its parent", |_, _| call(libc::SYS_kill, [parent(), 0, 0, 0, 0, 0])),
    ("trace its parent", |_, _| call(libc::SYS_ptrace, [libc::PTRACE_SEIZE as usize, parent(), 0, 0, 0, 0])),
    ("read the memory of its parent", |_, _| call(libc::SYS_process_vm_readv, [parent(), 0, 0, 0, 0, 0])),
    ("mount", |_, _| {
        let (root, flags) = (c"/".as_ptr() as usize, libc::MS_BIND as usize);
        call(libc::SYS_mount, [root, root, 0, flags, 0, 0])
    }),
    ("change its root", |_, _| call(libc::SYS_chroot, [c"/".as_ptr() as usize, 0, 0, 0, 0, 0])),
    ("become root", |_, _| call(libc::SYS_setresuid, [0; 6])),
    ("have a namespace", |_, _| call(libc::SYS_unshare, [libc::CLONE_NEWUSER as usize, 0, 0, 0, 0, 0])),
    ("run code that it wrote", |_, _| map(4096, libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC)),
    ("take all memory", |_, _| map(1 << 40, libc::PROT_READ)),
    ("have a file in memory", |_, _| {
        call(libc::SYS_memfd_create, [c"name".as_ptr() as usize, 0, 0, 0, 0, 0])
    }),
    ("have a ring", |_, _| {
        let mut parameters = [0_u8; 120];
        call(libc::SYS_io_uring_setup, [1, parameters.as_mut_ptr() as usize, 0, 0, 0, 0])
    }),
    ("raise its limits", |_, _| {
        let most = [u64::MAX; 2];
        call(libc::SYS_prlimit64, [0, libc::RLIMIT_AS as usize, most.as_ptr() as usize, 0, 0, 0])
    }),
    ("load a program into the kernel", |_, _| call(libc::SYS_bpf, [0; 6])),
    ("type into its terminal", |_, _| {
        call(libc::SYS_ioctl, [0, libc::TIOCSTI as usize, c"x".as_ptr() as usize, 0, 0, 0])
    }),
    ("drop its filter", |_, _| call(libc::SYS_prctl, [libc::PR_SET_SECCOMP as usize, 0, 0, 0, 0, 0])),
];
