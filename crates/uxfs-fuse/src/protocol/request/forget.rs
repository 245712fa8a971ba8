//! Nodes of BATCH_FORGET.

use zerocopy::FromBytes;

use super::{body::Body, fault::RequestFault};
use crate::protocol::wire::header::{BatchForgetIn, ForgetOne};

/// The nodes of a request: an iterator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ForgetList<'a> {
    /// A whole number of [`ForgetOne`].
    bytes: &'a [u8],
}

/// A node, of which the kernel drops some lookups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForgottenNode {
    /// The node.
    pub node_id: u64,
    /// How many.
    pub lookups: u64,
}

impl<'a> ForgetList<'a> {
    pub(super) fn parse(mut body: Body<'a>) -> Result<Self, RequestFault> {
        let batch: BatchForgetIn = body.structure()?;
        let bytes = body.remainder()?;
        let announced_bytes = u64::from(batch.count) * size_of::<ForgetOne>() as u64;
        if u64::try_from(bytes.len()) != Ok(announced_bytes) {
            return Err(RequestFault::DataSize { announced_bytes, found_bytes: bytes.len() });
        }
        Ok(Self { bytes })
    }
}

impl Iterator for ForgetList<'_> {
    type Item = ForgottenNode;

    fn next(&mut self) -> Option<Self::Item> {
        let (ForgetOne { node_id, lookups }, rest) = ForgetOne::read_from_prefix(self.bytes).ok()?;
        self.bytes = rest;
        Some(ForgottenNode { node_id, lookups })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let count = self.bytes.len() / size_of::<ForgetOne>();
        (count, Some(count))
    }
}

impl ExactSizeIterator for ForgetList<'_> {}
