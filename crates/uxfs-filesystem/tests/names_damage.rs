//! Damaged directories, attributes and parent pointers: the exact fault for each, and an answer for any bytes.

use std::{ops::ControlFlow, sync::Arc};

use proptest::prelude::*;
use uxfs_format::{
    attribute::{parent_pointer::ParentPointerFault, posix_acl::AclFault, remote::RemoteValueFault},
    directory::data::DirectoryDataFault,
    fault::{Fault, HeaderFault},
    geometry::Geometry,
    inode::core::CHECKSUM_OFFSET_BYTES,
    name_tree::fault::NameTreeFault,
    units::{FileBlock, InodeNumber},
};
use uxfs_volume::volume::Volume;
use uxfs_volume::{
    attribute::xattr::XattrView,
    error::{Error, OperationError, Result},
    inode::{Fork, Inode},
    parent_pointer::paths::PathLimits,
};

use crate::common::{PatchedDevice, names};

/// Of a block of a name tree, and of a remote value.
const TREE: u32 = 12;
/// Of a data block.
const DATA: u32 = 4;
const BLOCK: usize = 1024;
const DIRECTORY_BLOCK: usize = 4096;

/// The undamaged image, and a device for damage.
struct Patient {
    healthy: Volume,
    device: PatchedDevice,
}

impl Patient {
    fn new() -> Self {
        Self { healthy: PatchedDevice::new(names()).mount(), device: PatchedDevice::new(names()) }
    }

    fn inode(&self, path: &str) -> Arc<Inode> {
        self.healthy.resolve(path.as_bytes(), false).unwrap()
    }

    /// Byte of the image at which a block of a fork lies.
    fn place(&self, path: &str, fork: Fork, block: u64) -> usize {
        let inode = self.inode(path);
        let map = self.healthy.extent_map(&inode, fork).unwrap();
        let extent = map.lookup(FileBlock::new(block)).unwrap();
        let start = extent.start.checked_add(block - extent.file_block.get()).unwrap();
        Geometry::byte_of_sector(self.healthy.geometry().sector_of_block(start).unwrap()) as usize
    }

    fn data(self, path: &str, block: u64, change: impl FnOnce(&mut [u8])) -> Self {
        self.device.patch(self.place(path, Fork::Data, block), DIRECTORY_BLOCK, DATA, change);
        self
    }

    fn index(self, path: &str, block: u64, change: impl FnOnce(&mut [u8])) -> Self {
        let block = self.leaf_start() + block;
        self.device.patch(self.place(path, Fork::Data, block), DIRECTORY_BLOCK, TREE, change);
        self
    }

    fn attributes(self, path: &str, block: u64, change: impl FnOnce(&mut [u8])) -> Self {
        self.device.patch(self.place(path, Fork::Attribute, block), BLOCK, TREE, change);
        self
    }

    fn core(self, path: &str, change: impl FnOnce(&mut [u8])) -> Self {
        let geometry = self.healthy.geometry();
        let place = geometry.inode_place(self.inode(path).number).unwrap();
        let sector = geometry.sector_of_group_block(place.group, place.block).unwrap();
        let offset = Geometry::byte_of_sector(sector) as usize + place.offset_bytes as usize;
        self.device.patch(offset, 512, CHECKSUM_OFFSET_BYTES, change);
        self
    }

    fn leaf_start(&self) -> u64 {
        self.healthy.geometry().directory_leaf_start().get()
    }

    /// The children of the root of a directory's index, in blocks from the root.
    fn children(&self, path: &str) -> Vec<u64> {
        let start = self.leaf_start();
        self.tree_children(self.place(path, Fork::Data, start)).map(|block| block - start).collect()
    }

    fn tree_children(&self, place: usize) -> impl Iterator<Item = u64> + use<> {
        let image = names();
        let count = u16::from_be_bytes(image[place + 56..place + 58].try_into().unwrap());
        (0..usize::from(count)).map(move |index| word(&image[place + 64 + 8 * index + 4..]).into())
    }

    fn mount(self) -> Volume {
        self.device.mount()
    }
}

fn word(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes[..4].try_into().unwrap())
}

fn set(bytes: &mut [u8], offset: usize, value: &[u8]) {
    bytes[offset..offset + value.len()].copy_from_slice(value);
}

fn find(bytes: &[u8], text: &[u8]) -> usize {
    bytes.windows(text.len()).position(|window| window == text).unwrap()
}

fn fault_of<T: std::fmt::Debug>(result: Result<T>) -> Fault {
    match result.unwrap_err() {
        Error::Corrupt(corruption) => {
            assert!(corruption.location.inode.is_some(), "{corruption}");
            corruption.fault
        }
        other => panic!("{other}"),
    }
}

fn read_all(file_system: &Volume, path: &str) -> Result<usize> {
    let inode = file_system.resolve(path.as_bytes(), false)?;
    let mut count = 0;
    file_system.read_directory(&inode, 0, |_| {
        count += 1;
        ControlFlow::Continue(())
    })?;
    Ok(count)
}

fn look_up(file_system: &Volume, path: &str, name: &[u8]) -> Result<bool> {
    let inode = file_system.resolve(path.as_bytes(), false)?;
    Ok(file_system.lookup(&inode, name)?.is_some())
}

fn list(file_system: &Volume, path: &str) -> Result<usize> {
    let inode = file_system.resolve(path.as_bytes(), false)?;
    let mut bytes = 0;
    file_system.attributes(&inode)?.visit_xattrs(XattrView::Root, |_, value| {
        bytes += value.len();
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(bytes)
}

/// The hash of all names in the directory "collide"; this one is not there.
fn collision() -> Vec<u8> {
    let mut name = b"ABCDEFGHIJKLMNOPQRST".to_vec();
    for pair in 0..10 {
        name[2 * pair] ^= 1;
        name[2 * pair + 1] ^= 0x80;
    }
    name
}

#[test]
fn blocks_of_another_inode_are_refused() {
    let patient = Patient::new();
    let expected = patient.inode("node").number.get();
    let fault = Fault::from(HeaderFault::WrongOwner { found: 77, expected });
    let owner = |bytes: &mut [u8]| set(bytes, 40, &77u64.to_be_bytes());
    let file_system = patient.data("node", 0, owner).mount();
    assert_eq!(fault_of(read_all(&file_system, "node")), fault);
    let owner = |bytes: &mut [u8]| set(bytes, 48, &77u64.to_be_bytes());
    let file_system = Patient::new().index("node", 0, owner).mount();
    assert_eq!(fault_of(look_up(&file_system, "node", b"name")), fault);

    let expected = Patient::new().inode("attributes/leaf").number.get();
    let file_system = Patient::new().attributes("attributes/leaf", 0, owner).mount();
    let fault = HeaderFault::WrongOwner { found: 77, expected };
    assert_eq!(fault_of(list(&file_system, "attributes/leaf")), fault.into());
}

#[test]
fn reading_goes_on_behind_a_damaged_block() {
    let patient = Patient::new();
    let all = read_all(&patient.healthy, "node").unwrap();
    let file_system = patient.data("node", 4, |bytes| bytes[40] ^= 1).mount();
    let inode = file_system.resolve(b"node", false).unwrap();
    let mut reader = file_system.open_directory(&inode, 0).unwrap();
    let (mut entries, mut errors) = (0, 0);
    loop {
        match reader.next_entry() {
            Ok(Some(_)) => entries += 1,
            Ok(None) => break,
            Err(_) => errors += 1,
        }
    }
    assert_eq!(errors, 1);
    assert!(entries < all && entries > all - 200, "{entries} of {all}");
}

#[test]
fn blocks_that_are_not_there_are_named() {
    let patient = Patient::new();
    let far = patient.leaf_start() + 4000;
    let child = |bytes: &mut [u8]| set(bytes, 68, &u32::try_from(far).unwrap().to_be_bytes());
    let file_system = patient.index("collide", 0, child).mount();
    let block = FileBlock::new(far);
    // "." has the smallest hash.
    assert_eq!(
        fault_of(look_up(&file_system, "collide", b".")),
        NameTreeFault::MissingBlock { block }.into()
    );

    // The first bit of the first extent.
    let file_system = Patient::new().core("block", |bytes| bytes[176] |= 0x80).mount();
    let fault = NameTreeFault::UnwrittenBlock { block: FileBlock::new(0) };
    assert_eq!(fault_of(read_all(&file_system, "block")), fault.into());
    assert_eq!(fault_of(look_up(&file_system, "block", b"name_1")), fault.into());

    let file_system = Patient::new().core("block", |bytes| bytes[62] = 0x20).mount();
    let fault = NameTreeFault::DirectorySize { size_bytes: 8192 };
    assert_eq!(fault_of(read_all(&file_system, "block")), fault.into());
}

#[test]
fn levels_fall_by_one() {
    let file_system = Patient::new().index("node", 0, |bytes| bytes[59] = 2).mount();
    let fault = NameTreeFault::ChildLevel { found: 0, expected: 1 };
    assert_eq!(fault_of(look_up(&file_system, "node", b".")), fault.into());

    // The one leaf of a leaf directory, complete with place and owner, as a child of a node.
    let patient = Patient::new();
    let child = patient.children("node")[0];
    let owner = patient.inode("node").number.get();
    let single = patient.place("leaf", Fork::Data, patient.leaf_start());
    let file_system = patient
        .index("node", child, |bytes| {
            let sector = bytes[16..24].to_vec();
            bytes.copy_from_slice(&names()[single..single + DIRECTORY_BLOCK]);
            set(bytes, 16, &sector);
            set(bytes, 48, &owner.to_be_bytes());
        })
        .mount();
    assert_eq!(fault_of(look_up(&file_system, "node", b".")), NameTreeFault::Root { magic: 0x3df1 }.into());
}

#[test]
fn leaves_that_run_in_a_circle_end_all_the_same() {
    let patient = Patient::new();
    let children = patient.children("collide");
    assert!(children.len() > 2, "otherwise this test isn't testing anything");
    let (start, first, middle) = (patient.leaf_start(), children[0], children[1]);
    let middle_block = u32::try_from(start + middle).unwrap().to_be_bytes();
    // The middle leaf, all of one hash, is its own neighbour on both sides, and the first child.
    let file_system = patient
        .index("collide", 0, |bytes| set(bytes, 68, &middle_block))
        .index("collide", middle, |bytes| {
            set(bytes, 0, &middle_block);
            set(bytes, 4, &middle_block);
        })
        .mount();
    // The circle of one leaf is found when it is closed.
    let fault = NameTreeFault::TooManyBlocks { most: 1 };
    assert_eq!(fault_of(look_up(&file_system, "collide", &collision())), fault.into());

    let file_system = Patient::new().index("collide", middle, |bytes| set(bytes, 4, &[0; 4])).mount();
    let expected = FileBlock::new(start + first);
    let fault = NameTreeFault::NeighbourBack { found: 0, expected };
    assert_eq!(fault_of(look_up(&file_system, "collide", &collision())), fault.into());
}

#[test]
fn hashes_rise_from_leaf_to_leaf() {
    let patient = Patient::new();
    let root = patient.place("attributes/node", Fork::Attribute, 0);
    let mut children = patient.tree_children(root);
    // The tree may have two levels.
    let mut first = children.next().unwrap();
    let place = patient.place("attributes/node", Fork::Attribute, first);
    if names()[place + 8..place + 10] == [0x3e, 0xbe] {
        first = patient.tree_children(place).next().unwrap();
    }
    let own = u32::try_from(first).unwrap().to_be_bytes();
    let file_system = patient
        .attributes("attributes/node", first, |bytes| {
            set(bytes, 0, &own);
            set(bytes, 4, &own);
        })
        .mount();
    let fault = fault_of(list(&file_system, "attributes/node"));
    assert!(matches!(fault, Fault::NameTree(NameTreeFault::LeafOrder { .. })), "{fault}");
}

#[test]
fn an_index_entry_that_leads_to_no_entry_is_refused() {
    // "..": one entry later than ".".
    let file_system = Patient::new().index("leaf", 0, |bytes| set(bytes, 72 + 4, &[0, 0, 0, 9])).mount();
    let fault = fault_of(look_up(&file_system, "leaf", b".."));
    assert!(
        matches!(
            fault,
            Fault::DirectoryData(DirectoryDataFault::Tag { offset_bytes: 0x48, .. })
                | Fault::DirectoryData(DirectoryDataFault::RecordPastEnd { offset_bytes: 0x48, .. })
        ),
        "{fault}"
    );
}

#[test]
fn an_entry_that_leads_to_a_free_inode_is_refused() {
    let patient = Patient::new();
    let number = patient.inode("short/a").number.get();
    let is_free = |number: &u64| {
        let inode = patient.healthy.inode(InodeNumber::new(*number));
        matches!(inode, Err(Error::Operation(OperationError::NoSuchInode)))
    };
    let free = u32::try_from((number..number + 5000).find(is_free).unwrap()).unwrap();
    let in_use = u32::try_from(number).unwrap().to_be_bytes();
    let change = |bytes: &mut [u8]| {
        let at = 176 + find(&bytes[176..], &in_use);
        set(bytes, at, &free.to_be_bytes());
    };
    let file_system = patient.core("short", change).mount();
    let inode = InodeNumber::new(free.into());
    let fault = NameTreeFault::UnusedInode { inode };
    assert_eq!(fault_of(file_system.resolve(b"/short/a", false)), fault.into());
}

#[test]
fn remote_values_are_checked_block_by_block() {
    let path = "attributes/remote";
    let value = |file_system: &Volume, name: &[u8]| {
        let inode = file_system.resolve(path.as_bytes(), false).unwrap();
        file_system.attributes(&inode)?.xattr(name)
    };
    // A name lies 9 bytes behind its value's block and 5 behind its value's length.
    let change = |name: &'static [u8], back: usize, number: u32| {
        let patient = Patient::new().attributes(path, 0, move |bytes| {
            let at = find(bytes, name) - back;
            set(bytes, at, &number.to_be_bytes());
        });
        patient.mount()
    };
    let start = {
        let patient = Patient::new();
        let leaf = patient.place(path, Fork::Attribute, 0);
        let bytes = &names()[leaf..leaf + BLOCK];
        word(&bytes[find(bytes, b"exactly_two") - 9..])
    };
    let fault = RemoteValueFault::Offset { found: 968, expected: 0 };
    assert_eq!(fault_of(value(&change(b"exactly_two", 9, start + 1), b"user.exactly_two")), fault.into());
    let fault = RemoteValueFault::PartLength { found: 968, expected: 900 };
    assert_eq!(fault_of(value(&change(b"exactly_two", 5, 900), b"user.exactly_two")), fault.into());
    let fault = NameTreeFault::MissingBlock { block: FileBlock::new(9000) };
    assert_eq!(fault_of(value(&change(b"exactly_two", 9, 9000), b"user.exactly_two")), fault.into());
    let most = Patient::new();
    let most = most.healthy.extent_map(&most.inode(path), Fork::Attribute).unwrap().blocks();
    let fault = NameTreeFault::TooManyValueBlocks { most };
    let shared = change(b"exactly_two", 5, 65536);
    let inode = shared.resolve(path.as_bytes(), false).unwrap();
    let result = shared.attributes(&inode).unwrap().visit(|_| Ok(ControlFlow::Continue(())));
    assert_eq!(fault_of(result), fault.into());
}

#[test]
fn a_damaged_access_control_list_is_refused() {
    let path = "attributes/acl";
    let patient = Patient::new().core(path, |bytes| {
        let at = find(bytes, b"SGI_ACL_FILE") + 12;
        set(bytes, at, &[0, 0, 0, 7]);
    });
    let fault = AclFault::Length { length_bytes: 76, count: 7 };
    assert_eq!(fault_of(list(&patient.mount(), path)), fault.into());
}

/// Where the value of the parent pointer `name` lies in an inode with few attributes.
fn parent_value(bytes: &[u8], name: &str) -> usize {
    let fork = 176 + usize::from(bytes[82]) * 8;
    fork + find(&bytes[fork..], name.as_bytes()) + name.len()
}

#[test]
fn names_that_lead_nowhere_are_told_and_the_others_found() {
    let problem = |patient: Patient, path: &str| {
        let number = patient.inode(path).number;
        let file_system = patient.mount();
        let inode = file_system.inode(number).unwrap();
        let mut found = file_system.paths_of(&inode, &PathLimits::default()).unwrap();
        assert_eq!(found.problems.len(), 1);
        (found.paths, found.problems.remove(0).fault)
    };
    let healthy = Patient::new();
    let (deep, level) = (healthy.inode("deep"), healthy.inode("deep/level_0"));

    let change = |bytes: &mut [u8]| set(bytes, parent_value(bytes, "level_0") + 8, &[0, 0, 0, 1]);
    let fault = ParentPointerFault::Generation { inode: deep.number, found: 1, expected: deep.generation() };
    let result = problem(Patient::new().core("deep/level_0", change), "deep/level_0");
    assert_eq!(result, (vec![], fault.into()));

    // A file, and a directory below.
    let file = healthy.inode("base");
    let change = |bytes: &mut [u8]| {
        let at = parent_value(bytes, "level_0");
        set(bytes, at, &file.number.get().to_be_bytes());
    };
    let fault = ParentPointerFault::NoParent { inode: file.number };
    let result = problem(Patient::new().core("deep/level_0", change), "deep/level_0");
    assert_eq!(result, (vec![], fault.into()));

    let change = |bytes: &mut [u8]| {
        let at = parent_value(bytes, "deep");
        set(bytes, at, &level.number.get().to_be_bytes());
        set(bytes, at + 8, &level.generation().to_be_bytes());
    };
    let fault = ParentPointerFault::Circle { inode: level.number };
    let result = problem(Patient::new().core("deep", change), "deep/level_0");
    assert_eq!(result, (vec![], fault.into()));

    // One of two names of a file.
    let change = |bytes: &mut [u8]| set(bytes, parent_value(bytes, "bottom too") + 8, &[0, 0, 0, 1]);
    let (paths, _) = problem(Patient::new().core("deep/bottom too", change), "deep/bottom too");
    assert_eq!(paths.len(), 1);

    let change = |bytes: &mut [u8]| {
        let fork = 176 + usize::from(bytes[82]) * 8;
        set(bytes, fork, &[0, 4, 0]);
    };
    let result = problem(Patient::new().core("deep/level_0", change), "deep/level_0");
    assert_eq!(result, (vec![], ParentPointerFault::None.into()));
}

#[test]
fn a_parent_pointer_of_another_length_is_refused() {
    let change = |bytes: &mut [u8]| {
        let fork = 176 + usize::from(bytes[82]) * 8;
        assert_eq!(bytes[fork + 1], 4 + 3 + 7 + 12);
        bytes[fork + 1] -= 1;
        bytes[fork + 5] -= 1;
    };
    let file_system = Patient::new().core("deep/level_0", change).mount();
    let inode = file_system.resolve(b"/deep/level_0", false).unwrap();
    let fault = ParentPointerFault::Length { length_bytes: 11 };
    assert_eq!(fault_of(file_system.parent_pointers(&inode, 10)), fault.into());
}

/// Everything that names are used for, on one inode.
fn use_names(file_system: &Volume, path: &str) {
    let Ok(inode) = file_system.resolve(path.as_bytes(), false) else { return };
    let mut names = vec![b".".to_vec(), collision()];
    let _ = file_system.read_directory(&inode, 0, |entry| {
        names.push(entry.name.to_vec());
        ControlFlow::Continue(())
    });
    for name in names.iter().step_by(17) {
        let _ = file_system.lookup(&inode, name);
    }
    let _ = list(file_system, path);
    let _ = file_system.attributes(&inode).and_then(|reader| reader.xattr(b"user.an_attribute_7"));
    let _ = file_system.paths_of(&inode, &PathLimits { steps: 5000, ..PathLimits::default() });
}

const PATHS: [&str; 9] = [
    "short",
    "block",
    "leaf",
    "node",
    "collide",
    "attributes/leaf",
    "attributes/remote",
    "attributes/node",
    "base",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn any_damage_has_an_answer(
        which in 0..PATHS.len(),
        is_attribute in any::<bool>(),
        at in any::<prop::sample::Index>(),
        patches in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
        in_header in any::<bool>(),
    ) {
        let path = PATHS[which];
        let patient = Patient::new();
        let fork = if is_attribute { Fork::Attribute } else { Fork::Data };
        let inode = patient.inode(path);
        let map = patient.healthy.extent_map(&inode, fork).unwrap();
        let change = |bytes: &mut [u8]| for (index, value) in &patches {
            let length = if in_header { 128 } else { bytes.len() };
            bytes[index.index(length)] = *value;
        };
        let blocks: Vec<u64> = map
            .iter()
            .flat_map(|extent| extent.file_block.get()..extent.end().get())
            .filter(|block| is_attribute || block % 4 == 0)
            .collect();
        let patient = match (blocks.is_empty(), fork) {
            (true, _) => patient.core(path, change),
            (_, Fork::Attribute) => patient.attributes(path, blocks[at.index(blocks.len())], change),
            (_, Fork::Data) if path == "base" => patient.core(path, change),
            (_, Fork::Data) => {
                let block = blocks[at.index(blocks.len())];
                let start = patient.leaf_start();
                if block >= start && block < 2 * start {
                    patient.index(path, block - start, change)
                } else {
                    patient.data(path, block, change)
                }
            }
        };
        use_names(&patient.mount(), path);
    }
}
