//! tar archives, packed or not, from files and pipes.
//!
//! | what | from |
//! |---|---|
//! | dialects | before POSIX, POSIX, pax, GNU, star |
//! | long names and targets | pax records; GNU `L` and `K` |
//! | times | pax records, in nanoseconds; GNU and star headers |
//! | owners | numbers only: the names are those of another machine, and the file system that is made keeps numbers |
//! | numbers that do not fit | pax records; binary fields |
//! | extended attributes | `SCHILY.xattr.*`, `LIBARCHIVE.xattr.*` (which holds where both name one attribute), `RHT.security.selinux` |
//! | ACLs | `SCHILY.acl.access`, `SCHILY.acl.default`; a name without a number is looked for among the owners of the archive's members, then on the host or where the caller says |
//! | holes | old GNU, GNU 0.0, 0.1 and 1.0 |
//! | packed with | gzip, zstd, xz |
//! | layers | whiteouts of OCI images, where asked for |
//!
//! A thread unpacks and parses, ahead within bounds. Content of an archive that is a plain file stays there: it is read, by
//! any thread, when it is wanted. Whatever an archive holds can only produce an error; one that ends without its two zero
//! blocks is complete all the same, as others see it, if it ends between members. A packed archive is read to the end of the
//! packed stream, where checksums are: its last item is followed by an error if one is wrong. Of other data behind the end of
//! an archive a problem tells.
//!
//! | module | holds |
//! |---|---|
//! | [`header`] | the 512-byte header |
//! | [`pax`] | extended headers |
//! | [`sparse`] | maps of holes |
//! | [`acl`] | access control lists from text |
//! | [`input`] | bytes in order |
//! | [`parser`] | members |
//! | [`source`] | the thread, and what it gives |

mod acl;
mod header;
mod input;
mod parser;
pub(crate) mod pax;
mod source;
mod sparse;

pub use source::TarSource;

pub(crate) use self::header::BLOCK_BYTES;
use self::header::Header;
use crate::host_names::HostNames;

/// Whether an archive begins with these bytes: with a header whose sum is right, or with the zeros of one without files.
pub(crate) fn begins_archive(bytes: &[u8]) -> bool {
    let Some(block) = bytes.first_chunk::<BLOCK_BYTES>() else { return false };
    Header(block).verify().is_ok() || block.iter().all(|byte| *byte == 0)
}

/// How an archive is read.
#[derive(Debug, Clone)]
pub struct TarOptions {
    /// Files up to this size come with their content.
    pub inline_limit_bytes: u64,
    /// Whether names that begin with `.wh.` say what is gone: in layers of container images.
    pub whiteouts: bool,
    /// Whether blocks of zeros end no archive: archives that were joined are read one after the other.
    pub ignores_zeros: bool,
    /// Users and groups that access control lists may name.
    pub names: HostNames,
}

impl Default for TarOptions {
    fn default() -> Self {
        Self {
            inline_limit_bytes: 64 << 10,
            whiteouts: false,
            ignores_zeros: false,
            names: HostNames::default(),
        }
    }
}
