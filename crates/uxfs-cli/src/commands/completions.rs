//! `uxfs completions`: what makes a shell complete command lines.

use std::io::Write;

use clap_complete::Shell;

use crate::{
    commands::Context,
    failure::{Exit, Outcome},
    output::{Output, must_be_open},
};

/// Arguments of `uxfs completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Packages of uxfs install them already.\n\
    Examples:\n  uxfs completions bash > ~/.local/share/bash-completion/completions/uxfs\n  uxfs completions zsh > ~/.zfunc/_uxfs\n  \
    uxfs completions fish > ~/.config/fish/completions/uxfs.fish")]
pub struct Arguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs the command.
pub fn run(arguments: &Arguments, _: &Context) -> Outcome {
    must_be_open()?;
    // They are made in memory: the generator panics where it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut crate::command(), "uxfs", &mut script);
    let mut output = Output::new();
    output.write_all(&script)?;
    output.finish()?;
    Ok(Exit::Success)
}
