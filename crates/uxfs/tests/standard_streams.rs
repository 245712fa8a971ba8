//! Standard output and standard error that are closed, full or were never there: the work is done all the same.

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use tempfile::TempDir;
use uxfs_testkit::{golden::GoldenImage, judges::Judge, require, verdict::repair_is_silent};

use crate::common::{program, succeeds, text};

/// What is behind a standard stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// A pipe from which no process reads any more.
    ClosedPipe,
    /// A disk without space.
    Full,
}

const ENDS: [End; 2] = [End::ClosedPipe, End::Full];

impl End {
    fn open(self) -> Stdio {
        match self {
            Self::ClosedPipe => {
                let (reader, writer) = io::pipe().unwrap();
                drop(reader);
                writer.into()
            }
            Self::Full => OpenOptions::new().write(true).open("/dev/full").unwrap().into(),
        }
    }

    /// The exit code of work that is done, where standard output is this.
    fn exit(self) -> i32 {
        i32::from(self == Self::Full)
    }
}

struct Place {
    folder: TempDir,
    image: PathBuf,
    tree: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (image, tree) = (folder.path().join("image"), folder.path().join("tree"));
        fs::create_dir_all(tree.join("folder")).unwrap();
        // More lines than a pipe or buffer holds back.
        for number in 0..3000 {
            fs::write(tree.join(format!("folder/{number:0>100}")), format!("{number}")).unwrap();
        }
        succeeds(&["mkfs", "-q", "--size", "300M", text(&image)]);
        Self { folder, image, tree }
    }

    fn names(&self, path: &str) -> usize {
        succeeds(&["ls", text(&self.image), path]).lines().count()
    }
}

fn run(arguments: &[&str], stdout: Stdio, stderr: Stdio) -> (i32, String) {
    let mut command = Command::new(program());
    let child = command.args(arguments).stdin(Stdio::null()).stdout(stdout).stderr(stderr).spawn().unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn an_edit_is_done_whatever_becomes_of_its_words() {
    require!(Judge::XfsRepair);
    for end in ENDS {
        let place = Place::new();
        let (image, tree) = (text(&place.image), text(&place.tree));
        // Each file is reported on standard output, and a missing one on standard error.
        let put = ["put", "-r", "-v", image, "/no/such/file", tree, "/"];
        assert_eq!(run(&put, end.open(), end.open()).0, 1, "{end:?}");
        assert_eq!(place.names("/tree/folder"), 3000, "{end:?}");
        // Only the output of work that went well.
        let chmod = ["chmod", "-R", "-v", image, "u=rwX,go=", "/tree"];
        let (exit, words) = run(&chmod, end.open(), Stdio::piped());
        assert_eq!(exit, end.exit(), "{end:?}: {words}");
        assert!(end == End::ClosedPipe || words.contains("No space left on device"), "{words}");
        let listed = succeeds(&["ls", "-l", image, "/tree/folder"]);
        // The first line is the sum.
        assert!(listed.lines().skip(1).all(|line| line.starts_with("-rw-------")), "{end:?}");
        // Each complaint of many.
        let rm = ["rm", "--json", image, "/tree/folder/1", "/tree/folder/2", "/tree"];
        assert_eq!(run(&rm, end.open(), end.open()).0, 1);
        repair_is_silent(&place.image).unwrap();
    }
}

#[test]
fn a_script_goes_on() {
    for end in ENDS {
        let place = Place::new();
        let (image, tree) = (text(&place.image), text(&place.tree));
        let script = format!("put -rv {tree} /; mkdir /after");
        let (exit, _) = run(&["shell", "--keep-going", image, "-c", &script], end.open(), end.open());
        assert_eq!(exit, end.exit(), "{end:?}");
        let script = "cat /nothing; help; mkdir /last";
        let (exit, _) = run(&["shell", "-k", image, "-c", script], end.open(), end.open());
        assert_eq!(exit, 1, "{end:?}");
        assert_eq!(place.names("/tree/folder"), 3000);
        assert_eq!(succeeds(&["ls", image]), "after\nlast\ntree\n");
    }
}

#[test]
fn a_file_system_is_made_whole() {
    require!(Judge::XfsRepair);
    let place = Place::new();
    for end in ENDS {
        for (number, options) in [&[][..], &["--json"], &["--from", text(&place.tree)]].iter().enumerate() {
            let image = place.folder.path().join(format!("{end:?}-{number}"));
            let mut arguments = vec!["mkfs", "--size", "300M"];
            arguments.extend_from_slice(options);
            arguments.push(text(&image));
            let (exit, words) = run(&arguments, end.open(), Stdio::piped());
            assert_eq!(exit, end.exit(), "{end:?} {options:?}: {words}");
            repair_is_silent(&image).unwrap();
            // A message of its own: the log of so small a data section.
            fs::remove_file(&image).unwrap();
            arguments.insert(1, "--unsupported");
            let (exit, _) = run(&arguments, Stdio::null(), end.open());
            assert_eq!(exit, 0, "{end:?} {options:?}");
            repair_is_silent(&image).unwrap();
        }
    }
}

#[test]
fn a_log_is_replayed() {
    require!(Judge::XfsRepair);
    for end in ENDS {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        GoldenImage::dirty_log().unpack_to(&image).unwrap();
        let (exit, words) = run(&["replay", "--list", text(&image)], end.open(), Stdio::piped());
        assert_eq!(exit, end.exit(), "{end:?}: {words}");
        let (exit, words) = run(&["replay", text(&image)], end.open(), Stdio::piped());
        assert_eq!(exit, end.exit(), "{end:?}: {words}");
        assert_eq!(succeeds(&["replay", text(&image)]), "the log is clean: nothing to do\n");
        repair_is_silent(&image).unwrap();
    }
}

#[test]
fn a_workload_leaves_a_closed_image() {
    require!(Judge::XfsRepair);
    for end in ENDS {
        for mode in ["delayed", "bulk"] {
            let folder = tempfile::tempdir().unwrap();
            let image = folder.path().join("image");
            let bench = [
                "bench",
                "fsmark",
                "--image",
                text(&image),
                "--size",
                "300M",
                "--log-mode",
                mode,
                "-n",
                "100",
                "-s",
                "0",
            ];
            let (exit, words) = run(&bench, end.open(), Stdio::piped());
            assert_eq!(exit, end.exit(), "{end:?} {mode}: {words}");
            repair_is_silent(&image).unwrap();
        }
    }
}

#[test]
fn files_are_copied_out() {
    let place = Place::new();
    let (image, tree) = (text(&place.image), text(&place.tree));
    succeeds(&["put", "-r", image, tree, "/"]);
    for end in ENDS {
        let target = place.folder.path().join(format!("out-{end:?}"));
        // A file that exists already cannot be restored, which is reported.
        fs::create_dir_all(target.join("tree/folder")).unwrap();
        fs::write(target.join(format!("tree/folder/{:0>100}", 7)), "mine").unwrap();
        let extract = ["extract", "--json", image, "/tree", "--to", text(&target)];
        assert_eq!(run(&extract, end.open(), end.open()).0, 1, "{end:?}");
        assert_eq!(fs::read_dir(target.join("tree/folder")).unwrap().count(), 3000);
        let extract = ["extract", image, "/tree", "--to", text(&target)];
        assert_eq!(run(&extract, end.open(), end.open()).0, 1, "{end:?}");
        let archives: [&[&str]; 3] = [
            &["extract", image, "--tar", "-"],
            &["extract", "--json", image, "--tar", "-"],
            &["rescue", image, "--tar", "-"],
        ];
        for archive in archives {
            let (exit, words) = run(archive, end.open(), Stdio::piped());
            assert_eq!(exit, end.exit(), "{end:?} {archive:?}: {words}");
            let is_told = words.contains("cannot write archive: No space left on device");
            assert_eq!((is_told, words.is_empty()), (end == End::Full, end == End::ClosedPipe), "{words}");
        }
    }
}

/// As with `| head`: a reader that has gone is no failure, a full disk is one.
#[test]
fn commands_that_print_end() {
    let place = Place::new();
    let (image, tree) = (text(&place.image), text(&place.tree));
    succeeds(&["put", "-r", image, tree, "/"]);
    let file = format!("/tree/folder/{:0>100}", 7);
    let commands: [&[&str]; 25] = [
        &["ls", "-lR", image],
        &["ls", "--json", image, "/tree/folder"],
        &["tree", image],
        &["find", image],
        &["find", "--json", image, "-size", "+0"],
        &["du", "-a", image],
        &["df", image],
        &["stat", image, "/tree"],
        &["stat", "--json", image, "/tree"],
        &["cat", image, &file],
        &["get", image, &file, "-"],
        &["map", image, &file],
        &["freespace", image],
        &["parents", image, &file],
        &["inodes", image],
        &["inodes", "--count", image],
        &["info", image],
        &["admin", image],
        &["admin", "--label", "new", image],
        &["inspect", image, "sb", "0"],
        &["inspect", image, "log"],
        &["mkfs", "-N", "--size", "300M", "/nothing"],
        &["--help"],
        &["ls", "--help"],
        &["--version"],
    ];
    for end in ENDS {
        for command in commands {
            let (exit, words) = run(command, end.open(), Stdio::piped());
            assert_eq!(exit, end.exit(), "{end:?} {command:?}: {words}");
            assert!(
                end == End::ClosedPipe || words.contains("No space left on device"),
                "{command:?}: {words}"
            );
            assert!(end == End::Full || words.is_empty(), "{command:?}: {words}");
            let (exit, _) = run(command, end.open(), end.open());
            assert_eq!(exit, end.exit(), "{end:?} {command:?}");
        }
        let (exit, _) = run(&["ls"], end.open(), end.open());
        assert_eq!(exit, 2, "{end:?}");
        let (exit, _) = run(&["ls", "/no/such/image"], end.open(), end.open());
        assert_eq!(exit, 1, "{end:?}");
    }
}

/// The image must not get a number under which something is printed.
#[test]
fn streams_that_are_closed_from_the_start_do_not_reach_the_image() {
    require!(Judge::XfsRepair);
    for closed in ["<&-", ">&-", "2>&-", "<&- >&-", ">&- 2>&-", "<&- >&- 2>&-"] {
        let place = Place::new();
        let uxfs = program();
        let shell = |arguments: &[&str]| {
            let script = format!("exec \"$@\" {closed}");
            let mut command = Command::new("sh");
            command.args(["-c", &script, "sh", uxfs]).args(arguments);
            let discard = || Stdio::from(File::create("/dev/null").unwrap());
            command.stdout(discard()).stderr(discard()).status().unwrap().code().unwrap()
        };
        let (image, tree) = (text(&place.image), text(&place.tree));
        assert_eq!(shell(&["put", "-rv", image, "/no/such/file", tree, "/"]), 1, "{closed}");
        assert_eq!(place.names("/tree/folder"), 3000, "{closed}");
        assert_eq!(shell(&["admin", "--label", "new", image]), 0, "{closed}");
        assert_eq!(shell(&["ls", "-lR", image]), 0, "{closed}");
        repair_is_silent(&place.image).unwrap();
        assert!(Path::new(image).exists());
        fs::remove_file(image).unwrap();
        assert_eq!(shell(&["mkfs", "--size", "300M", image]), 0, "{closed}");
        repair_is_silent(&place.image).unwrap();
        // The archive would go nowhere.
        let is_lost = closed.split(' ').any(|stream| stream == ">&-");
        assert_eq!(shell(&["extract", image, "--tar", "-"]), i32::from(is_lost), "{closed}");
    }
}

/// Of these commands the result is what they print: where standard output is closed nothing comes out. `/dev/null` is meant.
#[test]
fn a_result_that_would_go_nowhere_is_an_error() {
    let place = Place::new();
    let (image, tree) = (text(&place.image), text(&place.tree));
    succeeds(&["put", "-r", image, tree, "/"]);
    let file = format!("/tree/folder/{:0>100}", 7);
    let commands: [&[&str]; 7] = [
        &["cat", image, &file],
        &["check", "--html", "/dev/stdout", image],
        &["get", image, &file, "-"],
        &["shell", image, "-c", "cat /tree/folder/*7"],
        &["extract", image, "--tar", "-"],
        &["rescue", image, "--tar", "-"],
        &["metadump", image, "-"],
    ];
    for command in &commands {
        let mut closed = Command::new("sh");
        closed.args(["-c", "exec \"$@\" >&-", "sh", program()]).args(*command);
        let output = closed.output().unwrap();
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{command:?}: {words}");
        assert!(words.contains("standard output is closed"), "{command:?}: {words}");
        if command[0] != "shell" {
            // Opened for both, as some programs do.
            let nowhere = OpenOptions::new().read(true).write(true).open("/dev/null").unwrap();
            assert_eq!(run(command, nowhere.into(), Stdio::piped()).0, 0, "{command:?}");
        }
    }
}
