//! `uxfs help`: the commands in groups, the help of one, or a topic that belongs to many.
//!
//! The texts of topics lie beside this file, one for each.

use std::io::Write;

use clap::Command;

use uxfs_repair::{Finding, finding::severity::Severity, repair::weighing::TABLE};

use crate::{
    commands::Context,
    failure::{Exit, Failure, Outcome},
    output::{Output, must_be_open},
};

/// A text about what many commands share.
struct Topic {
    name: &'static str,
    about: &'static str,
    text: &'static str,
}

const TOPICS: [Topic; 7] = [
    Topic {
        name: "images",
        about: "files, devices and partitions; damaged, mounted and packed images",
        text: include_str!("images.txt"),
    },
    Topic { name: "paths", about: "paths, inode numbers and patterns", text: include_str!("paths.txt") },
    Topic { name: "sources", about: "what a file system is filled with", text: include_str!("sources.txt") },
    Topic { name: "exit-codes", about: "what programs learn", text: include_str!("exit-codes.txt") },
    Topic { name: "json", about: "documents instead of text", text: include_str!("json.txt") },
    Topic {
        name: "environment",
        about: "variables that change what is done",
        text: include_str!("environment.txt"),
    },
    Topic {
        name: "drop-ins",
        about: "links by which uxfs stands in for other tools",
        text: include_str!("drop-ins.txt"),
    },
];

/// The commands as they belong together. Each is in one group: a test compares them with the command line.
const GROUPS: [(&str, &[&str]); 9] = [
    ("Make and fill", &["mkfs"]),
    ("Look and search", &["info", "ls", "tree", "find", "grep", "du", "df", "stat", "cat", "xattr", "diff"]),
    ("Copy out", &["get", "extract", "copy"]),
    (
        "Change",
        &[
            "put", "cp", "mv", "ln", "rm", "rmdir", "mkdir", "chmod", "chown", "touch", "truncate", "mknod",
            "mkfifo", "setfattr", "shell", "admin",
        ],
    ),
    ("Mount", &["mount", "umount", "stats"]),
    ("Check, repair, rescue", &["check", "repair", "undo", "rescue", "replay", "metadump", "mdrestore"]),
    ("Structures on disk", &["inspect", "map", "owner", "freespace", "parents", "inodes"]),
    ("Measure", &["bench"]),
    ("About uxfs", &["help", "completions"]),
];

/// Arguments of `uxfs help`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples: uxfs help\n          uxfs help mkfs\n          uxfs help exit-codes\n          uxfs help finding 72\n          uxfs help rule 61"
)]
pub struct Arguments {
    /// A command, with its subcommand where it has some; a topic; `finding` with a number of `uxfs check`; `rule` with a number of
    /// `uxfs repair`
    #[arg(value_name = "COMMAND|TOPIC")]
    about: Vec<String>,
}

/// Runs the command.
pub fn run(arguments: &Arguments, _: &Context) -> Outcome {
    must_be_open()?;
    let mut uxfs = crate::command();
    uxfs.build();
    let text = match &*arguments.about {
        [] => overview(&uxfs),
        [name] if topic(name).is_some() => topic(name).map(|topic| topic.text.to_owned()).unwrap_or_default(),
        [word] if word == "findings" => findings(),
        [word, number] if word == "finding" => finding(number)?,
        [word, number] if word == "rule" => rule(number)?,
        names => long_help(&mut uxfs, names)?,
    };
    let mut output = Output::new();
    output.write_all(text.as_bytes())?;
    output.finish()?;
    Ok(Exit::Success)
}

/// Columns of an explanation.
const COLUMNS: usize = 80;
/// What a kind of finding means for the file system, and what a repair does about it: a line for each number.
const FINDINGS: &str = include_str!("findings.txt");

/// All kinds of finding.
fn findings() -> String {
    let line = |number: &u16| {
        let severity = Finding::severity_of(*number).map_or("", Severity::name);
        format!("[{number}] {severity}: {}\n", Finding::meaning_of(*number).unwrap_or_default())
    };
    Finding::NUMBERS
        .iter()
        .map(line)
        .chain(["\nuxfs help finding N tells more of one.\n".to_owned()])
        .collect()
}

/// One kind of finding, by its number.
fn finding(text: &str) -> Result<String, Failure> {
    let known =
        text.trim_matches(['[', ']']).parse().ok().and_then(|number: u16| {
            Some((number, Finding::meaning_of(number)?, Finding::severity_of(number)?))
        });
    let (number, meaning, severity) = known.ok_or_else(|| {
        Failure::usage(format!("{text}: no finding has this number"))
            .with_remedy("uxfs help findings lists them")
    })?;
    let of_severity = match severity {
        Severity::Leftover => "Work that was cut off: only space is wasted.",
        Severity::Inconsistent => {
            "A fact that follows from others is recorded wrongly. Nothing is lost yet; changing the file system may make it worse."
        }
        Severity::Damaged => {
            "Something cannot be read, or two witnesses of names or contents contradict each other: files, names or \
             attributes may be lost."
        }
    };
    let prefix = format!("{number} ");
    let more = FINDINGS.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap_or_default();
    let text = format!(
        "[{number}] {meaning}\n\n{more}\n\n{}: {of_severity}\n\nuxfs repair -n IMAGE shows what a repair would do, and writes \
         nothing. uxfs rescue IMAGE --to DIR saves files before anything is changed. uxfs undo takes a repair back.\n",
        severity.name(),
    );
    Ok(wrapped(&text))
}

/// One rule of a repair, by its number.
fn rule(text: &str) -> Result<String, Failure> {
    let number: Option<u16> = text.trim_matches(['[', ']']).parse().ok();
    let row = TABLE.iter().find(|row| Some(row.rule.number()) == number).ok_or_else(|| {
        let numbers: Vec<_> = TABLE.iter().map(|row| row.rule.number().to_string()).collect();
        Failure::usage(format!("{text}: no rule of a repair has this number"))
            .with_remedy(&format!("the rules are {}", numbers.join(", ")))
    })?;
    let text = format!(
        "[{}] {}\n\nBelieved, in this order: {}.\n\nReason: {}.\n\nuxfs repair -n --all IMAGE shows every action, and below a guess what \
         else may be true.\n",
        row.rule.number(),
        row.question,
        row.order,
        row.reason
    );
    Ok(wrapped(&text))
}

/// Lines of a usual terminal.
fn wrapped(text: &str) -> String {
    let mut wrapped = String::with_capacity(text.len());
    for paragraph in text.lines() {
        let mut columns = 0;
        for word in paragraph.split(' ') {
            let length = word.chars().count();
            match columns {
                0 => columns = length,
                _ if columns + 1 + length > COLUMNS => {
                    wrapped.push('\n');
                    columns = length;
                }
                _ => {
                    wrapped.push(' ');
                    columns += 1 + length;
                }
            }
            wrapped.push_str(word);
        }
        wrapped.push('\n');
    }
    wrapped
}

fn topic(name: &str) -> Option<&'static Topic> {
    TOPICS.iter().find(|topic| topic.name == name)
}

/// Names of the topics, for completions and man pages.
pub fn topics() -> impl Iterator<Item = &'static str> {
    TOPICS.iter().map(|topic| topic.name)
}

fn long_help(uxfs: &mut Command, names: &[String]) -> Result<String, Failure> {
    let mut command = uxfs;
    for name in names {
        command = command.find_subcommand_mut(name).ok_or_else(|| {
            let topics: Vec<_> = topics().collect();
            let remedy = format!("uxfs help lists the commands; topics are {}", topics.join(", "));
            Failure::usage(format!("{name}: neither a command nor a topic")).with_remedy(&remedy)
        })?;
    }
    Ok(command.render_long_help().to_string())
}

/// All commands in their groups, and the topics.
fn overview(uxfs: &Command) -> String {
    let mut text = "uxfs: XFS without the kernel\n\nUsage: uxfs COMMAND [OPTIONS] ...\n".to_owned();
    let about = |name: &str| {
        let command = uxfs.find_subcommand(name);
        command.and_then(Command::get_about).map(ToString::to_string).unwrap_or_default()
    };
    for (group, names) in GROUPS {
        text += &format!("\n{group}\n");
        for name in names {
            text += &format!("  {name:<12} {}\n", about(name));
        }
    }
    text += "\nTopics (uxfs help TOPIC)\n";
    for topic in &TOPICS {
        text += &format!("  {:<12} {}\n", topic.name, topic.about);
    }
    text += &format!("  {:<12} {}\n", "finding N", "a kind of finding of uxfs check, by its number");
    text += "\nuxfs help COMMAND and uxfs COMMAND --help tell more.\n";
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_overview_fits_a_usual_terminal() {
        let mut uxfs = crate::command();
        uxfs.build();
        let overview = overview(&uxfs);
        let long: Vec<_> = overview.lines().filter(|line| line.len() > 92).collect();
        assert!(long.is_empty(), "{long:#?}");
    }

    #[test]
    fn each_kind_of_finding_is_explained_once() {
        let explained: Vec<u16> = FINDINGS
            .lines()
            .map(|line| line.split_once(' ').and_then(|(number, _)| number.parse().ok()).unwrap_or(0))
            .collect();
        assert_eq!(explained, Finding::NUMBERS);
        assert!(finding("4711").is_err() && finding("[72]").is_ok_and(|text| text.contains("lost+found")));
    }

    #[test]
    fn each_command_is_in_one_group() {
        let of_command_line = crate::command();
        let of_command_line: BTreeSet<_> =
            of_command_line.get_subcommands().map(Command::get_name).map(str::to_owned).collect();
        let in_groups: Vec<_> =
            GROUPS.iter().flat_map(|(_, names)| *names).map(|name| (*name).to_owned()).collect();
        assert_eq!(in_groups.len(), in_groups.iter().collect::<BTreeSet<_>>().len());
        assert_eq!(in_groups.into_iter().collect::<BTreeSet<_>>(), of_command_line);
    }

    /// Lines of examples, in all commands. Help wraps a line that is longer than one of a terminal, and it cannot be pasted then.
    #[test]
    fn examples_fit_into_a_line() {
        let mut waiting = vec![crate::command()];
        let mut count = 0;
        while let Some(command) = waiting.pop() {
            waiting.extend(command.get_subcommands().cloned());
            let help = command.get_after_long_help().or_else(|| command.get_after_help());
            let help = help.map(ToString::to_string).unwrap_or_default();
            let mut is_example = false;
            for line in help.lines() {
                is_example = line.starts_with("Example") || (is_example && line.starts_with(' '));
                assert!(!is_example || line.chars().count() <= 80, "{}: {line}", command.get_name());
                count += usize::from(is_example);
            }
        }
        assert!(count > 60, "only {count} lines of examples");
    }

    #[test]
    fn topics_are_short_lines_and_no_commands() {
        for topic in &TOPICS {
            assert!(crate::command().find_subcommand(topic.name).is_none(), "{}", topic.name);
            assert!(topic.text.ends_with('\n') && topic.text.lines().all(|line| line.chars().count() <= 100));
            assert!(overview(&crate::command()).contains(topic.about));
        }
    }
}
