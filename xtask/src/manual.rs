//! Man pages and shell completions, from the command line's own description.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use anyhow::Result;
use clap::Command;
use clap_complete::{Generator, Shell};
use clap_mangen::{
    Man,
    roff::{Roff, bold, roman},
};
use uxfs_cli::commands::completions::script;

/// What `uxfs` exits with, where the help of a command says nothing else.
const EXIT_STATUS: &str =
    "0 done; 1 the operation failed; 2 wrong usage; 3 corruption found; 4 unsupported feature";
/// Commands whose pages name each other.
const RELATED: [&[&str]; 7] = [
    &["mkfs", "put", "admin", "info"],
    &["ls", "tree", "stat", "cat", "get", "extract"],
    &[
        "put", "mkdir", "rm", "rmdir", "mv", "cp", "ln", "chmod", "chown", "touch", "truncate", "setfattr",
        "shell",
    ],
    &["mount", "umount", "stats"],
    &["check", "repair", "undo", "rescue", "inspect"],
    &["metadump", "mdrestore"],
    &["replay", "inspect", "info"],
];

/// Arguments of `cargo xtask manual`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Where `man/` and `completions/` are written
    #[arg(long, default_value = "target/manual")]
    directory: PathBuf,
}

/// Writes them, and says how many.
pub fn run(arguments: &Arguments) -> Result<()> {
    write(&arguments.directory)?;
    for kind in ["man", "completions"] {
        let folder = arguments.directory.join(kind);
        println!("{} files in {}", fs::read_dir(&folder)?.count(), folder.display());
    }
    Ok(())
}

/// Writes a page for each command and completions for each shell.
pub fn write(directory: &Path) -> Result<()> {
    let pages = directory.join("man");
    let completions = directory.join("completions");
    fs::create_dir_all(&pages)?;
    fs::create_dir_all(&completions)?;
    let mut uxfs = uxfs_cli::command().disable_help_subcommand(true);
    uxfs.build();
    write_pages(&uxfs, &pages)?;
    for mut tool in uxfs_cli::drop_in::commands() {
        tool.build();
        write_page(&tool, "8", &pages)?;
    }
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish] {
        for mut tool in uxfs_cli::drop_in::commands().into_iter().chain([uxfs_cli::command()]) {
            let name = tool.get_name().to_owned();
            fs::write(completions.join(shell.file_name(&name)), script(shell, &mut tool, &name))?;
        }
    }
    Ok(())
}

fn write_pages(command: &Command, pages: &Path) -> Result<()> {
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        write_pages(subcommand, pages)?;
    }
    write_page(command, "1", pages)
}

fn write_page(command: &Command, section: &str, pages: &Path) -> Result<()> {
    let man = Man::new(command.clone()).section(section).manual("uxfs");
    let mut page = File::create(pages.join(format!("{}.{section}", man_name(command))))?;
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    write_synopsis(command, &mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let told = Told::of(command);
    write_section("NOTES", &told.notes, &mut page)?;
    write_section("EXAMPLES", &told.examples, &mut page)?;
    write_section("EXIT STATUS", &[told.exit_status], &mut page)?;
    write_section("SEE ALSO", &[see_also(command)], &mut page)?;
    Ok(page.flush()?)
}

/// `uxfs-ls`, as clap_mangen names pages.
fn man_name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn write_synopsis(command: &Command, page: &mut impl Write) -> io::Result<()> {
    let usage = command.clone().render_usage().to_string();
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    for (number, line) in usage.trim_start_matches("Usage:").trim().lines().enumerate() {
        if number > 0 {
            roff.control("br", []);
        }
        let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
        let rest = line.trim().strip_prefix(name).unwrap_or(line);
        roff.text([bold(name), roman(rest)]);
    }
    roff.to_writer(page)
}

fn write_section(title: &str, lines: &[String], page: &mut impl Write) -> io::Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    let mut roff = Roff::new();
    roff.control("SH", [title]);
    for line in lines {
        match title {
            // Commands are not filled to paragraphs.
            "EXAMPLES" => {
                roff.control("nf", []);
                roff.text([roman(line.clone())]);
                roff.control("fi", []);
            }
            _ => {
                roff.control("PP", []);
                roff.text([roman(line.clone())]);
            }
        }
    }
    roff.to_writer(page)
}

/// What the help of a command tells behind its options.
struct Told {
    notes: Vec<String>,
    examples: Vec<String>,
    exit_status: String,
}

impl Told {
    fn of(command: &Command) -> Self {
        let help = command.get_after_long_help().or_else(|| command.get_after_help());
        let help = help.map(ToString::to_string).unwrap_or_default();
        let mut told = Self { notes: Vec::new(), examples: Vec::new(), exit_status: EXIT_STATUS.to_owned() };
        let mut is_example = false;
        for line in help.lines().filter(|line| !line.trim().is_empty()) {
            if let Some(codes) = line.strip_prefix("Exit codes: ") {
                codes.clone_into(&mut told.exit_status);
                continue;
            }
            let first =
                ["Examples:", "Example:"].iter().find_map(|word| line.trim_start().strip_prefix(word));
            // Lines of examples are indented, and the first may follow the word.
            is_example = first.is_some() || (is_example && line.starts_with(' '));
            match (is_example, first.unwrap_or(line).trim()) {
                (_, "") => {}
                (true, example) => told.add_example(example),
                (false, note) => told.notes.push(note.to_owned()),
            }
        }
        told
    }

    /// A command line, or the rest of one.
    fn add_example(&mut self, line: &str) {
        match self.examples.last_mut() {
            Some(begun) if begun.ends_with(['|', '&']) => {
                begun.push(' ');
                begun.push_str(line);
            }
            Some(begun) if begun.ends_with('\\') => {
                begun.pop();
                begun.push_str(line);
            }
            _ => self.examples.push(line.to_owned()),
        }
    }
}

fn see_also(command: &Command) -> String {
    let name = command.get_name();
    let own = man_name(command);
    let mut pages = vec!["uxfs(1)".to_owned()];
    for other in RELATED.iter().filter(|group| group.contains(&name)).flat_map(|group| group.iter()) {
        let page = format!("uxfs-{other}(1)");
        if *other != name && !pages.contains(&page) {
            pages.push(page);
        }
    }
    if own == "uxfs" {
        pages = vec!["uxfs-mkfs(1)".into(), "uxfs-mount(1)".into(), "uxfs-repair(1)".into(), "xfs(5)".into()];
    }
    pages.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_has_its_sections() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path()).unwrap();
        let pages: Vec<_> =
            fs::read_dir(folder.path().join("man")).unwrap().map(|page| page.unwrap().path()).collect();
        assert!(pages.len() > 40);
        for page in pages {
            let text = fs::read_to_string(&page).unwrap();
            for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "\"EXIT STATUS\"", "\"SEE ALSO\""] {
                assert!(text.contains(&format!(".SH {section}")), "{section} in {}", page.display());
            }
        }
        let page = fs::read_to_string(folder.path().join("man/uxfs-ls.1")).unwrap();
        assert!(page.contains("\\fBuxfs ls\\fR") && page.contains(".SH EXAMPLES"), "{page}");
    }
}
