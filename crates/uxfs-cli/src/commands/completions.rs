//! `uxfs completions`: what makes a shell complete command lines.

use std::io::Write;

use clap::Command;
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
    let mut output = Output::new();
    output.write_all(&script(arguments.shell, &mut crate::command(), "uxfs"))?;
    output.finish()?;
    Ok(Exit::Success)
}

/// The script of a command with this name.
pub fn script(shell: Shell, command: &mut Command, name: &str) -> Vec<u8> {
    // They are made in memory: the generator panics where it cannot write.
    let mut script = match shell {
        // The words of `compgen` are options and values from a list, without blanks.
        Shell::Bash => b"# shellcheck disable=SC2207\n".to_vec(),
        _ => Vec::new(),
    };
    clap_complete::generate(shell, command, name, &mut script);
    script
}
