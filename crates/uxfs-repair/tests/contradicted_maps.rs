//! Extent maps that lie with right checksums: the reverse map says otherwise, and a third witness tells which of the two is right.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
};

use tempfile::TempDir;
use uxfs_block::engine::sync::SyncDevice;
use uxfs_format::{
    btree::extent_map::{Extent, ExtentMapRoot, ExtentRecord, MAX_EXTENT_BLOCKS},
    inode::{FileType, Fork, ForkFormat, InodeFlags2},
    units::{FileBlock, FsBlock, InodeNumber},
};
use uxfs_repair::repair::{
    Staged,
    action::{Action, MapWitness},
};
use uxfs_testkit::{
    golden::GoldenImage,
    image::memory_folder,
    judges::Judge,
    manifest::{differences, from_mount, report},
    mount::{Access, LoopMount},
    require,
    verdict::{repair_findings, repair_is_silent},
};
use uxfs_volume::{
    btree::{BlockEvent, Tree},
    inode::{
        Inode,
        scan::{ScanEvent, ScanOptions, ScannedInode},
    },
    volume::{Volume, VolumeOptions},
};

use crate::common::{plant, repair_image, repair_image_without_log, try_all};

struct MappedFile {
    inode: InodeNumber,
    extents: Vec<Extent>,
    end_block: u64,
}

/// A golden image in a folder of its own, which lives as long as its handle.
fn unpacked(name: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = folder.path().join("image");
    GoldenImage::lean(name).unwrap().unpack_to(&image).unwrap();
    (folder, image)
}

fn open(image: &Path) -> Volume {
    let device = Arc::new(SyncDevice::open_read_only(image, 0).unwrap());
    Volume::open(device, &VolumeOptions::default()).unwrap()
}

fn extents_of(image: &Path, inode: InodeNumber) -> Vec<Extent> {
    let volume = open(image);
    let inode = volume.inode(inode).unwrap();
    volume.extent_map(&inode, Fork::Data).unwrap().iter().collect()
}

/// Regular files whose extents lie in the inode, and that share none.
fn mapped_files(image: &Path) -> Vec<MappedFile> {
    regular_files(image, InodeFlags2::empty(), ForkFormat::Extents)
}

/// Regular files with this format that share blocks, or do not.
fn regular_files(image: &Path, shares: InodeFlags2, format: ForkFormat) -> Vec<MappedFile> {
    let volume = open(image);
    let geometry = volume.geometry();
    let visit = |found: &mut Vec<MappedFile>, event: ScanEvent<'_>| {
        if let ScanEvent::Inode(ScannedInode { bytes, core: Ok(core), number, .. }) = event
            && core.file_type() == Some(FileType::Regular)
            && core.flags2().intersection(InodeFlags2::REFLINK | InodeFlags2::METADATA) == shares
            && let Some(inode) = Inode::decode(bytes, core, geometry)
            && inode.fork_format(Fork::Data) == Some(format)
        {
            let extents = volume.extent_map(&inode, Fork::Data).unwrap().iter().collect();
            let end_block = inode.size_bytes().div_ceil(geometry.block_size() as u64);
            found.push(MappedFile { inode: number, extents, end_block });
        }
        ControlFlow::Continue(())
    };
    let (_, found) = volume.scan_inodes(&ScanOptions::in_order(), Vec::new, visit);
    found.into_iter().flatten().collect()
}

impl MappedFile {
    /// One extent that holds the whole file.
    fn is_plain(&self) -> bool {
        matches!(self.extents[..], [one] if one.file_block.get() == 0 && one.length_blocks == self.end_block)
    }

    /// The first extent before which there is a hole.
    fn after_a_hole(&self) -> Option<usize> {
        let is_after = |pair: &[Extent]| pair[0].end() < pair[1].file_block;
        let is_below = |extent: &Extent| extent.end().get() <= self.end_block;
        let index = self.extents.windows(2).position(is_after)? + 1;
        self.extents.iter().all(is_below).then_some(index)
    }
}

/// Which witness overruled the extent map of the data fork.
fn overruled_by(staged: &Staged, number: InodeNumber) -> Option<MapWitness> {
    staged.actions.iter().find_map(|action| match action {
        Action::ExtentMapOverruled { inode, fork: Fork::Data, by, .. } if *inode == number => Some(*by),
        _ => None,
    })
}

fn is_kept(staged: &Staged, number: InodeNumber) -> bool {
    staged
        .actions
        .iter()
        .any(|action| matches!(action, Action::ExtentMapKept { inode, fork: Fork::Data } if *inode == number))
}

/// A field of an extent that is changed, and the witness that tells, with the copies of the log or without.
type Lie = (&'static str, fn(&Extent) -> u64, Option<MapWitness>);

const LIES: &[Lie] = &[
    ("startoff", |extent| extent.file_block.get() + 0x1000, Some(MapWitness::Size)),
    ("blockcount", |extent| extent.length_blocks + 3, Some(MapWitness::BlockCount)),
];

#[test]
fn the_reverse_map_overrules_what_a_third_contradicts() {
    require!(Judge::XfsDb, Judge::XfsRepair);
    let golden = GoldenImage::lean("default").unwrap();
    let (_folder, image) = unpacked("default");
    let files = mapped_files(&image);
    let file = files.iter().find(|file| file.is_plain()).unwrap();
    for (field, lie, witness) in LIES {
        for with_log in [false, true] {
            golden.unpack_to(&image).unwrap();
            let change = format!("write -d u3.bmx[0].{field} {}", lie(&file.extents[0]));
            plant(&image, &[&format!("inode {}", file.inode), &change]);
            assert_ne!(extents_of(&image, file.inode), file.extents);
            let staged = if with_log { repair_image(&image) } else { repair_image_without_log(&image) };
            let actions = &staged.actions;
            let by = overruled_by(&staged, file.inode);
            assert!(by == *witness || with_log && by == Some(MapWitness::Log), "{field}: {actions:#?}");
            assert_eq!(extents_of(&image, file.inode), file.extents, "{field}: {actions:#?}");
            assert!(staged.remaining.is_empty(), "{field}: {:#?}", staged.remaining);
            repair_is_silent(&image).unwrap();
        }
    }
}

#[test]
fn owners_tell_where_blocks_of_a_file_that_shares_lie() {
    require!(Judge::XfsDb, Judge::XfsRepair);
    let (_folder, image) = unpacked("default");
    let files = regular_files(&image, InodeFlags2::REFLINK, ForkFormat::Btree);
    let file = files.first().unwrap();
    let lie = file.extents[4].start.get() - 1;
    let change = format!("write -d recs[5].startblock {lie}");
    plant(&image, &[&format!("inode {}", file.inode), "addr u3.bmbt.ptrs[1]", &change]);
    assert_eq!(extents_of(&image, file.inode)[4].start.get(), lie);
    let staged = repair_image_without_log(&image);
    let actions = &staged.actions;
    assert_eq!(overruled_by(&staged, file.inode), Some(MapWitness::BlockOwners), "{actions:#?}");
    assert_eq!(extents_of(&image, file.inode), file.extents, "{actions:#?}");
    assert!(staged.remaining.is_empty(), "{:#?}", staged.remaining);
    repair_is_silent(&image).unwrap();
}

#[test]
fn where_nothing_tells_the_map_stays_and_the_report_says_so() {
    require!(Judge::XfsDb, Judge::XfsRepair);
    let (_folder, image) = unpacked("default");
    let files = mapped_files(&image);
    let (file, index) = files.iter().find_map(|file| Some((file, file.after_a_hole()?))).unwrap();
    let mut moved = file.extents.clone();
    moved[index].file_block = FileBlock::new(moved[index].file_block.get() - 1);
    let change = format!("write -d u3.bmx[{index}].startoff {}", moved[index].file_block.get());
    plant(&image, &[&format!("inode {}", file.inode), &change]);
    let staged = repair_image_without_log(&image);
    assert!(is_kept(&staged, file.inode), "{:#?}", staged.actions);
    assert_eq!(extents_of(&image, file.inode), moved);
    assert!(staged.remaining.is_empty(), "{:#?}", staged.remaining);
    repair_is_silent(&image).unwrap();
    // The reverse map follows the extent map: the second repair has no question left.
    let again = repair_image_without_log(&image);
    assert!(again.actions.is_empty(), "{:#?}", again.actions);
}

#[test]
fn without_a_reverse_map_one_of_two_files_keeps_the_blocks_and_the_other_the_rest() {
    require!(Judge::XfsDb, Judge::XfsRepair);
    let (_folder, image) = unpacked("no-rmapbt");
    let files = mapped_files(&image);
    let kept = files.iter().find(|file| file.is_plain()).unwrap();
    let several = |file: &&MappedFile| {
        file.inode > kept.inode && file.extents.len() > 2 && file.extents[1].length_blocks == 1
    };
    let other = files.iter().find(several).unwrap();
    let first = kept.extents[0].start;
    plant(
        &image,
        &[&format!("inode {}", other.inode), &format!("write -d u3.bmx[1].startblock {}", first.get())],
    );
    let staged = repair_image_without_log(&image);
    assert!(staged.remaining.is_empty(), "{:#?}", staged.remaining);
    repair_is_silent(&image).unwrap();
    assert_eq!(extents_of(&image, kept.inode), kept.extents);
    let mut rest = other.extents.clone();
    rest.remove(1);
    assert_eq!(extents_of(&image, other.inode), rest);
    let given_up = staged.actions.iter().find_map(|action| match action {
        Action::BlocksGivenUp { inode, kept_by, is_chosen, .. } => Some((*inode, *kept_by, *is_chosen)),
        _ => None,
    });
    assert_eq!(given_up, Some((other.inode, Some(kept.inode), true)));
    let is_partial =
        |action: &Action| matches!(action, Action::FilePartial { inode } if *inode == other.inode);
    assert!(staged.actions.iter().any(is_partial), "{:#?}", staged.actions);
}

/// Leaves of the extent map of a file, with the extents in each.
fn leaves_of(image: &Path, inode: InodeNumber) -> Vec<(FsBlock, Vec<Extent>)> {
    let volume = open(image);
    let inode = volume.inode(inode).unwrap();
    let root = ExtentMapRoot::parse(inode.extent_root_bytes(Fork::Data)).unwrap();
    let mut leaves = Vec::new();
    let _ = Tree::of_inode(&volume, inode.number, &root).visit_blocks(&mut |event| {
        if let BlockEvent::Block { address, view, .. } = event
            && view.is_leaf()
        {
            leaves.push((address, view.records().iter().map(ExtentRecord::get).collect()));
        }
        ControlFlow::Continue(())
    });
    leaves
}

/// An extent of a leaf with another length.
struct WrongLength {
    inode: InodeNumber,
    leaf: FsBlock,
    index: usize,
    length_blocks: u64,
}

/// Lengths that cannot be, at the ends of leaves and within them; and lengths that can be.
fn wrong_lengths(image: &Path) -> Vec<WrongLength> {
    let files = regular_files(image, InodeFlags2::empty(), ForkFormat::Btree);
    let mut wrong = Vec::new();
    for MappedFile { inode, .. } in files {
        let leaves = leaves_of(image, inode);
        let last = leaves.len() - 1;
        let mut add = |leaf: usize, index: usize, length_blocks: u64| {
            wrong.push(WrongLength { inode, leaf: leaves[leaf].0, index, length_blocks });
        };
        add(0, 0, 0);
        add(0, leaves[0].1.len() - 1, MAX_EXTENT_BLOCKS);
        add(last, leaves[last].1.len() - 1, MAX_EXTENT_BLOCKS);
        let mut pairs = leaves[last].1.windows(2).enumerate();
        let is_before_hole =
            |pair: &[Extent]| pair[0].length_blocks > 1 && pair[0].end() < pair[1].file_block;
        if let Some((index, pair)) = pairs.find(|(_, pair)| is_before_hole(pair)) {
            add(last, index, pair[0].length_blocks - 1);
            add(last, index, pair[0].length_blocks + 1);
        }
    }
    wrong
}

#[test]
fn without_a_reverse_map_counted_blocks_and_free_space_tell_one_length() {
    require!(Judge::XfsDb, Judge::XfsRepair, Judge::Kernel);
    let golden = GoldenImage::lean("no-feature").unwrap();
    let (_folder, sound) = unpacked("no-feature");
    let cases = wrong_lengths(&sound);
    assert!(cases.len() > 15, "{}", cases.len());
    let expected = golden.manifest().unwrap();
    let wrong = try_all(&cases, |case, image| {
        let WrongLength { inode, leaf, index, length_blocks } = case;
        golden.unpack_to(image).unwrap();
        let change = format!("write -d recs[{}].blockcount {length_blocks}", index + 1);
        plant(image, &[&format!("fsblock {leaf}"), "type bmapbtd", &change]);
        let staged = repair_image_without_log(image);
        let told = || format!("inode {inode}, record {index}, {length_blocks}: {:#?}", staged.actions);
        let is_so = |action: &Action| matches!(action, Action::ExtentMap { inode: of, .. } if of == inode);
        let mut wrong = Vec::new();
        if !staged.remaining.is_empty() || !staged.actions.iter().any(is_so) {
            wrong.push(told());
        }
        if extents_of(image, *inode) != extents_of(&sound, *inode) {
            wrong.push(format!("other extents: {}", told()));
        }
        wrong.extend(repair_findings(image).unwrap());
        let mount = LoopMount::new(image, Access::ReadOnly).unwrap();
        let found = from_mount(mount.path(), expected.header.clone()).unwrap();
        mount.unmount().unwrap();
        wrong.extend(report(&differences(&expected, &found), 20));
        wrong
    });
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn without_a_reverse_map_two_wrong_lengths_are_told() {
    require!(Judge::XfsDb, Judge::XfsRepair);
    let (_folder, image) = unpacked("no-feature");
    let files = regular_files(&image, InodeFlags2::empty(), ForkFormat::Btree);
    let long = |extents: &[Extent]| -> Vec<usize> {
        let is_long = |index: &usize| extents[*index].length_blocks > 1;
        (0..extents.len()).filter(is_long).take(2).collect()
    };
    let found = files.iter().find_map(|file| {
        let (leaf, extents) = leaves_of(&image, file.inode).swap_remove(0);
        Some((file.inode, leaf, long(&extents), extents)).filter(|(_, _, long, _)| long.len() == 2)
    });
    let (inode, leaf, long, extents) = found.unwrap();
    for index in long {
        let shorter = extents[index].length_blocks - 1;
        let change = format!("write -d recs[{}].blockcount {shorter}", index + 1);
        plant(&image, &[&format!("fsblock {leaf}"), "type bmapbtd", &change]);
    }
    let staged = repair_image_without_log(&image);
    assert!(staged.remaining.is_empty() && is_kept(&staged, inode), "{:#?}", staged.actions);
    repair_is_silent(&image).unwrap();
}
