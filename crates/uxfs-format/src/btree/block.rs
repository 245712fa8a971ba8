//! Views of whole btree blocks.

use zerocopy::FromBytes;

use super::{BlockPointer, BtreeKind, block_header::BlockHeader};
use crate::{
    convert::{low_u32, to_u64, to_usize},
    field_table::OnDisk,
    header_fault::HeaderFault,
};

/// The address space of a kind of tree's pointers.
pub type Address<K> = <Pointer<K> as BlockPointer>::Address;
/// Pointers of a kind of tree as they lie on disk.
pub type Pointer<K> = <<K as BtreeKind>::Header as BlockHeader>::Pointer;

/// One block of a tree, seen without copying. Counts are limited to what the bytes can hold, so that a view of any
/// bytes is safe; whether they make sense is for the verifier to say.
#[derive(Debug)]
pub struct BtreeBlock<'a, K: BtreeKind> {
    header: &'a K::Header,
    /// Everything behind the header.
    body: &'a [u8],
    block_size_bytes: u32,
}

impl<K: BtreeKind> Clone for BtreeBlock<'_, K> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: BtreeKind> Copy for BtreeBlock<'_, K> {}

impl<'a, K: BtreeKind> BtreeBlock<'a, K> {
    /// Looks at one whole block.
    ///
    /// # Errors
    /// Too short for the header.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, HeaderFault> {
        match K::Header::ref_from_prefix(bytes) {
            Ok((header, body)) => Ok(Self { header, body, block_size_bytes: low_u32(to_u64(bytes.len())) }),
            Err(_) => Err(HeaderFault::Truncated {
                length_bytes: to_u64(bytes.len()),
                needed_bytes: to_u64(K::Header::SIZE_BYTES),
            }),
        }
    }

    /// The header.
    #[inline]
    pub fn header(&self) -> &'a K::Header {
        self.header
    }

    /// 0 for leaves.
    #[inline]
    pub fn level(&self) -> u16 {
        self.header.level()
    }

    /// Whether this is a leaf.
    #[inline]
    pub fn is_leaf(&self) -> bool {
        self.level() == 0
    }

    /// Records or entries that a block of this size and level can hold.
    #[inline]
    pub fn capacity(&self) -> u32 {
        K::max_entries(self.block_size_bytes, self.level())
    }

    /// Records (leaf) or entries (node), never more than fit.
    #[inline]
    pub fn len(&self) -> usize {
        to_usize(self.capacity().min(self.header.record_count().into()))
    }

    /// Whether it holds nothing: only an empty tree's root does.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The records of a leaf; nothing in a node.
    #[inline]
    pub fn records(&self) -> &'a [K::Record] {
        if !self.is_leaf() {
            return &[];
        }
        <[K::Record]>::ref_from_prefix_with_elems(self.body, self.len()).map_or(&[], |(records, _)| records)
    }

    /// The keys of a node; nothing in a leaf.
    #[inline]
    pub fn keys(&self) -> &'a [K::Key] {
        if self.is_leaf() {
            return &[];
        }
        <[K::Key]>::ref_from_prefix_with_elems(self.body, self.len()).map_or(&[], |(keys, _)| keys)
    }

    /// The children of a node, one for each key; nothing in a leaf.
    #[inline]
    pub fn pointers(&self) -> &'a [Pointer<K>] {
        if self.is_leaf() {
            return &[];
        }
        let offset = to_usize(self.capacity()).saturating_mul(K::Key::SIZE_BYTES);
        let bytes = self.body.get(offset..).unwrap_or_default();
        <[Pointer<K>]>::ref_from_prefix_with_elems(bytes, self.len()).map_or(&[], |(pointers, _)| pointers)
    }

    /// Previous block of the level.
    #[inline]
    pub fn left_sibling(&self) -> Option<Address<K>> {
        let pointer = self.header.left_sibling();
        (!pointer.is_null()).then(|| pointer.address())
    }

    /// Next block of the level.
    #[inline]
    pub fn right_sibling(&self) -> Option<Address<K>> {
        let pointer = self.header.right_sibling();
        (!pointer.is_null()).then(|| pointer.address())
    }
}
