//! The entries of one directory beside the inodes that they name.

use uxfs_format::{
    directory::name_hash::NameRule,
    inode::{FileType, Fork, InodeFlags2},
    units::InodeNumber,
};
use uxfs_volume::{
    directory::DirectoryEntry,
    inode::{Inode, InodeFork},
    tolerant::passed_over_by_this_thread,
};

use super::{MOST_FAULTS, free_index, index};
use crate::{
    check::Context,
    finding::Finding,
    inode::fields,
    observed::inodes::{InodeTable, Ordinal, ParentNote, ParentWitness},
    parent_pointer::{Link, ParentSums},
    sum::Sum,
};

/// Result of walking a directory's entries.
pub(super) struct EntriesFound {
    /// Of hash and place of each entry.
    pub sum: Sum,
    pub is_complete: bool,
}

/// Looks at a directory. Gives whether all of its entries could be read.
pub(crate) fn check(
    context: &Context<'_>,
    table: &InodeTable,
    directory: &Inode,
    sums: &mut ParentSums,
) -> bool {
    let Some(ordinal) = table.find(context.volume.geometry(), directory.number) else { return false };
    let mut entries = Entries {
        context,
        table,
        directory,
        ordinal,
        sums,
        rule: NameRule::of(context.volume.geometry()),
        sum: Sum::default(),
        subdirectories: 0,
        has_unread_types: false,
        has_dot: false,
        has_dot_dot: false,
    };
    let Some(is_complete) = entries.read() else { return false };
    entries.finish(is_complete);
    let found = EntriesFound { sum: entries.sum, is_complete };
    match directory.fork(Fork::Data) {
        Some(InodeFork::Local(_)) => index::check_local(context, directory),
        _ => {
            index::check(context, directory, &found);
            free_index::check(context, directory);
        }
    }
    is_complete
}

struct Entries<'w, 'c> {
    context: &'w Context<'c>,
    table: &'w InodeTable,
    directory: &'w Inode,
    ordinal: Ordinal,
    sums: &'w mut ParentSums,
    rule: NameRule,
    sum: Sum,
    subdirectories: u32,
    /// An entry may be that of a subdirectory, or not.
    has_unread_types: bool,
    has_dot: bool,
    has_dot_dot: bool,
}

impl Entries<'_, '_> {
    /// Reads all entries. Gives whether none was left out; `None` where the directory cannot be opened.
    fn read(&mut self) -> Option<bool> {
        let context = self.context;
        let passed_over_before = passed_over_by_this_thread();
        let mut reader = context.read(context.volume.open_directory(self.directory, 0))?;
        let is_local = matches!(self.directory.fork(Fork::Data), Some(InodeFork::Local(_)));
        let mut faults = 0;
        loop {
            match reader.next_entry() {
                Ok(Some(entry)) => self.entry(&entry),
                Ok(None) => break,
                Err(error) => {
                    context.sink.add_error(error);
                    faults += 1;
                    if is_local || faults >= MOST_FAULTS {
                        break;
                    }
                }
            }
            if context.sink.is_stopped() {
                return None;
            }
        }
        context.report_left_out();
        let is_map_whole = context.volume.lost_extents(self.directory, Fork::Data).is_none();
        Some(faults == 0 && is_map_whole && passed_over_by_this_thread() == passed_over_before)
    }

    fn entry(&mut self, entry: &DirectoryEntry<'_>) {
        let keys = &self.context.keys;
        self.sum.add(keys.of((self.rule.hash(entry.name), entry.cookie)));
        if matches!(entry.name, b"." | b"..")
            && self.context.has_file_types()
            // The header of a small directory names its parent without a type.
            && !matches!(self.directory.fork(Fork::Data), Some(InodeFork::Local(_)))
            && entry.file_type != Some(FileType::Directory)
        {
            let (directory, name) = (self.directory.number, entry.name.into());
            let (inode, found, expected) = (entry.inode, entry.file_type, FileType::Directory);
            self.context.sink.add(Finding::EntryFileType { directory, name, inode, found, expected });
        }
        match entry.name {
            b"." => {
                self.has_dot = true;
                if entry.inode != self.directory.number {
                    let (directory, found) = (self.directory.number, Some(entry.inode));
                    self.context.sink.add(Finding::Dot { directory, found });
                }
            }
            b".." => {
                self.has_dot_dot = true;
                self.dot_dot(entry.inode);
            }
            name => self.name(name, entry),
        }
    }

    fn dot_dot(&self, parent: InodeNumber) {
        let (context, geometry) = (self.context, self.context.volume.geometry());
        let place = self.table.find(geometry, parent);
        let is_directory = place.map(|place| self.table.file_type(place));
        match (place, is_directory) {
            (Some(place), Some(Some(FileType::Directory))) => {
                let note = self.table.note_parent(self.ordinal, place, ParentWitness::DotDot);
                self.contradiction(self.directory.number, note);
            }
            // It is in use and could not be read.
            (Some(_), Some(None)) => {}
            (None, _) if self.table.is_unknown(geometry, parent) => {}
            _ => {
                let (directory, found) = (self.directory.number, Some(parent));
                context.sink.add(Finding::DotDot { directory, found, expected: None });
            }
        }
    }

    fn contradiction(&self, directory: InodeNumber, note: ParentNote) {
        if let ParentNote::Contradicts { dot_dot, named_in } = note {
            let geometry = self.context.volume.geometry();
            let number = |ordinal| Some(self.table.number(geometry, ordinal));
            let (found, expected) = (number(dot_dot), number(named_in));
            self.context.sink.add(Finding::DotDot { directory, found, expected });
        }
    }

    fn name(&mut self, name: &[u8], entry: &DirectoryEntry<'_>) {
        let (context, geometry) = (self.context, self.context.volume.geometry());
        let (directory, inode) = (self.directory.number, entry.inode);
        if geometry.features.has_parent_pointers() {
            let generation = self.directory.generation();
            self.sums.add_entry(&context.keys, &Link { directory, generation, inode, name });
        }
        let Some(ordinal) = self.table.find(geometry, inode) else {
            if self.table.is_unknown(geometry, inode) {
                self.unread(entry);
                return;
            }
            context.sink.add(Finding::EntryOfFreeInode { directory, name: name.into(), inode });
            return;
        };
        let Some(expected) = self.table.file_type(ordinal) else {
            self.unread(entry);
            return;
        };
        let has_types = context.has_file_types();
        if has_types && entry.file_type != Some(expected) {
            let (name, found) = (name.into(), entry.file_type);
            context.sink.add(Finding::EntryFileType { directory, name, inode, found, expected });
        }
        let is_metadata = self.directory.flags2().contains(InodeFlags2::METADATA);
        if self.table.is_metadata(ordinal) != is_metadata {
            let name = name.into();
            context.sink.add(Finding::MetadataEntry { directory, name, inode });
        }
        if expected != FileType::Directory {
            return self.table.add_name(ordinal);
        }
        self.subdirectories = self.subdirectories.saturating_add(1);
        match self.table.note_parent(ordinal, self.ordinal, ParentWitness::Entry) {
            ParentNote::NamedBefore => {
                let name = name.into();
                context.sink.add(Finding::DirectoryNamedTwice { inode, directory, name });
            }
            note => self.contradiction(inode, note),
        }
    }

    /// The entry of an inode that could not be read: its type must do.
    fn unread(&mut self, entry: &DirectoryEntry<'_>) {
        self.subdirectories += u32::from(entry.file_type == Some(FileType::Directory));
        self.has_unread_types |= entry.file_type.is_none();
    }

    /// After the last entry.
    fn finish(&self, is_complete: bool) {
        if !is_complete {
            return;
        }
        let (directory, sink) = (self.directory.number, &self.context.sink);
        if !self.has_dot {
            sink.add(Finding::Dot { directory, found: None });
        }
        if !self.has_dot_dot {
            sink.add(Finding::DotDot { directory, found: None, expected: None });
        }
        if let Some(expected) = fields::directory_size(self.directory, self.context.volume)
            && self.directory.size_bytes() != expected
        {
            let found = self.directory.size_bytes();
            sink.add(Finding::DirectorySize { directory, found, expected });
        }
        let (found, expected) = (self.directory.link_count(), self.subdirectories.saturating_add(2));
        if found != expected && !self.has_unread_types {
            sink.add(Finding::LinkCount { inode: directory, found, expected });
        }
    }
}
