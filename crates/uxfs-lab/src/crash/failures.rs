//! A workload whose device fails at the n-th request of a kind, once or from then on.
//!
//! Nothing may panic or hang; the first cause is kept; reading goes on where the device reads; and what has reached the
//! device is a crash state like others: it recovers to a state of the model, not before what was synced last.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail, ensure};
use uxfs_block::device::{BlockDevice, DeviceOperation};
use uxfs_engine::options::MountOptions;
use uxfs_filesystem::{filesystem::FileSystem, recovery};
use uxfs_volume::error::{Error, OperationError};

use super::{
    consistency,
    flaky::{Failure, FlakyDevice, MADE_ON_PURPOSE},
    generator::Generator,
    image::ImageDevice,
    judge::Chronicle,
    model::{Model, Outcome},
    recording::RecordingDevice,
    run::Setup,
    states::Promise,
    tree::{Tree, facts_of},
    volume::{Volume, mount_options},
    workload::Operation,
};
use uxfs_testkit::manifest::Bytes;

/// No workload takes so long.
const PATIENCE: Duration = Duration::from_secs(120);

/// End of a workload on a failing device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The device had no such request.
    NoFailure,
    /// It failed before the file system was mounted.
    NotMounted,
    /// It failed, and everything went on but for what needed it.
    WentOn,
    /// It failed, and no change was possible any more.
    ShutDown,
}

/// Requests of a workload whose device does not fail: reads, writes and flushes.
///
/// # Errors
/// The workload fails.
pub fn requests(setup: &Setup) -> Result<[u64; 3]> {
    let device = flaky(setup, None)?;
    work(setup, &device)?;
    let kinds = [DeviceOperation::Read, DeviceOperation::Write, DeviceOperation::Flush];
    Ok(kinds.map(|kind| device.requests(kind)))
}

/// Runs the workload with one failure. Gives up waiting after two minutes: then something hangs.
///
/// # Errors
/// A promise was broken.
pub fn try_failure(setup: &Setup, failure: Failure) -> Result<Fate> {
    let (sender, receiver) = mpsc::channel();
    let own = setup.clone();
    thread::spawn(move || {
        let result = catch_unwind(AssertUnwindSafe(|| {
            let device = flaky(&own, Some(failure))?;
            work(&own, &device)
        }));
        // The receiver may have given up.
        let _ = sender.send(result.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Err(anyhow!("panic: {}", text.unwrap_or_default()))
        }));
    });
    let result = receiver.recv_timeout(PATIENCE).unwrap_or_else(|_| Err(anyhow!("it hangs")));
    result.with_context(|| format!("{setup}: {}", Told(failure)))
}

type Device = FlakyDevice<RecordingDevice>;

fn flaky(setup: &Setup, failure: Option<Failure>) -> Result<Arc<Device>> {
    Ok(Arc::new(FlakyDevice::new(RecordingDevice::new(setup.shape.make()?), failure)))
}

/// How the device fails, in words.
struct Told(Failure);

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { operation, request, stays } = self.0;
        write!(f, "{operation} {request} fails{}", if stays { ", and all later ones" } else { "" })
    }
}

fn work(setup: &Setup, device: &Arc<Device>) -> Result<Fate> {
    let options: MountOptions = setup.mount_options();
    let Ok(file_system) = FileSystem::mount_logged(device.clone(), &options) else {
        ensure!(device.failed() > 0, "it cannot be mounted");
        return Ok(Fate::NotMounted);
    };
    let root = file_system.root().map_err(anyhow::Error::from);
    let Ok(facts) = root.and_then(|root| facts_of(&file_system, &root)) else {
        ensure!(device.failed() > 0, "the root cannot be read");
        return Ok(Fate::NotMounted);
    };
    let mut model = Model::new(facts);
    let mut chronicle = Chronicle::new(0, model.clone());
    let mut generator = Generator::new(setup.seed, |kind| setup.shape.allows(kind));
    let volume = Volume::new(&file_system);
    let mut promise = Promise::default();
    for number in 0..setup.operations {
        let operation = generator.next(&model);
        promise.most = number + 1;
        let mut result = volume.perform(number, &operation, &model);
        if result.is_ok() && matches!(operation, Operation::Sync | Operation::SyncFile { .. }) {
            match file_system.force() {
                Ok(()) if operation == Operation::Sync => {
                    (promise.fewest, promise.contents) = (number + 1, number + 1);
                }
                Ok(()) => promise.fewest = number + 1,
                Err(error) => result = Err(error),
            }
        }
        match result {
            Ok(outcome) => {
                let operation = operation.as_done(&outcome);
                model.apply(number, &operation, outcome);
                chronicle.push(operation, model.clone());
            }
            Err(Error::Operation(OperationError::NoSpace)) => {
                chronicle.push(Operation::Sync, model.clone());
            }
            Err(error) => {
                ensure!(device.failed() > 0, "operation {number}, {operation:?}: {error}");
                // It may be durable all the same: also an operation that is done tells when the upkeep behind it fails.
                let tree = recovered(device)?;
                let inode = made_by(&operation, &model, &tree);
                model.apply(number, &operation, Outcome { inode, ..Outcome::default() });
                chronicle.push(operation, model.clone());
                judge(&tree, &chronicle, &promise)?;
                let Some(cause) = cause(&file_system) else { return Ok(Fate::WentOn) };
                ensure!(is_right(&cause, device), "another cause is told: {cause}");
                stays_shut(&file_system, device)?;
                return Ok(Fate::ShutDown);
            }
        }
    }
    judge(&recovered(device)?, &chronicle, &promise)?;
    if device.failed() > 0 {
        return Ok(if cause(&file_system).is_some() { Fate::ShutDown } else { Fate::WentOn });
    }
    Ok(Fate::NoFailure)
}

/// Why the journal takes nothing any more.
fn cause(file_system: &FileSystem) -> Option<String> {
    file_system.journal().and_then(|journal| journal.check().err()).map(|error| error.to_string())
}

/// A write or flush that failed is told as such. A read that failed in the middle of a change has left it half done.
fn is_right(cause: &str, device: &Device) -> bool {
    cause.contains(MADE_ON_PURPOSE) || device.failed_at(DeviceOperation::Read) && cause.contains("half done")
}

/// After a shutdown: nothing changes, the first cause is told each time, reading goes on.
fn stays_shut(file_system: &FileSystem, device: &Device) -> Result<()> {
    let first = cause(file_system);
    let before = device.inner().image().digest();
    for _ in 0..3 {
        let Err(error) = file_system.force() else { bail!("force says that all is well") };
        let told = error.to_string();
        ensure!(is_right(&told, device), "force tells another cause: {told}");
    }
    ensure!(cause(file_system) == first, "the cause has changed");
    ensure!(device.inner().image().digest() == before, "something was written after the shutdown");
    let reads_fail = device.requests(DeviceOperation::Read) > 0 && !device.can_read();
    ensure!(reads_fail || file_system.root().is_ok(), "the root cannot be read any more");
    Ok(())
}

/// The tree on the device after recovery.
fn recovered(device: &Device) -> Result<Tree> {
    let image = device.inner().image();
    let image: Arc<dyn BlockDevice> = Arc::new(ImageDevice::read_only(image));
    let (file_system, _) =
        recovery::mount_recovered(&image, &mount_options(4)).context("what reached the device")?;
    let tree = Tree::read(&file_system).context("what reached the device cannot be read")?;
    consistency::check(&file_system, &tree).context("what reached the device contradicts itself")?;
    Ok(tree)
}

/// It is a state of the model.
fn judge(tree: &Tree, chronicle: &Chronicle, promise: &Promise) -> Result<()> {
    chronicle.judge(tree, promise).map(drop).map_err(|difference| anyhow!(difference.0))
}

/// The number of the inode that an operation made which did not live to tell.
pub(crate) fn made_by(operation: &Operation, model: &Model, tree: &Tree) -> Option<u64> {
    let (parent, name) = match operation {
        Operation::Create { parent, name, .. } | Operation::Rename { parent, name, .. } => (*parent, name),
        _ => return None,
    };
    let directory = tree.files.get(&model.node(parent)?.inode())?;
    directory.facts.names.get(&Bytes(name.clone())).copied()
}
