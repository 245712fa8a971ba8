//! The object that the user asks `inspect` for.

use std::ffi::OsString;

use uxfs_format::{
    fault::Structure,
    units::{AgBlock, AgNumber, FileBlock, FsBlock, InodeNumber, Sector},
};
use uxfs_journal::listing::ListingRange;
use uxfs_volume::inode::Fork;

use crate::{target::Target, text};

/// One or several structures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    /// A header of a group.
    Header(Structure, AgNumber),
    /// An inode.
    Inode(Target),
    /// A block of a btree of a group, or the root.
    Tree(Structure, AgNumber, Option<AgBlock>),
    /// A block of the btree of an inode's extent map, or the root in the inode.
    ExtentMap(InodeNumber, Option<FsBlock>),
    /// Blocks of a directory or of attributes, all or the named ones.
    Fork(Fork, Target, Vec<FileBlock>),
    /// Whatever lies in a block.
    Block(FsBlock),
    /// Whatever lies in a sector.
    Sector(Sector),
    /// The log: its state and records.
    Log(ListingRange),
}

impl Object {
    /// Parses the words of the command line.
    ///
    /// # Errors
    /// A message for the user.
    pub fn parse(words: &[OsString]) -> Result<Self, String> {
        let mut words = Words { rest: words.iter() };
        let kind = words.next("an object")?.to_string_lossy();
        let object = match &*kind {
            "sb" => Self::Header(Structure::Superblock, words.group()?),
            "agf" => Self::Header(Structure::FreeSpaceHeader, words.group()?),
            "agi" => Self::Header(Structure::InodeHeader, words.group()?),
            "agfl" => Self::Header(Structure::FreeList, words.group()?),
            "inode" => {
                let word = words.next("a path or an inode number")?;
                let number = parse_number(word, "an inode number").map(InodeNumber::new);
                Self::Inode(number.map_or_else(|_| Target::parse(word), Target::Inode))
            }
            "btree" => words.tree()?,
            "dir" => words.fork(Fork::Data)?,
            "attr" => words.fork(Fork::Attribute)?,
            "block" => Self::Block(FsBlock::new(words.number("a block number")?)),
            "sector" => Self::Sector(Sector::new(words.number("a sector number")?)),
            "log" => match words.rest.next().map(|word| word.to_string_lossy()).as_deref() {
                None => Self::Log(ListingRange::Active),
                Some("all") => Self::Log(ListingRange::Everything),
                Some(other) => {
                    return Err(format!("`{other}` is not a part of the log: use `all` or nothing"));
                }
            },
            other => {
                let known = "sb, agf, agi, agfl, inode, btree, dir, attr, block, sector and log";
                return Err(format!("`{other}` is not an object to show: use one of {known}"));
            }
        };
        match words.rest.next() {
            Some(word) => Err(format!("`{}` is an extra argument", word.to_string_lossy())),
            None => Ok(object),
        }
    }
}

/// The words not parsed yet.
struct Words<'a> {
    rest: std::slice::Iter<'a, OsString>,
}

impl<'a> Words<'a> {
    fn next(&mut self, what: &str) -> Result<&'a OsString, String> {
        self.rest.next().ok_or_else(|| format!("{what} is missing"))
    }

    fn number(&mut self, what: &str) -> Result<u64, String> {
        parse_number(self.next(what)?, what)
    }

    fn group(&mut self) -> Result<AgNumber, String> {
        let what = "a group number";
        u32::try_from(self.number(what)?).map(AgNumber::new).map_err(|_| format!("{what} has 32 bits"))
    }

    fn tree(&mut self) -> Result<Object, String> {
        let kind = self.next("bno, cnt, ino, fino, rmap, refc or bmap")?.to_string_lossy();
        let structure = match &*kind {
            "bno" => Structure::FreeSpaceByBlock,
            "cnt" => Structure::FreeSpaceByLength,
            "ino" => Structure::InodeIndex,
            "fino" => Structure::FreeInodeIndex,
            "rmap" => Structure::ReverseMap,
            "refc" => Structure::ReferenceCount,
            "bmap" => {
                let number = InodeNumber::new(self.number("an inode number")?);
                return Ok(Object::ExtentMap(number, self.last_number("a block number")?.map(FsBlock::new)));
            }
            other => {
                return Err(format!("`{other}` is not a btree: use bno, cnt, ino, fino, rmap, refc or bmap"));
            }
        };
        let group = self.group()?;
        let what = "a block number of a group";
        let block = self.last_number(what)?.map(u32::try_from).transpose();
        let block = block.map_err(|_| format!("{what} has 32 bits"))?;
        Ok(Object::Tree(structure, group, block.map(AgBlock::new)))
    }

    fn last_number(&mut self, what: &str) -> Result<Option<u64>, String> {
        self.rest.next().map(|word| parse_number(word, what)).transpose()
    }

    fn fork(&mut self, fork: Fork) -> Result<Object, String> {
        let target = Target::parse(self.next("a path or an inode number")?);
        let blocks: Result<Vec<FileBlock>, String> = self
            .rest
            .by_ref()
            .map(|word| parse_number(word, "a block number in the file").map(FileBlock::new))
            .collect();
        Ok(Object::Fork(fork, target, blocks?))
    }
}

fn parse_number(word: &OsString, what: &str) -> Result<u64, String> {
    let text = word.to_string_lossy();
    text::parse_number(&text).ok_or_else(|| format!("`{text}` is not {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> Result<Object, String> {
        Object::parse(&words.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn objects_are_understood() {
        let group = AgNumber::new(1);
        assert_eq!(parse("log"), Ok(Object::Log(ListingRange::Active)));
        assert_eq!(parse("log all"), Ok(Object::Log(ListingRange::Everything)));
        assert_eq!(parse("agf 1"), Ok(Object::Header(Structure::FreeSpaceHeader, group)));
        assert_eq!(parse("inode 0x80"), Ok(Object::Inode(Target::Inode(InodeNumber::new(128)))));
        let tree = Object::Tree(Structure::ReverseMap, group, Some(AgBlock::new(7)));
        assert_eq!(parse("btree rmap 1 7"), Ok(tree));
        assert_eq!(parse("btree bmap 131"), Ok(Object::ExtentMap(InodeNumber::new(131), None)));
        let blocks = vec![FileBlock::new(0), FileBlock::new(8_388_608)];
        let directory = Object::Fork(Fork::Data, Target::Path(b"/a b".to_vec()), blocks);
        let words = ["dir", "/a b", "0", "8388608"].map(OsString::from);
        assert_eq!(Object::parse(&words), Ok(directory));
    }

    #[test]
    fn nonsense_is_refused_with_the_reason() {
        for words in
            ["", "agf", "agf x", "agf 1 2", "agf 4294967296", "btree abc 1", "what 1", "dir / x", "log 1"]
        {
            assert!(parse(words).is_err(), "{words}");
        }
    }
}
