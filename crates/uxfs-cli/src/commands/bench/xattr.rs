//! `uxfs bench xattr`: very many attributes on one file.

use std::io::Write;

use uxfs_bench::{
    backend::Backend,
    xattr::{self, Document, Options, case::Case},
};

use super::target::{TargetArguments, Work};
use crate::{
    commands::Context,
    failure::{Failure, Outcome},
    output::Output,
};

/// Arguments of `uxfs bench xattr`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uxfs bench xattr -d /mnt -k n1000000-20-40-60-80-100-d25\n\
    A case is a count, value sizes used in turn, and further steps: d25 deletes 25 %, o25 overwrites 25 %, \
    i400000 inserts more. Afterwards, uxfs bench leaves IMAGE FILE shows how full the leaves are.")]
pub struct Arguments {
    /// Case, such as n1000000-20-40-60-80-100-d25
    #[arg(value_name = "CASE")]
    case: Case,
    #[command(flatten)]
    target: TargetArguments,
    /// Print the cost after each this many attributes
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000)]
    step: u64,
    /// Prefix of the names; eleven digits follow
    #[arg(long, value_name = "TEXT", default_value = "trusted.name")]
    prefix: String,
    /// Keep the file
    #[arg(short = 'k')]
    keep: bool,
    /// Seed of the choice of attributes to overwrite and delete
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,
}

/// What the file is called.
const FILE: &str = "attributes";

/// Runs the command.
pub fn run(arguments: &Arguments, context: &Context) -> Outcome {
    arguments.target.run(arguments, context)
}

impl Work for Arguments {
    fn on<B: Backend>(&self, backend: &B, context: &Context, output: &mut Output) -> Result<(), Failure> {
        let options = Options {
            case: self.case.clone(),
            step: self.step,
            prefix: self.prefix.clone(),
            file: FILE.to_owned(),
            keep: self.keep,
            seed: self.seed,
        };
        let steps = xattr::run(backend, &options, |_| {})?;
        if context.json {
            steps.iter().try_for_each(|step| output.json(&Document::new(step)))?;
        } else {
            write!(output, "{}", xattr::table(&steps))?;
        }
        Ok(())
    }
}
