//! A thread with a directory of its own and a model of it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
};

use anyhow::{Context, Result, anyhow};
use uxfs_filesystem::filesystem::FileSystem;
use uxfs_format::units::InodeNumber;
use uxfs_volume::{
    error::{Error, OperationError},
    inode::FileType,
};

use super::{
    Tally,
    shared::{Balance, Shared},
};
use crate::crash::{
    generator::Generator,
    judge::Chronicle,
    model::{Facts, Model},
    states::Promise,
    tree::Tree,
    volume::Volume,
    workload::{Operation, OperationKind},
};
use uxfs_testkit::seeds::Random;

/// Operations of different threads have different numbers, so that contents say whose they are.
const NUMBERS: usize = 60_000;

/// How far a thread is.
#[derive(Debug, Default)]
pub struct Marks {
    begun: AtomicUsize,
    synced: AtomicUsize,
}

impl Marks {
    /// Operations that have begun.
    pub fn begun(&self) -> usize {
        self.begun.load(SeqCst)
    }

    /// Operations that are durable.
    pub fn synced(&self) -> usize {
        self.synced.load(SeqCst)
    }
}

/// One thread.
#[derive(Debug)]
pub struct Member {
    number: usize,
    directory: InodeNumber,
    generator: Generator,
    random: Random,
    marks: Arc<Marks>,
    /// The expected directory after each operation.
    pub chronicle: Chronicle,
}

impl Member {
    pub(super) fn new(
        number: usize,
        directory: InodeNumber,
        seed: u64,
        is_supported: impl Fn(OperationKind) -> bool,
    ) -> Self {
        let start = number * NUMBERS;
        let model = Model::new(Facts::new(directory.get(), FileType::Directory, 0o755, (0, 0)));
        Self {
            number,
            directory,
            generator: Generator::new(seed, is_supported),
            random: Random::new(seed ^ 0x5ba2ed),
            marks: Arc::new(Marks { begun: start.into(), synced: start.into() }),
            chronicle: Chronicle::new(start, model),
        }
    }

    pub(super) fn marks(&self) -> Arc<Marks> {
        Arc::clone(&self.marks)
    }

    pub(super) fn work(
        &mut self,
        file_system: &FileSystem,
        shared: &Shared,
        balance: &mut Balance,
        operations: usize,
        is_over: &AtomicBool,
    ) -> Result<Tally> {
        let volume = Volume::new(file_system);
        let mut tally = Tally::default();
        for _ in 0..operations {
            if is_over.load(SeqCst) {
                break;
            }
            if self.random.below(4) == 0 {
                shared.step(file_system, &mut self.random, balance, &mut tally)?;
                tally.shared += 1;
            }
            self.step(file_system, &volume, &mut tally)
                .with_context(|| format!("thread {}, operation {}", self.number, self.chronicle.done()))?;
            tally.own += 1;
        }
        // What is open without a name goes with the thread.
        volume.close_all()?;
        let mut model = self.chronicle.last().clone();
        model.close_all();
        self.marks.begun.store(self.chronicle.done() + 1, SeqCst);
        self.chronicle.push(Operation::Sync, model);
        Ok(tally)
    }

    fn step(&mut self, file_system: &FileSystem, volume: &Volume<'_>, tally: &mut Tally) -> Result<()> {
        let number = self.chronicle.done();
        let mut model = self.chronicle.last().clone();
        let operation = self.generator.next(&model);
        self.marks.begun.store(number + 1, SeqCst);
        let outcome = match volume.perform(number, &operation, &model) {
            Ok(outcome) => outcome,
            // Nothing has changed then.
            Err(Error::Operation(OperationError::NoSpace)) => {
                tally.no_space += 1;
                self.chronicle.push(Operation::Sync, model);
                return Ok(());
            }
            Err(error) => return Err(anyhow!(error).context(format!("{operation:?}"))),
        };
        model.apply(number, &operation, outcome);
        let is_sync = matches!(operation, Operation::Sync | Operation::SyncFile { .. });
        self.chronicle.push(operation, model);
        if is_sync {
            file_system.force()?;
            self.marks.synced.store(number + 1, SeqCst);
        }
        Ok(())
    }

    /// The directory is as after one number of operations within what was promised. Gives which.
    ///
    /// # Errors
    /// It is like after none.
    pub fn check(&self, file_system: &uxfs_volume::volume::Volume, promise: &Promise) -> Result<usize> {
        let tree = Tree::read_below(file_system, self.directory)
            .with_context(|| format!("the directory of thread {}", self.number))?;
        let done = self.chronicle.judge(&tree, promise);
        done.map_err(|difference| anyhow!("thread {}: {difference}", self.number))
    }
}
