//! Extended attributes and access control lists.

use rustix::io::Errno;
use uxfs_engine::attribute::SetMode;
use uxfs_filesystem::operations::xattr::{AclKind, LIST_MAX_BYTES};
use uxfs_format::attribute::{flags::Namespace, posix_acl::PosixAcl};
use uxfs_volume::attribute::xattr::{ACL_ACCESS, ACL_DEFAULT, XattrView};

use super::{Answered, Server, number, put};
use crate::{
    protocol::{
        flags::{SetExtendedAttributeFlags, SetExtendedAttributeMode},
        request::{
            Request,
            operation::{GetExtendedAttribute, SetExtendedAttribute},
        },
        wire::extended_attributes::ExtendedAttributeSizeOut,
    },
    transport::ReplyBuffer,
};

/// Linux looks for no longer name.
const NAME_BYTES_MAX: usize = 255;

impl Server {
    pub(super) fn get_extended_attribute(
        &self,
        node: u64,
        get: &GetExtendedAttribute<'_>,
        reply: &mut ReplyBuffer<'_>,
    ) -> Answered {
        if names_an_attribute(get.name) && self.nodes.is_bare(node) {
            return Err(Errno::NODATA);
        }
        let inode = self.open_node(node)?;
        let value = self.file_system.get_xattr(&inode, get.name).map_err(number)?;
        put_bytes(&value, get.size_bytes, reply)
    }

    pub(super) fn list_extended_attributes(
        &self,
        request: &Request<'_>,
        room_bytes: u32,
        reply: &mut ReplyBuffer<'_>,
    ) -> Answered {
        if self.nodes.is_bare(request.node_id) {
            return put_bytes(&[], room_bytes, reply);
        }
        let inode = self.open_node(request.node_id)?;
        // What the caller may do beyond its user is not known here.
        let view = if request.caller.user_id == 0 { XattrView::Root } else { XattrView::Unprivileged };
        let names = self.file_system.list_xattrs(&inode, view, LIST_MAX_BYTES).map_err(number)?;
        let mut list = Vec::new();
        for name in names {
            list.extend_from_slice(&name);
            list.push(0);
        }
        put_bytes(&list, room_bytes, reply)
    }

    pub(super) fn set_extended_attribute(&self, node: u64, set: &SetExtendedAttribute<'_>) -> Answered {
        self.nodes.change_attributes(node, || self.set_attribute(node, set))
    }

    fn set_attribute(&self, node: u64, set: &SetExtendedAttribute<'_>) -> Answered {
        use SetExtendedAttributeMode as M;
        let inode = self.open_node(node)?;
        if set.flags.contains(SetExtendedAttributeFlags::KILL_SET_GROUP_ID) && set.name == ACL_ACCESS {
            let acl = PosixAcl::from_xattr(set.value).map_err(|_| Errno::INVAL)?;
            let acl = Some(&acl).filter(|acl| !acl.entries.is_empty());
            return self.file_system.set_acl(&inode, AclKind::Access, acl, false).map_err(number);
        }
        let mode = match (set.mode.contains(M::CREATE), set.mode.contains(M::REPLACE)) {
            (false, false) => SetMode::Upsert,
            (true, false) => SetMode::Create,
            (false, true) => SetMode::Replace,
            (true, true) => return Err(Errno::INVAL),
        };
        self.file_system.set_xattr(&inode, set.name, set.value, mode).map_err(number)
    }

    pub(super) fn remove_extended_attribute(&self, node: u64, name: &[u8]) -> Answered {
        let inode = self.open_node(node)?;
        self.file_system.remove_xattr(&inode, name).map_err(number)
    }
}

/// Whether an inode without attributes has no attribute of this name, rather than refusing the name.
fn names_an_attribute(name: &[u8]) -> bool {
    let is_in_namespace =
        [Namespace::Security, Namespace::Trusted, Namespace::User].iter().any(|namespace| {
            name.strip_prefix(namespace.prefix().as_bytes()).is_some_and(|rest| !rest.is_empty())
        });
    (is_in_namespace || matches!(name, ACL_ACCESS | ACL_DEFAULT)) && name.len() <= NAME_BYTES_MAX
}

/// Puts bytes into a reply, or their number where the caller asks for that.
fn put_bytes(bytes: &[u8], room_bytes: u32, reply: &mut ReplyBuffer<'_>) -> Answered {
    if room_bytes == 0 {
        let size_bytes = u32::try_from(bytes.len()).map_err(|_| Errno::TOOBIG)?;
        return put(reply, &ExtendedAttributeSizeOut::new(size_bytes));
    }
    if bytes.len() > room_bytes as usize {
        return Err(Errno::RANGE);
    }
    reply.push(bytes)
}
