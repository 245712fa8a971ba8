//! One crash state: recovered, read, compared.

use std::{
    collections::{HashSet, VecDeque},
    ops::ControlFlow,
    sync::Arc,
};

use anyhow::{Context, Result, anyhow, bail, ensure};
use uxfs_block::device::BlockDevice;
use uxfs_filesystem::mount;
use uxfs_filesystem::recovery;
use uxfs_volume::volume::Volume;

use super::{
    consistency,
    image::{Image, ImageDevice, mix},
    linux,
    recording::{History, RecordingDevice},
    run::{Depth, Recording},
    states::{CrashState, Plan, Promise, visit},
    team,
    tree::Tree,
    volume::mount_options,
};
use uxfs_testkit::seeds::Random;

/// Trees that are kept, because the same contents come again with another promise.
const KEPT_TREES: usize = 8;
const CACHE_MEBIBYTES: u64 = 4;

/// Whether a state had been there before, or after how many operations of each thread it is.
pub(super) enum Seen {
    Before,
    Now(Vec<usize>),
}

/// Counts of states that were examined more closely.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub carried: u64,
    pub crashed_recoveries: u64,
    pub linux: u64,
}

/// Judges the states of one recording.
pub(super) struct Examiner<'a> {
    recording: &'a Recording,
    depth: Depth,
    seen: HashSet<(u64, Vec<Promise>)>,
    trees: VecDeque<(u64, Arc<Vec<Tree>>)>,
    counts: Counts,
    random: Random,
}

impl<'a> Examiner<'a> {
    pub fn new(recording: &'a Recording, depth: &Depth) -> Self {
        Self {
            recording,
            depth: *depth,
            seen: HashSet::new(),
            trees: VecDeque::new(),
            counts: Counts::default(),
            random: Random::new(recording.setup.seed),
        }
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    pub fn judge(&mut self, state: &CrashState, promises: &[Promise]) -> Result<Seen> {
        let digest = state.image.digest();
        if !self.seen.insert((digest, promises.to_vec())) {
            return Ok(Seen::Before);
        }
        let trees = self.trees(&state.image)?;
        let done = self.done(&trees, promises)?;
        let carried = match self.is_due(state.number, self.depth.carry_every) {
            true => Some(self.carry(state, promises, &done)?),
            false => None,
        };
        if self.is_due(state.number.wrapping_add(1 << 32), self.depth.linux_every) && !state.is_torn_in_place
        {
            self.counts.linux += 1;
            let recovered = match carried {
                Some(recovered) => recovered,
                None => last_image(&recover_on_device(&state.image).context("recovery on the device")?),
            };
            linux::judge(&state.image, &recovered).context("Linux")?;
        }
        Ok(Seen::Now(done))
    }

    fn done(&self, trees: &[Tree], promises: &[Promise]) -> Result<Vec<usize>> {
        let lanes = self.recording.lanes.iter().zip(trees).zip(promises);
        lanes
            .map(|((lane, tree), promise)| {
                lane.chronicle.judge(tree, promise).map_err(|difference| anyhow!(difference.0))
            })
            .collect()
    }

    /// The trees after recovery in an overlay.
    fn trees(&mut self, image: &Image) -> Result<Arc<Vec<Tree>>> {
        let digest = image.digest();
        if let Some((_, tree)) = self.trees.iter().find(|(other, _)| *other == digest) {
            return Ok(Arc::clone(tree));
        }
        let tree = Arc::new(self.split(recover_in_overlay(image)?));
        self.trees.truncate(KEPT_TREES - 1);
        self.trees.push_front((digest, Arc::clone(&tree)));
        Ok(tree)
    }

    fn split(&self, tree: Tree) -> Vec<Tree> {
        team::split(tree, &self.recording.lanes)
    }

    /// Recovery on the device comes to the same, the same bytes each time, also when it is crashed in between.
    fn carry(&mut self, state: &CrashState, promises: &[Promise], done: &[usize]) -> Result<Image> {
        self.counts.carried += 1;
        let history = recover_on_device(&state.image).context("recovery on the device")?;
        let recovered = last_image(&history);
        let trees = self.split(read_clean(&recovered).context("after recovery on the device")?);
        ensure!(self.done(&trees, promises)? == done, "recovered on the device it is another state");
        let again = last_image(&recover_on_device(&state.image)?);
        self.same_bytes(&recovered, &again).context("recovered a second time")?;
        let unchanged = last_image(&recover_on_device(&recovered)?);
        ensure!(unchanged.digest() == recovered.digest(), "what was recovered is recovered again");
        self.crash_recovery(&history, promises, done)?;
        Ok(recovered)
    }

    /// About one number in so many, of each recording others.
    fn is_due(&self, number: u64, every: u64) -> bool {
        every != 0
            && mix(self.recording.setup.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
                .is_multiple_of(every)
    }

    /// But for the log: transactions have random numbers there, as in Linux.
    fn same_bytes(&self, one: &Image, other: &Image) -> Result<()> {
        match one.first_difference(other, &self.recording.log) {
            None => Ok(()),
            Some(at) => bail!("byte {at} is another"),
        }
    }

    fn crash_recovery(&mut self, history: &History, promises: &[Promise], done: &[usize]) -> Result<()> {
        let Recording { setup, .. } = self.recording;
        let plan =
            Plan { subsets: 2, torn: 1, sector_bytes: setup.shape.sector_bytes, ..self.recording.plan() };
        let states = history.changes() as u64 * 3 + 2;
        let (mut result, mut left) = (Ok(()), self.depth.crashes);
        let _ = visit(history, &plan, &mut |state| {
            let is_chosen = self.depth.crashes >= states || self.random.below(states) < self.depth.crashes;
            if !is_chosen || left == 0 {
                return ControlFlow::Continue(());
            }
            left -= 1;
            self.counts.crashed_recoveries += 1;
            result = recover_in_overlay(&state.image)
                .and_then(|tree| {
                    let found = self.done(&self.split(tree), promises)?;
                    ensure!(found == done, "it is the state after {found:?} operations, not {done:?}");
                    Ok(())
                })
                .with_context(|| format!("recovery crashed in state {} ({:?})", state.number, state.kind));
            if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        result
    }
}

fn device(image: &Image) -> Arc<dyn BlockDevice> {
    Arc::new(ImageDevice::read_only(image.clone()))
}

fn recover_in_overlay(image: &Image) -> Result<Tree> {
    let (file_system, _) = recovery::mount_recovered(&device(image), &mount_options(CACHE_MEBIBYTES))
        .map_err(|error| anyhow!("recovery: {error}"))?;
    read(&file_system)
}

/// The tree of a file system that must not need recovery.
fn read_clean(image: &Image) -> Result<Tree> {
    let file_system = mount::open_volume(device(image), &mount_options(CACHE_MEBIBYTES))?;
    read(&file_system)
}

fn read(file_system: &Volume) -> Result<Tree> {
    let tree = Tree::read(file_system).context("what was recovered cannot be read")?;
    consistency::check(file_system, &tree).context("what was recovered contradicts itself")?;
    Ok(tree)
}

fn recover_on_device(image: &Image) -> Result<History> {
    let recording = Arc::new(RecordingDevice::new(image.clone()));
    let device: Arc<dyn BlockDevice> = Arc::<RecordingDevice>::clone(&recording);
    let recovered = recovery::recover(&device, &mount_options(CACHE_MEBIBYTES), &mut ())?;
    recovered.map(recovery::Recovered::write).transpose()?;
    Ok(recording.history())
}

fn last_image(history: &History) -> Image {
    let mut image = history.base.clone();
    history.events.iter().for_each(|event| event.apply(&mut image));
    image
}
