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
use uxfs_fuse::mounting::{direct, fusermount, mount_table::MountTable};

use crate::{
    commands::Context,
    failure::{About, Exit, Failure, Outcome},
};

/// How often the image is tried.
const LOOK: Duration = Duration::from_millis(10);
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
        if direct::may_mount() {
            direct::unmount(&directory, self.lazy).map_err(|error| failed(error.to_string()))?;
        } else {
            fusermount::unmount(&directory, self.lazy).map_err(|error| failed(error.to_string()))?;
        }
        if !self.lazy {
            wait_for(Path::new(&entry.source))?;
        }
        Ok(Exit::Success)
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
