//! The attributes of one inode: nodes and leaves, remote values, access control lists. Parent pointers go to the sums.

use std::ops::ControlFlow;

use uxfs_format::{
    attribute::{
        leaf::{LeafBlock, LeafValue},
        parent_pointer::{ParentPointerFault, ParentRecord},
        posix_acl::PosixAcl,
        remote,
    },
    fault::{Corruption, Fault, Location, Structure},
    inode::Fork,
    name_tree::{TreeKind, fault::NameTreeFault},
    units::{FileBlock, InodeNumber},
};
use uxfs_volume::{
    attribute::{AttributeValue, Namespace, reader::AttributeReader},
    inode::{Inode, InodeFork},
    name_tree::ForkBlocks,
    volume::MetadataBuffer,
};

use super::{access_list::is_list, leaf::verify_free_regions, twice::Seen};
use crate::{
    check::Context,
    finding::Finding,
    name_tree,
    parent_pointer::{Link, ParentSums},
};

/// Looks at all attributes of an inode.
pub(crate) fn check(context: &Context<'_>, inode: &Inode, sums: &mut ParentSums) {
    let attributes = Attributes { context, inode, sums, seen: Seen::default() };
    match inode.fork(Fork::Attribute) {
        Some(InodeFork::Local(_)) => attributes.local(),
        Some(InodeFork::Extents(_)) if inode.has_extents(Fork::Attribute) => attributes.blocks(),
        _ => {}
    }
}

struct Attributes<'w, 'c> {
    context: &'w Context<'c>,
    inode: &'w Inode,
    sums: &'w mut ParentSums,
    seen: Seen,
}

impl Attributes<'_, '_> {
    fn local(mut self) {
        let (context, inode) = (self.context, self.inode);
        let reader = context.volume.attributes(inode);
        let visited = reader.and_then(|reader| {
            reader.visit(|attribute| {
                self.name(None, attribute.namespace, attribute.name);
                self.attribute(attribute.namespace, attribute.name, &attribute.value, None);
                Ok(ControlFlow::Continue(()))
            })
        });
        context.read(visited);
    }

    fn blocks(mut self) {
        let (context, volume) = (self.context, self.context.volume);
        let blocks = context.read(ForkBlocks::new(volume, self.inode, TreeKind::Attribute));
        let reader = context.read(volume.attributes(self.inode));
        let (Some(blocks), Some(reader)) = (blocks, reader) else { return };
        // Many attributes that claim one value's blocks must not multiply it.
        let mut value_blocks = blocks.most_blocks();
        name_tree::walk(context, &blocks, self.inode.number, &mut |place, buffer| {
            self.leaf(&blocks, &reader, &mut value_blocks, place, buffer);
        });
        let (inode, sink) = (self.inode.number, &context.sink);
        let shared = self.seen.report_shared(&mut |name, file_block| {
            sink.add(Finding::AttributeValueShared { inode, name: name.into(), file_block });
        });
        if let Err(error) = shared {
            sink.add(Finding::NotCompared { error });
        }
    }

    fn leaf(
        &mut self,
        blocks: &ForkBlocks<'_>,
        reader: &AttributeReader<'_>,
        value_blocks: &mut u64,
        place: FileBlock,
        buffer: &MetadataBuffer,
    ) {
        let geometry = blocks.geometry();
        let Ok(leaf) = LeafBlock::parse(buffer, geometry) else { return };
        if let Err(fault) = leaf.verify_first_name().and_then(|()| verify_free_regions(&leaf)) {
            self.damaged(blocks, place, buffer, fault.into());
        }
        for attribute in leaf.attributes() {
            let attribute = match attribute {
                Ok(attribute) => attribute,
                Err(fault) => return self.damaged(blocks, place, buffer, fault.into()),
            };
            if !attribute.is_complete() {
                let (inode, name) = (self.inode.number, attribute.name.into());
                self.context.sink.add(Finding::AttributeIncomplete { inode, name });
                continue;
            }
            let Some(namespace) = attribute.flags.namespace() else { continue };
            self.name(Some(attribute.hash), namespace, attribute.name);
            let value = match attribute.value {
                LeafValue::Local(value) => AttributeValue::Local(value),
                LeafValue::Remote { first_block, length_bytes } => {
                    let count = u64::from(remote::block_count(geometry, length_bytes));
                    let Some(left) = value_blocks.checked_sub(count) else {
                        let most = blocks.most_blocks();
                        return self.damaged(
                            blocks,
                            place,
                            buffer,
                            NameTreeFault::TooManyValueBlocks { most }.into(),
                        );
                    };
                    *value_blocks = left;
                    if let Err(error) = self.seen.add_value(attribute.name, first_block, count) {
                        self.context.sink.add(Finding::NotCompared { error });
                    }
                    AttributeValue::Remote { first_block, length_bytes }
                }
            };
            self.attribute(namespace, attribute.name, &value, Some(reader));
        }
    }

    fn damaged(&self, blocks: &ForkBlocks<'_>, place: FileBlock, buffer: &MetadataBuffer, fault: Fault) {
        let sector = Some(buffer.sector());
        self.context.sink.add_error(blocks.corruption(blocks.index_structure(), place, sector, fault));
    }

    fn name(&mut self, hash: Option<u32>, namespace: Namespace, name: &[u8]) {
        if self.seen.is_name_twice(hash, namespace, name) {
            let (inode, name) = (self.inode.number, name.into());
            self.context.sink.add(Finding::AttributeTwice { inode, name });
        }
    }

    fn attribute(
        &mut self,
        namespace: Namespace,
        name: &[u8],
        value: &AttributeValue<'_>,
        reader: Option<&AttributeReader<'_>>,
    ) {
        let context = self.context;
        let bytes = match (value, reader) {
            (AttributeValue::Local(bytes), _) => Some(std::borrow::Cow::Borrowed(*bytes)),
            (_, Some(reader)) => context.read(reader.value(value)),
            (_, None) => None,
        };
        let Some(bytes) = bytes else { return };
        match namespace {
            Namespace::Parent => self.parent_pointer(name, &bytes),
            Namespace::Trusted if is_list(name) => {
                let list = PosixAcl::decode(&bytes).and_then(|list| list.verify_rules());
                if let Err(fault) = list {
                    self.fault(Structure::AccessControlList, fault.into());
                }
            }
            _ => {}
        }
    }

    fn parent_pointer(&mut self, name: &[u8], value: &[u8]) {
        let geometry = self.context.volume.geometry();
        let has_feature = geometry.features.has_parent_pointers();
        let record = has_feature.then_some(()).ok_or(ParentPointerFault::WithoutFeature);
        let record = record.and_then(|()| ParentRecord::verify(value, geometry));
        match record.and_then(|()| ParentRecord::parse(value)) {
            Ok(record) => {
                let directory = InodeNumber::new(record.inode.get());
                let generation = record.generation.get();
                let link = Link { directory, generation, inode: self.inode.number, name };
                self.sums.add_pointer(&self.context.keys, &link);
            }
            Err(fault) => self.fault(Structure::ParentPointer, fault.into()),
        }
    }

    fn fault(&self, structure: Structure, fault: Fault) {
        let corruption = Corruption::new(structure, Location::of_inode(self.inode.number), fault);
        self.context.sink.add(Finding::Damaged { corruption: Box::new(corruption) });
    }
}
