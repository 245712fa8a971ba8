//! Which partition a user means.

use std::{fmt, str::FromStr};

use thiserror::Error;
use uxfs_block::device::{BlockDevice, DeviceError};

use crate::{
    file_system::XfsIdentity,
    table::{Partition, PartitionTable},
};

/// What a partition is chosen by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selector {
    /// Its number.
    Number(u32),
    /// Its name in the table.
    Name(String),
    /// Its UUID in the table.
    UniqueId(String),
    /// The label of the file system in it.
    Label(String),
    /// The UUID of the file system in it.
    Uuid(String),
    /// Any of these but the number.
    Any(String),
}

/// Makes a selector of a value.
type Tagged = fn(String) -> Selector;

/// Words in front of a value, as `mount`, `blkid` and fstab have them.
const TAGS: [(&str, Tagged); 4] = [
    ("PARTLABEL=", Selector::Name),
    ("PARTUUID=", Selector::UniqueId),
    ("LABEL=", Selector::Label),
    ("UUID=", Selector::Uuid),
];

/// An empty text chooses nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "give the number, the name or the UUID of a partition, or the label or the UUID of the file system in it"
)]
pub struct EmptySelector;

impl FromStr for Selector {
    type Err = EmptySelector;

    /// Digits are a number; `PARTLABEL=`, `PARTUUID=`, `LABEL=` and `UUID=` say what follows; all else may be any of these.
    fn from_str(text: &str) -> Result<Self, EmptySelector> {
        for (tag, selector) in TAGS {
            if let Some(value) = text.strip_prefix(tag) {
                return if value.is_empty() { Err(EmptySelector) } else { Ok(selector(value.to_owned())) };
            }
        }
        match text.parse() {
            _ if text.is_empty() => Err(EmptySelector),
            Ok(number) if text.bytes().all(|byte| byte.is_ascii_digit()) => Ok(Self::Number(number)),
            _ => Ok(Self::Any(text.to_owned())),
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Name(text) => write!(f, "PARTLABEL={text}"),
            Self::UniqueId(text) => write!(f, "PARTUUID={text}"),
            Self::Label(text) => write!(f, "LABEL={text}"),
            Self::Uuid(text) => write!(f, "UUID={text}"),
            Self::Any(text) => f.write_str(text),
        }
    }
}

/// Why no partition was chosen.
#[derive(Debug, Error)]
pub enum SelectionError {
    /// A superblock could not be read.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The table has none like this.
    #[error("it has no partition {0}")]
    None(Selector),
    /// The table has it, and no part of the disk belongs to it.
    #[error("partition {0} cannot be there: it lies outside of the disk, or over the partition table")]
    Impossible(u32),
    /// Several are like this.
    #[error("{selector} fits the partitions {}", list(.numbers))]
    Several {
        /// What was asked for.
        selector: Selector,
        /// Their numbers.
        numbers: Vec<u32>,
    },
}

fn list(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

impl PartitionTable {
    /// The partition of `device` that is meant.
    ///
    /// # Errors
    /// There is none, or there are several; the disk cannot be read.
    pub fn select(
        &self,
        device: &dyn BlockDevice,
        selector: &Selector,
    ) -> Result<&Partition, SelectionError> {
        let mut found = Vec::new();
        for partition in &self.partitions {
            if fits(device, partition, selector)? {
                found.push(partition);
            }
        }
        match (found.as_slice(), selector) {
            ([partition], _) => Ok(partition),
            ([], Selector::Number(number)) if self.impossible.contains(number) => {
                Err(SelectionError::Impossible(*number))
            }
            ([], _) => Err(SelectionError::None(selector.clone())),
            (several, _) => Err(SelectionError::Several {
                selector: selector.clone(),
                numbers: several.iter().map(|partition| partition.number).collect(),
            }),
        }
    }
}

fn fits(device: &dyn BlockDevice, partition: &Partition, selector: &Selector) -> Result<bool, DeviceError> {
    let has_id = |text: &str| partition.unique_id.eq_ignore_ascii_case(text);
    let of_file_system = |is_like: &dyn Fn(&XfsIdentity) -> bool| {
        Ok(XfsIdentity::read(device, partition)?.is_some_and(|identity| is_like(&identity)))
    };
    match selector {
        Selector::Number(number) => Ok(partition.number == *number),
        Selector::Name(text) => Ok(partition.name == *text),
        Selector::UniqueId(text) => Ok(has_id(text)),
        Selector::Label(text) => of_file_system(&|found| found.label == text.as_bytes()),
        Selector::Uuid(text) => of_file_system(&|found| found.uuid.eq_ignore_ascii_case(text)),
        Selector::Any(text) => {
            if partition.name == *text || has_id(text) {
                return Ok(true);
            }
            of_file_system(&|found| found.label == text.as_bytes() || found.uuid.eq_ignore_ascii_case(text))
        }
    }
}
