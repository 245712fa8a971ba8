//! An image with quota inodes. No kernel of the tests has quotas: the inodes are files of a golden image, from which `xfs_db` takes the
//! names, and the counts of their records are those of the kernel's manifest. `xfs_repair -n` judges the result.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::FileExt,
    path::Path,
    sync::Arc,
};

use uxfs_block::{device::BlockDevice, engine::sync::SyncDevice};
use uxfs_format::{
    checksum,
    field_table::OnDisk,
    geometry::Geometry,
    inode::Fork,
    quota::{CHECKSUM_OFFSET_BYTES, MAGIC, QuotaKind, QuotaRecord, RecordType, VERSION},
    units::InodeNumber,
};
use uxfs_testkit::{
    golden::GoldenImage,
    manifest::{Entry, Manifest},
};
use uxfs_volume::volume::{Volume, VolumeOptions};
use zerocopy::{FromZeros, IntoBytes};

use super::plant;

/// Names of the files, and their inodes: of users, groups and projects.
const FILES: [(QuotaKind, &str, u64); 3] = [
    (QuotaKind::User, "warp", 132_750),
    (QuotaKind::Group, "weft", 132_751),
    (QuotaKind::Project, "large", 132_737),
];
/// What the record of an owner limits blocks to.
pub const LIMIT_BLOCKS: u64 = 1 << 30;

/// Users, groups and projects that some inodes get.
const OWNERS: &[(u64, &str, &str, &str)] =
    &[(131_202, "7", "9", "11"), (132_748, "7", "2999", "11"), (132_744, "3599", "9", "40000")];

/// Makes the image.
pub fn make(image: &Path) {
    let golden = GoldenImage::named("default").unwrap();
    golden.unpack_to(image).unwrap();
    let manifest = golden.manifest().unwrap();
    take_names(image, &manifest);
    let device: Arc<dyn BlockDevice> = Arc::new(SyncDevice::open_read_only(image, 0).unwrap());
    let volume = Volume::open(device, &VolumeOptions::default()).unwrap();
    let used = used(&manifest);
    let file = fs::OpenOptions::new().write(true).open(image).unwrap();
    for (kind, _, number) in FILES {
        let inode = volume.inode(InodeNumber::new(number)).unwrap();
        let map = volume.extent_map(&inode, Fork::Data).unwrap();
        for extent in map.iter() {
            for index in 0..extent.length_blocks {
                let block = uxfs_format::units::FsBlock::new(extent.start.get() + index);
                let sector = volume.geometry().sector_of_block(block).unwrap();
                let first = (extent.file_block.get() + index) as u32 * 30;
                let bytes = records(kind, first, &used, volume.geometry());
                file.write_all_at(&bytes, Geometry::byte_of_sector(sector)).unwrap();
            }
        }
    }
}

fn take_names(image: &Path, manifest: &Manifest) {
    let mut words: Vec<String> = vec!["path /extents".into()];
    words.extend(FILES.iter().map(|(_, name, _)| format!("unlink {name}")));
    for (_, _, inode) in FILES {
        words.extend([
            format!("inode {inode}"),
            "write -d core.nlinkv2 1".into(),
            // Records lie behind the end of the file.
            "write -d core.size 0".into(),
            "write -d next_unlinked 0xffffffff".into(),
        ]);
        words.extend(["agi 1".into(), format!("write -d unlinked[{}] 0xffffffff", inode % 64)]);
    }
    // No record of the files has an id as high as some inodes do.
    let others = manifest.entries.iter().filter(|entry| has_owner(entry)).filter_map(|entry| entry.inode);
    let others = others.map(|inode| (inode, "0", "0", "0"));
    for (inode, uid, gid, project) in others.chain(OWNERS.iter().copied()) {
        words.extend([
            format!("inode {inode}"),
            format!("write -d core.uid {uid}"),
            format!("write -d core.gid {gid}"),
            format!("write -d core.projid_lo {project}"),
            "write -d core.projid_hi 0".into(),
        ]);
    }
    words.extend(["sb 0".into(), "write -d versionnum 0xb4f5".into(), "write -d qflags 0x7cf".into()]);
    for (field, (_, _, inode)) in ["uquotino", "gquotino", "pquotino"].iter().zip(FILES) {
        words.push(format!("write -d {field} {inode}"));
    }
    plant(image, &words.iter().map(String::as_str).collect::<Vec<_>>());
}

fn has_owner(entry: &Entry) -> bool {
    entry.details.as_ref().is_some_and(|details| {
        let project = details.flags.as_ref().map_or(0, |flags| flags.project_id);
        (details.user_id, details.group_id, project) != (0, 0, 0)
    })
}

/// Blocks and inodes of each owner.
fn used(manifest: &Manifest) -> BTreeMap<(QuotaKind, u32), (u64, u64)> {
    let mut seen: BTreeSet<u64> = FILES.iter().map(|(_, _, inode)| *inode).collect();
    let mut used = BTreeMap::new();
    let mut add = |inode: u64, blocks: u64| {
        let own = OWNERS.iter().find(|(owned, ..)| *owned == inode);
        let ids =
            own.map_or([0; 3], |(_, uid, gid, project)| [uid, gid, project].map(|id| id.parse().unwrap()));
        for (kind, id) in QuotaKind::ALL.into_iter().zip(ids) {
            let sum: &mut (u64, u64) = used.entry((kind, id)).or_default();
            *sum = (sum.0 + blocks, sum.1 + 1);
        }
    };
    for entry in &manifest.entries {
        if let (Some(inode), Some(details)) = (entry.inode, &entry.details)
            && seen.insert(inode)
        {
            add(inode, details.sectors.unwrap() / 8);
        }
    }
    // The realtime bitmap and summary.
    add(129, 0);
    add(130, 0);
    used
}

fn records(
    kind: QuotaKind,
    first: u32,
    used: &BTreeMap<(QuotaKind, u32), (u64, u64)>,
    geometry: &Geometry,
) -> Vec<u8> {
    let mut block = vec![0; geometry.block_size()];
    for (id, bytes) in (first..).zip(block.chunks_exact_mut(QuotaRecord::SIZE_BYTES)) {
        let mut record = QuotaRecord::new_zeroed();
        record.magic.set(MAGIC);
        record.version = VERSION;
        record.id.set(id);
        let timers = if id == 0 { RecordType::empty() } else { RecordType::BIG_TIME };
        record.record_type = (kind.record_type() | timers).bits();
        let (blocks, inodes) = used.get(&(kind, id)).copied().unwrap_or_default();
        record.blocks.set(blocks);
        record.inodes.set(inodes);
        record.block_hard_limit.set(LIMIT_BLOCKS);
        record.uuid = geometry.metadata_uuid;
        bytes.copy_from_slice(record.as_bytes());
        checksum::seal(bytes, CHECKSUM_OFFSET_BYTES);
    }
    block
}
