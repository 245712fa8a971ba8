//! Archives made by GNU tar and bsdtar, in all their formats, against the tree that they were made from.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use uxfs_source::{
    content::Content,
    directory::{DirectoryOptions, DirectorySource},
    entry::Kind,
    error::{ArchiveFault, SourceError},
    stream::{StreamItem, StreamSource},
    tar::{TarOptions, TarSource},
    tree::Reading,
};
use uxfs_testkit::{judges::Judge, require};

use crate::common;
use crate::common::{Tree, every_kind, folder, of_stream, of_tree};

/// Capabilities of an archive format.
#[derive(Clone, Copy)]
struct Holds {
    nanoseconds: bool,
    attributes: bool,
    holes: bool,
}

const ALL: Holds = Holds { nanoseconds: true, attributes: true, holes: true };

/// The source tree, as an archive that holds so much can tell it.
fn expected(root: &Path, holds: Holds) -> Tree {
    let mut source = DirectorySource::open(root, DirectoryOptions::default(), Reading::Everything).unwrap();
    let mut tree = of_tree(&mut source);
    tree.paths.retain(|_, told| told.kind != "socket");
    for told in tree.paths.values_mut() {
        weaken(told, holds);
    }
    tree
}

fn weaken(told: &mut common::Told, holds: Holds) {
    if !holds.nanoseconds {
        told.modification.nanoseconds = 0;
    }
    if !holds.attributes {
        told.attributes.clear();
    }
    if !holds.holes {
        told.ranges = if told.size_bytes == 0 { Vec::new() } else { vec![(0, told.size_bytes)] };
    }
}

fn make(judge: Judge, root: &Path, archive: &Path, options: &[&str]) {
    let mut command = judge.command();
    command.args(["-c", "--numeric-owner", "-f"]).arg(archive).args(options);
    let output = command.arg("-C").arg(root).arg(".").env("LC_ALL", "C.UTF-8").output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{options:?}: {words}");
}

fn open(archive: &Path) -> TarSource {
    TarSource::open(archive, TarOptions::default(), Reading::Everything).unwrap()
}

/// Reads an archive as a file, and through a pipe.
fn check(root: &Path, archive: &Path, holds: Holds, what: &str) {
    let expected = expected(root, holds);
    let weaker = |mut tree: Tree| {
        tree.paths.values_mut().for_each(|told| weaken(told, holds));
        tree
    };
    let mut source = open(archive);
    expected.assert_same(&weaker(of_stream(&mut source)), what);
    assert_eq!(source.take_problems(), [], "{what}");
    source.restart(Reading::Everything).unwrap();
    expected.assert_same(&weaker(of_stream(&mut source)), what);
    let file = File::open(archive).unwrap();
    let mut cat = Command::new("cat").stdin(file).stdout(Stdio::piped()).spawn().unwrap();
    let mut piped =
        TarSource::from_stream("pipe", cat.stdout.take().unwrap(), TarOptions::default()).unwrap();
    expected.assert_same(&weaker(of_stream(&mut piped)), &format!("{what}, piped"));
    assert!(cat.wait().unwrap().success());
    assert!(matches!(piped.restart(Reading::Everything), Err(SourceError::CannotRestart { .. })));
}

/// A tree in which every archive can hold every file.
fn modest(root: &Path) {
    for (name, size) in [("empty", 0), ("small", 700), ("block", 512), ("large", 200_000)] {
        fs::write(root.join(name), vec![b'm'; size]).unwrap();
    }
    fs::create_dir_all(root.join("a/b")).unwrap();
    fs::write(root.join("a/b/c"), b"c").unwrap();
    fs::hard_link(root.join("small"), root.join("a/small")).unwrap();
    std::os::unix::fs::symlink("a/b", root.join("link")).unwrap();
}

fn lively(folder: &Path) -> PathBuf {
    let root = folder.join("tree");
    fs::create_dir(&root).unwrap();
    every_kind(&root);
    // Sockets are for neither; GNU tar warns.
    fs::remove_file(root.join("socket")).unwrap();
    // More paths than fit a header, and more bytes than a name there.
    let long = root.join("n".repeat(120)).join("m".repeat(200));
    fs::create_dir_all(&long).unwrap();
    fs::write(long.join("o".repeat(255)), b"long").unwrap();
    fs::hard_link(long.join("o".repeat(255)), root.join("long-too")).unwrap();
    let file = File::create(root.join("ranges")).unwrap();
    file.set_len(1 << 20).unwrap();
    for place in 0..60 {
        std::os::unix::fs::FileExt::write_all_at(&file, &[b'r'; 4096], place * 16_384).unwrap();
    }
    let set = Judge::Setfacl.command().args(["-m", "u:1000:rw-,g:7:r--"]).arg(root.join("large")).status();
    assert!(set.unwrap().success());
    let set = Judge::Setfacl.command().args(["-d", "-m", "u:1000:rwx"]).arg(root.join("directory")).status();
    assert!(set.unwrap().success());
    root
}

#[test]
fn gnu_tar_in_pax_formats() {
    require!(Judge::GnuTar, Judge::Setfacl);
    let folder = folder();
    let root = lively(folder.path());
    let archive = folder.path().join("archive.tar");
    let all = ["--format=posix", "--xattrs", "--xattrs-include=*", "--acls", "--sparse"];
    for version in ["0.0", "0.1", "1.0"] {
        let sparse = format!("--sparse-version={version}");
        make(Judge::GnuTar, &root, &archive, &[all.as_slice(), &[&sparse]].concat());
        check(&root, &archive, ALL, &sparse);
    }
    // By name, which only the archive itself can make a number again.
    let (gzip, zstd, xz) = ("gzip", "zstd", "xz");
    for program in [gzip, zstd, xz] {
        let option = format!("--use-compress-program={program}");
        make(Judge::GnuTar, &root, &archive, &[all.as_slice(), &[&option]].concat());
        check(&root, &archive, ALL, program);
    }
}

#[test]
fn gnu_tar_in_older_formats() {
    require!(Judge::GnuTar, Judge::Setfacl);
    let folder = folder();
    let root = lively(folder.path());
    let archive = folder.path().join("archive.tar");
    let gnu = Holds { nanoseconds: false, attributes: false, ..ALL };
    make(Judge::GnuTar, &root, &archive, &["--format=gnu", "--sparse"]);
    check(&root, &archive, gnu, "gnu");
    let simple = folder.path().join("simple");
    fs::create_dir(&simple).unwrap();
    modest(&simple);
    for format in ["--format=oldgnu", "--format=ustar", "--format=v7"] {
        make(Judge::GnuTar, &simple, &archive, &[format]);
        check(&simple, &archive, Holds { holes: false, ..gnu }, format);
    }
}

#[test]
fn gnu_tar_with_what_says_nothing_of_files() {
    require!(Judge::GnuTar);
    let folder = folder();
    let simple = folder.path().join("simple");
    fs::create_dir(&simple).unwrap();
    modest(&simple);
    let archive = folder.path().join("archive.tar");
    let plain = Holds { nanoseconds: false, attributes: false, holes: false };
    let snapshot = format!("--listed-incremental={}", folder.path().join("snapshot").display());
    let incremental = ["--format=gnu", &snapshot];
    for options in
        [&["--format=gnu", "--label=volume"][..], &incremental, &["--format=posix", "--label=volume"]]
    {
        make(Judge::GnuTar, &simple, &archive, options);
        check(&simple, &archive, plain, options[1]);
    }
    // Global keywords hold where a member's own say nothing.
    make(Judge::GnuTar, &simple, &archive, &["--format=posix", "--pax-option=uid=4000000000,comment=x"]);
    let tree = of_stream(&mut open(&archive));
    assert!(tree.paths.values().all(|told| told.owners.0 == 4_000_000_000));
    make(Judge::GnuTar, &simple, &archive, &["--format=posix", "--pax-option=gid:=5,mtime:=1.5"]);
    let tree = of_stream(&mut open(&archive));
    assert!(
        tree.paths.values().all(|told| told.owners.1 == 5 && told.modification.nanoseconds == 500_000_000)
    );
}

#[test]
fn bsdtar_in_all_formats() {
    require!(Judge::BsdTar, Judge::Setfacl);
    let folder = folder();
    let root = lively(folder.path());
    // Files of a tebibyte are not for all formats.
    fs::remove_file(root.join("hole")).unwrap();
    let archive = folder.path().join("archive.tar");
    make(Judge::BsdTar, &root, &archive, &["--format=pax", "--xattrs", "--acls"]);
    check(&root, &archive, ALL, "pax");
    let simple = folder.path().join("simple");
    fs::create_dir(&simple).unwrap();
    modest(&simple);
    let plain = Holds { nanoseconds: false, attributes: false, holes: false };
    for (format, holds) in [
        ("--format=paxr", Holds { holes: false, ..ALL }),
        ("--format=gnutar", plain),
        ("--format=ustar", plain),
        ("--format=v7tar", plain),
    ] {
        make(Judge::BsdTar, &simple, &archive, &[format]);
        let holds = Holds { nanoseconds: false, ..holds };
        check(&simple, &archive, holds, format);
    }
    for packing in ["--gzip", "--zstd", "--xz"] {
        make(Judge::BsdTar, &root, &archive, &["--format=pax", packing]);
        check(&root, &archive, ALL, packing);
    }
}

#[test]
fn layers_say_what_is_gone() {
    require!(Judge::GnuTar);
    let folder = folder();
    let root = folder.path().join("layer");
    fs::create_dir_all(root.join("etc/new")).unwrap();
    for name in ["etc/.wh.gone", ".wh.top", "etc/new/.wh..wh..opq", ".wh..wh.plnk"] {
        fs::write(root.join(name), b"").unwrap();
    }
    let archive = folder.path().join("layer.tar.gz");
    make(Judge::GnuTar, &root, &archive, &["-z"]);
    let options = TarOptions { whiteouts: true, ..TarOptions::default() };
    let mut source = TarSource::open(&archive, options, Reading::Everything).unwrap();
    let mut told = BTreeSet::new();
    while let Some(item) = source.next_item().unwrap() {
        told.insert(match item {
            StreamItem::Entry(entry) => format!("{} {}", entry.kind.word(), entry.path.escape_ascii()),
            StreamItem::Whiteout(path) => format!("gone {}", path.escape_ascii()),
            StreamItem::Opaque(path) => format!("opaque {}", path.escape_ascii()),
        });
    }
    let expected =
        ["directory ", "directory etc", "directory etc/new", "gone etc/gone", "gone top", "opaque etc/new"];
    assert_eq!(told.iter().map(String::as_str).collect::<Vec<_>>(), expected);
}

#[test]
fn content_that_nobody_reads_is_passed_over() {
    require!(Judge::GnuTar);
    let folder = folder();
    let root = folder.path().join("tree");
    fs::create_dir(&root).unwrap();
    for name in ["a", "b", "c"] {
        fs::write(root.join(name), vec![b'x'; 3 << 20]).unwrap();
    }
    let archive = folder.path().join("archive.tar.gz");
    make(Judge::GnuTar, &root, &archive, &["-z", "--sort=name"]);
    for reading in [Reading::Everything, Reading::Metadata] {
        let mut source = TarSource::open(&archive, TarOptions::default(), reading).unwrap();
        let mut files = 0;
        while let Some(item) = source.next_item().unwrap() {
            let StreamItem::Entry(entry) = item else { panic!("{item:?}") };
            let Kind::Regular { size_bytes, content: Content::Stream(_) } = entry.kind else { continue };
            assert_eq!(size_bytes, 3 << 20);
            files += 1;
            let mut some = [0; 1000];
            match (reading, files) {
                (Reading::Everything, 2) => assert_eq!(source.read_data(&mut some).unwrap(), 1000),
                (Reading::Metadata, 2) => assert_eq!(source.read_data(&mut some).unwrap(), 0),
                _ => {}
            }
        }
        assert_eq!(files, 3);
    }
    // Left alone half way, nothing hangs.
    open(&archive).next_item().unwrap();
}

#[test]
fn cut_and_damaged_archives_are_errors() {
    require!(Judge::GnuTar);
    let folder = folder();
    let root = folder.path().join("tree");
    fs::create_dir(&root).unwrap();
    modest(&root);
    let archive = folder.path().join("archive.tar");
    make(Judge::GnuTar, &root, &archive, &["--format=posix", "--sort=name"]);
    let whole = fs::read(&archive).unwrap();
    let read = |bytes: &[u8]| -> Result<u32, SourceError> {
        fs::write(&archive, bytes).unwrap();
        let mut results = Vec::new();
        for piped in [false, true] {
            let options = TarOptions::default();
            let mut source = match piped {
                true => TarSource::from_stream("pipe", std::io::Cursor::new(bytes.to_vec()), options)?,
                false => TarSource::open(&archive, options, Reading::Everything)?,
            };
            let mut items = 0;
            results.push(loop {
                match source.next_item() {
                    Ok(Some(_)) => items += 1,
                    Ok(None) => break Ok(items),
                    Err(error) => break Err(error),
                }
            });
        }
        assert_eq!(results[0].is_ok(), results[1].is_ok());
        results.remove(0)
    };
    assert_eq!(read(&whole).unwrap(), 10);
    // Within a header, within content, between members, and with another letter.
    for (length, is_complete) in [(700, false), (1536, true), (2560 + 10, false)] {
        match (read(&whole[..length]), is_complete) {
            (Ok(_), true) => {}
            (Err(SourceError::Archive { fault: ArchiveFault::Truncated { .. }, .. }), false) => {}
            (result, _) => panic!("{length}: {result:?}"),
        }
    }
    let mut damaged = whole.clone();
    damaged[3] ^= 1;
    let fault = read(&damaged).unwrap_err();
    assert!(
        matches!(fault, SourceError::Archive { fault: ArchiveFault::Checksum { .. }, offset: 512, .. }),
        "{fault}"
    );
    // GNU tar takes it for an archive of nothing; it is what a pipe gives whose writer failed.
    let empty = read(b"");
    assert!(matches!(empty, Err(SourceError::Archive { fault: ArchiveFault::Empty, .. })), "{empty:?}");
    assert_eq!(read(&[0; 10_240]).unwrap(), 0);
}
