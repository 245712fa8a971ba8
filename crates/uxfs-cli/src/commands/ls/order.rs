//! The order of entries.

use std::cmp::{Ordering, Reverse};

use crate::commands::ls::{arguments::Settings, row::Rows};
use uxfs_volume::inode::FileType;

/// What entries are sorted by. Equals are sorted by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// The order of the directory.
    None,
    /// The bytes of the name.
    Name,
    /// Size, largest first.
    Size,
    /// Time, newest first.
    Time,
    /// What follows the last dot.
    Extension,
    /// Numbers in names by their value.
    Version,
}

/// Sorts rows, which lie in order of their names unless they are not to be sorted.
pub fn sort(rows: &mut Rows, settings: &Settings, is_sorted_by_name: bool) {
    let mut list = std::mem::take(&mut rows.list);
    if settings.key != Key::None {
        if !is_sorted_by_name {
            list.sort_by(|one, other| rows.name(one).cmp(rows.name(other)));
        }
        match settings.key {
            Key::None | Key::Name => {}
            Key::Size => list.sort_by_key(|row| Reverse(row.status.as_ref().map_or(0, |status| status.size))),
            Key::Time => {
                list.sort_by_key(|row| {
                    Reverse(row.status.as_ref().map(|status| status.time).unwrap_or_default())
                });
            }
            Key::Extension => {
                list.sort_by(|one, other| extension(rows.name(one)).cmp(extension(rows.name(other))))
            }
            Key::Version => {
                list.sort_by(|one, other| by_version(rows.name(one), rows.name(other)));
            }
        }
        if settings.reverse {
            list.reverse();
        }
    }
    if settings.directories_first && settings.key != Key::None {
        list.sort_by_key(|row| !row.leads_to_directory());
    }
    rows.list = list;
}

/// From the last dot; empty without one.
fn extension(name: &[u8]) -> &[u8] {
    let dot = name.iter().rposition(|byte| *byte == b'.').unwrap_or(name.len());
    name.get(dot..).unwrap_or_default()
}

/// Orders names as the manual of coreutils describes the order by version: hidden names first, then parts that are no digits
/// and numbers in turn, and the whole names without extensions before those with them.
pub fn by_version(one: &[u8], other: &[u8]) -> Ordering {
    let rank = |name: &[u8]| match name {
        b"" => 0,
        b"." => 1,
        b".." => 2,
        _ if name.first() == Some(&b'.') => 3,
        _ => 4,
    };
    let ranks = rank(one).cmp(&rank(other));
    if ranks.is_ne() || rank(one) < 3 {
        return ranks;
    }
    let (stem, other_stem) = (without_extension(one), without_extension(other));
    by_parts(stem, other_stem).then_with(|| by_parts(one, other)).then_with(|| one.cmp(other))
}

/// A name without what looks like extensions at its end: dots, each with a letter or `~` and more of these or digits. Of a
/// hidden name nothing may be left.
fn without_extension(name: &[u8]) -> &[u8] {
    let mut end = name.len();
    let mut at = name.len();
    while at > 0 {
        let dot = name.get(..at).and_then(|begin| begin.iter().rposition(|byte| *byte == b'.'));
        let Some(dot) = dot else { break };
        let part = name.get(dot + 1..at).unwrap_or_default();
        let is_first = |byte: u8| byte.is_ascii_alphabetic() || byte == b'~';
        let is_extension = part.first().is_some_and(|byte| is_first(*byte))
            && part.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'~');
        if !is_extension {
            break;
        }
        (at, end) = (dot, dot);
    }
    name.get(..end).unwrap_or_default()
}

fn by_parts(one: &[u8], other: &[u8]) -> Ordering {
    let (mut one, mut other) = (one, other);
    while !one.is_empty() || !other.is_empty() {
        let (words, rest) = one.split_at(one.iter().take_while(|byte| !byte.is_ascii_digit()).count());
        let (other_words, other_rest) =
            other.split_at(other.iter().take_while(|byte| !byte.is_ascii_digit()).count());
        let longest = words.len().max(other_words.len());
        let signs = (0..longest).map(|index| sign(words.get(index)).cmp(&sign(other_words.get(index))));
        if let Some(order) = signs.into_iter().find(|order| order.is_ne()) {
            return order;
        }
        let (number, rest) = number(rest);
        let (other_number, other_rest) = self::number(other_rest);
        let order = number.len().cmp(&other_number.len()).then_with(|| number.cmp(other_number));
        if order.is_ne() {
            return order;
        }
        (one, other) = (rest, other_rest);
    }
    Ordering::Equal
}

/// The place of a byte among those that are no digits: `~` before the end, then letters, then all others.
fn sign(byte: Option<&u8>) -> i32 {
    match byte {
        Some(b'~') => -1,
        None => 0,
        Some(byte) if byte.is_ascii_alphabetic() => i32::from(*byte),
        Some(byte) => i32::from(*byte) + 256,
    }
}

/// The digits in front without zeros before them, and what follows.
fn number(text: &[u8]) -> (&[u8], &[u8]) {
    let (digits, rest) = text.split_at(text.iter().take_while(|byte| byte.is_ascii_digit()).count());
    let zeros = digits.iter().take_while(|byte| **byte == b'0').count();
    (digits.get(zeros..).unwrap_or_default(), rest)
}

/// Whether an entry of this type is a directory.
pub fn is_directory(file_type: Option<FileType>) -> bool {
    file_type == Some(FileType::Directory)
}
