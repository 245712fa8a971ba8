//! Images that can be read and must not be written: every way to write says no and leaves every byte as it was, because recovery
//! would refuse after a crash what is asked for now.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;
use uxfs_block::{
    device::BlockDevice,
    engine::{OpenOptions, sync::SyncDevice},
};
use uxfs_format::{
    field_table::OnDisk,
    geometry::Geometry,
    log::record::{RecordHeader, seal},
    superblock::Superblock,
    units::Lsn,
};
use uxfs_journal::{LogState, area::LogArea};
use uxfs_testkit::{
    image,
    judges::{Judge, judged},
    mount::{Access, LoopMount},
    require,
    sparse::Contents,
    verdict,
    xfs_db::XfsDb,
};

use crate::common::{succeeds, text, uxfs};

const MEBIBYTE: u64 = 1 << 20;
/// Features that need no btrees but those of old.
const OLD: &[&str] = &["-m", "reflink=0,rmapbt=0,finobt=0,inobtcount=0,bigtime=0", "-i", "exchange=0"];

struct Subject {
    _folder: TempDir,
    path: PathBuf,
}

impl Subject {
    /// An image with `/there/file`, closed by uxfs.
    fn new(options: &[&str]) -> Self {
        let folder = TempDir::with_prefix_in("uxfs-opening-", image::memory_folder()).unwrap();
        let path = folder.path().join("image");
        image::make(&path, 128 * MEBIBYTE, options).unwrap();
        let subject = Self { _folder: folder, path };
        subject.edit("mkdir there; touch there/file");
        subject
    }

    fn name(&self) -> &str {
        text(&self.path)
    }

    fn edit(&self, script: &str) {
        succeeds(&["shell", self.name(), "-c", script]);
    }

    /// Changes fields by xfs_db, which makes checksums right.
    fn db(&self, commands: &[&str]) {
        let mut db = Judge::XfsDb.command();
        db.args(["-x", "-f"]).args(commands.iter().flat_map(|command| ["-c", command])).arg(&self.path);
        let output = db.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn field(&self, place: &str, name: &str) -> String {
        let printed = XfsDb::new(&self.path).run(&[place, &format!("p {name}")]).unwrap();
        printed.trim().rsplit(" = ").next().unwrap().to_owned()
    }

    fn device(&self) -> SyncDevice {
        SyncDevice::open(&self.path, &OpenOptions { writable: true, ..OpenOptions::default() }).unwrap()
    }

    fn geometry(&self) -> Geometry {
        let mut sector = [0; 512];
        self.device().read(0, &mut sector).unwrap();
        Geometry::new(Superblock::prefix_of(&sector).unwrap())
    }

    /// Changes the record that closed the log, and makes its checksum right.
    fn change_newest_record(&self, change: impl FnOnce(&mut RecordHeader)) {
        let (device, geometry) = (self.device(), self.geometry());
        let area = LogArea::new(&device, &geometry).unwrap();
        let LogState::Clean(log) = uxfs_journal::examine(&device, &geometry).unwrap() else {
            panic!("dirty")
        };
        let mut bytes = vec![0; 1024];
        area.read(log.newest.block(), &mut bytes).unwrap();
        let header = RecordHeader::prefix_of_mut(&mut bytes).unwrap();
        assert_eq!((header.blocks(), header.header_blocks()), (2, 1));
        change(header);
        let (headers, payload) = bytes.split_at_mut(512);
        assert!(seal(headers, payload));
        device.write(Geometry::byte_of_sector(area.sector(log.newest.block())), headers).unwrap();
    }

    fn zero_log(&self) {
        let (device, geometry) = (self.device(), self.geometry());
        let area = LogArea::new(&device, &geometry).unwrap();
        let zeros = vec![0; area.blocks() as usize * 512];
        device.write(Geometry::byte_of_sector(area.sector(0)), &zeros).unwrap();
    }

    /// Every way to write is refused with this exit code and these words, and no byte changes; reading goes on.
    fn is_refused(&self, code: i32, words: &str) {
        let before = Contents::read(&self.path).unwrap();
        for way in ways(self.name()) {
            self.refuses(&way, code, words, &before);
        }
        assert_eq!(succeeds(&["ls", self.name(), "/there"]), "file\n");
        judged("comparison", &format!("{words}: no byte changed by {} commands", ways("").len()));
    }

    fn refuses(&self, way: &[&str], code: i32, words: &str, before: &Contents) {
        let output = uxfs(way);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{way:?}: {told}");
        assert!(told.contains(words), "{way:?}: {told}");
        assert!(Contents::read(&self.path).unwrap() == *before, "{way:?} changed the image");
    }
}

/// Every way to write to an image that is there, but for `admin`, which does not use the log, and `replay`, which has nothing to
/// do where it is clean.
fn ways(image: &str) -> Vec<Vec<&str>> {
    let of_image = |words: &'static str| {
        let mut words: Vec<&str> = words.split_whitespace().collect();
        for word in &mut words {
            *word = match *word {
                "IMAGE" => image,
                "SCRIPT" => "mkdir /new",
                word => word,
            };
        }
        words
    };
    let ways = [
        "mkdir IMAGE /new",
        "put IMAGE /etc/hostname /new",
        "cp IMAGE /there/file /new",
        "mv IMAGE /there/file /new",
        "ln IMAGE /there/file /new",
        "rm IMAGE /there/file",
        "rmdir IMAGE /there",
        "chmod IMAGE 600 /there/file",
        "chown IMAGE 1 /there/file",
        "touch IMAGE /new",
        "truncate IMAGE -s 9 /there/file",
        "mknod IMAGE /new p",
        "mkfifo IMAGE /new",
        "setfattr IMAGE -n user.a -v b /there/file",
        "shell IMAGE -c SCRIPT",
        "bench fsmark --image IMAGE -d /b -n 1 -s 0",
        "bench fsmark --image IMAGE -d /b -n 1 -s 0 --log-mode immediate",
    ];
    ways.into_iter().map(of_image).collect()
}

#[test]
fn metadata_ahead_of_the_log() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::XfsDb, Judge::Kernel);
    let subject = Subject::new(&["-m", "rmapbt=1"]);
    subject.db(&["logformat -c 5"]);
    subject.edit("mkdir a; touch a/b; setfattr -n user.x -v y a/b; sync; mkdir c");
    verdict::repair_is_silent(&subject.path).unwrap();
    let reset = |subject: &Subject, way: usize| match way {
        0 => subject.db(&["logformat -c 1"]),
        _ => subject.zero_log(),
    };
    for way in 0..2 {
        reset(&subject, way);
        assert!(LoopMount::new(&subject.path, Access::ReadOnly).is_err(), "Linux does not mount it either");
        subject.is_refused(3, "lies ahead of the log");
        let told = uxfs(&["touch", subject.name(), "/new"]).stderr;
        assert!(String::from_utf8_lossy(&told).contains("uxfs repair makes a new log"));
    }
    // Not the superblock alone: each header, then what is read on the way.
    subject.db(&["sb 0", "write -d lsn 0"]);
    let places = ["agf 0", "agi 0", "agfl 0", "agf 1", "agi 1", "agfl 1", "agf 2", "agf 3"];
    for place in places {
        if subject.field(place, "lsn") == "0" || subject.field(place, "lsn") == "0x0" {
            continue;
        }
        subject.is_refused(3, "lies ahead of the log");
        subject.db(&[place, "write -d lsn 0"]);
    }
    for group in 0..4 {
        subject.db(&[&format!("agi {group}"), "write -d lsn 0"]);
        subject.db(&[&format!("agfl {group}"), "write -d lsn 0"]);
        subject.db(&[&format!("agf {group}"), "write -d lsn 0"]);
    }
    let before = Contents::read(&subject.path).unwrap();
    let refused = uxfs(&["setfattr", subject.name(), "-n", "user.x", "-v", "z", "/a/b"]);
    let told = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(3), "{told}");
    assert!(told.contains("lies ahead of the log"), "{told}");
    before.write(&subject.path).unwrap();
    judged("kernel", "an image with a log behind its metadata");

    // The remedy works.
    let repaired = Judge::XfsRepair.command().arg("-f").arg(&subject.path).output().unwrap();
    assert!(repaired.status.success());
    subject.edit("mkdir d; rm a/b; rmdir a");
    verdict::repair_is_silent(&subject.path).unwrap();
    assert_eq!(succeeds(&["ls", subject.name()]), "c\nd\nthere\n");
}

#[test]
fn changes_after_a_log_was_made_anew_in_front_of_the_metadata() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::XfsDb, Judge::Kernel);
    let subject = Subject::new(&[]);
    subject.zero_log();
    // Old records in the middle of what looks like a log of zeros.
    let (device, geometry) = (subject.device(), subject.geometry());
    let area = LogArea::new(&device, &geometry).unwrap();
    let mut old = vec![0; 512];
    old[..4].copy_from_slice(&3_u32.to_be_bytes());
    for block in [area.blocks() / 2, area.blocks() - 1] {
        device.write(Geometry::byte_of_sector(area.sector(block)), &old).unwrap();
    }
    // The metadata says that there was a log: only xfs_repair can say that it does not count.
    subject.is_refused(3, "lies ahead of the log");
    subject.db(&["logformat -c 9"]);
    subject.edit("mkdir later");
    verdict::repair_is_silent(&subject.path).unwrap();
}

#[test]
fn features_that_nobody_knows_yet() {
    require!(Judge::Mkfs, Judge::XfsDb, Judge::Kernel);
    let set = |subject: &Subject, field: &str, bits: u32| {
        let now = subject.field("sb 0", field);
        let now = u32::from_str_radix(now.trim_start_matches("0x"), 16).unwrap();
        subject.db(&["sb 0", &format!("write -d {field} {:#x}", now | bits)]);
    };
    for (field, words) in [
        ("features_ro_compat", "unknown read-only-compatible feature bits 0x40000"),
        ("features_log_incompat", "unknown log feature bits 0x40000"),
    ] {
        let subject = Subject::new(&[]);
        set(&subject, field, 0x4_0000);
        subject.is_refused(4, words);
        let before = Contents::read(&subject.path).unwrap();
        let mut others = vec![
            vec!["admin", "--label", "x", subject.name()],
            vec!["admin", "--uuid", "random", subject.name()],
            vec!["bench", "fsmark", "--image", subject.name(), "-n", "1", "-s", "0", "--log-mode", "bulk"],
        ];
        others.iter().for_each(|way| subject.refuses(way, 4, words, &before));

        // The same with a dirty log.
        let subject = Subject::new(&[]);
        make_dirty(&subject.path);
        set(&subject, field, 0x4_0000);
        let before = Contents::read(&subject.path).unwrap();
        others = ways(subject.name());
        others.push(vec!["replay", subject.name()]);
        others.push(vec!["admin", "--label", "x", subject.name()]);
        others.push(vec!["admin", "--uuid", "random", subject.name()]);
        others.push(vec!["ls", subject.name()]);
        others.retain(|way| !(way[0] == "bench" && way.contains(&"bulk")));
        others.iter().for_each(|way| subject.refuses(way, 4, words, &before));
        succeeds(&["ls", "--ignore-log", subject.name()]);
        judged("comparison", &format!("{words}: clean and dirty, byte for byte"));
    }
}

/// Leaves what a kernel leaves that stops.
fn make_dirty(path: &Path) {
    let mount = LoopMount::new(path, Access::ReadWrite).unwrap();
    fs::create_dir(mount.join("dirty")).unwrap();
    let stopped = Command::new("xfs_io").args(["-x", "-c", "shutdown -f"]).arg(mount.path()).status();
    assert!(stopped.unwrap().success());
    mount.unmount().unwrap();
}

#[test]
fn counts_of_quotas_are_no_longer_said_to_be_right() {
    require!(Judge::Mkfs, Judge::XfsDb, Judge::Kernel);
    for (options, flags, left) in [
        (&[][..], "0x1c7", "0"),
        (&[], "0x104", "0"),
        (&[], "0x3", "0"),
        (&["-m", "metadir=1"], "0x7cf", "0x2cb"),
    ] {
        let subject = Subject::new(options);
        let set = ["sb 0", &format!("write -d qflags {flags}")];
        subject.db(&set);
        // Reading changes nothing, and neither does a refused command.
        succeeds(&["ls", subject.name()]);
        assert_eq!(subject.field("sb 0", "qflags"), flags);
        subject.edit("mkdir counted-by-nobody");
        assert_eq!(subject.field("sb 0", "qflags"), left, "{options:?}");
        if options.is_empty() && flags != "0x104" {
            subject.db(&set);
            LoopMount::new(&subject.path, Access::ReadWrite).unwrap().unmount().unwrap();
            assert_eq!(subject.field("sb 0", "qflags"), left, "so does Linux");
        }
        if !options.is_empty() {
            // The log of this kernel, which has no quotas, would forget them.
            continue;
        }
        // In a recovered image, too.
        make_dirty(&subject.path);
        subject.db(&set);
        succeeds(&["replay", subject.name()]);
        assert_eq!(subject.field("sb 0", "qflags"), left, "{options:?} after replay");
        succeeds(&["rmdir", subject.name(), "/dirty"]);
    }
    judged("xfs_db and the kernel", "flags of quotas");
}

#[test]
fn a_newest_record_that_contradicts_itself() {
    require!(Judge::Mkfs, Judge::XfsDb);
    type Change = fn(&mut RecordHeader);
    let changes: [(Change, &str); 4] = [
        (|header| header.cycle.set(163_663), "has the log sequence number"),
        (|header| header.lsn.set(0), "belongs at log block 0"),
        (
            |header| {
                header.lsn.set(Lsn::from_parts(163_663, header.lsn().block()).get());
                header.cycle.set(163_663);
            },
            "is of cycle 1, not 163663",
        ),
        (|header| header.tail_lsn.set(u64::from(u32::MAX)), "lies outside the log"),
    ];
    for (change, words) in changes {
        let subject = Subject::new(&[]);
        subject.change_newest_record(change);
        subject.is_refused(3, words);
        let before = Contents::read(&subject.path).unwrap();
        let admin = ["admin", "--label", "x", "--uuid", "random", subject.name()];
        subject.refuses(&admin, 3, words, &before);
    }
}

#[test]
fn lists_of_inodes_without_names_that_lead_elsewhere() {
    require!(Judge::Mkfs, Judge::XfsDb);
    for options in [&[][..], OLD] {
        let subject = Subject::new(options);
        let number: u64 = succeeds(&["--json", "stat", subject.name(), "/there/file"])
            .split("\"inode\":")
            .nth(1)
            .and_then(|rest| {
                rest.split(|character: char| !character.is_ascii_digit()).next().unwrap().parse().ok()
            })
            .unwrap();
        let free = number + 20;
        for (list, inode) in [
            // Another list's; one that has a name; a free one.
            ((number + 1) % 64, number),
            (number % 64, number),
            (free % 64, free),
        ] {
            let set = format!("write -d unlinked[{list}] {inode}");
            subject.db(&["agi 0", &set]);
            subject.is_refused(3, &format!("unlinked list {list}"));
            subject.db(&["agi 0", &format!("write -d unlinked[{list}] 0xffffffff")]);
        }
        subject.edit("rm there/file");
        verdict::repair_is_silent(&subject.path).unwrap();
    }
}

#[test]
fn groups_that_recovery_could_not_read() {
    require!(Judge::Mkfs, Judge::XfsDb);
    for options in [&[][..], OLD] {
        let subject = Subject::new(options);
        let places: &[&[&str]] = if options.is_empty() {
            &[&["agf 3"], &["agi 3"], &["agf 2", "addr refcntroot"]]
        } else {
            &[&["agf 3"], &["agi 3"]]
        };
        for place in places {
            let whole = Contents::read(&subject.path).unwrap();
            let change = if place.len() > 1 { "write -d numrecs 9999" } else { "write -d length 3" };
            subject.db(&[*place, &[change]].concat());
            assert!(Contents::read(&subject.path).unwrap() != whole, "{place:?}");
            subject.is_refused(3, "(sector ");
            whole.write(&subject.path).unwrap();
        }
    }
}

/// The extent of a file as long as the log.
struct Elsewhere {
    start_block: u64,
    group: u64,
    group_block: u64,
}

impl Subject {
    /// Makes `/other/file`, which is as long as the log and lies in one extent.
    fn make_file_like_log(&self) -> Elsewhere {
        let log_bytes = u64::from(self.geometry().log_blocks) * 4096;
        let contents = self.path.with_file_name("contents");
        fs::write(&contents, vec![b'l'; usize::try_from(log_bytes).unwrap()]).unwrap();
        self.edit("mkdir other");
        succeeds(&["put", self.name(), text(&contents), "/other/file"]);
        let stat: serde_json::Value =
            serde_json::from_str(&succeeds(&["--json", "stat", self.name(), "/other/file"])).unwrap();
        let inode = format!("inode {}", stat["inode"]);
        let map = XfsDb::new(&self.path).run(&[inode.as_str(), "bmap"]).unwrap();
        let words: Vec<&str> = map.split([' ', '(', ')', '/']).filter(|word| !word.is_empty()).collect();
        let number = |index: usize| words[index].parse::<u64>().unwrap();
        assert_eq!((words[3], number(8)), ("startblock", log_bytes / 4096), "{map}");
        Elsewhere { start_block: number(4), group: number(5), group_block: number(6) }
    }

    /// Copies the log to another place, and gives that place as the log's in the superblocks of these groups.
    fn move_log(&self, place: &Elsewhere, groups: &[u64]) {
        let (device, geometry) = (self.device(), self.geometry());
        let area = LogArea::new(&device, &geometry).unwrap();
        let mut log = vec![0; area.blocks() as usize * 512];
        area.read(0, &mut log).unwrap();
        let bytes = place.group * u64::from(geometry.ag_blocks) + place.group_block;
        device.write(bytes * 4096, &log).unwrap();
        for group in groups {
            self.db(&[&format!("sb {group}"), &format!("write -d logstart {}", place.start_block)]);
        }
    }

    /// As [`is_refused`](Self::is_refused), also by `admin` and in bulk mode.
    fn is_refused_by_all(&self, words: &str) {
        self.is_refused(3, words);
        let before = Contents::read(&self.path).unwrap();
        self.refuses(
            &["bench", "fsmark", "--image", self.name(), "-n", "1", "-s", "0", "--log-mode", "bulk"],
            3,
            words,
            &before,
        );
    }
}

#[test]
fn a_superblock_with_the_log_elsewhere() {
    require!(Judge::Mkfs, Judge::XfsDb);
    for options in [&[][..], OLD] {
        let all = [0, 1, 2, 3];
        let has_reverse_map = options.is_empty();

        // Over a file, in the first superblock alone.
        let subject = Subject::new(options);
        let place = subject.make_file_like_log();
        let whole = Contents::read(&subject.path).unwrap();
        subject.move_log(&place, &[0]);
        subject.is_refused_by_all("but the superblock of group 3 says");
        let before = Contents::read(&subject.path).unwrap();
        let admin = ["admin", "--label", "x", subject.name()];
        subject.refuses(&admin, 3, "but the superblock of group 1 says", &before);

        // In all superblocks: only a reverse map knows the file.
        whole.write(&subject.path).unwrap();
        if has_reverse_map {
            subject.move_log(&place, &all);
            subject.is_refused_by_all("no mapping says that log owns");
            whole.write(&subject.path).unwrap();
        } else {
            // The btree of inodes is known in any case.
            let chunk = format!("write -d recs[1].startino {}", (place.group_block + 64) * 8);
            let root = format!("agi {}", place.group);
            subject.db(&[&root, "addr root", &chunk]);
            subject.move_log(&place, &all);
            subject.is_refused_by_all("lies over inodes");
            whole.write(&subject.path).unwrap();
        }

        // Over free space.
        subject.edit("rm other/file");
        subject.move_log(&place, &all);
        subject.is_refused_by_all("lies over free blocks");
        // With a dirty log.
        whole.write(&subject.path).unwrap();
        make_dirty(&subject.path);
        subject.move_log(&place, &[0]);
        let before = Contents::read(&subject.path).unwrap();
        let mut others = ways(subject.name());
        others.push(vec!["replay", subject.name()]);
        others.iter().for_each(|way| subject.refuses(way, 3, "but the superblock of group 3 says", &before));
    }
}

#[test]
fn damage_of_what_tells_where_the_log_is() {
    require!(Judge::Mkfs, Judge::XfsDb);
    for options in [&[][..], OLD] {
        // The structures that are left tell enough.
        let subject = Subject::new(options);
        subject.db(&["agf 2", "addr bnoroot", "write -d magic 0"]);
        succeeds(&["chmod", subject.name(), "600", "/there/file"]);
        // Without the last superblock, the free space and the reverse map of a log's group, nothing tells.
        subject.db(&["sb 3", "write -d magicnum 0"]);
        if options.is_empty() {
            succeeds(&["chmod", subject.name(), "640", "/there/file"]);
            subject.db(&["agf 2", "addr rmaproot", "write -d magic 0"]);
        }
        subject.is_refused(3, "(sector ");
    }
}

#[test]
fn a_superblock_that_names_a_file_as_the_root_directory_is_not_written_to() {
    require!(Judge::XfsDb);
    let words = "names no directory";
    // The inode of a file, and a free one.
    for inode in [129, 150] {
        let subject = Subject::new(&[]);
        subject.db(&["sb 0", &format!("write -d rootino {inode}")]);
        let before = Contents::read(&subject.path).unwrap();
        for way in ways(subject.name()) {
            subject.refuses(&way, 3, words, &before);
        }
        judged("comparison", &format!("{words}: no byte changed by {} commands", ways("").len()));
    }
}
