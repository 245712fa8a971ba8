//! `uxfs copy`: a whole file system, only what is in use, to files or devices.
//!
//! | module | holds |
//! |---|---|
//! | `used` | which bytes are in use |
//! | `targets` | the files and devices that are written |
//!
//! 1. The first sector of a target is zero until everything else is written: a copy that was cut off is no file system.
//! 2. The uuid changes last. Until then the copy is a duplicate, complete and sound.

mod targets;
mod used;

use std::{
    ops::Range,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

use serde_json::json;
use uxfs_block::{device::BlockDevice, window::Part};
use uxfs_filesystem::identity::{self, IdentityChange, UuidChange};
use uxfs_format::{
    checksum,
    field_table::OnDisk,
    superblock::{CHECKSUM_OFFSET_BYTES, Superblock},
    units::AgNumber,
};
use uxfs_journal::LogState;
use uxfs_metadump::restore::Target;
use uxfs_mkfs::identity::random_uuid;
use uxfs_volume::{
    error::Error,
    volume::{Volume, VolumeOptions},
};

use self::{
    targets::{Writing, failed},
    used::Fault,
};
use crate::{
    commands::Context,
    destination,
    failure::{About, Complaints, Failure, Outcome},
    image::ImageArguments,
    image_target::ImageTarget,
    kind::Kind,
    output::{JsonName, Output, set_image},
    overwrite,
    progress::{Measure, Progress, QuietArgument, closing::Closing},
    remains::Remains,
};

/// Bytes that are read and written at once.
const PIECE_BYTES: u64 = 1 << 20;

/// Arguments of `uxfs copy`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Copies what the free space btrees do not have, and leaves holes in files. A TARGET that is missing is made, as long as the \
    file system. Each copy gets a uuid of its own, so that Linux mounts it beside the original, unless --duplicate is given. A target that \
    fails is given up, and the others are written. A dirty log is refused: replay it first (uxfs replay), or copy with \
    --duplicate, which then copies free blocks, too. Of a group whose free space btree is damaged all blocks are copied (exit code 3).\n\
    Examples: uxfs copy disk.img copy.img\n          \
    uxfs copy -f /dev/sda1 /dev/sdb1 /dev/sdc1\n          \
    uxfs copy --duplicate --partition 2 disk.img root.img",
    mut_arg("tolerant", |argument| argument.hide(true)),
    mut_arg("superblock", |argument| argument.hide(true)),
    mut_arg("repaired", |argument| argument.hide(true)),
    mut_arg("ignore_log", |argument| argument.hide(true)),
    mut_arg("image", |argument| argument.index(1)),
    mut_arg("no_lock", |argument| argument
        .help("Copy even while the image is mounted or another program changes it; the copy may be inconsistent")),
)]
pub struct Arguments {
    #[command(flatten)]
    pub(crate) image: ImageArguments,
    /// Files or block devices that become copies
    #[arg(value_name = "TARGET", required = true, index = 2)]
    pub(crate) targets: Vec<PathBuf>,
    /// Keep the uuid: for a copy that takes the place of the original
    #[arg(short, long)]
    pub(crate) duplicate: bool,
    /// Overwrite files that are not empty, and block devices
    #[arg(short, long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) quiet: QuietArgument,
}

/// What was copied.
struct Copied {
    size_bytes: u64,
    copied_bytes: u64,
    /// Each target, with its uuid.
    copies: Vec<(PathBuf, String)>,
}

/// Runs the command.
pub fn run(arguments: &Arguments, context: &Context) -> Outcome {
    set_image(&arguments.image.image);
    let mut complaints = Complaints::default();
    let _remains = Remains::begin("what was copied so far is no file system");
    let mut closing = Closing::begin("copied to");
    let copied = Copying { arguments }.copy(&mut complaints)?;
    closing.things = (copied.copies.len() as u64, "targets");
    closing.bytes = copied.copied_bytes;
    closing.tell(arguments.quiet.quiet);
    let mut output = Output::new();
    if context.json {
        for (path, uuid) in &copied.copies {
            let target = JsonName::new(path.as_os_str().as_bytes());
            let mut document = json!({
                "target": target.text(),
                "uuid": uuid,
                "size_bytes": copied.size_bytes,
                "copied_bytes": copied.copied_bytes,
            });
            if let Some(hex) = target.hex() {
                document["target_hex"] = hex.into();
            }
            output.json(&document)?;
        }
    }
    output.finish()?;
    Ok(complaints.exit())
}

/// A copy in the making.
struct Copying<'a> {
    arguments: &'a Arguments,
}

impl<'a> Copying<'a> {
    fn copy(&self, complaints: &mut Complaints) -> Result<Copied, Failure> {
        let image = &self.arguments.image;
        if image.is_tolerant() || image.ignore_log {
            return Err(Failure::usage("--tolerant, --superblock and --ignore-log are not for copies"));
        }
        self.check_targets()?;
        let device = image.device_at_rest()?;
        let volume = Volume::open(Arc::clone(&device), &VolumeOptions::default())
            .map_err(|error| image.not_opened(error))?;
        let is_clean = self.is_clean(&volume).about_image(&image.image)?;
        let source = Source { volume: &volume, device: &*device, image, is_clean };
        let size_bytes = volume.superblock().data_blocks.get() << volume.geometry().block_log;
        let targets = self.prepare(size_bytes, &source.unfinished_sector()?, complaints);
        let mut copied = Copied { size_bytes, copied_bytes: 0, copies: Vec::new() };
        let written = thread::scope(|scope| {
            let start = |(path, target)| Writing::start(scope, path, target);
            let mut writings: Vec<Writing<'_, '_>> =
                targets.into_iter().map(start).collect::<Result<_, _>>()?;
            copied.copied_bytes = source.copy(&mut writings, self.arguments.quiet.quiet, complaints)?;
            Ok::<_, Failure>(writings.into_iter().map(Writing::finish).collect::<Vec<_>>())
        })?;
        for (path, target) in written {
            let done =
                target.and_then(|target| Ok((self.complete(&source, &target).about_host(path)?, target)));
            match done {
                Ok((uuid, target)) => {
                    target.keep();
                    copied.copies.push((path.to_owned(), uuid));
                }
                Err(failure) => complaints.tell(&failure),
            }
        }
        Ok(copied)
    }

    /// Refuses targets that are the image, or each other, or standard output.
    fn check_targets(&self) -> Result<(), Failure> {
        for (index, target) in self.arguments.targets.iter().enumerate() {
            if destination::is_standard_output(target) {
                let failure = Failure::usage("a copy has holes, and is not written to standard output");
                return Err(failure.about_host(target).with_remedy(
                    "name a file, ./- for one of that name; uxfs metadump IMAGE - and uxfs extract IMAGE --tar - write streams",
                ));
            }
            overwrite::refuse(target, &[overwrite::Input::image(&self.arguments.image.image)])?;
            for other in self.arguments.targets.iter().skip(index + 1) {
                overwrite::refuse_same_outputs(target, other)?;
            }
        }
        Ok(())
    }

    /// Whether free blocks are free: a log with changes in it may know better.
    ///
    /// # Errors
    /// The log has to be replayed before; realtime section; external log.
    fn is_clean(&self, volume: &Volume) -> Result<bool, Failure> {
        let superblock = volume.superblock();
        if superblock.realtime_blocks.get() > 0 {
            return Err(Failure::unsupported("a file system with a realtime section is not copied"));
        }
        if superblock.log_start.get() == 0 {
            return Err(Failure::unsupported("a file system with an external log is not copied"));
        }
        match uxfs_journal::examine(volume.device().as_ref(), volume.geometry()) {
            Ok(LogState::Empty | LogState::Clean(_)) => Ok(true),
            _ if self.arguments.duplicate => Ok(false),
            Ok(LogState::Dirty(_)) => {
                let failure = Failure::refused(Kind::DirtyLog, "the log has changes to be replayed");
                Err(failure.with_remedy("uxfs replay replays them; --duplicate (-d) copies the log as it is"))
            }
            Err(error) => {
                let failure = Failure::from(Error::from(error));
                Err(failure.with_remedy("uxfs repair makes a new log; --duplicate (-d) copies it as it is"))
            }
        }
    }

    /// Opens or makes the targets.
    fn prepare(
        &self,
        size_bytes: u64,
        unfinished: &[u8],
        complaints: &mut Complaints,
    ) -> Vec<(&'a Path, ImageTarget<'a>)> {
        let mut targets = Vec::new();
        for path in &self.arguments.targets {
            let mut target = ImageTarget::new(path, Part::default(), self.arguments.force);
            let prepared = target.prepare(size_bytes);
            // The mark must not come after what it is for.
            let marked = prepared.and_then(|()| target.write(0, unfinished)).and_then(|()| target.finish());
            match marked {
                Ok(()) => targets.push((path.as_path(), target)),
                Err(error) => complaints.tell(&failed(path, &error)),
            }
        }
        targets
    }

    /// Writes the first sector, and gives the copy its uuid, which it returns.
    fn complete(&self, source: &Source<'_>, target: &ImageTarget<'_>) -> Result<String, Failure> {
        let Some(device) = target.device() else { return Ok(String::new()) };
        device.write(0, &source.first_sector()?).map_err(Error::from)?;
        device.flush().map_err(Error::from)?;
        if !self.arguments.duplicate {
            let uuid = Some(UuidChange::To(random_uuid()));
            identity::change(device.as_ref(), &IdentityChange { label: None, uuid })?;
        }
        Ok(identity::superblock_of(device.as_ref())?.uuid.to_string())
    }
}

/// The file system that is copied.
struct Source<'s> {
    volume: &'s Volume,
    device: &'s dyn BlockDevice,
    image: &'s ImageArguments,
    is_clean: bool,
}

impl Source<'_> {
    fn first_sector(&self) -> Result<Vec<u8>, Failure> {
        let mut bytes = vec![0; self.volume.geometry().sector_size_bytes as usize];
        self.device.read(0, &mut bytes).map_err(Error::from).about_image(&self.image.image)?;
        Ok(bytes)
    }

    /// The first sector of a copy that is not complete: it says so, and no copy in another group is taken for it.
    fn unfinished_sector(&self) -> Result<Vec<u8>, Failure> {
        let mut sector = self.first_sector()?;
        if let Some(superblock) = Superblock::prefix_of_mut(&mut sector) {
            superblock.in_progress = 1;
        }
        checksum::seal(&mut sector, CHECKSUM_OFFSET_BYTES);
        Ok(sector)
    }

    /// Gives what is in use to the targets, but for the first sector; says how much that is.
    ///
    /// # Errors
    /// The source cannot be read; no target is left.
    fn copy(
        &self,
        writings: &mut [Writing<'_, '_>],
        is_quiet: bool,
        complaints: &mut Complaints,
    ) -> Result<u64, Failure> {
        let name = self.image.image.display();
        let superblock = self.volume.superblock();
        let used_blocks = superblock.data_blocks.get().saturating_sub(superblock.free_data_blocks.get());
        let total_bytes = used_blocks.saturating_mul(superblock.block_size_bytes.get().into());
        let progress = Progress::new("copying", Measure::Bytes("", Some(total_bytes)), is_quiet);
        let unfinished = self.unfinished_sector()?;
        let mut copied_bytes = 0_u64;
        let mut tell = |group: AgNumber, fault: Fault| {
            let message = format!("group {group}: {fault}; all of its blocks are copied");
            complaints.tell(&Failure::corruption(message).about_image(&self.image.image));
        };
        // `None` where no target is left.
        let mut copy = |range: Range<u64>| -> Result<(), Option<Failure>> {
            let mut offset_bytes = range.start;
            while offset_bytes < range.end {
                let length = (range.end - offset_bytes).min(PIECE_BYTES);
                let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
                self.device
                    .read(offset_bytes, &mut bytes)
                    .map_err(Error::from)
                    .about(name.to_string())
                    .map_err(Some)?;
                if offset_bytes == 0 {
                    bytes.iter_mut().zip(&unfinished).for_each(|(byte, marked)| *byte = *marked);
                }
                let bytes: Arc<[u8]> = bytes.into();
                let given = writings
                    .iter_mut()
                    .filter_map(|writing| writing.give(offset_bytes, &bytes).then_some(()));
                if given.count() == 0 {
                    return Err(None);
                }
                offset_bytes = offset_bytes.saturating_add(length);
                copied_bytes = copied_bytes.saturating_add(length);
                progress.add(length);
            }
            Ok(())
        };
        match used::visit(self.volume, self.is_clean, &mut tell, &mut copy) {
            Err(Some(failure)) => Err(failure),
            Ok(()) | Err(None) => Ok(copied_bytes),
        }
    }
}
