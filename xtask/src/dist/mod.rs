//! `cargo xtask dist`: what users install. A static binary in an archive, a Debian package and an RPM, each the same for the same sources.
//!
//! | module | holds |
//! |---|---|
//! | [`binary`] | building the program |
//! | [`documents`] | the documents, whose links lead somewhere |
//! | [`tree`] | the files of a package, laid out as they are installed |
//! | [`debian`] | the Debian package, by dpkg-deb |
//! | [`fedora`] | the RPM, by rpmbuild |
//!
//! Packages hold the program linked against the host's C library, because fakeroot and pseudo reach no other one.

mod binary;
mod debian;
mod documents;
mod fedora;
mod tree;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use clap::ValueEnum;

use crate::process;

/// Arguments of `cargo xtask dist`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The archive needs the target x86_64-unknown-linux-musl (rustup target add) and musl-gcc (Debian: musl-tools), the Debian package \
    dpkg-deb, the RPM rpmbuild (Debian: rpm).\nExample: cargo xtask dist --only deb"
)]
pub struct Arguments {
    /// Where the packages are written
    #[arg(long, default_value = "target/dist")]
    output: PathBuf,
    /// Only these
    #[arg(long, value_name = "KIND", num_args = 1..)]
    only: Vec<Kind>,
    /// Pack this program, and build none
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

/// What is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// An archive with the static program
    Archive,
    /// A Debian package
    Deb,
    /// An RPM
    Rpm,
}

/// What all packages say of themselves.
struct Release {
    version: &'static str,
    /// Seconds since 1970 of the last commit: no file in a package is younger.
    time_seconds: String,
}

impl Release {
    fn of_sources() -> Result<Self> {
        let time_seconds = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(time) => time,
            Err(_) => {
                process::read(Command::new("git").args(["log", "-1", "--format=%ct"]))?.trim().to_owned()
            }
        };
        Ok(Self { version: env!("CARGO_PKG_VERSION"), time_seconds })
    }
}

const SUMMARY: &str = "XFS without the kernel";
const DESCRIPTION: &str = "Makes, fills, reads, mounts, changes, checks, repairs and measures XFS (V5) file systems in user space: on images and \
devices, without root, safe on images from strangers.";
const HOMEPAGE: &str = env!("CARGO_PKG_REPOSITORY");
const LICENSE: &str = env!("CARGO_PKG_LICENSE");
const PACKAGER: &str = "uxfs developers <uxfs@localhost>";

/// Makes what is asked for.
pub fn run(arguments: &Arguments) -> Result<()> {
    fs::create_dir_all(&arguments.output)?;
    let output = fs::canonicalize(&arguments.output)?;
    let release = Release::of_sources()?;
    let makes = |kind| arguments.only.is_empty() || arguments.only.contains(&kind);
    let mut made = Vec::new();
    if makes(Kind::Archive) {
        let program = match &arguments.binary {
            Some(binary) => binary.clone(),
            None => binary::build(Some(binary::MUSL), &release)?,
        };
        made.push(archive(&program, &output, &release)?);
    }
    if makes(Kind::Deb) || makes(Kind::Rpm) {
        let program = match &arguments.binary {
            Some(binary) => binary.clone(),
            None => binary::build(None, &release)?,
        };
        let root = output.join("root");
        tree::lay_out(&program, &root)?;
        if makes(Kind::Deb) {
            made.push(debian::pack(&root, &program, &output, &release)?);
        }
        if makes(Kind::Rpm) {
            made.push(fedora::pack(&root, &output, &release)?);
        }
        fs::remove_dir_all(&root)?;
    }
    for path in made {
        let sum = process::read(Command::new("sha256sum").arg(&path))?;
        println!("{} bytes, sha256 {}", fs::metadata(&path)?.len(), sum.trim());
    }
    Ok(())
}

/// The program, the licences and the documents, in one folder.
fn archive(program: &Path, output: &Path, release: &Release) -> Result<PathBuf> {
    let name = format!("uxfs-{}-{}-linux", release.version, std::env::consts::ARCH);
    let folder = output.join(&name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    tree::install(program, &folder.join("uxfs"), 0o755)?;
    documents::lay_out(&folder)?;
    let path = output.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args([
        "--sort=name",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "--format=gnu",
        "--use-compress-program=gzip -n -9",
    ]);
    tar.arg(format!("--mtime=@{}", release.time_seconds))
        .arg("-cf")
        .arg(&path)
        .arg("-C")
        .arg(output)
        .arg(&name);
    process::run(&mut tar).context("the archive")?;
    fs::remove_dir_all(&folder)?;
    Ok(path)
}
