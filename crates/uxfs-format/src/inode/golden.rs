//! For tests: inodes made by mkfs and the kernel, and a way to damage them. `testdata/inode/make.sh` made them.

use super::{InodeCore, core::CHECKSUM_OFFSET_BYTES, verify_inode};
use crate::{
    checksum,
    fault::Fault,
    geometry::Geometry,
    superblock::{Copy, Superblock},
    units::InodeNumber,
};

/// An inode with the superblock of its file system, and what `xfs_db` prints.
pub(crate) struct Golden {
    pub name: &'static str,
    pub bytes: &'static [u8],
    pub superblock: &'static [u8],
    pub text: &'static str,
}

macro_rules! golden {
    ($($constant:ident $name:literal in $superblock:literal;)*) => {
        $(pub(crate) const $constant: Golden = Golden {
            name: $name,
            bytes: include_bytes!(concat!("../../testdata/inode/", $name, ".bin")),
            superblock: include_bytes!(concat!("../../testdata/inode/", $superblock, ".bin")),
            text: include_str!(concat!("../../testdata/inode/", $name, ".txt")),
        };)*
        pub(crate) const ALL: &[Golden] = &[$($constant),*];
    };
}

golden! {
    ROOT "root" in "superblock";
    DIRECTORY "directory" in "superblock";
    EXTENTS "extents" in "superblock";
    BTREE "btree" in "superblock";
    SHARED "shared" in "superblock";
    HINT "hint" in "superblock";
    SYMLINK "symlink" in "superblock";
    LONG_SYMLINK "long_symlink" in "superblock";
    CHARACTER "character" in "superblock";
    BLOCK "block" in "superblock";
    FIFO "fifo" in "superblock";
    GONE "gone" in "superblock";
    NEVER_USED "never_used" in "superblock";
    OLD_EXTENTS "old_extents" in "old_superblock";
    OLD_SYMLINK "old_symlink" in "old_superblock";
    META_ROOT "meta_root" in "meta_superblock";
    META_BTREE "meta_btree" in "meta_superblock";
}

pub(crate) fn geometry_of(superblock: &[u8]) -> Geometry {
    let (superblock, sector) = Superblock::parse(superblock).unwrap();
    superblock.verify(sector, Copy::Primary).unwrap();
    Geometry::new(superblock)
}

impl Golden {
    pub fn geometry(&self) -> Geometry {
        geometry_of(self.superblock)
    }

    /// The value of a line of what `xfs_db` prints.
    pub fn printed(&self, name: &str) -> &'static str {
        let lines = self.text.lines().filter_map(|line| line.split_once(" = "));
        lines.filter(|(key, _)| *key == name).map(|(_, value)| value).next().unwrap()
    }

    pub fn number(&self) -> InodeNumber {
        InodeNumber::new(self.printed("v3.inumber").parse().unwrap())
    }

    pub fn verify(&self) -> Result<&'static InodeCore, Fault> {
        Ok(verify_inode(self.bytes, self.number(), &self.geometry())?)
    }

    /// Changes bytes at some places, seals the inode again and gives what the verifier says, for a file system with
    /// these sizes and features.
    pub fn patched_in(&self, geometry: &Geometry, patches: &[(usize, &[u8])]) -> Result<(), Fault> {
        let mut bytes = self.bytes.to_vec();
        for (offset, value) in patches {
            bytes[*offset..offset + value.len()].copy_from_slice(value);
        }
        checksum::seal(&mut bytes, CHECKSUM_OFFSET_BYTES);
        Ok(verify_inode(&bytes, self.number(), geometry).map(drop)?)
    }

    /// As [`patched_in`](Self::patched_in), in its own file system.
    pub fn patched(&self, patches: &[(usize, &[u8])]) -> Result<(), Fault> {
        self.patched_in(&self.geometry(), patches)
    }
}
