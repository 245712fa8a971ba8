//! Archives in the pax format, as GNU tar and bsdtar read them.
//!
//! | what | how |
//! |---|---|
//! | times in nanoseconds | `mtime`, `atime`, `ctime` records |
//! | owners | numbers only; `uid`, `gid` records where they do not fit the header. No names: the users of the image are not those of this machine |
//! | long names and link targets | `path`, `linkpath`; with `hdrcharset=BINARY` where they are not UTF-8 |
//! | extended attributes | `SCHILY.xattr.NAME`, with `%` and `=` in NAME escaped as GNU tar does; `security.selinux` also as `RHT.security.selinux` |
//! | ACLs | `SCHILY.acl.access`, `SCHILY.acl.default` as text with numeric ids |
//! | hard links | link members that name the first path |
//! | holes | the GNU sparse format 1.0 |
//! | sockets | left out and told |
//!
//! | module | holds |
//! |---|---|
//! | [`header`] | the 512-byte header |
//! | [`pax`] | extended header records |
//! | [`acl`] | access control lists as text |
//! | [`encoder`] | from an entry to bytes |
//! | [`stream`] | from bytes to a file or pipe |

pub mod acl;
pub mod encoder;
pub mod header;
pub mod pax;
pub mod stream;
