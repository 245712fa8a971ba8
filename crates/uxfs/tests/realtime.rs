//! Files of the realtime section, which uxfs does not change: each operation on one is refused before its first change, and the rest of the image
//! stays usable.

use std::{
    fs::{self, File},
    path::Path,
    process::{Command, Output},
};

use uxfs_testkit::{image::memory_folder, judges::Judge, require, verdict::findings_in, xfs_db::XfsDb};

use crate::common::mount_place::{Place, succeeded};
use crate::common::{succeeds, text, uxfs};

/// The number of "Operation not supported".
const NOT_SUPPORTED: i32 = 95;

/// An image with a realtime section. `/realtime` has blocks of it, as far as its inode says; all others lie in the data section.
fn image() -> Place {
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let (image, realtime) = (folder.path().join("image"), folder.path().join("section"));
    for path in [&image, &realtime] {
        File::create(path).unwrap().set_len(300 << 20).unwrap();
    }
    let mut mkfs = Judge::Mkfs.command();
    let made = mkfs.args(["-q", "-f", "-r"]).arg(format!("rtdev={}", text(&realtime))).arg(&image).status();
    assert!(made.unwrap().success());
    let contents = folder.path().join("contents");
    fs::write(&contents, vec![7; 50_000]).unwrap();
    for name in ["/realtime", "/file", "/other"] {
        succeeds(&["put", text(&image), text(&contents), name]);
    }
    XfsDb::new(&image).write(&["path /realtime", "write -d core.realtime 1"]).unwrap();
    fs::create_dir(folder.path().join("mount")).unwrap();
    Place::of(folder, image)
}

/// What xfs_repair says of it, in which numbers of the log do not count.
fn judged(place: &Place) -> Vec<String> {
    let mut command = Judge::XfsRepair.command();
    command.args(["-n", "-f", "-r"]).arg(place.folder.path().join("section")).arg(&place.image);
    let output = command.output().unwrap();
    findings_in(&[output.stdout, output.stderr].concat())
}

fn inode(image: &Path, path: &str) -> String {
    XfsDb::new(image).run(&[&format!("path {path}"), "print"]).unwrap()
}

fn is_refused(output: &Output) {
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && words.contains("realtime"), "{output:?}");
}

#[test]
fn what_would_change_a_realtime_file_is_refused() {
    require!(Judge::Mkfs, Judge::XfsDb, Judge::XfsRepair);
    let place = image();
    let image = text(&place.image);
    let contents = place.folder.path().join("contents");
    let (before, of_inode) = (judged(&place), inode(&place.image, "/realtime"));
    let commands: [&[&str]; 7] = [
        &["rm", image, "/realtime"],
        &["rm", "-r", image, "/realtime"],
        &["mv", image, "/file", "/realtime"],
        &["put", image, text(&contents), "/realtime"],
        &["cp", image, "/file", "/realtime"],
        &["cp", image, "/realtime", "/copy"],
        &["truncate", "-s", "1M", image, "/realtime"],
    ];
    for arguments in commands {
        is_refused(&uxfs(arguments));
        assert_eq!(inode(&place.image, "/realtime"), of_inode, "{arguments:?}");
        assert_eq!(succeeds(&["ls", image]), "file\nother\nrealtime\n", "{arguments:?}");
    }
    assert_eq!(judged(&place), before);
    // Names and attributes are like those of all files; a name that is not the last goes.
    succeeds(&["ln", image, "/realtime", "/name"]);
    succeeds(&["chmod", image, "600", "/realtime"]);
    succeeds(&["rm", image, "/name"]);
    succeeds(&["mv", image, "/realtime", "/moved"]);
    succeeds(&["mv", image, "/moved", "/realtime"]);
    // Of a tree all else goes.
    succeeds(&["mkdir", image, "/tree"]);
    succeeds(&["mv", image, "/realtime", "/tree/realtime"]);
    succeeds(&["mv", image, "/file", "/tree/file"]);
    is_refused(&uxfs(&["rm", "-r", image, "/tree"]));
    assert_eq!(succeeds(&["ls", "-R", image]), "/:\nother\ntree\n\n/tree:\nrealtime\n");
    assert_eq!(judged(&place), before);
}

#[test]
fn a_mount_goes_on_beside_a_realtime_file() {
    require!(Judge::Mkfs, Judge::XfsDb, Judge::XfsRepair);
    let place = image();
    let (before, of_inode) = (judged(&place), inode(&place.image, "/realtime"));
    succeeded(&place.mount(&[]));
    let at = |name: &str| place.directory.join(name);
    let number = |result: std::io::Result<()>| result.unwrap_err().raw_os_error();
    assert_eq!(number(fs::remove_file(at("realtime"))), Some(NOT_SUPPORTED));
    assert_eq!(number(fs::rename(at("other"), at("realtime"))), Some(NOT_SUPPORTED));
    assert_eq!(number(File::options().write(true).open(at("realtime")).map(drop)), Some(NOT_SUPPORTED));
    assert_eq!(number(fs::write(at("realtime"), "contents")), Some(NOT_SUPPORTED));
    assert_eq!(number(fs::read(at("realtime")).map(drop)), Some(NOT_SUPPORTED));
    // The flag alone would make other blocks of its numbers.
    let flags = Command::new("chattr").arg("+i").arg(at("realtime")).status().unwrap();
    assert!(flags.success());
    assert!(Command::new("chattr").arg("-i").arg(at("realtime")).status().unwrap().success());
    fs::write(at("new"), "contents").unwrap();
    fs::remove_file(at("other")).unwrap();
    succeeds(&["umount", text(&place.directory)]);
    assert_eq!(succeeds(&["ls", text(&place.image)]), "file\nnew\nrealtime\n");
    let without_times = |text: &str| {
        let lines = text
            .lines()
            .filter(|line| !["change_count", "ctime", "crc", "lsn"].iter().any(|word| line.contains(word)));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(without_times(&inode(&place.image, "/realtime")), without_times(&of_inode));
    assert_eq!(judged(&place), before);
}

/// Files in it would be of the realtime section in Linux. They need not be.
#[test]
fn below_a_directory_that_hands_the_section_down_files_lie_in_the_data_section() {
    require!(Judge::Mkfs, Judge::XfsDb, Judge::XfsRepair);
    let place = image();
    let image = text(&place.image);
    XfsDb::new(&place.image).write(&["path /realtime", "write -d core.realtime 0"]).unwrap();
    XfsDb::new(&place.image).write(&["path /", "write -d core.rtinherit 1"]).unwrap();
    assert_eq!(judged(&place), Vec::<String>::new());
    let contents = place.folder.path().join("contents");
    succeeds(&["put", image, text(&contents), "/put"]);
    succeeds(&["mkdir", image, "/folder"]);
    succeeded(&place.mount(&[]));
    fs::write(place.directory.join("folder/written"), vec![8; 70_000]).unwrap();
    let temporary = tempfile::tempfile_in(&place.directory).unwrap();
    temporary.set_len(5000).unwrap();
    drop(temporary);
    assert_eq!(fs::read(place.directory.join("put")).unwrap(), fs::read(&contents).unwrap());
    succeeds(&["umount", text(&place.directory)]);
    assert_eq!(succeeds(&["cat", image, "/folder/written"]).len(), 70_000);
    for path in ["/put", "/folder/written"] {
        assert!(inode(&place.image, path).contains("core.realtime = 0"), "{path}");
    }
    assert!(inode(&place.image, "/folder").contains("core.rtinherit = 1"));
    assert_eq!(judged(&place), Vec::<String>::new());
}
