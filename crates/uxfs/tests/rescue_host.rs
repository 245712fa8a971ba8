//! `uxfs rescue` where the host is the problem: signals, closed streams, limits, ordinary users; and files of which a part is missing, in
//! archives and with several names.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value as Json;
use uxfs_testkit::{golden::GoldenImage, image::memory_folder, judges::Judge, require, xfs_db::XfsDb};

use crate::common::{program, succeeds, text, uxfs};

fn unpacked(folder: &Path) -> PathBuf {
    let image = folder.join("golden");
    GoldenImage::named("block-2k").unwrap().unpack_to(&image).unwrap();
    image
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), output.stderr.as_slice()].concat()).into_owned()
}

fn lines(text: &[u8]) -> Vec<Json> {
    std::str::from_utf8(text).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn shell(script: &str, arguments: &[&str]) -> Output {
    Command::new("/bin/sh").args(["-c", script, program()]).args(arguments).output().unwrap()
}

/// An image with two files, of which the first has a second name.
fn small(folder: &Path) -> PathBuf {
    let (source, image) = (folder.join("source"), folder.join("image"));
    fs::create_dir(&source).unwrap();
    fs::write(source.join("first"), vec![7; 40_000]).unwrap();
    fs::hard_link(source.join("first"), source.join("other name")).unwrap();
    fs::write(source.join("sound"), "sound").unwrap();
    succeeds(&["mkfs", "--unsupported", "--size", "32M", "--from", text(&source), text(&image)]);
    image
}

/// A map of the image that lacks the third block of a file.
fn map_without_a_block(image: &Path, path: &str) -> PathBuf {
    let extents = succeeds(&["map", "--json", text(image), path]);
    let extent: Json = serde_json::from_str(extents.lines().next().unwrap()).unwrap();
    let info: Json = serde_json::from_str(&succeeds(&["info", "--json", text(image)])).unwrap();
    let number = |document: &Json, name: &str| document[name].as_u64().unwrap();
    let block = number(&extent, "group") * number(&info, "group_blocks") + number(&extent, "group_block") + 2;
    let (start, length) = (block * 4096, 4096);
    let (end, size) = (start + length, fs::metadata(image).unwrap().len());
    let map = image.with_extension("map");
    let blocks = format!("0 {start} +\n{start} {length} -\n{end} {} +\n", size - end);
    fs::write(&map, format!("0 + 1\n{blocks}")).unwrap();
    map
}

/// SIGINT and SIGTERM end a rescue in order: a summary, a line for all that is there, owners and times of directories; and it goes on later.
#[test]
fn signals_end_a_rescue_in_order_and_it_goes_on() {
    for signal in [Signal::INT, Signal::TERM] {
        let folder = tempfile::tempdir_in(memory_folder()).unwrap();
        let image = unpacked(folder.path());
        let (to, manifest) = (folder.path().join("to"), folder.path().join("manifest"));
        let arguments =
            ["rescue", text(&image), "--to", text(&to), "--manifest", text(&manifest), "--verbose"];
        let mut command = Command::new(program());
        let mut child =
            command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // It waits for its reader after some hundred lines.
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        (0..20).for_each(|_| assert!(output.read_line(&mut line).unwrap() > 0));
        kill_process(Pid::from_child(&child), signal).unwrap();
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(1), "{rest}");
        let last = rest.lines().last().unwrap();
        assert!(last.ends_with("interrupted: the same command with --resume goes on"), "{last}");
        let told = lines(&fs::read(&manifest).unwrap());
        assert_eq!(
            (&told.last().unwrap()["type"], &told.last().unwrap()["interrupted"]),
            (&"summary".into(), &true.into())
        );
        let is_told = |path: &str| told.iter().any(|line| line["output"] == path);
        let mut open = vec![to.clone()];
        let mut count = 0;
        while let Some(path) = open.pop() {
            count += 1;
            let below = path.strip_prefix(&to).unwrap().to_str();
            assert!(
                below.is_none_or(|below| below.is_empty() || is_told(below)),
                "{}: no line",
                path.display()
            );
            if path.is_dir() && !path.is_symlink() {
                open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
        }
        let done = uxfs(&[&arguments[..], &["--resume"]].concat());
        assert_eq!(done.status.code(), Some(0), "{}", words(&done));
        let again = lines(&fs::read(&manifest).unwrap());
        assert!(again.len() > count, "{} lines, {count} before", again.len());
        assert_eq!(again.last().unwrap()["interrupted"], false);
    }
}

/// Streams that are closed or full stop nothing.
#[test]
fn closed_and_full_streams_do_not_stop_a_rescue() {
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = small(folder.path());
    let map = map_without_a_block(&image, "/first");
    let cases =
        [("2>&-", 3), (">&-", 3), (">&- 2>&- <&-", 3), (">/dev/full", 1), ("2>/dev/full", 3), ("| true", 0)];
    for (number, (streams, code)) in cases.into_iter().enumerate() {
        let to = folder.path().join(format!("to{number}"));
        let script = format!("\"$0\" rescue \"$1\" --to \"$2\" --map \"$3\" {streams}");
        let output = shell(&script, &[text(&image), text(&to), text(&map)]);
        assert_eq!(output.status.code(), Some(code), "{streams}: {}", words(&output));
        assert!(!words(&output).contains("panicked"), "{streams}: {}", words(&output));
        assert_eq!(fs::read(to.join("sound")).unwrap(), b"sound", "{streams}");
        assert!(to.join("first.partial").is_file(), "{streams}");
    }
    // The reader of an archive goes away: it has what it wanted.
    let script = "{ \"$0\" rescue \"$1\" --tar -; echo $? >&2; } | head -c 100 > /dev/null";
    let large = unpacked(folder.path());
    let output = shell(script, &[text(&large)]);
    assert_eq!(words(&output), "0\n");
    // A manifest without room.
    let to = folder.path().join("to");
    let output = uxfs(&["rescue", text(&image), "--to", text(&to), "--manifest", "/dev/full"]);
    assert_eq!(output.status.code(), Some(1), "{}", words(&output));
    assert!(words(&output).contains("the manifest: No space left on device\n"), "{}", words(&output));
    assert_eq!(fs::read(to.join("sound")).unwrap(), b"sound");
}

/// All names of a file of which a part is missing lead to one file, in a directory and in an archive.
#[test]
fn names_of_a_partial_file_are_links_to_it() {
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = small(folder.path());
    let map = map_without_a_block(&image, "/first");
    let (to, archive) = (folder.path().join("to"), folder.path().join("archive"));
    let common = ["rescue", text(&image), "--json", "--map", text(&map)];
    let output = uxfs(&[&common[..], &["--to", text(&to)]].concat());
    let told = lines(&output.stdout);
    let of = |path: &str| told.iter().find(|line| line["path"] == path).unwrap_or_else(|| panic!("{path}"));
    for path in ["/first", "/other name"] {
        let line = of(path);
        assert_eq!((&line["state"], &line["missing_bytes"]), (&"partial".into(), &4096.into()), "{line}");
    }
    let names = [to.join("first.partial"), to.join("other name.partial")];
    let [first, other] = names.map(|name| fs::metadata(name).unwrap());
    assert_eq!((first.ino(), first.nlink(), first.len()), (other.ino(), 2, 40_000));
    // As GNU tar reads it.
    let output = uxfs(&[&common[..], &["--tar", text(&archive)]].concat());
    assert_eq!(output.status.code(), Some(3), "{}", words(&output));
    let out = folder.path().join("out");
    fs::create_dir(&out).unwrap();
    let tar = Command::new("tar").args(["-C", text(&out), "-xf", text(&archive)]).output().unwrap();
    assert!(tar.status.success() && tar.stderr.is_empty(), "{}", words(&tar));
    let [first, other] =
        ["first.partial", "other name.partial"].map(|name| fs::metadata(out.join(name)).unwrap());
    assert_eq!((first.ino(), first.len()), (other.ino(), 40_000));
    let bytes = fs::read(out.join("first.partial")).unwrap();
    assert_eq!(bytes, fs::read(to.join("first.partial")).unwrap());
    let zeros = bytes.iter().position(|byte| *byte == 0).unwrap();
    assert!(
        zeros == 8192 && bytes[zeros..zeros + 4096].iter().all(|byte| *byte == 0) && bytes[zeros + 4096] == 7
    );
}

/// A file that is larger than the target can hold is said to be, and leaves nothing there. An archive takes it.
#[test]
fn sizes_that_no_target_holds_are_told() {
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = small(folder.path());
    let script = "truncate -s 4611686018427387904 /first; truncate -s 9223372036854775807 /sound";
    succeeds(&["shell", text(&image), "-c", script]);
    let to = folder.path().join("to");
    let script = "ulimit -f 20000; \"$0\" rescue \"$1\" --to \"$2\"";
    let output = shell(script, &[text(&image), text(&to)]);
    assert_eq!(output.status.code(), Some(3), "{}", words(&output));
    for expected in [
        "lost     /first: ",
        "a file of 4611686018427387904 bytes is larger than the target can hold",
        "(--tar)",
    ] {
        assert!(words(&output).contains(expected), "{}", words(&output));
    }
    assert!(!words(&output).contains("os error"), "{}", words(&output));
    assert_eq!(fs::read_dir(&to).unwrap().count(), 0, "an empty file would pass for the large one");
    let archive = folder.path().join("archive");
    succeeds(&["rescue", text(&image), "--tar", text(&archive)]);
    let listed = Command::new("tar").args(["-tvf", text(&archive)]).output().unwrap();
    assert!(
        words(&listed).contains(" 4611686018427387904 ") && words(&listed).contains(" 9223372036854775807 ")
    );
}

/// Without a reverse map nothing tells which of two files has a block, or that an extent leads elsewhere: neither is called whole.
#[test]
fn extents_without_a_second_witness_are_not_called_whole() {
    require!(Judge::XfsDb);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let (source, image) = (folder.path().join("source"), folder.path().join("image"));
    fs::create_dir(&source).unwrap();
    for name in ["free", "short", "sound"] {
        fs::write(source.join(name), vec![7; 40_000]).unwrap();
    }
    let arguments =
        ["mkfs", "--unsupported", "-m", "rmapbt=0,reflink=0", "--size", "32M", "--from", text(&source)];
    succeeds(&[&arguments[..], &[text(&image)]].concat());
    let write = |path: &str, field: &str, value: u64| {
        let commands = [format!("path {path}"), format!("write -d u3.bmx[0].{field} {value}")];
        XfsDb::new(&image).write(&commands).unwrap();
    };
    // Into free blocks; and one block less, which the inode's count and the free space give back.
    write("/free", "startblock", 700);
    write("/short", "blockcount", 9);
    let output = uxfs(&["rescue", text(&image), "--json", "--to", text(&folder.path().join("to"))]);
    let told = lines(&output.stdout);
    let state = |path: &str| told.iter().find(|line| line["path"] == path).unwrap()["state"].clone();
    assert_eq!(told[0]["origin"], "repaired", "{}", words(&output));
    assert_eq!((state("/free"), state("/short")), ("inferred".into(), "whole".into()), "{}", words(&output));
    assert_eq!(fs::read(folder.path().join("to/short")).unwrap(), [7; 40_000]);
    assert_eq!(state("/sound"), "whole");
}

/// An ordinary user gets contents, and is told of each device that only root can make. Under fakeroot it is made.
#[test]
fn ordinary_users_get_what_they_may_make() {
    let folder = tempfile::tempdir().unwrap();
    let image = small(folder.path());
    succeeds(&["shell", text(&image), "-c", "mknod /null c 1 3; mkfifo /fifo; chown 5:6 /sound"]);
    for path in [folder.path(), &image] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        chown(path, Some(65_534), Some(65_534)).unwrap();
    }
    let as_nobody = |before: &[&str], to: &Path| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).args(before);
        command.args([program(), "rescue", text(&image), "--verbose", "--to", text(to)]).output().unwrap()
    };
    let to = folder.path().join("to");
    let plain = as_nobody(&[], &to);
    assert_eq!(plain.status.code(), Some(3), "{}", words(&plain));
    assert!(
        words(&plain).contains("lost     /null: device node: Operation not permitted"),
        "{}",
        words(&plain)
    );
    assert!(
        words(&plain).contains("whole    /fifo") && words(&plain).contains("whole    /sound: owner: "),
        "{}",
        words(&plain)
    );
    assert!(!words(&plain).contains("os error"), "{}", words(&plain));
    assert_eq!(fs::read(to.join("sound")).unwrap(), b"sound");
    let to = folder.path().join("fake");
    let fake = as_nobody(&["fakeroot"], &to);
    assert_eq!(fake.status.code(), Some(0), "{}", words(&fake));
    assert_eq!(fs::read(to.join("sound")).unwrap(), b"sound");
}
