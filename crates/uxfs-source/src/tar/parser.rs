//! From the bytes of an archive to its members.

use std::ops::Range;

use super::{
    TarOptions,
    acl::{self, Owners, Parsed},
    header::{BLOCK_BYTES, Block, Dialect, Header, until_nul},
    input::Input,
    pax::Extensions,
    sparse::{self, Map},
};
use crate::{
    content::{ByteRange, Content, DataRange},
    entry::{ACL_ACCESS, ACL_DEFAULT, DeviceNumber, DirectoryId, Kind, Metadata, Times, Timestamp},
    error::{ArchiveFault, Problem, Reason, Shown, SourceError},
    path::{self, BadPath, Whiteout},
    stream::{StreamEntry, StreamItem},
    tree::Reading,
};

/// Most bytes of one extended header.
const MAX_EXTENDED_BYTES: u64 = 64 << 20;
/// Most bytes of a global one, which every member after it carries.
const MAX_GLOBAL_BYTES: u64 = 64 << 10;
/// Most bytes of a long name; most of them are refused later.
const MAX_LONG_NAME_BYTES: u64 = 64 << 10;
/// Longest target of a symbolic link.
const MAX_TARGET_BYTES: usize = 4095;

/// Reads one member after the other.
pub(super) struct Parser {
    input: Input,
    options: TarOptions,
    reading: Reading,
    global: Extensions,
    owners: Owners,
    directories: u64,
    /// Of the last member: data not yet read, and what follows it.
    data_bytes: u64,
    padding_bytes: u64,
    /// Whether that data is the content of the member, to be sent on.
    is_streamed: bool,
    pub(super) problems: Vec<Problem>,
}

/// Headers before a member.
struct Before {
    extensions: Extensions,
    long_name: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
}

impl Parser {
    pub(super) fn new(input: Input, options: TarOptions, reading: Reading) -> Self {
        let owners = Owners::with_host(options.names.clone());
        Self {
            input,
            options,
            reading,
            global: Extensions::default(),
            owners,
            directories: 0,
            data_bytes: 0,
            padding_bytes: 0,
            is_streamed: false,
            problems: Vec::new(),
        }
    }

    fn fault(&self, fault: ArchiveFault) -> SourceError {
        self.input.fault(fault)
    }

    /// The next member that means something, or `None` at the end. Where a packed archive makes no sense, its checksum tells
    /// whether that is damage.
    pub(super) fn next(&mut self) -> Result<Option<StreamItem>, SourceError> {
        let next = self.next_member();
        let Err(SourceError::Archive { fault, .. }) = &next else { return next };
        if self.input.is_packed() && !matches!(fault, ArchiveFault::Compression(_)) {
            self.input.rest()?;
        }
        next
    }

    fn next_member(&mut self) -> Result<Option<StreamItem>, SourceError> {
        loop {
            self.input.skip(self.data_bytes, "a file")?;
            self.skip_padding()?;
            self.data_bytes = 0;
            self.is_streamed = false;
            let mut before = Before { extensions: self.global.clone(), long_name: None, long_link: None };
            let Some(block) = self.read_before(&mut before)? else {
                self.end()?;
                return Ok(None);
            };
            if let Some(item) = self.member(&Header(&block), before)? {
                return Ok(Some(item));
            }
        }
    }

    /// Reads to the end of the input, which may hold more than the archive.
    fn end(&mut self) -> Result<(), SourceError> {
        let behind = self.input.rest()?;
        let behind = behind.map(|Range { start, end }| Reason::BehindArchive {
            start_bytes: start,
            length_bytes: end - start,
        });
        let packed = self.input.behind_packed();
        let packed =
            packed.map(|(start_bytes, length_bytes)| Reason::BehindPacked { start_bytes, length_bytes });
        let name = self.input.name().clone();
        self.problems
            .extend(behind.into_iter().chain(packed).map(|reason| Problem { path: name.clone(), reason }));
        Ok(())
    }

    /// The archive's padding need not all be there at its end.
    fn skip_padding(&mut self) -> Result<(), SourceError> {
        match self.input.skip(std::mem::take(&mut self.padding_bytes), "padding") {
            Err(SourceError::Archive { fault: ArchiveFault::Truncated { .. }, .. }) => Ok(()),
            result => result,
        }
    }

    /// Reads what precedes a member, and its header.
    fn read_before(&mut self, before: &mut Before) -> Result<Option<Block>, SourceError> {
        let mut is_begun = false;
        loop {
            let block = match self.input.block()? {
                None if self.input.is_at_start() => return Err(self.fault(ArchiveFault::Empty)),
                Some(block) if block.iter().any(|byte| *byte != 0) => block,
                Some(_) if self.options.ignores_zeros && !is_begun => continue,
                // Two zero blocks, or just the end.
                _ if is_begun => return Err(self.fault(ArchiveFault::Truncated { within: "a member" })),
                _ => return Ok(None),
            };
            let header = Header(&block);
            header.verify().map_err(|fault| self.fault(fault))?;
            let size_bytes = header.size_bytes().map_err(|fault| self.fault(fault));
            match header.type_flag() {
                b'x' | b'X' => {
                    let records = self.contents(size_bytes?, "an extended header", MAX_EXTENDED_BYTES)?;
                    before.extensions.add(&records).map_err(|fault| self.fault(fault))?;
                }
                b'g' => {
                    let records = self.contents(size_bytes?, "a global header", MAX_GLOBAL_BYTES)?;
                    self.global.add(&records).map_err(|fault| self.fault(fault))?;
                    before.extensions.add(&records).map_err(|fault| self.fault(fault))?;
                    // Alone at the end it belongs to nothing.
                    continue;
                }
                b'L' => before.long_name = Some(self.long_name(size_bytes?)?),
                b'K' => before.long_link = Some(self.long_name(size_bytes?)?),
                // A volume's label.
                b'V' => {
                    let length = size_bytes?;
                    self.input.skip(length.next_multiple_of(BLOCK_BYTES as u64), "a volume header")?;
                    continue;
                }
                _ => return Ok(Some(block)),
            }
            is_begun = true;
        }
    }

    fn contents(&mut self, bytes: u64, what: &'static str, limit: u64) -> Result<Vec<u8>, SourceError> {
        if bytes > limit {
            return Err(self.fault(ArchiveFault::TooLarge { what, bytes, limit }));
        }
        let contents = self.input.bytes(bytes as usize, what)?;
        self.input.skip(padding(bytes), what)?;
        Ok(contents)
    }

    fn long_name(&mut self, bytes: u64) -> Result<Vec<u8>, SourceError> {
        let name = self.contents(bytes, "a long name", MAX_LONG_NAME_BYTES)?;
        Ok(until_nul(&name).to_vec())
    }

    /// Makes an item of a member. `None` where it is nothing that a file system could hold.
    fn member(&mut self, header: &Header<'_>, mut before: Before) -> Result<Option<StreamItem>, SourceError> {
        let extensions = &mut before.extensions;
        let sparse_name = extensions.sparse.name.take();
        let name = sparse_name.or(extensions.path.take()).or(before.long_name.take());
        let name = name.unwrap_or_else(|| header.name());
        let path = path::clean(&name).map_err(|bad| self.bad_path(bad, &name))?;
        let is_directory_name = name.ends_with(b"/");
        let kind = match header.type_flag() {
            0 | b'0' | b'7' if is_directory_name => b'5',
            0 | b'0' | b'7' if path.is_empty() => {
                return Err(self.fault(ArchiveFault::BadName(path_shown(&name))));
            }
            0 | b'7' => b'0',
            flag => flag,
        };
        let size_bytes = match extensions.size_bytes {
            Some(size_bytes) => size_bytes,
            None => header.size_bytes().map_err(|fault| self.fault(fault))?,
        };
        let has_data = match kind {
            b'0' | b'S' | b'D' => true,
            // Other writers leave a size there that nothing follows.
            b'1' => extensions.is_pax,
            _ => false,
        };
        (self.data_bytes, self.padding_bytes) =
            if has_data { (size_bytes, padding(size_bytes)) } else { (0, 0) };
        if self.options.whiteouts
            && let Some(item) = self.whiteout(&path)?
        {
            return Ok(item);
        }
        let metadata = self.metadata(header, extensions, &path)?;
        let link = extensions.link.take().or(before.long_link.take());
        let link = link.unwrap_or_else(|| header.link_name().to_vec());
        let kind = self.kind(kind, header, extensions, &path, &link)?;
        Ok(Some(StreamItem::Entry(StreamEntry { path, metadata, kind })))
    }

    fn bad_path(&self, bad: BadPath, path: &[u8]) -> SourceError {
        let path = path_shown(path);
        self.fault(match bad {
            BadPath::Escapes => ArchiveFault::PathEscapes(path),
            BadPath::TooLong => ArchiveFault::PathTooLong(path),
            BadPath::Nul => ArchiveFault::BadName(path),
        })
    }

    /// Recognises the names by which a layer says what is gone. `Some(None)` for those that say nothing.
    #[allow(clippy::option_option)]
    fn whiteout(&self, path: &[u8]) -> Result<Option<Option<StreamItem>>, SourceError> {
        Ok(match Whiteout::of(path) {
            None => None,
            Some(Whiteout::Path(path)) => Some(Some(StreamItem::Whiteout(path))),
            Some(Whiteout::Below(directory)) => Some(Some(StreamItem::Opaque(directory))),
            Some(Whiteout::Nothing) => Some(None),
            Some(Whiteout::Malformed) => return Err(self.fault(ArchiveFault::BadName(path_shown(path)))),
        })
    }

    fn metadata(
        &mut self,
        header: &Header<'_>,
        extensions: &mut Extensions,
        path: &[u8],
    ) -> Result<Metadata, SourceError> {
        let fault = |fault| self.input.fault(fault);
        let user = extensions.user.map_or_else(|| header.user().map_err(fault), Ok)?;
        let group = extensions.group.map_or_else(|| header.group().map_err(fault), Ok)?;
        let at = |seconds| Timestamp { seconds, nanoseconds: 0 };
        let modification = match extensions.modification {
            Some(time) => time,
            None => at(header.modification().map_err(fault)?),
        };
        let (access, change) = header.other_times().map_err(fault)?;
        let times = Times {
            access: extensions.access.or(access.map(at)).unwrap_or(modification),
            modification,
            change: extensions.change.or(change.map(at)).unwrap_or(modification),
            creation: extensions.creation,
        };
        let mut metadata = Metadata {
            mode: header.mode().map_err(fault)?,
            user,
            group,
            times,
            attributes: extensions.take_attributes(),
            link: None,
        };
        let user_name = extensions.user_name.as_deref().unwrap_or_else(|| header.user_name());
        let group_name = extensions.group_name.as_deref().unwrap_or_else(|| header.group_name());
        self.owners.learn((user_name, user), (group_name, group));
        self.add_acls(extensions, path, &mut metadata)?;
        metadata.follow_acl();
        Ok(metadata)
    }

    fn add_acls(
        &mut self,
        extensions: &mut Extensions,
        path: &[u8],
        metadata: &mut Metadata,
    ) -> Result<(), SourceError> {
        type Parse = fn(&[u8], &Owners) -> Parsed;
        let lists: [(_, _, Parse); 2] = [
            (ACL_ACCESS, extensions.acl_access.take(), acl::parse),
            (ACL_DEFAULT, extensions.acl_default.take(), acl::parse_default),
        ];
        for (name, text, parse) in lists {
            let Some(text) = text else { continue };
            match parse(&text, &self.owners) {
                Parsed::List(value) => metadata.set_attribute(name, &value),
                Parsed::Trivial => {}
                Parsed::UnknownName(who) => {
                    let who = Shown::from(who.as_slice());
                    let reason = format!("its access control list names {who}, whose number is not known");
                    self.problems.push(Problem::new(path, Reason::Lost(reason)));
                }
                Parsed::Malformed => {
                    let (path, text) = (path_shown(path), Shown::from(text.as_slice()));
                    return Err(self.fault(ArchiveFault::Acl { path, text }));
                }
            }
        }
        if extensions.has_nfs_acl {
            let reason = "its NFS access control list has no place in XFS".to_owned();
            self.problems.push(Problem::new(path, Reason::Lost(reason)));
        }
        Ok(())
    }

    fn kind(
        &mut self,
        kind: u8,
        header: &Header<'_>,
        extensions: &Extensions,
        path: &[u8],
        link: &[u8],
    ) -> Result<Kind, SourceError> {
        Ok(match kind {
            b'0' => self.regular(extensions, path)?,
            b'S' => self.gnu_sparse(header, path)?,
            b'1' => {
                let target = path::clean(link).map_err(|bad| self.bad_path(bad, link))?;
                if target.is_empty() || path.is_empty() {
                    return Err(self.fault(ArchiveFault::BadName(path_shown(path))));
                }
                Kind::HardLink { target }
            }
            b'2' if link.is_empty() || link.contains(&0) || link.len() > MAX_TARGET_BYTES => {
                return Err(self.fault(ArchiveFault::BadName(path_shown(link))));
            }
            b'2' => Kind::Symlink { target: link.into() },
            b'3' => Kind::CharacterDevice(self.device(header, extensions)?),
            b'4' => Kind::BlockDevice(self.device(header, extensions)?),
            b'5' | b'D' => {
                self.directories += 1;
                Kind::Directory(DirectoryId(self.directories))
            }
            b'6' => Kind::Fifo,
            b'M' => return Err(self.fault(ArchiveFault::MultiVolume)),
            flag => return Err(self.fault(ArchiveFault::UnknownType(flag))),
        })
    }

    fn device(&self, header: &Header<'_>, extensions: &Extensions) -> Result<DeviceNumber, SourceError> {
        if let (Some(major), Some(minor)) = (extensions.device_major, extensions.device_minor) {
            return Ok(DeviceNumber { major, minor });
        }
        let (major, minor) = header.device().map_err(|fault| self.fault(fault))?;
        Ok(DeviceNumber { major, minor })
    }

    fn regular(&mut self, extensions: &Extensions, path: &[u8]) -> Result<Kind, SourceError> {
        if let Some(map) = sparse::read_pax(&extensions.sparse, path, self.data_bytes, &mut self.input)? {
            self.data_bytes -= map.map_bytes;
            return self.sparse(map, path);
        }
        let size_bytes = self.data_bytes;
        self.input.expect(size_bytes, "a file")?;
        let is_small = size_bytes <= self.options.inline_limit_bytes && self.reading == Reading::Everything;
        let content = match size_bytes {
            0 => Content::Hole,
            _ if is_small => {
                self.data_bytes = 0;
                Content::Inline(self.input.bytes(size_bytes as usize, "a file")?.into())
            }
            _ => {
                self.content(path, size_bytes, vec![ByteRange { offset_bytes: 0, length_bytes: size_bytes }])
            }
        };
        Ok(Kind::Regular { size_bytes, content })
    }

    fn gnu_sparse(&mut self, header: &Header<'_>, path: &[u8]) -> Result<Kind, SourceError> {
        if header.dialect() != Dialect::Gnu {
            return Err(self.fault(ArchiveFault::UnknownType(b'S')));
        }
        if header.gnu_offset().map_err(|fault| self.fault(fault))? != 0 {
            return Err(self.fault(ArchiveFault::MultiVolume));
        }
        let map = sparse::read_gnu(header, &mut self.input)?;
        self.sparse(map, path)
    }

    fn sparse(&mut self, mut map: Map, path: &[u8]) -> Result<Kind, SourceError> {
        self.input.expect(self.data_bytes, "a file")?;
        map.verify(path, self.data_bytes).map_err(|fault| self.fault(fault))?;
        let content = self.content(path, map.size_bytes, map.ranges);
        Ok(Kind::Regular { size_bytes: map.size_bytes, content })
    }

    /// Content that is read later: from the archive, where it is a file, else next.
    fn content(&mut self, path: &[u8], size_bytes: u64, ranges: Vec<ByteRange>) -> Content {
        let Some(archive) = self.input.file() else {
            self.is_streamed = !ranges.is_empty();
            return if self.is_streamed { Content::Stream(ranges.into()) } else { Content::Hole };
        };
        let mut source_bytes = self.input.position();
        let ranges = ranges.iter().map(|range| {
            let ByteRange { offset_bytes, length_bytes } = *range;
            let placed = DataRange { offset_bytes, length_bytes, source_bytes };
            source_bytes += length_bytes;
            placed
        });
        Content::of_archive(archive, path_shown(path), size_bytes, ranges.collect())
    }

    /// Whether data of the last member is to be read now.
    pub(super) fn has_data(&self) -> bool {
        self.data_bytes > 0 && self.is_streamed
    }

    /// Reads on in the data of the last member, until the buffer is full or the data ends.
    pub(super) fn read_data(&mut self, buffer: &mut Vec<u8>, limit: usize) -> Result<(), SourceError> {
        let length = usize::try_from(self.data_bytes).unwrap_or(usize::MAX).min(limit);
        buffer.resize(length, 0);
        self.input.read_exact(buffer, "a file")?;
        self.data_bytes -= length as u64;
        Ok(())
    }
}

fn path_shown(path: &[u8]) -> Shown {
    Shown::from(path)
}

/// Bytes behind the last one up to a whole block.
fn padding(bytes: u64) -> u64 {
    let block = BLOCK_BYTES as u64;
    (block - bytes % block) % block
}
