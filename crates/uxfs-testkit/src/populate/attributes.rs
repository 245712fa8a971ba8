//! Extended attributes in every form, and ACLs.

use std::path::Path;

use anyhow::{Context, Result};
use rustix::fs::{FallocateFlags, XattrFlags, fallocate, lsetxattr, removexattr};

use super::Place;

const MAXIMAL_VALUE_BYTES: u64 = 65536;

pub(super) fn populate(place: &Place) -> Result<()> {
    place.directory("attributes")?;
    shortform(place)?;
    leaf_and_node(place)?;
    remote(place)?;
    fragmented(place)?;
    names(place)?;
    if place.recipe.is_plain_tree {
        // `mkfs.xfs -p` would keep an ACL as `user.system.…`.
        return Ok(());
    }
    access_control(place)
}

fn set(path: &Path, name: impl AsRef<[u8]>, value: &[u8]) -> Result<()> {
    lsetxattr(path, name.as_ref(), value, XattrFlags::empty())
        .with_context(|| format!("cannot set {} of {}", name.as_ref().escape_ascii(), path.display()))
}

/// A value that differs from others in its first bytes.
fn value(number: u64, length: u64) -> Vec<u8> {
    let mut bytes = format!("{number:08}").into_bytes();
    bytes.resize(usize::try_from(length).unwrap_or_default(), b'v');
    bytes
}

fn new_file(place: &Place, name: &str) -> Result<std::path::PathBuf> {
    place.file(format!("attributes/{name}"))?;
    Ok(place.path(format!("attributes/{name}")))
}

fn shortform(place: &Place) -> Result<()> {
    let file = new_file(place, "shortform")?;
    set(&file, "user.name", b"value")?;
    if !place.recipe.is_plain_tree {
        // `mkfs.xfs -p` would leave it out.
        set(&file, "user.empty", b"")?;
    }
    set(&file, "trusted.name", b"another value")?;
    set(&file, "security.name", b"\0binary\xff")?;
    let directory = place.directory("attributes/directory")?;
    set(&directory, "user.of-a-directory", b"value")?;
    for count in [1, 3] {
        let file = new_file(place, &format!("removed-{count}"))?;
        for number in 0..3 {
            set(&file, format!("user.{number}"), &value(number, 10))?;
        }
        for number in 0..count {
            removexattr(&file, format!("user.{number}"))?;
        }
    }
    Ok(())
}

fn leaf_and_node(place: &Place) -> Result<()> {
    let block = place.recipe.block_size_bytes;
    let leaf = new_file(place, "leaf")?;
    for number in 0..12 {
        set(&leaf, format!("user.leaf{number:04}"), &value(number, 48))?;
    }
    let length = block.min(4096) / 20;
    for (name, removed) in [("node", false), ("node-removed", true)] {
        let count = block * 4 / length;
        let file = new_file(place, name)?;
        for number in 0..count {
            set(&file, format!("user.node{number:04}"), &value(number, length))?;
        }
        for number in (0..count).filter(|number| removed && number % 3 != 0) {
            removexattr(&file, format!("user.node{number:04}"))?;
        }
    }
    if block == 1024 {
        // An index of two levels: more than 120 leaves.
        let levels = new_file(place, "node-levels")?;
        for number in 0..3200 {
            set(&levels, format!("user.{number:04}"), &value(number, 12))?;
        }
    }
    Ok(())
}

/// Values in blocks of their own, 56 bytes of each taken by a header: around one block, and the longest.
fn remote(place: &Place) -> Result<()> {
    let block = place.recipe.block_size_bytes;
    let file = new_file(place, "remote")?;
    let lengths =
        [block * 3 / 4, block - 57, block - 56, block - 55, 2 * (block - 56), 10_000, MAXIMAL_VALUE_BYTES];
    for (number, length) in (0..).zip(lengths) {
        set(&file, format!("user.remote{number}"), &value(number, length.min(MAXIMAL_VALUE_BYTES)))?;
    }
    let replaced = new_file(place, "remote-replaced")?;
    for length in [MAXIMAL_VALUE_BYTES, 20_000, block, 5] {
        set(&replaced, "user.replaced", &value(1, length.min(MAXIMAL_VALUE_BYTES)))?;
    }
    Ok(())
}

/// So many extents that the attribute fork becomes a btree: another file takes the next block each time.
fn fragmented(place: &Place) -> Result<()> {
    let block = place.recipe.block_size_bytes;
    if place.recipe.is_plain_tree {
        return Ok(());
    }
    let file = new_file(place, "fragmented")?;
    let neighbour = place.file("attributes/fragmented-neighbour")?;
    for number in 0..40 {
        set(&file, format!("user.fragment{number:03}"), &value(number, block.min(50_000) * 4 / 5))?;
        fallocate(&neighbour, FallocateFlags::empty(), number * 2 * block, block)?;
    }
    Ok(())
}

fn names(place: &Place) -> Result<()> {
    let file = new_file(place, "names")?;
    set(&file, format!("user.{}", "n".repeat(250)), b"of 255 bytes")?;
    set(&file, b"user.\xff\xfe not UTF-8", b"odd")?;
    set(&file, "user.with space\nand newline=", b"odd")?;
    set(&file, "user.a", b"short")?;
    Ok(())
}

/// One ACL entry: tag, permissions, id.
type AclEntry = (u16, u16, u32);
const NO_ID: u32 = u32::MAX;
const USER_OBJECT: u16 = 1;
const USER: u16 = 2;
const GROUP_OBJECT: u16 = 4;
const GROUP: u16 = 8;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// The form of `system.posix_acl_…`: version 2, then entries, all little-endian.
fn acl(entries: &[AclEntry]) -> Vec<u8> {
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

fn access_control(place: &Place) -> Result<()> {
    let simple = acl(&[
        (USER_OBJECT, 6, NO_ID),
        (USER, 4, 1000),
        (GROUP_OBJECT, 4, NO_ID),
        (GROUP, 7, 100),
        (MASK, 6, NO_ID),
        (OTHER, 0, NO_ID),
    ]);
    let mut entries = vec![(USER_OBJECT, 7, NO_ID)];
    entries.extend((0..60).map(|number| (USER, 5, 70_000 + number)));
    entries.extend([(GROUP_OBJECT, 5, NO_ID), (MASK, 7, NO_ID), (OTHER, 1, NO_ID)]);
    let long = acl(&entries);
    let file = new_file(place, "acl-access")?;
    set(&file, "system.posix_acl_access", &simple)?;
    let file = new_file(place, "acl-long")?;
    set(&file, "system.posix_acl_access", &long)?;
    let directory = place.directory("attributes/acl-default")?;
    set(&directory, "system.posix_acl_default", &simple)?;
    set(&directory, "system.posix_acl_access", &long)?;
    place.file("attributes/acl-default/inherits")?;
    place.directory("attributes/acl-default/inherits-too")?;
    Ok(())
}
