//! `cargo xtask golden-images`: make and check the images that every reading test leans on.

use std::{fs, path::PathBuf, time::Instant};

use anyhow::{Context, Result, ensure};
use uxfs_testkit::{
    golden::{GoldenImage, golden_directory},
    judges::{self, Judge},
    manifest::{self, Header},
    matrix::GoldenSpec,
    mount::{Access, LoopMount},
};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Rebuild images (all, or those named): needs root, the judges and a kernel with XFS
    Make {
        /// Which; all where none is named
        names: Vec<String>,
        /// Where to
        #[arg(long)]
        directory: Option<PathBuf>,
    },
    /// Write manifests anew (all, or those named) for the images there are
    Describe {
        /// Which; all that the kernel filled where none is named
        names: Vec<String>,
    },
    /// Ask the kernel and xfs_repair whether the images still are what their manifests say
    Check {
        /// Which; all where none is named
        names: Vec<String>,
    },
    /// List them
    List,
    /// Unpack one
    Unpack {
        /// Which
        name: String,
        /// Where to
        image: PathBuf,
    },
}

pub fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.command {
        Command::Make { names, directory } => {
            let folder = directory.clone().unwrap_or_else(golden_directory);
            for_each_spec(names, |spec| spec.make(&folder))
        }
        Command::Describe { names } => for_each_spec(names, |spec| spec.describe(&golden_directory())),
        Command::Check { names } => check(names),
        Command::List => list(),
        Command::Unpack { name, image } => GoldenImage::named(name)?.unpack_to(image),
    }
}

fn for_each_spec(names: &[String], work: impl Fn(&GoldenSpec) -> Result<()>) -> Result<()> {
    require_judges()?;
    fs::create_dir_all(golden_directory())?;
    let all = GoldenSpec::all();
    for name in names {
        ensure!(all.iter().any(|spec| spec.name == name), "there is no golden image {name}");
    }
    for spec in all.iter().filter(|spec| names.is_empty() || names.iter().any(|name| name == spec.name)) {
        let started = Instant::now();
        work(spec).with_context(|| spec.name)?;
        println!("{}: done in {:.1} s", spec.name, started.elapsed().as_secs_f64());
    }
    Ok(())
}

fn check(names: &[String]) -> Result<()> {
    require_judges()?;
    let mut failed = 0;
    for image in GoldenImage::all()? {
        if names.is_empty() || names.iter().any(|name| name == image.name()) {
            match check_one(&image) {
                Ok(()) => println!("{}: as its manifest says", image.name()),
                Err(error) => {
                    failed += 1;
                    println!("{}: {error:#}", image.name());
                }
            }
        }
    }
    ensure!(failed == 0, "{failed} images failed");
    Ok(())
}

fn check_one(image: &GoldenImage) -> Result<()> {
    let unpacked = image.unpacked()?;
    let output = Judge::XfsRepair.command().args(["-n", "-f"]).arg(&unpacked).output()?;
    ensure!(output.status.success(), "xfs_repair -n: {}", String::from_utf8_lossy(&output.stdout));
    let expected = image.manifest()?;
    if !expected.header.judge.contains("mount") {
        return Ok(());
    }
    let mount = LoopMount::new(&unpacked, Access::ReadOnly)?;
    let header = Header { judge: "the kernel now".into(), ..expected.header.clone() };
    let found = manifest::from_mount(mount.path(), header)?;
    let differences = manifest::differences(&expected, &found);
    match manifest::report(&differences, 20) {
        Some(report) => anyhow::bail!("{report}"),
        None => Ok(()),
    }
}

fn list() -> Result<()> {
    for image in GoldenImage::all()? {
        let header = image.manifest()?.header;
        println!("{:22} {:8} {}", image.name(), fs::metadata(image.packed())?.len(), header.made_by);
    }
    Ok(())
}

fn require_judges() -> Result<()> {
    for judge in Judge::ALL {
        ensure!(judge.is_present(), "judge {} is missing: run `cargo xtask judges` as root", judge.name());
    }
    println!("judges: {}", judges::judges_directory().display());
    Ok(())
}
