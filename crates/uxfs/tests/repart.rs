//! systemd-repart makes disks with uxfs in the place of mkfs.xfs: what the kernel finds in the partitions, beside what the source holds
//! and what mkfs.xfs makes of it.

use std::{
    fs::{self, File},
    os::unix::{
        ffi::OsStrExt,
        fs::{FileExt, PermissionsExt, symlink},
    },
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
    time::Duration,
};

use serde_json::Value;
use tempfile::TempDir;
use uxfs_testkit::{
    exclusive::Exclusive,
    image::memory_folder,
    judges::{Judge, judged},
    loop_device::LoopDevice,
    manifest::{self, FileKind, Header, Manifest},
    mount::{Access, LoopMount},
    require,
    verdict::{portable, repair_is_silent, same},
    walk,
    xfs_db::XfsDb,
};

use crate::common;
use crate::common::{host, program, succeeds, text};

/// All identifiers of a disk come from it.
const SEED: &str = "--seed=11111111-2222-3333-4444-555555555555";
/// Of the superblock: what depends on where files lie, and on the moment.
const COUNTS: [&str; 5] = ["icount", "ifree", "fdblocks", "crc", "lsn"];
/// The first systemd that makes file systems without devices.
const FIRST_WITHOUT_DEVICES: u32 = 254;

/// A partition, in their order on the disk.
struct Part {
    /// Of the partition. That of the file system is its beginning.
    label: &'static str,
    /// What defines it beside its label, size and form.
    definition: &'static str,
    /// Its size where it is not found out from the contents.
    size: &'static str,
}

const PARTS: [Part; 4] = [
    Part { label: "system", definition: "Type=root\nLabel=system\nCopyFiles=/system:/\n", size: "320M" },
    Part {
        label: "a-long-label-of-a-partition",
        definition: "Type=linux-generic\nLabel=a-long-label-of-a-partition\nCopyFiles=/system:/copied\n\
                     MakeDirectories=/made /made/deeper\n",
        size: "310M",
    },
    Part { label: "home", definition: "Type=home\nCopyFiles=/user:/\n", size: "300M" },
    Part { label: "var", definition: "Type=var\nAddValidateFS=no\n", size: "300M" },
];
/// The partition that may be as large as it must be.
const FITTED: usize = 2;
/// The partition without files.
const EMPTY: usize = 3;

/// How files get into a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// mkfs.xfs gets a directory.
    Directory,
    /// mkfs.xfs gets a description of the files, which leaves a part of their metadata out.
    Description,
    /// systemd-repart copies them itself, with the kernel.
    Mounted,
}

#[derive(Debug, Clone, Copy)]
enum Maker {
    Uxfs,
    Mkfs,
}

/// A disk that was made.
struct Disk {
    path: PathBuf,
    way: Way,
    /// The command lines of mkfs.xfs.
    calls: Vec<String>,
    table: Value,
}

impl Disk {
    /// Byte offset and length of a partition, as sfdisk tells them.
    fn place(&self, index: usize) -> (u64, u64) {
        let part = &self.table[index];
        let bytes = |field: &str| part[field].as_u64().unwrap() * 512;
        (bytes("start"), bytes("size"))
    }

    /// The partition as a device that cannot be written to.
    fn device(&self, index: usize) -> LoopDevice {
        let (start, size) = self.place(index);
        let place = [start.to_string(), size.to_string()];
        LoopDevice::attach(&self.path, &["--read-only", "--offset", &place[0], "--sizelimit", &place[1]])
            .unwrap()
    }

    /// What the kernel finds in a partition, and uxfs as well.
    fn holds(&self, index: usize) -> Manifest {
        let (start, size) = self.place(index);
        let place = format!("offset={start},sizelimit={size}");
        let mount = LoopMount::with_options(&self.path, Access::ReadOnly, &place).unwrap();
        let kernel = manifest::from_mount(mount.path(), header("kernel")).unwrap();
        mount.unmount().unwrap();
        let device = self.device(index);
        same(&kernel, &walk::from_image(device.path(), header("uxfs")).unwrap()).unwrap();
        kernel
    }

    /// The fields of the superblock that options decide.
    fn superblock(&self, index: usize) -> Vec<(String, String)> {
        let device = self.device(index);
        let fields = XfsDb::new(device.path()).print(&["sb 0", "print"]).unwrap();
        let fields = fields.into_iter().map(|field| (field.name, field.value));
        fields.filter(|(name, _)| !COUNTS.contains(&name.as_str())).collect()
    }
}

fn header(judge: &str) -> Header {
    Header { image: "partition".into(), judge: judge.into(), made_by: "systemd-repart".into() }
}

/// What must be equal, whatever the way: without what systemd-repart adds of its own, and the times of directories that it makes.
fn kept(manifest: Manifest, way: Way) -> Manifest {
    let mut manifest = portable(manifest);
    for entry in &mut manifest.entries {
        let path = String::from_utf8_lossy(&entry.path.0).into_owned();
        let is_made_on_the_way = path == "/" || path.starts_with("/made");
        let Some(details) = entry.details.as_deref_mut() else { continue };
        details.access_time = None;
        if path == "/" {
            // systemd-repart leaves the root of a file system to root.
            (details.user_id, details.group_id) = (0, 0);
        }
        if way == Way::Description {
            details.link_count = None;
            // A prototype file has no words for sticky bits, nor for attributes of special files.
            details.mode &= !0o1000;
            if entry.kind != FileKind::Regular {
                details.attributes = None;
            }
        }
        if way == Way::Description || is_made_on_the_way {
            details.modification_time = None;
        }
        if let Some(attributes) = &mut details.attributes {
            attributes.retain(|attribute| !attribute.name.0.starts_with(b"user.validatefs."));
        }
    }
    manifest
}

/// mkfs.xfs gives ACLs of its source the names of attributes that users set.
fn without_acls(mut manifest: Manifest) -> Manifest {
    let details = manifest.entries.iter_mut().filter_map(|entry| entry.details.as_deref_mut());
    for attributes in details.filter_map(|details| details.attributes.as_mut()) {
        attributes.retain(|attribute| !attribute.name.0.ends_with(b"posix_acl_access"));
    }
    manifest
}

/// A folder with a source, definitions, and what the partitions must hold.
struct Workshop {
    folder: TempDir,
    repart: Judge,
    /// Whether one partition becomes as large as it must be.
    is_fitted: bool,
}

impl Workshop {
    fn new(repart: Judge) -> Self {
        let folder = tempfile::Builder::new().prefix("uxfs-repart-").tempdir_in(memory_folder()).unwrap();
        let workshop = Self { folder, repart, is_fitted: false };
        for name in ["source/user", "definitions", "temporary", "uxfs", "mkfs"] {
            fs::create_dir_all(workshop.path(name)).unwrap();
        }
        fill(&workshop.path("source/system"));
        fs::write(workshop.path("source/user/mine"), vec![7; 700_000]).unwrap();
        host("chown", &["-R", "1000:1001", text(&workshop.path("source/user"))]);
        for (index, (made, source)) in
            [("", "system"), ("/copied", "system"), ("", "user")].into_iter().enumerate()
        {
            let target = format!("{}{made}", text(&workshop.expected(index)));
            fs::create_dir_all(&target).unwrap();
            let source = workshop.path(&format!("source/{source}"));
            host("cp", &["-a", &format!("{}/.", text(&source)), &target]);
        }
        fs::create_dir_all(workshop.expected(1).join("made/deeper")).unwrap();
        fs::create_dir(workshop.expected(EMPTY)).unwrap();
        workshop
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What a partition must hold.
    fn expected(&self, index: usize) -> PathBuf {
        self.path(&format!("expected-{index}"))
    }

    fn version(&self) -> u32 {
        let output = self.repart.command().arg("--version").output().unwrap();
        let words = String::from_utf8_lossy(&output.stdout).into_owned();
        words.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// A folder in which mkfs.xfs is one of the two, and writes its command lines down.
    fn caller(&self, maker: Maker) -> PathBuf {
        let (folder, tool) = match maker {
            Maker::Uxfs => (self.path("uxfs"), PathBuf::from(program())),
            Maker::Mkfs => (self.path("mkfs"), Judge::Mkfs.path().unwrap()),
        };
        let link = folder.join("real/mkfs.xfs");
        if !link.exists() {
            fs::create_dir(folder.join("real")).unwrap();
            symlink(tool, &link).unwrap();
            let calls = self.path("calls");
            let script = format!(
                "#!/bin/sh\nfor word; do [ ! -d \"$word\" ] || echo 'a directory' >>'{0}'; done\n\
                 echo \"$*\" >>'{0}'\nexec '{1}' \"$@\"\n",
                text(&calls),
                text(&link)
            );
            fs::write(folder.join("mkfs.xfs"), script).unwrap();
            fs::set_permissions(folder.join("mkfs.xfs"), fs::Permissions::from_mode(0o755)).unwrap();
        }
        folder
    }

    /// Runs systemd-repart, for a disk called `disk`.
    fn run(&self, maker: Maker, options: &[&str], environment: &[(&str, &str)]) -> Output {
        for (index, part) in PARTS.iter().enumerate() {
            let size = match index == FITTED && self.is_fitted {
                true => "Minimize=guess\n".to_owned(),
                false => format!("SizeMinBytes={0}\nSizeMaxBytes={0}\n", part.size),
            };
            let definition = format!("[Partition]\n{}Format=xfs\n{size}", part.definition);
            fs::write(self.path(&format!("definitions/{index}0.conf")), definition).unwrap();
        }
        for name in ["disk", "calls"] {
            let _ = fs::remove_file(self.path(name));
        }
        let folders = format!("{}:{}", text(&self.caller(maker)), std::env::var("PATH").unwrap());
        let mut command = self.repart.command();
        command.args(["--empty=create", "--size=auto", "--dry-run=no", "--no-pager", SEED]).args(options);
        command.arg(format!("--root={}", text(&self.path("source"))));
        command.arg(format!("--definitions={}", text(&self.path("definitions"))));
        command.arg(self.path("disk")).env("PATH", folders).env("TMPDIR", self.path("temporary"));
        let output = {
            // One seed gives one UUID, and the kernel mounts no two file systems of one UUID.
            let _one = Exclusive::wait_for("systemd-repart").unwrap();
            command.envs(environment.iter().copied()).output().unwrap()
        };
        self.leaves_no_devices();
        output
    }

    fn makes(&self, maker: Maker, options: &[&str], environment: &[(&str, &str)]) -> Disk {
        let output = self.run(maker, options, environment);
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{maker:?}: {words}");
        let calls = fs::read_to_string(self.path("calls")).unwrap();
        let way = match () {
            () if calls.contains("a directory\n") => Way::Directory,
            () if calls.contains(" -p ") => Way::Description,
            () => Way::Mounted,
        };
        let table = Judge::Sfdisk.command().arg("--json").arg(self.path("disk")).output().unwrap();
        let table: Value = serde_json::from_slice(&table.stdout).unwrap();
        let path = self.path(&format!("disk-{maker:?}"));
        fs::rename(self.path("disk"), &path).unwrap();
        let calls = calls.lines().map(str::to_owned).collect();
        Disk { path, way, calls, table: table["partitiontable"]["partitions"].clone() }
    }

    /// Loop devices below the folder, with their files.
    fn devices(&self) -> Vec<(String, String)> {
        let output =
            Command::new("losetup").args(["--list", "--noheadings", "-O", "NAME,BACK-FILE"]).output();
        let listed = String::from_utf8_lossy(&output.unwrap().stdout).into_owned();
        let pairs = listed.lines().filter_map(|line| line.split_once(' '));
        let pairs = pairs.map(|(name, file)| (name.to_owned(), file.trim().to_owned()));
        pairs.filter(|(_, file)| Path::new(file).starts_with(self.folder.path())).collect()
    }

    /// Devices that stay: the kernel detaches one some time after its last user has gone.
    fn lasting_devices(&self) -> Vec<(String, String)> {
        for _ in 0..100 {
            if self.devices().is_empty() {
                return Vec::new();
            }
            thread::sleep(Duration::from_millis(30));
        }
        self.devices()
    }

    fn leaves_no_devices(&self) {
        let devices = self.lasting_devices();
        assert!(devices.is_empty(), "these loop devices stay: {devices:?}");
    }

    /// Both makers make the disk, and all judges say the same of both.
    fn judge(&self, options: &[&str], expected_way: Option<Way>) {
        let theirs = self.makes(Maker::Mkfs, options, &[]);
        let ours = self.makes(Maker::Uxfs, options, &[]);
        assert!(expected_way.is_none_or(|way| ours.way == way), "{:?}", ours.calls);
        same_table(&ours, &theirs);
        let mut paths = 0;
        for index in 0..PARTS.len() {
            let expected = manifest::from_tree(&self.expected(index), header("source")).unwrap();
            let found = kept(ours.holds(index), ours.way);
            same(&kept(expected, ours.way), &found).unwrap_or_else(|error| panic!("{index}: {error:#}"));
            let rival = kept(theirs.holds(index), theirs.way);
            let rivals = [without_acls(rival), without_acls(found)];
            same(&rivals[0], &rivals[1]).unwrap_or_else(|error| panic!("{index}, mkfs.xfs: {error:#}"));
            if ours.place(index).1 == theirs.place(index).1 {
                assert_eq!(ours.superblock(index), theirs.superblock(index), "{index}");
            }
            repair_is_silent(ours.device(index).path()).unwrap();
            commands_agree(&ours, index, &self.expected(index));
            paths += rivals[0].entries.len();
        }
        self.leaves_no_devices();
        let (version, way) = (self.version(), ours.way);
        judged(
            "systemd-repart, mkfs.xfs, kernel and xfs_repair",
            &format!("{version}, {way:?}: {paths} paths"),
        );
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        for (name, _) in self.lasting_devices() {
            let _ = Command::new("losetup").args(["--detach", &name]).status();
        }
    }
}

/// The same partitions in the same places. The one that is fitted is as large as what mkfs.xfs left in a file of a terabyte: where zeros
/// of its log need room, as in memory, mkfs.xfs leaves more.
fn same_table(ours: &Disk, theirs: &Disk) {
    let (count, moved) = (PARTS.len(), theirs.place(FITTED).1.checked_sub(ours.place(FITTED).1).unwrap());
    assert!(ours.table.as_array().unwrap().len() == count && theirs.table.as_array().unwrap().len() == count);
    for index in 0..count {
        let (mut our, mut their) = (ours.table[index].clone(), theirs.table[index].clone());
        let (our_place, their_place) = (ours.place(index), theirs.place(index));
        assert_eq!(our_place.0 + if index > FITTED { moved } else { 0 }, their_place.0, "{index}");
        assert_eq!(our_place.1 + if index == FITTED { moved } else { 0 }, their_place.1, "{index}");
        for field in ["start", "size"] {
            our[field].take();
            their[field].take();
        }
        assert_eq!(our, their);
    }
}

/// Files of all kinds, with what can be said of them.
fn fill(root: &Path) {
    fs::create_dir_all(root.join("folder/deeper")).unwrap();
    fs::create_dir(root.join("shared")).unwrap();
    fs::write(root.join("shared/file"), "shared").unwrap();
    for number in 0..60_usize {
        fs::write(root.join(format!("folder/file-{number}")), vec![number as u8; number * 700]).unwrap();
    }
    fs::write(root.join("large"), vec![9; 3_000_000]).unwrap();
    fs::write(root.join("empty"), "").unwrap();
    fs::write(root.join("folder/with spaces and ä"), "words").unwrap();
    File::create(root.join("sparse")).unwrap().write_all_at(b"end", 5_000_000).unwrap();
    fs::hard_link(root.join("large"), root.join("folder/deeper/same")).unwrap();
    symlink("folder/file-1", root.join("link")).unwrap();
    symlink("x".repeat(900), root.join("long-link")).unwrap();
    host("mkfifo", &[text(&root.join("fifo"))]);
    host("mknod", &[text(&root.join("device")), "c", "1", "3"]);
    let set = |path: &str, name: &str, value: &[u8]| {
        rustix::fs::setxattr(root.join(path), name, value, rustix::fs::XattrFlags::empty()).unwrap();
    };
    set("large", "user.some", b"value\0\xff\n");
    set("folder", "user.other", &[b'x'; 900]);
    set("folder", "trusted.third", b"y");
    set(
        "folder/file-7",
        "security.capability",
        &[1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    );
    // A new owner takes capabilities and the setuid bit away: those come last.
    host("chown", &["-h", "70000:80000", text(&root.join("link")), text(&root.join("folder/file-3"))]);
    host("chown", &["12:34", text(&root.join("fifo")), text(&root.join("device"))]);
    host("chown", &["0:56", text(&root.join("shared"))]);
    // A directory in the one with the setgid bit would get that bit from mkfs.xfs.
    for (path, mode) in [("shared", 0o2750), ("folder/file-4", 0o4755), ("folder/deeper", 0o1777)] {
        fs::set_permissions(root.join(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    let acl = Judge::Setfacl.command().args(["-m", "u:7:rw"]).arg(root.join("folder/file-9")).status();
    assert!(acl.unwrap().success());
    host("touch", &["-h", "-d", "2001-02-03T04:05:06.789Z", text(&root.join("large"))]);
}

/// The commands of uxfs find the partition by number and names, and say of it what others do.
fn commands_agree(disk: &Disk, index: usize, expected: &Path) {
    let (number, image) = ((index + 1).to_string(), text(&disk.path));
    let label = PARTS[index].label;
    let beginning: String = label.chars().take(12).collect();
    let info = |name: &str| -> Value {
        serde_json::from_str(&succeeds(&["info", "--json", "--partition", name, image])).unwrap()
    };
    let by_number = info(&number);
    assert_eq!(by_number["label"].as_str(), Some(beginning.as_str()), "{by_number}");
    let superblock = disk.superblock(index);
    let uuid = &superblock.iter().find(|(name, _)| name == "uuid").unwrap().1;
    assert_eq!(by_number["uuid"].as_str(), Some(uuid.as_str()));
    let mut names: Vec<_> = fs::read_dir(expected).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort_by(|one, other| one.as_bytes().cmp(other.as_bytes()));
    for name in [number, label.to_owned(), format!("LABEL={beginning}")] {
        assert_eq!(info(&name), by_number, "{name}");
        let listed = succeeds(&["ls", "--partition", &name, image]);
        let listed: Vec<&str> = listed.lines().collect();
        assert_eq!(listed, names, "{name}");
    }
    succeeds(&["check", "--partition", label, image]);
}

/// The first byte in which two parts of files differ.
fn first_difference(files: [&Path; 2], places: [(u64, u64); 2]) -> Option<u64> {
    let [one, other] = [0, 1].map(|side| File::open(files[side]).unwrap());
    let mut chunks = [vec![0; 1 << 20], vec![0; 1 << 20]];
    let (length, mut at) = (places[0].1, 0);
    assert_eq!(length, places[1].1);
    while at < length {
        let want = (length - at).min(1 << 20) as usize;
        one.read_exact_at(&mut chunks[0][..want], places[0].0 + at).unwrap();
        other.read_exact_at(&mut chunks[1][..want], places[1].0 + at).unwrap();
        if chunks[0][..want] != chunks[1][..want] {
            let found = (0..want).find(|byte| chunks[0][*byte] != chunks[1][*byte]).unwrap();
            return Some(at + found as u64);
        }
        at += want as u64;
    }
    None
}

#[test]
fn the_newest_repart_fills_partitions_without_devices() {
    require!(Judge::NewestRepart, Judge::Mkfs, Judge::XfsDb, Judge::XfsRepair, Judge::Kernel);
    require!(Judge::Sfdisk, Judge::Setfacl);
    let mut workshop = Workshop::new(Judge::NewestRepart);
    workshop.is_fitted = true;
    workshop.judge(&["--offline=yes"], Some(Way::Directory));
}

#[test]
fn the_newest_repart_fills_partitions_that_are_mounted() {
    require!(Judge::NewestRepart, Judge::Mkfs, Judge::XfsDb, Judge::XfsRepair, Judge::Kernel);
    require!(Judge::Sfdisk, Judge::Setfacl);
    Workshop::new(Judge::NewestRepart).judge(&["--offline=no"], Some(Way::Mounted));
}

#[test]
fn the_repart_of_the_system() {
    require!(Judge::Repart, Judge::Mkfs, Judge::XfsDb, Judge::XfsRepair, Judge::Kernel);
    require!(Judge::Sfdisk, Judge::Setfacl);
    let workshop = Workshop::new(Judge::Repart);
    if workshop.version() < FIRST_WITHOUT_DEVICES {
        workshop.judge(&[], Some(Way::Mounted));
    } else {
        workshop.judge(&["--offline=yes"], None);
        workshop.judge(&["--offline=no"], Some(Way::Mounted));
    }
}

#[test]
fn one_seed_makes_one_disk() {
    require!(Judge::NewestRepart, Judge::Mkfs, Judge::Sfdisk, Judge::Setfacl);
    let workshop = Workshop::new(Judge::NewestRepart);
    let fixed = [("SOURCE_DATE_EPOCH", common::NOW), ("DETERMINISTIC_SEED", "1")];
    let options = ["--offline=yes"];
    let first = workshop.makes(Maker::Uxfs, &options, &fixed);
    let kept = workshop.path("first");
    fs::rename(&first.path, &kept).unwrap();
    let second = workshop.makes(Maker::Uxfs, &options, &fixed);
    let whole = (0, kept.metadata().unwrap().len());
    assert_eq!(whole.1, second.path.metadata().unwrap().len());
    assert_eq!(first_difference([&kept, &second.path], [whole; 2]), None);
    // The partition without files is that of mkfs.xfs, byte for byte.
    let theirs = workshop.makes(Maker::Mkfs, &options, &fixed);
    assert_eq!(second.table, theirs.table);
    let places = [second.place(EMPTY), theirs.place(EMPTY)];
    assert_eq!(first_difference([&second.path, &theirs.path], places), None);
    judged("systemd-repart and mkfs.xfs", "one seed, one disk");
}

#[test]
fn options_of_the_environment_are_obeyed() {
    require!(Judge::NewestRepart, Judge::Mkfs, Judge::XfsDb, Judge::XfsRepair, Judge::Kernel);
    require!(Judge::Sfdisk, Judge::Setfacl);
    let workshop = Workshop::new(Judge::NewestRepart);
    const VARIABLE: &str = "SYSTEMD_REPART_MKFS_OPTIONS_XFS";
    let environment = [(VARIABLE, "-i maxpct=10 -m rmapbt=0 -l size=70m -K -q")];
    for offline in ["--offline=yes", "--offline=no"] {
        let theirs = workshop.makes(Maker::Mkfs, &[offline], &environment);
        let ours = workshop.makes(Maker::Uxfs, &[offline], &environment);
        assert!(ours.calls.iter().any(|call| call.contains("-m reflink=1") && call.ends_with("-K -q")));
        assert_eq!(ours.table, theirs.table);
        for index in 0..PARTS.len() {
            let superblock = ours.superblock(index);
            assert_eq!(superblock, theirs.superblock(index), "{index}");
            assert!(superblock.contains(&("imax_pct".into(), "10".into())), "{superblock:?}");
            assert!(superblock.contains(&("logblocks".into(), "17920".into())), "{superblock:?}");
            repair_is_silent(ours.device(index).path()).unwrap();
        }
    }
    for (wrong, named) in [("-m nonsense=1", "nonsense"), ("-Z", "-Z"), ("-d size=9g", "size")] {
        let output = workshop.run(Maker::Uxfs, &["--offline=yes"], &[(VARIABLE, wrong)]);
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && words.contains(named), "{wrong}: {words}");
    }
    workshop.leaves_no_devices();
    judged("systemd-repart, mkfs.xfs and xfs_repair", "options of the environment");
}
