//! A shell that looks: what it sees of others' changes, whom it keeps away, and what it says of images that it cannot change.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio},
};

use tempfile::TempDir;
use uxfs_testkit::{
    image,
    judges::Judge,
    loop_device::LoopDevice,
    mount::{Access, LoopMount},
    require,
    sparse::Contents,
    verdict,
};

use crate::common::{host, program, succeeds, text, uxfs};

fn new_image() -> (TempDir, PathBuf) {
    let folder = TempDir::with_prefix_in("uxfs-looking-", image::memory_folder()).unwrap();
    let path = folder.path().join("image");
    succeeds(&["mkfs", "-q", "--size", "300M", text(&path)]);
    succeeds(&["shell", text(&path), "-c", "mkdir -p d/e; touch d/f"]);
    (folder, path)
}

/// A shell that gets its commands one by one.
struct Shell {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    errors: BufReader<ChildStderr>,
}

impl Shell {
    fn open(image: &Path, options: &[&str]) -> Self {
        let mut command = Command::new(program());
        command.arg("shell").args(options).arg("-k").arg(image);
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = pipes.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let errors = BufReader::new(child.stderr.take().unwrap());
        Self { child, input, output, errors }
    }

    /// What a command prints.
    fn says(&mut self, command: &str) -> String {
        // `lcd` tells when the command has ended.
        writeln!(self.input, "{command}\nlcd").unwrap();
        let end = format!("{}\n", std::env::current_dir().unwrap().display());
        let mut lines = String::new();
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "{command}: {lines}");
            if line == end {
                return lines;
            }
            lines += &line;
        }
    }

    fn complains(&mut self, command: &str, words: &str) {
        assert_eq!(self.says(command), "", "{command}");
        let mut line = String::new();
        self.errors.read_line(&mut line).unwrap();
        assert!(line.contains(words), "{command}: {line}");
    }

    fn ends(self) -> Option<i32> {
        let Self { mut child, input, .. } = self;
        drop(input);
        child.wait().unwrap().code()
    }
}

#[test]
fn a_shell_that_waits_keeps_no_writer_away_and_sees_what_it_wrote() {
    require!(Judge::XfsRepair);
    let (_folder, image) = new_image();
    let mut shell = Shell::open(&image, &[]);
    assert_eq!(shell.says("ls"), "d\n");
    assert_eq!(shell.says("cd d/e"), "");
    for round in 0..20 {
        succeeds(&["mkdir", text(&image), &format!("/d/e/new-{round}")]);
        assert_eq!(shell.says("ls").lines().count(), round + 1, "{round}");
        assert_eq!(shell.says("pwd"), "/d/e\n");
    }
    // The directory of the shell goes, and comes again as another one.
    succeeds(&["rm", "-r", text(&image), "/d"]);
    shell.complains("ls", "no such file");
    shell.complains("mkdir x", "no such file");
    succeeds(&["mkdir", "-p", text(&image), "/d/e/again"]);
    assert_eq!(shell.says("ls"), "again\n");
    // It changes something: it is alone from now on.
    assert_eq!(shell.says("mkdir mine"), "");
    assert_eq!(shell.says("ls"), "again\nmine\n");
    for other in [&["mkdir", text(&image), "/x"][..], &["ls", text(&image)]] {
        let output = uxfs(other);
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && words.contains("another program"), "{words}");
    }
    assert_eq!(shell.ends(), Some(1), "of the complaints");
    assert_eq!(succeeds(&["ls", text(&image), "/d/e"]), "again\nmine\n");
    verdict::repair_is_silent(&image).unwrap();
}

#[test]
fn one_of_two_shells_changes_the_image() {
    require!(Judge::XfsRepair);
    let (_folder, image) = new_image();
    let (mut one, mut other) = (Shell::open(&image, &[]), Shell::open(&image, &[]));
    assert_eq!((one.says("ls"), other.says("ls")), ("d\n".to_owned(), "d\n".to_owned()));
    // A command that finds nothing to change keeps no one away for longer than itself.
    one.complains("rm /nope", "no such file");
    other.complains("rm /nope", "no such file");
    assert_eq!(one.says("mkdir of-one"), "");
    other.complains("ls", "another program is changing it");
    other.complains("mkdir of-other", "another program is changing it");
    assert_eq!(one.ends(), Some(1));
    assert_eq!(other.says("ls"), "d\nof-one\n");
    assert_eq!(other.says("mkdir of-other; sync"), "");
    assert_eq!(succeeds(&["ls", "--no-lock", text(&image)]), "d\nof-one\nof-other\n", "after sync");
    assert_eq!(other.ends(), Some(1));
    verdict::repair_is_silent(&image).unwrap();
}

#[test]
fn an_image_that_cannot_be_changed_is_shown() {
    require!(Judge::Mkfs);
    let (folder, image) = new_image();
    // Compressed.
    let packed = folder.path().join("packed.zst");
    host("zstd", &["-q", text(&image), "-o", text(&packed)]);
    let mut shell = Shell::open(&packed, &[]);
    assert_eq!(shell.says("ls /d"), "e\nf\n");
    shell.complains("mkdir x", "compressed");
    assert_eq!(shell.says("ls /d"), "e\nf\n");
    assert_eq!(shell.ends(), Some(1));
    // On a device that takes no writes.
    let device = LoopDevice::attach(&image, &["-r"]).unwrap();
    let mut shell = Shell::open(device.path(), &[]);
    assert_eq!(shell.says("ls /d"), "e\nf\n");
    shell.complains("mkdir x", "write-protected");
    assert_eq!(shell.says("cd d; ls"), "e\nf\n");
    assert_eq!(shell.ends(), Some(1));
    // As one was told.
    let before = Contents::read(&image).unwrap();
    let mut shell = Shell::open(&image, &["--read-only"]);
    assert_eq!(shell.says("ls d"), "e\nf\n");
    for command in ["mkdir x", "rm -f /nope", "touch d/f", "put /etc/hostname ."] {
        shell.complains(command, "--read-only");
    }
    assert_eq!(shell.ends(), Some(1));
    assert!(Contents::read(&image).unwrap() == before);
}

#[test]
fn a_mounted_image_is_shown_with_a_word() {
    require!(Judge::Mkfs, Judge::Kernel);
    let (_folder, image) = new_image();
    let mount = LoopMount::new(&image, Access::ReadWrite).unwrap();
    let mut shell = Shell::open(&image, &[]);
    assert_eq!(shell.says("ls /d"), "e\nf\n");
    let mut line = String::new();
    shell.errors.read_line(&mut line).unwrap();
    assert!(line.contains("may be in change"), "{line}");
    shell.complains("mkdir x", "it is mounted at");
    fs::create_dir(mount.join("d/by-linux")).unwrap();
    host("sync", &["-f", text(mount.path())]);
    assert_eq!(shell.says("ls /d"), "by-linux\ne\nf\n");
    mount.unmount().unwrap();
    assert_eq!(shell.says("mkdir /d/mine; ls /d"), "by-linux\ne\nf\nmine\n");
    assert_eq!(shell.ends(), Some(1));
    verdict::repair_is_silent(&image).unwrap();
}

#[test]
fn an_image_that_uxfs_mounts_is_shown_with_one_word() {
    let (folder, image) = new_image();
    let directory = folder.path().join("mount");
    fs::create_dir(&directory).unwrap();
    succeeds(&["mount", text(&image), text(&directory)]);
    let mut shell = Shell::open(&image, &[]);
    assert_eq!(shell.says("ls /d"), "e\nf\n");
    assert_eq!(shell.says("cd d; ls"), "e\nf\n");
    let mut line = String::new();
    shell.errors.read_line(&mut line).unwrap();
    assert!(line.contains("is mounted on") && line.contains("may be in change"), "{line}");
    shell.complains("mkdir x", "uxfs umount");
    assert_eq!(shell.says("ls"), "e\nf\n");
    succeeds(&["umount", text(&directory)]);
    assert_eq!(shell.says("mkdir x; ls"), "e\nf\nx\n");
    assert_eq!(shell.ends(), Some(1));
}
