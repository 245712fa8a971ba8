//! `uxfs bench xattr`: very many attributes on one file.

use std::io::Write;

use uxfs_bench::{
    backend::Backend,
    xattr::{self, Document, Options, Outcome, case::Case},
};

use super::{
    leaves,
    target::{TargetArguments, Work},
};
use crate::{
    commands::Context,
    failure::{self, Failure},
    output::Output,
};

/// Arguments of `uxfs bench xattr`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uxfs bench xattr -d /mnt -k n1000000-20-40-60-80-100-d25\n\
    A case is a count, value sizes used in turn, and further steps: d25 deletes 25 %, o25 overwrites 25 %, \
    a50 deletes every second, i400000 inserts more. n1000000--s-50-255--N-400000 is a partial fill: values of 255 bytes, every \
    second attribute deleted, then 400,000 of these inserted again (D-400000 deletes 400,000 more instead). Afterwards, \
    uxfs bench leaves IMAGE FILE shows how full the leaves are.")]
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
    /// Show each leaf afterwards: how full it is, and its hashes (in process; else see uxfs bench leaves --series)
    #[arg(long, requires = "image")]
    series: bool,
    /// Seed of the choice of attributes to overwrite and delete
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,
}

/// The name of the file.
const FILE: &str = "attributes";

/// Runs the command.
pub fn run(arguments: &Arguments, context: &Context) -> failure::Outcome {
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
            looks_at_leaves: self.series,
        };
        let Outcome { steps, leaves } = xattr::run(backend, &options, |_| {})?;
        if context.json {
            steps.iter().try_for_each(|step| output.json(&Document::new(step)))?;
        } else {
            write!(output, "{}", xattr::table(&steps))?;
        }
        if let Some((found, series)) = leaves {
            if !context.json {
                writeln!(output)?;
            }
            leaves::print(output, &found, &series, context.json)?;
        }
        Ok(())
    }
}
