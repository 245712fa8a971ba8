//! Every kind of operation at every level of fullness: what is refused has changed nothing, what is not is done, and whatever
//! the level, names can be removed.

use std::{fmt, sync::Arc};

use anyhow::{Context, Result, anyhow, bail, ensure};
use uxfs_filesystem::filesystem::FileSystem;
use uxfs_filesystem::mount;
use uxfs_volume::error::{Error, OperationError};

use super::{
    consistency,
    fill::{Fillers, is_just, is_partly_zeroed},
    generator::Generator,
    image::{Image, ImageDevice},
    model::Model,
    run::Setup,
    tree::{Tree, facts_of},
    volume::{Volume, mount_options},
    workload::{Operation, OperationKind, Reshape},
};
use uxfs_testkit::seeds::Random;

/// Operations that there are before the file system is filled.
const OPERATIONS: usize = 250;
/// Operations of each kind at each level.
const ROUNDS: usize = 2;
/// Names that are removed from a full file system.
const REMOVED: usize = 24;

/// Counts.
#[derive(Debug, Clone, Copy, Default)]
pub struct SweepTally {
    /// Levels tried.
    pub levels: u64,
    /// Operations that were done.
    pub done: u64,
    /// Writes that were done in part.
    pub in_part: u64,
    /// Operations that found no space.
    pub refused: u64,
    /// Names that were removed from full file systems.
    pub removed: u64,
}

impl fmt::Display for SweepTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} levels: {} operations done, {} of them writes in part, {} refused; {} names removed from full file systems",
            self.levels, self.done, self.in_part, self.refused, self.removed
        )
    }
}

/// Something to be filled.
#[derive(Debug)]
pub struct Sweep {
    setup: Setup,
    image: Image,
    model: Model,
}

impl Sweep {
    /// Makes a file system with something in it, of the shape, seed and mode of `setup`.
    ///
    /// # Errors
    /// The file system fails.
    pub fn new(setup: &Setup) -> Result<Self> {
        let device = Arc::new(ImageDevice::new(setup.shape.make()?));
        let file_system = FileSystem::mount_logged(device.clone(), &setup.mount_options())?;
        let model = Model::new(facts_of(&file_system, &*file_system.root()?)?);
        let mut level = Level::new(setup, &file_system, model, 0);
        for _ in 0..OPERATIONS {
            let operation = level.generator.next(&level.model);
            level.perform(operation)?;
        }
        level.close()?;
        let model = level.model;
        drop(level.volume);
        file_system.close()?;
        Ok(Self { setup: setup.clone(), image: device.image(), model })
    }

    /// Leaves `free_blocks` blocks and tries everything. Gives the image that is left, closed, for outside judges.
    ///
    /// # Errors
    /// An operation was done in part, or names could not be removed, or the file system contradicts itself.
    pub fn level(&self, free_blocks: u64, tally: &mut SweepTally) -> Result<Image> {
        let context = || format!("{} with {free_blocks} free blocks", self.setup);
        let device = Arc::new(ImageDevice::new(self.image.clone()));
        let file_system = FileSystem::mount_logged(device.clone(), &self.setup.mount_options())?;
        let mut level = Level::new(&self.setup, &file_system, self.model.clone(), 1 + free_blocks);
        level.fill(free_blocks).with_context(context)?;
        for _ in 0..ROUNDS {
            level.every_kind().with_context(context)?;
        }
        level.fill(0).with_context(context)?;
        level.remove_names().with_context(context)?;
        level.close()?;
        is_just(&file_system, &level.model).with_context(context)?;
        tally.levels += 1;
        tally.done += level.tally.done;
        tally.in_part += level.tally.in_part;
        tally.refused += level.tally.refused;
        tally.removed += level.tally.removed;
        drop(level);
        file_system.close().with_context(context)?;
        let image = device.image();
        let clean = mount::open_volume(Arc::new(ImageDevice::read_only(image.clone())), &mount_options(4))?;
        let tree = Tree::read(&clean).with_context(context)?;
        consistency::check(&clean, &tree).with_context(context)?;
        Ok(image)
    }
}

struct Level<'a> {
    file_system: &'a FileSystem,
    volume: Volume<'a>,
    generator: Generator,
    model: Model,
    random: Random,
    number: usize,
    tally: SweepTally,
}

impl<'a> Level<'a> {
    fn new(setup: &Setup, file_system: &'a FileSystem, model: Model, number: u64) -> Self {
        let seed = setup.seed.wrapping_mul(1_000_003).wrapping_add(number);
        let mut generator = Generator::new(seed, |kind| setup.shape.allows(kind));
        generator.skip_names(if number == 0 { 0 } else { 100_000 });
        Self {
            file_system,
            volume: Volume::new(file_system),
            generator,
            random: Random::new(seed),
            number: model.made(),
            model,
            tally: SweepTally::default(),
        }
    }

    /// Does it, or finds that it was refused and nothing has changed. Whether it was done.
    fn perform(&mut self, operation: Operation) -> Result<bool> {
        let number = self.number;
        self.number += 1;
        match self.volume.perform(number, &operation, &self.model) {
            Ok(outcome) => {
                self.tally.in_part += u64::from(outcome.written.is_some());
                let operation = operation.as_done(&outcome);
                self.model.apply(number, &operation, outcome);
                self.tally.done += 1;
                if let Operation::Sync | Operation::SyncFile { .. } = operation {
                    self.file_system.force()?;
                }
                Ok(true)
            }
            Err(Error::Operation(OperationError::NoSpace)) => {
                if let Operation::Reshape { how: Reshape::Zero | Reshape::Punch, node, .. } = operation {
                    is_partly_zeroed(self.file_system, &self.model, &operation)
                        .with_context(|| format!("operation {number} found no space: {operation:?}"))?;
                    self.tally.refused += 1;
                    // What it holds now is known again then.
                    self.perform(Operation::Truncate { node, size: 0 })?;
                    return Ok(false);
                }
                is_just(self.file_system, &self.model)
                    .with_context(|| format!("operation {number} found no space: {operation:?}"))?;
                self.tally.refused += 1;
                Ok(false)
            }
            Err(error) => Err(anyhow!(error).context(format!("operation {number}: {operation:?}"))),
        }
    }

    /// Takes space until so many blocks are left, or no more is given.
    fn fill(&mut self, free_blocks: u64) -> Result<()> {
        let mut fillers = Fillers::new(free_blocks);
        while let Some(operation) = fillers.next(self.file_system, &self.model, &mut self.random) {
            if !self.perform(operation)? {
                break;
            }
        }
        Ok(())
    }

    fn every_kind(&mut self) -> Result<()> {
        let mut kinds: Vec<OperationKind> = self.generator.supported().collect();
        while !kinds.is_empty() {
            let kind = kinds.swap_remove(self.random.below(kinds.len() as u64) as usize);
            let Some(operation) = self.generator.of_kind(kind, &self.model) else { continue };
            self.perform(operation)?;
        }
        is_just(self.file_system, &self.model)
    }

    /// Removing names is never refused.
    fn remove_names(&mut self) -> Result<()> {
        for _ in 0..REMOVED {
            let Some(operation) = self.generator.of_kind(OperationKind::Remove, &self.model) else { break };
            let text = format!("{operation:?}");
            ensure!(self.perform(operation)?, "refused on a full file system: {text}");
            self.tally.removed += 1;
        }
        if self.tally.removed == 0 {
            bail!("there was nothing to remove");
        }
        is_just(self.file_system, &self.model)
    }

    fn close(&mut self) -> Result<()> {
        self.volume.close_all()?;
        self.model.close_all();
        Ok(())
    }
}
