//! Files of version 6: a tree of folders.
//!
//! | part | holds |
//! |---|---|
//! | count | of all rules, 64 bits |
//! | contexts | their count, 32 bits; of each a length of 16 bits and the text |
//! | a folder, at first the root | its name; the number of its paths, and these; the number of its expressions, and these; the number of folders in it, ordered by name, and these. Numbers have 32 bits, the root's name is empty |
//! | a path | number of the context, from 1, 32 bits; the expression as it was written; the path that it is; the file type, 8 bits |
//! | an expression | number of the context, from 1; its line in the text, 32 bits; the text; length of the part without special characters, 16 bits; the file type, 8 bits; the compiled expression, a length of 32 bits and data |
//!
//! Names, paths and expressions have a length of 16 bits, which counts the zero byte at their end.
//!
//! A rule lies in the deepest folder that its text names without special characters, three levels deep at most. libselinux looks
//! for it on the way to the file that is looked up, so that `/var/lib/x/?` is not for `/var/lib/x`. Among the rules for one path the
//! first holds, among all expressions the one of the last line. But it looks from the innermost folder outwards, and ends where it
//! finds `<<none>>`.

use std::{collections::BTreeMap, io::Read, sync::Arc};

use super::{Add, Compiled, expression};
use crate::{
    error::{CompiledFault, SourceError, TextFault},
    labels::{MAX_RULES, Matches, Rule, label_of},
    lines::unexpected,
};

/// As libselinux allows.
const MAX_DEPTH: usize = 32;
/// File types by their numbers; 0 is any.
const KINDS: [Option<u8>; 8] =
    [None, Some(b'd'), Some(b'c'), Some(b'b'), Some(b's'), Some(b'p'), Some(b'l'), Some(b'-')];

struct Tree<'a, R> {
    file: &'a mut Compiled<R>,
    contexts: Vec<Option<Arc<[u8]>>>,
    /// In the order of the file.
    paths: Vec<Rule>,
    /// By line.
    expressions: BTreeMap<u32, Rule>,
}

/// A folder whose folders are being read.
struct Folder {
    /// How much of the path is that of the folder around it.
    outer_bytes: usize,
    folders_left: u32,
    /// The last folder in it.
    last_name: Vec<u8>,
}

/// What follows the head.
pub(super) fn read<R: Read>(file: &mut Compiled<R>, add: Add<'_>) -> Result<(), SourceError> {
    let claimed = u64::from_be_bytes(file.bytes("the number of its rules")?);
    let mut tree = Tree { contexts: contexts(file)?, file, paths: Vec::new(), expressions: BTreeMap::new() };
    tree.read_folders()?;
    let found = tree.file.number;
    if claimed != u64::from(found) {
        return Err(tree.file.fault(CompiledFault::RuleCount { found, claimed }));
    }
    // The last that fits will hold.
    for rule in tree.paths.into_iter().rev().chain(tree.expressions.into_values()) {
        add(rule).map_err(|fault| tree.file.fault(CompiledFault::Rules(fault)))?;
    }
    Ok(())
}

fn contexts<R: Read>(file: &mut Compiled<R>) -> Result<Vec<Option<Arc<[u8]>>>, SourceError> {
    let count = file.number_up_to(MAX_RULES as u32, "contexts", "the number")?;
    let read = |number| {
        let length = u16::from_be_bytes(file.bytes("a context")?);
        let text = file.text_of(length.into(), "a context")?;
        label_of(&text).map_err(|fault| file.fault(CompiledFault::Context { number, fault }))
    };
    (1..=count).map(read).collect()
}

impl<R: Read> Tree<'_, R> {
    fn read_folders(&mut self) -> Result<(), SourceError> {
        let mut path = Vec::new();
        if !self.name()?.is_empty() {
            return Err(self.folder_fault("a root that has a name"));
        }
        let folders_left = self.read_folder(&path)?;
        let mut open = vec![Folder { outer_bytes: 0, folders_left, last_name: Vec::new() }];
        while let Some(around) = open.last_mut() {
            let Some(left) = around.folders_left.checked_sub(1) else {
                path.truncate(around.outer_bytes);
                open.pop();
                continue;
            };
            around.folders_left = left;
            let name = self.name()?;
            // This refuses empty names as well.
            if name <= around.last_name || name.contains(&b'/') {
                return Err(self.folder_fault("a folder whose name is not at its place"));
            }
            let outer_bytes = path.len();
            let start: &[u8] = if path.is_empty() { b"/" } else { b"" };
            path.extend([start, &name, b"/"].concat());
            around.last_name = name;
            let before = self.file.number;
            let folders_left = self.read_folder(&path)?;
            if folders_left == 0 && self.file.number == before {
                return Err(self.folder_fault("an empty folder"));
            }
            if open.len() == MAX_DEPTH {
                return Err(self.folder_fault("too many folders in each other"));
            }
            open.push(Folder { outer_bytes, folders_left, last_name: Vec::new() });
        }
        Ok(())
    }

    /// The rules of a folder. Gives how many folders follow that lie in it.
    fn read_folder(&mut self, folder: &[u8]) -> Result<u32, SourceError> {
        for _ in 0..self.file.number("a folder")? {
            let label = self.begin_rule()?;
            let text = self.text()?;
            let path = self.text()?;
            let kind = self.kind()?;
            let is_so = plain(&text).eq(path.iter().map(|byte| Some(*byte)));
            self.check_place(&text, folder, is_so)?;
            self.paths.push(Rule { matches: Matches::Path(path.into()), kind, label, is_last: false });
        }
        let mut last_line = 0;
        for _ in 0..self.file.number("a folder")? {
            let label = self.begin_rule()?;
            let line = self.file.number("a rule")?;
            let text = self.text()?;
            self.file.skip(2, "a rule")?;
            let kind = self.kind()?;
            self.file.pass_expression()?;
            self.check_place(&text, folder, true)?;
            let pattern = expression(&text).map_err(|fault| self.file.rule_fault(fault))?.into();
            let matches = Matches::Expression { pattern, below: folder.into() };
            let is_last = label.is_none();
            let before = self.expressions.insert(line, Rule { matches, kind, label, is_last });
            if line <= last_line || before.is_some() {
                let fault = unexpected(line.to_string().as_bytes(), "line that it can come from");
                return Err(self.file.rule_fault(fault));
            }
            last_line = line;
        }
        self.file.number("a folder")
    }

    /// Counts a rule and gives the label that it begins with.
    fn begin_rule(&mut self) -> Result<Option<Arc<[u8]>>, SourceError> {
        self.file.number += 1;
        if self.file.number as usize > MAX_RULES {
            return Err(self.file.rule_fault(TextFault::TooMuch("rules")));
        }
        let number = self.file.number("a rule")?;
        let label = (number as usize).checked_sub(1).and_then(|index| self.contexts.get(index));
        let wrong = || self.file.rule_fault(unexpected(number.to_string().as_bytes(), "number of a context"));
        label.cloned().ok_or_else(wrong)
    }

    fn kind(&mut self) -> Result<Option<u8>, SourceError> {
        let [number] = self.file.bytes("a rule")?;
        let wrong = || self.file.rule_fault(unexpected(number.to_string().as_bytes(), "type of file"));
        KINDS.get(usize::from(number)).copied().ok_or_else(wrong)
    }

    fn text(&mut self) -> Result<Vec<u8>, SourceError> {
        let text = self.sized("a rule")?;
        self.file.terminated(text)
    }

    fn name(&mut self) -> Result<Vec<u8>, SourceError> {
        let mut name = self.sized("a folder")?;
        match name.pop() {
            Some(0) if !name.contains(&0) => Ok(name),
            _ => Err(self.folder_fault("a folder without an end of its name")),
        }
    }

    fn sized(&mut self, within: &'static str) -> Result<Vec<u8>, SourceError> {
        let length = u16::from_be_bytes(self.file.bytes(within)?);
        self.file.text_of(length.into(), within)
    }

    fn check_place(&self, text: &[u8], folder: &[u8], is_so: bool) -> Result<(), SourceError> {
        match is_so && is_below(text, folder) {
            true => Ok(()),
            false => Err(self.file.rule_fault(unexpected(text, "rule of its folder and path"))),
        }
    }

    fn folder_fault(&self, what: &'static str) -> SourceError {
        self.file.fault(CompiledFault::Folder(what))
    }
}

/// What an expression is as a path, with `None` for its first special character.
fn plain(text: &[u8]) -> impl Iterator<Item = Option<u8>> {
    let mut rest = text.iter();
    std::iter::from_fn(move || {
        let byte = match rest.next()? {
            b'\\' => rest.next().filter(|byte| is_special(**byte) || matches!(byte, b'-' | b'_' | b',')),
            byte => Some(byte).filter(|byte| !is_special(**byte)),
        };
        Some(byte.copied())
    })
}

fn is_special(byte: u8) -> bool {
    matches!(byte, b'.' | b'^' | b'$' | b'?' | b'*' | b'+' | b'|' | b'[' | b'(' | b'{' | b']' | b')' | b'}')
}

/// Whether an expression lies in a folder, as `sefcontext_compile` puts it there: it takes slashes one after another as one, and
/// the first character, whatever it is, as a slash. So what lies in memory for a rule is no longer than its text.
fn is_below(text: &[u8], folder: &[u8]) -> bool {
    let Some(name) = folder.strip_prefix(b"/") else { return folder.is_empty() };
    let mut last = b'/';
    let mut rest = plain(text.get(1..).unwrap_or_default());
    name.iter().all(|wanted| {
        let mut next = rest.next().flatten();
        while next == Some(b'/') && last == b'/' {
            next = rest.next().flatten();
        }
        last = *wanted;
        next == Some(*wanted)
    })
}
