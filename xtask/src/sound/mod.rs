//! `cargo xtask sound`: images without damage must have no findings. Images of every shape are made by `mkfs.xfs`, aged by the kernel, aged by
//! uxfs, and checked after each of these; `xfs_repair -n` must be silent as well.
//!
//! | module | holds |
//! |---|---|
//! | [`ageing`] | random operations on a few thousand names, and the two sides that carry them out |

mod ageing;

use std::{path::PathBuf, process::Command, time::Instant};

use anyhow::{Context, Result, bail, ensure};
use uxfs_testkit::{
    image,
    judges::Judge,
    mount::{Access, LoopMount},
    seeds::Random,
    shapes::{SHAPES, Shape},
    verdict::repair_is_silent,
};

use ageing::{Tally, age, editor::ByEditor, kernel::ByKernel};

/// Arguments of `cargo xtask sound`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Operations by the kernel, and as many by uxfs, on each image
    #[arg(long, default_value_t = 20_000)]
    operations: u64,
    /// Shapes of images; all where none is named
    #[arg(long, value_name = "SHAPE")]
    shape: Vec<String>,
    /// MiB of each image
    #[arg(long, default_value_t = 512)]
    mebibytes: u64,
    /// Folder for the images
    #[arg(long, default_value = "/dev/shm/uxfs-sound")]
    directory: PathBuf,
    /// The binary to check with; built where it is not named
    #[arg(long)]
    uxfs: Option<PathBuf>,
    /// Seed of the operations
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Ages images of all shapes and checks them.
pub fn run(arguments: &Arguments) -> Result<()> {
    for judge in [Judge::Mkfs, Judge::Kernel, Judge::XfsRepair] {
        ensure!(judge.is_present(), "{} is missing: run cargo xtask judges", judge.name());
    }
    let uxfs = match &arguments.uxfs {
        Some(uxfs) => uxfs.clone(),
        None => super::bench::build()?,
    };
    let shapes = SHAPES
        .iter()
        .filter(|shape| arguments.shape.is_empty() || arguments.shape.iter().any(|name| name == shape.name));
    std::fs::create_dir_all(&arguments.directory)?;
    let (mut images, mut checks, mut failed) = (0_u32, 0_u32, Vec::new());
    let mut all = Tally::default();
    for shape in shapes {
        let image = arguments.directory.join(shape.name);
        let begun = Instant::now();
        let mut work =
            Work { arguments, shape, image: &image, uxfs: &uxfs, checks: 0, tally: Tally::default() };
        let result = work.run();
        images += 1;
        checks += work.checks;
        all.add(&work.tally);
        let Tally { done, refused } = work.tally;
        println!(
            "{:<24} {:>8} operations ({refused} refused), {} checks, {:.0} s",
            shape.name,
            done + refused,
            work.checks,
            begun.elapsed().as_secs_f64()
        );
        match result {
            Ok(()) => std::fs::remove_file(&image)?,
            Err(error) => {
                println!("{:<24} FAILED: {error:#}", shape.name);
                failed.push(shape.name);
            }
        }
    }
    println!("{images} images, {} operations, {checks} checks without findings", all.done + all.refused);
    ensure!(images > 0, "no such shape");
    ensure!(failed.is_empty(), "findings or failures: {}; the images are kept", failed.join(" "));
    Ok(())
}

/// One image.
struct Work<'w> {
    arguments: &'w Arguments,
    shape: &'w Shape,
    image: &'w PathBuf,
    uxfs: &'w PathBuf,
    checks: u32,
    tally: Tally,
}

impl Work<'_> {
    fn run(&mut self) -> Result<()> {
        let options: Vec<&str> = self.shape.words().collect();
        image::make(self.image, self.arguments.mebibytes << 20, &options)?;
        self.check("after mkfs.xfs")?;
        let mut random = Random::new(self.arguments.seed);
        // No kernel here mounts some shapes.
        if let Ok(mount) = LoopMount::new(self.image, Access::ReadWrite) {
            let mut side = ByKernel::new(mount.path())?;
            let tally = age(&mut side, &mut random, self.arguments.operations);
            drop(side);
            mount.unmount()?;
            self.take(tally?)?;
            self.check("aged by the kernel")?;
        }
        let mut side = match ByEditor::new(self.image) {
            Ok(side) => side,
            // Some features are only read.
            Err(error) if format!("{error:#}").contains("not supported") => return Ok(()),
            Err(error) => return Err(error),
        };
        let tally = age(&mut side, &mut random, self.arguments.operations)?;
        side.close()?;
        self.take(tally)?;
        self.check("aged by uxfs")
    }

    fn take(&mut self, tally: Tally) -> Result<()> {
        self.tally.add(&tally);
        // A file system that has shut down refuses everything.
        ensure!(
            tally.done * 2 > tally.refused,
            "{} of {} operations were refused",
            tally.refused,
            tally.done + tally.refused
        );
        Ok(())
    }

    fn check(&mut self, when: &str) -> Result<()> {
        let output = Command::new(self.uxfs).arg("check").arg(self.image).output()?;
        if !output.status.success() {
            let shown = String::from_utf8_lossy(&output.stdout);
            bail!("{when}: {}", shown.lines().take(10).collect::<Vec<_>>().join("\n"));
        }
        self.checks += 1;
        repair_is_silent(self.image).with_context(|| when.to_owned())
    }
}
