//! From entries to archive members.

use std::ops::Range;

use super::{
    acl,
    header::{BLOCK_BYTES, Header, ID_WIDTH, MAX_NAME_BYTES, SIZE_WIDTH, TypeFlag, octal_max},
    pax::{Decimal, Records},
};
use crate::{
    chunk::{Buffer, Chunk},
    entry::{ACL_ACCESS, ACL_DEFAULT, Attribute, Body, Device, Entry, Metadata, Special, last_component},
    layout::FileLayout,
    report::{Aspect, Problem, Severity},
    sink::Encoder,
};

/// Writes archive members into chunks.
#[derive(Debug, Default)]
pub struct TarEncoder {
    records: Records,
    /// Name of the entry as the archive has it.
    name: Vec<u8>,
    text: Vec<u8>,
}

/// Parts of a member that depend on its type.
struct Member<'a> {
    type_flag: TypeFlag,
    link_name: &'a [u8],
    device: Device,
    /// Bytes that follow the header: data, and before it the map of a file with holes.
    size_bytes: u64,
    /// Size of a file with holes.
    sparse_size_bytes: Option<u64>,
}

impl<'a> Member<'a> {
    fn new(type_flag: TypeFlag) -> Self {
        Self { type_flag, link_name: b"", device: Device::default(), size_bytes: 0, sparse_size_bytes: None }
    }

    fn link(type_flag: TypeFlag, link_name: &'a [u8]) -> Self {
        Self { link_name, ..Self::new(type_flag) }
    }

    fn device(type_flag: TypeFlag, device: Device) -> Self {
        Self { device, ..Self::new(type_flag) }
    }
}

impl TarEncoder {
    /// A new one.
    pub fn new() -> Self {
        Self::default()
    }

    fn set_name(&mut self, path: &[u8], is_directory: bool) {
        self.name.clear();
        self.name.extend_from_slice(if path.is_empty() { b"." } else { path });
        if is_directory {
            self.name.push(b'/');
        }
    }

    fn put_member(&mut self, entry: &Entry<'_>, member: &Member<'_>, chunk: &mut Chunk<()>) {
        self.set_name(entry.path, member.type_flag == TypeFlag::Directory);
        self.records.clear();
        self.add_names(member);
        self.add_metadata(entry.metadata, member);
        self.add_attributes(entry, chunk);
        let records = self.records.as_bytes();
        let base = if entry.path.is_empty() { b"." } else { last_component(entry.path) };
        if !records.is_empty() {
            put_extended_header(base, records, entry.metadata, &mut chunk.bytes);
        }
        let modified = entry.metadata.modified.seconds;
        let header = Header {
            name: if member.sparse_size_bytes.is_some() {
                [b"GNUSparseFile.0/", base, b""]
            } else {
                [&self.name, b"", b""]
            },
            type_flag: member.type_flag,
            mode: entry.metadata.permissions,
            user: entry.metadata.user.into(),
            group: entry.metadata.group.into(),
            size_bytes: member.size_bytes,
            modified: u64::try_from(modified).unwrap_or(0),
            link_name: member.link_name,
            device: (member.device.major.into(), member.device.minor.into()),
        };
        put_header(&header, &mut chunk.bytes);
    }

    fn add_names(&mut self, member: &Member<'_>) {
        let long_name = self.name.len() > MAX_NAME_BYTES || member.sparse_size_bytes.is_some();
        let long_link = member.link_name.len() > MAX_NAME_BYTES;
        // Names in records are UTF-8 unless this says otherwise; names in the header are bytes.
        let is_binary = (long_name && std::str::from_utf8(&self.name).is_err())
            || (long_link && std::str::from_utf8(member.link_name).is_err());
        if is_binary {
            self.records.add("hdrcharset", b"BINARY");
        }
        if let Some(size_bytes) = member.sparse_size_bytes {
            self.records.add("GNU.sparse.major", b"1");
            self.records.add("GNU.sparse.minor", b"0");
            self.records.add("GNU.sparse.name", &self.name);
            self.records.add_number("GNU.sparse.realsize", size_bytes);
        } else if long_name {
            self.records.add("path", &self.name);
        }
        if long_link {
            self.records.add("linkpath", member.link_name);
        }
    }

    fn add_metadata(&mut self, metadata: &Metadata, member: &Member<'_>) {
        if u64::from(metadata.user) > octal_max(ID_WIDTH) {
            self.records.add_number("uid", metadata.user.into());
        }
        if u64::from(metadata.group) > octal_max(ID_WIDTH) {
            self.records.add_number("gid", metadata.group.into());
        }
        if member.size_bytes > octal_max(SIZE_WIDTH) {
            self.records.add_number("size", member.size_bytes);
        }
        let modified = metadata.modified;
        let fits_header =
            u64::try_from(modified.seconds).is_ok_and(|seconds| seconds <= octal_max(SIZE_WIDTH));
        if modified.nanoseconds != 0 || !fits_header {
            self.records.add_time("mtime", modified);
        }
        self.records.add_time("atime", metadata.accessed);
        self.records.add_time("ctime", metadata.changed);
    }

    fn add_attributes(&mut self, entry: &Entry<'_>, chunk: &mut Chunk<()>) {
        for attribute in entry.attributes {
            let keyword = match attribute.name.as_slice() {
                ACL_ACCESS => "SCHILY.acl.access",
                ACL_DEFAULT => "SCHILY.acl.default",
                _ => {
                    self.add_attribute(attribute);
                    continue;
                }
            };
            self.text.clear();
            if acl::append_text(&attribute.value, &mut self.text).is_some() {
                self.records.add(keyword, &self.text);
            } else {
                let reason = "not an access control list";
                chunk.problems.push(Problem::new(entry.path, Severity::NotRestored, Aspect::Acl, reason));
            }
        }
    }

    fn add_attribute(&mut self, attribute: &Attribute) {
        self.text.clear();
        for byte in &attribute.name {
            match byte {
                b'%' => self.text.extend_from_slice(b"%25"),
                b'=' => self.text.extend_from_slice(b"%3D"),
                _ => self.text.push(*byte),
            }
        }
        self.records.add_pieces(&[b"SCHILY.xattr.", &self.text], &attribute.value);
        if attribute.name == b"security.selinux" {
            let context = attribute.value.strip_suffix(b"\0").unwrap_or(&attribute.value);
            self.records.add("RHT.security.selinux", context);
        }
    }

    fn put_file(&mut self, entry: &Entry<'_>, layout: &FileLayout, chunk: &mut Chunk<()>) {
        let mut member = Member::new(TypeFlag::File);
        if layout.has_holes() {
            let map = sparse_map(layout);
            member.size_bytes = layout.data_bytes() + map.len() as u64;
            member.sparse_size_bytes = Some(layout.size_bytes());
            self.put_member(entry, &member, chunk);
            chunk.bytes.append(&map);
        } else {
            member.size_bytes = layout.size_bytes();
            self.put_member(entry, &member, chunk);
        }
        chunk.counts.files += 1;
    }

    fn put_special(&mut self, entry: &Entry<'_>, special: Special, chunk: &mut Chunk<()>) {
        let member = match special {
            Special::CharacterDevice(device) => Member::device(TypeFlag::CharacterDevice, device),
            Special::BlockDevice(device) => Member::device(TypeFlag::BlockDevice, device),
            Special::Fifo => Member::new(TypeFlag::Fifo),
            Special::Socket => {
                let reason = "archives cannot hold sockets";
                let problem = Problem::new(entry.path, Severity::LeftOut, Aspect::Socket, reason);
                return chunk.problems.push(problem);
            }
        };
        self.put_member(entry, &member, chunk);
        chunk.counts.specials += 1;
    }
}

impl Encoder for TarEncoder {
    type Record = ();

    fn entry(&mut self, entry: &Entry<'_>, chunk: &mut Chunk<()>) {
        match entry.body {
            Body::Directory => {
                self.put_member(entry, &Member::new(TypeFlag::Directory), chunk);
                chunk.counts.directories += 1;
            }
            Body::File(layout) => self.put_file(entry, layout, chunk),
            Body::Symlink(target) => {
                self.put_member(entry, &Member::link(TypeFlag::Symlink, target), chunk);
                chunk.counts.symlinks += 1;
            }
            Body::HardLink { target, .. } => {
                self.put_member(entry, &Member::link(TypeFlag::HardLink, target), chunk);
                chunk.counts.hard_links += 1;
            }
            Body::Special(special) => self.put_special(entry, special, chunk),
        }
    }

    fn data(&mut self, _: u64, span: Range<usize>, chunk: &mut Chunk<()>) {
        chunk.counts.data_bytes += span.len() as u64;
    }

    fn end_file(&mut self, data_bytes: u64, chunk: &mut Chunk<()>) {
        chunk.bytes.append_zeros(padding(data_bytes));
    }

    fn end_directory(&mut self, _: &mut Chunk<()>) {}
}

/// Zeros that complete the last block of `length_bytes`.
fn padding(length_bytes: u64) -> usize {
    let block = BLOCK_BYTES as u64;
    (length_bytes.next_multiple_of(block) - length_bytes) as usize
}

fn put_header(header: &Header<'_>, bytes: &mut Buffer) {
    let span = bytes.reserve(BLOCK_BYTES);
    header.write(bytes.span_mut(span));
}

fn put_extended_header(base: &[u8], records: &[u8], metadata: &Metadata, bytes: &mut Buffer) {
    let header = Header {
        name: [b"PaxHeaders/", base, b""],
        type_flag: TypeFlag::Extended,
        mode: 0o644,
        user: 0,
        group: 0,
        size_bytes: records.len() as u64,
        modified: u64::try_from(metadata.modified.seconds).unwrap_or(0),
        link_name: b"",
        device: (0, 0),
    };
    put_header(&header, bytes);
    bytes.append(records);
    bytes.append_zeros(padding(records.len() as u64));
}

/// The map of the GNU sparse format 1.0: count, then offset and length of each range, in decimal lines, padded to a block.
/// A last hole is an empty range at the end.
fn sparse_map(layout: &FileLayout) -> Vec<u8> {
    let size = layout.size_bytes();
    let ends_in_hole = layout.ranges().last().is_none_or(|last| last.end_bytes() != size);
    let count = layout.ranges().len() as u64 + u64::from(ends_in_hole);
    let mut map = Vec::with_capacity(BLOCK_BYTES);
    let mut line = |number: u64| {
        map.extend_from_slice(Decimal::new(number).as_bytes());
        map.push(b'\n');
    };
    line(count);
    for range in layout.ranges() {
        line(range.offset_bytes);
        line(range.length_bytes);
    }
    if ends_in_hole {
        line(size);
        line(0);
    }
    map.resize(map.len().next_multiple_of(BLOCK_BYTES), 0);
    map
}

#[cfg(test)]
#[path = "encoder_tests.rs"]
mod tests;
