//! One file, read and written in every way that FUSE carries, beside a model in memory. Deterministic by seed.
//!
//! Collapsing and inserting ranges are not among the ways: FUSE does not carry them. A process of its own does the work: a mapped file
//! that loses its server ends the process.
//!
//! | module | holds |
//! |---|---|
//! | here | the load, the loop, what is shown of a failure |
//! | `operation` | the operations and their choice |
//! | `subject` | the file and its model, and doing an operation on both |

mod operation;
mod subject;

use std::{collections::VecDeque, path::Path, process::Command, time::Duration};

use anyhow::{Context, Result, bail};
use uxfs_testkit::seeds::Random;

use self::{
    operation::{KINDS, Operation},
    subject::Subject,
};
use super::{Stage, limit, place::Place, program};

/// Operations between two comparisons of the whole file.
const COMPARED_EVERY: u64 = 2000;
/// Operations between two remounts, each with a new file beside the old one.
const REMOUNTED_EVERY: u64 = 250_000;
/// Operations that are shown before one that fails.
const SHOWN: usize = 40;

/// Runs it on a mount, in several processes one after the other: the file is mounted again in between.
pub fn load(stage: &Stage) -> Result<String> {
    // A thousand operations a second are few.
    let usual = Duration::from_secs(120 + stage.operations / 1000);
    let place = Place::mounted(stage, "1G", limit(stage, usual))?;
    let (mut left, mut number) = (stage.operations, 0);
    while left > 0 {
        let operations = left.min(REMOUNTED_EVERY);
        let file = place.join(format!("file-{number}"));
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["mount-load", "--exercise"]).arg(&file);
        command.args(["--seed", &stage.seed.wrapping_add(number).to_string()]);
        program::run(command.args(["--operations", &operations.to_string()]), usual)?;
        left -= operations;
        number += 1;
        place.unmount()?;
        place.is_sound()?;
        place.mount()?;
    }
    place.finish()?;
    Ok(format!("{} operations on {number} files, one after the other", stage.operations))
}

/// Does the work on one file.
///
/// # Errors
/// The file and the model differ: the operations before are told.
pub fn exercise(path: &Path, seed: u64, operations: u64) -> Result<()> {
    let (mut random, mut last) = (Random::new(seed), VecDeque::new());
    let mut subject = Subject::new(path)?;
    let mut counts = [0_u64; KINDS.len()];
    for number in 0..operations {
        let operation = Operation::choose(&mut random, subject.length());
        if last.len() == SHOWN {
            last.pop_front();
        }
        last.push_back(operation);
        counts[operation.kind()] += 1;
        let mut outcome = subject.apply(operation, &mut random);
        if outcome.is_ok() && number % COMPARED_EVERY == COMPARED_EVERY - 1 {
            outcome = subject.compare().context("the whole file");
        }
        if let Err(error) = outcome {
            last.iter().for_each(|operation| println!("{operation:x?}"));
            bail!("seed {seed}, operation {number}, the last one above: {error:#}");
        }
    }
    subject.compare().context("at the end")?;
    for (kind, count) in KINDS.iter().zip(counts) {
        println!("{kind:<16}{count:>10}");
    }
    Ok(())
}
