//! Reverse-map and reference-count records in images of mkfs.xfs: random histories of inodes that do not exist, beside naive
//! models. Only a model can judge such records; after the last is gone xfs_repair must report nothing.

mod clones;
mod edges;
mod names;

use std::{collections::BTreeMap, path::Path, sync::Arc};

use uxfs_block::engine::sync::SyncDevice;
use uxfs_engine::{
    inode::edit::EditInode,
    transaction::{
        Transaction,
        allocate::{AllocationRequest, Goal},
        deferred::FreedOwner,
    },
};
use uxfs_filesystem::filesystem::FileSystem;
use uxfs_filesystem::mount;
use uxfs_format::{
    btree::{
        extent_map::Extent,
        reference_count::SharedExtent,
        reverse_map::{Mapping, Owner},
    },
    geometry::Geometry,
    inode::{Fork, InodeFlags2},
    log::reference_count::ReferenceCountOperation,
    units::{AgBlock, AgNumber, FileBlock, FsBlock, InodeNumber},
};
use uxfs_testkit::{
    image::{TestImage, mount_bulk, mount_options},
    judges::{Judge, judged},
    ownership::{OwnerModel, ReferenceModel},
    require,
    seeds::{Random, Seed},
    verdict::repair_is_silent,
};
use uxfs_volume::volume::Volume;

/// Name, options of mkfs, and steps.
const IMAGES: &[(&str, &[&str], usize)] = &[
    ("default", &[], 1500),
    ("1 KiB blocks", &["-b", "size=1024", "-d", "agcount=2"], 4800),
    ("2 KiB blocks, no sharing", &["-b", "size=2048", "-m", "reflink=0"], 1200),
    ("4 KiB sectors", &["-s", "size=4096"], 900),
    ("64 KiB blocks", &["-b", "size=65536"], 500),
    ("no owners", &["-m", "rmapbt=0"], 600),
    ("neither owners nor sharing", &["-m", "rmapbt=0,reflink=0"], 400),
];

fn make(options: &[&str]) -> TestImage {
    TestImage::new("owners", 400, options, 0)
}

fn open(image: &Path) -> FileSystem {
    mount_bulk(image, &mount_options(32 << 20)).unwrap()
}

fn open_volume(image: &Path) -> Volume {
    let device = SyncDevice::open_read_only(image, 0).unwrap();
    mount::open_volume(Arc::new(device), &mount_options(32 << 20)).unwrap()
}

/// Files that share nothing, and files that may.
const EXCLUSIVE_FILES: u64 = 3;
const FILES: u64 = 7;

/// A file system, and what its trees must say.
struct World<'i> {
    image: &'i Path,
    file_system: Arc<FileSystem>,
    owners: Vec<OwnerModel>,
    references: Vec<ReferenceModel>,
    /// Behind all that the file has.
    ends: BTreeMap<u64, u64>,
    /// Its inode number less the root's.
    first_file: u64,
    random: Random,
}

impl<'i> World<'i> {
    fn new(image: &'i Path, seed: &Seed) -> Self {
        Self { random: seed.random(), ..Self::on(image, Arc::new(open(image))) }
    }

    fn on(image: &'i Path, file_system: Arc<FileSystem>) -> Self {
        let groups = file_system.geometry().ag_count as usize;
        let (owners, references) =
            (vec![OwnerModel::default(); groups], vec![ReferenceModel::default(); groups]);
        let (ends, random) = (BTreeMap::new(), Random::new(1));
        Self { image, file_system, owners, references, ends, first_file: 3, random }
    }

    fn has_sharing(&self) -> bool {
        self.file_system.geometry().features.has_reflink()
    }

    /// The root directory by another name: enough of an inode to own blocks.
    fn file(&self, transaction: &mut Transaction<'_>, number: u64) -> EditInode {
        let root = self.file_system.geometry().root_inode;
        let mut inode = transaction.load_inode(root).unwrap();
        inode.number = self.number(number);
        if number >= EXCLUSIVE_FILES && self.has_sharing() {
            let flags2 = inode.core.flags2() | InodeFlags2::REFLINK;
            inode.core.flags2.set(flags2.bits());
        }
        inode
    }

    fn number(&self, number: u64) -> InodeNumber {
        InodeNumber::new(self.file_system.geometry().root_inode.get() + self.first_file + number)
    }

    fn split(&self, start: FsBlock) -> (usize, u32) {
        let (group, start) = self.file_system.geometry().split_fs_block(start).unwrap();
        (group.get() as usize, start.get())
    }

    fn extent_of(&self, group: usize, mapping: &Mapping) -> Extent {
        let group = AgNumber::new(group as u32);
        Extent {
            file_block: mapping.file_block,
            start: self.file_system.geometry().fs_block(group, mapping.start).unwrap(),
            length_blocks: mapping.length_blocks.into(),
            is_unwritten: mapping.is_unwritten,
        }
    }

    /// A random piece of a file's wanted mappings, of at most `most` blocks.
    fn some_piece(&mut self, most: u64, wanted: impl Fn(&Mapping) -> bool) -> Option<(usize, Mapping)> {
        let group = self.random.below(self.owners.len() as u64) as usize;
        let list: Vec<Mapping> = self.owners[group].mappings().into_iter().filter(wanted).collect();
        let mapping = *list.get(self.random.below(list.len() as u64) as usize)?;
        let skip = self.random.below(mapping.length_blocks.into()) as u32;
        let left = u64::from(mapping.length_blocks - skip);
        let length_blocks = (1 + self.random.below(left.min(most))) as u32;
        let advance = if mapping.has_file_blocks() { u64::from(skip) } else { 0 };
        let start = mapping.start.checked_add(skip).unwrap();
        let file_block = FileBlock::new(mapping.file_block.get() + advance);
        Some((group, Mapping { start, length_blocks, file_block, ..mapping }))
    }

    fn file_of(&self, mapping: &Mapping) -> u64 {
        match mapping.owner {
            Owner::Inode(inode) => inode.get() - self.number(0).get(),
            other => unreachable!("{other}"),
        }
    }

    fn step(&mut self, transaction: &mut Transaction<'_>, shrinks: bool) {
        let kind = self.random.below(16);
        match kind {
            0..=6 if !shrinks => self.allocate(transaction),
            7 if !shrinks => self.stage(transaction),
            8 | 9 if !shrinks => self.share(transaction),
            10 => self.convert(transaction),
            11 => self.unstage(transaction),
            12 if !shrinks => self.grow_extent_map(transaction),
            13 => self.shrink_extent_map(transaction),
            _ => self.release(transaction),
        }
    }

    /// Blocks of one group from the allocator.
    fn blocks(&mut self, transaction: &mut Transaction<'_>) -> (FsBlock, u32) {
        let most = 1 + self.random.below(12) as u32;
        let group = AgNumber::new(self.random.below(self.owners.len() as u64) as u32);
        let request =
            AllocationRequest { min_blocks: 1, ..AllocationRequest::data(Goal::Group(group), most) };
        let allocated = transaction.allocate(&request).unwrap();
        (allocated.start, allocated.length_blocks)
    }

    fn allocate(&mut self, transaction: &mut Transaction<'_>) {
        let (start, length_blocks) = self.blocks(transaction);
        let number = self.random.below(FILES);
        let end = self.ends.entry(number).or_default();
        // Often behind what the file has, so that blocks which happen to follow each other go on.
        let gap = if self.random.below(4) == 0 { 5 } else { 0 };
        let file_block = FileBlock::new(*end + gap);
        *end += gap + u64::from(length_blocks);
        let is_unwritten = self.random.below(3) == 0;
        let extent = Extent { file_block, start, length_blocks: length_blocks.into(), is_unwritten };
        let (group, mapping) = self.mapping_of(number, &extent);
        self.owners[group].map(&mapping);
        let inode = self.file(transaction, number);
        transaction.defer_map(&inode, Fork::Data, &extent).unwrap();
    }

    fn mapping_of(&self, number: u64, extent: &Extent) -> (usize, Mapping) {
        let (group, start) = self.split(extent.start);
        let mapping = Mapping {
            owner: Owner::Inode(self.number(number)),
            file_block: extent.file_block,
            is_unwritten: extent.is_unwritten,
            ..Mapping::of_group(AgBlock::new(start), extent.length_blocks as u32, Owner::Log)
        };
        (group, mapping)
    }

    /// A second file gets the blocks of a first.
    fn share(&mut self, transaction: &mut Transaction<'_>) {
        if !self.has_sharing() {
            return;
        }
        let first = self.number(EXCLUSIVE_FILES);
        let is_shareable = move |mapping: &Mapping| {
            is_contents(mapping) && mapping.owner >= Owner::Inode(first) && !mapping.is_unwritten
        };
        let Some((group, piece)) = self.some_piece(8, is_shareable) else { return };
        let number = EXCLUSIVE_FILES + self.random.below(FILES - EXCLUSIVE_FILES);
        let end = self.ends.entry(number).or_default();
        // As a clone has it, where the other file has nothing there; else at its end.
        let is_clone = *end <= piece.file_block.get();
        let file_block = if is_clone { piece.file_block } else { FileBlock::new(*end) };
        *end = file_block.get() + u64::from(piece.length_blocks);
        let extent = Extent { file_block, is_unwritten: false, ..self.extent_of(group, &piece) };
        let (_, mapping) = self.mapping_of(number, &extent);
        self.owners[group].map(&mapping);
        self.references[group].increase(piece.start, piece.length_blocks);
        let inode = self.file(transaction, number);
        transaction.defer_map(&inode, Fork::Data, &extent).unwrap();
        let increase = ReferenceCountOperation::Increase;
        transaction.defer_reference_count(increase, extent.start, extent.length_blocks).unwrap();
    }

    fn convert(&mut self, transaction: &mut Transaction<'_>) {
        let Some((group, piece)) = self.some_piece(8, is_contents) else {
            return;
        };
        // Shared extents are written: Linux ensures it, and xfs_repair relies on it.
        if self.references[group].find_shared(piece.start, piece.length_blocks).is_some() {
            return;
        }
        let new = Mapping { is_unwritten: !piece.is_unwritten, ..piece };
        self.owners[group].convert(&new);
        let inode = self.file(transaction, self.file_of(&piece));
        transaction.defer_convert(&inode, Fork::Data, &self.extent_of(group, &new)).unwrap();
    }

    fn release(&mut self, transaction: &mut Transaction<'_>) {
        let Some((group, piece)) = self.some_piece(40, is_contents) else {
            return;
        };
        self.owners[group].unmap(&piece);
        let number = self.file_of(&piece);
        let extent = self.extent_of(group, &piece);
        let inode = self.file(transaction, number);
        transaction.defer_unmap(&inode, Fork::Data, &extent).unwrap();
        if number >= EXCLUSIVE_FILES && self.has_sharing() {
            self.references[group].decrease(piece.start, piece.length_blocks);
            transaction.defer_decrease(extent.start, extent.length_blocks).unwrap();
        } else {
            transaction.defer_free(extent.start, extent.length_blocks).unwrap();
        }
    }

    /// Blocks of extent maps, some of them side by side.
    fn grow_extent_map(&mut self, transaction: &mut Transaction<'_>) {
        let (start, length_blocks) = self.blocks(transaction);
        let (group, first) = self.split(start);
        let number = self.random.below(2);
        let inode = self.number(number);
        let fork = if self.random.below(2) == 0 { Fork::Data } else { Fork::Attribute };
        for block in (first..first + length_blocks).map(AgBlock::new) {
            self.owners[group].map(&Mapping::of_extent_map(block, inode, fork == Fork::Attribute));
            let mut edit = transaction.group(AgNumber::new(group as u32)).unwrap();
            edit.add_extent_map_block(block, inode, fork).unwrap();
        }
    }

    fn shrink_extent_map(&mut self, transaction: &mut Transaction<'_>) {
        let Some((group, piece)) = self.some_piece(1, |mapping| mapping.is_extent_map_block) else { return };
        self.owners[group].unmap(&piece);
        let Owner::Inode(inode) = piece.owner else { unreachable!("a file's") };
        let fork = if piece.is_attribute_fork { Fork::Attribute } else { Fork::Data };
        let start = self.extent_of(group, &piece).start;
        // As recovery does, whose intents name no owner.
        let is_unknown = self.random.below(4) == 0;
        let owner = if is_unknown { FreedOwner::Unknown } else { FreedOwner::ExtentMap { inode, fork } };
        transaction.defer_free_of(start, 1, owner).unwrap();
    }

    fn stage(&mut self, transaction: &mut Transaction<'_>) {
        if !self.has_sharing() {
            return;
        }
        let (start, length_blocks) = self.blocks(transaction);
        let (group, first) = self.split(start);
        self.references[group].stage(AgBlock::new(first), length_blocks);
        self.owners[group].map(&Mapping::of_group(AgBlock::new(first), length_blocks, Owner::CowStaging));
        let stage = ReferenceCountOperation::AllocateCow;
        transaction.defer_reference_count(stage, start, length_blocks.into()).unwrap();
    }

    fn unstage(&mut self, transaction: &mut Transaction<'_>) {
        let Some((group, piece)) = self.some_piece(8, |mapping| mapping.owner == Owner::CowStaging) else {
            return;
        };
        self.references[group].unstage(piece.start, piece.length_blocks);
        self.owners[group].unmap(&piece);
        let extent = self.extent_of(group, &piece);
        let unstage = ReferenceCountOperation::FreeCow;
        transaction.defer_reference_count(unstage, extent.start, extent.length_blocks).unwrap();
        transaction.defer_free(extent.start, extent.length_blocks).unwrap();
    }

    /// So many random steps, some of them in one transaction.
    fn go_on(&mut self, steps: usize, shrinks: bool) {
        let file_system = Arc::clone(&self.file_system);
        let mut transaction = Transaction::begin(&file_system).unwrap();
        for _ in 0..steps {
            self.step(&mut transaction, shrinks);
            if self.random.below(3) == 0 {
                transaction.commit().unwrap();
            }
        }
        transaction.commit().unwrap();
    }

    fn is_empty(&self) -> bool {
        self.owners.iter().all(|owners| *owners == OwnerModel::default())
    }

    /// Closes the image, compares what another reader finds in it with the models, and goes on. Gives the most levels that
    /// a tree of owners has.
    fn compare(&mut self, name: &str) -> u32 {
        self.file_system.close().unwrap();
        assert_trees_are_sound(self.image, name);
        let reader = open_volume(self.image);
        let mut levels = 0;
        for group in reader.geometry().groups() {
            let index = group.get() as usize;
            let all: Vec<Mapping> =
                reader.group(group).reverse_mappings().unwrap().map(Result::unwrap).collect();
            assert_eq!(all, OwnerModel::of(all.iter().copied()).mappings(), "{name}: {group} is merged");
            let ours: Vec<Mapping> = all.into_iter().filter(is_made_up(self.number(0))).collect();
            if reader.geometry().features.has_reverse_map() {
                assert_eq!(ours, self.owners[index].mappings(), "{name}: owners in group {group}");
            }
            let shared: Vec<SharedExtent> =
                reader.group(group).shared_extents().unwrap().map(Result::unwrap).collect();
            assert_eq!(shared, self.references[index].extents(), "{name}: references in group {group}");
            let header = reader.group(group).free_space_header().unwrap();
            levels = levels.max(header.reverse_map_levels.get());
        }
        assert_eq!(
            reader.superblock().free_data_blocks.get(),
            free_blocks_of(&reader),
            "{name}: free blocks"
        );
        self.file_system = Arc::new(open(self.image));
        levels
    }
}

/// xfs_repair misses the inodes that own the blocks, but has nothing to say about the trees.
fn assert_trees_are_sound(image: &Path, name: &str) {
    let output = Judge::XfsRepair.command().args(["-n", "-f"]).arg(image).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let expected = [
        "unknown block state",
        "leftover CoW extent",
        "Phase ",
        "        - ",
        "No modify flag set, skipping",
        "Cannot get host filesystem geometry.",
        "Repair may fail if there is a sector size mismatch between",
        "the image and the host filesystem.",
    ];
    let is_suspect =
        |line: &&str| !line.is_empty() && !expected.iter().any(|expected| line.starts_with(expected));
    let suspects: Vec<&str> = text.lines().filter(is_suspect).collect();
    assert!(suspects.is_empty(), "{name}: {suspects:#?}");
}

fn is_contents(mapping: &Mapping) -> bool {
    mapping.has_file_blocks()
}

fn is_made_up(first: InodeNumber) -> impl Fn(&Mapping) -> bool {
    move |mapping| match mapping.owner {
        Owner::Inode(inode) => inode >= first,
        owner => owner == Owner::CowStaging,
    }
}

/// As a kernel that recovers a log counts them.
fn free_blocks_of(reader: &Volume) -> u64 {
    let of_group = |group| {
        let header = reader.group(group).free_space_header().unwrap();
        let parts = [header.free_blocks, header.free_list_count, header.btree_blocks];
        parts.map(|part| u64::from(part.get())).iter().sum::<u64>()
    };
    reader.geometry().groups().map(of_group).sum()
}

#[test]
fn random_histories_end_as_the_models_say_and_leave_nothing() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    for (name, options, steps) in IMAGES {
        let seed = Seed::from_environment("owners", 20_261_120);
        let image = make(options);
        let free_before = open_volume(&image.path).superblock().free_data_blocks.get();
        let mut world = World::new(&image.path, &seed);
        let mut levels = 0;
        for _ in 0..3 {
            world.go_on(steps / 3, false);
            levels = levels.max(world.compare(name));
        }
        if *name == "1 KiB blocks" {
            assert!(levels >= 3, "otherwise this tests less than it says: {levels} levels");
        }
        while !world.is_empty() {
            world.go_on(500, true);
        }
        world.compare(name);
        let free_after = open_volume(&image.path).superblock().free_data_blocks.get();
        assert_eq!(free_after, free_before, "{name}: nothing is lost");
        repair_is_silent(&image.path).unwrap();
        judged("xfs_repair", &format!("owners, {name}"));
    }
}

#[test]
fn threads_change_the_same_groups() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let image = make(&["-d", "agcount=3"]);
    let seed = Seed::from_environment("owners of threads", 17);
    let file_system = Arc::new(open(&image.path));
    let groups = file_system.geometry().ag_count as usize;
    let mut worlds: Vec<World<'_>> = (0..3)
        .map(|number| World {
            first_file: 3 + number * FILES,
            random: Random::new(1000 * number + seed.random().below(1000)),
            ..World::on(&image.path, Arc::clone(&file_system))
        })
        .collect();
    std::thread::scope(|scope| {
        for world in &mut worlds {
            scope.spawn(|| world.go_on(600, false));
        }
    });
    let mut all = World::on(&image.path, file_system);
    for group in 0..groups {
        let mappings = worlds.iter().flat_map(|world| world.owners[group].mappings());
        all.owners[group] = OwnerModel::of(mappings);
        for world in &worlds {
            all.references[group].add(&world.references[group]);
        }
    }
    all.compare("threads");
    worlds.iter_mut().for_each(|world| world.file_system = Arc::clone(&all.file_system));
    std::thread::scope(|scope| {
        for world in &mut worlds {
            scope.spawn(|| {
                while !world.is_empty() {
                    world.go_on(200, true);
                }
            });
        }
    });
    all.file_system.close().unwrap();
    repair_is_silent(&image.path).unwrap();
    judged("xfs_repair", "owners, three threads");
}
