//! Goes through the paths of the command line, and through directories, and searches each regular file.

use std::{cell::RefCell, ffi::OsString, io, os::unix::ffi::OsStrExt, rc::Rc, slice, sync::Arc};

use grep_matcher::{LineTerminator, Match, Matcher, NoCaptures, NoError};
use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use serde_json::json;
use uxfs_volume::{
    error::Error,
    inode::{FileType, Inode, set::InodeSet},
    volume::Volume,
};

use super::{
    arguments::Options,
    contents::{Contents, LeftOut},
    exit_of,
    printer::{Printer, SearchError, Style},
};
use crate::{
    commands::{Context, ls::arguments::When},
    failure::{Complaints, Exit, Failure, Outcome, exit_of as exit_of_error},
    glob::pattern::Pattern,
    kind::{Kind, Note},
    listing::{Listed, Listing, ListingOptions, PATH_BYTES_MAX, PREFETCHED_ENTRIES},
    output::{JsonName, Output, notice},
    search::walk::{in_two_places, push_name},
    text::escaped,
};

/// Longest line.
const LINE_BYTES_MAX: usize = 64 << 20;

/// A search through files.
pub struct Search<'a> {
    volume: &'a Volume,
    options: &'a Options,
    matcher: &'a RegexMatcher,
    searcher: Searcher,
    style: Style,
    skips_holes: bool,
    /// An empty line is selected.
    selects_empty: bool,
    exclude_dir: Vec<Pattern>,
    output: Output,
    complaints: Complaints,
    visited: InodeSet,
    has_printed: bool,
    is_found: bool,
}

/// A matcher that says nothing of ends of lines, so that it is given one line at a time.
#[derive(Debug)]
struct OneByOne<'a>(&'a RegexMatcher);

impl Matcher for OneByOne<'_> {
    type Captures = NoCaptures;
    type Error = NoError;

    fn find_at(&self, haystack: &[u8], at: usize) -> Result<Option<Match>, NoError> {
        self.0.find_at(haystack, at)
    }

    fn new_captures(&self) -> Result<NoCaptures, NoError> {
        Ok(NoCaptures::new())
    }
}

/// A directory that is being gone through.
struct Level<'a> {
    listing: Listing<'a>,
    /// Length of its path in bytes.
    path_length: usize,
    taken: usize,
}

impl<'a> Search<'a> {
    /// With these options.
    pub fn new(
        volume: &'a Volume,
        options: &'a Options,
        matcher: &'a RegexMatcher,
        context: &Context,
    ) -> Self {
        let output = Output::new();
        let printed = &options.printed;
        let is_list = printed.files_with_matches || printed.files_without_match;
        let is_silent = printed.count || is_list || printed.quiet;
        let (before, after) = if is_silent { (0, 0) } else { printed.context_lines() };
        let line_end = options.line_end();
        let style = Style {
            is_silent,
            only_matching: printed.only_matching,
            is_inverted: options.is_inverted(),
            line_number: printed.line_number,
            path: printed.with_filename,
            null: printed.null,
            color: match printed.color {
                When::Always => true,
                When::Never => false,
                When::Auto => output.is_terminal() && std::env::var_os("NO_COLOR").is_none(),
            },
            has_context: before + after > 0,
            line_end,
            json: context.json,
            counts: printed.count && !is_list && !printed.quiet,
            text: options.files.text,
            without_binary: options.files.without_binary,
            count_max: printed.max_count.unwrap_or(u64::MAX),
            after_lines: after,
        };
        let selects_empty = matcher.is_match(b"").unwrap_or(true) != options.is_inverted();
        let is_plain = !options.files.text;
        let detection = match is_plain && line_end != 0 {
            true if options.files.without_binary => BinaryDetection::quit(0),
            true => BinaryDetection::convert(0),
            false => BinaryDetection::none(),
        };
        let searcher = SearcherBuilder::new()
            .line_terminator(LineTerminator::byte(line_end))
            .invert_match(options.is_inverted())
            .line_number(printed.line_number || context.json)
            .before_context(before)
            .after_context(after)
            .heap_limit(Some(LINE_BYTES_MAX))
            .bom_sniffing(false)
            .binary_detection(detection)
            .build();
        let patterns = |list: &[OsString]| list.iter().map(|text| Pattern::parse(text.as_bytes())).collect();
        Self {
            volume,
            options,
            matcher,
            searcher,
            style,
            // Zeros are ends of lines then, and all but one of them make empty lines.
            skips_holes: is_plain && !style.has_context && (!selects_empty || style.counts),
            selects_empty,
            exclude_dir: patterns(&options.files.exclude_dir),
            output,
            complaints: Complaints::default(),
            visited: InodeSet::default(),
            has_printed: false,
            is_found: false,
        }
    }

    /// Searches the files at these paths, or the whole image.
    ///
    /// # Errors
    /// The output; an error that concerns no single file.
    pub fn run(mut self, paths: &[OsString], context: &Context) -> Outcome {
        let everything = [context.default_path().to_owned()];
        let paths = if paths.is_empty() { &everything[..] } else { paths };
        let targets = context.targets(self.volume, paths, self.options.files.globs, &mut self.complaints)?;
        let mut operands = Vec::new();
        for (path, target) in targets {
            match target.find(self.volume, true) {
                Ok(inode) => operands.push((path, inode)),
                Err(error) => self.complain(path.as_bytes(), &error),
            }
        }
        let is_directory = |inode: &Inode| inode.file_type() == Some(FileType::Directory);
        let is_several =
            operands.len() > 1 || paths.len() > 1 || operands.iter().any(|(_, inode)| is_directory(inode));
        self.style.path |= is_several && !self.options.printed.no_filename;
        for (path, inode) in &operands {
            match inode.file_type() {
                Some(FileType::Directory) if fits_end(&self.exclude_dir, path.as_bytes()) => {}
                Some(FileType::Directory) => self.tree(path.as_bytes(), inode)?,
                Some(FileType::Regular) if self.is_wanted_operand(path.as_bytes()) => {
                    self.file(path.as_bytes(), inode)?;
                }
                Some(FileType::Regular) => {}
                _ => self.trouble(path.as_bytes(), Kind::WrongFileType, "not a regular file", Exit::Failed),
            }
            if self.is_over() {
                break;
            }
        }
        self.output.finish()?;
        if self.is_found && self.options.printed.quiet {
            return Ok(Exit::Success);
        }
        Ok(exit_of(self.is_found, self.complaints.exit()))
    }

    fn is_over(&self) -> bool {
        self.is_found && self.options.printed.quiet
    }

    fn complain(&mut self, path: &[u8], error: &Error) {
        match self.options.files.no_messages && exit_of_error(error) == Exit::Failed {
            true => self.complaints.raise(Exit::Failed),
            false => self.complaints.add_path(path, error),
        }
    }

    fn trouble(&mut self, path: &[u8], kind: Kind, message: &str, exit: Exit) {
        match self.options.files.no_messages {
            true => self.complaints.raise(exit),
            false => {
                let failure = Failure::refused(kind, message).with_exit(exit).counted_as("not searched");
                self.complaints.tell(&failure.about_path(path));
            }
        }
    }

    /// Whether a file of the command line is searched.
    fn is_wanted_operand(&self, path: &[u8]) -> bool {
        self.options.files.names.allows(|pattern| fits_end(slice::from_ref(pattern), path))
    }

    /// Searches all files of a directory and below, in the order of their names.
    fn tree(&mut self, path: &[u8], inode: &Arc<Inode>) -> Result<(), Failure> {
        let mut path = path.to_vec();
        let mut levels: Vec<Level<'a>> = Vec::new();
        levels.extend(self.enter(&path, inode));
        let mut name = Vec::new();
        while let Some(level) = levels.last_mut() {
            path.truncate(level.path_length);
            if level.taken.is_multiple_of(PREFETCHED_ENTRIES) {
                level.listing.prefetch_inodes();
            }
            level.taken += 1;
            match level.listing.next(&mut name) {
                Ok(Some(listed)) => {
                    push_name(&mut path, &name);
                    if let Some(inode) = self.wanted_inode(&name, &path, listed) {
                        match inode.file_type() {
                            Some(FileType::Directory) => levels.extend(self.enter(&path, &inode)),
                            _ => self.file(&path, &inode)?,
                        }
                    }
                }
                Ok(None) => drop(levels.pop()),
                Err(error) => {
                    self.complain(&path, &error);
                    levels.pop();
                }
            }
            if self.is_over() {
                break;
            }
        }
        Ok(())
    }

    /// The inode of an entry that is a regular file or directory to be searched.
    fn wanted_inode(&mut self, name: &[u8], path: &[u8], listed: Listed) -> Option<Arc<Inode>> {
        let is_wanted = |file_type: Option<FileType>| match file_type {
            Some(FileType::Regular) => self.options.files.names.allows(|pattern| pattern.fits(name)),
            Some(FileType::Directory) => !fits_whole(&self.exclude_dir, name),
            _ => false,
        };
        if listed.file_type.is_some() && !is_wanted(listed.file_type) {
            return None;
        }
        match self.volume.inode(listed.inode) {
            Ok(inode) => is_wanted(inode.file_type()).then_some(inode),
            Err(error) => {
                self.complain(path, &error);
                None
            }
        }
    }

    fn enter(&mut self, path: &[u8], inode: &Arc<Inode>) -> Option<Level<'a>> {
        if path.len() > PATH_BYTES_MAX {
            self.trouble(&path[..256], Kind::NameTooLong, "path too long: not descending", Exit::Failed);
            return None;
        }
        if !self.visited.insert(inode.number) {
            self.complaints.tell(&in_two_places(inode.number).about_path(path));
            return None;
        }
        match Listing::new(self.volume, inode, ListingOptions::default()) {
            Ok(listing) => Some(Level { listing, path_length: path.len(), taken: 0 }),
            Err(error) => {
                self.complain(path, &error);
                None
            }
        }
    }

    /// Searches one file, and prints what is to be said of it.
    fn file(&mut self, path: &[u8], inode: &Inode) -> Result<(), Failure> {
        let reader = match self.volume.file_reader(inode) {
            Ok(reader) => reader,
            Err(error) => {
                self.complain(path, &error);
                return Ok(());
            }
        };
        let left_out = Rc::new(RefCell::new(LeftOut::default()));
        let mut contents = Contents::new(reader, self.skips_holes, Rc::clone(&left_out));
        let mut begun = Ok(false);
        if self.searcher.binary_detection() != &BinaryDetection::none() {
            begun = contents.begins_with_zero();
        }
        let mut printer = Printer {
            style: self.style,
            matcher: self.matcher,
            output: &mut self.output,
            path,
            left_out: Rc::clone(&left_out),
            has_printed: &mut self.has_printed,
            count: 0,
            is_binary: matches!(begun, Ok(true)),
            is_begun: false,
            is_binary_match: false,
            last_lines: None,
        };
        let is_passed_over = printer.is_binary && self.style.without_binary || self.style.count_max == 0;
        let searched = match begun {
            Err(error) => Err(SearchError::Read(error)),
            Ok(_) if is_passed_over => Ok(()),
            Ok(_) if self.style.line_end == 0 => {
                self.searcher.search_reader(OneByOne(self.matcher), contents, &mut printer)
            }
            Ok(_) => self.searcher.search_reader(self.matcher, contents, &mut printer),
        };
        if searched.is_ok() {
            let mut count = printer.count;
            if self.selects_empty && self.style.counts {
                count = count.saturating_add(left_out.borrow().total);
                count = count.min(self.options.printed.max_count.unwrap_or(u64::MAX));
            }
            printer.count = if printer.is_binary && self.style.without_binary { 0 } else { count };
        }
        let is_selected = printer.count > 0;
        self.is_found |= is_selected;
        // Of a file that could not be read to its end it is not known that it has none.
        if searched.is_ok() || is_selected {
            conclude(printer, self.options, is_selected)?;
        }
        match searched {
            Ok(()) => Ok(()),
            Err(SearchError::Write(error)) => Err(error.into()),
            Err(SearchError::Read(error)) => {
                self.unreadable(path, error);
                Ok(())
            }
            Err(SearchError::Other(message)) => {
                self.trouble(path, Kind::Failed, &message, Exit::Failed);
                Ok(())
            }
        }
    }

    fn unreadable(&mut self, path: &[u8], error: io::Error) {
        match error.downcast::<Error>() {
            Ok(error) => {
                let exit = exit_of_error(&error);
                match self.options.files.no_messages && exit == Exit::Failed {
                    true => self.complaints.raise(exit),
                    false => self.complaints.add_path(path, &error),
                }
            }
            // The searcher's own: its buffer is full.
            Err(_) => {
                let message = format!("a line is longer than {} MiB", LINE_BYTES_MAX >> 20);
                self.trouble(path, Kind::TooLarge, &message, Exit::Failed);
            }
        }
    }
}

fn fits_whole(patterns: &[Pattern], name: &[u8]) -> bool {
    patterns.iter().any(|pattern| pattern.fits(name))
}

/// As grep has it for paths of the command line: the path, or what follows any of its slashes.
fn fits_end(patterns: &[Pattern], path: &[u8]) -> bool {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at + 1);
    let ends = [0].into_iter().chain(slashes).filter_map(|begin| path.get(begin..));
    ends.into_iter().any(|end| fits_whole(patterns, end))
}

/// Prints what is said of a file behind its lines.
fn conclude(mut printer: Printer<'_>, options: &Options, is_selected: bool) -> Result<(), Failure> {
    let printed = &options.printed;
    if printed.quiet {
        return Ok(());
    }
    let is_listed = printed.files_with_matches && is_selected || printed.files_without_match && !is_selected;
    let is_list = printed.files_with_matches || printed.files_without_match;
    if printer.style.json {
        let path = JsonName::new(printer.path);
        let mut document = match (is_list, printed.count) {
            (true, _) if is_listed => json!({"path": path.text()}),
            (false, true) => json!({"path": path.text(), "count": printer.count}),
            (false, false) if printer.is_binary_match => json!({"path": path.text(), "binary": true}),
            _ => return Ok(()),
        };
        if let Some(hex) = path.hex() {
            document["path_hex"] = hex.into();
        }
        return Ok(printer.output.json(&document)?);
    }
    if is_list {
        if is_listed {
            printer.print_path()?;
            io::Write::write_all(printer.output, if printed.null { b"\0" } else { b"\n" })?;
        }
    } else if printed.count {
        if printer.style.path {
            printer.print_path()?;
            match printed.null {
                true => io::Write::write_all(printer.output, b"\0")?,
                false => printer.print_sign(b':')?,
            }
        }
        let count = printer.count;
        io::Write::write_fmt(printer.output, format_args!("{count}\n"))?;
    } else if printer.is_binary_match {
        notice!(Note::BinaryMatch, "{}: binary file matches", escaped(printer.path));
    }
    Ok(())
}
