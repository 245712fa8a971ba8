//! Building the program for users.

use std::{env, path::PathBuf, process::Command};

use anyhow::Result;

use super::Release;
use crate::process;

/// The target whose programs need no library of the host.
pub const MUSL: &str =
    if cfg!(target_arch = "aarch64") { "aarch64-unknown-linux-musl" } else { "x86_64-unknown-linux-musl" };

/// Builds it, for another target than the host where one is given, and gives its path. Paths of this machine do not get into it.
pub fn build(target: Option<&str>, release: &Release) -> Result<PathBuf> {
    let folder = env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| PathBuf::from("target"), PathBuf::from)
        .join("dist-build");
    let here = env::current_dir()?;
    let cargo_home =
        env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| Some(env::home_dir()?.join(".cargo")));
    let mut flags = format!("--remap-path-prefix={}=uxfs", here.display());
    if let Some(cargo_home) = cargo_home {
        flags.push_str(&format!(" --remap-path-prefix={}=cargo", cargo_home.display()));
    }
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--profile", "dist", "--locked", "-p", "uxfs", "--target-dir"]).arg(&folder);
    cargo.env("RUSTFLAGS", flags).env("SOURCE_DATE_EPOCH", &release.time_seconds);
    cargo
        .env("CARGO_PROFILE_DIST_STRIP", "symbols")
        .env("CARGO_PROFILE_DIST_DEBUG", "0")
        .env("CARGO_INCREMENTAL", "0");
    let mut program = folder;
    if let Some(target) = target {
        cargo.args(["--target", target]);
        program.push(target);
    }
    process::run(&mut cargo)?;
    Ok(program.join("dist/uxfs"))
}
