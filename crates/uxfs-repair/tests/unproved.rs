//! Inodes with a wrong checksum that neither known values nor a few bits make right: each field is that of a sound witness, or neutral.

use std::{
    collections::BTreeMap,
    fs::{self, File, Permissions},
    os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, symlink},
    path::Path,
};

use uxfs_block::engine::sync::SyncDevice;
use uxfs_format::{geometry::Geometry, units::InodeNumber};
use uxfs_repair::repair::action::{Action, PointerCause};
use uxfs_testkit::{
    image::{make, memory_folder},
    judges::Judge,
    mount::{Access, LoopMount},
    require, sparse, structures,
    verdict::{kernel_removes_everything, repair_is_silent},
};

use crate::common::repair_image_without_log;

const FILES: u32 = 8;
const NAMES: [&str; 3] = ["one", "two", "three"];
const USER: u32 = 1000;
const TARGET: &str = "some/target";

/// Files, a short directory and one with a generation that its files repeat. Gives the inodes by name.
fn make_tree(image: &Path) -> BTreeMap<String, u64> {
    make(image, 300 << 20, &[]).unwrap();
    let mount = LoopMount::new(image, Access::ReadWrite).unwrap();
    let mut inodes = BTreeMap::new();
    for number in 1..=FILES {
        let path = mount.join(format!("f{number}"));
        fs::write(&path, format!("contents of {number}\n")).unwrap();
        chown(&path, Some(USER), Some(USER)).unwrap();
    }
    symlink(TARGET, mount.join("link")).unwrap();
    fs::set_permissions(mount.join("f5"), Permissions::from_mode(0o4755)).unwrap();
    for directory in ["names", "generation"] {
        fs::create_dir(mount.join(directory)).unwrap();
        for name in NAMES {
            fs::write(mount.join(directory).join(name), name).unwrap();
        }
    }
    for entry in fs::read_dir(mount.path()).unwrap().map(Result::unwrap) {
        inodes.insert(entry.file_name().into_string().unwrap(), entry.metadata().unwrap().ino());
    }
    mount.unmount().unwrap();
    inodes
}

/// Changes bytes of inodes.
struct Damage {
    file: File,
    geometry: Geometry,
    inodes: BTreeMap<String, u64>,
}

impl Damage {
    fn new(image: &Path, inodes: BTreeMap<String, u64>) -> Self {
        let (geometry, _) = structures::list(&SyncDevice::open_read_only(image, 0).unwrap()).unwrap();
        let file = File::options().read(true).write(true).open(image).unwrap();
        Self { file, geometry, inodes }
    }

    fn start_of(&self, name: &str) -> u64 {
        let place = self.geometry.inode_place(InodeNumber::new(self.inodes[name])).unwrap();
        let sector = self.geometry.sector_of_group_block(place.group, place.block).unwrap();
        Geometry::byte_of_sector(sector) + u64::from(place.offset_bytes)
    }

    fn write(&self, name: &str, offset_bytes: u64, bytes: &[u8]) {
        self.file.write_all_at(bytes, self.start_of(name) + offset_bytes).unwrap();
    }

    fn flip(&self, name: &str, offset_bytes: u64, bits: u8) {
        let mut byte = [0];
        self.file.read_exact_at(&mut byte, self.start_of(name) + offset_bytes).unwrap();
        self.write(name, offset_bytes, &[byte[0] ^ bits]);
    }

    /// This byte and two bits of the access time: the checksum distinguishes three changed bits from any two.
    fn flip_with_others(&self, name: &str, offset_bytes: u64, bits: u8) {
        self.flip(name, offset_bytes, bits);
        self.flip(name, 37, 0x01);
        self.flip(name, 39, 0x04);
    }
}

#[test]
fn sound_witnesses_are_believed_against_an_inode_with_a_wrong_checksum() {
    require!(Judge::Kernel, Judge::XfsRepair);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = folder.path().join("image");
    let damage = Damage::new(&image, make_tree(&image));
    // Of the extent: the block, its place in the file, whether it was written.
    damage.flip_with_others("f1", 176 + 13, 0x08);
    damage.flip_with_others("f2", 176 + 6, 0x02);
    damage.flip_with_others("f3", 176, 0x80);
    damage.write("f4", 0, &[0xff; 16]);
    damage.flip_with_others("f5", 45, 0x10);
    damage.write("f6", 56, &[0, 0, 0xef, 0x11, 0x22, 0x33, 0x44, 0x55]);
    // An owner that no other inode has, and a flag that keeps everyone from changing the file.
    damage.flip_with_others("f7", 8, 0x40);
    damage.flip("f7", 91, 0x08);
    // The first byte of the first name, and the generation.
    damage.flip_with_others("names", 176 + 6 + 3, 0x01);
    damage.flip_with_others("generation", 94, 0x40);

    let staged = repair_image_without_log(&image);
    assert!(staged.remaining.is_empty(), "{:#?}", staged.remaining);
    repair_is_silent(&image).unwrap();
    let mount = LoopMount::new(&image, Access::ReadOnly).unwrap();
    for number in 1..=FILES {
        let path = mount.join(format!("f{number}"));
        let text = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(text, format!("contents of {number}\n"), "{:#?}", staged.actions);
        let metadata = fs::metadata(&path).unwrap();
        let owner = if matches!(number, 4 | 7) { 0 } else { USER };
        assert_eq!((metadata.uid(), metadata.mode() & 0o7000), (owner, 0), "{path:?}: {:#?}", staged.actions);
    }
    for directory in ["names", "generation"] {
        for name in NAMES {
            let text = fs::read_to_string(mount.join(directory).join(name)).unwrap_or_default();
            assert_eq!(text, name, "{directory}: {:#?}", staged.actions);
        }
    }
    mount.unmount().unwrap();
    let are_pointers_set = staged.actions.iter().any(|action| {
        matches!(action, Action::ParentPointerSet { cause: PointerCause::OtherGeneration, .. })
    });
    assert!(!are_pointers_set, "{:#?}", staged.actions);
    kernel_removes_everything(&image, 1).unwrap();
}

/// Sixteen bytes of garbage in the core of an inode: it stays what it is, without what garbage would give away.
#[test]
fn garbage_in_an_inode_becomes_neutral_values() {
    require!(Judge::Kernel, Judge::XfsRepair);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let (sound, image) = (folder.path().join("sound"), folder.path().join("image"));
    let inodes = make_tree(&sound);
    for offset_bytes in [0, 16, 48, 64, 80] {
        sparse::copy(&sound, &image).unwrap();
        let damage = Damage::new(&image, inodes.clone());
        for name in ["f1", "f5", "link"] {
            damage.write(name, offset_bytes, &[0xff; 16]);
        }
        let staged = repair_image_without_log(&image);
        assert!(staged.remaining.is_empty(), "{offset_bytes}: {:#?}", staged.remaining);
        repair_is_silent(&image).unwrap();
        let mount = LoopMount::new(&image, Access::ReadOnly).unwrap();
        for number in [1, 5] {
            let path = mount.join(format!("f{number}"));
            let text = fs::read_to_string(&path).unwrap_or_default();
            assert_eq!(text, format!("contents of {number}\n"), "{offset_bytes}: {:#?}", staged.actions);
            let metadata = fs::metadata(&path).unwrap();
            assert_eq!(metadata.mode() & 0o7000, 0, "{offset_bytes}: {:#?}", staged.actions);
            assert!(matches!(metadata.uid(), 0 | USER), "{offset_bytes}: {:#?}", staged.actions);
        }
        let target = fs::read_link(mount.join("link")).unwrap_or_default();
        assert_eq!(target, Path::new(TARGET), "{offset_bytes}: {:#?}", staged.actions);
        mount.unmount().unwrap();
        kernel_removes_everything(&image, offset_bytes).unwrap();
    }
}
