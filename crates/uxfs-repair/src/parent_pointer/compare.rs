//! Differences between the parent pointers and entries of directories whose sums differ: each is looked up on the other side.
//! It takes no memory, and one more walk over all inodes.

use std::ops::ControlFlow;

use uxfs_format::{
    attribute::parent_pointer::ParentRecord,
    inode::{FileType, Fork},
    units::InodeNumber,
};
use uxfs_volume::{attribute::parent::WantedParent, inode::Inode, parent_pointer::ParentPointer};
use zerocopy::{
    IntoBytes,
    big_endian::{U32, U64},
};

use super::{Link, ParentSums, recent::Recent};
use crate::{check::Context, finding::Finding, inode, observed::inodes::InodeTable};

/// Compares the entries and parent pointers of all directories whose sums differ.
pub(crate) fn compare(context: &Context<'_>, table: &InodeTable, sums: &ParentSums) {
    let comparison = Comparison { context, table, sums };
    inode::check::visit(context, Recent::default, |recent, inode| {
        if inode.file_type() == Some(FileType::Directory) && sums.differs(inode.number) {
            comparison.entries(recent, &inode);
        }
        comparison.parent_pointers(recent, &inode);
    });
}

struct Comparison<'w, 'c> {
    context: &'w Context<'c>,
    table: &'w InodeTable,
    sums: &'w ParentSums,
}

impl Comparison<'_, '_> {
    /// Each entry of a directory must have a parent pointer. Errors were reported by the pass over directories and attributes.
    fn entries(&self, recent: &mut Recent, directory: &Inode) {
        let volume = self.context.volume;
        let value = ParentRecord {
            inode: U64::new(directory.number.get()),
            generation: U32::new(directory.generation()),
        };
        let _ = volume.read_directory(directory, 0, |entry| {
            let link = Link {
                directory: directory.number,
                generation: directory.generation(),
                inode: entry.inode,
                name: entry.name,
            };
            let is_dot = entry.name == b"." || entry.name == b"..";
            if is_dot || !self.sums.differs_by(&self.context.keys, &link) || !self.is_readable(entry.inode) {
                return self.context.sink.flow();
            }
            let wanted = WantedParent { name: entry.name, value: value.as_bytes() };
            let inode = recent.inode(volume, entry.inode, Fork::Attribute);
            let found = inode.and_then(|inode| volume.attributes(&inode)?.has_parent(wanted));
            if let Ok(false) = found {
                let (directory, name) = (directory.number, entry.name.into());
                self.context.sink.add(Finding::ParentPointerMissing { inode: entry.inode, directory, name });
            }
            self.context.sink.flow()
        });
    }

    /// Each parent pointer of an inode must have an entry.
    fn parent_pointers(&self, recent: &mut Recent, inode: &Inode) {
        let _ = self.context.volume.visit_parent_pointers(inode, |pointer| {
            let ParentPointer { parent: directory, generation, name } = pointer;
            let inode = inode.number;
            if self.sums.differs_by(&self.context.keys, &Link { directory, generation, inode, name })
                && self.has_entry(recent, inode, &pointer) == Some(false)
            {
                let name = name.into();
                let finding = Finding::ParentPointerWithoutEntry { inode, directory, generation, name };
                self.context.sink.add(finding);
            }
            Ok::<ControlFlow<()>, _>(self.context.sink.flow())
        });
    }

    /// `None` where the directory could not be read.
    fn has_entry(
        &self,
        recent: &mut Recent,
        inode: InodeNumber,
        pointer: &ParentPointer<'_>,
    ) -> Option<bool> {
        let volume = self.context.volume;
        let Some(ordinal) = self.table.find(volume.geometry(), pointer.parent) else {
            return (!self.table.is_unknown(volume.geometry(), pointer.parent)).then_some(false);
        };
        if self.table.file_type(ordinal)? != FileType::Directory {
            return Some(false);
        }
        let directory = recent.inode(volume, pointer.parent, Fork::Data).ok()?;
        let found = volume.lookup_by_hash(&directory, pointer.name).ok()?;
        let is_it = found.is_some_and(|found| found.inode == inode && found.stored_name.is_none());
        Some(is_it && directory.generation() == pointer.generation)
    }

    fn is_readable(&self, inode: InodeNumber) -> bool {
        let ordinal = self.table.find(self.context.volume.geometry(), inode);
        ordinal.is_some_and(|ordinal| self.table.file_type(ordinal).is_some())
    }
}
