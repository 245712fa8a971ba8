//! Checks an image, and prints what is found: `cargo run --release -p uxfs-repair --example check IMAGE`. `cargo xtask bench check`
//! measures it.

use std::{ops::ControlFlow, path::PathBuf, process::ExitCode, sync::Arc};

use uxfs_block::engine::sync::SyncDevice;
use uxfs_repair::{CheckOptions, Finding, check};
use uxfs_volume::volume::{Volume, VolumeOptions};

fn main() -> anyhow::Result<ExitCode> {
    let image: PathBuf = std::env::args_os().nth(1).map(Into::into).unwrap_or_default();
    let device = Arc::new(SyncDevice::open_read_only(&image, 0)?);
    let volume = Volume::open(device, &VolumeOptions::default())?;
    let mut print = |finding: Finding| {
        println!("{}: {finding}", finding.number());
        ControlFlow::Continue(())
    };
    let summary = check(&volume, &CheckOptions::default(), &mut print);
    println!(
        "{} inodes and {} blocks in use in {} allocation groups, {} findings",
        summary.inodes, summary.blocks_in_use, summary.groups, summary.findings
    );
    Ok(if summary.findings == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
