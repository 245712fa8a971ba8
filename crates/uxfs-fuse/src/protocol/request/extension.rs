//! Extensions of requests that create inodes.
//!
//! Each begins with its size and a number. A number below 32 counts the security contexts that follow; above, it is a type. Types that
//! are not known are skipped: the kernel sends only what was negotiated.

use zerocopy::FromBytes;

use super::{
    body::{read_prefix, split_at_nul},
    fault::RequestFault,
};
use crate::protocol::wire::names::{ExtensionHeader, SecurityContextHeader};

/// Most security contexts of a request.
#[doc(alias = "FUSE_MAX_NR_SECCTX")]
pub const SECURITY_CONTEXTS_MAX: u32 = 31;
/// Type of [`SupplementaryGroups`].
#[doc(alias = "FUSE_EXT_GROUPS")]
pub const SUPPLEMENTARY_GROUPS_TYPE: u32 = 32;
/// All extensions are padded to this.
const ALIGNMENT_BYTES: usize = 8;
/// Bytes of a group id.
const GROUP_BYTES: usize = 4;

/// The extensions of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extensions<'a> {
    /// Labels for the new inode.
    pub security_contexts: SecurityContexts<'a>,
    /// Groups of the caller that matter for the new inode.
    pub groups: SupplementaryGroups<'a>,
}

/// Labels for the new inode: an iterator over [`SecurityContext`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SecurityContexts<'a> {
    count: u32,
    /// Checked: holds so many.
    bytes: &'a [u8],
}

/// An extended attribute that the new inode gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecurityContext<'a> {
    /// Name of the attribute, with its prefix.
    pub name: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
}

/// Groups of the caller, beside the one of the header, that own the parent directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SupplementaryGroups<'a> {
    /// Ids in host byte order.
    bytes: &'a [u8],
}

impl<'a> Extensions<'a> {
    pub(super) fn parse(mut bytes: &'a [u8]) -> Result<Self, RequestFault> {
        let mut extensions = Self::default();
        // Each round takes at least a header away.
        while !bytes.is_empty() {
            let (header, contents, rest) = split_extension(bytes)?;
            match header.kind {
                count @ 0..=SECURITY_CONTEXTS_MAX => {
                    extensions.security_contexts = SecurityContexts::parse(count, contents)?;
                }
                SUPPLEMENTARY_GROUPS_TYPE => extensions.groups = SupplementaryGroups::parse(contents)?,
                _ => {}
            }
            bytes = rest;
        }
        Ok(extensions)
    }
}

/// The first extension: its header, what it holds, and what follows it.
fn split_extension(bytes: &[u8]) -> Result<(ExtensionHeader, &[u8], &[u8]), RequestFault> {
    let (header, _) = read_prefix::<ExtensionHeader>(bytes)?;
    let fault = RequestFault::ExtensionSize { announced_bytes: header.size_bytes, found_bytes: bytes.len() };
    let size_bytes = usize::try_from(header.size_bytes).map_err(|_| fault)?;
    let (extension, _) = bytes.split_at_checked(size_bytes).ok_or(fault)?;
    let contents = extension.get(size_of::<ExtensionHeader>()..).ok_or(fault)?;
    let rest = bytes.get(size_bytes.next_multiple_of(ALIGNMENT_BYTES)..).unwrap_or_default();
    Ok((header, contents, rest))
}

impl<'a> SecurityContexts<'a> {
    fn parse(count: u32, bytes: &'a [u8]) -> Result<Self, RequestFault> {
        let mut rest = bytes;
        for _ in 0..count {
            let context = split_security_context(rest);
            (_, rest) = context.ok_or(RequestFault::ExtensionContents { kind: count })?;
        }
        Ok(Self { count, bytes })
    }
}

impl<'a> Iterator for SecurityContexts<'a> {
    type Item = SecurityContext<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        self.count = self.count.checked_sub(1)?;
        let (context, rest) = split_security_context(self.bytes)?;
        self.bytes = rest;
        Some(context)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let count = usize::try_from(self.count).unwrap_or(usize::MAX);
        (count, Some(count))
    }
}

impl ExactSizeIterator for SecurityContexts<'_> {}

/// The first security context, and what follows it.
fn split_security_context(bytes: &[u8]) -> Option<(SecurityContext<'_>, &[u8])> {
    let (header, rest) = SecurityContextHeader::read_from_prefix(bytes).ok()?;
    let (name, rest) = split_at_nul(rest).ok()?;
    let (value, rest) = rest.split_at_checked(usize::try_from(header.value_bytes).ok()?)?;
    let size_bytes = bytes.len().checked_sub(rest.len())?;
    let rest = bytes.get(size_bytes.next_multiple_of(ALIGNMENT_BYTES)..).unwrap_or_default();
    Some((SecurityContext { name, value }, rest))
}

impl<'a> SupplementaryGroups<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self, RequestFault> {
        let fault = RequestFault::ExtensionContents { kind: SUPPLEMENTARY_GROUPS_TYPE };
        let (count, rest) = u32::read_from_prefix(bytes).map_err(|_| fault)?;
        let needed_bytes = usize::try_from(count).ok().and_then(|count| count.checked_mul(GROUP_BYTES));
        let bytes = needed_bytes.and_then(|needed_bytes| rest.get(..needed_bytes)).ok_or(fault)?;
        Ok(Self { bytes })
    }

    /// Ids of the groups.
    pub fn iter(&self) -> impl Iterator<Item = u32> + 'a {
        self.bytes.as_chunks::<GROUP_BYTES>().0.iter().map(|id| u32::from_ne_bytes(*id))
    }

    /// Whether the caller is known to be in this group.
    pub fn contains(&self, group_id: u32) -> bool {
        self.iter().any(|group| group == group_id)
    }
}
