//! Man pages and shell completions, from the command line's own description.

use std::{fs, path::PathBuf};

use anyhow::Result;
use clap_complete::Shell;

/// Arguments of `cargo xtask manual`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Where `man/` and `completions/` are written
    #[arg(long, default_value = "target/manual")]
    directory: PathBuf,
}

/// Writes a page for each command and completions for each shell.
pub fn run(arguments: &Arguments) -> Result<()> {
    let pages = arguments.directory.join("man");
    let completions = arguments.directory.join("completions");
    fs::create_dir_all(&pages)?;
    fs::create_dir_all(&completions)?;
    clap_mangen::generate_to(uxfs_cli::command(), &pages)?;
    for tool in uxfs_cli::drop_in::commands() {
        let page = pages.join(format!("{}.8", tool.get_name()));
        clap_mangen::Man::new(tool).section("8").render(&mut fs::File::create(page)?)?;
    }
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish] {
        clap_complete::generate_to(shell, &mut uxfs_cli::command(), "uxfs", &completions)?;
        for mut tool in uxfs_cli::drop_in::commands() {
            let name = tool.get_name().to_owned();
            clap_complete::generate_to(shell, &mut tool, name, &completions)?;
        }
    }
    println!("{} pages in {}", fs::read_dir(&pages)?.count(), pages.display());
    println!("{} completions in {}", fs::read_dir(&completions)?.count(), completions.display());
    Ok(())
}
