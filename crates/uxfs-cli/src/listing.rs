//! The entries of a directory as commands list them: sorted by name where the directory is of a usual size, in the
//! directory's own order where it is so large that sorting would need its names in memory.

use std::{ops::Range, sync::Arc};

use uxfs_format::units::InodeNumber;
use uxfs_volume::volume::Volume;
use uxfs_volume::{
    directory::read::DirectoryWalk,
    error::{Error, Result},
    inode::{FileType, Inode},
};

/// Directories with more entries than this are listed in their own order.
pub const SORTED_ENTRIES_MAX: usize = 50_000;
/// Entries whose inodes are read ahead together.
pub const PREFETCHED_ENTRIES: usize = 512;
/// Longest path that is descended into. The kernel's own limit is 4,096; an image can hold deeper trees.
pub const PATH_BYTES_MAX: usize = 64 << 10;

/// The fields of a listing beside the name.
#[derive(Debug, Clone, Copy)]
pub struct Listed {
    /// The inode.
    pub inode: InodeNumber,
    /// Its type, where the entry says so.
    pub file_type: Option<FileType>,
}

/// Which entries are listed, and how.
#[derive(Debug, Clone, Copy, Default)]
pub struct ListingOptions {
    /// "." and ".." too.
    pub with_dots: bool,
    /// In the directory's own order, whatever its size.
    pub unsorted: bool,
}

/// The entries of one directory, one after the other. Can be gone through again.
#[derive(Debug)]
pub struct Listing<'fs> {
    filesystem: &'fs Volume,
    directory: Arc<Inode>,
    options: ListingOptions,
    order: Order,
}

#[derive(Debug)]
enum Order {
    Sorted { names: Vec<u8>, entries: Vec<(Range<usize>, Listed)>, next: usize, damage: Option<Error> },
    Own(DirectoryWalk),
}

impl<'fs> Listing<'fs> {
    /// Begins to list a directory.
    pub fn new(filesystem: &'fs Volume, directory: &Arc<Inode>, options: ListingOptions) -> Result<Self> {
        let order = if options.unsorted {
            Order::Own(DirectoryWalk::begin(filesystem, directory, 0)?)
        } else {
            sort(filesystem, directory, options)?
        };
        Ok(Self { filesystem, directory: Arc::clone(directory), options, order })
    }

    /// The next entry; its name replaces what `name` holds. After an error, an entry may still follow only in
    /// sorted order, where damage is reported last.
    pub fn next(&mut self, name: &mut Vec<u8>) -> Result<Option<Listed>> {
        name.clear();
        match &mut self.order {
            Order::Sorted { names, entries, next, damage } => {
                let Some((range, listed)) = entries.get(*next) else {
                    return damage.take().map_or(Ok(None), Err);
                };
                *next += 1;
                name.extend_from_slice(names.get(range.clone()).unwrap_or_default());
                Ok(Some(*listed))
            }
            Order::Own(walk) => {
                while let Some(entry) = walk.next_entry(self.filesystem, &self.directory)? {
                    if self.options.with_dots || !is_dot(entry.name) {
                        name.extend_from_slice(entry.name);
                        return Ok(Some(Listed { inode: entry.inode, file_type: entry.file_type }));
                    }
                }
                Ok(None)
            }
        }
    }

    /// Whether the entries come in the order of their names.
    pub fn is_sorted(&self) -> bool {
        matches!(self.order, Order::Sorted { .. })
    }

    /// Brings the inodes of the entries that come next into the cache, where the listing knows them already.
    pub fn prefetch_inodes(&self) {
        if let Order::Sorted { entries, next, .. } = &self.order {
            let coming = entries.iter().skip(*next).take(PREFETCHED_ENTRIES);
            self.filesystem.prefetch_inodes(coming.map(|(_, listed)| listed.inode));
        }
    }

    /// Goes back to the first entry. Damage is reported once.
    pub fn rewind(&mut self) -> Result<()> {
        match &mut self.order {
            Order::Sorted { next, .. } => *next = 0,
            Order::Own(walk) => *walk = DirectoryWalk::begin(self.filesystem, &self.directory, 0)?,
        }
        Ok(())
    }
}

fn is_dot(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

fn sort(filesystem: &Volume, directory: &Inode, options: ListingOptions) -> Result<Order> {
    let mut reader = filesystem.open_directory(directory, 0)?;
    let (mut names, mut entries, mut damage) = (Vec::new(), Vec::new(), None);
    loop {
        match reader.next_entry() {
            Ok(Some(entry)) => {
                if !options.with_dots && is_dot(entry.name) {
                    continue;
                }
                if entries.len() == SORTED_ENTRIES_MAX {
                    return Ok(Order::Own(DirectoryWalk::begin(filesystem, directory, 0)?));
                }
                let start = names.len();
                names.extend_from_slice(entry.name);
                entries.push((start..names.len(), Listed { inode: entry.inode, file_type: entry.file_type }));
            }
            Ok(None) => break,
            Err(error) => {
                damage = Some(error);
                break;
            }
        }
    }
    entries.sort_unstable_by(|(one, _), (other, _)| names.get(one.clone()).cmp(&names.get(other.clone())));
    Ok(Order::Sorted { names, entries, next: 0, damage })
}
