//! Access control lists that come with a new file, and that follow a change of its mode.

use uxfs_format::{
    attribute::{
        posix_acl::{ACCESS_NAME, DEFAULT_NAME, PosixAcl},
        posix_acl_mode::PERMISSION_BITS,
    },
    inode::FileType,
};
use zerocopy::big_endian::U16;

use crate::attribute::editor::AttributeEditor;
use crate::engine::Engine;
use crate::inode::edit::EditInode;
use uxfs_volume::{attribute::Namespace, error::Result};

/// Permissions and access control lists of a new file, from its directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewFileAcls {
    /// The wanted mode, less what the directory's list or else the umask takes.
    pub mode: u16,
    /// The file's own list, where its permissions do not say all.
    pub access: Option<PosixAcl>,
    /// The list that a new directory gives on.
    pub default: Option<PosixAcl>,
}

impl NewFileAcls {
    /// Where the directory says nothing.
    pub fn by_umask(mode: u16, umask: u16) -> Self {
        Self { mode: mode & !(umask & PERMISSION_BITS), access: None, default: None }
    }

    /// By the default list of the directory, which overrides the umask.
    pub fn by_list(list: PosixAcl, file_type: FileType, mode: u16) -> Self {
        let (mode, access) = list.for_new_file(mode);
        Self { mode, access, default: Some(list).filter(|_| file_type == FileType::Directory) }
    }

    /// Bytes of the values that [`AttributeEditor::set_new_file_acls`] will store.
    pub fn value_bytes(&self) -> u32 {
        let lists = [&self.access, &self.default];
        let bytes = lists.iter().filter_map(|list| list.as_ref()).map(|list| list.encode().len());
        u32::try_from(bytes.sum::<usize>()).unwrap_or(u32::MAX)
    }
}

impl Engine {
    /// Bytes of the access list of an inode that the caller has locked; `None` where it has none.
    pub fn access_acl_bytes(&self, inode: &EditInode) -> Result<Option<u32>> {
        let value = self.attributes(inode)?.get(Namespace::Trusted, ACCESS_NAME)?;
        Ok(value.map(|value| u32::try_from(value.len()).unwrap_or(u32::MAX)))
    }

    /// Permissions and lists of a new file of this kind in `directory`, which the caller has locked, if it is created with
    /// `mode` under `umask`. Symbolic links have no lists and ignore the umask.
    ///
    /// # Errors
    /// Damage; the device.
    #[doc(alias = "posix_acl_create")]
    pub fn new_file_acls(
        &self,
        directory: &EditInode,
        file_type: FileType,
        mode: u16,
        umask: u16,
    ) -> Result<NewFileAcls> {
        if file_type == FileType::SymbolicLink {
            return Ok(NewFileAcls { mode, ..NewFileAcls::default() });
        }
        Ok(match self.attributes(directory)?.default_acl()? {
            Some(list) => NewFileAcls::by_list(list, file_type, mode),
            None => NewFileAcls::by_umask(mode, umask),
        })
    }
}

impl AttributeEditor<'_, '_> {
    /// Gives a new file its lists; its mode has been set. The inode is not stored.
    ///
    /// # Errors
    /// No space; damage; the device.
    pub fn set_new_file_acls(&mut self, inode: &mut EditInode, acls: &NewFileAcls) -> Result<()> {
        if acls.access.is_some() {
            self.store_acl(inode, ACCESS_NAME, acls.access.as_ref())?;
        }
        if acls.default.is_some() {
            self.store_acl(inode, DEFAULT_NAME, acls.default.as_ref())?;
        }
        Ok(())
    }

    /// Sets the permissions of a file with set-id bits and the sticky bit, and lets its access list follow. The inode is
    /// not stored, its times are the caller's.
    ///
    /// # Errors
    /// Damage; the device. A list takes as much room afterwards as before.
    #[doc(alias = "posix_acl_chmod")]
    pub fn set_permissions(&mut self, inode: &mut EditInode, permissions: u16) -> Result<()> {
        if inode.file_type() != Some(FileType::SymbolicLink)
            && let Some(list) = self.transaction.engine().attributes(&*inode)?.access_acl()?
        {
            let list = list.with_mode(permissions);
            let (_, says_all) = list.mode_bits();
            self.store_acl(inode, ACCESS_NAME, Some(&list).filter(|_| !says_all))?;
        }
        inode.core.mode = U16::new(inode.core.mode.get() & !0o7777 | permissions & 0o7777);
        Ok(())
    }
}
