//! One file per command: its arguments, its help with an example, and what it prints.

pub mod info;

use crate::failure::Outcome;

/// What every command knows beside its own arguments.
#[derive(Debug, Clone, Copy)]
pub struct Context {
    /// Print JSON.
    pub json: bool,
}

/// The commands.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Show sizes, features and counters of a file system
    Info(info::Arguments),
}

impl Command {
    /// Runs the command.
    pub fn run(&self, context: &Context) -> Outcome {
        match self {
            Self::Info(arguments) => info::run(arguments, context),
        }
    }
}
