//! From an inode in memory to the disk.

use std::mem::offset_of;

use uxfs_format::{
    btree::extent_map::{ExtentMapRoot, ExtentRecord},
    checksum,
    field_table::OnDisk,
    geometry::{Geometry, INODE_CORE_SIZE_BYTES},
    inode::{Fork, InodeCore, core::CHECKSUM_OFFSET_BYTES},
};
use zerocopy::IntoBytes;

use super::{EditInode, ExtentRoot, ForkExtents, InodeFork, commit_sequences::CoreChange};
use uxfs_volume::{
    error::{OperationError, Result},
    extent_map::ExtentMap,
};

/// Offset of the next inode in the unlinked list.
const NEXT_UNLINKED_OFFSET_BYTES: usize = offset_of!(InodeCore, next_unlinked);

const USUAL_INODE_SIZE_BYTES: usize = 512;
const MAX_INODE_SIZE_BYTES: usize = 2048;
const TOO_LONG: OperationError = OperationError::ForkTooLarge;

/// The parts of an inode that differ from the stored ones.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ForkChanges {
    /// Of the core.
    pub core: CoreChange,
    /// The data fork does.
    pub has_data: bool,
    /// The attribute fork does.
    pub has_attribute: bool,
}

impl EditInode {
    /// Puts the inode into the bytes that it has on disk, sealed. The number of the next unlinked inode stays as it was:
    /// only [`UnlinkedLists`](crate::inode::unlinked::UnlinkedLists) writes it.
    pub(crate) fn encode(&self, bytes: &mut [u8], geometry: &Geometry) -> Result<ForkChanges> {
        let (core, literal) = bytes.split_at_mut_checked(INODE_CORE_SIZE_BYTES as usize).ok_or(TOO_LONG)?;
        // Where forks lie and what they are follows from the core: new formats are new forks.
        let old = InodeCore::prefix_of(core).map(|old| (old.fork_offset, old.format, old.attribute_format));
        let are_alike = old == Some((self.core.fork_offset, self.core.format, self.core.attribute_format));
        let core_change = CoreChange::between(core, &self.core);
        let next_unlinked = next_unlinked_of(core).map(|field| *field);
        core.copy_from_slice(self.core.as_bytes());
        if let (Some(next), Some(field)) = (next_unlinked, next_unlinked_of(core)) {
            *field = next;
        }
        let split = self.fork_room_bytes(Fork::Data, geometry) as usize;
        let (data, attribute) = literal.split_at_mut_checked(split).ok_or(TOO_LONG)?;
        let mut changes = ForkChanges {
            core: core_change,
            has_data: !are_alike,
            has_attribute: !are_alike && self.attribute.is_some(),
        };
        changes.has_data |= store(&self.data, data)?;
        match &self.attribute {
            Some(fork) => changes.has_attribute |= store(fork, attribute)?,
            None => attribute.fill(0),
        }
        // A reader of the buffer compares the checksum even before it is written.
        checksum::seal(bytes, CHECKSUM_OFFSET_BYTES);
        Ok(changes)
    }

    /// As it would lie on disk, for tests.
    #[cfg(test)]
    pub fn encoded(&mut self, geometry: &Geometry) -> Result<Vec<u8>> {
        self.update_core();
        let mut bytes = vec![0; geometry.inode_size()];
        self.encode(&mut bytes, geometry)?;
        Ok(bytes)
    }
}

/// Has `encode` write into `room`, and gives whether anything is different now.
#[inline]
fn replace(room: &mut [u8], encode: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<bool> {
    // Most inodes have 512 bytes: the largest scratch would cost more than the rest.
    if room.len() <= USUAL_INODE_SIZE_BYTES {
        return replace_through::<USUAL_INODE_SIZE_BYTES>(room, encode);
    }
    replace_through::<MAX_INODE_SIZE_BYTES>(room, encode)
}

#[inline]
fn replace_through<const SIZE_BYTES: usize>(
    room: &mut [u8],
    encode: impl FnOnce(&mut [u8]) -> Result<()>,
) -> Result<bool> {
    let mut scratch = [0; SIZE_BYTES];
    let new = scratch.get_mut(..room.len()).ok_or(TOO_LONG)?;
    encode(new)?;
    let differs = new != room;
    if differs {
        room.copy_from_slice(new);
    }
    Ok(differs)
}

/// Makes all bytes zero, and gives whether any was not.
#[inline]
fn clear(bytes: &mut [u8]) -> bool {
    // Without a branch for each byte: in registers as wide as there are.
    let has_any = bytes.iter().fold(0, |sum, byte| sum | byte) != 0;
    if has_any {
        bytes.fill(0);
    }
    has_any
}

/// The field of an inode that names the next unlinked one.
pub fn next_unlinked_of(inode: &mut [u8]) -> Option<&mut [u8; 4]> {
    inode.get_mut(NEXT_UNLINKED_OFFSET_BYTES..)?.first_chunk_mut()
}

/// Puts a fork into its room in the inode, and gives whether anything is different now.
fn store(fork: &InodeFork, room: &mut [u8]) -> Result<bool> {
    match fork {
        // Most forks are local or empty, and every change of a file stores both: these two take no detour.
        InodeFork::Local(bytes) => {
            let (target, rest) = room.split_at_mut_checked(bytes.len()).ok_or(TOO_LONG)?;
            let differs = target != bytes.as_slice();
            if differs {
                target.copy_from_slice(bytes);
            }
            Ok(clear(rest) | differs)
        }
        InodeFork::Extents(extents) if extents.root.is_none() && extents.extents.is_empty() => {
            Ok(clear(room))
        }
        _ => replace(room, |room| encode(fork, room)),
    }
}

/// Writes a fork into its room in the inode, and zeros behind it.
fn encode(fork: &InodeFork, room: &mut [u8]) -> Result<()> {
    match fork {
        InodeFork::Device(number) => {
            let (word, rest) = room.split_first_chunk_mut().ok_or(TOO_LONG)?;
            *word = number.to_be_bytes();
            rest.fill(0);
        }
        InodeFork::Local(bytes) => {
            let (target, rest) = room.split_at_mut_checked(bytes.len()).ok_or(TOO_LONG)?;
            target.copy_from_slice(bytes);
            rest.fill(0);
        }
        InodeFork::Extents(ForkExtents { root: Some(root), .. }) => encode_root(root, room)?,
        InodeFork::Extents(extents) => encode_extents(&extents.extents, room)?,
    }
    Ok(())
}

/// Packed records.
fn encode_extents(extents: &ExtentMap, room: &mut [u8]) -> Result<()> {
    room.fill(0);
    let mut slots = room.chunks_exact_mut(size_of::<ExtentRecord>());
    for extent in extents {
        let record = ExtentRecord::new(&extent).ok_or(TOO_LONG)?;
        slots.next().ok_or(TOO_LONG)?.copy_from_slice(record.as_bytes());
    }
    Ok(())
}

/// As it lies in the inode: the pointers behind room for all keys that the fork could hold.
fn encode_root(root: &ExtentRoot, room: &mut [u8]) -> Result<()> {
    room.fill(0);
    let capacity = ExtentMapRoot::capacity(room.len()) as usize;
    if root.keys.len() > capacity || root.keys.len() != root.pointers.len() {
        return Err(TOO_LONG.into());
    }
    let (level, rest) = room.split_first_chunk_mut().ok_or(TOO_LONG)?;
    *level = root.level.to_be_bytes();
    let (count, rest) = rest.split_first_chunk_mut().ok_or(TOO_LONG)?;
    *count = u16::try_from(root.keys.len()).map_err(|_| TOO_LONG)?.to_be_bytes();
    let (keys, pointers) = rest.split_at_mut_checked(capacity * 8).ok_or(TOO_LONG)?;
    for (slot, key) in keys.chunks_exact_mut(8).zip(&root.keys) {
        slot.copy_from_slice(&key.to_be_bytes());
    }
    for (slot, pointer) in pointers.chunks_exact_mut(8).zip(&root.pointers) {
        slot.copy_from_slice(&pointer.get().to_be_bytes());
    }
    Ok(())
}
