//! Manifests and prototype files: as overlays, as sources, and against those who wrote the formats.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use uxfs_source::{
    content::Content,
    directory::{DirectoryOptions, DirectorySource},
    entry::{ACL_ACCESS, DeviceNumber, DirectoryId, Kind, Metadata, Timestamp},
    error::SourceError,
    host_names::HostNames,
    manifest::{Applied, ManifestSource, Overlay},
    protofile::{ProtofileOptions, ProtofileSource},
    stream::{StreamItem, StreamSource},
    tree::{Reading, TreeSource},
};
use uxfs_testkit::{
    judges::Judge,
    mount::{Access, LoopMount},
    require,
};

use crate::common;
use crate::common::{Told, Tree, every_kind, folder, of_stream, of_tree};

const FILE: Kind = Kind::Regular { size_bytes: 0, content: Content::Hole };
const DIRECTORY: Kind = Kind::Directory(DirectoryId::ROOT);
const TIME: Timestamp = Timestamp { seconds: 7, nanoseconds: 8 };

fn tree_of(root: &Path) -> Tree {
    of_tree(&mut DirectorySource::open(root, DirectoryOptions::default(), Reading::Everything).unwrap())
}

fn overlay(text: &str) -> Result<Overlay, SourceError> {
    Overlay::from_stream("text", std::io::Cursor::new(text.as_bytes().to_vec()))
}

fn unmatched(overlay: &mut Overlay) -> Vec<String> {
    let unmatched = overlay.unmatched(10).unwrap();
    assert_eq!(unmatched.count, unmatched.first.len() as u64);
    unmatched.first.iter().map(|path| String::from_utf8_lossy(path).into_owned()).collect()
}

/// Parses a source out of a text; relative contents lie in `contents`.
fn source(folder: &Path, contents: &Path, text: &str) -> ManifestSource {
    let path = folder.join("manifest");
    fs::write(&path, text).unwrap();
    ManifestSource::open(&path, contents, TIME, &HostNames::default()).unwrap()
}

#[test]
fn an_mtree_lies_over_a_tree() {
    let mut overlay = overlay(
        "#mtree v2.0\n\
         /set type=file uid=10 gid=20 mode=0600\n\
         .               type=dir mode=0755\n\
         etc             type=dir mode=0700 uid=0\n\
         pass\\040wd      time=5.6 \\\n\
                         xattr.security.selinux=dTpyOnQ6czAA\n\
         ..\n\
         usr             type=dir\n\
         # in between\n\
         /unset mode uid\n\
         tool            optional\n\
         ..\n\
         ..\n\
         ./a/full/path   type=link link=x uid=1\n\
         ./a/full/path   type=link mode=0777 gid=21\n",
    )
    .unwrap();
    let fresh = Metadata { mode: 0o644, user: 1, group: 1, ..Metadata::default() };
    let mut apply = |path: &str, kind: &Kind| {
        let mut metadata = fresh.clone();
        let applied = overlay.apply(path.as_bytes(), kind, &mut metadata).unwrap();
        (applied, metadata)
    };
    let short =
        |(applied, metadata): (Applied, Metadata)| (applied, metadata.mode, metadata.user, metadata.group);
    assert_eq!(short(apply("", &DIRECTORY)), (Applied::Changed, 0o755, 10, 20));
    assert_eq!(short(apply("etc", &DIRECTORY)), (Applied::Changed, 0o700, 0, 20));
    let (_, metadata) = apply("etc/pass wd", &FILE);
    assert_eq!((metadata.mode, metadata.user), (0o600, 10));
    assert_eq!(metadata.times.modification, Timestamp { seconds: 5, nanoseconds: 6 });
    assert_eq!(metadata.attribute(b"security.selinux"), Some(b"u:r:t:s0\0".as_slice()));
    assert_eq!(short(apply("usr/tool", &FILE)), (Applied::Changed, 0o644, 1, 20));
    assert_eq!(short(apply("other", &FILE)), (Applied::Nothing, 0o644, 1, 1));
    let link = Kind::Symlink { target: b"x"[..].into() };
    assert_eq!(short(apply("a/full/path", &link)), (Applied::Changed, 0o777, 1, 21));
    let other = apply("etc", &FILE);
    assert!(matches!(other.0, Applied::OtherKind(_)) && other.1 == fresh);
    assert_eq!(unmatched(&mut overlay), ["usr"]);
}

#[test]
fn modes_and_acls_agree() {
    let mut overlay = overlay("#mtree\nfile mode=0751\n").unwrap();
    let entry = |tag: u16, bits: u16, id: u32| {
        [tag.to_le_bytes().as_slice(), &bits.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    let acl = |bits: [u16; 4]| {
        let list = [
            (1, bits[0], u32::MAX),
            (2, 7, 5),
            (4, bits[1], u32::MAX),
            (16, bits[2], u32::MAX),
            (32, bits[3], u32::MAX),
        ];
        let entries: Vec<u8> = list.iter().flat_map(|(tag, bits, id)| entry(*tag, *bits, *id)).collect();
        [2_u32.to_le_bytes().to_vec(), entries].concat()
    };
    let mut metadata = Metadata { mode: 0o664, ..Metadata::default() };
    metadata.set_attribute(ACL_ACCESS, &acl([6, 4, 6, 4]));
    overlay.apply(b"file", &FILE, &mut metadata).unwrap();
    assert_eq!(metadata.mode, 0o751);
    // The owning group's own bits stay; the mask is what the mode shows.
    assert_eq!(metadata.attribute(ACL_ACCESS).unwrap(), acl([7, 4, 5, 1]));
    metadata.mode = 0o4000;
    metadata.follow_acl();
    assert_eq!(metadata.mode, 0o4751);
}

#[test]
fn a_dump_of_composefs_is_a_source_and_an_overlay() {
    let folder = folder();
    fs::create_dir(folder.path().join("objects")).unwrap();
    fs::write(folder.path().join("objects/ab"), vec![b'o'; 5000]).unwrap();
    let text = "/ 4096 40755 3 0 0 0 100.000000007 - - - security.selinux=u:r\\x3at:s0\\x00\n\
        /a\\x20dir 27 41770 2 1000 1001 0 -3.5 - - - trusted.a\\x3db=c=d user.x=\n\
        /a\\x20dir/file 5000 100640 2 1 2 0 1.0 objects/ab - 00ff\n\
        /a\\x20dir/inline 5 104755 1 1 2 0 1.0 - \\x00a\\n\\\\\\x2d -\n\
        /b 5000 @100640 2 1 2 0 1.0 /a\\x20dir/file - -\n\
        /before - @- - - - - - /later - - not\\q=an\\xattribute\n\
        /c 0 @120000 - - - - 0.0 /a\\x20dir/file - -\n\
        /later 1 100600 1 0 0 0 1.0 - x -\n\
        /dash 1 100600 1 0 0 0 1.0 - \\x2d -\n\
        /empty 0 100600 1 0 0 0 1.0 - - -\n\
        /device 0 60600 1 0 0 66310 1.0 - - -\n\
        /fifo 0 10600 1 0 0 0 1.0 - - -\n\
        /link 3 120777 1 0 0 0 1.0 a\\x20b - -";
    let mut dump = source(folder.path(), folder.path(), text);
    for _ in 0..2 {
        let tree = of_stream(&mut dump);
        assert_eq!(tree.paths.len(), 13);
        let told = |path: &str| &tree.paths[path];
        assert_eq!(told(".").modification, Timestamp { seconds: 100, nanoseconds: 7 });
        assert!(told(".").attributes["security.selinux"].ends_with("u:r:t:s0\\x00"));
        let directory = told("a dir");
        assert_eq!((directory.mode, directory.owners), (0o1770, (1000, 1001)));
        assert_eq!(directory.modification, Timestamp { seconds: -3, nanoseconds: 5 });
        assert!(
            directory.attributes["trusted.a=b"].ends_with("c=d")
                && directory.attributes.contains_key("user.x")
        );
        assert!(
            told("a dir/file").content == [b'o'; 5000] && told("b").content == told("a dir/file").content
        );
        // Fields of hard links are ignored, and their targets may come behind.
        assert_eq!((&*told("before").content, told("c").size_bytes), (b"x".as_slice(), 5000));
        assert_eq!(
            (&*told("a dir/inline").content, told("a dir/inline").mode),
            (b"\0a\n\\-".as_slice(), 0o4755)
        );
        assert_eq!(told("dash").content, b"-");
        assert_eq!((told("empty").size_bytes, &*told("link").content), (0, b"a b".as_slice()));
        let number = DeviceNumber { major: 259, minor: 6 };
        assert_eq!(told("device").content, format!("{number:?}").as_bytes());
        assert_eq!(tree.links.len(), 2);
        dump.restart(Reading::Everything).unwrap();
    }
    let mut overlay = overlay(text).unwrap();
    let mut metadata = Metadata::default();
    metadata.set_attribute(b"user.other", b"gone, since the dump says all");
    assert_eq!(overlay.apply(b"a dir", &DIRECTORY, &mut metadata).unwrap(), Applied::Changed);
    assert_eq!((metadata.user, metadata.mode, metadata.attributes.len()), (1000, 0o1770, 2));
    // The line of a hard link is its target's matter.
    assert_eq!(overlay.apply(b"b", &FILE, &mut metadata).unwrap(), Applied::Nothing);
}

#[test]
fn what_means_nothing_is_told_with_its_line() {
    let folder = folder();
    for text in [
        "#mtree\nfile type=what\n",
        "#mtree\nfile type=file mode=9\n",
        "#mtree\nfile uid=-1\n",
        "#mtree\n../x type=file\n",
        "#mtree\na\\q type=file\n",
        "#mtree\n/sot uid=1\n",
        "#mtree\nx type=char device=freebsd,1\n",
        "#mtree\nx uname=nobody-of-this-name-here\n",
        "#mtree\nx xattr.user.a=!\n",
        "/ 0 40755 1 0 0 0 0.0 - - -\n/x 0 100644 1 0 0 0 0.0 - -\n",
        "/ 0 40755 1 0 0 0 0.0 - - -\n/x 0 644 1 0 0 0 0.0 - - -\n",
        "/ 0 40755 1 0 0 0 0.0 - - -\n/x 0 100644 1 0 0 0 0.1000000000 - - -\n",
        "/ 0 40755 1 0 0 0 0.0 - - -\n/x/../y 0 100644 1 0 0 0 0.0 - - -\n",
        "/ 0 40755 1 0 0 0 0.0 - - -\n/x 0 100644 1 0 4294967296 0 0.0 - - -\n",
        "/ 0 40755 1 0 0 0 0.0 - - -\n/x 0 100644 1 0 0 0 0.0 - - - a=1 a=2\n",
        "/ 0 40755 1 0 0 0 0.0 - - -\n/ 0 40755 1 0 0 0 0.0 - - -\n",
    ] {
        let Err(SourceError::Text { line, .. }) = overlay(text) else { panic!("read: {text}") };
        assert_eq!(line, 2, "{text}");
    }
    // As a source a manifest has more to say.
    for (text, fault) in [
        ("#mtree\nx mode=0644\n", "the type of the file is missing"),
        ("#mtree\nx type=link\n", "the target is missing"),
        ("#mtree\nx type=char\n", "the device number is missing"),
        ("#mtree\n. type=file\n", "no valid path"),
        ("#mtree\nx type=file\n", "cannot open"),
        ("#mtree\nx type=file contents=manifest size=1\n", "has 44 bytes, not 1"),
        ("/x 2 100644 1 0 0 0 0.0 - a -\n", "twice"),
    ] {
        let error = source(folder.path(), folder.path(), text).next_item().unwrap_err();
        assert!(error.to_string().contains(fault), "{text}: {error}");
    }
    let mut optional = source(folder.path(), folder.path(), "#mtree\nx type=file optional\n");
    assert!(optional.next_item().unwrap().is_none());
}

/// As NetBSD's `mtree -c -k type,mode,uid,gid,uname,size,time,link,device` wrote it.
const NETBSD: &str = r"#	   user: (null)
#	   tree: tree

# .
/set type=file uname=root gid=0 mode=0644
.               type=dir mode=0755 time=1795195483.677622486
    link        type=link mode=0777 time=1795195483.649622487 \
                link=to\swhere
    null        type=char device=0x103 time=1795195483.654041764
    pipe        type=fifo time=1795195483.677622486
    \M-C\M-<mlaut\nnl \
                size=0 time=1795195483.645622487

# ./d r
/set type=file uname=root gid=0 mode=04755
d\sr            type=dir mode=0755 time=1795195483.645622487
    file\#1     size=0 time=1795195483.645622487

# ./d r/e
e               type=dir mode=0755 time=1795195483.645622487
# ./d r/e
..

# ./d r
..

";

#[test]
fn netbsd_describes_a_tree() {
    let folder = folder();
    let tree = of_stream(&mut source(folder.path(), folder.path(), NETBSD));
    let brief = |(path, told): (&String, &Told)| {
        format!("{path}: {} {:o} {}", told.kind, told.mode, told.content.escape_ascii())
    };
    let expected = [
        ".: directory 755 ",
        r"\xc3\xbcmlaut\nnl: regular file 644 ",
        "d r: directory 755 ",
        "d r/e: directory 755 ",
        "d r/file#1: regular file 4755 ",
        "link: symbolic link 777 to where",
        "null: character device 644 DeviceNumber { major: 1, minor: 3 }",
        "pipe: fifo 644 ",
    ];
    assert_eq!(tree.paths.iter().map(brief).collect::<Vec<_>>(), expected);
    let time = tree.paths["null"].modification;
    assert_eq!((time.seconds, time.nanoseconds), (1_795_195_483, 654_041_764));
}

/// A tree reduced to the facts that bsdtar's mtree can give.
fn as_mtree_tells(mut tree: Tree) -> Tree {
    tree.links.clear();
    for told in tree.paths.values_mut() {
        told.attributes.clear();
    }
    tree
}

#[test]
fn bsdtar_describes_a_tree() {
    require!(Judge::BsdTar);
    let folder = folder();
    let root = folder.path().join("tree");
    fs::create_dir(&root).unwrap();
    every_kind(&root);
    // It would read a tebibyte of zeros.
    fs::remove_file(root.join("hole")).unwrap();
    let manifest = folder.path().join("manifest");
    let mut command = Judge::BsdTar.command();
    let keywords = "--options=mtree:!all,mtree:type,mtree:mode,mtree:uid,mtree:gid,mtree:time,mtree:size,mtree:link,mtree:device";
    command.args(["-c", "--numeric-owner", "--format=mtree", keywords, "-f"]).arg(&manifest);
    assert!(command.arg("-C").arg(&root).arg(".").env("LC_ALL", "C.UTF-8").status().unwrap().success());
    let expected = as_mtree_tells(tree_of(&root));
    let mut source = ManifestSource::open(&manifest, &root, TIME, &HostNames::default()).unwrap();
    let mut found = as_mtree_tells(of_stream(&mut source));
    // Neither is told by the other.
    let is_socket = |_: &String, told: &mut Told| told.kind != "socket";
    found.paths.retain(is_socket);
    let mut without = expected;
    without.paths.retain(is_socket);
    without.assert_same(&found, "as a source");
    let mut overlay = Overlay::open(&manifest, &HostNames::default(), 0).unwrap();
    let mut source = DirectorySource::open(&root, DirectoryOptions::default(), Reading::Metadata).unwrap();
    while let Some(batch) = source.next_batch().unwrap() {
        for entry in batch.entries {
            let path = match &*batch.path {
                b"" => entry.name.to_vec(),
                path => [path, b"/", &entry.name].concat(),
            };
            let mut metadata =
                Metadata { attributes: entry.metadata.attributes.clone(), ..Metadata::default() };
            let applied = overlay.apply(&path, &entry.kind, &mut metadata).unwrap();
            if matches!(entry.kind, Kind::Socket) {
                continue;
            }
            assert_eq!(applied, Applied::Changed, "{}", path.escape_ascii());
            let all = |m: &Metadata| (m.mode, m.user, m.group, m.times.modification);
            assert_eq!(all(&metadata), all(&entry.metadata), "{}", path.escape_ascii());
        }
    }
    assert_eq!(unmatched(&mut overlay), [""]);
}

const PROTOTYPE: &str = "/stand/boot
        4872 110
        d--777 3 1
        usr d--755 3 1
            sh  -ug755 3 1 CONTENT
            ken d--700 6 1
            $
            b0 b--644 3 1 259 70000
            c0 c--600 3 1 10 200
            pipe p--640 3 1
            link l--777 3 1 ../any/where
            : a comment $ d--
            $
        two/words ---444 4294967294 5 EMPTY : more
        $
";

#[test]
fn prototype_files_as_mkfs_reads_them() {
    require!(Judge::Mkfs, Judge::Kernel);
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("content"), vec![b'p'; 100_000]).unwrap();
    fs::write(path("empty"), b"").unwrap();
    common::set_attribute(&path("content"), "user.kept", b"too");
    let text = PROTOTYPE.replace("CONTENT", path("content").to_str().unwrap());
    fs::write(path("prototype"), text.replace("EMPTY", path("empty").to_str().unwrap())).unwrap();
    let image = path("image");
    File::create(&image).unwrap().set_len(400 << 20).unwrap();
    let argument: PathBuf = path("prototype");
    let prototype = format!("slashes_are_spaces=1,file={}", argument.display());
    let made = Judge::Mkfs.command().args(["-q", "-p", &prototype]).arg(&image).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mount = LoopMount::new(&image, Access::ReadOnly).unwrap();
    let mut expected = as_told_without_times(tree_of(mount.path()));
    // What mkfs gives every root.
    expected
        .paths
        .values_mut()
        .for_each(|told| told.attributes.retain(|name, _| !name.starts_with("trusted.xfs:")));
    mount.unmount().unwrap();
    let options = ProtofileOptions { time: TIME, slashes_are_spaces: true, access_times: false };
    let mut source = ProtofileSource::open(&argument, options).unwrap();
    let found = of_stream(&mut source);
    assert!(found.paths.values().all(|told| told.modification == TIME));
    expected.assert_same(&as_told_without_times(found), "prototype");
    source.restart(Reading::Metadata).unwrap();
    assert!(matches!(source.next_item(), Ok(Some(StreamItem::Entry(entry))) if entry.path.is_empty()));
}

fn as_told_without_times(mut tree: Tree) -> Tree {
    tree.paths.values_mut().for_each(|told| told.modification = Timestamp::default());
    tree
}

#[test]
fn prototype_files_that_mean_nothing() {
    let folder = folder();
    let path = folder.path().join("prototype");
    for (text, line, fault) in [
        ("", 1, "the first word"),
        ("x y 0", 1, "y is no number"),
        ("x 0 0\n---755 0 0 /dev/null", 2, "not a regular file"),
        ("x 0 0\np--755 0 0", 2, "a directory for the root"),
        ("x 0 0\nd--755 0 0\na d--75 0 0", 3, "mode"),
        ("x 0 0\nd--755 0 0\na dux755 0 0", 3, "mode"),
        ("x 0 0\nd--755 0 0\na d--755 0 0", 3, "$"),
        ("x 0 0\nd--755 0 0\n.. d--755 0 0", 3, "no valid path"),
        ("x 0 0\nd--755 0 0\na/b d--755 0 0", 3, "no valid path"),
        ("x 0 0\nd--755 0 0\na l--777 0 0", 3, "a target"),
        ("x 0 0\nd--755 0 0\na b--777 0 0 1", 3, "a minor number"),
        ("x 0 0\nd--755 0 0\na ---777 0 0 /no/such/file", 3, "cannot open"),
    ] {
        fs::write(&path, text).unwrap();
        let mut source = ProtofileSource::open(&path, ProtofileOptions::default()).unwrap();
        let error = loop {
            match source.next_item() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("read: {text}"),
                Err(error) => break error,
            }
        };
        assert!(error.to_string().contains(fault), "{text}: {error}");
        let SourceError::Text { line: found, .. } = error else { panic!("{error}") };
        assert_eq!(found, line, "{text}");
        assert!(source.next_item().unwrap().is_none());
    }
}
