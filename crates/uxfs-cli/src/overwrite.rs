//! Keeps commands from writing over what they read.
//!
//! Two paths are the same place where they lead to one inode (through links as well), or where bytes of one are bytes of the other: a
//! loop device and its file, two loop devices on one file, a partition and its disk, a volume and a device that it is made of.

use std::{
    fs::{self, File},
    io::{self, Read},
    ops::Range,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
};

use rustix::fs::{major, minor};
use uxfs_metadump::format::{MAGIC_V1, MAGIC_V2};
use uxfs_mkfs::options::config_file;
use uxfs_repair::commit::PLAN_MAGIC;

use crate::failure::{About, Failure};

/// A file of which `-` is the name where it is read.
const STANDARD_INPUT: &str = "/proc/self/fd/0";
/// As [`STANDARD_INPUT`], where it is written.
const STANDARD_OUTPUT: &str = "/proc/self/fd/1";
/// The first bytes of an XFS file system.
const MAGIC: [u8; 4] = *b"XFSB";
/// How much of an existing file is looked at.
const BEGINNING_BYTES: u64 = 64 << 10;
/// The deepest stack of block devices that is followed.
const DEPTH_MAX: usize = 32;

/// Something that a command reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input<'p> {
    what: &'static str,
    path: &'p Path,
}

impl<'p> Input<'p> {
    /// `what` is its name in messages.
    pub fn new(what: &'static str, path: &'p Path) -> Self {
        Self { what, path }
    }

    /// The image of a command.
    pub fn image(path: &'p Path) -> Self {
        Self::new("image", path)
    }
}

/// Refuses an output that is one of the inputs. Called before anything is truncated or made.
///
/// # Errors
/// It is.
pub(crate) fn refuse(output: &Path, inputs: &[Input<'_>]) -> Result<(), Failure> {
    let place = Place::of(standard(output, STANDARD_OUTPUT));
    let found = inputs.iter().find(|input| Place::of(standard(input.path, STANDARD_INPUT)).touches(&place));
    match found {
        Some(input) => {
            let message = format!("the {} itself would be overwritten: give another file", input.what);
            Err(Failure::usage(message)).about_host(output)
        }
        None => Ok(()),
    }
}

/// As [`refuse`], for a file that replaces an existing one. An existing file that begins with a superblock is refused as well: the user
/// may have exchanged two arguments.
///
/// # Errors
/// As [`refuse`].
pub(crate) fn refuse_or_file_system(output: &Path, inputs: &[Input<'_>]) -> Result<(), Failure> {
    refuse(output, inputs)?;
    match output != Path::new("-") && holds_file_system(output) {
        true => Err(not_replaced(output, "an XFS file system")),
        false => Ok(()),
    }
}

/// What a command writes to a file that the user names. An existing file of the same kind is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Product {
    /// The page of `uxfs check --html`.
    Page,
    /// The manifest of a rescue.
    Manifest,
    /// A tar archive.
    Archive,
    /// A dump of metadata.
    Dump,
    /// A configuration file of mkfs.
    Configuration,
    /// A plan of a repair.
    Plan,
}

impl Product {
    fn name(self) -> &'static str {
        match self {
            Self::Page => "a page of uxfs check",
            Self::Manifest => "a manifest of uxfs rescue",
            Self::Archive => "a tar archive",
            Self::Dump => "a dump of metadata",
            Self::Configuration => "a configuration file of mkfs",
            Self::Plan => "a plan of uxfs repair",
        }
    }

    /// Whether a file that starts with these bytes is of this kind.
    fn is_begun_by(self, beginning: &[u8]) -> bool {
        let has = |part: &[u8]| beginning.windows(part.len()).any(|window| window == part);
        match self {
            Self::Page => beginning.starts_with(b"<!DOCTYPE html>") && has(b"<title>uxfs check</title>"),
            Self::Manifest => {
                let line = beginning.split(|byte| *byte == b'\n').next().unwrap_or_default();
                let document: Option<serde_json::Value> = serde_json::from_slice(line).ok();
                document.is_some_and(|line| line["type"] == "image" && line["schema_version"].is_u64())
            }
            Self::Archive => beginning.get(257..262) == Some(b"ustar"),
            Self::Dump => {
                let magic = beginning.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
                magic.is_some_and(|magic| [MAGIC_V1, MAGIC_V2].contains(&magic))
            }
            Self::Plan => beginning.starts_with(&PLAN_MAGIC),
            Self::Configuration => {
                std::str::from_utf8(beginning).is_ok_and(|text| config_file::parse(text).is_ok())
            }
        }
    }
}

/// As [`refuse_or_file_system`], for a product of this command. An existing file that holds anything else is refused as well: the user may
/// mean another option.
///
/// # Errors
/// As there.
pub(crate) fn refuse_or_other(output: &Path, inputs: &[Input<'_>], product: Product) -> Result<(), Failure> {
    refuse_or_file_system(output, inputs)?;
    let Some(beginning) = beginning_of(output).filter(|bytes| !bytes.is_empty()) else { return Ok(()) };
    match product.is_begun_by(&beginning) {
        true => Ok(()),
        false => Err(not_replaced(output, &format!("something else than {}", product.name()))),
    }
}

fn not_replaced(output: &Path, what: &str) -> Failure {
    let failure = Failure::usage(format!("it holds {what}, and is not replaced")).about_host(output);
    failure.with_remedy("give another file, or remove this one before")
}

/// The first bytes of an existing file. `None` where nothing is replaced: there is none, or it is no regular file.
fn beginning_of(output: &Path) -> Option<Vec<u8>> {
    if output == Path::new("-") || !fs::metadata(output).is_ok_and(|found| found.is_file()) {
        return None;
    }
    let mut bytes = Vec::new();
    // Writing reports files that cannot be read.
    File::open(output).ok()?.take(BEGINNING_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Refuses two outputs that are one file.
///
/// # Errors
/// They are.
pub(crate) fn refuse_same_outputs(one: &Path, other: &Path) -> Result<(), Failure> {
    let of = |path| Place::of(standard(path, STANDARD_OUTPUT));
    match of(one).touches(&of(other)) {
        true => Err(Failure::usage("two outputs would be written to this file")).about_host(other),
        false => Ok(()),
    }
}

/// Whether a path lies in a folder, at any depth and through links.
pub(crate) fn path_within(folder: &Path, path: &Path) -> Option<PathBuf> {
    let (folder, path) = (fs::canonicalize(folder).ok()?, fs::canonicalize(path).ok()?);
    path.strip_prefix(folder).ok().map(Path::to_owned)
}

fn standard<'p>(path: &'p Path, standard: &'static str) -> &'p Path {
    if path == Path::new("-") { Path::new(standard) } else { path }
}

pub(crate) fn holds_file_system(path: &Path) -> bool {
    let begins = || -> io::Result<bool> {
        // A pipe would be waited for.
        let found = fs::metadata(path)?.file_type();
        let mut bytes = [0; MAGIC.len()];
        if found.is_file() || found.is_block_device() {
            File::open(path)?.read_exact(&mut bytes)?;
        }
        Ok(bytes == MAGIC)
    };
    begins().unwrap_or(false)
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Identity {
    File {
        device: u64,
        inode: u64,
    },
    Block(u64),
    /// Nothing is there yet.
    Name(PathBuf),
}

impl Identity {
    fn at(path: &Path) -> Option<Self> {
        match fs::metadata(path) {
            Ok(found) if found.file_type().is_block_device() => Some(Self::Block(found.rdev())),
            Ok(found) if found.is_file() => Some(Self::File { device: found.dev(), inode: found.ino() }),
            Ok(_) => None,
            Err(_) => {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                let folder = fs::canonicalize(folder.unwrap_or(Path::new("."))).ok()?;
                Some(Self::Name(folder.join(path.file_name()?)))
            }
        }
    }
}

/// A file or device that holds bytes of a place.
#[derive(Debug)]
struct Layer {
    identity: Identity,
    /// Which bytes of it; `None` where that is not known.
    range: Option<Range<u64>>,
}

/// What a path leads to, and what lies below it.
#[derive(Debug)]
struct Place {
    itself: Option<Identity>,
    below: Vec<Layer>,
}

impl Place {
    fn of(path: &Path) -> Self {
        let itself = Identity::at(path);
        let below = match &itself {
            Some(Identity::Block(device)) => layers_below(*device),
            _ => Vec::new(),
        };
        Self { itself, below }
    }

    fn touches(&self, other: &Self) -> bool {
        let has = |place: &Self, identity: &Option<Identity>| {
            identity.as_ref().is_some_and(|identity| {
                place.itself.as_ref() == Some(identity)
                    || place.below.iter().any(|layer| layer.identity == *identity)
            })
        };
        has(self, &other.itself)
            || has(other, &self.itself)
            || self.below.iter().any(|one| other.below.iter().any(|other| one.overlaps(other)))
    }
}

impl Layer {
    fn overlaps(&self, other: &Self) -> bool {
        match (&self.range, &other.range) {
            (Some(one), Some(two)) => {
                self.identity == other.identity && one.start < two.end && two.start < one.end
            }
            // Two volumes may lie on one disk.
            _ => false,
        }
    }
}

/// The layers below a block device, from the top down, as `/sys` tells them.
fn layers_below(device: u64) -> Vec<Layer> {
    let mut layers: Vec<Layer> = Vec::new();
    let mut pending = vec![(device, Some(0..u64::MAX))];
    while let Some((device, range)) = pending.pop() {
        let folder = PathBuf::from(format!("/sys/dev/block/{}:{}", major(device), minor(device)));
        for (identity, within) in layers_of(&folder) {
            let range = match (&range, within) {
                (Some(range), Some(within)) => Some(shifted(range, &within)),
                _ => None,
            };
            if let Identity::Block(device) = identity {
                pending.push((device, range.clone()));
            }
            layers.push(Layer { identity, range });
        }
        if layers.len() >= DEPTH_MAX {
            break;
        }
    }
    layers
}

/// What a device with this folder in `/sys` lies on, with the bytes that it takes of it.
fn layers_of(folder: &Path) -> Vec<(Identity, Option<Range<u64>>)> {
    let text = |name: &str| fs::read_to_string(folder.join(name)).ok();
    let number = |name: &str| text(name).and_then(|text| text.trim().parse().ok()).unwrap_or(0_u64);
    let end = |start: u64, length: u64| if length == 0 { u64::MAX } else { start.saturating_add(length) };
    if folder.join("partition").exists() {
        let (start, length) = (number("start").saturating_mul(512), number("size").saturating_mul(512));
        let disk = fs::canonicalize(folder).ok();
        let disk = disk.as_deref().and_then(Path::parent).and_then(device_of);
        return disk.map(|disk| (disk, Some(start..end(start, length)))).into_iter().collect();
    }
    if let Some(backing) = text("loop/backing_file") {
        let (start, length) = (number("loop/offset"), number("loop/sizelimit"));
        let backing = Identity::at(Path::new(backing.trim_end_matches('\n')));
        return backing.map(|backing| (backing, Some(start..end(start, length)))).into_iter().collect();
    }
    let parts = fs::read_dir(folder.join("slaves")).into_iter().flatten().flatten();
    parts.filter_map(|part| device_of(&part.path())).map(|device| (device, None)).collect()
}

/// The device with this folder in `/sys`.
fn device_of(folder: &Path) -> Option<Identity> {
    let text = fs::read_to_string(folder.join("dev")).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some(Identity::Block(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?)))
}

/// A range of what begins and ends there.
fn shifted(range: &Range<u64>, within: &Range<u64>) -> Range<u64> {
    let shift = |offset: u64| within.start.saturating_add(offset).min(within.end);
    shift(range.start)..shift(range.end)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn is_same(one: &Path, other: &Path) -> bool {
        Place::of(one).touches(&Place::of(other))
    }

    #[test]
    fn links_lead_to_the_same_place() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("one"), b"1").unwrap();
        fs::write(at("two"), b"1").unwrap();
        fs::hard_link(at("one"), at("hard")).unwrap();
        symlink("one", at("soft")).unwrap();
        for other in ["one", "hard", "soft", "./one"] {
            assert!(is_same(&at("one"), &at(other)), "{other}");
        }
        assert!(!is_same(&at("one"), &at("two")) && !is_same(&at("one"), &at("new")));
        // What is not there yet is known by its name.
        fs::create_dir(at("folder")).unwrap();
        assert!(is_same(&at("new"), &at("folder/../new")) && !is_same(&at("new"), &at("newer")));
        assert!(refuse_same_outputs(&at("new"), &at("folder/../new")).is_err());
        assert_eq!(path_within(folder.path(), &at("folder/../one")), Some("one".into()));
        assert_eq!(path_within(&at("folder"), &at("one")), None);
    }

    #[test]
    fn two_parts_of_one_disk_do_not_touch() {
        let layer = |range| Layer { identity: Identity::Block(7), range };
        let part = |device, range| Place { itself: Some(Identity::Block(device)), below: vec![layer(range)] };
        let (one, two) = (part(8, Some(0..100)), part(9, Some(100..200)));
        assert!(!one.touches(&two) && one.touches(&part(10, Some(50..150))));
        let disk = Place { itself: Some(Identity::Block(7)), below: Vec::new() };
        assert!(disk.touches(&one) && two.touches(&disk));
        assert!(!part(8, None).touches(&part(9, None)), "two volumes on one disk");
        let nothing = Place { itself: None, below: Vec::new() };
        assert!(!nothing.touches(&Place { itself: None, below: Vec::new() }));
    }

    #[test]
    fn only_a_file_of_the_same_kind_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let archive = [&[b'a'; 257][..], b"ustar\0"].concat();
        let map = b"# Mapfile. Created by GNU ddrescue version 1.27\n0x00000000     ?               1\n0x0  0x100  +\n";
        let products: [(Product, &[u8]); 6] = [
            (Product::Page, b"<!DOCTYPE html>\n<html><head><title>uxfs check</title>"),
            (Product::Manifest, b"{\"schema_version\": 1, \"type\": \"image\"}\n{\"type\""),
            (Product::Archive, &archive),
            (Product::Dump, b"XMD2\0\0\0\x02"),
            (Product::Configuration, b"[block]\nsize = 4096\n"),
            (Product::Plan, b"UXFSplan\x01\0\0\0"),
        ];
        for (product, _) in products {
            for (contents, owner) in products.iter().map(|(owner, contents)| (*contents, Some(*owner))) {
                fs::write(&path, contents).unwrap();
                let is_taken = refuse_or_other(&path, &[], product).is_ok();
                assert_eq!(is_taken, owner == Some(product), "{product:?} over {owner:?}");
            }
            for (contents, is_taken) in
                [(&b"XFSB and more"[..], false), (b"old", false), (map, false), (b"", true)]
            {
                fs::write(&path, contents).unwrap();
                assert_eq!(
                    refuse_or_other(&path, &[], product).is_ok(),
                    is_taken,
                    "{product:?}: {contents:?}"
                );
            }
            assert!(refuse_or_other(&folder.path().join("none"), &[], product).is_ok());
        }
    }
}
