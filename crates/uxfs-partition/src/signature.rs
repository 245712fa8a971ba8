//! What else than XFS a device, an image file or a partition holds, by magic numbers. One table for all: for messages that say why something
//! is no file system here, and for refusing to make one over it.

/// Something recognised by its magic number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signature {
    /// Its name, with an article.
    pub name: &'static str,
    /// What it is, where a file system may lie in it.
    pub container: Option<Container>,
}

/// Something in which a file system may lie. It has to be opened first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Container {
    /// A physical volume of LVM.
    Lvm,
    /// A member of a RAID of Linux (md).
    Raid {
        /// Where its data begin in bytes, if all of them lie there in order: in a mirror.
        data_offset_bytes: Option<u64>,
    },
    /// Encrypted by LUKS.
    Luks,
    /// Encrypted by BitLocker.
    BitLocker,
}

impl Container {
    /// How a file system in it is reached, for people.
    #[must_use]
    pub fn remedy(self) -> String {
        match self {
            Self::Lvm => {
                "a file system may lie in a logical volume: losetup -P -f IMAGE, vgchange -ay, then use /dev/VOLUME_GROUP/VOLUME".to_owned()
            }
            Self::Raid { data_offset_bytes: Some(offset) } => {
                format!("it is a mirror whose data begin at byte {offset} of it; mdadm --assemble makes the RAID")
            }
            Self::Raid { data_offset_bytes: None } => {
                "mdadm --assemble makes the RAID of its members; use /dev/mdN".to_owned()
            }
            Self::Luks => "cryptsetup open DEVICE NAME decrypts it; use /dev/mapper/NAME".to_owned(),
            Self::BitLocker => {
                "cryptsetup open --type bitlk DEVICE NAME decrypts it; use /dev/mapper/NAME".to_owned()
            }
        }
    }
}

/// One magic number.
#[derive(Debug)]
struct Magic {
    name: &'static str,
    offset_bytes: u64,
    bytes: &'static [u8],
}

const fn magic(name: &'static str, offset_bytes: u64, bytes: &'static [u8]) -> Magic {
    Magic { name, offset_bytes, bytes }
}

/// The name of our own.
pub const XFS: &str = "an XFS file system";
const LUKS: &str = "encrypted data (LUKS)";
const BITLOCKER: &str = "encrypted data (BitLocker)";
const RAID: &str = "a member of a RAID (md)";
const LVM: &str = "a physical volume (LVM)";

/// Magic numbers at fixed places. Formats that others contain come after them.
const MAGICS: &[Magic] = &[
    magic(XFS, 0, b"XFSB"),
    magic("an ext2, ext3 or ext4 file system", 1080, &[0x53, 0xef]),
    magic("a btrfs file system", 0x1_0040, b"_BHRfS_M"),
    magic(
        "a bcachefs file system or bcache device",
        4096 + 24,
        b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81",
    ),
    magic(
        "a bcachefs file system",
        4096 + 24,
        b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef",
    ),
    magic("an F2FS file system", 1024, &[0x10, 0x20, 0xf5, 0xf2]),
    magic("an EROFS file system", 1024, &[0xe2, 0xe1, 0xf5, 0xe0]),
    magic("a JFS file system", 32768, b"JFS1"),
    magic("a ReiserFS file system", 65536 + 52, b"ReIsEr"),
    magic("a Reiser4 file system", 65536, b"ReIsEr4"),
    magic("a GFS2 file system", 65536, &[0x01, 0x16, 0x19, 0x70]),
    magic("an OCFS2 file system", 2 * 4096, b"OCFSV2"),
    magic("a NILFS2 file system", 1024 + 6, &[0x34, 0x34]),
    magic("an HFS+ file system", 1024, b"H+"),
    magic("an HFS+ file system", 1024, b"HX"),
    magic("an APFS container", 32, b"NXSB"),
    magic("a squashfs file system", 0, b"hsqs"),
    magic("a cramfs file system", 0, &[0x45, 0x3d, 0xcd, 0x28]),
    magic("a romfs file system", 0, b"-rom1fs-"),
    magic("an ISO 9660 file system", 32769, b"CD001"),
    magic("a UDF file system", 32769, b"BEA01"),
    magic("a UDF file system", 32769, b"NSR0"),
    magic("an NTFS file system", 3, b"NTFS    "),
    magic("an exFAT file system", 3, b"EXFAT   "),
    magic("a ReFS file system", 3, b"ReFS\0\0\0\0"),
    magic("a UFS file system", 8192 + 1372, &[0x54, 0x19, 0x01, 0x00]),
    magic("a UFS file system", 65536 + 1372, &[0x19, 0x01, 0x54, 0x19]),
    magic("a VMFS volume", 0x10_0000, &[0x0d, 0xd0, 0x01, 0xc0]),
    magic("a FAT file system", 54, b"FAT1"),
    magic("a FAT file system", 82, b"FAT32"),
    magic(LUKS, 0, b"LUKS\xba\xbe"),
    magic(BITLOCKER, 3, b"-FVE-FS-"),
    magic(RAID, 0, &MD_MAGIC),
    magic(RAID, 4096, &MD_MAGIC),
    magic("a volume with integrity sums (dm-integrity)", 0, b"integrt\0"),
    magic("hashes of a verified volume (dm-verity)", 0, b"verity\0\0"),
    magic("a VDO volume", 0, b"dmvdo001"),
    magic("a Stratis device", 4096 + 4, b"!Stra0tis\x86\xff\x02^\x41rh"),
    magic("a Ceph BlueStore device", 0, b"bluestore block device"),
    magic("swap space", 4096 - 10, b"SWAPSPACE2"),
    magic("swap space", 4096 - 10, b"SWAP-SPACE"),
    magic("swap space", 8192 - 10, b"SWAPSPACE2"),
    magic("swap space", 16384 - 10, b"SWAPSPACE2"),
    magic("swap space", 65536 - 10, b"SWAPSPACE2"),
    magic("a hibernated system", 4096 - 10, b"S1SUSPEND"),
    magic("a hibernated system", 4096 - 10, b"S2SUSPEND"),
    magic("a QCOW2 disk image", 0, b"QFI\xfb"),
    magic("a VMDK disk image", 0, b"KDMV"),
    magic("a VHDX disk image", 0, b"vhdxfile"),
    magic("a partition table (GPT)", 512, b"EFI PART"),
    magic("a partition table (GPT)", 4096, b"EFI PART"),
];

/// Enough of the beginning for all of them, and for the first label of ZFS.
const HEAD_BYTES: u64 = (1 << 20) + 512;
const SECTOR: usize = 512;
/// What a superblock of md begins with.
const MD_MAGIC: [u8; 4] = [0xfc, 0x4e, 0x2b, 0xa9];
/// Bytes of it that are looked at.
const MD_BYTES: usize = 256;

/// Looks for something known in `size_bytes` bytes, which `read` reads.
///
/// # Errors
/// Those of `read`.
pub fn find<E>(
    size_bytes: u64,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
) -> Result<Option<Signature>, E> {
    let mut head = vec![0; HEAD_BYTES.min(size_bytes) as usize];
    read(0, &mut head)?;
    if let Some(name) = in_head(&head) {
        let container = container_of(name, &head);
        return Ok(Some(Signature { name, container }));
    }
    at_end(size_bytes, read)
}

fn container_of(name: &str, head: &[u8]) -> Option<Container> {
    match name {
        LVM => Some(Container::Lvm),
        LUKS => Some(Container::Luks),
        BITLOCKER => Some(Container::BitLocker),
        RAID => {
            let superblock = [0, 4096].into_iter().filter_map(|start| head.get(start..start + MD_BYTES));
            let found = superblock.into_iter().find(|bytes| bytes.starts_with(&MD_MAGIC));
            Some(Container::Raid { data_offset_bytes: found.and_then(data_of_mirror) })
        }
        _ => None,
    }
}

/// Where the data of a mirror begin in bytes, by a superblock of md of version 1: its level stands at byte 72, the offset in sectors at 128.
#[doc(alias = "mdp_superblock_1")]
fn data_of_mirror(superblock: &[u8]) -> Option<u64> {
    const MIRROR: u32 = 1;
    let version = u32::from_le_bytes(*superblock.get(4..)?.first_chunk()?);
    let level = u32::from_le_bytes(*superblock.get(72..)?.first_chunk()?);
    let sectors = u64::from_le_bytes(*superblock.get(128..)?.first_chunk()?);
    if version == 1 && level == MIRROR { sectors.checked_mul(SECTOR as u64) } else { None }
}

fn in_head(head: &[u8]) -> Option<&'static str> {
    let holds = |magic: &&Magic| {
        let start = magic.offset_bytes as usize;
        head.get(start..start + magic.bytes.len()) == Some(magic.bytes)
    };
    if let Some(magic) = MAGICS.iter().find(holds) {
        return Some(magic.name);
    }
    if is_logical_volume(head) {
        return Some(LVM);
    }
    if is_zfs(head) {
        return Some("a ZFS device");
    }
    has_partitions(head).then_some("a partition table (MBR)")
}

/// The label of LVM lies in one of the first four sectors.
fn is_logical_volume(head: &[u8]) -> bool {
    head.chunks_exact(SECTOR)
        .take(4)
        .any(|sector| sector.starts_with(b"LABELONE") && sector.get(24..32) == Some(b"LVM2 001".as_slice()))
}

/// The first label's ring of uberblocks.
fn is_zfs(head: &[u8]) -> bool {
    const UBERBLOCK: u64 = 0x00ba_b10c;
    let ring = head.get(128 << 10..head.len().min(256 << 10)).unwrap_or_default();
    ring.chunks_exact(1024).any(|block| {
        let word = block.first_chunk().copied().unwrap_or_default();
        u64::from_le_bytes(word) == UBERBLOCK || u64::from_be_bytes(word) == UBERBLOCK
    })
}

/// A boot sector with at least one partition, and only such flags as partitions have.
fn has_partitions(head: &[u8]) -> bool {
    if head.get(510..512) != Some(&[0x55, 0xaa]) {
        return false;
    }
    let entries = head.get(446..510).unwrap_or_default().chunks_exact(16);
    let mut types = 0;
    for entry in entries {
        if entry[0] & 0x7f != 0 {
            return false;
        }
        types |= entry[4];
    }
    types != 0
}

/// Versions 0.9 and 1.0 of md have their superblock near the end, and so have RAIDs of firmware.
fn at_end<E>(
    size_bytes: u64,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
) -> Result<Option<Signature>, E> {
    let version_1 = (size_bytes / 512).saturating_sub(16) / 8 * 8 * 512;
    let version_0 = (size_bytes & !0xffff).saturating_sub(0x1_0000);
    for offset_bytes in [version_1, version_0] {
        let mut bytes = [0; MD_BYTES];
        if offset_bytes > 0 && offset_bytes + bytes.len() as u64 <= size_bytes {
            read(offset_bytes, &mut bytes)?;
            let [one, two, three, four] = MD_MAGIC;
            if bytes.starts_with(&MD_MAGIC) || bytes.starts_with(&[four, three, two, one]) {
                // The data of a mirror begin with the device.
                let data_offset_bytes = data_of_mirror(&bytes);
                return Ok(Some(Signature {
                    name: RAID,
                    container: Some(Container::Raid { data_offset_bytes }),
                }));
            }
        }
    }
    for (from_end, magic) in FIRMWARE_RAIDS {
        let mut bytes = [0; 32];
        if let Some(offset_bytes) = size_bytes.checked_sub(*from_end) {
            read(offset_bytes, &mut bytes)?;
            if bytes.starts_with(magic) {
                return Ok(Some(Signature { name: "a member of a RAID of the firmware", container: None }));
            }
        }
    }
    Ok(None)
}

/// RAIDs of firmware: how many bytes before the end their magic number lies, and which it is. Intel's and DDF.
const FIRMWARE_RAIDS: &[(u64, &[u8])] =
    &[(1024, b"Intel Raid ISM Cfg Sig. "), (512, &[0xde, 0x11, 0xde, 0x11])];

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    const SIZE_BYTES: usize = 2 << 20;

    fn signature(places: &[(usize, &[u8])]) -> Option<Signature> {
        let mut contents = vec![0; SIZE_BYTES];
        for (offset, bytes) in places {
            contents[*offset..offset + bytes.len()].copy_from_slice(bytes);
        }
        let read = |offset: u64, bytes: &mut [u8]| -> Result<(), Infallible> {
            bytes.copy_from_slice(&contents[offset as usize..offset as usize + bytes.len()]);
            Ok(())
        };
        find(SIZE_BYTES as u64, read).unwrap()
    }

    fn found(offset_bytes: u64, bytes: &[u8]) -> Option<&'static str> {
        signature(&[(offset_bytes as usize, bytes)]).map(|signature| signature.name)
    }

    #[test]
    fn containers_are_told_with_a_remedy() {
        let container = |offset, bytes| signature(&[(offset, bytes)]).unwrap().container;
        assert_eq!(container(0, b"LUKS\xba\xbe"), Some(Container::Luks));
        assert_eq!(container(3, b"-FVE-FS-"), Some(Container::BitLocker));
        assert_eq!(container(1080, &[0x53, 0xef]), None);
        let version = [&MD_MAGIC[..], &1_u32.to_le_bytes()].concat();
        let mirror = 1_u32.to_le_bytes();
        let offset = 2048_u64.to_le_bytes();
        for (start, level, expected) in [
            (4096, mirror, Some(1 << 20)),
            (4096, 5_u32.to_le_bytes(), None),
            (SIZE_BYTES - 8192, mirror, Some(1 << 20)),
        ] {
            let places: [(usize, &[u8]); 3] =
                [(start, &version), (start + 72, &level), (start + 128, &offset)];
            let container = signature(&places).unwrap().container.unwrap();
            assert_eq!(container, Container::Raid { data_offset_bytes: expected });
            assert!(container.remedy().contains("mdadm"), "{container:?}");
        }
    }

    #[test]
    fn each_is_found_where_it_lies() {
        for magic in MAGICS {
            assert!(found(magic.offset_bytes, magic.bytes).is_some(), "{}", magic.name);
        }
        assert_eq!(
            found(512, b"LABELONE\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0LVM2 001"),
            Some("a physical volume (LVM)")
        );
        assert_eq!(found((128 << 10) + 4096, &[0x0c, 0xb1, 0xba, 0, 0, 0, 0, 0]), Some("a ZFS device"));
        for from_end in [8192, 65536] {
            assert_eq!(found(SIZE_BYTES as u64 - from_end, &MD_MAGIC), Some(RAID));
        }
        for (from_end, magic) in FIRMWARE_RAIDS {
            assert!(found(SIZE_BYTES as u64 - from_end, magic).is_some());
        }
    }

    #[test]
    fn a_boot_sector_alone_is_no_partition_table() {
        assert_eq!(found(510, &[0x55, 0xaa]), None);
        let mut table = [0; 66];
        (table[4], table[64], table[65]) = (0x83, 0x55, 0xaa);
        assert_eq!(found(446, &table), Some("a partition table (MBR)"));
    }

    #[test]
    fn nothing_is_found_in_nothing() {
        assert_eq!(found(0, &[]), None);
        assert_eq!(find(0, |_, _| Ok::<_, Infallible>(())).unwrap(), None);
    }
}
