//! A confined process serves what it holds open, and can do none of the things that code from a hostile image would try.
//!
//! This test has a main function of its own: a process can be confined only while it has one thread, and the usual one has two.
#![allow(clippy::unwrap_used, clippy::panic)]

mod acts;

use std::{
    env,
    fs::{self, File},
    io::Write,
    os::{
        fd::AsRawFd,
        unix::{fs::FileExt, process::CommandExt},
    },
    process::{Command, ExitCode},
    thread,
};

use uxfs_fuse::confinement::{self, Paths};

/// The number of the descriptor that the confined process holds.
const HELD: &str = "UXFS_CONFINED_HOLDS";
/// A file that it must not touch.
const OTHER: &str = "UXFS_CONFINED_MUST_NOT_TOUCH";
/// More than serving maps, and less than a process could.
const ADDRESS_SPACE_BYTES: u64 = 16 << 30;

fn main() -> ExitCode {
    match env::var(HELD) {
        Ok(held) => confined(held.parse().unwrap()),
        Err(_) => test(),
    }
}

/// Starts a confined process as root and as an ordinary user, and reads what it could do.
fn test() -> ExitCode {
    // cargo lists tests of each binary.
    if env::args().any(|argument| argument == "--list") {
        println!("a_confined_process_can_only_serve: test");
        return ExitCode::SUCCESS;
    }
    let mut is_well = true;
    let users: &[Option<u32>] =
        if rustix::process::geteuid().is_root() { &[None, Some(4321)] } else { &[None] };
    for user in users {
        let folder = tempfile::tempdir().unwrap();
        let (image, other) = (folder.path().join("image"), folder.path().join("other"));
        fs::write(&image, b"image").unwrap();
        fs::write(&other, b"other").unwrap();
        let program = folder.path().join("program");
        fs::copy(env::current_exe().unwrap(), &program).unwrap();
        let held = File::options().read(true).write(true).open(&image).unwrap();
        if user.is_some() {
            Command::new("chmod").args(["-R", "a+rwX"]).arg(folder.path()).status().unwrap();
        }
        rustix::io::fcntl_setfd(&held, rustix::io::FdFlags::empty()).unwrap();
        let mut command = Command::new(&program);
        command.env(HELD, held.as_raw_fd().to_string()).env(OTHER, &other);
        if let Some(user) = user {
            command.uid(*user).gid(*user);
        }
        let output = command.output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        let refused = told.lines().filter(|line| line.starts_with("refused ")).count();
        let is_whole = output.status.success() && refused == acts::ACTS.len() && refused >= 20;
        let is_untouched = fs::read(&other).unwrap() == b"other" && fs::read(&image).unwrap() == b"served";
        if !is_whole || !is_untouched {
            let errors = String::from_utf8_lossy(&output.stderr);
            println!(
                "user {user:?}: {}, {refused} refused, untouched {is_untouched}\n{told}{errors}",
                output.status
            );
            is_well = false;
        }
    }
    println!("test a_confined_process_can_only_serve ... {}", if is_well { "ok" } else { "FAILED" });
    if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The process that is confined.
fn confined(held: i32) -> ExitCode {
    let other = env::var_os(OTHER).unwrap();
    let image = fs::read_link(format!("/proc/self/fd/{held}")).unwrap();
    let held_file = File::options().read(true).write(true).open(format!("/proc/self/fd/{held}")).unwrap();
    let confined = confinement::confine(ADDRESS_SPACE_BYTES).unwrap();
    let mut is_well = confined.paths != Paths::None;
    let mut out = std::io::stdout();
    for (name, act) in acts::ACTS {
        let outcome = act(other.as_ref(), &image);
        is_well &= outcome.is_err();
        let _ = match outcome {
            Ok(()) => writeln!(out, "DONE {name}"),
            Err(error) => writeln!(out, "refused {name}: {error}"),
        };
    }
    // Serving goes on: the image, memory, threads, time.
    let mut bytes = [0; 5];
    held_file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"image");
    held_file.write_all_at(b"served", 0).unwrap();
    held_file.sync_all().unwrap();
    let memory: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| vec![1_u8; 8 << 20].len())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(memory, 32 << 20);
    assert!(std::time::Instant::now().elapsed().as_secs() < 60);
    if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
