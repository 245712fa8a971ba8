//! Threads in a directory that they share. Its final contents depend on the schedule, but: each name was created at most once
//! more often than it was removed; every block of a file is the work of one write; and all structures agree.

use std::{collections::BTreeMap, ops::ControlFlow};

use anyhow::{Context, Result, bail, ensure};
use uxfs_engine::{attribute::SetMode, bulk::create::NewKind};
use uxfs_filesystem::{
    file::{Touch, exchange::ExchangeRange, share::CloneRange, space::SizeChange},
    filesystem::FileSystem,
    inode::table::InodeHandle,
    operations::{create::NewFile, rename::RenameOptions, set_attributes::AttributeChanges},
};
use uxfs_format::units::InodeNumber;
use uxfs_volume::volume::Volume;
use uxfs_volume::{
    error::{Error, OperationError},
    inode::FileType,
};

use super::Tally;
use crate::crash::{tree::Tree, workload::OperationKind};
use uxfs_testkit::seeds::Random;

const DIRECTORIES: u64 = 4;
const NAMES: u64 = 16;
/// Writes and all else are of whole such blocks, each of which holds one byte over and over.
const BLOCK: u64 = 4096;
const FILE_BLOCKS: u64 = 24;

/// For each name: how often an operation that succeeded added it, less how often one removed it.
pub type Balance = BTreeMap<(usize, Vec<u8>), i64>;

/// The directories.
#[derive(Debug)]
pub struct Shared {
    directories: Vec<InodeNumber>,
    has_clones: bool,
    has_exchanges: bool,
}

type Name = (usize, Vec<u8>);

impl Shared {
    pub(super) fn new(
        file_system: &FileSystem,
        top: &InodeHandle,
        is_supported: impl Fn(OperationKind) -> bool,
    ) -> Result<Self> {
        let mut directories = vec![top.number()];
        for number in 1..DIRECTORIES {
            let name = format!("directory-{number}").into_bytes();
            let new = NewFile::new(NewKind::Directory, 0o755);
            directories.push(file_system.create(top, &name, &new)?.number());
        }
        let has_clones = is_supported(OperationKind::Clone);
        Ok(Self { directories, has_clones, has_exchanges: is_supported(OperationKind::Exchange) })
    }

    pub(super) fn step(
        &self,
        file_system: &FileSystem,
        random: &mut Random,
        balance: &mut Balance,
        tally: &mut Tally,
    ) -> Result<()> {
        let result = match random.below(20) {
            0..11 => self.change_names(file_system, random, balance),
            _ => self.change_file(file_system, random),
        };
        match result {
            Ok(()) => Ok(()),
            Err(Error::Operation(OperationError::NoSpace)) => {
                tally.no_space += 1;
                Ok(())
            }
            Err(Error::Operation(
                OperationError::Exists
                | OperationError::NotFound
                | OperationError::IsADirectory
                | OperationError::NotADirectory
                | OperationError::NotPermitted
                | OperationError::NotEmpty
                | OperationError::IntoItself
                | OperationError::WrongFileType
                | OperationError::NoSuchAttribute
                | OperationError::InvalidArgument
                | OperationError::InvalidRange
                | OperationError::FileTooLarge,
            )) => {
                tally.refused += 1;
                Ok(())
            }
            Err(error) => Err(error).context("in the shared directory"),
        }
    }

    fn name(&self, random: &mut Random) -> Name {
        let directory = random.below(self.directories.len() as u64) as usize;
        let length = if random.below(5) == 0 { 90 } else { 2 };
        (directory, vec![b'a' + random.below(NAMES) as u8; length])
    }

    fn open(&self, file_system: &FileSystem, name: &Name) -> Result<InodeHandle, Error> {
        file_system.open(self.directories[name.0])
    }

    fn change_names(
        &self,
        file_system: &FileSystem,
        random: &mut Random,
        balance: &mut Balance,
    ) -> Result<(), Error> {
        let (old, new) = (self.name(random), self.name(random));
        let (from, to) = (self.open(file_system, &old)?, self.open(file_system, &new)?);
        let mut note = |name: &Name, change: i64| *balance.entry(name.clone()).or_default() += change;
        let regular = NewFile::new(NewKind::Regular, 0o644);
        match random.below(12) {
            0..3 => {
                file_system.create(&from, &old.1, &regular)?;
                note(&old, 1);
            }
            3 => {
                file_system.create(&from, &old.1, &NewFile::new(NewKind::Directory, 0o755))?;
                note(&old, 1);
            }
            4 => {
                let target = vec![b't'; 1 + random.below(1000) as usize];
                file_system.create(&from, &old.1, &NewFile::new(NewKind::Symlink(&target), 0o777))?;
                note(&old, 1);
            }
            5 | 6 => {
                file_system.unlink(&from, &old.1)?;
                note(&old, -1);
            }
            7 => {
                file_system.remove_directory(&from, &old.1)?;
                note(&old, -1);
            }
            8 => {
                let file = file_system.find(&from, &old.1)?;
                file_system.link(&file, &to, &new.1)?;
                note(&new, 1);
            }
            9 => {
                let options = RenameOptions { no_replace: true, ..RenameOptions::default() };
                file_system.rename(&from, &old.1, &to, &new.1, &options)?;
                note(&old, -1);
                note(&new, 1);
            }
            10 => {
                let options = RenameOptions { exchange: true, ..RenameOptions::default() };
                file_system.rename(&from, &old.1, &to, &new.1, &options)?;
            }
            _ => {
                let file = file_system.create_temporary(&from, &regular, true)?;
                if random.below(2) == 0 {
                    file_system.link(&file, &to, &new.1)?;
                    note(&new, 1);
                }
                drop(file);
                file_system.inactivate_pending()?;
            }
        }
        Ok(())
    }

    fn change_file(&self, file_system: &FileSystem, random: &mut Random) -> Result<(), Error> {
        let (first, second) = (self.name(random), self.name(random));
        let file = file_system.find(&self.open(file_system, &first)?, &first.1)?;
        let (start, count) = (random.below(FILE_BLOCKS), 1 + random.below(5));
        let (offset, length) = (start * BLOCK, count * BLOCK);
        let touch = Touch::NOTHING;
        match random.below(14) {
            0..4 => {
                let mut bytes = Vec::with_capacity(length as usize);
                for _ in 0..count {
                    bytes.resize(bytes.len() + BLOCK as usize, random.next_u64() as u8);
                }
                file_system.write(&file, offset, &bytes, touch).map(drop)
            }
            4 => file_system.set_size(&file, offset, touch),
            5 => file_system.punch_range(&file, offset, length, touch),
            6 => file_system.zero_range(&file, offset, length, SizeChange::Grow, touch),
            7 => file_system.allocate_range(&file, offset, length, SizeChange::Keep, touch),
            8 => file_system.collapse_range(&file, offset, length, touch),
            9 if file.read().size_bytes() < 4 * FILE_BLOCKS * BLOCK => {
                file_system.insert_range(&file, offset, length, touch)
            }
            10 if self.has_clones => {
                let other = file_system.find(&self.open(file_system, &second)?, &second.1)?;
                let target_bytes = random.below(FILE_BLOCKS) * BLOCK;
                let range = CloneRange { source_bytes: offset, target_bytes, length_bytes: length };
                file_system.clone_range(&file, &other, &range, touch).map(drop)
            }
            11 if self.has_exchanges => {
                let other = file_system.find(&self.open(file_system, &second)?, &second.1)?;
                let range = ExchangeRange {
                    first_bytes: offset,
                    second_bytes: offset,
                    length_bytes: length,
                    ..ExchangeRange::default()
                };
                file_system.exchange_files(&file, &other, &range, touch)
            }
            12 => {
                let name = format!("trusted.{}", random.below(20)).into_bytes();
                if random.below(3) == 0 {
                    return file_system.remove_xattr(&file, &name);
                }
                let lengths = [0, 30, 400, 5000, 40_000];
                let value = vec![7; lengths[random.below(5) as usize]];
                file_system.set_xattr(&file, &name, &value, SetMode::Upsert)
            }
            _ => {
                let permissions = Some(0o600 | random.below(0o200) as u16);
                let changes = AttributeChanges { permissions, ..AttributeChanges::default() };
                file_system.set_attributes(&file, &changes)?;
                read_whole(file_system, &file, random)
            }
        }
    }

    /// Names and contents are what the rules say; without a balance after a crash, when only contents are looked at.
    pub(super) fn check(&self, file_system: &Volume, balance: Option<&Balance>) -> Result<()> {
        let tree = Tree::read_below(file_system, self.directories[0]).context("the shared directory")?;
        for (number, found) in &tree.files {
            ensure!(found.facts.kind == FileType::Regular || found.contents.is_empty(), "inode {number}");
            for (index, block) in found.contents.chunks(BLOCK as usize).enumerate() {
                if let Some(at) = block.iter().position(|byte| *byte != block[0]) {
                    bail!("inode {number}: block {index} is of two writes, from byte {at} on");
                }
            }
        }
        for (number, names) in self.directories.iter().enumerate() {
            let found = tree.files.get(&names.get()).context("a directory has gone")?;
            for ((_, name), sum) in balance.into_iter().flatten().filter(|((index, _), _)| *index == number) {
                let is_there = found.facts.names.contains_key(&uxfs_testkit::manifest::Bytes(name.clone()));
                let name = name.escape_ascii();
                ensure!(i64::from(is_there) == *sum, "{name} in directory {number} came {sum} times");
            }
        }
        Ok(())
    }
}

/// Reads a file while others change it: each block of one read is the work of one write.
fn read_whole(file_system: &FileSystem, file: &InodeHandle, random: &mut Random) -> Result<(), Error> {
    if file.read().file_type() != Some(FileType::Regular) {
        return Ok(());
    }
    let mut block = vec![0; BLOCK as usize];
    let offset = random.below(FILE_BLOCKS) * BLOCK;
    let length = file_system.read(file, offset, &mut block)?;
    let is_one = block[..length].iter().all(|byte| *byte == block[0]);
    assert!(is_one, "a block that was read is of two writes");
    let mut entries = 0_u64;
    let _ = file_system.open_root().map(|root| {
        file_system.read_entries(&root, 0, |_| {
            entries += 1;
            ControlFlow::Continue(())
        })
    })?;
    Ok(())
}
