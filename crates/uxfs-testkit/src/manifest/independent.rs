//! Reading the manifest of the independent image: what `find`, `stat`, `filefrag`, `sha256sum` and `getfattr` printed.
//!
//! Sections begin with `# title`. No name in it holds a space, a newline or a backslash.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Read,
    path::Path,
};

use anyhow::{Context, Result, bail, ensure};

use super::{Attribute, Bytes, Details, Entry, Extent, FileKind, Header, Manifest, Timestamp};

const FIND: &str = "find: type mode uid gid size nlink ino blocks512 mtime ctime path [-> target]";
const DEVICES: &str = "device numbers: type major minor path";
const EXTENTS: &str = "extents (filefrag-like, from fiemap): count per file";
const HASHES: &str = "sha256";
const ATTRIBUTES: &str = "getfattr -h -d -m - -e hex";

/// Its attributes' names take more than the 64 KiB that the kernel can list, so `getfattr` said nothing.
const ATTRIBUTES_NOT_SAID: &str = "./ATTR.FMT_BTREE";

/// The lines of each section but `find`, by path.
#[derive(Default)]
struct Sections {
    devices: BTreeMap<String, (u32, u32)>,
    extent_counts: BTreeMap<String, u64>,
    hashes: BTreeMap<String, String>,
    attributes: BTreeMap<String, Vec<Attribute>>,
}

/// Reads the packed manifest.
///
/// # Errors
/// It cannot be read or a line is not as expected: nothing is skipped.
pub fn read_independent(path: &Path) -> Result<Manifest> {
    let mut text = String::new();
    zstd::Decoder::new(std::fs::File::open(path)?)?.read_to_string(&mut text)?;
    let mut sections = Sections::default();
    let mut found = Vec::new();
    let (mut title, mut attributes_of) = (String::new(), String::new());
    for line in text.lines() {
        match line.strip_prefix("# ") {
            Some(name) if title == ATTRIBUTES => {
                let name = name.strip_prefix("file: ").context("an unknown section after the attributes")?;
                attributes_of = format!("./{name}");
            }
            Some(name) => name.clone_into(&mut title),
            None if title == FIND => found.push(line),
            None => sections.add(&title, &attributes_of, line).with_context(|| line.to_owned())?,
        }
    }
    let mut seen = BTreeSet::new();
    let mut entries: Vec<Entry> = found
        .iter()
        .map(|line| sections.entry(line).with_context(|| (*line).to_owned()))
        .collect::<Result<_>>()?;
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    for entry in &mut entries {
        if !seen.insert(entry.inode) {
            entry.details = None;
        }
    }
    let header = Header {
        image: "independent".into(),
        judge: "find, stat, filefrag, sha256sum and getfattr on a mount".into(),
        made_by: "an independent generator".into(),
    };
    Ok(Manifest { header, entries })
}

impl Sections {
    fn add(&mut self, title: &str, attributes_of: &str, line: &str) -> Result<()> {
        match title {
            // For people.
            "mkfs geometry" | "df" => {}
            DEVICES => {
                let mut words = line.split(' ').rev();
                let mut next = || words.next().context("too few words");
                let (path, minor, major) = (next()?, next()?, next()?);
                let number = |text| u32::from_str_radix(text, 16);
                self.devices.insert(path.to_owned(), (number(major)?, number(minor)?));
            }
            EXTENTS => {
                let (path, count) = line.rsplit_once(": ").context("no count")?;
                let count = count.split(' ').next().context("no count")?;
                self.extent_counts.insert(path.to_owned(), count.parse()?);
            }
            HASHES => {
                let (hash, path) = line.split_once("  ").context("no path")?;
                self.hashes.insert(path.to_owned(), hash.to_owned());
            }
            ATTRIBUTES if line.is_empty() => {}
            ATTRIBUTES => {
                let (name, value) = line.split_once('=').unwrap_or((line, "0x"));
                let value = value.strip_prefix("0x").context("not hexadecimal")?.to_owned();
                let attribute = Attribute { name: name.as_bytes().into(), value };
                self.attributes.entry(attributes_of.to_owned()).or_default().push(attribute);
            }
            _ => bail!("a line in the unknown section {title:?}"),
        }
        Ok(())
    }

    fn entry(&self, line: &str) -> Result<Entry> {
        let words: Vec<&str> = line.split(' ').collect();
        let [kind, mode, user, group, size, links, inode, sectors, modified, changed, path, rest @ ..] =
            words.as_slice()
        else {
            bail!("too few words");
        };
        let kind = kind_of(kind)?;
        let target = match (kind, rest) {
            (FileKind::Symlink, ["->", target]) => Some(Bytes::from(target.as_bytes())),
            (FileKind::Symlink, _) | (_, [_, ..]) => bail!("an unexpected target"),
            _ => None,
        };
        let mut attributes = self.attributes.get(*path).cloned().unwrap_or_default();
        attributes.sort();
        let details = Details {
            mode: u16::from_str_radix(mode, 8)?,
            user_id: user.parse()?,
            group_id: group.parse()?,
            size_bytes: Some(size.parse()?),
            link_count: Some(links.parse()?),
            sectors: Some(sectors.parse()?),
            device: self.devices.get(*path).copied(),
            access_time: None,
            modification_time: Some(timestamp(modified)?),
            change_time: Some(timestamp(changed)?),
            birth_time: None,
            sha256: self.hashes.get(*path).cloned(),
            extents: None,
            extent_count: self.extent_counts.get(*path).copied(),
            attribute_extents: None,
            target,
            attributes: (*path != ATTRIBUTES_NOT_SAID).then_some(attributes),
            flags: None,
            entries: None,
        };
        let path = path.strip_prefix('.').context("a path that does not begin with .")?;
        let path = if path.is_empty() { "/" } else { path };
        let details = Some(Box::new(details));
        Ok(Entry { path: path.as_bytes().into(), inode: Some(inode.parse()?), kind, details })
    }
}

fn kind_of(letter: &str) -> Result<FileKind> {
    Ok(match letter {
        "f" => FileKind::Regular,
        "d" => FileKind::Directory,
        "l" => FileKind::Symlink,
        "c" => FileKind::CharacterDevice,
        "b" => FileKind::BlockDevice,
        "p" => FileKind::Fifo,
        "s" => FileKind::Socket,
        _ => bail!("an unknown type {letter:?}"),
    })
}

/// `find` prints ten digits of a fraction that has nine.
fn timestamp(text: &str) -> Result<Timestamp> {
    let (seconds, fraction) = text.split_once('.').context("no fraction")?;
    ensure!(fraction.len() == 10, "{} digits of fraction", fraction.len());
    let nanoseconds = fraction.get(..9).context("no fraction")?.parse()?;
    Ok(Timestamp(seconds.parse()?, nanoseconds))
}

/// How many extents `filefrag` counts: those that go on where the last one ended, on the disk, with or without the hole between
/// them, are one.
pub(super) fn filefrag_count(extents: &[Extent]) -> u64 {
    let mut count = 0;
    let mut last: Option<&Extent> = None;
    for extent in extents {
        let continues = last.is_some_and(|last| {
            let dense = last.disk_bytes + last.length_bytes;
            let hole = extent.offset_bytes - (last.offset_bytes + last.length_bytes);
            extent.disk_bytes == dense || extent.disk_bytes == dense + hole
        });
        count += u64::from(!continues);
        last = Some(extent);
    }
    count
}
