//! Files that describe files, one on each line: mtree, and dumps of composefs.
//!
//! A manifest is either laid over another source, where it gives owners, modes, times and attributes that the caller cannot
//! set on the host ([`Overlay`]), or a source of its own, where it names everything ([`ManifestSource`]).
//!
//! | format | from |
//! |---|---|
//! | mtree | bsdtar, NetBSD's and FreeBSD's mtree, `go-mtree`: relative and full entries, the path first or (`mtree -D`) last, `/set`, `/unset`, vis(3) escapes; the keywords `type mode uid gid uname gname time link device size contents optional` and `xattr.NAME` with a value in base 64. The line `#mtree` need not be there. Names without numbers are looked up on the host, or where the caller says. Checksums and flags are not looked at. |
//! | composefs dump | `composefs-info dump`, `mkcomposefs --from-file`: all eleven fields and the attributes. As an overlay it says all attributes of what it names; a hard link's line says nothing there. |
//!
//! | module | holds |
//! |---|---|
//! | [`composefs`], [`mtree`] | from lines to descriptions |
//! | [`escapes`] | how they write bytes |
//! | [`overlay`] | descriptions laid over another source |
//! | [`described`] | descriptions by path, in memory and in temporary files |
//! | [`source`] | descriptions as a source |

mod composefs;
mod described;
mod escapes;
mod mtree;
mod overlay;
mod source;

use std::{io::Read, path::Path};

pub use overlay::{Applied, Overlay, Unmatched};
pub use source::ManifestSource;

use crate::{
    entry::{Attribute, DeviceNumber, Timestamp},
    error::{Shown, SourceError, TextFault},
    host_names::HostNames,
    lines::Lines,
    path::{self, BadPath},
};

/// File type that a line gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DescribedKind {
    /// A directory.
    Directory,
    /// A regular file.
    Regular,
    /// A symbolic link.
    Symlink,
    /// A character device.
    CharacterDevice,
    /// A block device.
    BlockDevice,
    /// A named pipe.
    Fifo,
    /// A socket's name.
    Socket,
    /// Another name of a file of the manifest.
    HardLink,
}

/// The description of one path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Description {
    pub(crate) path: Box<[u8]>,
    pub(crate) kind: Option<DescribedKind>,
    pub(crate) mode: Option<u16>,
    pub(crate) user: Option<u32>,
    pub(crate) group: Option<u32>,
    pub(crate) modification: Option<Timestamp>,
    pub(crate) attributes: Vec<Attribute>,
    /// Whether there are no other attributes.
    pub(crate) has_all_attributes: bool,
    pub(crate) size_bytes: Option<u64>,
    pub(crate) device: Option<DeviceNumber>,
    /// Target of a link, or path of the file that holds the content.
    pub(crate) payload: Option<Box<[u8]>>,
    pub(crate) inline: Option<Box<[u8]>>,
    pub(crate) is_optional: bool,
}

enum Format {
    Composefs,
    Mtree(mtree::State),
}

/// A manifest, line by line.
pub(crate) struct Reader {
    lines: Lines,
    format: Option<Format>,
    names: HostNames,
}

impl Reader {
    /// `names` are the users and groups that lines may name.
    pub(crate) fn open(path: &Path, names: HostNames) -> Result<Self, SourceError> {
        Ok(Self { lines: Lines::open(path)?, format: None, names })
    }

    pub(crate) fn new(name: Shown, reader: Box<dyn Read + Send>) -> Self {
        Self { lines: Lines::new(name, reader), format: None, names: HostNames::default() }
    }

    pub(crate) fn error(&self, fault: TextFault) -> SourceError {
        self.lines.error(fault)
    }

    pub(crate) fn name(&self) -> &Shown {
        self.lines.name()
    }

    /// The next description.
    pub(crate) fn next(&mut self) -> Result<Option<Description>, SourceError> {
        loop {
            let Some(line) = self.lines.next()? else { return Ok(None) };
            if line.trim_ascii().is_empty() {
                continue;
            }
            let format = self.format.get_or_insert_with(|| match composefs::looks_like(line) {
                true => Format::Composefs,
                false => Format::Mtree(mtree::State::default()),
            });
            let described = match format {
                Format::Composefs => composefs::parse(line).map(Some),
                Format::Mtree(state) => state.parse(line, &self.names),
            };
            if let Some(description) = described.map_err(|fault| self.lines.error(fault))? {
                return Ok(Some(description));
            }
        }
    }
}

/// Whether a text begins as a manifest does: with the signature of mtree, or, behind comments, with a line of either format.
pub(crate) fn looks_like(start: &[u8]) -> bool {
    if start.starts_with(b"#mtree") {
        return true;
    }
    let lines = start.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let mut lines = lines.filter(|line| !line.is_empty() && !line.starts_with(b"#"));
    // Archives have zeros in their first block.
    let first = lines.next().filter(|line| !line.contains(&0));
    first.is_some_and(|line| composefs::looks_like(line) || mtree::looks_like(line))
}

/// A path of a manifest, cleaned.
fn clean(path: &[u8]) -> Result<Box<[u8]>, TextFault> {
    path::clean(path).map_err(|bad| match bad {
        BadPath::Escapes | BadPath::TooLong | BadPath::Nul => TextFault::BadPath(Shown::from(path)),
    })
}

/// A device number as Linux packs it.
fn unpack_device(number: u64) -> DeviceNumber {
    let major = (number >> 8 & 0xfff) | (number >> 32 & !0xfff);
    let minor = (number & 0xff) | (number >> 12 & 0xffff_ff00);
    DeviceNumber { major: major as u32, minor: minor as u32 }
}
