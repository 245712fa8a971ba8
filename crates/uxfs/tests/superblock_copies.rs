//! Images whose first superblock is damaged or lost are read through a copy: the output is that of the undamaged image.

use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use tempfile::TempDir;
use uxfs_format::{field_table::OnDisk, geometry::Geometry, seal::seal, superblock::Superblock};
use uxfs_testkit::{
    golden::GoldenImage,
    image,
    judges::{Judge, judged},
    require,
    sparse::Contents,
    verdict,
};

use crate::common::{host, program, succeeds, text, tree, uxfs};

const GROUPS: u32 = 4;
const GROUP_BYTES: u64 = 80 << 20;

/// An image of a tree in several groups, and what commands print of it.
struct Sample {
    folder: TempDir,
    image: PathBuf,
    printed: Vec<Vec<u8>>,
}

fn printed(options: &[&str], image: &Path) -> (Vec<Vec<u8>>, String) {
    let commands: [&[&str]; 3] = [
        &["ls", "-lR"],
        &["find", "/", "-printf", "%i %m %n %u %g %s %T@ %p %l\\n"],
        &["extract", "--tar", "-"],
    ];
    let mut words = String::new();
    let all = commands.map(|command| {
        let rest = if command[0] == "find" { &command[1..] } else { &[][..] };
        let before = if command[0] == "find" { &command[..1] } else { command };
        let output = uxfs(&[before, options, &[text(image)], rest].concat());
        words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{command:?} {options:?}: {words}");
        output.stdout
    });
    (all.to_vec(), words)
}

impl Sample {
    fn new() -> Self {
        let folder = TempDir::with_prefix_in("uxfs-copies-", image::memory_folder()).unwrap();
        let (source, image) = (folder.path().join("source"), folder.path().join("image"));
        tree(&source);
        succeeds(&["mkfs", "--from", text(&source), "--size", "320m", "-d", "agcount=4", text(&image)]);
        let (printed, words) = printed(&[], &image);
        assert_eq!(words, "");
        Self { folder, image, printed }
    }

    fn write(&self, offset_bytes: u64, bytes: &[u8]) {
        OpenOptions::new().write(true).open(&self.image).unwrap().write_all_at(bytes, offset_bytes).unwrap();
    }

    fn read(&self, offset_bytes: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        File::open(&self.image).unwrap().read_exact_at(&mut bytes, offset_bytes).unwrap();
        bytes
    }

    /// The same is printed, and a word says through which group.
    fn reads_through(&self, options: &[&str], group: u32, case: &str) {
        let (printed, words) = printed(options, &self.image);
        assert!(printed == self.printed, "{case} {options:?}");
        assert!(words.contains(&format!("allocation group {group}")), "{case} {options:?}: {words}");
    }
}

/// What befalls the beginning of an image.
fn damages(folder: &Path) -> Vec<(&'static str, Vec<u8>)> {
    let other = folder.join("ext4");
    File::create(&other).unwrap().set_len(320 << 20).unwrap();
    host("mke2fs", &["-q", "-F", "-t", "ext4", text(&other)]);
    let mut foreign = vec![0; 4096];
    File::open(&other).unwrap().read_exact_at(&mut foreign, 0).unwrap();
    assert_eq!(&foreign[1080..1082], &[0x53, 0xef], "an ext4 superblock");
    vec![
        ("zeroed", vec![0; 512]),
        ("wrong magic", b"XFSX".to_vec()),
        ("all ones", vec![0xff; 512]),
        ("all headers zeroed", vec![0; 2048]),
        ("foreign file system", foreign),
    ]
}

#[test]
fn a_damaged_first_superblock_is_no_obstacle_to_reading() {
    require!(Judge::Mkfs);
    let sample = Sample::new();
    let beginning = sample.read(0, 4096);
    let numbers: Vec<String> = (1..GROUPS).map(|group| group.to_string()).collect();
    // One that is sound stays in use, unless another is named.
    for (group, number) in (1..GROUPS).zip(&numbers) {
        sample.reads_through(&["--superblock", number], group, "sound");
    }
    for number in ["0", "auto"] {
        let (printed, words) = printed(&["--superblock", number], &sample.image);
        assert!(printed == sample.printed && words.is_empty(), "{number}: {words}");
    }
    let mut cases = damages(sample.folder.path());
    for (name, at) in [("label", 108), ("size of groups", 84), ("size of blocks", 124), ("checksum", 224)] {
        let mut bytes = beginning[..512].to_vec();
        bytes[at] ^= 0x41;
        cases.push((name, bytes));
    }
    for (case, bytes) in &cases {
        sample.write(0, &beginning);
        sample.write(0, bytes);
        sample.reads_through(&[], 1, case);
        for (group, number) in (1..GROUPS).zip(&numbers) {
            sample.reads_through(&["--superblock", number], group, case);
        }
    }
    judged("comparison", &format!("{} damages, each through {GROUPS} ways", cases.len()));
    let output = uxfs(&["ls", "--superblock", "4", text(&sample.image)]);
    assert_eq!(output.status.code(), Some(2), "there are groups 0 to 3");
}

#[test]
fn numbers_of_free_blocks_are_those_of_the_groups() {
    require!(Judge::Mkfs);
    let sample = Sample::new();
    let before = succeeds(&["df", "--json", text(&sample.image)]);
    sample.write(0, &[0; 512]);
    assert_eq!(succeeds(&["df", "--json", text(&sample.image)]), before);
}

#[test]
fn further_copies_are_asked_where_the_second_is_damaged_too() {
    require!(Judge::Mkfs);
    let sample = Sample::new();
    sample.write(0, &[0; 512]);
    for group in 1..GROUPS {
        sample.reads_through(&[], group, "further copies");
        let output = uxfs(&["ls", "--superblock", &group.to_string(), text(&sample.image)]);
        assert!(output.status.success());
        sample.write(u64::from(group) * GROUP_BYTES, &[0; 512]);
        let output = uxfs(&["ls", "--superblock", &group.to_string(), text(&sample.image)]);
        assert!(!output.status.success(), "{group} is damaged now");
    }
    let output = uxfs(&["ls", text(&sample.image)]);
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && words.contains("not an XFS file system"), "{words}");
}

/// A copy of its own checksum that says something else than all others.
#[test]
fn a_copy_that_others_contradict_is_not_believed() {
    require!(Judge::Mkfs);
    let sample = Sample::new();
    let mut forged = sample.read(GROUP_BYTES, 512);
    let superblock = Superblock::prefix_of_mut(&mut forged).unwrap();
    superblock.ag_count.set(3);
    superblock.data_blocks.set(3 * u64::from(superblock.ag_blocks.get()));
    let geometry = Geometry::new(superblock);
    seal(&mut forged, None, &geometry).unwrap();
    sample.write(GROUP_BYTES, &forged);
    sample.write(0, &[0; 512]);
    sample.reads_through(&[], 2, "forged");
    // Nor one at a place that is none of a group.
    let copy = sample.read(3 * GROUP_BYTES, 512);
    sample.write(GROUP_BYTES, &[0; 512]);
    sample.write(2 * GROUP_BYTES, &[0; 512]);
    sample.write(GROUP_BYTES / 2, &copy);
    sample.reads_through(&[], 3, "elsewhere");
}

/// A file of the first group, at a place that its blocks give for the second group of another geometry.
#[test]
fn blocks_of_a_file_that_imitate_a_copy_are_not_believed() {
    const GROUP: u64 = 301 << 20;
    const BLOCK: u64 = 4096;
    let folder = TempDir::with_prefix_in("uxfs-copies-", image::memory_folder()).unwrap();
    let (source, image) = (folder.path().join("source"), folder.path().join("image"));
    fs::create_dir(&source).unwrap();
    fs::write(source.join("a"), vec![1; 24 << 20]).unwrap();
    fs::write(source.join("b"), vec![2; 16 << 10]).unwrap();
    // No number of groups gives this size: all data are searched.
    succeeds(&["mkfs", "-q", "--size", "1500m", "-d", "agsize=301m", "--from", text(&source), text(&image)]);
    let (listed, _) = printed(&[], &image);
    let map: serde_json::Value =
        serde_json::from_str(&succeeds(&["--json", "map", text(&image), "/b"])).unwrap();
    assert_eq!(map["group"], 0);
    let blocks = map["group_block"].as_u64().unwrap();
    let file = OpenOptions::new().read(true).write(true).open(&image).unwrap();
    let mut sectors = vec![0; 1024];
    file.read_exact_at(&mut sectors, GROUP).unwrap();
    let (first, header) = sectors.split_at_mut(512);
    let superblock = Superblock::prefix_of_mut(first).unwrap();
    superblock.ag_blocks.set(blocks as u32);
    superblock.ag_block_log = (blocks as f64).log2().ceil() as u8;
    superblock.ag_count.set(2);
    superblock.data_blocks.set(2 * blocks);
    superblock.log_start.set(1 << superblock.ag_block_log | 100);
    superblock.log_blocks.set(1000);
    let geometry = Geometry::new(superblock);
    seal(first, None, &geometry).unwrap();
    // Length, free blocks and longest run of the header of free space.
    for (place, number) in [(12, blocks as u32), (52, 10), (56, 10)] {
        header[place..place + 4].copy_from_slice(&number.to_be_bytes());
    }
    seal(header, None, &geometry).unwrap();
    file.write_all_at(&sectors, blocks * BLOCK).unwrap();
    for lost_bytes in [512, 16 << 10] {
        file.write_all_at(&vec![0; lost_bytes], 0).unwrap();
        let output = uxfs(&["ls", "-lR", text(&image)]);
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && output.stdout == listed[0], "{lost_bytes}: {words}");
        assert!(words.contains("allocation group 1"), "{words}");
        let told = succeeds(&["--json", "info", text(&image)]);
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        assert_eq!(told["group_count"], 5, "{lost_bytes}");
    }
}

/// Copies are looked for in a partition that was chosen, and behind the holes of a disk of another form.
#[test]
fn partitions_and_disks_of_virtual_machines_have_copies() {
    require!(Judge::Sfdisk, Judge::QemuImg);
    let folder = TempDir::with_prefix_in("uxfs-copies-", image::memory_folder()).unwrap();
    let (disk, qcow2) = (folder.path().join("disk"), folder.path().join("qcow2"));
    File::create(&disk).unwrap().set_len(1600 << 20).unwrap();
    host(
        "sh",
        &["-c", &format!("printf 'label: gpt\\nstart=2048, name=root\\n' | sfdisk -q {}", text(&disk))],
    );
    // A group size that is not guessed: holes are passed over.
    succeeds(&["mkfs", "-q", "-d", "agsize=301m", "--partition", "1", text(&disk)]);
    succeeds(&["mkdir", "--partition", "1", text(&disk), "/here"]);
    let first = OpenOptions::new().write(true).open(&disk).unwrap();
    first.write_all_at(&[0; 512], 1 << 20).unwrap();
    host("qemu-img", &["convert", "-O", "qcow2", text(&disk), text(&qcow2)]);
    for image in [&disk, &qcow2] {
        let output = uxfs(&["ls", "--partition", "1", text(image)]);
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {words}", image.display());
        assert_eq!(String::from_utf8_lossy(&output.stdout), "here\n");
        assert!(words.contains("allocation group 1"), "{words}");
    }
}

#[test]
fn commands_that_change_something_refuse_it_with_the_remedy() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let sample = Sample::new();
    sample.write(0, &[0; 512]);
    let image = text(&sample.image);
    let before = Contents::read(&sample.image).unwrap();
    for command in [
        &["mkdir", image, "/x"][..],
        &["rm", image, "/link"],
        &["shell", image, "-c", "mkdir /x"],
        &["admin", "--label", "x", image],
    ] {
        let output = uxfs(command);
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{command:?}");
        assert!(
            words.contains("uxfs repair") && words.contains("allocation group 1"),
            "{command:?}: {words}"
        );
    }
    assert!(uxfs(&["shell", image, "-c", "ls; cd folder; pwd"]).stdout.ends_with(b"/folder\n"));
    assert!(Contents::read(&sample.image).unwrap() == before, "no byte changed");
    succeeds(&["ls", image]);
    uxfs(&["repair", "--no-undo", image]);
    succeeds(&["mkdir", image, "/x"]);
    verdict::repair_is_silent(&sample.image).unwrap();
}

#[test]
fn a_short_image_is_told_to_be_short() {
    require!(Judge::Mkfs);
    let sample = Sample::new();
    sample.write(0, &[0; 512]);
    OpenOptions::new().write(true).open(&sample.image).unwrap().set_len(3 * GROUP_BYTES + 4096).unwrap();
    let output = uxfs(&["ls", text(&sample.image)]);
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && words.contains("truncate -s"), "{words}");
}

#[test]
fn compressed_images_have_copies_too_where_one_is_named() {
    require!(Judge::Mkfs);
    let sample = Sample::new();
    sample.write(0, &[0; 512]);
    let packed = sample.folder.path().join("packed.zst");
    host("zstd", &["-q", "-1", text(&sample.image), "-o", text(&packed)]);
    for choice in ["auto", "2"] {
        let (printed, words) = printed(&["--superblock", choice], &packed);
        assert!(printed == sample.printed, "{choice}");
        assert!(words.contains("allocation group"), "{words}");
    }
}

/// With the log of a crash, and in every geometry.
#[test]
fn golden_images_are_read_through_copies() {
    let mut images = GoldenImage::all().unwrap();
    images.push(GoldenImage::dirty_log());
    let mut count = 0;
    for golden in images {
        let folder = TempDir::with_prefix_in("uxfs-copies-", image::memory_folder()).unwrap();
        let path = folder.path().join("image");
        golden.unpack_to(&path).unwrap();
        let list = || {
            let output = uxfs(&["find", text(&path), "/", "-printf", "%i %m %n %U %G %s %T@ %C@ %p %l\\n"]);
            (output.status.code(), output.stdout, String::from_utf8_lossy(&output.stderr).into_owned())
        };
        let (code, before, words) = list();
        assert_eq!((code, words.as_str()), (Some(0), ""), "{}", golden.name());
        OpenOptions::new().write(true).open(&path).unwrap().write_all_at(&[0; 512], 0).unwrap();
        let (code, after, words) = list();
        assert_eq!(code, Some(0), "{}: {words}", golden.name());
        assert!(after == before && words.contains("allocation group 1 "), "{}: {words}", golden.name());
        count += 1;
    }
    judged("comparison", &format!("{count} golden images through their second superblock"));
}

#[test]
fn the_search_of_a_large_sparse_image_is_short() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large");
    // The usual number of groups, and a size that no number of groups gives.
    for options in [&["-d", "agcount=4"][..], &["-d", "agsize=37g"]] {
        let mut make = vec!["mkfs", "-q", "-f", "-l", "size=64m", "--size", "1T"];
        make.extend(options);
        make.push(text(&path));
        succeeds(&make);
        OpenOptions::new().write(true).open(&path).unwrap().write_all_at(&[0; 4096], 0).unwrap();
        let begun = Instant::now();
        let output = uxfs(&["ls", "-a", text(&path)]);
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && words.contains("allocation group 1"), "{words}");
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    }
    // No file system at all.
    fs::remove_file(&path).unwrap();
    let file = File::create(&path).unwrap();
    file.set_len(1 << 40).unwrap();
    file.write_all_at(b"something", 700 << 30).unwrap();
    let begun = Instant::now();
    let output = Command::new(program()).args(["ls", text(&path)]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}
