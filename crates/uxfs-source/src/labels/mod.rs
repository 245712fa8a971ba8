//! SELinux labels from `file_contexts` files: `REGEX [-TYPE] LABEL` on each line, or compiled ([`compiled`]).
//!
//! As with libselinux, a line without any special character goes before all others, and otherwise the last line that fits
//! holds; `<<none>>` means no label. Expressions match whole paths, which begin with a slash. They are grouped by the first
//! folder that their text names, so that few are tried on a path, and compiled when the first path of a group comes.
//!
//! Of a file that is named, and of its companions, the compiled form (`.bin`) is read where the text is not there.
//!
//! Files that lie beside the first one are read as libselinux reads them, where they are there:
//!
//! | file | holds |
//! |---|---|
//! | `file_contexts.homedirs`, then `file_contexts.local` | more lines, after those of all files that were named |
//! | `file_contexts.subs`, `file_contexts.subs_dist` | `FROM TO`: what lies below the directory `FROM` is looked up as if it were below `TO` |
//!
//! Of the lines of one file of substitutions the last that fits holds. First comes that of `subs`, then, for what it gives, that of
//! `subs_dist`; each once.

mod compiled;
mod substitutions;

use std::{
    cmp::Reverse,
    collections::HashMap,
    ffi::OsString,
    fs,
    io::{self, BufReader, Read},
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use regex::bytes::{RegexSet, RegexSetBuilder};

use self::{compiled::Compiled, substitutions::Substitutions};
use crate::{
    entry::{Kind, Metadata, SELINUX_LABEL},
    error::{CompiledFault, Shown, SourceError, TextFault},
    lines::{Lines, unexpected},
    packing::unpack,
};

/// Lines of all files: more than ten times those of the largest policies.
const MAX_RULES: usize = 200_000;
/// Expressions in one automaton.
const SET_RULES: usize = 400;
/// Behind the name of a compiled file.
const COMPILED: &str = ".bin";
const NO_RULES: TextFault = TextFault::Missing("a line with a path and a label");
/// Memory for one automaton.
const SET_BYTES: usize = 64 << 20;

/// Labels by path.
#[derive(Debug, Default)]
pub struct Labels {
    rules: Vec<Rule>,
    /// Lines that are paths.
    exact: HashMap<Box<[u8]>, Vec<u32>>,
    /// By the first folder, with its slashes.
    groups: HashMap<Box<[u8]>, Group>,
    /// Those that may match anywhere.
    anywhere: Group,
    /// In the order in which they apply.
    substitutions: [Substitutions; 2],
    /// Files that got a label.
    labelled: AtomicU64,
}

#[derive(Debug)]
struct Rule {
    matches: Matches,
    /// The letter of the kind that it is for.
    kind: Option<u8>,
    label: Option<Arc<[u8]>>,
    /// Where it fits, rules of folders further out are not looked at.
    is_last: bool,
}

/// Which paths a rule is for.
#[derive(Debug)]
enum Matches {
    /// This one.
    Path(Box<[u8]>),
    /// Those of a regular expression. Others than those below a folder, which may be none, are not tried.
    Expression { pattern: Box<str>, below: Box<[u8]> },
}

/// Rules in order, compiled when needed.
#[derive(Debug, Default)]
struct Group {
    rules: Vec<u32>,
    sets: OnceLock<Vec<RegexSet>>,
}

impl Labels {
    /// Reads files in order, and what lies beside the first one.
    ///
    /// # Errors
    /// One cannot be read, a line means nothing, or a file that was named has no line with a label.
    pub fn open(paths: &[&Path]) -> Result<Self, SourceError> {
        let mut labels = Self::default();
        for path in paths {
            let is_compiled_only = !is_there(path)? && is_there(&beside(path, COMPILED))?;
            let file = if is_compiled_only { beside(path, COMPILED) } else { path.to_path_buf() };
            labels.add_file(&file, true)?;
        }
        let Some(first) = paths.first().map(|first| not_compiled(first)) else { return Ok(labels) };
        for suffix in [".homedirs", ".local"] {
            let companion = beside(&first, suffix);
            let forms = [companion.clone(), beside(&companion, COMPILED)];
            // One that was named as well has been read in its place.
            if forms.iter().any(|form| paths.contains(&form.as_path())) {
                continue;
            }
            for form in &forms {
                if is_there(form)? {
                    labels.add_file(form, false)?;
                    break;
                }
            }
        }
        let substitutions = |suffix| match beside(&first, suffix) {
            path if is_there(&path)? => Substitutions::read(&mut Lines::open(&path)?),
            _ => Ok(Substitutions::default()),
        };
        labels.substitutions = [substitutions(".subs")?, substitutions(".subs_dist")?];
        Ok(labels)
    }

    /// The files beside the first one that [`open`](Self::open) reads as well, where they are there.
    pub fn companions(first: &Path) -> Vec<PathBuf> {
        let first = not_compiled(first);
        let suffixes = [".homedirs", ".homedirs.bin", ".local", ".local.bin", ".subs", ".subs_dist"];
        suffixes.map(|suffix| beside(&first, suffix)).into_iter().filter(|path| path.exists()).collect()
    }

    /// How many files got a label.
    pub fn labelled_count(&self) -> u64 {
        self.labelled.load(Relaxed)
    }

    /// Reads one text.
    ///
    /// # Errors
    /// A line means nothing.
    pub fn from_text(name: &str, text: &str) -> Result<Self, SourceError> {
        let mut labels = Self::default();
        let bytes = std::io::Cursor::new(text.as_bytes().to_vec());
        labels.add(&mut Lines::new(Shown::from(name.as_bytes()), Box::new(bytes)))?;
        Ok(labels)
    }

    /// Reads one file, as it is written or compiled.
    fn add_file(&mut self, path: &Path, must_have_rules: bool) -> Result<(), SourceError> {
        let before = self.rules.len();
        let failed = |error| SourceError::host(path, "read", error);
        let file = fs::File::open(path).map_err(|error| SourceError::host(path, "open", error))?;
        let mut file = BufReader::new(file);
        let mut start = Vec::new();
        file.by_ref().take(4).read_to_end(&mut start).map_err(failed)?;
        let name = Shown::from(path.as_os_str().as_encoded_bytes());
        let fault = match <[u8; 4]>::try_from(start.as_slice()) {
            Ok(magic) if compiled::is_magic(magic) => {
                let mut compiled = Compiled::new(name, magic, file);
                compiled.read(&mut |rule| self.add_rule(rule))?;
                compiled.fault(CompiledFault::NoRules)
            }
            _ => {
                let text = unpack(BufReader::new(io::Cursor::new(start).chain(file))).map_err(failed)?;
                let mut lines = Lines::of(name, text);
                self.add(&mut lines)?;
                lines.error(NO_RULES)
            }
        };
        if must_have_rules && self.rules.len() == before { Err(fault) } else { Ok(()) }
    }

    fn add(&mut self, lines: &mut Lines) -> Result<(), SourceError> {
        loop {
            let Some(line) = lines.next()? else { return Ok(()) };
            let rule = parse(line);
            match rule {
                Ok(None) => {}
                Ok(Some(rule)) => self.add_rule(rule).map_err(|fault| lines.error(fault))?,
                Err(fault) => return Err(lines.error(fault)),
            }
        }
    }

    fn add_rule(&mut self, rule: Rule) -> Result<(), TextFault> {
        if self.rules.len() >= MAX_RULES {
            return Err(TextFault::TooMuch("rules"));
        }
        let index = self.rules.len() as u32;
        match &rule.matches {
            Matches::Path(path) => self.exact.entry(path.clone()).or_default().push(index),
            Matches::Expression { pattern, below } => {
                // What cannot be compiled is told with its line.
                build(&[pattern]).map_err(TextFault::Pattern)?;
                let group = match first_folder(below) {
                    Some(folder) => self.groups.entry(folder.into()).or_default(),
                    None => &mut self.anywhere,
                };
                group.rules.push(index);
            }
        }
        self.rules.push(rule);
        Ok(())
    }

    /// The label of a file, by its path below the root and its kind.
    ///
    /// # Errors
    /// The expressions together need more memory than they may take.
    pub fn label(&self, path: &[u8], kind: &Kind) -> Result<Option<&[u8]>, SourceError> {
        self.label_of_letter(path, letter(kind))
    }

    /// As [`label`](Self::label), for the file type that `ls -l` shows as this letter.
    ///
    /// # Errors
    /// As there.
    pub fn label_of_letter(&self, path: &[u8], letter: u8) -> Result<Option<&[u8]>, SourceError> {
        let path = [b"/", path].concat();
        let path = self.substitutions.iter().fold(path, |path, rules| rules.apply(path));
        let fits = |index: u32| {
            let rule = self.rules.get(index as usize)?;
            let is_tried = match &rule.matches {
                Matches::Path(_) => true,
                Matches::Expression { below, .. } => path.starts_with(below),
            };
            (is_tried && rule.kind.is_none_or(|kind| kind == letter)).then_some((index, rule))
        };
        let exact =
            self.exact.get(path.as_slice()).into_iter().flatten().rev().find_map(|index| fits(*index));
        if let Some((_, rule)) = exact {
            return Ok(rule.label.as_deref());
        }
        let group = first_folder(&path).and_then(|folder| self.groups.get(folder));
        let mut found: Vec<(u32, &Rule)> = Vec::new();
        for group in group.into_iter().chain([&self.anywhere]) {
            found.extend(group.matches(&path, &self.rules)?.into_iter().filter_map(fits));
        }
        Ok(last_of(found).and_then(|rule| rule.label.as_deref()))
    }

    /// Gives a file its label, where there is one for it.
    ///
    /// # Errors
    /// As [`Labels::label`].
    pub fn apply(&self, path: &[u8], kind: &Kind, metadata: &mut Metadata) -> Result<(), SourceError> {
        if let Some(label) = self.label(path, kind)? {
            self.labelled.fetch_add(1, Relaxed);
            metadata.set_attribute(SELINUX_LABEL, &[label, b"\0"].concat());
        }
        Ok(())
    }
}

/// The rule that holds among those that fit.
fn last_of(mut found: Vec<(u32, &Rule)>) -> Option<&Rule> {
    // From the innermost folder outwards, as libselinux looks.
    found.sort_unstable_by_key(|(index, rule)| Reverse((rule.matches.depth_bytes(), *index)));
    let mut best: Option<(u32, &Rule)> = None;
    for (index, rule) in found {
        if best.is_none_or(|(later, _)| later < index) {
            best = Some((index, rule));
            if rule.is_last {
                break;
            }
        }
    }
    best.map(|(_, rule)| rule)
}

impl Group {
    /// Which rules match.
    fn matches(&self, path: &[u8], rules: &[Rule]) -> Result<Vec<u32>, SourceError> {
        let sets = match self.sets.get() {
            Some(sets) => sets,
            None => {
                let compiled = self.compile(rules)?;
                self.sets.get_or_init(|| compiled)
            }
        };
        let mut found = Vec::new();
        for (set, indices) in sets.iter().zip(self.rules.chunks(SET_RULES)) {
            found.extend(set.matches(path).into_iter().filter_map(|place| indices.get(place)));
        }
        Ok(found)
    }

    fn compile(&self, rules: &[Rule]) -> Result<Vec<RegexSet>, SourceError> {
        let sets = self.rules.chunks(SET_RULES).map(|indices| {
            let pattern = |index: &u32| match &rules.get(*index as usize)?.matches {
                Matches::Expression { pattern, .. } => Some(&**pattern),
                Matches::Path(_) => None,
            };
            let patterns: Vec<&str> = indices.iter().filter_map(pattern).collect();
            build(&patterns).map_err(|error| SourceError::Text {
                file: Shown::from(b"file contexts".as_slice()),
                line: 0,
                fault: TextFault::Pattern(error),
            })
        });
        sets.collect()
    }
}

/// As PCRE understands them between `^` and `$`, where libselinux puts them: of alternatives outside of brackets the first
/// needs no end and the last no beginning, and a path may end with a line break.
fn build(patterns: &[&str]) -> Result<RegexSet, String> {
    let anchored = patterns.iter().map(|pattern| format!("^{pattern}(?:\\n)?$"));
    let built = RegexSetBuilder::new(anchored)
        .unicode(false)
        .dot_matches_new_line(true)
        .size_limit(SET_BYTES)
        .dfa_size_limit(SET_BYTES)
        .build();
    built.map_err(|error| error.to_string())
}

fn parse(line: &[u8]) -> Result<Option<Rule>, TextFault> {
    let line = line.trim_ascii();
    if line.is_empty() || line.starts_with(b"#") {
        return Ok(None);
    }
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let pattern = words.next().unwrap_or_default();
    let pattern = std::str::from_utf8(pattern).map_err(|_| unexpected(pattern, "regular expression"))?;
    let second = words.next().ok_or(TextFault::Missing("a label"))?;
    let (kind, label) = match second {
        [b'-', letter] => (Some(*letter), words.next().ok_or(TextFault::Missing("a label"))?),
        label => (None, label),
    };
    if kind.is_some_and(|letter| !b"-dcblps".contains(&letter)) {
        return Err(unexpected(second, "type of file"));
    }
    // libselinux reads no further than the third word.
    if let Some(more) = words.next().filter(|_| kind.is_none()) {
        return Err(unexpected(more, "end of the line"));
    }
    Ok(Some(Rule { matches: Matches::of(pattern), kind, label: label_of(label)?, is_last: false }))
}

/// The label that a word is; `None` where there is to be none.
fn label_of(word: &[u8]) -> Result<Option<Arc<[u8]>>, TextFault> {
    match word {
        b"<<none>>" => Ok(None),
        label if is_context(label) => Ok(Some(label.into())),
        label => Err(unexpected(label, "context (USER:ROLE:TYPE or USER:ROLE:TYPE:RANGE)")),
    }
}

/// The letter of the file type in a mode; `None` where that is 0.
fn kind_of_mode(mode: u32) -> Result<Option<u8>, TextFault> {
    let letter = match mode {
        0 => return Ok(None),
        0o010_000 => b'p',
        0o020_000 => b'c',
        0o040_000 => b'd',
        0o060_000 => b'b',
        0o100_000 => b'-',
        0o120_000 => b'l',
        0o140_000 => b's',
        other => return Err(unexpected(format!("{other:#o}").as_bytes(), "type of file")),
    };
    Ok(Some(letter))
}

/// Whether a label is a context: a user, a role, a type, and perhaps a range, which may have colons.
pub fn is_context(label: &[u8]) -> bool {
    let mut parts = label.splitn(4, |byte| *byte == b':');
    let is_name = |part: &[u8]| {
        !part.is_empty() && part.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(byte))
    };
    let names = parts.by_ref().take(3).filter(|part| is_name(part)).count();
    let range = parts.next();
    names == 3 && range.is_none_or(|range| !range.is_empty() && range.iter().all(u8::is_ascii_graphic))
}

/// The name of the text that a compiled file was made from.
fn not_compiled(path: &Path) -> PathBuf {
    match path.extension() {
        Some(extension) if extension == "bin" => path.with_extension(""),
        _ => path.to_path_buf(),
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

fn is_there(path: &Path) -> Result<bool, SourceError> {
    match fs::metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(SourceError::host(path, "open", error)),
    }
}

const SPECIAL: &[char] = &['.', '^', '$', '?', '*', '+', '|', '[', ']', '(', ')', '{', '}'];

/// The path that an expression is, without its backslashes, if it matches no other.
fn literal(pattern: &str) -> Option<Box<[u8]>> {
    let mut path = Vec::with_capacity(pattern.len());
    let mut rest = pattern.chars();
    while let Some(character) = rest.next() {
        let character = match character {
            // Behind a backslash a letter is a class, anything else itself.
            '\\' => rest.next().filter(|next| !next.is_alphanumeric())?,
            special if SPECIAL.contains(&special) => return None,
            plain => plain,
        };
        path.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Some(path.into())
}

impl Matches {
    /// As libselinux before 3.8 takes an expression.
    fn of(pattern: &str) -> Self {
        match literal(pattern) {
            Some(path) => Self::Path(path),
            None => Self::Expression { pattern: pattern.into(), below: stem(pattern).into() },
        }
    }

    /// Length of the folder that it is for.
    fn depth_bytes(&self) -> usize {
        match self {
            Self::Path(path) => path.len(),
            Self::Expression { below, .. } => below.len(),
        }
    }
}

/// `/usr/` of `/usr/.*`; empty where there may be more than one such folder. libselinux tries an expression only on paths below
/// it, whatever the rest says.
fn stem(pattern: &str) -> &[u8] {
    let is_plain =
        |folder: &[u8]| !folder.iter().any(|byte| SPECIAL.contains(&(*byte as char)) || *byte == b'\\');
    first_folder(pattern.as_bytes()).filter(|folder| is_plain(folder)).unwrap_or_default()
}

/// `/usr/` of `/usr/lib/x`.
fn first_folder(path: &[u8]) -> Option<&[u8]> {
    let length = path.strip_prefix(b"/")?.iter().position(|byte| *byte == b'/')?;
    path.get(..length + 2)
}

fn letter(kind: &Kind) -> u8 {
    match kind {
        Kind::Directory(_) => b'd',
        Kind::Regular { .. } | Kind::HardLink { .. } => b'-',
        Kind::Symlink { .. } => b'l',
        Kind::CharacterDevice(_) => b'c',
        Kind::BlockDevice(_) => b'b',
        Kind::Fifo => b'p',
        Kind::Socket => b's',
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{content::Content, entry::DirectoryId};

    const FILE: Kind = Kind::Regular { size_bytes: 0, content: Content::Hole };
    const DIRECTORY: Kind = Kind::Directory(DirectoryId::ROOT);

    #[test]
    fn the_last_that_fits_and_paths_before_all() {
        let labels = Labels::from_text(
            "contexts",
            "# a comment\n\n\
             /.*\tu:r:default_t:s0\n\
             /etc/passwd -- u:r:passwd_t:s0\n\
             /usr/.*  u:r:usr_t:s0\n\
             /usr/bin(/.*)? u:r:bin_t:s0\n\
             /usr/(.*/)?lib(/.*)?  -d u:r:lib_t:s0\n\
             /etc(/.*)? u:r:etc_t:s0\n\
             /usr/share/a\\.b u:r:dot_t:s0\n\
             /(proc|sys)/.* <<none>>\n\
             / -d u:r:root_t:s0\n\
             /[^/]+\\.log u:r:log_t:s0\n",
        )
        .unwrap();
        for (path, kind, expected) in [
            ("", DIRECTORY, Some("root_t")),
            ("", FILE, Some("default_t")),
            ("any", FILE, Some("default_t")),
            ("etc/passwd", FILE, Some("passwd_t")),
            ("etc/passwd", DIRECTORY, Some("etc_t")),
            ("usr/bin", DIRECTORY, Some("bin_t")),
            ("usr/bin/x", FILE, Some("bin_t")),
            ("usr/bing", FILE, Some("usr_t")),
            ("usr/a/lib", DIRECTORY, Some("lib_t")),
            ("usr/a/lib/x", FILE, Some("usr_t")),
            ("usr/share/a.b", FILE, Some("dot_t")),
            ("usr/share/axb", FILE, Some("usr_t")),
            ("proc/1", FILE, None),
            ("x.log", FILE, Some("log_t")),
            ("x/y.log", FILE, Some("default_t")),
        ] {
            let label = labels.label(path.as_bytes(), &kind).unwrap();
            let expected = expected.map(|kind| format!("u:r:{kind}:s0"));
            assert_eq!(label.map(|l| l.escape_ascii().to_string()), expected, "{path} {}", kind.word());
        }
        let mut metadata = Metadata::default();
        labels.apply(b"any", &FILE, &mut metadata).unwrap();
        assert_eq!(metadata.attribute(SELINUX_LABEL), Some(b"u:r:default_t:s0\0".as_slice()));
    }

    #[test]
    fn lines_that_mean_nothing() {
        let label = "u:object_r:t_t:s0-s0:c0.c1023";
        for text in [
            "/a".to_owned(),
            format!("/a -x {label}"),
            "/a -- ".to_owned(),
            format!("/a {label} m"),
            format!("/( {label}"),
            format!("/\\pq {label}"),
            "/run /var/run".to_owned(),
            "/a -- u:r".to_owned(),
            "/a u::t".to_owned(),
            "/a u:r:t:".to_owned(),
            "/a u:r:ty/pe:s0".to_owned(),
        ] {
            let read = Labels::from_text("contexts", &text);
            assert!(matches!(read, Err(SourceError::Text { line: 1, .. })), "{text}");
        }
        for text in [format!("/a {label}"), "/a u:r:t".to_owned(), format!("/a -- {label} # more words")] {
            Labels::from_text("contexts", &text).unwrap();
        }
    }

    #[test]
    fn files_beside_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("contexts");
        let open = |paths: &[&Path]| Labels::open(paths);
        let write = |suffix: &str, text: &str| fs::write(beside(&path, suffix), text).unwrap();
        write(
            "",
            "/.* u:r:default_t\n/usr/lib(/.*)? u:r:lib_t\n/srv(/.*)? u:r:srv_t\n/homes/.* u:r:base_t\n",
        );
        write(".homedirs", "/homes/[^/]+ -d u:r:home_t\n/srv/.* u:r:homedirs_t\n");
        write(".local", "# nothing else\n/srv/x u:r:exact_t\n/srv/y.* u:r:local_t\n");
        write(
            ".subs_dist",
            "# comment\n/lib64 /usr/lib\n/usr/lib64 /usr/lib\n/alias /srv\nalone\n/deep /lib64 more\n/top /\n",
        );
        write(".subs", "/mine /alias\n/mine/x /usr/lib\n/both /usr\n/both /srv\n");
        let labels = open(&[&path]).unwrap();
        let label = |path: &str, kind: &Kind| {
            let label = labels.label(path.as_bytes(), kind).unwrap().unwrap();
            String::from_utf8(label.to_vec()).unwrap().replace("u:r:", "")
        };
        for (path, expected) in [
            ("lib64", "lib_t"),
            ("lib64/ld.so", "lib_t"),
            ("lib640/ld.so", "default_t"),
            ("usr/lib64/x", "lib_t"),
            ("srv/z", "homedirs_t"),
            ("srv/yy", "local_t"),
            ("srv/x", "exact_t"),
            // One substitution of each file, those of the machine first.
            ("mine/yy", "local_t"),
            ("mine/x/a", "lib_t"),
            ("deep/a", "default_t"),
            ("both/yy", "local_t"),
            ("top/srv/x", "exact_t"),
            ("top", "default_t"),
        ] {
            assert_eq!(label(path, &FILE), expected, "{path}");
        }
        assert_eq!(
            (label("homes/a", &DIRECTORY), label("homes/a", &FILE)),
            ("home_t".into(), "base_t".into())
        );
        // Named as well, a file is read in its place alone.
        let (homedirs, local) = (beside(&path, ".homedirs"), beside(&path, ".local"));
        let named = open(&[&path, &local, &homedirs]).unwrap();
        assert_eq!(named.label(b"srv/yy", &FILE).unwrap(), Some(b"u:r:homedirs_t".as_slice()));
        assert_eq!(Labels::companions(&path).len(), 4);
        write("", "# nothing\n\n");
        let nothing = open(&[&path]).unwrap_err().to_string();
        assert!(nothing.contains("contexts: line 3: "), "{nothing}");
        assert!(open(&[&beside(&path, ".subs_dist")]).is_err());
    }
}
