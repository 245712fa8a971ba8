//! File systems in partitions of disk images that sfdisk has made: all commands find them, and none leaves them.

use std::{
    fs::{self, File},
    io::Write,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Stdio,
};

use rustix::fs::{FallocateFlags, fallocate};
use uxfs_testkit::{
    image::memory_folder,
    judges::Judge,
    mount::{Access, LoopMount},
    require,
    sparse::{self, Contents},
    verdict::repair_is_silent,
};

use crate::common;
use crate::common::mount_place::{Place, succeeded};
use crate::common::{program, succeeds, text, uxfs};

const MEBIBYTE: u64 = 1 << 20;
/// What lies outside of the partition: nothing may change it.
const AROUND: u8 = 0x5a;
const SIZE_MEBIBYTES: u64 = 330;

/// A disk whose second partition, called root, is an XFS file system with the label system.
struct Disk {
    place: Place,
    start_bytes: u64,
    length_bytes: u64,
}

impl Disk {
    fn new(kind: &str) -> Self {
        let folder = tempfile::tempdir_in(memory_folder()).unwrap();
        let image = folder.path().join("disk");
        fs::create_dir(folder.path().join("mount")).unwrap();
        let file = File::create(&image).unwrap();
        let around = vec![AROUND; MEBIBYTE as usize];
        (0..SIZE_MEBIBYTES).for_each(|mebibyte| {
            if !(10..310).contains(&mebibyte) {
                file.write_all_at(&around, mebibyte * MEBIBYTE).unwrap();
            }
        });
        file.set_len(SIZE_MEBIBYTES * MEBIBYTE).unwrap();
        let script = match kind {
            "gpt" => {
                "label: gpt\nstart=1M, size=8M, name=boot\nstart=10M, size=300M, name=root, uuid=11111111-2222-3333-4444-555555555555\n"
            }
            // The second is the first logical one there.
            _ => {
                "label: dos\nlabel-id: 0x12345678\nstart=1M, size=8M\nstart=9M, size=310M, type=5\nstart=10M, size=300M\n"
            }
        };
        let mut sfdisk = Judge::Sfdisk.command();
        let mut sfdisk =
            sfdisk.args(["-q", "--wipe", "never"]).arg(&image).stdin(Stdio::piped()).spawn().unwrap();
        sfdisk.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        assert!(sfdisk.wait().unwrap().success());
        let disk = Self {
            place: Place::of(folder, image),
            start_bytes: 10 * MEBIBYTE,
            length_bytes: 300 * MEBIBYTE,
        };
        let file_system = disk.place.folder.path().join("file-system");
        succeeds(&["mkfs", "--size", "300M", "-L", "system", text(&file_system)]);
        disk.fill(&file_system);
        disk
    }

    fn image(&self) -> &str {
        text(&self.place.image)
    }

    fn write(&self, offset_bytes: u64, bytes: &[u8]) {
        self.open().write_all_at(bytes, offset_bytes).unwrap();
    }

    fn open(&self) -> File {
        File::options().read(true).write(true).open(&self.place.image).unwrap()
    }

    /// Lets the partition hold zeros.
    fn punch(&self) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(self.open(), flags, self.start_bytes, self.length_bytes).unwrap();
    }

    /// Puts a file system in the partition, which need not fit.
    fn fill(&self, file_system: &Path) {
        self.punch();
        let (file_system, disk) = (File::open(file_system).unwrap(), self.open());
        sparse::copy_part(&file_system, 0..self.length_bytes, &disk, self.start_bytes).unwrap();
    }

    fn contents(&self) -> Contents {
        Contents::read(&self.place.image).unwrap()
    }

    /// All before and behind the partition.
    fn around(&self) -> (Vec<u8>, Vec<u8>) {
        let (file, end_bytes) = (self.open(), self.start_bytes + self.length_bytes);
        let mut before = vec![0; self.start_bytes as usize];
        let mut behind = vec![0; (file.metadata().unwrap().len() - end_bytes) as usize];
        file.read_exact_at(&mut before, 0).unwrap();
        file.read_exact_at(&mut behind, end_bytes).unwrap();
        (before, behind)
    }

    /// Options that let the kernel mount the partition with this number.
    fn place_by_sfdisk(&self, number: &str) -> String {
        let told = Judge::Sfdisk.command().arg("--json").arg(&self.place.image).output().unwrap();
        let told: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
        let all = told["partitiontable"]["partitions"].as_array().unwrap();
        let node = format!("{}{number}", self.image());
        let found = all.iter().find(|one| one["node"] == node.as_str()).unwrap();
        let bytes = |field: &str| found[field].as_u64().unwrap() * 512;
        format!("offset={},sizelimit={}", bytes("start"), bytes("size"))
    }

    /// The partition as a file.
    fn extracted(&self) -> PathBuf {
        let path = self.place.folder.path().join("extracted");
        let (file, part) =
            (File::create(&path).unwrap(), self.start_bytes..self.start_bytes + self.length_bytes);
        sparse::copy_part(&self.open(), part, &file, 0).unwrap();
        file.set_len(self.length_bytes).unwrap();
        path
    }
}

fn words(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn commands_find_partitions_by_number_name_and_identity() {
    require!(Judge::Sfdisk, Judge::XfsRepair, Judge::Kernel);
    for (kind, number, names) in [
        (
            "gpt",
            "2",
            &["root", "PARTLABEL=root", "11111111-2222-3333-4444-555555555555", "system", "LABEL=system"][..],
        ),
        ("mbr", "5", &["12345678-05", "PARTUUID=12345678-05", "system"]),
    ] {
        let disk = Disk::new(kind);
        let around = disk.around();
        succeeds(&["mkdir", "--partition", number, disk.image(), "/made"]);
        let host = disk.place.folder.path().join("host");
        fs::write(&host, kind).unwrap();
        succeeds(&["put", "--partition", "system", disk.image(), text(&host), "/made/file"]);
        for name in [&[number], names].concat() {
            assert_eq!(succeeds(&["cat", "--partition", name, disk.image(), "/made/file"]), kind, "{name}");
            succeeds(&["check", "--partition", name, disk.image()]);
        }
        // As Linux counts them, and in its eyes.
        let by_offset = succeeds(&["ls", "--offset", "10M", disk.image()]);
        assert_eq!(succeeds(&["ls", "--partition", number, disk.image()]), by_offset);
        repair_is_silent(&disk.extracted()).unwrap();
        let place = disk.place_by_sfdisk(number);
        let mounted = LoopMount::with_options(&disk.place.image, Access::ReadOnly, &place).unwrap();
        assert_eq!(fs::read_to_string(mounted.join("made/file")).unwrap(), kind);
        mounted.unmount().unwrap();
        assert!(disk.around() == around);
    }
}

#[test]
fn a_disk_is_told_with_its_partitions() {
    require!(Judge::Sfdisk);
    let disk = Disk::new("gpt");
    for arguments in [&["ls"][..], &["info"], &["check"], &["mkdir"]] {
        let more: &[&str] = if arguments == ["mkdir"] { &["/new"] } else { &[] };
        let output = uxfs(&[arguments, &[disk.image()], more].concat());
        let words = words(&output);
        assert!(!output.status.success());
        for expected in [
            "a disk with partitions (GPT)",
            "--partition 2",
            "1 `boot` (8.0M)",
            "2 `root` (300M, XFS `system`)",
        ] {
            assert!(words.contains(expected), "{arguments:?}: {words}");
        }
    }
    for (name, expected) in [("3", "it has no partition 3"), ("nothing", "it has no partition nothing")] {
        let output = uxfs(&["ls", "--partition", name, disk.image()]);
        assert!(!output.status.success() && words(&output).contains(expected), "{}", words(&output));
        assert!(words(&output).contains("2 `root`"), "{}", words(&output));
    }
    // One without XFS.
    for output in [
        uxfs(&["ls", "--partition", "boot", disk.image()]),
        uxfs(&["mkdir", "--partition", "1", disk.image(), "/new"]),
    ] {
        assert!(
            words(&output).contains("partition 1 does not begin with an XFS file system"),
            "{}",
            words(&output)
        );
    }
    let output = disk.place.mount(&["-o", "partition=boot"]);
    assert!(words(&output).contains("partition 1 does not begin"), "{}", words(&output));
    // No disk at all.
    let output = uxfs(&["ls", "--partition", "1", text(&disk.extracted())]);
    assert!(words(&output).contains("no partition table"), "{}", words(&output));
    let both = uxfs(&["ls", "--partition", "1", "--offset", "1M", disk.image()]);
    assert_eq!(both.status.code(), Some(2));
}

/// What a partition or a whole image holds instead is named by each command, with what opens it.
#[test]
fn what_is_no_file_system_is_named() {
    require!(Judge::Sfdisk);
    let disk = Disk::new("gpt");
    let lvm = [&b"LABELONE"[..], &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0, 0], b"LVM2 001"].concat();
    let raid = [0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0];
    let cases: [(u64, &[u8], &str, &str); 7] = [
        (512, &lvm, "a physical volume (LVM)", "vgchange -ay"),
        (4096, &raid, "a member of a RAID (md)", "mdadm --assemble"),
        (0, b"LUKS\xba\xbe\0\x02", "encrypted data (LUKS)", "cryptsetup open"),
        (3, b"-FVE-FS-", "encrypted data (BitLocker)", "--type bitlk"),
        (1080, &[0x53, 0xef], "an ext2, ext3 or ext4 file system", "`boot`"),
        (0x1_0040, b"_BHRfS_M", "a btrfs file system", "`boot`"),
        (4096 - 10, b"SWAPSPACE2", "swap space", "`boot`"),
    ];
    // Without the copies of the superblock, which commands would use.
    disk.punch();
    let whole = disk.place.folder.path().join("whole");
    let mount = text(&disk.place.directory).to_owned();
    for (offset, bytes, name, remedy) in cases {
        disk.write(disk.start_bytes, &vec![0; 128 << 10]);
        disk.write(disk.start_bytes + offset, bytes);
        let commands: [&[&str]; 5] = [
            &["info", "--partition", "2", disk.image()],
            &["mkdir", "--partition", "root", disk.image(), "/new"],
            &["check", "--partition", "2", disk.image()],
            &["mount", "-o", "partition=2", disk.image(), &mount],
            &["info", disk.image()],
        ];
        for arguments in commands {
            let words = words(&uxfs(arguments));
            assert!(words.contains(name) && words.contains(remedy), "{arguments:?}: {words}");
        }
        let file = File::create(&whole).unwrap();
        file.set_len(320 * MEBIBYTE).unwrap();
        file.write_all_at(bytes, offset).unwrap();
        let whole = text(&whole);
        for arguments in
            [&["info", whole][..], &["ls", whole], &["mkdir", whole, "/new"], &["mount", whole, &mount]]
        {
            let words = words(&uxfs(arguments));
            assert!(words.contains(&format!("seems to hold {name}")), "{arguments:?}: {words}");
            assert!(words.contains(remedy) || remedy == "`boot`", "{arguments:?}: {words}");
        }
    }
}

#[test]
fn a_mount_of_a_partition_stays_in_it() {
    require!(Judge::Sfdisk, Judge::XfsRepair, Judge::Kernel);
    let disk = Disk::new("gpt");
    let around = disk.around();
    let place = &disk.place;
    let refused = place.mount(&[]);
    assert!(words(&refused).contains("-o partition=2"), "{}", words(&refused));
    for (options, contents) in
        [("partition=root", "first"), ("partition=2,sync", "second"), ("partition=LABEL=system", "third")]
    {
        succeeded(&place.mount(&["-o", options]));
        fs::write(place.file(), contents).unwrap();
        // It fills all of the partition, and then no more than that.
        let mut ballast = File::create(place.directory.join("ballast")).unwrap();
        let chunk = vec![7; 1 << 20];
        while ballast.write_all(&chunk).is_ok() {}
        drop(ballast);
        fs::remove_file(place.directory.join("ballast")).unwrap();
        succeeds(&["umount", text(&place.directory)]);
        assert_eq!(succeeds(&["cat", "--partition", "2", disk.image(), "/file"]), contents);
        repair_is_silent(&disk.extracted()).unwrap();
        assert!(disk.around() == around, "{options}");
    }
    let mounted = LoopMount::new(&disk.extracted(), Access::ReadOnly).unwrap();
    assert_eq!(fs::read_to_string(mounted.join("file")).unwrap(), "third");
}

/// The superblock claims more than the partition has.
#[test]
fn a_file_system_that_is_longer_than_its_partition_does_not_leave_it() {
    require!(Judge::Sfdisk);
    let disk = Disk::new("gpt");
    let longer = disk.place.folder.path().join("longer");
    succeeds(&["mkfs", "--size", "310M", text(&longer)]);
    disk.fill(&longer);
    let around = disk.around();
    let options = &["--partition", "2", disk.image()];
    for arguments in [&["ls"][..], &["check"], &["mkdir"], &["repair"]] {
        let more: &[&str] = if arguments == ["mkdir"] { &["/new"] } else { &[] };
        let output = uxfs(&[arguments, options, more].concat());
        assert!(!output.status.success(), "{arguments:?}");
        let said = words(&output) + &String::from_utf8_lossy(&output.stdout);
        assert!(!said.contains("truncate -s"), "{said}");
        if arguments == ["repair"] {
            assert!(said.contains("uxfs ls -lR --repaired --partition 2 "), "{said}");
            assert!(said.contains("uxfs rescue --partition 2 "), "{said}");
        }
    }
    let refused = disk.place.mount(&["-o", "partition=2"]);
    assert!(
        !refused.status.success() && words(&refused).contains("and the partition has 314572800"),
        "{}",
        words(&refused)
    );
    assert!(disk.around() == around);
}

#[test]
fn a_repair_in_a_partition_is_taken_back() {
    require!(Judge::Sfdisk, Judge::XfsRepair);
    let disk = Disk::new("gpt");
    succeeds(&["mkdir", "--partition", "2", disk.image(), "/made"]);
    // The header of free space in the first group.
    disk.write(disk.start_bytes + 512 + 40, &[0xee; 8]);
    let (damaged, around) = (disk.contents(), disk.around());
    let repaired = uxfs(&["repair", "--partition", "root", disk.image()]);
    let report = String::from_utf8_lossy(&repaired.stdout).into_owned();
    assert!(report.contains("--partition") || words(&repaired).contains("--partition"), "{report}");
    repair_is_silent(&disk.extracted()).unwrap();
    assert!(disk.around() == around);
    succeeds(&["undo", "--partition", "root", disk.image()]);
    assert!(disk.contents() == damaged);
    // The undo file knows the place of the partition.
    assert!(uxfs(&["repair", "--partition", "root", disk.image()]).status.success());
    succeeds(&["undo", disk.image()]);
    assert!(disk.contents() == damaged && disk.around() == around);
}

/// The same bytes as in a file of that length, and none outside.
#[test]
fn a_file_system_is_made_in_a_partition() {
    require!(Judge::Sfdisk, Judge::XfsRepair, Judge::Kernel);
    let reproducible = |arguments: &[&str]| {
        let mut command = std::process::Command::new(program());
        command.arg("mkfs").args(arguments).env("SOURCE_DATE_EPOCH", common::NOW);
        command.env("DETERMINISTIC_SEED", "1").args(["-m", "uuid=00000000-0000-0000-0000-000000000001"]);
        command.output().unwrap()
    };
    for (kind, number) in [("gpt", "2"), ("mbr", "5")] {
        let disk = Disk::new(kind);
        let around = disk.around();
        let (folder, alone) = (disk.place.folder.path(), disk.place.folder.path().join("alone"));
        let contents = folder.join("contents");
        fs::create_dir_all(contents.join("directory")).unwrap();
        fs::write(contents.join("directory/file"), vec![7; 100_000]).unwrap();
        let refused = reproducible(&["--partition", number, disk.image()]);
        assert!(words(&refused).contains("an XFS file system; use -f"), "{}", words(&refused));
        let refused = reproducible(&[disk.image()]);
        assert!(words(&refused).contains("--partition N makes it in a partition"), "{}", words(&refused));
        let refused = reproducible(&["-f", "--partition", number, "--size", "301M", disk.image()]);
        assert!(words(&refused).contains("the partition has 314572800"), "{}", words(&refused));
        assert!(disk.around() == around);
        for how in [&["-f"][..], &["-f", "-K"], &["-f", "--from", text(&contents)]] {
            disk.write(disk.start_bytes + 200 * MEBIBYTE, &[AROUND; 1 << 20]);
            succeeded(&reproducible(&[how, &["--partition", number, disk.image()]].concat()));
            assert!(disk.around() == around, "{how:?}");
            let _ = fs::remove_file(&alone);
            succeeded(&reproducible(&[how, &["--size", "300M", text(&alone)]].concat()));
            repair_is_silent(&disk.extracted()).unwrap();
            // Without a discard what lies in free space stays.
            if !how.contains(&"-K") {
                let made = Contents::read(disk.extracted()).unwrap();
                assert_eq!(made.difference(&Contents::read(&alone).unwrap()), None, "{how:?}");
            }
        }
        let place = disk.place_by_sfdisk(number);
        let mounted = LoopMount::with_options(&disk.place.image, Access::ReadWrite, &place).unwrap();
        assert_eq!(fs::read(mounted.join("directory/file")).unwrap(), vec![7; 100_000]);
        mounted.unmount().unwrap();
        assert!(disk.around() == around);
    }
}

#[test]
fn a_file_system_is_made_behind_other_bytes() {
    require!(Judge::XfsRepair);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let (image, part) = (folder.path().join("image"), folder.path().join("part"));
    succeeds(&["mkfs", "--offset", "3M", "--size", "300M", text(&image)]);
    assert_eq!(fs::metadata(&image).unwrap().len(), 303 * MEBIBYTE);
    File::options().write(true).open(&image).unwrap().write_all_at(&[AROUND; 3 << 20], 0).unwrap();
    File::options()
        .write(true)
        .open(&image)
        .unwrap()
        .write_all_at(&[AROUND; 1 << 20], 303 * MEBIBYTE)
        .unwrap();
    for how in [&["--size", "300M"][..], &["-d", "file,size=300m"]] {
        succeeds(&[&["mkfs", "-f", "--offset", "3M"], how, &[text(&image)]].concat());
        let (file, made) = (File::open(&image).unwrap(), File::create(&part).unwrap());
        for (start, length) in [(0, 3), (303, 1)] {
            let mut bytes = vec![0; length << 20];
            file.read_exact_at(&mut bytes, start * MEBIBYTE).unwrap();
            assert!(bytes == vec![AROUND; length << 20], "{how:?}");
        }
        sparse::copy_part(&file, 3 * MEBIBYTE..303 * MEBIBYTE, &made, 0).unwrap();
        made.set_len(300 * MEBIBYTE).unwrap();
        repair_is_silent(&part).unwrap();
    }
    let refused = uxfs(&["mkfs", "--offset", "1G", text(&image)]);
    assert!(words(&refused).contains("was to begin at byte 1073741824"), "{}", words(&refused));
}

#[test]
fn a_dump_is_restored_in_a_partition() {
    require!(Judge::Sfdisk);
    let disk = Disk::new("gpt");
    let dump = disk.place.folder.path().join("dump");
    succeeds(&["mkdir", "--partition", "2", disk.image(), "/made"]);
    succeeds(&["metadump", "-o", "--partition", "2", disk.image(), text(&dump)]);
    let around = disk.around();
    disk.write(disk.start_bytes, &vec![0xee; 300 << 20]);
    let refused = uxfs(&["mdrestore", "--partition", "2", text(&dump), disk.image()]);
    assert!(words(&refused).contains("--force overwrites that part"), "{}", words(&refused));
    let too_small = uxfs(&["mdrestore", "-f", "--partition", "1", text(&dump), disk.image()]);
    assert!(!too_small.status.success() && disk.around() == around);
    succeeds(&["mdrestore", "-f", "--partition", "2", text(&dump), disk.image()]);
    assert!(disk.around() == around);
    assert_eq!(succeeds(&["ls", "--partition", "2", disk.image()]), "made\n");
    succeeds(&["check", "--partition", "2", disk.image()]);
    // A new file, with room in front.
    let image = disk.place.folder.path().join("image");
    succeeds(&["mdrestore", "--offset", "1M", text(&dump), text(&image)]);
    assert_eq!(fs::metadata(&image).unwrap().len(), 301 * MEBIBYTE);
    succeeds(&["check", "--offset", "1M", text(&image)]);
}

/// What is made in a partition would destroy what else lies there.
#[test]
fn nothing_is_made_in_a_partition_that_shares_its_place() {
    require!(Judge::Sfdisk);
    let disk = Disk::new("mbr");
    // The first entry of the record, made to reach into the second one's logical partition.
    disk.write(446 + 12, &u32::to_le_bytes(40 * 2048));
    let before = disk.contents();
    for number in ["1", "5"] {
        let refused = uxfs(&["mkfs", "-f", "--partition", number, disk.image()]);
        assert!(words(&refused).contains("shares a part of the disk with partition"), "{}", words(&refused));
    }
    // For reading it is as Linux sees it.
    succeeds(&["ls", "--partition", "5", disk.image()]);
    disk.write(446 + 8, &u32::to_le_bytes(0));
    let refused = uxfs(&["mkfs", "-f", "--partition", "1", disk.image()]);
    assert!(words(&refused).contains("begins with the partition table itself"), "{}", words(&refused));
    disk.write(446 + 8, &u32::to_le_bytes(2048));
    assert!(disk.contents() == before);
    // The record of the logical partitions in its last sector.
    disk.write(446 + 12, &u32::to_le_bytes(8 * 2048 + 1));
    let refused = uxfs(&["mkfs", "-f", "--partition", "1", "--unsupported", disk.image()]);
    assert!(
        words(&refused).contains("a part of the partition table lies in partition 1"),
        "{}",
        words(&refused)
    );
}

#[test]
fn a_byte_is_no_way_over_partitions() {
    require!(Judge::Sfdisk, Judge::XfsRepair);
    for (kind, beside) in [("gpt", "partitions 1, 2"), ("mbr", "partitions 1, 5")] {
        let disk = Disk::new(kind);
        disk.write(disk.start_bytes, &[0; 1 << 20]);
        let (before, around) = (disk.contents(), disk.around());
        for (offset, over) in [("1M", beside), ("20M", "what lies behind it")] {
            let refused = uxfs(&["mkfs", "--offset", offset, disk.image()]);
            assert_eq!(refused.status.code(), Some(1), "{}", words(&refused));
            assert!(words(&refused).contains(over), "{}", words(&refused));
            assert!(words(&refused).contains("--partition N"), "{}", words(&refused));
        }
        assert!(disk.contents() == before);
        // In one of them.
        succeeds(&["mkfs", "--offset", "10M", "--size", "300M", disk.image()]);
        repair_is_silent(&disk.extracted()).unwrap();
        assert!(disk.around() == around);
    }
}
