//! What `--json` prints holds to the schema: each line of each command, on images of many shapes; and all that the schema has is printed.

/// The words of a command line.
macro_rules! words {
    ($($word:expr),* $(,)?) => { &[$(std::ffi::OsStr::new($word).to_owned()),*][..] };
}

mod messages;
mod on_damaged;
mod on_sound;
mod refusals;
mod schema;

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
    path::Path,
    process::{Command, Output, Stdio},
};

use self::schema::Schema;
use crate::common;
use crate::common::mount_place;
use crate::common::program;

/// Commands that print no documents on standard output, each with the reason.
const WITHOUT_DOCUMENTS: &[(&str, &str)] = &[
    ("cat", "it writes bytes of files"),
    ("completions", "it writes a script for a shell"),
    ("help", "it writes text for people"),
    ("mount", "it says nothing where it succeeds"),
    ("umount", "it says nothing where it succeeds"),
];

/// Documents and fields that no test makes, each with the reason.
const UNSEEN: &[(&str, &str)] = &[
    ("df.label_hex", "a label that is not UTF-8 is made by other programs only"),
    ("diff_side.flags", "flags are set by the kernel: tests/diff has them"),
    ("diff_side.project_id", "projects are set by the kernel: tests/diff has them"),
    ("rescue_image.error", "a repair is possible of all damages here"),
    ("rescue_image.findings", "a repair mends all damages here"),
];

/// Runs commands, and holds what they print against the schema.
struct Judge {
    schema: Schema,
    ran: BTreeMap<String, u64>,
    wrong: Vec<String>,
}

impl Judge {
    /// Runs a command with `--json`, whatever its exit code.
    fn run<W: AsRef<OsStr>>(&mut self, words: &[W]) -> Output {
        self.run_with_input(words, Stdio::null())
    }

    fn run_with_input<W: AsRef<OsStr>>(&mut self, words: &[W], input: impl Into<Stdio>) -> Output {
        let words: Vec<OsString> = words.iter().map(|word| word.as_ref().to_owned()).collect();
        let mut command = Command::new(program());
        command.arg("--json").args(&words).stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = command.output().unwrap();
        let name = words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
        self.judge(&name, &words, &output);
        output
    }

    fn judge(&mut self, name: &str, words: &[OsString], output: &Output) {
        let code = output.status.code();
        let told = String::from_utf8(output.stderr.clone()).unwrap();
        let is_text = WITHOUT_DOCUMENTS.iter().any(|(command, _)| *command == name);
        if !is_text {
            for line in String::from_utf8(output.stdout.clone()).unwrap().lines() {
                let of: &[&str] = match name {
                    // Its commands print their own documents.
                    "shell" => &["shell", "ls", "stat", "mkdir"],
                    name => &[name],
                };
                self.line(name, words, line, of);
            }
        }
        for line in told.lines() {
            // The document of a dump or an archive that takes standard output is on standard error.
            self.line(name, words, line, &["*", name]);
        }
        if !matches!(code, Some(0..=4)) {
            self.wrong.push(format!("{words:?}: {code:?} {told}"));
        }
        // Programs read documents only, and must learn why.
        if matches!(code, Some(1..=4)) && told.is_empty() && output.stdout.is_empty() && name != "grep" {
            self.wrong.push(format!("{words:?}: {code:?}, and says nothing"));
        }
        *self.ran.entry(name.to_owned()).or_default() += 1;
    }

    fn line(&mut self, name: &str, words: &[OsString], line: &str, of: &[&str]) {
        let judged: Vec<_> = of.iter().map(|command| self.schema.judge(command, line)).collect();
        if judged.iter().all(Result::is_err) && self.wrong.len() < 40 {
            let reasons: Vec<_> = judged.into_iter().filter_map(Result::err).collect();
            let line: String = line.chars().take(600).collect();
            self.wrong.push(format!("{name}: {words:?}\n  {line}\n  {}", reasons.join("\n  ")));
        }
    }
}

#[test]
fn the_schema_is_in_order() {
    let schema = Schema::new();
    schema.is_in_order();
    let text = uxfs_cli::schema::JSON_SCHEMA;
    for kind in uxfs_cli::kind::Kind::ALL {
        assert!(text.contains(&format!("\"{}\"", kind.token())), "{kind:?}");
    }
    for note in uxfs_cli::kind::Note::ALL {
        assert!(text.contains(&format!("\"{}\"", note.token())), "{note:?}");
    }
}

#[test]
fn all_that_is_printed_is_in_the_schema_and_the_other_way() {
    let mut judge = Judge { schema: Schema::new(), ran: BTreeMap::new(), wrong: Vec::new() };
    on_sound::run(&mut judge);
    on_damaged::run(&mut judge);
    assert!(judge.wrong.is_empty(), "{}", judge.wrong.join("\n"));

    let commands = uxfs_cli::command();
    let commands: BTreeSet<_> =
        commands.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    let definitions = judge.schema.definitions().values();
    let described: BTreeSet<_> = definitions
        .filter_map(|definition| definition["commands"].as_array())
        .flatten()
        .map(|command| command.as_str().unwrap().to_owned())
        .collect();
    for command in &commands {
        assert!(judge.ran.contains_key(command), "{command} is not run: see on_sound.rs");
        let is_text = WITHOUT_DOCUMENTS.iter().any(|(one, _)| one == command);
        assert!(is_text != described.contains(command), "{command} has no document in the schema");
    }
    let strange: Vec<_> = described.iter().filter(|one| *one != "*" && !commands.contains(*one)).collect();
    assert!(strange.is_empty(), "documents of commands that are none: {strange:?}");

    let mut unseen = judge.schema.unseen();
    for (name, _) in UNSEEN {
        assert!(unseen.remove(*name), "{name} was seen: it is no exception");
    }
    assert!(unseen.is_empty(), "in the schema, and never printed: {unseen:#?}");
    eprintln!("{} commands were judged", judge.ran.values().sum::<u64>());
}

fn at(folder: &Path, name: &str) -> OsString {
    folder.join(name).into_os_string()
}
