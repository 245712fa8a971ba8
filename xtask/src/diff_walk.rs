//! `cargo xtask diff-walk IMAGE`: any image, as the library reads it beside what the kernel here says of it.

use std::path::PathBuf;

use anyhow::{Result, bail};
use uxfs_testkit::{
    manifest::{self, Header},
    mount::{Access, LoopMount, kernel_release},
    sparse, walk,
};

/// Differences shown.
const SHOWN: usize = 100;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// An image with a clean log; packed with zstd if its name ends so
    image: PathBuf,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let work = tempfile::tempdir()?;
    let mut image = arguments.image.clone();
    if image.extension().is_some_and(|extension| extension == "zst") {
        image = work.path().join("image");
        sparse::unpack(&arguments.image, &image)?;
    }
    let header = |judge: String| Header {
        image: arguments.image.display().to_string(),
        judge,
        made_by: "somebody".to_owned(),
    };
    // The image may be damaged, so the kernel must not write to it.
    let mount = LoopMount::new(&image, Access::ReadOnlyNoRecovery)?;
    let expected = manifest::from_mount(mount.path(), header(format!("Linux {}", kernel_release())))?;
    mount.unmount()?;
    let found = walk::from_image(&image, header("uxfs".to_owned()))?;
    let differences = manifest::differences(&expected, &found);
    if let Some(report) = manifest::report(&differences, SHOWN) {
        bail!("{report}");
    }
    println!("{} paths, no difference to {}", expected.entries.len(), expected.header.judge);
    Ok(())
}
