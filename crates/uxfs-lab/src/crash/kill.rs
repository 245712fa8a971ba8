//! A process that works on an image file and is killed at a random moment.
//!
//! Its writes stay, because the host's page cache outlives it. It reports each operation through a pipe before and after, so
//! that its parent knows which of them must be there.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail};
use uxfs_block::{
    device::BlockDevice,
    engine::{self, OpenOptions},
};
use uxfs_engine::options::{LogOptions, MountOptions};
use uxfs_filesystem::mount;
use uxfs_filesystem::{filesystem::FileSystem, recovery};
use uxfs_volume::error::{Error, OperationError};

use super::{
    consistency,
    generator::Generator,
    geometry::Shape,
    judge::Chronicle,
    model::{Model, Outcome},
    states::Promise,
    tree::{Tree, facts_of},
    volume::{Volume, mount_options},
    workload::Operation,
};
use uxfs_testkit::seeds::Random;

/// With a thread that writes checkpoints, or without.
fn options(has_background: bool) -> MountOptions {
    let log = LogOptions { has_background, ..LogOptions::default() };
    MountOptions { log, ..mount_options(8) }
}

/// The victim: works until it is killed, and reports to `told`.
///
/// # Errors
/// The file system fails, or the pipe is closed.
pub fn work(
    image: &Path,
    shape: &Shape,
    seed: u64,
    has_background: bool,
    told: &mut dyn Write,
) -> Result<()> {
    let device = engine::open(image, &OpenOptions { writable: true, ..OpenOptions::default() })?;
    let file_system = FileSystem::mount_logged(device, &options(has_background))?;
    let mut model = Model::new(facts_of(&file_system, &*file_system.root()?)?);
    let mut generator = Generator::new(seed, |kind| shape.allows(kind));
    let volume = Volume::new(&file_system);
    for number in 0.. {
        let operation = generator.next(&model);
        writeln!(told, "begun {number}")?;
        told.flush()?;
        let outcome = match volume.perform(number, &operation, &model) {
            Ok(outcome) => outcome,
            Err(Error::Operation(OperationError::NoSpace)) => {
                writeln!(told, "refused {number}")?;
                continue;
            }
            Err(error) => bail!("operation {number}, {operation:?}: {error}"),
        };
        let written = outcome.written.map(|written| written.to_string()).unwrap_or_default();
        writeln!(told, "done {number} {} {written}", outcome.inode.unwrap_or(0))?;
        let operation = operation.as_done(&outcome);
        if let Operation::Sync | Operation::SyncFile { .. } = operation {
            file_system.force()?;
            let what = if operation == Operation::Sync { "synced" } else { "file-synced" };
            writeln!(told, "{what} {}", number + 1)?;
        }
        model.apply(number, &operation, outcome);
    }
    Ok(())
}

/// Starts `victim`, which runs [`work`] on `image` with this shape and seed and tells its standard output, kills it after a
/// while, and judges the image. Gives how many operations it had begun, and how many are there.
///
/// # Errors
/// A promise was broken.
pub fn kill_and_judge(
    victim: &mut Command,
    image: &Path,
    shape: &Shape,
    seed: u64,
    after: Duration,
) -> Result<(usize, usize)> {
    shape.make()?.save(image)?;
    let mut child = victim.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn()?;
    let output = child.stdout.take().context("no pipe")?;
    let listener = thread::spawn(move || -> Vec<String> {
        BufReader::new(output).lines().map_while(Result::ok).collect()
    });
    thread::sleep(after);
    child.kill()?;
    child.wait()?;
    let lines = listener.join().map_err(|_| anyhow!("the listener panicked"))?;
    judge(image, shape, seed, &lines)
}

/// Tells the workload again, as far as the victim had come.
fn judge(image: &Path, shape: &Shape, seed: u64, lines: &[String]) -> Result<(usize, usize)> {
    let device: Arc<dyn BlockDevice> = engine::open(image, &OpenOptions::default())?;
    let (file_system, _) = recovery::mount_recovered(&device, &options(false)).context("recovery")?;
    let tree = Tree::read(&file_system)?;
    consistency::check(&file_system, &tree)?;
    let empty = shape.make()?;
    let first = mount::open_volume(Arc::new(super::image::ImageDevice::read_only(empty)), &options(false))?;
    let mut model = Model::new(facts_of(&first, &*first.root()?)?);
    let mut chronicle = Chronicle::new(0, model.clone());
    let mut generator = Generator::new(seed, |kind| shape.allows(kind));
    let mut promise = Promise::default();
    let mut operation = None;
    for line in lines {
        let mut words = line.split_whitespace();
        let (Some(word), Some(number)) = (words.next(), words.next()) else { continue };
        let Ok(number) = number.parse::<usize>() else { continue };
        match word {
            "begun" => {
                promise.most = number + 1;
                operation = Some(generator.next(&model));
            }
            "refused" => chronicle.push(Operation::Sync, model.clone()),
            "done" => {
                let inode = words.next().and_then(|inode| inode.parse().ok()).filter(|inode| *inode != 0);
                let written = words.next().and_then(|written| written.parse().ok());
                let outcome = Outcome { inode, written };
                let done = operation.take().context("done before it began")?.as_done(&outcome);
                model.apply(number, &done, outcome);
                chronicle.push(done, model.clone());
            }
            "synced" => (promise.fewest, promise.contents) = (number, number),
            "file-synced" => promise.fewest = number,
            _ => {}
        }
    }
    if let Some(last) = operation {
        // It may be there, or not: what it made has the number that the image says.
        let mut after = model.clone();
        let inode = super::failures::made_by(&last, &model, &tree);
        after.apply(promise.most - 1, &last, Outcome { inode, ..Outcome::default() });
        chronicle.push(last, after);
    }
    let done = chronicle.judge(&tree, &promise).map_err(|difference| anyhow!(difference.0))?;
    Ok((promise.most, done))
}

/// How long a victim lives.
pub fn life(random: &mut Random) -> Duration {
    Duration::from_millis(20 + random.below(400))
}
