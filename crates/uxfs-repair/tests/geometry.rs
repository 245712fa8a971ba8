//! Golden images that have lost every superblock, those in the log as well: the geometry is inferred, and the tree is that of the
//! kernel's manifest.

use std::{fs, os::unix::fs::FileExt, path::Path, sync::Arc};

use uxfs_block::engine::{memory::MemoryDevice, sync::SyncDevice};
use uxfs_format::{
    checksum,
    field_table::OnDisk,
    geometry::Geometry,
    superblock::{CHECKSUM_OFFSET_BYTES, Superblock},
};
use uxfs_repair::{
    geometry::{Inferred, infer},
    repair::action::Action,
};
use uxfs_testkit::{
    golden::GoldenImage,
    image::memory_folder,
    judges::Judge,
    manifest::{FileKind, Header, Manifest, differences, report},
    mount::{Access, LoopMount},
    require,
    verdict::repair_findings,
    walk,
};
use uxfs_volume::volume::{Volume, VolumeOptions};

use crate::common;
use crate::common::{findings_of, repair_image, stage};

fn superblock_of(image: &Path) -> Superblock {
    let device = Arc::new(SyncDevice::open_read_only(image, 0).unwrap());
    *Volume::open(device, &VolumeOptions::default()).unwrap().superblock()
}

fn infer_from(image: &Path) -> Option<Inferred> {
    infer(&SyncDevice::open_read_only(image, 0).unwrap())
}

/// What is overwritten with zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Loss {
    /// All headers of all groups, not the superblocks alone.
    has_all_headers: bool,
    has_log: bool,
}

const LOSSES: [Loss; 3] = [
    Loss { has_all_headers: false, has_log: false },
    Loss { has_all_headers: false, has_log: true },
    Loss { has_all_headers: true, has_log: true },
];

impl Loss {
    fn plant(self, image: &Path, superblock: &Superblock) {
        let geometry = Geometry::new(superblock);
        let file = fs::OpenOptions::new().write(true).open(image).unwrap();
        let sectors = if self.has_all_headers { 4 } else { 1 };
        let zeros = vec![0; sectors * geometry.sector_size_bytes as usize];
        for group in geometry.groups() {
            let start = geometry.sector_of_group_header(group, 0).unwrap();
            file.write_all_at(&zeros, Geometry::byte_of_sector(start)).unwrap();
        }
        if self.has_log {
            let start = geometry.sector_of_block(geometry.log_start.unwrap()).unwrap();
            let zeros = vec![0; (geometry.log_blocks as usize) << geometry.block_log];
            file.write_all_at(&zeros, Geometry::byte_of_sector(start)).unwrap();
        }
    }
}

/// The fields that decide where things lie and how they look. Without records nothing tells the stripe unit of the log, and without
/// a reverse map nothing its last blocks.
fn differing_fields(found: &Superblock, expected: &Superblock, loss: Loss) -> Vec<String> {
    let mut differing = Vec::new();
    let mut compare = |name: &str, found: u64, expected: u64| {
        if found != expected {
            differing.push(format!("{name} {found:#x} for {expected:#x}"));
        }
    };
    let has_reverse_map = expected.feature_words().has_reverse_map();
    compare("blocksize", found.block_size_bytes.get().into(), expected.block_size_bytes.get().into());
    compare("dblocks", found.data_blocks.get(), expected.data_blocks.get());
    compare("logstart", found.log_start.get(), expected.log_start.get());
    if has_reverse_map || !loss.has_all_headers {
        compare("logblocks", found.log_blocks.get().into(), expected.log_blocks.get().into());
    }
    compare("rootino", found.root_inode.get(), expected.root_inode.get());
    compare("rbmino", found.realtime_bitmap_inode.get(), expected.realtime_bitmap_inode.get());
    compare(
        "rextsize",
        found.realtime_extent_size_blocks.get().into(),
        expected.realtime_extent_size_blocks.get().into(),
    );
    compare("agblocks", found.ag_blocks.get().into(), expected.ag_blocks.get().into());
    compare("agcount", found.ag_count.get().into(), expected.ag_count.get().into());
    let without_stripe = |version: u16| u64::from(version & !0x100);
    compare(
        "versionnum",
        without_stripe(found.version_number.get()),
        without_stripe(expected.version_number.get()),
    );
    compare("sectsize", found.sector_size_bytes.get().into(), expected.sector_size_bytes.get().into());
    compare("inodesize", found.inode_size_bytes.get().into(), expected.inode_size_bytes.get().into());
    compare("agblklog", found.ag_block_log.into(), expected.ag_block_log.into());
    compare(
        "inoalignmt",
        found.inode_alignment_blocks.get().into(),
        expected.inode_alignment_blocks.get().into(),
    );
    compare("dirblklog", found.directory_block_log.into(), expected.directory_block_log.into());
    compare(
        "logsectsize",
        found.log_sector_size_bytes.get().into(),
        expected.log_sector_size_bytes.get().into(),
    );
    if !loss.has_log {
        compare(
            "logsunit",
            found.log_stripe_unit_bytes.get().into(),
            expected.log_stripe_unit_bytes.get().into(),
        );
    }
    compare("features2", found.features2.get().into(), expected.features2.get().into());
    compare("ro_compat", found.ro_compatible.get().into(), expected.ro_compatible.get().into());
    // The uuid that users see is in the superblock and in the log; exchanges of ranges leave no trace.
    let traceless = 0x40 | if loss.has_log { 0x4 } else { 0 };
    let incompatible = |superblock: &Superblock| u64::from(superblock.incompatible.get() & !traceless);
    compare("incompat", incompatible(found), incompatible(expected));
    compare(
        "spino_align",
        found.sparse_inode_alignment_blocks.get().into(),
        expected.sparse_inode_alignment_blocks.get().into(),
    );
    compare("metadirino", found.metadata_directory_inode.get(), expected.metadata_directory_inode.get());
    compare(
        "rgextents",
        found.realtime_group_extents.get().into(),
        expected.realtime_group_extents.get().into(),
    );
    let uuids_agree = found.effective_metadata_uuid() == expected.effective_metadata_uuid();
    compare("uuid", uuids_agree.into(), 1);
    differing
}

#[test]
fn every_golden_geometry_is_inferred() {
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = folder.path().join("image");
    let mut wrong = Vec::new();
    // These have the geometry of others.
    let alike = ["directory-levels", "groups-2", "inode-1k"];
    for golden in GoldenImage::all().unwrap().into_iter().filter(|golden| !alike.contains(&golden.name())) {
        // The kernel has mounted them since they were made.
        let golden = golden.into_lean();
        golden.unpack_to(&image).unwrap();
        let expected = superblock_of(&image);
        // Each is a part of the next one.
        for loss in LOSSES {
            loss.plant(&image, &expected);
            let name = golden.name();
            // Of a device of this size, with groups of 600 GiB, samples alone are read. They do not tell without a header.
            if name == "large-inode-numbers" && loss.has_all_headers {
                assert_eq!(infer_from(&image), None);
                continue;
            }
            let Some(found) = infer_from(&image) else {
                wrong.push(format!("{name} {loss:?}: nothing"));
                continue;
            };
            let differing = differing_fields(&found.superblock, &expected, loss);
            if !differing.is_empty() {
                wrong.push(format!("{name} {loss:?}: {differing:?} from {}", found.witnesses));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What an image holds, without where directories and attributes lie.
fn without_places(mut manifest: Manifest) -> Manifest {
    for entry in &mut manifest.entries {
        let is_directory = entry.kind == FileKind::Directory;
        let Some(details) = &mut entry.details else { continue };
        details.attribute_extents = None;
        if is_directory {
            (details.size_bytes, details.sectors, details.extents) = (None, None, None);
            (details.extent_count, details.entries) = (None, None);
        }
    }
    manifest
}

/// Repairs an image; then `xfs_repair -n` is silent, the kernel mounts it, its tree is the expected one, and a second repair has nothing
/// to do.
fn repair_and_judge(name: &str, image: &Path, expected: &Manifest) {
    let staged = repair_image(image);
    let left: Vec<String> = staged.remaining.iter().take(8).map(ToString::to_string).collect();
    assert!(left.is_empty(), "{name}: {left:#?}");
    let is_inferred = |action: &Action| matches!(action, Action::SuperblockInferred { .. });
    assert!(staged.actions.iter().any(is_inferred), "{name}: {:?}", staged.actions);
    assert_eq!(repair_findings(image).unwrap(), [""; 0], "{name}");
    let mount = LoopMount::new(image, Access::ReadOnlyNoRecovery).unwrap();
    assert!(fs::read_dir(mount.path()).unwrap().count() > 0, "{name}");
    mount.unmount().unwrap();
    let header = Header { judge: "uxfs".into(), ..expected.header.clone() };
    let found = without_places(walk::from_image(image, header).unwrap());
    let differences = report(&differences(&without_places(expected.clone()), &found), 20);
    assert!(differences.is_none(), "{name}: {}", differences.unwrap());
    let again = stage(image, &common::in_order());
    assert!(again.is_clean(), "{name}: a second repair does {:?}", again.actions);
}

/// One image for each kind of geometry whose repair can go wrong in its own way; the geometries of all others are compared above.
const REPAIRED: &[(&str, Loss)] = &[
    ("groups-16", LOSSES[2]),
    ("no-feature", LOSSES[1]),
    ("sector-4k", LOSSES[2]),
    ("metadir", LOSSES[1]),
    ("stripes", LOSSES[0]),
];

#[test]
fn images_without_any_superblock_are_repaired_without_loss() {
    require!(Judge::XfsRepair, Judge::Kernel);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = folder.path().join("image");
    for (name, loss) in REPAIRED {
        // The log of a lean image contains a superblock, logged by the kernel.
        let golden = GoldenImage::named(name).unwrap();
        golden.unpack_to(&image).unwrap();
        let superblock = superblock_of(&image);
        loss.plant(&image, &superblock);
        repair_and_judge(&format!("{name} {loss:?}"), &image, &golden.manifest().unwrap());
    }
}

/// Superblocks that are sound, agree with each other, and describe another file system than all that lies on the device.
#[test]
fn superblocks_that_all_lie_are_outvoted() {
    require!(Judge::XfsRepair, Judge::Kernel);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = folder.path().join("image");
    let golden = GoldenImage::lean("default").unwrap();
    type Lie = fn(&mut Superblock);
    let lies: [(&str, Lie); 2] = [
        ("agblocks", |superblock| {
            superblock.ag_blocks.set(superblock.ag_blocks.get() - 4);
            superblock.data_blocks.set(superblock.data_blocks.get() - 16);
        }),
        ("uuid", |superblock| superblock.uuid.0[7] ^= 0x55),
    ];
    for (name, lie) in lies {
        golden.unpack_to(&image).unwrap();
        let geometry = Geometry::new(&superblock_of(&image));
        let file = fs::OpenOptions::new().read(true).write(true).open(&image).unwrap();
        for group in geometry.groups() {
            let start = Geometry::byte_of_sector(geometry.sector_of_group_header(group, 0).unwrap());
            let mut sector = vec![0; geometry.sector_size_bytes as usize];
            file.read_exact_at(&mut sector, start).unwrap();
            lie(Superblock::prefix_of_mut(&mut sector).unwrap());
            checksum::seal(&mut sector, CHECKSUM_OFFSET_BYTES);
            file.write_all_at(&sector, start).unwrap();
        }
        assert!(findings_of(&image).iter().any(|finding| finding.to_string().contains("inferred from")));
        repair_and_judge(name, &image, &golden.manifest().unwrap());
    }
}

/// A file holds the image of another file system, with all of its superblocks.
#[test]
fn an_image_in_a_file_is_not_taken_for_the_file_system() {
    require!(Judge::XfsRepair, Judge::Kernel);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let (image, inner) = (folder.path().join("image"), folder.path().join("inner"));
    GoldenImage::lean("block-1k").unwrap().unpack_to(&inner).unwrap();
    let golden = GoldenImage::lean("default").unwrap();
    golden.unpack_to(&image).unwrap();
    let mount = LoopMount::new(&image, Access::ReadWrite).unwrap();
    let copied =
        std::process::Command::new("cp").arg("--sparse=always").arg(&inner).arg(mount.path()).status();
    assert!(copied.unwrap().success());
    mount.unmount().unwrap();
    let header = Header { judge: "uxfs".into(), ..golden.manifest().unwrap().header };
    let expected = walk::from_image(&image, header).unwrap();
    let superblock = superblock_of(&image);
    LOSSES[2].plant(&image, &superblock);
    let found = infer_from(&image).unwrap();
    assert_eq!(differing_fields(&found.superblock, &superblock, LOSSES[2]), [""; 0]);
    repair_and_judge("an image in a file", &image, &expected);
}

/// Every sector is a block that says where it lies, with a wrong checksum.
#[test]
fn a_device_full_of_claims_is_given_up_soon() {
    let mut bytes = Vec::new();
    for sector in 0..32_768_u64 {
        let mut block = [0x5a; 512];
        block[..4].copy_from_slice(&0x524d_4233_u32.to_be_bytes());
        block[16..24].copy_from_slice(&sector.to_be_bytes());
        bytes.extend_from_slice(&block);
    }
    let started = std::time::Instant::now();
    assert_eq!(infer(&MemoryDevice::new(bytes)), None);
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
}
