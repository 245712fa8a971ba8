//! One test of an expression.

use std::ops::ControlFlow;

use regex::bytes::Regex;
use uxfs_format::attribute::posix_acl::{ACCESS_NAME, DEFAULT_NAME};
use uxfs_volume::{
    attribute::xattr::XattrView,
    error::Result,
    inode::{FileType, Inode, Timestamp},
};

use super::{
    Outline,
    lookup::Names,
    number::{AgeTest, Comparison, SizeTest, nanoseconds_of},
};
use crate::{glob::pattern::Pattern, search::subject::Subject};

/// Cost of a test that looks only at what the directory's entry says.
pub const BY_ENTRY: u8 = 0;
/// Cost of a test that reads the inode.
const BY_INODE: u8 = 1;
/// Cost of a test that reads more.
const BY_CONTENTS: u8 = 2;

/// A test.
#[derive(Debug)]
pub enum Test {
    /// Always this.
    Constant(bool),
    /// The last name.
    Name(Pattern),
    /// The whole path.
    Path(Pattern),
    /// The whole path, by a regular expression.
    Regex(Regex),
    /// One of these types.
    Type(Vec<FileType>),
    /// The inode's number.
    Inode(Comparison<u64>),
    /// The size.
    Size(SizeTest),
    /// An empty file, or a directory without entries.
    Empty,
    /// The owner.
    User(Comparison<u64>),
    /// The group.
    Group(Comparison<u64>),
    /// An owner that the image has no name for.
    NoUser(Names),
    /// A group that the image has no name for.
    NoGroup(Names),
    /// The permissions.
    Permissions(PermissionTest),
    /// How long ago.
    Age(Time, AgeTest),
    /// Later than a moment.
    Newer(Time, Timestamp),
    /// The number of names.
    Links(Comparison<u64>),
    /// The target of a symbolic link.
    Target(Pattern),
    /// The name of an extended attribute.
    Attribute(Pattern),
    /// An access control list.
    AccessControlList,
}

/// One of the times of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Time {
    /// Last access.
    Access,
    /// Birth.
    Birth,
    /// Last change of anything.
    Change,
    /// Last change of contents.
    Modification,
}

impl Time {
    /// By its letter.
    pub fn of_letter(letter: u8) -> Option<Self> {
        Some(match letter {
            b'a' => Self::Access,
            b'B' => Self::Birth,
            b'c' => Self::Change,
            b'm' => Self::Modification,
            _ => return None,
        })
    }

    /// The time of an inode.
    pub fn of(self, inode: &Inode) -> Timestamp {
        match self {
            Self::Access => inode.access_time(),
            Self::Birth => inode.creation_time(),
            Self::Change => inode.change_time(),
            Self::Modification => inode.modification_time(),
        }
    }
}

/// How permissions are to compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermissionMatch {
    /// These and no others.
    Exactly,
    /// All of these.
    All,
    /// Any of these, or none are asked for.
    Any,
}

/// Permissions to compare with. Those of directories differ where the mode has an `X`.
#[derive(Debug, Clone, Copy)]
pub struct PermissionTest {
    /// How.
    pub how: PermissionMatch,
    /// Of files.
    pub of_file: u16,
    /// Of directories.
    pub of_directory: u16,
}

impl PermissionTest {
    fn holds(self, inode: &Inode) -> bool {
        let is_directory = inode.file_type() == Some(FileType::Directory);
        let wanted = if is_directory { self.of_directory } else { self.of_file };
        let permissions = inode.permissions();
        match self.how {
            PermissionMatch::Exactly => permissions == wanted,
            PermissionMatch::All => permissions & wanted == wanted,
            PermissionMatch::Any => wanted == 0 || permissions & wanted != 0,
        }
    }
}

impl Test {
    /// What it takes.
    pub fn cost(&self) -> u8 {
        match self {
            Self::Constant(_)
            | Self::Name(_)
            | Self::Path(_)
            | Self::Regex(_)
            | Self::Type(_)
            | Self::Inode(_) => BY_ENTRY,
            Self::Empty | Self::Target(_) | Self::Attribute(_) | Self::AccessControlList => BY_CONTENTS,
            _ => BY_INODE,
        }
    }

    /// Its result where the inode is not needed.
    pub fn outlook(&self, outline: &Outline<'_>) -> Option<bool> {
        match self {
            Self::Constant(result) => Some(*result),
            Self::Name(pattern) => Some(pattern.fits(outline.name)),
            Self::Path(pattern) => Some(pattern.fits(outline.path)),
            Self::Regex(regex) => Some(regex.is_match(outline.path)),
            Self::Type(types) => outline.file_type.map(|file_type| types.contains(&file_type)),
            Self::Target(_) if outline.file_type.is_some_and(|known| known != FileType::SymbolicLink) => {
                Some(false)
            }
            Self::Empty if outline.file_type.is_some_and(|known| !may_be_empty(known)) => Some(false),
            _ => None,
        }
    }

    /// Whether it holds for a file.
    ///
    /// # Errors
    /// Damage; the device.
    pub fn holds(&self, subject: &Subject<'_>) -> Result<bool> {
        Ok(match self {
            Self::Constant(result) => *result,
            Self::Name(pattern) => pattern.fits(subject.name()),
            Self::Path(pattern) => pattern.fits(subject.path),
            Self::Regex(regex) => regex.is_match(subject.path),
            Self::Type(types) => subject.file_type()?.is_some_and(|file_type| types.contains(&file_type)),
            Self::Inode(comparison) => comparison.holds(subject.number.get()),
            Self::Target(pattern) => subject.target()?.is_some_and(|target| pattern.fits(&target)),
            Self::Empty => is_empty(subject)?,
            Self::Attribute(pattern) => has_attribute(subject, pattern)?,
            Self::AccessControlList => has_list(subject)?,
            _ => self.holds_for_inode(subject.inode()?),
        })
    }

    fn holds_for_inode(&self, inode: &Inode) -> bool {
        match self {
            Self::Size(size) => size.holds(inode.size_bytes()),
            Self::User(comparison) => comparison.holds(inode.uid().into()),
            Self::Group(comparison) => comparison.holds(inode.gid().into()),
            Self::NoUser(names) => names.user(inode.uid()).is_none(),
            Self::NoGroup(names) => names.group(inode.gid()).is_none(),
            Self::Permissions(test) => test.holds(inode),
            Self::Age(time, age) => age.holds(time.of(inode)),
            Self::Newer(time, than) => nanoseconds_of(time.of(inode)) > nanoseconds_of(*than),
            Self::Links(comparison) => comparison.holds(inode.link_count().into()),
            _ => false,
        }
    }
}

fn may_be_empty(file_type: FileType) -> bool {
    matches!(file_type, FileType::Regular | FileType::Directory)
}

fn is_empty(subject: &Subject<'_>) -> Result<bool> {
    match subject.file_type()? {
        Some(FileType::Regular) => Ok(subject.inode()?.size_bytes() == 0),
        Some(FileType::Directory) => {
            let inode = subject.inode()?;
            let mut entries = subject.volume.open_directory(inode, 0)?;
            while let Some(entry) = entries.next_entry()? {
                if !matches!(entry.name, b"." | b"..") {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        _ => Ok(false),
    }
}

fn has_attribute(subject: &Subject<'_>, pattern: &Pattern) -> Result<bool> {
    let inode = subject.inode()?;
    if !inode.may_have_attributes() {
        return Ok(false);
    }
    let mut is_found = false;
    let mut compare = |name: &[u8]| {
        is_found |= pattern.fits(name);
        if is_found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    subject.volume.attributes(inode)?.visit_xattr_names(XattrView::Root, &mut compare)?;
    Ok(is_found)
}

fn has_list(subject: &Subject<'_>) -> Result<bool> {
    let inode = subject.inode()?;
    if !inode.may_have_attributes() {
        return Ok(false);
    }
    let attributes = subject.volume.attributes(inode)?;
    Ok(attributes.acl(ACCESS_NAME)?.is_some() || attributes.acl(DEFAULT_NAME)?.is_some())
}
