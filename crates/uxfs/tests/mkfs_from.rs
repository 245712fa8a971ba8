//! `uxfs mkfs --from`: the command as people use it, and what the judges say of its images.

use std::{
    fs,
    os::unix::fs::FileExt,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;
use uxfs_testkit::{
    judges::{self, Judge},
    mount::{Access, LoopMount},
    sparse::Contents,
    verdict::{holds_the_same, kernel_removes_everything, repair_is_silent},
};

use crate::common::{program, succeeds, text, tree, uxfs};

const JUDGES: [Judge; 3] = [Judge::XfsRepair, Judge::XfsIo, Judge::Kernel];

#[test]
fn a_new_image_fits_its_content() {
    if !judges::all_present(&JUDGES, "a_new_image_fits_its_content") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let (source, image) = (folder.path().join("source"), folder.path().join("image"));
    tree(&source);
    let document = succeeds(&["--json", "mkfs", "--atime", "--from", text(&source), text(&image)]);
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["contents"]["files"], 202);
    assert_eq!(document["contents"]["hard_links"], 1);
    holds_the_same(&image, &source).unwrap();
    kernel_removes_everything(&image, 5).unwrap();
    for free in [10, 50, 90] {
        let free_text = free.to_string();
        let share = ["mkfs", "-q", "-f", "--size", "fit", "--free", &free_text, "--from", text(&source)];
        succeeds(&[&share[..], &[text(&image)]].concat());
        // Mounted for reading Linux keeps less for itself.
        let mount = LoopMount::new(&image, Access::ReadWrite).unwrap();
        let df = Command::new("df").args(["-B1", "--output=avail,size"]).arg(mount.path()).output();
        let shown = String::from_utf8(df.unwrap().stdout).unwrap();
        mount.unmount().unwrap();
        let numbers: Vec<u64> = shown.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [available, size] = numbers[..] else { panic!("{shown}") };
        assert!(available * 100 >= size * free, "{free} %: {shown}");
    }
    // Nearly nothing is left over where nothing is to be left.
    let (fit, unsupported) = (folder.path().join("fit"), "--unsupported");
    succeeds(&[
        "mkfs",
        "-q",
        unsupported,
        "--size",
        "fit",
        "--free",
        "0",
        "--from",
        text(&source),
        text(&fit),
    ]);
    repair_is_silent(&fit).unwrap();
    let listing = succeeds(&["ls", "-R", text(&fit)]);
    assert!(listing.contains("file-199") && listing.contains("same"));
    judges::judged("kernel and xfs_repair", "mkfs --from, sizes that fit");
}

/// Options may ask for more than the contents need: the image is as large as it must be then.
#[test]
fn a_new_image_fits_its_geometry() {
    if !judges::all_present(&JUDGES, "a_new_image_fits_its_geometry") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let (source, image) = (folder.path().join("source"), folder.path().join("image"));
    fs::create_dir(&source).unwrap();
    fs::write(source.join("file"), "contents").unwrap();
    let cases: [(&[&str], u64); 9] = [
        (&["-d", "su=64k,sw=4"], 300),
        (&["-d", "sunit=8,swidth=16"], 300),
        (&["-d", "agcount=8"], 300),
        (&["-d", "agsize=100m"], 300),
        // A second group, so that xfs_repair can compare superblocks.
        (&["-d", "agsize=512m"], 513),
        (&["-l", "size=200m"], 300),
        (&["-d", "agcount=5", "-l", "size=100m"], 500),
        (&["--size", "fit", "-d", "agcount=12"], 300),
        (&["-d", "size=500m"], 500),
    ];
    for (options, least_mebibytes) in cases {
        let arguments = [&["mkfs", "-q"], options, &["--from", text(&source), text(&image)]].concat();
        succeeds(&arguments);
        let bytes = fs::metadata(&image).unwrap().len();
        assert!(bytes >= least_mebibytes << 20 && bytes < 2 << 30, "{options:?}: {bytes}");
        repair_is_silent(&image).unwrap();
        // A size that has less is refused.
        if options[0] != "--size" && !options.contains(&"size=500m") {
            let less = (bytes - (1 << 20)).to_string();
            let smaller = [&["mkfs", "-f", "-q"], options, &["--size", &less, text(&image)]].concat();
            let is_smaller_possible = uxfs(&smaller).status.success();
            assert!(!is_smaller_possible || bytes == 300 << 20 || bytes >> 20 == 513, "{options:?}: {bytes}");
        }
        fs::remove_file(&image).unwrap();
    }
    // One group, where that is asked for.
    succeeds(&["mkfs", "-q", "--unsupported", "-d", "agcount=1", "--from", text(&source), text(&image)]);
    assert!(succeeds(&["info", text(&image)]).contains("agcount=1,"));
    // What no size makes possible is refused at once, and not for the size.
    for (option, words) in [("su=64k", "must be given together"), ("agsize=48m", "no supported log fits")] {
        let output =
            uxfs(&["mkfs", "-q", "-d", option, "--from", text(&source), text(&folder.path().join("no"))]);
        assert!(String::from_utf8_lossy(&output.stderr).contains(words), "{output:?}");
    }
}

/// Of a small image inodes may take one per cent here: their number says how large it must be, not the blocks.
#[test]
fn a_fitting_image_may_have_all_inodes() {
    let folder = TempDir::new().unwrap();
    let (manifest, image) = (folder.path().join("manifest"), folder.path().join("image"));
    let mut lines = String::from("#mtree\n. type=dir\n/set type=file mode=0644 size=0\n");
    (0..10_000).for_each(|file| lines.push_str(&format!("./file-{file}\n")));
    fs::write(&manifest, lines).unwrap();
    let make = |size: &str| {
        let from = ["--from", text(&manifest), text(&image)];
        uxfs(&[&["mkfs", "-q", "-f", "-i", "maxpct=1", "--size", size][..], &from].concat())
    };
    let output = make("300M");
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && words.contains("the contents need an image of at least"), "{words}");
    assert!(make("fit").status.success());
    repair_is_silent(&image).unwrap();
    let mebibytes = fs::metadata(&image).unwrap().len() >> 20;
    // 10,003 inodes of 512 bytes in chunks of 64 take 4.91 MiB.
    assert!((491..500).contains(&mebibytes), "{mebibytes}");
    judges::judged("xfs_repair", "mkfs --size fit, share of inodes");
}

#[test]
fn archives_hold_the_same() {
    if !judges::all_present(
        &[Judge::GnuTar, Judge::XfsRepair, Judge::XfsIo, Judge::Kernel],
        "archives_hold_the_same",
    ) {
        return;
    }
    let folder = TempDir::new().unwrap();
    let (source, archive) = (folder.path().join("source"), folder.path().join("archive.tar"));
    tree(&source);
    let tar = Judge::GnuTar
        .command()
        .args([
            "--format=pax",
            "--sparse",
            "--xattrs",
            "--atime-preserve=system",
            "-C",
            text(&source),
            "-cf",
            text(&archive),
            ".",
        ])
        .status();
    assert!(tar.unwrap().success());
    let image = folder.path().join("image");
    succeeds(&["mkfs", "-q", "--from", text(&archive), "--atime", "--size", "400M", text(&image)]);
    holds_the_same(&image, &source).unwrap();
    // A pipe, packed.
    let packed = fs::File::create(folder.path().join("packed.zst")).unwrap();
    let packing = Command::new("gzip").arg("-c").arg(&archive).stdout(packed).status().unwrap();
    assert!(packing.success());
    let piped = folder.path().join("piped");
    let status = Command::new(program())
        .args(["mkfs", "-q", "--from", "-", "--atime", "--size", "400M", text(&piped)])
        .stdin(Stdio::from(fs::File::open(folder.path().join("packed.zst")).unwrap()))
        .status()
        .unwrap();
    assert!(status.success());
    holds_the_same(&piped, &source).unwrap();
    judges::judged("kernel and xfs_repair", "mkfs --from an archive and a packed pipe");
}

#[test]
fn later_layers_take_away_and_replace() {
    if !judges::all_present(&[Judge::GnuTar, Judge::XfsRepair], "later_layers_take_away_and_replace") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let layer = |name: &str, make: &dyn Fn(&Path)| {
        let root = folder.path().join(name);
        fs::create_dir(&root).unwrap();
        make(&root);
        let archive = folder.path().join(format!("{name}.tar"));
        let tar = Judge::GnuTar.command().args(["-C", text(&root), "-cf", text(&archive), "."]).status();
        assert!(tar.unwrap().success());
        archive
    };
    let first = layer("first", &|root| {
        fs::create_dir_all(root.join("opaque/below")).unwrap();
        fs::create_dir_all(root.join("gone/below")).unwrap();
        for path in ["kept", "replaced", "removed", "opaque/old", "opaque/below/old", "gone/below/file"] {
            fs::write(root.join(path), "first").unwrap();
        }
    });
    let second = layer("second", &|root| {
        fs::create_dir(root.join("opaque")).unwrap();
        for path in ["replaced", "opaque/new", ".wh.removed", ".wh.gone", "opaque/.wh..wh..opq"] {
            fs::write(root.join(path), if path.contains(".wh.") { "" } else { "second" }).unwrap();
        }
    });
    let expected = [("kept", "first"), ("replaced", "second"), ("opaque/new", "second")];
    let check = |image: &Path| {
        repair_is_silent(image).unwrap();
        let listing = succeeds(&["ls", "-R", text(image)]);
        assert!(!listing.contains("removed") && !listing.contains("gone"), "{listing}");
        assert!(
            !listing.contains("old") && !listing.contains("below") && !listing.contains(".wh."),
            "{listing}"
        );
        for (path, content) in expected {
            assert_eq!(succeeds(&["cat", text(image), path]), content, "{path}");
        }
    };
    let image = folder.path().join("image");
    succeeds(&[
        "mkfs",
        "-q",
        "--size",
        "400M",
        "--from",
        text(&first),
        "--from",
        text(&second),
        text(&image),
    ]);
    check(&image);
    // From a pipe nothing can be looked at twice: what later layers take away is removed from the image.
    let piped = folder.path().join("piped");
    let status = Command::new(program())
        .args(["mkfs", "-q", "--size", "400M", "--from", text(&first), "--from", "-", text(&piped)])
        .stdin(Stdio::from(fs::File::open(&second).unwrap()))
        .status()
        .unwrap();
    assert!(status.success());
    check(&piped);
    judges::judged("xfs_repair", "mkfs --from layers, from files and a pipe");
}

#[test]
fn metadata_is_changed_on_the_way_and_runs_agree() {
    let folder = TempDir::new().unwrap();
    let (source, manifest) = (folder.path().join("source"), folder.path().join("manifest"));
    tree(&source);
    let mut lines = "#mtree\n./large type=file mode=0600 uid=77 gid=88\n./missing uid=1\n".to_owned();
    // In two lines each, more than is kept in memory below.
    for number in 0..5000 {
        lines += &format!("./folder/file-{number} type=file gid={number} optional\n");
    }
    for number in 0..5000 {
        lines += &format!("./folder/file-{number} mode=0640 optional\n");
    }
    fs::write(&manifest, lines).unwrap();
    let make = |name: &str, threads: &str, memory: &str| {
        let image = folder.path().join(name);
        let arguments = ["--size", "400M", "--owner-map", "*:4000", "--manifest", text(&manifest)];
        let arguments = [&["mkfs", "-q", "--reproducible", "--threads", threads][..], &arguments].concat();
        let arguments = [&arguments[..], &["--source-memory", memory, "--from", text(&source)]].concat();
        let output = uxfs(&[&arguments[..], &[text(&image)]].concat());
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words}");
        assert!(words.contains("the source has no such file: /missing"), "{words}");
        assert_eq!(words.lines().count(), 1, "{words}");
        image
    };
    let image = make("one", "1", "64M");
    let stat = |path: &str| -> Value {
        serde_json::from_str(&succeeds(&["--json", "stat", text(&image), path])).unwrap()
    };
    assert_eq!((&stat("large")["uid"], &stat("large")["gid"]), (&77.into(), &88.into()));
    let file = stat("folder/file-7");
    assert_eq!((&file["uid"], &file["gid"], &file["mode"]), (&4000.into(), &7.into(), &"0640".into()));
    let first = Contents::read(&image).unwrap();
    assert!(first == Contents::read(make("two", "3", "64M")).unwrap(), "two runs differ");
    assert!(
        first == Contents::read(make("three", "2", "0")).unwrap(),
        "a manifest in temporary files differs"
    );
}

#[test]
fn a_failed_mkfs_names_the_reason_and_leaves_no_finished_image() {
    let folder = TempDir::new().unwrap();
    let (source, image) = (folder.path().join("source"), folder.path().join("image"));
    tree(&source);
    let fails = |arguments: &[&str], saying: &str| {
        let output = uxfs(arguments);
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && words.contains(saying), "{arguments:?}: {words}");
    };
    fails(&["mkfs", "--size", "fit", text(&image)], "--from");
    fails(&["mkfs", "--from", "/nowhere", "--size", "1G", text(&image)], "/nowhere");
    assert!(!image.exists());
    // The command in front of a pipe has failed.
    fails(&["mkfs", "--from", "-", text(&image)], "it is empty");
    fails(&["mkfs", "--from", "-", "--size", "1G", text(&image)], "it is empty");
    assert!(!image.exists());
    fs::File::create(source.join("too-much")).unwrap().write_all_at(&vec![1; 260 << 20], 0).unwrap();
    fails(&["mkfs", "-q", "--from", text(&source), "--size", "300M", text(&image)], "too-much");
    assert!(!image.exists(), "a new image that was not finished does not stay");
    fs::File::create(&image).unwrap().set_len(300 << 20).unwrap();
    fails(&["mkfs", "-q", "--from", text(&source), text(&image)], "--size fit");
    // Where something was in the image, that is lost.
    let lost = "holds no complete file system, and what was there is lost";
    fails(&["mkfs", "-q", "-f", "--from", text(&source), text(&image)], lost);
    let info = uxfs(&["info", text(&image)]);
    assert!(!info.status.success(), "an image that is there says that it is unfinished");
}

#[test]
fn damaged_and_joined_archives_are_named() {
    if !judges::all_present(&[Judge::GnuTar, Judge::XfsRepair], "damaged_and_joined_archives_are_named") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (archive, packed, image) = (path("a.tar"), path("a.tar.gz"), path("image"));
    for name in ["a", "b"] {
        fs::write(path(name), vec![name.as_bytes()[0]; 100_000]).unwrap();
        let mut tar = Judge::GnuTar.command();
        tar.arg("-cf").arg(path(&format!("{name}.tar"))).arg("-C").arg(folder.path()).arg(name);
        assert!(tar.status().unwrap().success());
    }
    let packing = Command::new("gzip").args(["-1", "-k", text(&archive)]).status().unwrap();
    assert!(packing.success());
    let whole = fs::read(&packed).unwrap();
    let mut damaged = whole.clone();
    let sum = damaged.len() - 6;
    damaged[sum] ^= 1;
    fs::write(&packed, &damaged).unwrap();
    assert!(!Command::new("gzip").args(["-tq", text(&packed)]).status().unwrap().success());
    let source = |name: &str| fs::File::open(path(name)).unwrap();
    for arguments in [&["--from", text(&packed)][..], &["--from", "-"], &["--from", "-", "--size", "400M"]] {
        let mut command = Command::new(program());
        command.args(["mkfs", "-q"]).args(arguments).arg(&image).stdin(source("a.tar.gz"));
        let output = command.output().unwrap();
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && words.contains("checksum"), "{arguments:?}: {words}");
        assert!(!image.exists(), "{arguments:?}");
    }
    let mut joined = fs::read(&archive).unwrap();
    let place = joined.len();
    joined.extend(fs::read(path("b.tar")).unwrap());
    fs::write(path("joined.tar"), &joined).unwrap();
    let place =
        format!("joined.tar: further data behind the end of the archive: {place} bytes from byte {place} on");
    for (options, expected, names) in [(&[][..], place.as_str(), "a\n"), (&["--ignore-zeros"], "", "a\nb\n")]
    {
        let joined = path("joined.tar");
        let arguments = [&["mkfs", "-q", "-f", "--from", text(&joined)], options, &[text(&image)]].concat();
        let output = uxfs(&arguments);
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && words.contains(expected), "{words}");
        assert!(words.is_empty() == expected.is_empty(), "{words}");
        assert_eq!(succeeds(&["ls", text(&image)]), names);
    }
    uxfs_testkit::verdict::repair_is_silent(&image).unwrap();
}

/// A file of the kernel says that it has 4096 bytes, and gives fewer.
#[test]
fn a_file_that_becomes_shorter_is_named() {
    let folder = TempDir::new().unwrap();
    let (manifest, image) = (folder.path().join("manifest"), folder.path().join("image"));
    let lines = "#mtree\n. type=dir\n./short type=file mode=0644 contents=/sys/kernel/uevent_seqnum\n";
    fs::write(&manifest, lines).unwrap();
    let output = uxfs(&["mkfs", "-q", "--from", text(&manifest), "--size", "300M", text(&image)]);
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(words.contains("/sys/kernel/uevent_seqnum: became shorter while it was read"), "{words}");
    let contents = uxfs(&["cat", text(&image), "/short"]).stdout;
    let host = fs::read("/sys/kernel/uevent_seqnum").unwrap();
    assert_eq!(contents.len(), 4096);
    assert_eq!(contents.iter().take_while(|byte| **byte != 0).count(), host.len());
    repair_is_silent(&image).unwrap();
}

/// On a host that can, image and source share their blocks.
#[test]
fn blocks_are_shared_with_the_source() {
    if !judges::all_present(
        &[Judge::Mkfs, Judge::XfsRepair, Judge::Kernel],
        "blocks_are_shared_with_the_source",
    ) {
        return;
    }
    let folder = TempDir::new().unwrap();
    let host = folder.path().join("host");
    fs::File::create(&host).unwrap().set_len(1 << 30).unwrap();
    assert!(Judge::Mkfs.command().args(["-q", "-f"]).arg(&host).status().unwrap().success());
    let mount = LoopMount::new(&host, Access::ReadWrite).unwrap();
    let (source, image) = (mount.join("source"), mount.join("image"));
    fs::create_dir(&source).unwrap();
    let content: Vec<u8> = (0..8_u32 << 18).flat_map(u32::to_le_bytes).collect();
    fs::write(source.join("large"), &content).unwrap();
    fs::write(source.join("odd"), &content[..3_000_001]).unwrap();
    let lower = mount.join("lower");
    fs::create_dir(&lower).unwrap();
    fs::write(lower.join("large"), "hidden").unwrap();
    // Alone, and as one of two layers.
    for layers in [&[text(&source)][..], &[text(&lower), text(&source)]] {
        let from: Vec<&str> = layers.iter().flat_map(|layer| ["--from", layer]).collect();
        let arguments = [&["--json", "mkfs", "-f", "--size", "300M"][..], &from, &[text(&image)]].concat();
        let document: Value = serde_json::from_str(&succeeds(&arguments)).unwrap();
        let shared = document["contents"]["shared_bytes"].as_u64().unwrap();
        assert!(shared >= content.len() as u64 + 2_990_000, "{layers:?}: {shared}");
        repair_is_silent(&image).unwrap();
    }
    let read = |path| uxfs(&["cat", text(&image), path]).stdout;
    assert!(read("large") == content && read("odd") == content[..3_000_001]);
    // What is written to the source now is not seen in the image.
    fs::write(source.join("large"), vec![0; content.len()]).unwrap();
    assert!(read("large") == content);
    mount.unmount().unwrap();
    judges::judged("kernel", "blocks shared with the source");
}

#[test]
fn archives_of_bsdtar_in_every_packing_hold_the_same() {
    let judges = [Judge::BsdTar, Judge::XfsRepair, Judge::XfsIo, Judge::Kernel];
    if !judges::all_present(&judges, "archives_of_bsdtar_in_every_packing_hold_the_same") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let source = folder.path().join("source");
    tree(&source);
    for packing in ["--format=pax", "--gzip", "--zstd", "--xz"] {
        let archive = folder.path().join("archive");
        let tar = Judge::BsdTar
            .command()
            .args([packing, "--format=pax", "-C", text(&source), "-cf", text(&archive), "."])
            .status();
        assert!(tar.unwrap().success(), "{packing}");
        let image = folder.path().join("image");
        succeeds(&["mkfs", "-q", "-f", "--from", text(&archive), "--atime", "--size", "400M", text(&image)]);
        holds_the_same(&image, &source).unwrap_or_else(|error| panic!("{packing}: {error:#}"));
        judges::judged("kernel and xfs_repair", &format!("mkfs --from an archive of bsdtar, {packing}"));
    }
}

/// The same prototype file, put into an image by mkfs.xfs and by us.
#[test]
fn prototype_files_mean_what_mkfs_xfs_means() {
    let judges = [Judge::Mkfs, Judge::XfsRepair, Judge::XfsIo, Judge::Kernel];
    if !judges::all_present(&judges, "prototype_files_mean_what_mkfs_xfs_means") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let content = folder.path().join("content");
    fs::write(&content, vec![b'c'; 10_000]).unwrap();
    let prototype = folder.path().join("prototype");
    let lines = [
        "/dev/null",
        "0 0",
        "d--755 0 0",
        &format!("file ---644 5 6 {}", text(&content)),
        "folder d--750 1 2",
        "link l--777 0 0 ../file",
        "null c--666 0 0 1 3",
        "fifo p--600 7 8",
        "$",
        "$",
    ];
    fs::write(&prototype, lines.join("\n") + "\n").unwrap();
    let (ours, theirs) = (folder.path().join("ours"), folder.path().join("theirs"));
    succeeds(&["mkfs", "-q", "--size", "300M", "-p", text(&prototype), text(&ours)]);
    fs::File::create(&theirs).unwrap().set_len(300 << 20).unwrap();
    let mkfs = Judge::Mkfs.command().args(["-q", "-p", text(&prototype)]).arg(&theirs).status();
    assert!(mkfs.unwrap().success());
    repair_is_silent(&ours).unwrap();
    let listing = |image: &Path| {
        let mut paths = Vec::new();
        for path in ["file", "folder", "folder/link", "folder/null", "folder/fifo"] {
            let stat: Value =
                serde_json::from_str(&succeeds(&["--json", "stat", text(image), path])).unwrap();
            let wanted = ["mode", "uid", "gid", "link_count", "size_bytes", "type", "device", "target"];
            paths.push((path, wanted.map(|field| stat[field].clone())));
        }
        paths
    };
    assert_eq!(listing(&ours), listing(&theirs));
    assert_eq!(succeeds(&["cat", text(&ours), "file"]).len(), 10_000);
    judges::judged("mkfs.xfs", "a prototype file");
}
