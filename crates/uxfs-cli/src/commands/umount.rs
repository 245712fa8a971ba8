//! `uxfs umount`: unmounts, and waits until the image is whole.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use uxfs_block::{
    claim::Lock,
    engine::{OpenOptions, open},
};
use uxfs_fuse::mounting::{
    direct::{self, DirectError},
    fusermount,
    mount_table::MountTable,
};

use crate::{
    commands::Context,
    failure::{About, Exit, Failure, Outcome},
};

/// How often the image is tried.
const LOOK: Duration = Duration::from_millis(10);
/// A mount that is busy for longer is in use.
const LONGEST_BUSY: Duration = Duration::from_millis(500);
/// A server that takes longer is told about.
const LONGEST: Duration = Duration::from_secs(600);

/// Arguments of `uxfs umount`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Waits until everything is written and the image can be used by others. fusermount3 -u and umount unmount as well, but return \
    earlier.\n\
    Example: uxfs umount /mnt"
)]
pub struct Arguments {
    /// Directory on which the image is mounted
    #[arg(value_name = "DIRECTORY")]
    pub(crate) directory: PathBuf,
    /// Detach it now, and end it when nothing uses it any more
    #[arg(short, long)]
    pub(crate) lazy: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments, _: &Context) -> Outcome {
    arguments.run().about(arguments.directory.display())
}

impl Arguments {
    fn run(&self) -> Outcome {
        let failed = |error: String| Failure::failed(error);
        // A mount whose server is gone cannot be asked for its path.
        let directory = fs::canonicalize(&self.directory)
            .or_else(|_| std::path::absolute(&self.directory))
            .map_err(|error| failed(error.to_string()))?;
        let table = MountTable::read().map_err(|error| failed(error.to_string()))?;
        let entry = table.at(&directory).filter(|entry| entry.is_fuse()).cloned();
        let entry = entry.ok_or_else(|| failed("nothing is mounted here by uxfs".into()))?;
        self.unmount(&directory)?;
        if !self.lazy {
            wait_for(Path::new(&entry.source))?;
        }
        Ok(Exit::Success)
    }
}

impl Arguments {
    /// Programs that look at all mounts, as df does, keep each of them busy for a moment: that is waited for.
    fn unmount(&self, directory: &Path) -> Result<(), Failure> {
        let begun = Instant::now();
        loop {
            // fusermount3 tells in words alone why it fails.
            let unmounted = match direct::may_mount() {
                true => direct::unmount(directory, self.lazy)
                    .map_err(|error| (matches!(error, DirectError::Busy(_)), error.to_string())),
                false => fusermount::unmount(directory, self.lazy).map_err(|error| (true, error.to_string())),
            };
            match unmounted {
                Ok(()) => return Ok(()),
                Err((true, _)) if begun.elapsed() < LONGEST_BUSY => thread::sleep(LOOK),
                Err((_, words)) => return Err(Failure::failed(words)),
            }
        }
    }
}

/// Waits until the server has let go of the image.
fn wait_for(image: &Path) -> Result<(), Failure> {
    let begun = Instant::now();
    let options = OpenOptions { lock: Lock::Shared, ..OpenOptions::default() };
    while image.exists() && open(image, &options).is_err() {
        if begun.elapsed() > LONGEST {
            return Err(Failure::failed(format!(
                "unmounted, but {} is still in use after {} seconds",
                image.display(),
                LONGEST.as_secs()
            )));
        }
        thread::sleep(LOOK);
    }
    Ok(())
}
