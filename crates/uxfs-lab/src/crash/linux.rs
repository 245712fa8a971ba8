//! The kernel as a judge of a crash state: it recovers the log, and its result must equal ours.
//!
//! An image is mounted for writing only after `xfs_repair` has accepted a copy that we recovered, because a damaged image can
//! wedge the kernel. Blocks that were never written are holes there; other tests look for canaries.

use std::path::Path;

use anyhow::{Context, Result};

use super::image::Image;
use uxfs_testkit::{
    manifest::{self, Header},
    mount::{Access, LoopMount},
    verdict::{repair_is_silent, same},
    walk,
};

/// Compares what the kernel makes of the log in `crashed` with `recovered`, which is what we made of it.
pub(super) fn judge(crashed: &Image, recovered: &Image) -> Result<()> {
    let folder = tempfile::Builder::new().prefix("uxfs-crash-").tempdir_in(memory_folder())?;
    let [theirs, ours] = ["theirs", "ours"].map(|name| folder.path().join(name));
    recovered.save_written(&ours)?;
    repair_is_silent(&ours).context("after our recovery")?;
    let found = walk::from_image(&ours, header("uxfs"))?;
    std::fs::remove_file(&ours)?;
    crashed.save_written(&theirs)?;
    // Recovery, and all that follows from it; looking at it does not change it.
    let mount = LoopMount::with_options(&theirs, Access::ReadWrite, "noatime")?;
    let expected = manifest::from_mount(mount.path(), header("kernel"))?;
    mount.unmount()?;
    same(&expected, &found).context("the kernel's recovery led to something else")?;
    repair_is_silent(&theirs).context("after the kernel's recovery")
}

fn header(judge: &str) -> Header {
    Header { image: "crash state".into(), judge: judge.into(), made_by: "the crash laboratory".into() }
}

fn memory_folder() -> &'static Path {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() { shared } else { Path::new("/tmp") }
}
