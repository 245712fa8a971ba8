//! Ctrl-C and SIGTERM: a sentence about the remains, no file that is half made, and the process ends by the signal.

use std::{
    fs,
    io::Write,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::common;
use crate::common::program;

const PATIENCE: Duration = Duration::from_secs(60);

/// A command that waits for more input behind what it has got.
struct Waiting {
    child: Child,
    _input: ChildStdin,
}

impl Waiting {
    fn start(arguments: &[&str], input: &[u8]) -> Self {
        // What runs in the background of a script ignores SIGINT, and so does what it starts: uxfs then does, too.
        let mut command = Command::new("env");
        command.args(["--default-signal=INT,TERM", program()]);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input).unwrap();
        Self { child, _input: stdin }
    }

    /// Waits until the command has read all its input and sleeps.
    fn reads_on(&self) {
        let begun = Instant::now();
        let id = self.child.id();
        let is_asleep = |task: &Path| {
            let waits = fs::read_to_string(task.join("syscall")).unwrap_or_default();
            // `read` or `readv` of the descriptor 0, by their numbers on x86-64 and aarch64.
            ["0 0x0 ", "19 0x0 ", "63 0x0 ", "65 0x0 "].iter().any(|start| waits.starts_with(start))
        };
        loop {
            let tasks = fs::read_dir(format!("/proc/{id}/task")).unwrap();
            if tasks.flatten().any(|task| is_asleep(&task.path())) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "the command does not read its input");
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn end(self, signal: Signal) -> String {
        self.reads_on();
        // As timeout(1) does: to the process, and to the group that it is in.
        for _ in 0..2 {
            kill_process(Pid::from_child(&self.child), signal).unwrap();
        }
        let Self { child, _input } = self;
        let output = child.wait_with_output().unwrap();
        let words = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.signal(), Some(signal.as_raw()), "{words}");
        words
    }
}

fn tar_of_one_file(folder: &Path) -> Vec<u8> {
    fs::write(folder.join("file"), vec![7; 300_000]).unwrap();
    let output = Command::new("tar").arg("-C").arg(folder).args(["-cf", "-", "file"]).output().unwrap();
    assert!(output.status.success());
    output.stdout
}

#[test]
fn a_new_image_is_removed_and_another_file_stays() {
    let folder = tempfile::tempdir().unwrap();
    let archive = tar_of_one_file(folder.path());
    let image = folder.path().join("image");
    for signal in [Signal::INT, Signal::TERM] {
        for is_there in [false, true] {
            let _ = fs::remove_file(&image);
            if is_there {
                fs::write(&image, b"").unwrap();
            }
            let arguments = ["mkfs", "--size", "300M", "--from", "-", image.to_str().unwrap()];
            let words = Waiting::start(&arguments, &archive[..200_000]).end(signal);
            assert_eq!(words.lines().count(), 1, "{words}");
            assert!(words.starts_with("uxfs: interrupted: ") && words.contains("image"), "{words}");
            assert_eq!(words.contains("has been removed"), !is_there, "{words}");
            assert_eq!(image.exists(), is_there);
        }
    }
}

#[test]
fn a_file_that_took_the_place_of_the_image_stays() {
    let folder = tempfile::tempdir().unwrap();
    let archive = tar_of_one_file(folder.path());
    let image = folder.path().join("image");
    let arguments = ["mkfs", "--size", "300M", "--from", "-", image.to_str().unwrap()];
    let waiting = Waiting::start(&arguments, &archive[..200_000]);
    waiting.reads_on();
    fs::rename(&image, folder.path().join("elsewhere")).unwrap();
    fs::write(&image, b"of another program").unwrap();
    let words = waiting.end(Signal::INT);
    assert!(!words.contains("removed"), "{words}");
    assert_eq!(fs::read(&image).unwrap(), b"of another program");
}

#[test]
fn a_restored_dump_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    common::succeeds(&["mkfs", "--size", "300M", &path("image")]);
    common::succeeds(&["metadump", &path("image"), &path("dump")]);
    let dump = fs::read(path("dump")).unwrap();
    let words = Waiting::start(&["mdrestore", "-", &path("new")], &dump[..dump.len() - 600]).end(Signal::INT);
    assert!(words.contains("new") && words.contains("has been removed"), "{words}");
    assert!(!Path::new(&path("new")).exists());
    fs::write(path("there"), vec![0; 300 << 20]).unwrap();
    let arguments = ["mdrestore", "-f", "-", &path("there")];
    let words = Waiting::start(&arguments, &dump[..dump.len() - 600]).end(Signal::TERM);
    assert!(words.contains("no file system"), "{words}");
    assert!(Path::new(&path("there")).exists());
}

#[test]
fn an_edit_leaves_what_was_done_before() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    let image = image.to_str().unwrap();
    common::succeeds(&["mkfs", "--size", "300M", image]);
    let waiting = Waiting::start(&["put", image, "-", "/file"], &[1; 3 << 20]);
    let words = waiting.end(Signal::INT);
    assert!(words.starts_with("uxfs: interrupted: ") && words.contains("replays its log"), "{words}");
    common::succeeds(&["check", image]);
    assert_eq!(common::succeeds(&["ls", image]), "");
    // With `--json` the sentence is a document.
    let waiting = Waiting::start(&["put", "--json", image, "-", "/file"], &[1; 3 << 20]);
    let words = waiting.end(Signal::TERM);
    let document: serde_json::Value = serde_json::from_str(words.trim_end()).unwrap();
    assert!(document["notice"]["message"].as_str().unwrap().starts_with("interrupted: "), "{words}");
}
