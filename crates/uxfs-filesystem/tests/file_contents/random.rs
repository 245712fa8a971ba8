//! Random sequences of operations beside a model, on file systems of many kinds.

use std::sync::Arc;

use uxfs_engine::{inode::edit::EditInode, options::LogOptions, transaction::Transaction};
use uxfs_filesystem::{
    file::{Touch, exchange::ExchangeRange, share::CloneRange, space::SizeChange},
    filesystem::FileSystem,
};
use uxfs_testkit::{
    image::{TestImage, file},
    judges::{Judge, judged},
    require,
};
use uxfs_volume::error::{Error, OperationError};

use super::{Random, linux_reads, linux_recovers, model::Model};

const FILES: usize = 5;

/// What `mkfs.xfs` is told, MiB of the image, most blocks of a file.
pub const KINDS: &[(&str, u64, usize, &[&str])] = &[
    ("default", 320, 300, &[]),
    ("block-1k", 320, 600, &["-b", "size=1024"]),
    ("block-64k", 700, 40, &["-b", "size=65536"]),
    ("no-reverse-map", 320, 300, &["-m", "rmapbt=0"]),
    ("no-reflink", 320, 300, &["-m", "reflink=0,rmapbt=0", "-n", "parent=0", "-i", "exchange=0"]),
];

/// Files under test, as they lie in memory.
pub struct World<'fs> {
    pub file_system: &'fs FileSystem,
    pub inodes: Vec<EditInode>,
    pub models: Vec<Model>,
    pub random: Random,
    block: usize,
    most_blocks: usize,
    /// Operations that this run does not try.
    without: u32,
    operation: usize,
    /// How often each operation did what it should.
    pub done: [u64; 16],
    pub refused: u64,
    pub full: u64,
}

fn is(error: &Error, expected: OperationError) -> bool {
    matches!(error, Error::Operation(found) if *found == expected)
}

impl<'fs> World<'fs> {
    pub fn new(file_system: &'fs FileSystem, models: Vec<Model>, most_blocks: usize, seed: u64) -> Self {
        let mut tx = Transaction::begin(file_system).unwrap();
        let load = |index| tx.load_inode(file(file_system, index)).unwrap();
        let inodes = (0..models.len()).map(load).collect();
        let block = file_system.geometry().block_size();
        let mut random = Random::new(seed);
        let without = (random.below(1 << 16) & random.below(1 << 16)) as u32;
        Self {
            file_system,
            inodes,
            models,
            random,
            block,
            most_blocks,
            without,
            operation: 0,
            done: [0; 16],
            refused: 0,
            full: 0,
        }
    }

    fn below(&mut self, end: usize) -> usize {
        self.random.below(end.max(1) as u64) as usize
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        /// After so many they come again.
        const PERIOD: usize = 3 * 200 * 7;
        let seed = self.random.below(251) as usize;
        let byte = |index| (1 + (seed + index / 3 + index % 7) % 200) as u8;
        let mut bytes = (0..PERIOD.min(length)).map(byte).collect::<Vec<_>>().repeat(length.div_ceil(PERIOD));
        bytes.truncate(length);
        bytes
    }

    /// Any offset and length, often at the edges of blocks.
    fn range(&mut self) -> (usize, usize) {
        let most = self.most_blocks * self.block;
        let near = |world: &mut Self, value: usize| match world.below(4) {
            0 => value / world.block * world.block,
            1 => (value / world.block * world.block).saturating_sub(world.below(3)),
            _ => value,
        };
        let offset = self.below(most);
        let offset = near(self, offset);
        let longest = match self.below(4) {
            0 => 100,
            1 => 3 * self.block,
            2 => 20 * self.block,
            _ => most / 2,
        };
        let length = 1 + self.below(longest);
        let length = near(self, length).max(1);
        (offset, length.min(most - offset.min(most - 1)))
    }

    fn aligned(&mut self) -> (usize, usize) {
        let offset = self.below(self.most_blocks) * self.block;
        let length = (1 + self.below(self.most_blocks / 4)) * self.block;
        (offset, length.min(self.most_blocks * self.block - offset))
    }

    fn size_change(&mut self) -> SizeChange {
        if self.below(2) == 0 { SizeChange::Keep } else { SizeChange::Grow }
    }

    /// One operation.
    pub fn step(&mut self) {
        let operation = self.below(16);
        if self.without >> operation & 1 == 1 {
            return;
        }
        self.operation = operation;
        let index = self.below(self.models.len());
        let (old, block) = (self.models[index].clone(), self.block);
        let mut new = old.clone();
        let (offset, length) = self.range();
        let touch = Touch::at(self.file_system.now());
        let (start, whole) = self.aligned();
        let size = self.size_change();
        let grown = |model: &mut Model, end: usize| {
            if size == SizeChange::Grow && end > model.size() {
                model.resize(end, block);
            }
        };
        let mut expected = None;
        let result: Result<(), Error> = match operation {
            0..=3 => {
                // In order, as one appends, or anywhere.
                let (offset, length) = match operation {
                    0 => (old.size(), 1 + length % (2 * block)),
                    _ => (offset, length),
                };
                let length = length.min((self.most_blocks * block).saturating_sub(offset));
                let bytes = self.bytes(length);
                let inode = &mut self.inodes[index];
                let written = self.file_system.edit_file(inode).unwrap().write(offset as u64, &bytes, touch);
                written.map(|count| {
                    assert!(count == length || self.full > 0 || self.file_system.free_blocks() < 4000);
                    new.write(offset, &bytes[..count], block);
                })
            }
            4 | 5 => {
                let size = if operation == 4 { offset.min(old.size()) } else { offset };
                new.resize(size, block);
                self.edit(index).set_size(size as u64, touch)
            }
            6 => {
                grown(&mut new, offset + length);
                self.edit(index).allocate_range(offset as u64, length as u64, size, touch)
            }
            7 => {
                new.clear(offset, length, block);
                self.edit(index).punch(offset as u64, length as u64, touch)
            }
            8 => {
                new.clear(offset, length, block);
                grown(&mut new, offset + length);
                self.edit(index).zero_range(offset as u64, length as u64, size, touch)
            }
            9 => {
                if start + whole >= old.size() {
                    expected = Some(OperationError::InvalidRange);
                } else {
                    new.collapse(start, whole, block);
                }
                self.edit(index).collapse(start as u64, whole as u64, touch)
            }
            10 => {
                let whole = whole.min((self.most_blocks * block).saturating_sub(old.size()) / block * block);
                if start >= old.size() || whole == 0 {
                    expected = Some(OperationError::InvalidRange);
                } else {
                    new.insert(start, whole, block);
                }
                self.edit(index).insert(start as u64, whole as u64, touch)
            }
            11 => self.edit(index).unshare(offset as u64, length as u64, SizeChange::Keep, touch),
            12 | 13 => return self.clone_range(index),
            14 => return self.exchange(index),
            _ => return self.settle(index),
        };
        self.judge(index, result, expected, old, new);
    }

    fn edit(&mut self, index: usize) -> uxfs_filesystem::file::FileEdit<'_> {
        self.file_system.edit_file(&mut self.inodes[index]).unwrap()
    }

    /// Takes the result of an operation on one file.
    fn judge(
        &mut self,
        index: usize,
        result: Result<(), Error>,
        expected: Option<OperationError>,
        old: Model,
        new: Model,
    ) {
        match (result, expected) {
            (Ok(()), None) => {
                self.models[index] = new;
                self.done[self.operation] += 1;
            }
            (Err(error), Some(expected)) => {
                assert!(is(&error, expected), "{error:?} instead of {expected:?}");
                self.refused += 1;
            }
            (Err(error), None) if is(&error, OperationError::NoSpace) => self.settle_for(index, &old, &new),
            (result, expected) => panic!("{result:?}, expected {expected:?}"),
        }
        self.check_some(index);
    }

    /// An operation found no space, perhaps in the middle: each byte must be as it was or as it should have become.
    fn settle_for(&mut self, index: usize, old: &Model, new: &Model) {
        self.full += 1;
        let inode = &self.inodes[index];
        let size = inode.size_bytes() as usize;
        assert!(size >= old.size().min(new.size()) && size <= old.size().max(new.size()));
        let mut bytes = vec![0xee; size];
        assert_eq!(self.file_system.read_file(inode, 0, &mut bytes).unwrap(), size);
        let mut found = Model { bytes, is_data: Vec::new() };
        found.resize(size, self.block);
        for (number, bytes) in found.bytes.chunks(self.block).enumerate() {
            let at = number * self.block;
            if old.holds(at, bytes) || new.holds(at, bytes) {
                continue;
            }
            for (at, byte) in (at..).zip(bytes) {
                let is_known = |model: &Model| model.bytes.get(at).copied().unwrap_or(0) == *byte;
                assert!(is_known(old) || is_known(new), "byte {at} is {byte}");
            }
        }
        for block in 0..found.is_data.len() {
            let offset = (block * self.block) as u64;
            found.is_data[block] = self.file_system.seek_data(inode, offset).is_ok_and(|data| data == offset);
        }
        self.models[index] = found;
    }

    fn clone_range(&mut self, source: usize) {
        let target = self.below(self.models.len());
        let (block, most) = (self.block, self.most_blocks * self.block);
        let (from, mut length) = self.aligned();
        let to = if self.below(3) == 0 { from } else { self.below(self.most_blocks) * block };
        let model = self.models[source].clone();
        let left = model.size().saturating_sub(from);
        if self.below(2) == 0 {
            length = left;
        }
        let old = self.models[target].clone();
        let mut expected = None;
        if !self.file_system.geometry().features.has_reflink() {
            expected = Some(OperationError::CannotShare);
        } else if from > model.size()
            || length > left
            || !(length.is_multiple_of(block) || length == left && to + length >= old.size())
            || (source == target && from.abs_diff(to) < length.next_multiple_of(block))
        {
            expected = Some(OperationError::InvalidRange);
        } else if to + length > most + block {
            return;
        }
        if length == 0 {
            return;
        }
        let range =
            CloneRange { source_bytes: from as u64, target_bytes: to as u64, length_bytes: length as u64 };
        let touch = Touch::at(self.file_system.now());
        let mut new = old.clone();
        let is_dedupe = expected.is_none() && self.below(8) == 0 && to + length <= old.size();
        let file_system = self.file_system;
        let result = if source == target {
            file_system.edit_file(&mut self.inodes[target]).unwrap().clone_from(None, &range, touch)
        } else {
            let (one, other) = pair(&mut self.inodes, source, target);
            let mut edit = file_system.edit_file(other).unwrap();
            if is_dedupe {
                let is_equal = old.bytes[to..to + length] == model.bytes[from..from + length];
                match edit.share_if_equal(Some(one), &range) {
                    Ok(shared) => {
                        assert_eq!(shared, is_equal);
                        if shared {
                            new.put(to, &model, from, length, block);
                            self.models[target] = new;
                        }
                    }
                    Err(error) => {
                        assert!(is(&error, OperationError::NoSpace), "{error:?}");
                        new.put(to, &model, from, length, block);
                        self.settle_for(target, &old, &new);
                    }
                }
                self.check_some(target);
                return;
            }
            edit.clone_from(Some(one), &range, touch)
        };
        let result = result.map(|count| {
            let count = count as usize;
            assert!(count == length || self.full > 0 || self.file_system.free_blocks() < 4000);
            new.put(to, &model, from, count, block);
        });
        if result.is_err() && expected.is_none() {
            new.put(to, &model, from, length, block);
        }
        self.judge(target, result, expected, old, new);
    }

    fn exchange(&mut self, first: usize) {
        let second = (first + 1 + self.below(self.models.len() - 1)) % self.models.len();
        let (block, to_end) = (self.block, self.below(3) == 0);
        let (start, mut length) = self.aligned();
        let other_start = if self.below(2) == 0 { start } else { self.below(self.most_blocks) * block };
        let olds = [self.models[first].clone(), self.models[second].clone()];
        let left = [olds[0].size().checked_sub(start), olds[1].size().checked_sub(other_start)];
        let mut expected = None;
        let features = &self.file_system.geometry().features;
        let can = features.incompatible.contains(uxfs_format::features::Incompatible::EXCHANGE_RANGE);
        if let ([Some(one), Some(other)], true) = (left, can) {
            if to_end {
                if start + other > self.most_blocks * block || other_start + one > self.most_blocks * block {
                    return;
                }
                length = one.max(other);
            } else {
                length = length.min(one).min(other);
                let is_end = length == one && length == other;
                if !length.is_multiple_of(block) && !is_end {
                    expected = Some(OperationError::InvalidRange);
                }
            }
        } else {
            let error = if can { OperationError::InvalidRange } else { OperationError::CannotExchange };
            expected = Some(error);
        }
        let only_written = !to_end && self.below(3) == 0;
        let range = ExchangeRange {
            first_bytes: start as u64,
            second_bytes: other_start as u64,
            length_bytes: length as u64,
            to_end,
            only_written,
            dry_run: false,
            without_intents: false,
        };
        let touch = Touch::at(self.file_system.now());
        let file_system = self.file_system;
        let (one, other) = pair(&mut self.inodes, first, second);
        let dry = ExchangeRange { dry_run: true, ..range };
        let would = file_system.exchange_range(one, Some(other), &dry, touch).is_ok();
        let result = file_system.exchange_range(one, Some(other), &range, touch);
        assert_eq!(would, result.is_ok());
        match (result, expected) {
            (Ok(()), None) => self.done[self.operation] += 1,
            (Err(error), Some(expected)) => {
                assert!(is(&error, expected), "{error:?}");
                self.refused += 1;
                return;
            }
            (Err(error), None) if is(&error, OperationError::NoSpace) => {
                self.full += 1;
                self.check_all();
                return;
            }
            (result, expected) => panic!("{result:?}, expected {expected:?}"),
        }
        if length == 0 {
            return;
        }
        let mut news = olds.clone();
        if to_end {
            let (one, other) = (left[0].unwrap(), left[1].unwrap());
            news[0].resize(start, block);
            news[0].put(start, &olds[1], other_start, other, block);
            news[1].resize(other_start, block);
            news[1].put(other_start, &olds[0], start, one, block);
        } else {
            for at in (0..length).step_by(block) {
                if only_written && !olds[0].is_data[(start + at) / block] {
                    continue;
                }
                let length = block.min(length - at);
                news[0].put(start + at, &olds[1], other_start + at, length, block);
                news[1].put(other_start + at, &olds[0], start + at, length, block);
            }
        }
        let [one, other] = news;
        self.models[first] = one;
        self.models[second] = other;
        self.check_some(first);
        self.check_some(second);
    }

    /// A file is closed, and opened again.
    fn settle(&mut self, index: usize) {
        self.edit(index).free_preallocation().unwrap();
        let number = self.inodes[index].number;
        let mut tx = Transaction::begin(self.file_system).unwrap();
        let loaded = tx.load_inode(number).unwrap();
        drop(tx);
        assert_eq!(loaded.data, self.inodes[index].data);
        self.inodes[index] = loaded;
        self.check_some(index);
    }

    /// Looks at some of a file's bytes, and asks where its data is.
    fn check_some(&mut self, index: usize) {
        let (offset, length) = self.range();
        self.check(index, offset, length);
        let size = self.models[index].size();
        self.check(index, size.saturating_sub(2 * self.block), 4 * self.block);
        let model = &self.models[index];
        let inode = &self.inodes[index];
        assert_eq!(inode.size_bytes(), model.size() as u64);
        for data in [true, false] {
            let found = match data {
                true => self.file_system.seek_data(inode, offset as u64),
                false => self.file_system.seek_hole(inode, offset as u64),
            };
            match (found, model.seek(offset, data, self.block)) {
                (Ok(found), Some(expected)) => assert_eq!(found, expected as u64, "data: {data}"),
                (Err(error), None) => assert!(is(&error, OperationError::NoSuchOffset), "{error:?}"),
                (found, expected) => panic!("{found:?}, expected {expected:?}"),
            }
        }
    }

    fn check(&self, index: usize, offset: usize, length: usize) {
        let (model, mut bytes) = (&self.models[index], vec![0xee; length]);
        let count = self.file_system.read_file(&self.inodes[index], offset as u64, &mut bytes).unwrap();
        let expected = model.bytes.get(offset..).unwrap_or_default();
        let expected = &expected[..expected.len().min(length)];
        assert_eq!(count, expected.len());
        if bytes[..count] != *expected {
            let at = (0..count).find(|at| bytes[*at] != expected[*at]).unwrap();
            panic!("file {index}, byte {}: {} instead of {}", offset + at, bytes[at], expected[at]);
        }
    }

    pub fn check_all(&self) {
        for index in 0..self.models.len() {
            self.check(index, 0, self.models[index].size() + 100);
        }
    }
}

fn pair<T>(items: &mut [T], first: usize, second: usize) -> (&mut T, &mut T) {
    let [first, second] = items.get_disjoint_mut([first, second]).unwrap();
    (first, second)
}

/// How a round is mounted and ended.
#[derive(Debug, Clone, Copy)]
enum Round {
    Bulk,
    /// With the journal, closed in good order.
    Closed(LogOptions),
    /// With the journal, made durable and left as it is: the kernel recovers it.
    Crashed(LogOptions),
}

fn rounds() -> u64 {
    std::env::var("UXFS_MODEL_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(4)
}

impl Round {
    fn of(number: u64) -> Self {
        let large = LogOptions { record_size_bytes: 256 << 10, ..LogOptions::default() };
        match number % 5 {
            0 => Self::Bulk,
            1 => Self::Crashed(LogOptions::default()),
            2 => Self::Closed(LogOptions { has_background: true, ..large }),
            3 => Self::Crashed(LogOptions { is_immediate: true, ..LogOptions::default() }),
            _ => Self::Closed(large),
        }
    }

    fn mount(self, image: &TestImage) -> Arc<FileSystem> {
        match self {
            Self::Bulk => Arc::new(image.mount_bulk()),
            Self::Closed(log) | Self::Crashed(log) => image.mount_logged(log),
        }
    }

    fn end(self, file_system: Arc<FileSystem>, image: &TestImage, models: &[Model]) {
        let overruns = file_system.journal_counters().overruns;
        assert_eq!(overruns, 0, "steps took more of the log than they asked for");
        if let Self::Crashed(_) = self {
            file_system.force().unwrap();
            drop(file_system);
            linux_recovers(image, models);
        } else {
            file_system.close().unwrap();
            drop(file_system);
            linux_reads(image, models);
        }
        image.must_be_sound();
    }
}

#[test]
fn random_operations_beside_a_model() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    for (name, size, most_blocks, options) in KINDS {
        let image = TestImage::new(&format!("contents, {name}"), *size, options, FILES);
        let mut models = vec![Model::default(); FILES];
        let (mut done, mut refused) = ([0; 16], 0);
        let mut without = 0;
        for number in 0..rounds() {
            let round = Round::of(number);
            let seed = 0x5eed_0000 + number * 1000 + name.len() as u64;
            let file_system = round.mount(&image);
            let mut world = World::new(&file_system, models, *most_blocks, seed);
            // No operation is left out of two rounds in a row: each is done often enough.
            world.without &= !without;
            without = world.without;
            let steps = if matches!(round, Round::Crashed(log) if log.is_immediate) { 300 } else { 1500 };
            for number in 0..steps {
                world.step();
                if number % 250 == 0 {
                    world.check_all();
                }
            }
            world.check_all();
            done.iter_mut().zip(world.done).for_each(|(sum, count)| *sum += count);
            refused += world.refused;
            models = world.models;
            round.end(file_system, &image, &models);
        }
        let operations: u64 = done.iter().sum();
        // Otherwise this tests less than it says. What file systems cannot share is refused.
        let is_possible = |operation: &usize| *operation < 12 || *name != "no-reflink";
        for operation in (0..15).filter(is_possible) {
            assert!(done[operation] > 20, "{name}: operation {operation} was done {} times", done[operation]);
        }
        judged("model", &format!("{name}: {operations} operations, {refused} refused: {done:?}"));
    }
}
