//! The entries of a directory.

use std::{collections::VecDeque, fmt, ops::ControlFlow, sync::Arc};

use uxfs_format::units::InodeNumber;
use uxfs_volume::inode::Inode;

use crate::{Entry, Image, Result, error::About};

/// Entries that are read at once.
const BATCH: usize = 256;

/// The entries of a directory, without `.` and `..`, from [`Entry::entries`]. After an error the next entry that can be read
/// follows.
pub struct Entries {
    image: Image,
    directory: Arc<Inode>,
    /// With a slash at the end.
    path: Vec<u8>,
    /// Names that have been read.
    batch: VecDeque<(Box<[u8]>, InodeNumber)>,
    /// Where the next batch begins; `None` behind the last.
    cookie: Option<u64>,
    /// Damage behind the names at hand.
    error: Option<uxfs_volume::error::Error>,
}

impl Entries {
    pub(crate) fn new(directory: &Entry) -> Self {
        let mut path = directory.path().to_vec();
        if !path.ends_with(b"/") {
            path.push(b'/');
        }
        Self {
            image: directory.image().clone(),
            directory: Arc::clone(directory.inode()),
            path,
            batch: VecDeque::new(),
            cookie: Some(0),
            error: None,
        }
    }

    /// Lets go of the path, and gives its length: a directory below has it as the beginning of its own.
    pub(crate) fn lend_path(&mut self) -> usize {
        std::mem::take(&mut self.path).len()
    }

    /// Takes the path back, which has this length.
    pub(crate) fn take_path_back(&mut self, below: Self, path_bytes: usize) {
        self.path = below.path;
        self.path.truncate(path_bytes);
    }

    /// Whether nothing has been read yet.
    pub(crate) fn is_untouched(&self) -> bool {
        self.cookie == Some(0)
    }

    /// Reads the next names, and their inodes ahead.
    fn refill(&mut self, cookie: u64) {
        let (volume, batch) = (self.image.volume(), &mut self.batch);
        let mut next = None;
        let read = volume.read_directory(&self.directory, cookie, |entry| {
            if !matches!(entry.name, b"." | b"..") {
                batch.push_back((entry.name.into(), entry.inode));
            }
            next = Some(entry.next_cookie);
            if batch.len() < BATCH { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        volume.prefetch_inodes(batch.iter().map(|(_, inode)| *inode));
        match read {
            Ok(()) if batch.len() < BATCH => {}
            // A damaged directory must not lead back.
            Ok(()) => self.cookie = next.filter(|next| *next > cookie),
            Err(error) => {
                self.cookie = self.behind(&error).filter(|next| *next > cookie);
                self.error = Some(error);
            }
        }
    }

    /// Where the directory block begins that follows the damaged one.
    fn behind(&self, error: &uxfs_volume::error::Error) -> Option<u64> {
        let uxfs_volume::error::Error::Corrupt(corruption) = error else { return None };
        let geometry = self.image.volume().geometry();
        let block = corruption.location.file_block?.get();
        let next = block.checked_next_multiple_of(geometry.blocks_per_directory_block().into())?;
        let next = if next == block {
            next.checked_add(geometry.blocks_per_directory_block().into())?
        } else {
            next
        };
        (next < geometry.directory_leaf_start().get()).then_some(())?;
        // Cookies count units of 8 bytes.
        Some(next.checked_mul(geometry.block_size_bytes.into())? / 8)
    }
}

impl Iterator for Entries {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((name, number)) = self.batch.pop_front() {
                let path = [self.path.as_slice(), &name].concat();
                let inode = self.image.volume().inode_of_entry(&self.directory, number);
                let inode = inode.about_path(&path);
                return Some(inode.and_then(|inode| Entry::new(&self.image, inode, path)));
            }
            if let Some(error) = self.error.take() {
                return Some(Err(error).about_path(&self.path));
            }
            let cookie = self.cookie.take()?;
            self.refill(cookie);
        }
    }
}

impl fmt::Debug for Entries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entries").field("path", &format_args!("{}", self.path.escape_ascii())).finish()
    }
}
