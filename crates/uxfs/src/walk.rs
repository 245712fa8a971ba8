//! A tree, file by file.

use std::{collections::HashSet, fmt};

use crate::{Entries, Entry, Error, Image, Result};

/// Directories on one path, at most: as for the paths of an inode.
const MOST_LEVELS: usize = 4096;

/// A directory and everything below, directories before what they hold, from [`Image::walk`] or [`Entry::walk`].
///
/// An error is about one file or directory; what can be read follows. Symbolic links are not followed. In a damaged image that has
/// a directory twice its contents come once.
pub struct Walk {
    start: Option<Result<Entry>>,
    /// The directory at hand, which has the path of the walk.
    current: Option<Entries>,
    /// Those above it, with the lengths of their paths, the uppermost first: each is the beginning of the next.
    above: Vec<(Entries, usize)>,
    /// Directories that were entered.
    seen: HashSet<u64>,
}

impl Walk {
    pub(crate) fn from_root(image: &Image) -> Self {
        Self { start: Some(image.root()), current: None, above: Vec::new(), seen: HashSet::new() }
    }

    pub(crate) fn from_entry(entry: &Entry) -> Self {
        Self { start: Some(Ok(entry.clone())), current: None, above: Vec::new(), seen: HashSet::new() }
    }

    /// Does not go into the directory that was given last.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("disk.img");
    /// # uxfs::Maker::new().size(300 << 20).make(&path)?;
    /// # let editor = uxfs::Editor::open(&path)?;
    /// # editor.make_directory("/a", 0o755)?;
    /// # editor.write("/a/inside", b"")?;
    /// # editor.write("/b", b"")?;
    /// # editor.close()?;
    /// let image = uxfs::Image::open(&path)?;
    /// let mut walk = image.walk();
    /// let mut names = Vec::new();
    /// while let Some(entry) = walk.next() {
    ///     let entry = entry?;
    ///     if entry.name() == b"a" {
    ///         walk.skip_directory();
    ///     }
    ///     names.push(entry.name().to_vec());
    /// }
    /// assert_eq!(names, [b"".to_vec(), b"a".to_vec(), b"b".to_vec()]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn skip_directory(&mut self) {
        if self.current.as_ref().is_some_and(Entries::is_untouched) {
            self.leave();
        }
    }

    /// Goes back to the directory above.
    fn leave(&mut self) {
        let left = self.current.take();
        if let (Some(left), Some((mut entries, path_bytes))) = (left, self.above.pop()) {
            entries.take_path_back(left, path_bytes);
            self.current = Some(entries);
        }
    }

    /// Goes into a directory; says why not where it must not.
    fn enter(&mut self, entry: &Entry) -> Option<Error> {
        const TWICE: &str = "the directory has several names, or lies in itself";
        if !entry.metadata().is_directory() {
            return None;
        }
        let path = || entry.path().escape_ascii();
        if !self.seen.insert(entry.metadata().inode) {
            return Some(Error::Corrupt { message: format!("{}: {TWICE}", path()) });
        }
        if self.current.is_some() && self.above.len().saturating_add(1) >= MOST_LEVELS {
            const ENAMETOOLONG: i32 = 36;
            let message = format!("{}: lies below {MOST_LEVELS} directories; walk it by itself", path());
            return Some(Error::Operation { errno: ENAMETOOLONG, message });
        }
        if let Some(mut above) = self.current.replace(Entries::new(entry)) {
            let path_bytes = above.lend_path();
            self.above.push((above, path_bytes));
        }
        None
    }
}

impl Iterator for Walk {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = match self.start.take() {
            Some(start) => start,
            None => loop {
                match self.current.as_mut()?.next() {
                    Some(next) => break next,
                    None => self.leave(),
                }
            },
        };
        Some(next.and_then(|entry| self.enter(&entry).map_or(Ok(entry), Err)))
    }
}

impl fmt::Debug for Walk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Walk").field("current", &self.current).field("above", &self.above.len()).finish()
    }
}
