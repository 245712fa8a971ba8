//! `cargo xtask mount-model`: threads of random system calls on real mounts, equal to a model; their processes are killed.

use std::{path::PathBuf, thread, time::Instant};

use anyhow::{Context, Result, anyhow};
use uxfs_lab::mounted::life::{Plan, Tally, live, neighbour};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The `uxfs` binary; that beside this program where not given
    #[arg(long)]
    uxfs: Option<PathBuf>,
    /// Images, one after the other
    #[arg(long, default_value_t = 1)]
    images: u64,
    /// Rounds on each image
    #[arg(long, default_value_t = 10)]
    rounds: usize,
    /// Actions of each thread in a round
    #[arg(long, default_value_t = 1000)]
    actions: usize,
    /// Threads on each image
    #[arg(long, default_value_t = 4)]
    threads: u32,
    /// Kill the processes of the mount in half of the rounds
    #[arg(long)]
    kills: bool,
    /// Two mounts of two images at once
    #[arg(long)]
    two_images: bool,
    /// Seed of the first image
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Options of the mount
    #[arg(long, default_value = "")]
    options: String,
    /// Continue after a difference
    #[arg(long)]
    go_on: bool,
    /// Folder in which images with differences are kept
    #[arg(long)]
    keep: Option<PathBuf>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let program =
        arguments.uxfs.clone().or_else(|| neighbour("uxfs")).context("no uxfs: name it with --uxfs")?;
    let program = std::fs::canonicalize(program)?;
    let (begun, mut total, mut failures) = (Instant::now(), Tally::default(), 0_u64);
    let step = if arguments.two_images { 2 } else { 1 };
    for seed in (arguments.seed..arguments.seed + arguments.images * step).step_by(step as usize) {
        let lived: Vec<Result<Tally>> = thread::scope(|scope| {
            let threads: Vec<_> = (seed..seed + step)
                .map(|seed| {
                    let plan = plan(arguments, &program, seed);
                    scope.spawn(move || live(&plan))
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow!("a panic"))))
                .collect()
        });
        for outcome in lived {
            match outcome {
                Ok(tally) => total.add(tally),
                Err(error) if arguments.go_on => {
                    failures += 1;
                    eprintln!("{error:#}");
                }
                Err(error) => return Err(error),
            }
        }
        println!("seed {seed}, {:.0} s: {total}", begun.elapsed().as_secs_f64());
    }
    match failures {
        0 => {
            println!("{total}");
            Ok(())
        }
        failures => Err(anyhow!("{failures} images were not as the model says")),
    }
}

fn plan(arguments: &Arguments, program: &std::path::Path, seed: u64) -> Plan {
    Plan {
        program: program.into(),
        rounds: arguments.rounds,
        actions: arguments.actions,
        threads: arguments.threads.clamp(1, 8),
        kills: arguments.kills,
        options: arguments.options.clone(),
        seed,
        keep: arguments.keep.clone(),
    }
}
