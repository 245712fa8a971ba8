//! Commands that change nothing, because they fail or find nothing to do, leave the image as it was: each byte, its times, and a dirty log.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;
use uxfs_testkit::{
    golden::GoldenImage,
    image,
    judges::{Judge, judged},
    require,
    seeds::Seed,
    sparse::Contents,
    verdict,
};

use crate::common::{program, succeeds, text, uxfs};

/// A writer that opened the file and wrote leaves other times.
fn times(path: &Path) -> [i64; 4] {
    let metadata = fs::metadata(path).unwrap();
    [metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec()]
}

struct Subject {
    folder: TempDir,
    image: PathBuf,
    /// In the image: a file, its permissions, and a directory that is not empty.
    file: String,
    permissions: String,
    directory: String,
}

impl Subject {
    fn of(make: impl FnOnce(&Path)) -> Self {
        let folder = TempDir::with_prefix_in("uxfs-untouched-", image::memory_folder()).unwrap();
        let path = folder.path().join("image");
        make(&path);
        let found =
            succeeds(&["find", text(&path), "/", "-mindepth", "2", "-type", "f", "-printf", "%p %m\\n"]);
        let line = found.lines().find(|line| line.split(' ').count() == 2).unwrap();
        let (file, permissions) = line.split_once(' ').unwrap();
        let directory = file.rsplit_once('/').unwrap().0.to_owned();
        let (file, permissions) = (file.to_owned(), permissions.to_owned());
        Self { folder, image: path, file, permissions, directory }
    }

    /// Made and filled by uxfs.
    fn clean() -> Self {
        Self::of(|path| {
            image::make(path, 128 << 20, &[]).unwrap();
            succeeds(&["shell", text(path), "-c", "mkdir d; touch d/f; chmod 640 d/f"]);
        })
    }

    /// With a log that Linux left dirty.
    fn dirty() -> Self {
        Self::of(|path| GoldenImage::dirty_log().unpack_to(path).unwrap())
    }

    /// Whose counts of quotas are taken back when it is opened for changes.
    fn with_quotas() -> Self {
        let subject = Self::clean();
        let mut db = Judge::XfsDb.command();
        db.args(["-x", "-f", "-c", "sb 0", "-c", "write -d qflags 0x1c7"]).arg(&subject.image);
        assert!(db.output().unwrap().status.success());
        subject
    }

    /// Arguments that make commands fail, with the exit code and words of the message.
    fn failing(&self) -> Vec<(Vec<String>, i32, &'static str)> {
        let (file, directory) = (self.file.as_str(), self.directory.as_str());
        let below = &format!("{file}/x");
        let own = &format!("{directory}/below");
        let source = &format!("{}/source", text(self.folder.path()));
        fs::write(source, "contents").unwrap();
        let forms: &[(&str, &[&str], i32, &'static str)] = &[
            ("rm", &["/nope"], 1, "no such file"),
            ("rm", &["/nope", "/other"], 1, "no such file"),
            ("rm", &[directory], 1, "directory"),
            ("rm", &["-r", "/"], 1, "cannot be removed"),
            ("rm", &["/*.nothing"], 1, "no match"),
            ("rmdir", &["/nope"], 1, "no such file"),
            ("rmdir", &[file], 1, "not a directory"),
            ("rmdir", &[directory], 1, "not empty"),
            ("mv", &["/nope", "/x"], 1, "no such file"),
            ("mv", &[file, "/nope/x"], 1, "no such file"),
            ("mv", &[directory, own], 1, "below itself"),
            ("cp", &["/nope", "/x"], 1, "no such file"),
            ("cp", &[directory, "/x"], 1, "-r"),
            ("cp", &[file, "/nope/x"], 1, "no such file"),
            ("ln", &["/nope", "/x"], 1, "no such file"),
            ("ln", &["-s", "x", file], 1, "exists"),
            ("ln", &[directory, "/x"], 1, ""),
            ("chmod", &["600", "/nope"], 1, "no such file"),
            ("chmod", &["-R", "600", "/nope"], 1, "no such file"),
            ("chown", &["1", "/nope"], 1, "no such file"),
            ("touch", &["-r", "/nope", "/x"], 1, "no such file"),
            ("touch", &[below], 1, "not a directory"),
            ("touch", &["/nope/x"], 1, "no such file"),
            ("touch", &["-d", "nonsense", file], 2, "nonsense"),
            ("truncate", &["-s", "0", directory], 1, ""),
            ("truncate", &["-s", "0", "/nope/x"], 1, "no such file"),
            ("mknod", &[file, "p"], 1, "exists"),
            ("mkfifo", &[file], 1, "exists"),
            ("mkdir", &[directory], 1, "exists"),
            ("mkdir", &["/nope/x"], 1, "no such file"),
            ("mkdir", &["-p", below], 1, ""),
            ("setfattr", &["-n", "user.a", "-v", "b", "/nope"], 1, "no such file"),
            ("setfattr", &["-x", "user.none", file], 1, "no such attribute"),
            ("setfattr", &["-n", "nonsense", "-v", "b", file], 1, "no such kind of attribute"),
            ("put", &["/no/such/source", "/"], 1, "No such file"),
            ("put", &[source, "/nope/x"], 1, "no such file"),
            ("put", &["-r", "/no/such/source", "/"], 1, "No such file"),
            ("shell", &["-c", "cd /nope"], 1, "no such file"),
            ("shell", &["-c", "rm /nope; mkdir /x"], 1, "no such file"),
            ("shell", &["-k", "-c", "rm /nope; ls; rmdir /nope; put /no/such/source ."], 1, "no such file"),
            ("shell", &["--read-only", "-c", "mkdir /x"], 1, "--read-only"),
            ("shell", &["-c", "nonsense"], 2, "nonsense"),
            ("admin", &["--uuid", "nil"], 2, "nil"),
            ("admin", &["--label", "longer-than-twelve"], 2, "12 bytes"),
        ];
        forms.iter().map(|(command, rest, code, words)| (self.line(command, rest), *code, *words)).collect()
    }

    /// Arguments with which commands have nothing to do.
    fn idle(&self) -> Vec<Vec<String>> {
        let (file, directory) = (self.file.as_str(), self.directory.as_str());
        let same = format!("chmod {} '{file}'; rm -f /nope; touch -c /nope; sync; pwd", self.permissions);
        let forms: &[(&str, &[&str])] = &[
            ("rm", &["-f", "/nope"]),
            ("rm", &["-f"]),
            ("touch", &["-c", "/nope"]),
            ("touch", &["-h", "/nope"]),
            ("chmod", &[&self.permissions, file]),
            ("mkdir", &["-p", directory]),
            ("rmdir", &["--ignore-fail-on-non-empty", directory]),
            ("truncate", &["-c", "-s", "5", "/nope"]),
            ("mv", &["-n", file, directory]),
            ("shell", &["-c", ""]),
            ("shell", &["-c", "ls -lR; find / -name x; cd /; freespace"]),
            ("shell", &["-c", &same]),
            ("shell", &["--read-only", "-c", "ls"]),
            ("admin", &[]),
            ("ls", &["/"]),
        ];
        forms.iter().map(|(command, rest)| self.line(command, rest)).collect()
    }

    fn line(&self, command: &str, rest: &[&str]) -> Vec<String> {
        // Options stand in front of the image, as help shows them.
        let rest = rest.iter().map(ToString::to_string);
        [command.to_owned(), text(&self.image).to_owned()].into_iter().chain(rest).collect()
    }

    fn all_leave_it_alone(&self, name: &str) {
        let (before, bytes) = (times(&self.image), Contents::read(&self.image).unwrap());
        let failing = self.failing();
        for (line, code, words) in &failing {
            let arguments: Vec<&str> = line.iter().map(String::as_str).collect();
            let output = uxfs(&arguments);
            let told = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(*code), "{name} {line:?}: {told}");
            assert!(told.contains(words) && !told.contains("os error"), "{name} {line:?}: {told}");
            assert_eq!(times(&self.image), before, "{name} {line:?}");
        }
        let idle = self.idle();
        for line in &idle {
            let arguments: Vec<&str> = line.iter().map(String::as_str).collect();
            let output = uxfs(&arguments);
            let told = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(0), "{name} {line:?}: {told}");
            assert_eq!(times(&self.image), before, "{name} {line:?}");
        }
        assert!(Contents::read(&self.image).unwrap() == bytes, "{name}: every byte is as it was");
        judged("comparison", &format!("{name}: {} commands changed no byte", failing.len() + idle.len()));
        // The same image takes a change, whatever its log holds.
        succeeds(&["mkdir", text(&self.image), "/changed"]);
        assert!(Contents::read(&self.image).unwrap() != bytes);
        assert_ne!(times(&self.image), before);
        assert!(succeeds(&["ls", text(&self.image)]).contains("changed"));
    }
}

#[test]
fn a_clean_image_is_left_alone() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let subject = Subject::clean();
    subject.all_leave_it_alone("clean");
    verdict::repair_is_silent(&subject.image).unwrap();
}

#[test]
fn a_dirty_log_is_left_alone() {
    require!(Judge::XfsRepair);
    let subject = Subject::dirty();
    subject.all_leave_it_alone("dirty");
    verdict::repair_is_silent(&subject.image).unwrap();
}

#[test]
fn counts_of_quotas_are_left_alone() {
    require!(Judge::Mkfs, Judge::XfsDb);
    Subject::with_quotas().all_leave_it_alone("with quotas");
}

/// The first change of a dirty image comes behind its recovery, which is the same as that of `replay`.
#[test]
fn the_first_change_replays_the_log() {
    require!(Judge::XfsRepair);
    let (one, other) = (Subject::dirty(), Subject::dirty());
    for script in ["rm -f /nope; mkdir /first", "ls /; rm /nope; mkdir /first"] {
        uxfs(&["shell", "-k", text(&one.image), "-c", script]);
    }
    succeeds(&["replay", text(&other.image)]);
    succeeds(&["mkdir", text(&other.image), "/first"]);
    let list =
        |subject: &Subject| succeeds(&["find", text(&subject.image), "/", "-printf", "%i %m %s %n %p\\n"]);
    assert_eq!(list(&one), list(&other));
    verdict::repair_is_silent(&one.image).unwrap();
}

/// Killed at any moment, the first change of a dirty image leaves what recovery makes the same of, with the change or without it.
#[test]
fn a_killed_first_change_leaves_an_image_that_recovers() {
    require!(Judge::XfsRepair);
    const ROUNDS: u64 = 16;
    let list = |subject: &Subject| {
        let list = succeeds(&["find", text(&subject.image), "/", "-printf", "%i %m %s %n %p\\n"]);
        let (new, old): (Vec<&str>, Vec<&str>) = list.lines().partition(|line| line.ends_with(" /first"));
        (new.len(), old[1..].join("\n"))
    };
    let whole = list(&Subject::dirty());
    let mut random = Seed::from_environment("a_killed_first_change", 7).random();
    let (mut with, mut dirty) = (0, 0);
    for round in 0..ROUNDS {
        let subject = Subject::dirty();
        let before = Contents::read(&subject.image).unwrap();
        let mut command = Command::new(program());
        let mut child = command.args(["mkdir", text(&subject.image), "/first"]).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_micros(random.below(80_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        dirty += u64::from(Contents::read(&subject.image).unwrap() != before);
        succeeds(&["replay", text(&subject.image)]);
        verdict::repair_is_silent(&subject.image).unwrap();
        let (new, old) = list(&subject);
        assert!(old == whole.1 && new <= 1, "round {round}");
        with += new;
    }
    judged("xfs_repair", &format!("{ROUNDS} kills: {dirty} images were written to, {with} have the change"));
}
