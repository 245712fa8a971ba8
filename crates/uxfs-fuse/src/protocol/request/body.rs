//! Reads structures, names and data of a request one after the other.

use zerocopy::FromBytes;

use super::fault::RequestFault;

/// Bytes that the header counts extensions in.
const EXTENSION_UNIT_BYTES: usize = 8;

/// What follows the header of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Body<'a> {
    /// A buffer of its own for the first structure, until that is read.
    structure: Option<&'a [u8]>,
    /// Bytes that have not been read yet, without the extensions.
    rest: &'a [u8],
    /// The extensions.
    extensions: &'a [u8],
}

impl<'a> Body<'a> {
    /// Cuts the extensions off the end of `rest`.
    pub(super) fn new(
        structure: Option<&'a [u8]>,
        rest: &'a [u8],
        extension_units: u16,
    ) -> Result<Self, RequestFault> {
        let announced_bytes = usize::from(extension_units) * EXTENSION_UNIT_BYTES;
        let split = rest.len().checked_sub(announced_bytes).and_then(|start| rest.split_at_checked(start));
        let (rest, extensions) =
            split.ok_or(RequestFault::ExtensionsTruncated { announced_bytes, found_bytes: rest.len() })?;
        Ok(Self { structure, rest, extensions })
    }

    /// The first structure.
    pub(super) fn structure<T: FromBytes>(&mut self) -> Result<T, RequestFault> {
        match self.structure.take() {
            Some(buffer) => read_prefix(buffer).map(|(value, _)| value),
            None => self.structure_of_rest(),
        }
    }

    /// A structure that is never in a buffer of its own.
    pub(super) fn structure_of_rest<T: FromBytes>(&mut self) -> Result<T, RequestFault> {
        let (value, rest) = read_prefix(self.rest)?;
        self.rest = rest;
        Ok(value)
    }

    /// The structure, after which the request ends.
    pub(super) fn only_structure<T: FromBytes>(mut self) -> Result<T, RequestFault> {
        let value = self.structure()?;
        self.end()?;
        Ok(value)
    }

    /// Bytes up to a NUL, at least one.
    pub(super) fn text(&mut self) -> Result<&'a [u8], RequestFault> {
        let (text, rest) = split_at_nul(self.rest)?;
        self.rest = rest;
        Ok(text)
    }

    /// The name of a directory entry.
    pub(super) fn name(&mut self) -> Result<&'a [u8], RequestFault> {
        let name = self.text()?;
        if name.contains(&b'/') { Err(RequestFault::NameWithSlash) } else { Ok(name) }
    }

    /// The name, after which the request ends.
    pub(super) fn only_name(mut self) -> Result<&'a [u8], RequestFault> {
        let name = self.name()?;
        self.end()?;
        Ok(name)
    }

    /// All that is left, which must be so many bytes.
    pub(super) fn data(self, announced_bytes: u32) -> Result<&'a [u8], RequestFault> {
        self.no_extensions()?;
        if usize::try_from(announced_bytes) != Ok(self.rest.len()) {
            let announced_bytes = announced_bytes.into();
            return Err(RequestFault::DataSize { announced_bytes, found_bytes: self.rest.len() });
        }
        Ok(self.rest)
    }

    /// All that is left.
    pub(super) fn remainder(self) -> Result<&'a [u8], RequestFault> {
        self.no_extensions()?;
        Ok(self.rest)
    }

    /// All that is left, whatever extensions follow.
    pub(super) fn before_extensions(self) -> &'a [u8] {
        self.rest
    }

    /// The request ends here.
    pub(super) fn end(self) -> Result<(), RequestFault> {
        self.no_extensions()?;
        self.no_rest()
    }

    /// Only extensions follow.
    pub(super) fn extensions(self) -> Result<&'a [u8], RequestFault> {
        self.no_rest()?;
        Ok(self.extensions)
    }

    fn no_rest(&self) -> Result<(), RequestFault> {
        match self.rest.len() {
            0 => Ok(()),
            found_bytes => Err(RequestFault::TrailingBytes { found_bytes }),
        }
    }

    fn no_extensions(&self) -> Result<(), RequestFault> {
        match self.extensions.len() {
            0 => Ok(()),
            found_bytes => Err(RequestFault::UnexpectedExtensions { found_bytes }),
        }
    }
}

/// A structure at the start of `bytes`, and what follows it.
pub(super) fn read_prefix<T: FromBytes>(bytes: &[u8]) -> Result<(T, &[u8]), RequestFault> {
    T::read_from_prefix(bytes).map_err(|_| RequestFault::StructureTruncated {
        needed_bytes: size_of::<T>(),
        found_bytes: bytes.len(),
    })
}

/// A text at the start of `bytes`, without the NUL behind it, and what follows that.
pub(super) fn split_at_nul(bytes: &[u8]) -> Result<(&[u8], &[u8]), RequestFault> {
    let unterminated = RequestFault::NameUnterminated { found_bytes: bytes.len() };
    let end = bytes.iter().position(|byte| *byte == 0).ok_or(unterminated)?;
    let (text, rest) = bytes.split_at_checked(end).ok_or(unterminated)?;
    if text.is_empty() {
        return Err(RequestFault::NameEmpty);
    }
    Ok((text, rest.get(1..).unwrap_or_default()))
}
