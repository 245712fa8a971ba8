//! Completion at the prompt: commands, paths in the image, and paths of the host where a command takes those.

use std::{cell::RefCell, ops::ControlFlow, path::Path, rc::Rc};

use rustyline::{
    Context, Helper,
    completion::{Completer, Pair},
    highlight::Highlighter,
    hint::Hinter,
    validate::{ValidationContext, ValidationResult, Validator},
};
use uxfs_volume::{directory::DirectoryEntry, inode::FileType};

use super::{
    view::View,
    words::{self, Parsed},
};
use crate::edit::session::join;

/// Most candidates that are looked for.
const CANDIDATES_MAX: usize = 2000;

/// Knows the image, and where the shell is in it.
pub struct Completion {
    view: Rc<RefCell<View>>,
    commands: Vec<String>,
}

impl Completion {
    /// For these commands.
    pub fn new(view: Rc<RefCell<View>>, commands: Vec<String>) -> Self {
        Self { view, commands }
    }

    fn command_names(&self, begin: &str) -> Vec<Pair> {
        let fitting = self.commands.iter().filter(|name| name.starts_with(begin));
        fitting.map(|name| Pair { display: name.clone(), replacement: format!("{name} ") }).collect()
    }

    /// The names in the image that begin like this. An unreadable directory has no candidates.
    fn image_paths(&self, word: &str) -> Vec<Pair> {
        let (above, begin) = split(word);
        let mut pairs = Vec::new();
        let Ok(mut view) = self.view.try_borrow_mut() else { return pairs };
        let directory = match above.starts_with('/') {
            true => above.as_bytes().to_vec(),
            false => join(view.directory(), above.as_bytes()),
        };
        if let Some(volume) = view.glance()
            && let Ok(inode) = volume.resolve(&directory, true)
        {
            let listed = volume.read_directory(&inode, 0, |entry: DirectoryEntry<'_>| {
                let name = std::str::from_utf8(entry.name).ok();
                if let Some(name) = name.filter(|name| fits(name, begin)) {
                    pairs.push(pair(above, name, entry.file_type == Some(FileType::Directory)));
                }
                if pairs.len() < CANDIDATES_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            // A directory that is damaged in the middle has what comes before.
            drop(listed);
        }
        view.rest();
        pairs
    }

    fn host_paths(word: &str) -> Vec<Pair> {
        let (above, begin) = split(word);
        let folder = if above.is_empty() { Path::new(".") } else { Path::new(above) };
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let fitting = entries.filter_map(|entry| {
            let name = entry.file_name().into_string().ok().filter(|name| fits(name, begin))?;
            Some(pair(above, &name, entry.path().is_dir()))
        });
        fitting.take(CANDIDATES_MAX).collect()
    }
}

/// A path up to its last slash, and what follows.
fn split(word: &str) -> (&str, &str) {
    word.split_at(word.rfind('/').map_or(0, |slash| slash + 1))
}

fn fits(name: &str, begin: &str) -> bool {
    let is_hidden = name.starts_with('.') && !begin.starts_with('.');
    name.starts_with(begin) && !is_hidden && !matches!(name, "." | "..") && !name.contains(char::is_control)
}

fn pair(above: &str, name: &str, is_directory: bool) -> Pair {
    let end = if is_directory { "/" } else { " " };
    let replacement = format!("{}{end}", words::quoted(&format!("{above}{name}")));
    Pair { display: format!("{name}{}", end.trim_end()), replacement }
}

/// Where the last word of a line begins, and that line's commands.
fn last_word(line: &str) -> Option<(usize, Vec<String>)> {
    let Parsed::Commands(mut commands) = words::parse(line.as_bytes()) else { return None };
    let mut escaped = false;
    let mut begin = 0;
    for (index, character) in line.char_indices() {
        if !escaped && (character == ';' || character.is_whitespace()) {
            begin = index + character.len_utf8();
        }
        escaped = character == '\\' && !escaped;
    }
    let before = line.get(..begin)?.trim_end();
    let mut words = if before.ends_with(';') && begin == line.len() {
        Vec::new()
    } else {
        commands.pop().unwrap_or_default()
    };
    if begin == line.len() {
        // A new one.
        words.push(Default::default());
    }
    let words =
        words.into_iter().map(|word| word.into_text().into_string().ok()).collect::<Option<Vec<String>>>()?;
    Some((begin, words))
}

impl Completer for Completion {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        // Within quotes nothing is completed.
        let Some((begin, words)) = line.get(..pos).and_then(last_word) else { return Ok((pos, Vec::new())) };
        let mut pairs = match words.as_slice() {
            [] => self.command_names(""),
            [name] => self.command_names(name),
            [command, .., word] => match command.as_str() {
                "lcd" => Self::host_paths(word),
                "put" | "get" => [Self::host_paths(word), self.image_paths(word)].concat(),
                "help" => self.command_names(word),
                _ => self.image_paths(word),
            },
        };
        pairs.sort_by(|one, other| one.replacement.cmp(&other.replacement));
        pairs.dedup_by(|one, other| one.replacement == other.replacement);
        Ok((begin, pairs))
    }
}

impl Validator for Completion {
    /// An open quote goes on in the next line.
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match words::parse(context.input().as_bytes()) {
            Parsed::Commands(_) => ValidationResult::Valid(None),
            Parsed::Unfinished => ValidationResult::Incomplete,
        })
    }
}

impl Hinter for Completion {
    type Hint = String;
}

impl Highlighter for Completion {}

impl Helper for Completion {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_to_be_completed() {
        let found = |line: &str| last_word(line).map(|(begin, words)| (begin, words.join("|")));
        assert_eq!(found("ls /et"), Some((3, "ls|/et".to_owned())));
        assert_eq!(found("ls "), Some((3, "ls|".to_owned())));
        assert_eq!(found("l"), Some((0, "l".to_owned())));
        assert_eq!(found("cd a; ls b\\ c"), Some((9, "ls|b c".to_owned())));
        assert_eq!(found("cd a; "), Some((6, String::new())));
        assert_eq!(found("rm 'a"), None);
        assert_eq!(pair("a b/", "c", true).replacement, "a\\ b/c/");
    }
}
