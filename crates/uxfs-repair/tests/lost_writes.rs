//! Writes that went to the wrong place, and writes that were lost: what checksums do not tell, numbers and the log do.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::{FileExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use uxfs_block::engine::sync::SyncDevice;
use uxfs_format::{fault::Structure, geometry::Geometry, seal::seal};
use uxfs_repair::{
    Finding,
    repair::{
        RepairOptions,
        action::{Action, Certainty, MapWitness},
    },
};
use uxfs_testkit::{
    golden::GoldenImage,
    image::{make, memory_folder},
    judges::Judge,
    mount::{Access, LoopMount},
    require, same_tree,
    seeds::{Random, Seed},
    sparse,
    structures::{self, Instance},
    verdict::repair_findings,
};

use crate::common::{findings_of, in_order, plant, repair_image, repair_image_without_log, stage};

/// Pairs that are swapped in one image.
const PAIRS: usize = 12;

#[test]
fn what_was_swapped_lies_at_its_place_again() {
    let seed = Seed::from_environment("what_was_swapped_lies_at_its_place_again", 15);
    let mut random = seed.random();
    for name in ["default", "no-parent", "block-1k"] {
        let folder = tempfile::tempdir_in(memory_folder()).unwrap();
        let image = folder.path().join("image");
        GoldenImage::lean(name).unwrap().unpack_to(&image).unwrap();
        let swapped = swap(&image, &mut random);
        assert!(swapped.len() > PAIRS, "{name}: {} objects", swapped.len());
        let staged = repair_image_without_log(&image);
        assert!(staged.remaining.is_empty(), "{name}: {:?}", staged.remaining);
        for (instance, sound) in &swapped {
            let bytes = instance.read(staged.overlay.as_ref()).unwrap();
            assert!(bytes == *sound, "{name}: {instance:?}: {:#?}", staged.actions);
        }
    }
}

/// Stretches of 128 KiB are exchanged, without regard to what begins or ends where.
#[test]
fn what_lies_in_stretches_that_were_swapped_is_put_back() {
    const STRETCH: u64 = 128 << 10;
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = folder.path().join("image");
    GoldenImage::lean("default").unwrap().unpack_to(&image).unwrap();
    let (before, (_, all)) = (objects(&image), structures::list(&open(&image)).unwrap());
    let stretches_of = |instances: &mut dyn Iterator<Item = &Instance>| -> BTreeSet<u64> {
        instances.flat_map(|instance| &instance.pieces).map(|(offset, _)| offset / STRETCH).collect()
    };
    // What lies among indexes of groups is another test.
    let indexes = stretches_of(&mut all.iter().filter(|instance| !is_object(instance.structure)));
    let objects_in = |stretch: u64| {
        let is_in = |(instance, _): &&(Instance, Vec<u8>)| instance.pieces[0].0 / STRETCH == stretch;
        before.iter().filter(is_in).count()
    };
    let mut stretches: Vec<u64> = stretches_of(&mut before.iter().map(|(instance, _)| instance))
        .difference(&indexes)
        .copied()
        .collect();
    stretches.sort_by_key(|stretch| std::cmp::Reverse(objects_in(*stretch)));
    let file = fs::File::options().read(true).write(true).open(&image).unwrap();
    let swapped: Vec<[u64; 2]> = stretches.chunks_exact(2).take(2).map(|pair| [pair[0], pair[1]]).collect();
    assert_eq!(swapped.len(), 2);
    for pair in &swapped {
        let bytes = pair.map(|stretch| {
            let mut bytes = vec![0; usize::try_from(STRETCH).unwrap()];
            file.read_exact_at(&mut bytes, stretch * STRETCH).unwrap();
            bytes
        });
        file.write_all_at(&bytes[0], pair[1] * STRETCH).unwrap();
        file.write_all_at(&bytes[1], pair[0] * STRETCH).unwrap();
    }
    let staged = repair_image_without_log(&image);
    assert!(staged.remaining.is_empty(), "{:?}", staged.remaining);
    assert_eq!(repair_findings(&image).unwrap(), Vec::<String>::new());
    let after = objects(&image);
    let is_free = |(instance, bytes): &(Instance, Vec<u8>)| {
        instance.structure == Structure::Inode && bytes[2..4] == [0, 0]
    };
    let differ = before.iter().filter(|object| !is_free(object) && !after.contains(object));
    let differ: Vec<_> = differ.map(|(instance, _)| instance).collect();
    assert!(differ.is_empty(), "{swapped:?} {differ:#?}\n{:#?}", staged.actions);
}

/// Gives what was swapped, and the bytes before. The first inodes take the others of their block with them.
fn swap(image: &Path, random: &mut Random) -> Vec<(Instance, Vec<u8>)> {
    let device = SyncDevice::open_read_only(image, 0).unwrap();
    let (_, mut all) = structures::list(&device).unwrap();
    let is_of_file = |structure: Structure| {
        matches!(
            structure,
            Structure::Inode
                | Structure::DirectoryBlock
                | Structure::DirectoryData
                | Structure::AttributeLeaf
                | Structure::AttributeRemoteValue
                | Structure::Symlink
                | Structure::ExtentMap
        )
    };
    all.retain(|instance| is_of_file(instance.structure) && instance.pieces.len() == 1);
    let file = fs::File::options().write(true).open(image).unwrap();
    let mut swapped = swap_blocks_of_inodes(&device, &file, &all);
    let mut taken: BTreeSet<u64> = swapped.iter().map(|(instance, _)| instance.pieces[0].0 >> 14).collect();
    while swapped.len() < PAIRS * 2 && all.len() > 1 {
        let one = all.swap_remove(random.index(all.len()));
        let is_partner = |other: &Instance| {
            // Of one extent map only the first damaged block is found: the map is rebuilt.
            let is_same_map = one.structure == Structure::ExtentMap && other.owner == one.owner;
            other.structure == one.structure && other.pieces[0].1 == one.pieces[0].1 && !is_same_map
        };
        let Some(index) = all.iter().position(is_partner) else { continue };
        let other = all.swap_remove(index);
        // Not twice what overlaps.
        if !taken.insert(one.pieces[0].0 >> 14) | !taken.insert(other.pieces[0].0 >> 14) {
            continue;
        }
        let bytes = [&one, &other].map(|instance| instance.read(&device).unwrap());
        file.write_all_at(&bytes[1], one.pieces[0].0).unwrap();
        file.write_all_at(&bytes[0], other.pieces[0].0).unwrap();
        let [of_one, of_other] = bytes;
        swapped.push((one, of_one));
        swapped.push((other, of_other));
    }
    swapped
}

fn swap_blocks_of_inodes(device: &SyncDevice, file: &fs::File, all: &[Instance]) -> Vec<(Instance, Vec<u8>)> {
    let inodes: Vec<&Instance> =
        all.iter().filter(|instance| instance.structure == Structure::Inode).collect();
    let as_block = |inode: &Instance| {
        let block = Instance { pieces: vec![(inode.pieces[0].0 & !4095, 4096)], ..inode.clone() };
        let bytes = block.read(device).unwrap();
        (block, bytes)
    };
    let [first, last] = [as_block(inodes[0]), as_block(inodes[inodes.len() - 1])];
    file.write_all_at(&first.1, last.0.pieces[0].0).unwrap();
    file.write_all_at(&last.1, first.0.pieces[0].0).unwrap();
    vec![first, last]
}

/// The kernel changes a file system in two rounds; of the second one, some writes are taken back.
#[test]
fn lost_writes_are_found_by_the_log_and_made_again() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let (sound, image) = (folder.path().join("sound"), folder.path().join("image"));
    make(&sound, 64 << 20, &[]).unwrap();
    let mount = LoopMount::new(&sound, Access::ReadWrite).unwrap();
    first_round(mount.path());
    mount.unmount().unwrap();
    let before = objects(&sound);
    let mount = LoopMount::new(&sound, Access::ReadWrite).unwrap();
    second_round(mount.path());
    mount.unmount().unwrap();
    assert!(findings_of(&sound).is_empty(), "{:?}", findings_of(&sound));
    let after = objects(&sound);
    let has_changed = |(instance, old): &(Instance, Vec<u8>)| {
        after.iter().any(|(other, new)| other == instance && new != old)
    };
    let changed: Vec<(Instance, Vec<u8>)> = before.into_iter().filter(has_changed).collect();
    let kinds: BTreeSet<String> =
        changed.iter().map(|(instance, _)| instance.structure.name().to_owned()).collect();
    assert!(kinds.len() >= 4, "{kinds:?}");
    for (instance, old) in &changed {
        sparse::copy(&sound, &image).unwrap();
        put(&image, instance, old);
        let is_lost_write = |finding: &Finding| matches!(finding, Finding::OlderThanLog { .. });
        let findings = findings_of(&image);
        // An inode that was never used has no number of a transaction.
        let has_number = lsn_of(instance, old) != 0;
        assert_eq!(findings.iter().any(is_lost_write), has_number, "{instance:?}: {findings:?}");
        assert!(!findings.is_empty(), "{instance:?}");
        // Without the copies the old version stays, and nothing contradicts it afterwards.
        let without = stage(&image, &RepairOptions { ignore_log_copies: true, ..in_order() });
        assert!(without.remaining.is_empty(), "{instance:?}: {:?}", without.remaining);
        repaired_as(&image, &sound);
    }
    // All of them at once: a cache that was never written.
    sparse::copy(&sound, &image).unwrap();
    changed.iter().for_each(|(instance, old)| put(&image, instance, old));
    repaired_as(&image, &sound);
}

/// Group 0 comes back from an earlier copy of the device. Inodes that were made, freed or changed since come back from the log, also those of
/// which the old headers know nothing.
#[test]
fn a_group_that_is_older_than_the_log_is_brought_up_to_date() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    let Images { _folder, sound, image } = Images::new();
    let mount = LoopMount::new(&sound, Access::ReadWrite).unwrap();
    fs::create_dir(mount.path().join("old")).unwrap();
    (0..40).for_each(|number| empty(&mount.path().join(format!("old/{number}"))));
    mount.unmount().unwrap();
    let before = fs::read(&sound).unwrap();
    let mount = LoopMount::new(&sound, Access::ReadWrite).unwrap();
    let root = mount.path();
    for folder in ["new", "newer"] {
        fs::create_dir(root.join(folder)).unwrap();
        (0..300).for_each(|number| empty(&root.join(format!("{folder}/a name of {number}"))));
    }
    (0..20).for_each(|number| fs::remove_file(root.join(format!("old/{number}"))).unwrap());
    (20..30).for_each(|n| fs::rename(root.join(format!("old/{n}")), root.join(format!("new/{n}"))).unwrap());
    (0..50).for_each(|n| symlink(format!("target {n}"), root.join(format!("newer/link {n}"))).unwrap());
    mount.unmount().unwrap();
    assert!(findings_of(&sound).is_empty(), "{:?}", findings_of(&sound));
    for (old, structure) in [
        (512..2048, Structure::InodeHeader),
        (512..16 << 20, Structure::InodeHeader),
        (4096..16 << 20, Structure::InodeIndex),
    ] {
        sparse::copy(&sound, &image).unwrap();
        let file = fs::File::options().write(true).open(&image).unwrap();
        file.write_all_at(&before[old.clone()], old.start as u64).unwrap();
        let findings = findings_of(&image);
        let is_of_group = |finding: &Finding| matches!(finding, Finding::OlderThanLog { older } if older.structure == structure);
        assert!(findings.iter().any(is_of_group), "{old:?}: {findings:#?}");
        repaired_as(&image, &sound);
    }
}

/// xfs_db changes fields that nothing but the log repeats, and makes checksums right.
#[test]
fn what_only_an_inode_tells_comes_back_from_the_log() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel, Judge::XfsDb);
    let Images { _folder, sound, image } = Images::new();
    let mount = LoopMount::new(&sound, Access::ReadWrite).unwrap();
    let root = mount.path();
    fs::write(root.join("file"), [7; 5000]).unwrap();
    fs::create_dir(root.join("folder")).unwrap();
    symlink("a short target", root.join("link")).unwrap();
    let made = Command::new("mknod").arg(root.join("device")).args(["c", "1", "3"]).status().unwrap();
    assert!(made.success());
    mount.unmount().unwrap();
    assert!(findings_of(&sound).is_empty(), "{:?}", findings_of(&sound));
    for (path, field, value) in [
        ("/file", "core.uid", "1000"),
        ("/file", "core.gid", "7"),
        ("/file", "core.projid_lo", "9"),
        ("/file", "core.mode", "0104777"),
        ("/folder", "core.mode", "040777"),
        ("/file", "core.size", "4999"),
        ("/file", "core.mtime.sec", "5"),
        ("/folder", "v3.crtime.sec", "5"),
        ("/file", "core.immutable", "1"),
        ("/folder", "core.nodump", "1"),
        ("/file", "core.gen", "77"),
        ("/link", "u3.symlink", "\"b short target\""),
        ("/device", "u3.dev", "0x106"),
    ] {
        sparse::copy(&sound, &image).unwrap();
        plant(&image, &[&format!("path {path}"), &format!("write {field} {value}")]);
        let findings = findings_of(&image);
        let is_told = |finding: &Finding| matches!(finding, Finding::InodeAgainstLog(_));
        assert!(findings.iter().any(is_told), "{path} {field}: {findings:?}");
        // Without the copies the change stays, and is not told again.
        let without = stage(&image, &RepairOptions { ignore_log_copies: true, ..in_order() });
        assert!(without.remaining.is_empty(), "{path} {field}: {:?}", without.remaining);
        repaired_as(&image, &sound);
    }
    // Times that are later may be those of a mount with `lazytime`.
    sparse::copy(&sound, &image).unwrap();
    plant(&image, &["path /file", "write core.atime \"Jan 1 00:00:00 2040\""]);
    assert!(findings_of(&image).is_empty(), "{:?}", findings_of(&image));
}

/// One letter of a target in a block of its own is another one, and the checksum is right.
#[test]
fn a_target_is_compared_with_the_log() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    let Images { _folder, sound, image } = Images::new();
    let mount = LoopMount::new(&sound, Access::ReadWrite).unwrap();
    symlink("target".repeat(150), mount.path().join("link")).unwrap();
    symlink("other".repeat(150), mount.path().join("other")).unwrap();
    // Renaming logs the link again, and not its target.
    fs::rename(mount.path().join("link"), mount.path().join("renamed")).unwrap();
    mount.unmount().unwrap();
    assert!(findings_of(&sound).is_empty(), "{:?}", findings_of(&sound));
    let targets =
        objects(&sound).into_iter().filter(|(instance, _)| instance.structure == Structure::Symlink);
    let targets: Vec<_> = targets.collect();
    let (geometry, _) = structures::list(&open(&sound)).unwrap();
    assert_eq!(targets.len(), 2);
    for (instance, mut bytes) in targets {
        sparse::copy(&sound, &image).unwrap();
        bytes[300] ^= 1;
        seal(&mut bytes, None, &geometry);
        put(&image, &instance, &bytes);
        let findings = findings_of(&image);
        let is_told = |finding: &Finding| matches!(finding, Finding::OlderThanLog { .. });
        assert!(findings.len() == 1 && findings.iter().all(is_told), "{findings:?}");
        let without = stage(&image, &RepairOptions { ignore_log_copies: true, ..in_order() });
        assert!(without.remaining.is_empty(), "{:?}", without.remaining);
        repaired_as(&image, &sound);
    }
}

/// An inode misses the write that gave its file other blocks, and no log tells: the free space, the reverse map and their age do.
#[test]
fn an_inode_that_missed_a_write_loses_against_what_is_newer() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    let Images { _folder, sound, image } = Images::new();
    let contents =
        |version: u8, length: usize| (0..length).map(|at| version + (at % 97) as u8).collect::<Vec<_>>();
    let lengths = [(9000, 3000), (3000, 20_000), (5000, 5000)];
    let path = |root: &Path, file: usize| root.join(format!("file {file}"));
    let write = |root: &Path, version: u8, is_first: bool| {
        for (file, (first, second)) in lengths.iter().enumerate() {
            fs::write(path(root, file), contents(version, if is_first { *first } else { *second })).unwrap();
        }
    };
    let mount = LoopMount::new(&sound, Access::ReadWrite).unwrap();
    write(mount.path(), 1, true);
    mount.unmount().unwrap();
    let before = objects(&sound);
    let mount = LoopMount::new(&sound, Access::ReadWrite).unwrap();
    // Versions between them, so that the last ones lie elsewhere than the first.
    let beside = mount.path().join("beside");
    fs::create_dir(&beside).unwrap();
    write(&beside, 2, false);
    write(mount.path(), 3, false);
    mount.unmount().unwrap();
    let after = objects(&sound);
    let (geometry, _) = structures::list(&open(&sound)).unwrap();
    sparse::copy(&sound, &image).unwrap();
    let is_inode = |object: &&(Instance, Vec<u8>)| object.0.structure == Structure::Inode;
    let changed = before.iter().filter(is_inode).filter(|(instance, old)| {
        let is_file = old[2] >> 4 == 8;
        is_file && after.iter().any(|(other, new)| other == instance && new != old)
    });
    let changed: Vec<_> = changed.collect();
    assert_eq!(changed.len(), lengths.len());
    changed.iter().for_each(|(instance, old)| put(&image, instance, old));
    zero_log(&image, &geometry, |_| true);
    let staged = repair_image(&image);
    assert!(staged.remaining.is_empty(), "{:?}", staged.remaining);
    let overruled = staged
        .actions
        .iter()
        .filter(|action| matches!(action, Action::ExtentMapOverruled { by: MapWitness::Age, .. }));
    // A file may have got the same blocks again.
    assert!(overruled.count() >= 2, "{:#?}", staged.actions);
    assert_eq!(repair_findings(&image).unwrap(), Vec::<String>::new());
    let mount = LoopMount::new(&image, Access::ReadOnlyNoRecovery).unwrap();
    for (file, (_, length)) in lengths.iter().enumerate() {
        assert_eq!(fs::read(path(mount.path(), file)).unwrap(), contents(3, *length), "{file}");
    }
}

/// The log has an inode, and records that came later are gone: the inode that comes back may be older, and the repair says so.
#[test]
fn a_copy_before_damaged_records_of_the_log_is_a_guess() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    let Images { _folder, sound, image } = Images::new();
    let mount = LoopMount::new(&sound, Access::ReadWrite).unwrap();
    for version in 0..12 {
        for name in ["early", "late"] {
            // The first one changes in the first half alone.
            if name == "late" || version < 6 {
                let file = fs::File::create(mount.path().join(name)).unwrap();
                file.set_permissions(fs::Permissions::from_mode(0o600 + version)).unwrap();
                file.sync_all().unwrap();
            }
        }
    }
    mount.unmount().unwrap();
    let (geometry, _) = structures::list(&open(&sound)).unwrap();
    let inodes: Vec<_> = objects(&sound)
        .into_iter()
        .filter(|(instance, bytes)| {
            // The realtime inodes have no permissions.
            instance.structure == Structure::Inode && bytes[2] >> 4 == 8 && bytes[3] != 0
        })
        .collect();
    assert_eq!(inodes.len(), 2);
    for is_damaged in [false, true] {
        sparse::copy(&sound, &image).unwrap();
        inodes.iter().for_each(|(instance, bytes)| put(&image, instance, &vec![0; bytes.len()]));
        if is_damaged {
            // Not the last records: they say that the log is clean.
            zero_log(&image, &geometry, |part| (0.6..0.8).contains(&part));
        }
        let staged = stage(&image, &in_order());
        assert!(staged.remaining.is_empty(), "{:?}", staged.remaining);
        let is_guess = |instance: &Instance| {
            let uxfs_testkit::structures::Owner::Inode(number) = instance.owner else { return None };
            let action = staged
                .actions
                .iter()
                .find(|action| matches!(action, Action::InodeRebuilt { inode, .. } if inode.get() == number));
            action.map(|action| action.certainty() == Certainty::Guess)
        };
        let guesses = [is_guess(&inodes[0].0), is_guess(&inodes[1].0)];
        // The last change of the other one comes after the damage.
        assert_eq!(guesses, [Some(is_damaged), Some(false)], "{:#?}", staged.actions);
    }
}

/// The log has a hole and seems to end there: its newest record says that the changes behind the hole were in place.
#[test]
fn writes_are_compared_with_what_the_log_has_behind_a_hole() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    let Images { _folder, sound, image } = Images::filled();
    let mount = LoopMount::new(&sound, Access::ReadWrite).unwrap();
    let directory = mount.path().join("between");
    fs::create_dir(&directory).unwrap();
    (0..1000).for_each(|number| empty(&directory.join(format!("a file that no write loses {number}"))));
    mount.unmount().unwrap();
    let (geometry, _) = structures::list(&open(&sound)).unwrap();
    let (before, (log_start, _, records)) = (objects(&sound), records_of(&sound, &geometry));
    let mount = LoopMount::new(&sound, Access::ReadWrite).unwrap();
    second_round(mount.path());
    mount.unmount().unwrap();
    let after = objects(&sound);
    let has_changed = |(instance, old): &&(Instance, Vec<u8>)| {
        after.iter().any(|(other, new)| other == instance && new != old) && lsn_of(instance, old) != 0
    };
    let changed: Vec<&(Instance, Vec<u8>)> = before.iter().filter(has_changed).collect();
    assert!(changed.len() > 10, "{changed:?}");
    sparse::copy(&sound, &image).unwrap();
    changed.iter().for_each(|(instance, old)| put(&image, instance, old));
    let file = fs::File::options().write(true).open(&image).unwrap();
    let (hole, end) = (records[records.len() / 2], records[records.len() - 2]);
    file.write_all_at(&vec![0; end - hole], log_start + hole as u64).unwrap();
    let state = uxfs_journal::examine(&open(&image), &geometry).ok().and_then(|state| state.head());
    assert!(state.is_none_or(|head| head.block() as usize <= hole / 512), "{state:?}");
    let is_older = |finding: &Finding| matches!(finding, Finding::OlderThanLog { .. });
    let older = findings_of(&image).into_iter().filter(is_older).count();
    assert!(older >= changed.len(), "{older} of {changed:?}");
    repaired_as(&image, &sound);
}

/// A block has the number that the next record of the log will have. Linux lets it pass, and `xfs_repair` finds it.
#[test]
fn a_number_that_the_next_record_will_have_is_ahead_of_the_log() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    let Images { _folder, sound, image } = Images::filled();
    let (geometry, _) = structures::list(&open(&sound)).unwrap();
    let number = |log: &[u8], at: usize, length: usize| {
        log[at..at + length].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    };
    let (_, log, records) = records_of(&sound, &geometry);
    let newest = records.into_iter().max_by_key(|at| number(&log, at + 16, 8)).unwrap();
    // One block of the log for the header, and those of the contents.
    let last = number(&log, newest + 16, 8);
    let next = last + 1 + number(&log, newest + 12, 4) / 512;
    let mut blocks = objects(&sound).into_iter();
    let (instance, mut bytes) =
        blocks.find(|(instance, _)| instance.structure == Structure::DirectoryBlock).unwrap();
    for (lsn, is_found) in [(last, false), (next, true)] {
        sparse::copy(&sound, &image).unwrap();
        bytes[16..24].copy_from_slice(&lsn.to_be_bytes());
        seal(&mut bytes, None, &geometry);
        put(&image, &instance, &bytes);
        let findings = (findings_of(&image), repair_findings(&image).unwrap());
        assert_eq!((findings.0.is_empty(), findings.1.is_empty()), (!is_found, !is_found), "{findings:?}");
        if is_found {
            repaired_as(&image, &sound);
        }
    }
}

/// Where the log begins, its bytes, and where its records begin.
fn records_of(image: &Path, geometry: &Geometry) -> (u64, Vec<u8>, Vec<usize>) {
    let start = Geometry::byte_of_sector(geometry.sector_of_block(geometry.log_start.unwrap()).unwrap());
    let mut log = vec![0; geometry.log_blocks as usize * geometry.block_size()];
    fs::File::open(image).unwrap().read_exact_at(&mut log, start).unwrap();
    // Those without contents only overwrite what lies ahead of the head.
    let is_record =
        |at: &usize| log[*at..*at + 4] == [0xfe, 0xed, 0xba, 0xbe] && log[*at + 12..*at + 16] != [0; 4];
    let records = (0..log.len()).step_by(512).filter(is_record).collect();
    (start, log, records)
}

/// Overwrites those records of the log with zeros of which this is true: by how many of all records lie before them, 0 to 1.
fn zero_log(image: &Path, geometry: &Geometry, is_lost: impl Fn(f64) -> bool) {
    let file = fs::File::options().write(true).open(image).unwrap();
    let (start, log, mut records) = records_of(image, geometry);
    let count = records.len();
    records.push(log.len());
    for (number, pair) in records.windows(2).enumerate() {
        if is_lost(number as f64 / count as f64) {
            file.write_all_at(&vec![0; pair[1] - pair[0]], start + pair[0] as u64).unwrap();
        }
    }
}

/// A file system of 64 MiB in four groups, and the path for a damaged copy.
struct Images {
    _folder: tempfile::TempDir,
    sound: PathBuf,
    image: PathBuf,
}

impl Images {
    fn new() -> Self {
        let folder = tempfile::tempdir_in(memory_folder()).unwrap();
        let (sound, image) = (folder.path().join("sound"), folder.path().join("image"));
        make(&sound, 64 << 20, &["-d", "agcount=4"]).unwrap();
        Self { _folder: folder, sound, image }
    }

    /// With what the first round makes.
    fn filled() -> Self {
        let images = Self::new();
        let mount = LoopMount::new(&images.sound, Access::ReadWrite).unwrap();
        first_round(mount.path());
        mount.unmount().unwrap();
        images
    }
}

fn empty(path: &Path) {
    fs::File::create(path).unwrap();
}

/// The headers of all groups are gone, and with them what says whose blocks are whose; the log has a block of an extent map that comes back only
/// after the group was rebuilt once. What lies in its extents must not be written over by then.
#[test]
fn a_group_that_is_made_anew_twice_writes_over_nothing() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    let Images { _folder, sound, image } = Images::filled();
    let maps = objects(&sound).into_iter().filter(|(instance, _)| instance.structure == Structure::ExtentMap);
    for (instance, bytes) in maps {
        sparse::copy(&sound, &image).unwrap();
        put(&image, &instance, &vec![0; bytes.len()]);
        let file = fs::File::options().write(true).open(&image).unwrap();
        for group in 0..4 {
            file.write_all_at(&[0; 3 * 512], (group << 24) + 512).unwrap();
        }
        repaired_as(&image, &sound);
    }
}

fn repaired_as(image: &Path, sound: &Path) {
    let staged = repair_image(image);
    assert!(staged.remaining.is_empty(), "{:?}", staged.remaining);
    assert_eq!(repair_findings(image).unwrap(), Vec::<String>::new());
    let mounts = [sound, image].map(|image| LoopMount::new(image, Access::ReadOnlyNoRecovery).unwrap());
    same_tree::compare(mounts[0].path(), mounts[1].path()).unwrap();
    assert!(findings_of(image).is_empty(), "{:?}", findings_of(image));
}

fn open(image: &Path) -> SyncDevice {
    SyncDevice::open_read_only(image, 0).unwrap()
}

/// Inodes and blocks of files.
fn objects(image: &Path) -> Vec<(Instance, Vec<u8>)> {
    let device = open(image);
    let (_, mut all) = structures::list(&device).unwrap();
    all.retain(|instance| is_object(instance.structure));
    all.into_iter().map(|instance| (instance.clone(), instance.read(&device).unwrap())).collect()
}

fn is_object(structure: Structure) -> bool {
    matches!(
        structure,
        Structure::Inode
            | Structure::DirectoryBlock
            | Structure::DirectoryData
            | Structure::DirectoryLeaf
            | Structure::AttributeLeaf
            | Structure::ExtentMap
            | Structure::Symlink
    )
}

fn lsn_of(instance: &Instance, bytes: &[u8]) -> u64 {
    let offset = match instance.structure {
        Structure::Inode => 112,
        Structure::ExtentMap => 32,
        Structure::Symlink => 48,
        Structure::DirectoryBlock | Structure::DirectoryData => 16,
        _ => 24,
    };
    u64::from_be_bytes(bytes[offset..offset + 8].try_into().unwrap())
}

fn put(image: &Path, instance: &Instance, bytes: &[u8]) {
    let file = fs::File::options().write(true).open(image).unwrap();
    let mut rest = bytes;
    for (offset, length) in &instance.pieces {
        let (piece, behind) = rest.split_at(usize::try_from(*length).unwrap());
        file.write_all_at(piece, *offset).unwrap();
        rest = behind;
    }
}

fn first_round(root: &Path) {
    for (directory, files) in [("short", 2), ("block", 20), ("leaf", 200)] {
        let directory = root.join(directory);
        fs::create_dir(&directory).unwrap();
        for file in 0..files {
            fs::write(directory.join(format!("a-file-with-a-name-{file:03}")), [7; 100]).unwrap();
        }
    }
    let fragmented = fs::File::create(root.join("fragmented")).unwrap();
    for part in 0..300_u64 {
        fragmented.write_all_at(&[1; 4096], part * 8192).unwrap();
    }
    let attributes = root.join("attributes");
    fs::write(&attributes, "contents").unwrap();
    for attribute in 0..30 {
        set_attribute(&attributes, &format!("user.{attribute:03}"), &[5; 60]);
    }
}

fn second_round(root: &Path) {
    for directory in ["short", "block", "leaf"] {
        let directory = root.join(directory);
        fs::rename(directory.join("a-file-with-a-name-001"), directory.join("renamed")).unwrap();
        fs::remove_file(directory.join("a-file-with-a-name-000")).unwrap();
        fs::set_permissions(directory.join("renamed"), fs::Permissions::from_mode(0o640)).unwrap();
        symlink("renamed", directory.join("link")).unwrap();
    }
    let fragmented = fs::File::options().write(true).open(root.join("fragmented")).unwrap();
    for part in 300..400_u64 {
        fragmented.write_all_at(&[2; 4096], part * 8192).unwrap();
    }
    set_attribute(&root.join("attributes"), "user.005", &[6; 50]);
}

fn set_attribute(path: &Path, name: &str, value: &[u8]) {
    rustix::fs::setxattr(path, name, value, rustix::fs::XattrFlags::empty()).unwrap();
}
