//! Extended headers: what a member has beyond its 512-byte header.

use std::collections::HashSet;

use crate::{
    entry::{Attribute, SELINUX_LABEL, Timestamp},
    error::ArchiveFault,
};

/// All that extended headers, global ones first, say of one member.
#[derive(Debug, Clone, Default)]
pub(super) struct Extensions {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) size_bytes: Option<u64>,
    pub(super) user: Option<u32>,
    pub(super) group: Option<u32>,
    pub(super) user_name: Option<Vec<u8>>,
    pub(super) group_name: Option<Vec<u8>>,
    pub(super) access: Option<Timestamp>,
    pub(super) modification: Option<Timestamp>,
    pub(super) change: Option<Timestamp>,
    pub(super) creation: Option<Timestamp>,
    pub(super) device_major: Option<u32>,
    pub(super) device_minor: Option<u32>,
    pub(super) acl_access: Option<Vec<u8>>,
    pub(super) acl_default: Option<Vec<u8>>,
    /// Whether there is a list of NFS, which has no place here.
    pub(super) has_nfs_acl: bool,
    attributes: Vec<AttributeRecord>,
    /// How many headers there were: a later one, a member's own last of all, says more than an earlier one.
    headers: u32,
    pub(super) sparse: SparseRecords,
    /// Whether there was any: then a hard link may have content.
    pub(super) is_pax: bool,
}

/// A record of an attribute.
#[derive(Debug, Clone)]
struct AttributeRecord {
    /// As written, but for what [`Form::Libarchive`] encodes.
    name: Box<[u8]>,
    value: Box<[u8]>,
    form: Form,
    /// Number of its header.
    header: u32,
}

/// The form of a record. Of one attribute in one header the last of these forms holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    /// `RHT.security.selinux`: a label alone.
    Selinux,
    /// `SCHILY.xattr.NAME`, as GNU tar and star write it. GNU tar escapes two letters in names, bsdtar and Go's archives none.
    Schily,
    /// `LIBARCHIVE.xattr.NAME`, as bsdtar writes it, mostly beside the one before: names and values are encoded without loss.
    Libarchive,
}

/// Holes, by extended headers.
#[derive(Debug, Clone, Default)]
pub(super) struct SparseRecords {
    pub(super) major: Option<u64>,
    pub(super) minor: Option<u64>,
    pub(super) name: Option<Vec<u8>>,
    /// Size of the file, under either of its two keywords.
    pub(super) real_size_bytes: Option<u64>,
    /// 0.0: offsets and lengths one by one, in turns.
    pub(super) numbers: Vec<u64>,
    /// 0.1: the same in one record.
    pub(super) map: Option<Vec<u64>>,
}

/// Most numbers in a map: two for each range.
pub(super) const MAX_MAP_NUMBERS: usize = 2 << 20;

impl Extensions {
    /// Adds the records of one extended header.
    pub(super) fn add(&mut self, mut records: &[u8]) -> Result<(), ArchiveFault> {
        self.is_pax = true;
        self.headers = self.headers.saturating_add(1);
        while !records.is_empty() {
            // Some pad the last block with zeros within the size.
            if records.iter().all(|byte| *byte == 0) {
                break;
            }
            let (key, value, rest) = split_record(records).ok_or(ArchiveFault::Record)?;
            self.add_record(key, value)?;
            records = rest;
        }
        Ok(())
    }

    fn add_record(&mut self, key: &[u8], value: &[u8]) -> Result<(), ArchiveFault> {
        // An empty value takes back what a global header said.
        let given = !value.is_empty();
        let text = || given.then(|| value.to_vec());
        let small = |field| decimal(value, field).and_then(|number| fits(number, field));
        let small = |field| given.then(|| small(field)).transpose();
        let large = |field| given.then(|| decimal(value, field)).transpose();
        let when = |field| given.then(|| time(value).ok_or(ArchiveFault::Number { field })).transpose();
        match key {
            b"path" => self.path = text(),
            b"linkpath" => self.link = text(),
            b"size" => self.size_bytes = large("size")?,
            b"uid" => self.user = small("uid")?,
            b"gid" => self.group = small("gid")?,
            b"uname" => self.user_name = text(),
            b"gname" => self.group_name = text(),
            b"atime" => self.access = when("atime")?,
            b"mtime" => self.modification = when("mtime")?,
            b"ctime" => self.change = when("ctime")?,
            b"LIBARCHIVE.creationtime" => self.creation = when("LIBARCHIVE.creationtime")?,
            b"SCHILY.devmajor" => self.device_major = small("SCHILY.devmajor")?,
            b"SCHILY.devminor" => self.device_minor = small("SCHILY.devminor")?,
            b"SCHILY.acl.access" => self.acl_access = text(),
            b"SCHILY.acl.default" => self.acl_default = text(),
            b"SCHILY.acl.ace" => self.has_nfs_acl = given,
            b"RHT.security.selinux" if given => self.put(Form::Selinux, SELINUX_LABEL.into(), value.into()),
            b"RHT.security.selinux" => self.attributes.retain(|record| record.form != Form::Selinux),
            b"GNU.volume.filename" | b"GNU.volume.offset" => return Err(ArchiveFault::MultiVolume),
            _ => {
                if let Some(name) = key.strip_prefix(b"SCHILY.xattr.") {
                    self.put(Form::Schily, name.into(), value.into());
                } else if let Some(name) = key.strip_prefix(b"LIBARCHIVE.xattr.") {
                    let name = percent(name, |_| true);
                    let value = base64(value).ok_or(ArchiveFault::Record)?;
                    self.put(Form::Libarchive, name.into(), value.into());
                } else if let Some(word) = key.strip_prefix(b"GNU.sparse.") {
                    self.sparse.add(word, value)?;
                }
                // Anything else is somebody's comment.
            }
        }
        Ok(())
    }

    fn put(&mut self, form: Form, name: Box<[u8]>, value: Box<[u8]>) {
        self.attributes.push(AttributeRecord { name, value, form, header: self.headers });
    }

    /// The extended attributes, ACLs apart, in order of their names.
    pub(super) fn take_attributes(&mut self) -> Vec<Attribute> {
        let mut records = std::mem::take(&mut self.attributes);
        drop_repeated(&mut records);
        for record in &mut records {
            match record.form {
                Form::Schily if record.name.contains(&b'%') => {
                    record.name = percent(&record.name, |byte| matches!(byte, b'%' | b'=')).into();
                }
                Form::Selinux if record.value.last() != Some(&0) => {
                    record.value = [&*record.value, b"\0"].concat().into();
                }
                _ => {}
            }
        }
        records.retain(|record| !record.name.is_empty() && !record.name.contains(&0));
        // The last of several of one name holds.
        records.reverse();
        records.sort_by(|a, b| a.name.cmp(&b.name).then((b.header, b.form).cmp(&(a.header, a.form))));
        records.dedup_by(|a, b| a.name == b.name);
        records.into_iter().map(|AttributeRecord { name, value, .. }| Attribute { name, value }).collect()
    }
}

/// Takes away those records of bsdtar that another one of the same header says without loss: their names are not escaped, so
/// that `%` in one may be misread, and an equals sign seems to end it.
fn drop_repeated(records: &mut Vec<AttributeRecord>) {
    let text = |record: &AttributeRecord| [&*record.name, b"=", &*record.value].concat();
    let exact = records.iter().filter(|record| record.form == Form::Libarchive);
    let odd: Vec<_> =
        exact.filter(|record| record.name.iter().any(|byte| matches!(byte, b'%' | b'='))).collect();
    if odd.is_empty() {
        return;
    }
    let names: HashSet<(u32, Box<[u8]>)> =
        odd.iter().map(|record| (record.header, record.name.clone())).collect();
    let texts: HashSet<(u32, Vec<u8>)> = odd.iter().map(|record| (record.header, text(record))).collect();
    records.retain(|record| {
        record.form != Form::Schily
            || !(names.contains(&(record.header, record.name.clone()))
                || texts.contains(&(record.header, text(record))))
    });
}

impl SparseRecords {
    fn add(&mut self, word: &[u8], value: &[u8]) -> Result<(), ArchiveFault> {
        let number = || decimal(value, "GNU.sparse");
        match word {
            b"major" => self.major = Some(number()?),
            b"minor" => self.minor = Some(number()?),
            b"name" => self.name = Some(value.to_vec()),
            b"size" | b"realsize" => self.real_size_bytes = Some(number()?),
            b"offset" | b"numbytes" => {
                // In turns, beginning with an offset.
                if self.numbers.len().is_multiple_of(2) != (word == b"offset") {
                    return Err(ArchiveFault::Record);
                }
                self.numbers.push(number()?);
                bounded_map(self.numbers.len())?;
            }
            b"map" => {
                let parts = value.split(|byte| *byte == b',');
                bounded_map(value.iter().filter(|byte| **byte == b',').count())?;
                let numbers: Result<Vec<u64>, _> = parts
                    .filter(|part| !part.is_empty())
                    .map(|part| decimal(part, "GNU.sparse.map"))
                    .collect();
                self.map = Some(numbers?);
            }
            // How many ranges follow: they say so themselves.
            _ => {}
        }
        Ok(())
    }
}

pub(super) fn bounded_map(numbers: usize) -> Result<(), ArchiveFault> {
    if numbers > MAX_MAP_NUMBERS {
        let (bytes, limit) = (numbers as u64, MAX_MAP_NUMBERS as u64);
        return Err(ArchiveFault::TooLarge { what: "a map of holes", bytes, limit });
    }
    Ok(())
}

/// Splits off the first record: `LENGTH KEY=VALUE\n`, the length counting itself.
fn split_record(records: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = records.iter().take(20).position(|byte| *byte == b' ')?;
    let length = decimal(records.get(..space)?, "record").ok()?;
    let (record, rest) = records.split_at_checked(usize::try_from(length).ok()?)?;
    let record = record.get(space + 1..)?.strip_suffix(b"\n")?;
    let equals = record.iter().position(|byte| *byte == b'=')?;
    Some((record.get(..equals)?, record.get(equals + 1..)?, rest))
}

/// Digits only.
pub(super) fn decimal(text: &[u8], field: &'static str) -> Result<u64, ArchiveFault> {
    let digit = |value: Option<u64>, digit: &u8| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        value?.checked_mul(10)?.checked_add(digit)
    };
    let value = if text.is_empty() { None } else { text.iter().fold(Some(0), digit) };
    value.filter(|value| i64::try_from(*value).is_ok()).ok_or(ArchiveFault::Number { field })
}

fn fits(number: u64, field: &'static str) -> Result<u32, ArchiveFault> {
    u32::try_from(number).map_err(|_| ArchiveFault::Number { field })
}

/// Seconds with a decimal fraction, perhaps negative. Digits beyond nanoseconds are cut.
pub(crate) fn time(text: &[u8]) -> Option<Timestamp> {
    let (is_negative, text) = match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let mut parts = text.splitn(2, |byte| *byte == b'.');
    let seconds = decimal(parts.next()?, "time").ok()?;
    let fraction = parts.next().unwrap_or_default();
    let mut nanoseconds: u32 = 0;
    for (place, digit) in fraction.iter().enumerate() {
        let digit = digit.is_ascii_digit().then(|| u32::from(digit - b'0'))?;
        if let Some(weight) = 8_u32.checked_sub(u32::try_from(place).unwrap_or(9)) {
            nanoseconds += digit * 10_u32.pow(weight);
        }
    }
    let seconds = i64::try_from(seconds).ok()?;
    Some(match (is_negative, nanoseconds) {
        (false, _) => Timestamp { seconds, nanoseconds },
        (true, 0) => Timestamp { seconds: -seconds, nanoseconds: 0 },
        // A fraction counts away from zero, nanoseconds forward from the second below.
        (true, _) => Timestamp { seconds: -seconds - 1, nanoseconds: 1_000_000_000 - nanoseconds },
    })
}

/// Replaces `%3D` by its byte, for those bytes that are asked for.
fn percent(text: &[u8], is_escaped: impl Fn(u8) -> bool) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, behind)) = rest.split_first() {
        let escaped = match (first, behind) {
            (b'%', [high, low, ..]) => hexadecimal(*high, *low).filter(|byte| is_escaped(*byte)),
            _ => None,
        };
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { behind.get(2..).unwrap_or_default() } else { behind };
    }
    bytes
}

pub(crate) fn hexadecimal(high: u8, low: u8) -> Option<u8> {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    u8::try_from(digit(high)? << 4 | digit(low)?).ok()
}

/// Base 64 without line ends; padding may be missing.
pub(crate) fn base64(text: &[u8]) -> Option<Vec<u8>> {
    let text = text.strip_suffix(b"=").unwrap_or(text);
    let text = text.strip_suffix(b"=").unwrap_or(text);
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for group in text.chunks(4) {
        let mut value: u32 = 0;
        for letter in group {
            let six = match letter {
                b'A'..=b'Z' => letter - b'A',
                b'a'..=b'z' => letter - b'a' + 26,
                b'0'..=b'9' => letter - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            value = value << 6 | u32::from(six);
        }
        let length = match group.len() {
            4 => 3,
            3 => 2,
            2 => 1,
            _ => return None,
        };
        let value = value << (6 * (4 - group.len()));
        bytes.extend(value.to_be_bytes().iter().skip(1).take(length));
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(key: &[u8], value: &[u8]) -> Vec<u8> {
        let rest = key.len() + value.len() + 3;
        let mut length = rest + 1;
        while length != rest + length.to_string().len() {
            length = rest + length.to_string().len();
        }
        [length.to_string().as_bytes(), b" ", key, b"=", value, b"\n"].concat()
    }

    #[test]
    fn records_are_read_and_taken_back() {
        let mut extensions = Extensions::default();
        let mut records = record(b"path", b"a/b=c\n");
        records.extend(record(b"size", b"12345678901"));
        records.extend(record(b"uid", b"4000000000"));
        records.extend(record(b"mtime", b"-1.5"));
        records.extend([0; 7]);
        extensions.add(&records).unwrap();
        assert_eq!(extensions.path.as_deref(), Some(b"a/b=c\n".as_slice()));
        assert_eq!((extensions.size_bytes, extensions.user), (Some(12_345_678_901), Some(4_000_000_000)));
        assert_eq!(extensions.modification, Some(Timestamp { seconds: -2, nanoseconds: 500_000_000 }));
        extensions.add(&record(b"path", b"")).unwrap();
        assert_eq!(extensions.path, None);
    }

    #[test]
    fn attributes_of_both_writers() {
        let attribute = |key: &str, value: &str| record(key.as_bytes(), value.as_bytes());
        let mut gnu = Extensions::default();
        gnu.add(&attribute("SCHILY.xattr.user.a%3Db%25c%41", "1\n2")).unwrap();
        gnu.add(&attribute("RHT.security.selinux", "u:r:t:s0")).unwrap();
        let attributes = gnu.take_attributes();
        assert_eq!((&*attributes[0].name, &*attributes[0].value), (SELINUX_LABEL, b"u:r:t:s0\0".as_slice()));
        assert_eq!(
            (&*attributes[1].name, &*attributes[1].value),
            (b"user.a=b%c%41".as_slice(), b"1\n2".as_slice())
        );
        // As bsdtar writes one attribute twice, and beside it another writer's, and one whose name only looks escaped.
        let mut bsd = Extensions::default();
        let records = [
            attribute("SCHILY.xattr.user.a", "b=value"),
            attribute("LIBARCHIVE.xattr.user.a%3Db", "dmFsdWU"),
            attribute("SCHILY.xattr.user.c", "kept"),
            attribute("SCHILY.xattr.user.100%25", "x"),
            attribute("LIBARCHIVE.xattr.user.100%2525", "eA"),
        ];
        bsd.add(&records.concat()).unwrap();
        assert_eq!(shown(&mut bsd), ["user.100%25=x", "user.a=b=value", "user.c=kept"]);
    }

    fn shown(extensions: &mut Extensions) -> Vec<String> {
        let attributes = extensions.take_attributes();
        let text = |part: &[u8]| part.escape_ascii().to_string();
        attributes.iter().map(|found| format!("{}={}", text(&found.name), text(&found.value))).collect()
    }

    #[test]
    fn attributes_are_chosen_by_name_and_header() {
        let attribute = |key: &str, value: &str| record(key.as_bytes(), value.as_bytes());
        let mut global = Extensions::default();
        let records = [
            attribute("LIBARCHIVE.xattr.user.a", "Z2xvYmFs"),
            attribute("LIBARCHIVE.xattr.user.b", "Z2xvYmFs"),
            attribute("SCHILY.xattr.security.selinux", "global"),
            attribute("SCHILY.xattr.user.d", "global"),
        ];
        global.add(&records.concat()).unwrap();
        let mut own = global.clone();
        let records = [
            attribute("SCHILY.xattr.user.a", "own"),
            attribute("LIBARCHIVE.xattr.user.c", "bGlicmFyeQ"),
            attribute("SCHILY.xattr.user.c", "own"),
            attribute("RHT.security.selinux", "own"),
        ];
        own.add(&records.concat()).unwrap();
        let expected =
            ["security.selinux=own\\x00", "user.a=own", "user.b=global", "user.c=library", "user.d=global"];
        assert_eq!(shown(&mut own), expected);
        // The next member has what the global header says.
        assert_eq!(
            shown(&mut global),
            ["security.selinux=global", "user.a=global", "user.b=global", "user.d=global"]
        );
    }

    #[test]
    fn malformed_records() {
        for records in
            ["5 a=b", "9 path=x\n\n", "6path=x\n", "3 a", "0 a=b\n", "99999999999999999999 a=b\n", "6 ab\n"]
        {
            let added = Extensions::default().add(records.as_bytes());
            assert!(added.is_err(), "{records:?}");
        }
        for (key, value) in
            [("uid", "4294967296"), ("uid", "x"), ("size", "-1"), ("mtime", "1.x"), ("mtime", ".")]
        {
            let added = Extensions::default().add(&record(key.as_bytes(), value.as_bytes()));
            assert!(matches!(added, Err(ArchiveFault::Number { .. })), "{key}={value}");
        }
        assert!(Extensions::default().add(&record(b"GNU.sparse.numbytes", b"1")).is_err());
    }

    #[test]
    fn times_and_base_64() {
        let at = |seconds, nanoseconds| Some(Timestamp { seconds, nanoseconds });
        assert_eq!(time(b"0"), at(0, 0));
        assert_eq!(time(b"1700000000.123456789"), at(1_700_000_000, 123_456_789));
        assert_eq!(time(b"1.0000000019999"), at(1, 1));
        assert_eq!(time(b"-0.999999995"), at(-1, 5));
        assert_eq!(time(b"-12"), at(-12, 0));
        assert_eq!((time(b""), time(b"--1"), time(b"99999999999999999999")), (None, None, None));
        assert_eq!(base64(b"").unwrap(), b"");
        for text in ["TQ==", "TQ"] {
            assert_eq!(base64(text.as_bytes()).unwrap(), b"M");
        }
        assert_eq!(base64(b"TWFu/+8").unwrap(), b"Man\xff\xef");
        assert_eq!((base64(b"T"), base64(b"T!==")), (None, None));
    }
}
