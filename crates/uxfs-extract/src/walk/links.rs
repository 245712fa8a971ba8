//! The first names of files that have several: what a walk must remember of them.

use std::collections::HashMap;

/// A path, kept as a name below another path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathId(u32);

#[derive(Debug)]
struct PathNode {
    above: Option<PathId>,
    name: Box<[u8]>,
}

/// Paths that share what they begin with.
#[derive(Debug, Default)]
pub struct PathTable {
    nodes: Vec<PathNode>,
}

impl PathTable {
    /// Keeps `name` below `above`; `None` when four thousand million are kept.
    pub fn add(&mut self, above: Option<PathId>, name: &[u8]) -> Option<PathId> {
        let id = PathId(u32::try_from(self.nodes.len()).ok()?);
        self.nodes.push(PathNode { above, name: name.into() });
        Some(id)
    }

    /// Puts the whole path into `path`.
    pub fn path(&self, id: PathId, path: &mut Vec<u8>) {
        let mut names = Vec::new();
        let mut next = Some(id);
        while let Some(node) = next.and_then(|id| self.nodes.get(id.0 as usize)) {
            names.push(&node.name);
            next = node.above;
        }
        path.clear();
        for name in names.into_iter().rev() {
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name);
        }
    }
}

/// First names of files that have several.
#[derive(Debug, Default)]
pub struct FirstNames {
    first: HashMap<u64, FirstName>,
}

#[derive(Debug)]
struct FirstName {
    path: PathId,
    /// Names still to come, if the link count is right.
    remaining: u32,
}

impl FirstNames {
    /// The first path of a file, if it has been seen. Forgotten with the last of its names.
    pub fn seen(&mut self, inode: u64) -> Option<PathId> {
        let first = self.first.get_mut(&inode)?;
        let path = first.path;
        first.remaining = first.remaining.saturating_sub(1);
        if first.remaining == 0 {
            self.first.remove(&inode);
        }
        Some(path)
    }

    /// Remembers the first of `link_count` names.
    pub fn remember(&mut self, inode: u64, link_count: u32, path: PathId) {
        self.first.insert(inode, FirstName { path, remaining: link_count.saturating_sub(1) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_come_back_whole() {
        let mut table = PathTable::default();
        let a = table.add(None, b"a").unwrap();
        let b = table.add(Some(a), b"b").unwrap();
        let c = table.add(Some(b), b"c").unwrap();
        let mut path = Vec::new();
        table.path(c, &mut path);
        assert_eq!(path, b"a/b/c");
        table.path(a, &mut path);
        assert_eq!(path, b"a");
    }

    #[test]
    fn first_names_are_forgotten_with_the_last() {
        let path = PathTable::default().add(None, b"a").unwrap();
        let mut first = FirstNames::default();
        assert_eq!(first.seen(7), None);
        first.remember(7, 3, path);
        assert_eq!(first.seen(7), Some(path));
        assert_eq!(first.seen(7), Some(path));
        assert_eq!(first.seen(7), None);
    }
}
