//! Entries with what is shown of them, gathered before they are sorted and aligned.

use std::{ops::Range, sync::Arc};

use uxfs_format::attribute::posix_acl;
use uxfs_volume::{
    attribute::{Attribute, Namespace},
    error::{Error, OperationError},
    inode::{DeviceNumber, FileType, Inode, Timestamp},
    volume::Volume,
};

use crate::{
    commands::ls::arguments::{Settings, TimeWord},
    listing::Listed,
};

/// Rows that are sorted and aligned together.
pub const ROWS_MAX: usize = crate::listing::SORTED_ENTRIES_MAX;
/// Bytes of names, targets and contexts of rows that are sorted and aligned together.
pub const TEXT_BYTES_MAX: usize = 32 << 20;
/// Longest security context that is shown.
const CONTEXT_BYTES_MAX: usize = 4096;

/// The attribute of a security context, in its namespace.
const CONTEXT_NAME: &[u8] = b"selinux";

/// Rows, and all their text.
#[derive(Debug, Default)]
pub struct Rows {
    /// They, in order.
    pub list: Vec<Row>,
    text: Vec<u8>,
}

/// One entry.
#[derive(Debug)]
pub struct Row {
    name: Range<usize>,
    /// Its inode and type.
    pub listed: Listed,
    /// The fields of the inode; none where they are not shown, or could not be read.
    pub status: Option<Status>,
    /// They could not be read.
    pub is_unreadable: bool,
}

/// Which permissions there are beside the mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Beside {
    /// None.
    #[default]
    Nothing,
    /// A security context.
    Context,
    /// An access control list.
    List,
}

/// What a symbolic link leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Leads {
    /// It was not looked for, or it is no link.
    #[default]
    Unknown,
    /// Nothing.
    Nowhere,
    /// A file of this mode.
    To(u16),
}

/// The fields of an inode.
#[derive(Debug)]
pub struct Status {
    /// Type and permissions.
    pub mode: u16,
    /// Hard links.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size in bytes.
    pub size: u64,
    /// Allocated bytes.
    pub allocated: u64,
    /// Of devices.
    pub device: Option<DeviceNumber>,
    /// The time that is shown.
    pub time: Timestamp,
    /// Beside the mode.
    pub beside: Beside,
    target: Option<Range<usize>>,
    /// Where that leads.
    pub leads: Leads,
    context: Option<Range<usize>>,
}

/// Which parts of an entry are needed.
#[derive(Debug, Clone, Copy)]
pub struct Needs {
    /// The inode.
    pub status: bool,
    /// The target of a link.
    pub target: bool,
    /// What a link leads to.
    pub leads: bool,
    /// Access control lists.
    pub lists: bool,
    /// The text of security contexts.
    pub contexts: bool,
}

impl Row {
    /// Whether it is a directory, or a symbolic link that is known to lead to one.
    pub fn leads_to_directory(&self) -> bool {
        let leads = self.status.as_ref().map_or(Leads::Unknown, |status| status.leads);
        match leads {
            Leads::To(mode) => mode & 0o170_000 == 0o040_000,
            Leads::Unknown | Leads::Nowhere => self.listed.file_type == Some(FileType::Directory),
        }
    }
}

impl Rows {
    /// The name of a row.
    pub fn name(&self, row: &Row) -> &[u8] {
        self.text.get(row.name.clone()).unwrap_or_default()
    }

    /// The target of a symbolic link.
    pub fn target<'a>(&'a self, status: &Status) -> Option<&'a [u8]> {
        self.text.get(status.target.clone()?)
    }

    /// The security context; `?` where there is none.
    pub fn context(&self, row: &Row) -> &[u8] {
        let context = row.status.as_ref().and_then(|status| status.context.clone());
        context.and_then(|range| self.text.get(range)).unwrap_or(b"?")
    }

    /// Whether no more should be gathered before they are shown.
    pub fn is_full(&self) -> bool {
        self.list.len() >= ROWS_MAX || self.text.len() >= TEXT_BYTES_MAX
    }

    /// Takes all rows away.
    pub fn clear(&mut self) {
        self.list.clear();
        self.text.clear();
    }

    /// Adds an entry whose inode is not needed, or could not be read.
    pub fn push(&mut self, name: &[u8], listed: Listed, is_unreadable: bool) {
        let name = self.keep(name);
        self.list.push(Row { name, listed, status: None, is_unreadable });
    }

    fn keep(&mut self, bytes: &[u8]) -> Range<usize> {
        let begin = self.text.len();
        self.text.extend_from_slice(bytes);
        begin..self.text.len()
    }
}

/// Reads what is needed of entries.
#[derive(Debug)]
pub struct Reader<'a> {
    /// The image.
    pub volume: &'a Volume,
    /// The time that is shown.
    pub time: TimeWord,
    /// What is needed.
    pub needs: Needs,
}

impl<'a> Reader<'a> {
    /// For these settings.
    pub fn new(volume: &'a Volume, settings: &Settings, needs: Needs) -> Self {
        Self { volume, time: settings.time, needs }
    }

    /// Adds an entry with the fields of its inode. What cannot be read of it is complained of, and left out.
    pub fn push(
        &self,
        rows: &mut Rows,
        name: &[u8],
        directory: Option<&Arc<Inode>>,
        inode: &Inode,
        mut complain: impl FnMut(&Error),
    ) {
        let file_type = inode.file_type();
        let is_device = matches!(file_type, Some(FileType::CharacterDevice | FileType::BlockDevice));
        let mut status = Status {
            mode: inode.mode(),
            links: inode.link_count(),
            uid: inode.uid(),
            gid: inode.gid(),
            size: inode.size_bytes(),
            allocated: inode.blocks().saturating_mul(u64::from(self.volume.geometry().block_size_bytes)),
            device: is_device.then(|| inode.device_number()),
            time: match self.time {
                TimeWord::Modification => inode.modification_time(),
                TimeWord::Access => inode.access_time(),
                TimeWord::Change => inode.change_time(),
                TimeWord::Birth => inode.creation_time(),
            },
            beside: Beside::Nothing,
            target: None,
            leads: Leads::Unknown,
            context: None,
        };
        if self.needs.lists
            && inode.may_have_attributes()
            && let Err(error) = self.read_attributes(rows, inode, &mut status)
        {
            complain(&error);
        }
        if file_type == Some(FileType::SymbolicLink) && (self.needs.target || self.needs.leads) {
            match self.volume.read_symlink(inode) {
                Ok(target) => {
                    if self.needs.leads {
                        status.leads = self.leads(directory, &target, &mut complain);
                    }
                    status.target = Some(rows.keep(&target));
                }
                Err(error) => complain(&error),
            }
        }
        let name = rows.keep(name);
        let listed = Listed { inode: inode.number, file_type };
        rows.list.push(Row { name, listed, status: Some(status), is_unreadable: false });
    }

    fn leads(
        &self,
        directory: Option<&Arc<Inode>>,
        target: &[u8],
        complain: &mut impl FnMut(&Error),
    ) -> Leads {
        let found = match directory {
            Some(directory) => self.volume.resolve_from(directory, target, true),
            None => self.volume.resolve(target, true),
        };
        match found {
            Ok(inode) => Leads::To(inode.mode()),
            Err(Error::Operation(
                OperationError::NotFound
                | OperationError::NotADirectory
                | OperationError::TooManySymlinks
                | OperationError::NameTooLong,
            )) => Leads::Nowhere,
            Err(error) => {
                complain(&error);
                Leads::Nowhere
            }
        }
    }

    /// Looks for access control lists and the security context.
    fn read_attributes(&self, rows: &mut Rows, inode: &Inode, status: &mut Status) -> Result<(), Error> {
        let reader = self.volume.attributes(inode)?;
        if reader.has_several_blocks() {
            // There may be millions.
            for name in [posix_acl::ACCESS_NAME, posix_acl::DEFAULT_NAME] {
                if reader.get(Namespace::Trusted, name)?.is_some() {
                    status.beside = Beside::List;
                }
            }
            if let Some(value) = reader.get(Namespace::Security, CONTEXT_NAME)? {
                self.show_context(rows, status, &value);
            }
            return Ok(());
        }
        reader.visit(|attribute: &Attribute<'_>| {
            match (attribute.namespace, attribute.name) {
                (Namespace::Trusted, posix_acl::ACCESS_NAME | posix_acl::DEFAULT_NAME) => {
                    status.beside = Beside::List;
                }
                (Namespace::Security, CONTEXT_NAME) => {
                    self.show_context(rows, status, &reader.value(&attribute.value)?);
                }
                _ => {}
            }
            Ok(std::ops::ControlFlow::Continue(()))
        })
    }

    fn show_context(&self, rows: &mut Rows, status: &mut Status, value: &[u8]) {
        if status.beside == Beside::Nothing {
            status.beside = Beside::Context;
        }
        if self.needs.contexts {
            let text = value.strip_suffix(b"\0").unwrap_or(value);
            status.context = Some(rows.keep(text.get(..CONTEXT_BYTES_MAX).unwrap_or(text)));
        }
    }
}
