//! A line of a composefs dump:
//! `PATH SIZE MODE NLINK UID GID RDEV MTIME PAYLOAD CONTENT DIGEST [XATTR=VALUE]…`

use super::{DescribedKind, Description, clean, escapes, unpack_device};
use crate::{
    entry::Attribute,
    error::TextFault,
    lines::{decimal, octal, time, unexpected},
};

/// Whether the line is of this format: eleven fields, the second and third of them numbers.
pub(super) fn looks_like(line: &[u8]) -> bool {
    let mut fields = line.split(|byte| *byte == b' ');
    let is_absolute = fields.next().is_some_and(|path| path.starts_with(b"/"));
    let is_number = |word: Option<&[u8]>| {
        word.is_some_and(|word| !word.is_empty() && word.iter().all(|byte| byte.is_ascii_digit()))
    };
    // That of the root is to be ignored.
    let size = fields.next().filter(|size| *size != b"-").or(Some(b"0"));
    let mode = fields.next().map(|mode| mode.strip_prefix(b"@").unwrap_or(mode));
    is_absolute && is_number(size) && is_number(mode) && fields.count() >= 8
}

pub(super) fn parse(line: &[u8]) -> Result<Description, TextFault> {
    let mut fields = line.split(|byte| *byte == b' ');
    let mut field = |name: &'static str| fields.next().ok_or(TextFault::Missing(name));
    let path = clean(&escapes::composefs(field("path")?)?)?;
    let (size, mode) = (field("size")?, field("mode")?);
    let (links, user, group) = (field("link count")?, field("uid")?, field("gid")?);
    let (device, modification) = (field("device")?, field("time")?);
    let (payload, content, _digest) = (field("payload")?, field("content")?, field("digest")?);
    if mode.starts_with(b"@") {
        // The file is described where its first name is: all but both names is to be ignored here.
        return Ok(Description {
            path,
            kind: Some(DescribedKind::HardLink),
            payload: optional(payload)?,
            has_all_attributes: true,
            ..Description::default()
        });
    }
    let mode: u32 = octal(mode, "mode")?;
    let _links: u64 = decimal(links, "link count")?;
    let (user, group) = (decimal(user, "uid")?, decimal(group, "gid")?);
    let device = unpack_device(decimal(device, "device")?);
    let modification = time(modification)?;
    let payload = optional(payload)?;
    let inline = optional(content)?;
    let kind = match mode & 0o170_000 {
        0o040_000 => DescribedKind::Directory,
        0o100_000 => DescribedKind::Regular,
        0o120_000 => DescribedKind::Symlink,
        0o020_000 => DescribedKind::CharacterDevice,
        0o060_000 => DescribedKind::BlockDevice,
        0o010_000 => DescribedKind::Fifo,
        0o140_000 => DescribedKind::Socket,
        _ => return Err(TextFault::Missing("file type in the mode")),
    };
    // That of a directory is to be ignored.
    let size_bytes = match kind {
        DescribedKind::Directory => None,
        _ => Some(decimal(size, "size")?),
    };
    Ok(Description {
        path,
        kind: Some(kind),
        mode: Some((mode & 0o7777) as u16),
        user: Some(user),
        group: Some(group),
        modification: Some(modification),
        attributes: attributes(fields)?,
        has_all_attributes: true,
        size_bytes,
        device: Some(device),
        payload,
        inline,
        is_optional: false,
    })
}

fn optional(word: &[u8]) -> Result<Option<Box<[u8]>>, TextFault> {
    match word {
        b"-" => Ok(None),
        word => escapes::composefs(word).map(|bytes| Some(bytes.into())),
    }
}

fn attributes<'a>(fields: impl Iterator<Item = &'a [u8]>) -> Result<Vec<Attribute>, TextFault> {
    let mut attributes = Vec::new();
    for field in fields.filter(|field| !field.is_empty()) {
        let equals = field.iter().position(|byte| *byte == b'=');
        let (name, value) = field.split_at(equals.ok_or_else(|| unexpected(field, "attribute"))?);
        let name = escapes::composefs(name)?;
        if name.is_empty() || name.contains(&0) {
            return Err(unexpected(field, "attribute"));
        }
        let value = escapes::composefs(value.get(1..).unwrap_or_default())?;
        attributes.push(Attribute { name: name.into(), value: value.into() });
    }
    attributes.sort();
    if attributes.windows(2).any(|pair| matches!(pair, [a, b] if a.name == b.name)) {
        return Err(TextFault::Unexpected {
            word: crate::error::Shown::from(b"an attribute given twice".as_slice()),
            expected: "single attribute",
        });
    }
    Ok(attributes)
}
