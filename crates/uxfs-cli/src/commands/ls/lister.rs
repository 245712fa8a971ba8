//! Goes through the paths of the command line, and through directories.

use std::{io::Write, ops::Range, os::unix::ffi::OsStrExt, sync::Arc};

use uxfs_format::units::InodeNumber;
use uxfs_volume::{
    inode::{FileType, Inode, set::InodeSet},
    volume::Volume,
};

use super::{
    arguments::{Arguments, Layout, Marks, Settings, When},
    json,
    order::{self, Key},
    paint::Paint,
    row::{Needs, Reader, Row, Rows},
    table::{Table, Widths},
};
use crate::{
    commands::Context,
    document::{Beside, JsonFile},
    edit::people::PeopleNames,
    failure::{About, Complaints, Failure, Outcome},
    kind::Kind,
    listing::{Listed, Listing, ListingOptions, PATH_BYTES_MAX, PREFETCHED_ENTRIES},
    output::Output,
    search::walk::in_two_places,
    target::Target,
    text,
};

/// Lists paths and directories.
pub struct Lister<'a> {
    volume: &'a Volume,
    settings: &'a Settings,
    json: bool,
    reader: Reader<'a>,
    table: Table<'a>,
    /// Names of people, for documents.
    people: PeopleNames,
    output: Output,
    complaints: Complaints,
    /// Directories listed: on a damaged image one could hold itself, or be reached in millions of ways.
    visited: InodeSet,
    has_output: bool,
    has_headings: bool,
    rows: Rows,
}

/// A path of the command line.
struct Operand {
    path: Vec<u8>,
    /// Where a symbolic link at the path begins.
    directory: Option<Arc<Inode>>,
    inode: Arc<Inode>,
}

/// A directory whose subdirectories are being listed.
struct Level<'a> {
    path_length: usize,
    below: Below<'a>,
}

/// Subdirectories.
enum Below<'a> {
    /// Their names in order.
    Names { names: Vec<u8>, list: std::vec::IntoIter<(Range<usize>, Listed)> },
    /// They are looked for a second time, among too many entries to remember.
    Entries(Listing<'a>),
}

impl<'a> Lister<'a> {
    /// For these settings.
    pub fn new(volume: &'a Volume, settings: &'a Settings, context: &Context) -> Self {
        let output = Output::new();
        let json = context.json;
        let is_painted = !json
            && match settings.color {
                When::Always => true,
                When::Never => false,
                When::Auto => output.is_terminal() && std::env::var_os("NO_COLOR").is_none(),
            };
        let paint = is_painted.then(Paint::of_environment);
        let is_long = settings.layout == Layout::Long;
        let is_by_status = matches!(settings.key, Key::Size | Key::Time);
        let leads = paint.as_ref().is_some_and(|paint| paint.needs_targets(is_long))
            || is_long && settings.marks == Marks::All
            || settings.directories_first;
        let has_marks = settings.marks == Marks::All || paint.is_some();
        let needs = match json {
            true => {
                Needs { status: is_by_status, target: false, leads: false, lists: false, contexts: false }
            }
            false => Needs {
                status: is_long
                    || is_by_status
                    || has_marks
                    || settings.allocated
                    || settings.context
                    || leads,
                target: is_long,
                leads,
                lists: is_long || settings.context,
                contexts: settings.context,
            },
        };
        let people = match is_long && !settings.numeric {
            true => PeopleNames::of_image(volume),
            false => PeopleNames::default(),
        };
        let mut complaints = Complaints::default();
        if let Some(unread) = people.unread() {
            complaints.tell(&Failure::corruption(format!("{unread}: owners are shown by number")));
        }
        let (of_documents, of_table) =
            if json { (people, PeopleNames::default()) } else { (PeopleNames::default(), people) };
        let table = Table::new(settings, of_table, paint, output.is_terminal());
        Self {
            volume,
            settings,
            json,
            reader: Reader::new(volume, settings, needs),
            table,
            people: of_documents,
            output,
            complaints,
            visited: InodeSet::default(),
            has_output: false,
            has_headings: settings.recursive,
            rows: Rows::default(),
        }
    }

    /// Lists all that the command line names: files first, then directories.
    ///
    /// # Errors
    /// The output; an error that concerns no single file.
    pub fn list(&mut self, arguments: &Arguments, context: &Context) -> Result<(), Failure> {
        let everything = [context.default_path().to_owned()];
        let targets = if arguments.targets.is_empty() { &everything[..] } else { &arguments.targets };
        let named = context.targets(self.volume, targets, arguments.globs, &mut self.complaints)?;
        self.has_headings |= named.len() > 1 || targets.len() > 1;
        let (mut files, mut directories) = (Vec::new(), Vec::new());
        for (path, target) in named {
            match self.find(&target) {
                Ok(inode) => {
                    let is_directory = inode.file_type() == Some(FileType::Directory);
                    let directory = self.directory_of(&target);
                    let operand = Operand { path: path.as_bytes().to_vec(), directory, inode };
                    let list =
                        if is_directory && !self.settings.directory { &mut directories } else { &mut files };
                    list.push(operand);
                }
                Err(error) => self.complaints.add_target(&target, &error),
            }
        }
        // As ls does, files are aligned with the directories that follow them.
        for operand in &directories {
            self.gather(operand);
        }
        let widths = self.table.widths(&self.rows);
        self.rows.clear();
        for operand in self.sorted(files) {
            self.gather(&operand);
            if self.rows.is_full() {
                self.print_files(&widths)?;
            }
        }
        self.print_files(&widths)?;
        for operand in self.sorted(directories) {
            // One path may lie below another.
            self.visited.clear();
            self.list_tree(&operand.path, &operand.inode)?;
        }
        Ok(())
    }

    /// The directory of a path, where it matters.
    fn directory_of(&self, target: &Target) -> Option<Arc<Inode>> {
        let Target::Path(path) = target else { return None };
        let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        let slash = path.get(..end)?.iter().rposition(|byte| *byte == b'/')?;
        let directory = self.reader.needs.leads.then(|| self.volume.resolve(path.get(..slash)?, true).ok());
        directory.flatten()
    }

    /// Ends the output.
    ///
    /// # Errors
    /// The output.
    pub fn finish(self) -> Outcome {
        let Self { output, complaints, .. } = self;
        output.finish()?;
        Ok(complaints.exit())
    }

    /// As ls does: a symbolic link to a directory is followed unless its own line was asked for.
    fn find(&self, target: &Target) -> Result<Arc<Inode>, uxfs_volume::error::Error> {
        let inode = target.find(self.volume, false)?;
        let settings = self.settings;
        let is_asked = settings.layout == Layout::Long || settings.directory || settings.marks == Marks::All;
        if inode.file_type() != Some(FileType::SymbolicLink) || is_asked {
            return Ok(inode);
        }
        match target.find(self.volume, true) {
            Ok(target) if target.file_type() == Some(FileType::Directory) => Ok(target),
            _ => Ok(inode),
        }
    }

    /// Operands in the order of entries.
    fn sorted(&mut self, operands: Vec<Operand>) -> Vec<Operand> {
        if operands.len() < 2 || self.settings.key == Key::None {
            return operands;
        }
        let mut rows = Rows::default();
        for operand in &operands {
            self.reader.push(&mut rows, &operand.path, operand.directory.as_ref(), &operand.inode, |_| {});
        }
        let numbers: Vec<InodeNumber> = rows.list.iter().map(|row| row.listed.inode).collect();
        order::sort(&mut rows, self.settings, false);
        let mut operands: Vec<Option<Operand>> = operands.into_iter().map(Some).collect();
        let mut sorted = Vec::with_capacity(operands.len());
        for row in &rows.list {
            let is_it = |operand: &Option<Operand>, number: &InodeNumber| {
                *number == row.listed.inode
                    && operand.as_ref().is_some_and(|operand| operand.path == rows.name(row))
            };
            let index = operands.iter().zip(&numbers).position(|(operand, number)| is_it(operand, number));
            sorted.extend(index.and_then(|index| operands.get_mut(index)?.take()));
        }
        sorted
    }

    fn print_files(&mut self, others: &Widths) -> Result<(), Failure> {
        if self.rows.list.is_empty() {
            return Ok(());
        }
        order::sort(&mut self.rows, self.settings, false);
        self.print_rows(None, Some(others))?;
        self.rows.clear();
        self.has_output = true;
        Ok(())
    }

    /// Lists a directory, and with `-R` all below.
    fn list_tree(&mut self, path: &[u8], inode: &Arc<Inode>) -> Result<(), Failure> {
        let mut path = path.to_vec();
        let mut levels = Vec::new();
        levels.extend(self.list_directory(inode, &path)?);
        let mut name = Vec::new();
        while let Some(level) = levels.last_mut() {
            path.truncate(level.path_length);
            let next = match &mut level.below {
                Below::Names { names, list } => Ok(list.next().map(|(range, listed)| {
                    name.clear();
                    name.extend_from_slice(names.get(range).unwrap_or_default());
                    listed
                })),
                Below::Entries(listing) => listing.next(&mut name),
            };
            match next {
                Ok(Some(listed)) => {
                    push_name(&mut path, &name);
                    if let Some(inode) = self.subdirectory(&path, &name, listed) {
                        levels.extend(self.list_directory(&inode, &path)?);
                    }
                }
                Ok(None) => drop(levels.pop()),
                Err(error) => {
                    self.complaints.add_path(&path, &error);
                    levels.pop();
                }
            }
        }
        Ok(())
    }

    /// The inode of an entry, if it is a directory to go into.
    fn subdirectory(&mut self, path: &[u8], name: &[u8], listed: Listed) -> Option<Arc<Inode>> {
        let may_be = listed.file_type.is_none_or(|file_type| file_type == FileType::Directory);
        if !may_be || matches!(name, b"." | b"..") || self.is_ignored(name) {
            return None;
        }
        if path.len() > PATH_BYTES_MAX {
            let failure = Failure::refused(Kind::NameTooLong, "path too long: not descending");
            let failure = failure.counted_as("path too long").at_path(path);
            self.complaints.tell(&failure.about(text::escaped(&path[..256])));
            return None;
        }
        match self.volume.inode(listed.inode) {
            Ok(inode) if inode.file_type() == Some(FileType::Directory) => Some(inode),
            Ok(_) => None,
            Err(error) => {
                self.complaints.add_path(path, &error);
                None
            }
        }
    }

    fn is_ignored(&self, name: &[u8]) -> bool {
        self.settings.ignored.iter().any(|pattern| pattern.fits_shown(name))
    }

    /// Lists one directory; gives it back to go on with its subdirectories, if they are wanted.
    fn list_directory(&mut self, inode: &Arc<Inode>, path: &[u8]) -> Result<Option<Level<'a>>, Failure> {
        if !self.visited.insert(inode.number) {
            self.complaints.tell(&in_two_places(inode.number).about_path(path));
            return Ok(None);
        }
        self.print_heading(path)?;
        let is_unsorted = self.settings.key == Key::None;
        let options = ListingOptions { with_dots: self.settings.with_dots, unsorted: is_unsorted };
        let mut listing = match Listing::new(self.volume, inode, options) {
            Ok(listing) => listing,
            Err(error) => {
                self.complaints.add_path(path, &error);
                return Ok(None);
            }
        };
        let is_whole = self.gather_entries(&mut listing, inode, path)?;
        if !self.settings.recursive {
            self.print_batch(path, is_whole, listing.is_sorted())?;
            return Ok(None);
        }
        self.print_batch_kept(path, is_whole, listing.is_sorted())?;
        let below = match is_whole {
            true => self.names_below(),
            false => {
                listing.rewind().about_path(path)?;
                Below::Entries(listing)
            }
        };
        self.rows.clear();
        Ok(Some(Level { below, path_length: path.len() }))
    }

    fn print_heading(&mut self, path: &[u8]) -> Result<(), Failure> {
        if self.json || !self.has_headings {
            return Ok(());
        }
        if self.has_output {
            self.output.write_all(b"\n")?;
        }
        self.output.name(path)?;
        self.output.write_all(b":\n")?;
        self.has_output = true;
        Ok(())
    }

    /// Gathers the entries of a directory. Full batches are printed; whether there was none.
    fn gather_entries(
        &mut self,
        listing: &mut Listing<'a>,
        directory: &Arc<Inode>,
        path: &[u8],
    ) -> Result<bool, Failure> {
        let (mut name, mut entry_path) = (Vec::new(), path.to_vec());
        let mut is_whole = true;
        let needs_inodes = self.reader.needs.status || self.json && self.settings.layout == Layout::Long;
        for index in 0usize.. {
            if needs_inodes && index.is_multiple_of(PREFETCHED_ENTRIES) {
                listing.prefetch_inodes();
            }
            match listing.next(&mut name) {
                Ok(Some(_)) if self.is_ignored(&name) => {}
                Ok(Some(listed)) => {
                    if self.rows.is_full() {
                        is_whole = false;
                        self.print_batch(path, false, listing.is_sorted())?;
                    }
                    entry_path.truncate(path.len());
                    push_name(&mut entry_path, &name);
                    self.gather_entry(&name, directory, &entry_path, listed);
                }
                Ok(None) => break,
                Err(error) => {
                    self.complaints.add_path(path, &error);
                    break;
                }
            }
        }
        Ok(is_whole)
    }

    fn gather_entry(&mut self, name: &[u8], directory: &Arc<Inode>, path: &[u8], listed: Listed) {
        if !self.reader.needs.status {
            return self.rows.push(name, listed, false);
        }
        match self.volume.inode(listed.inode) {
            Ok(inode) => {
                let complaints = &mut self.complaints;
                self.reader.push(&mut self.rows, name, Some(directory), &inode, |error| {
                    complaints.add_path(path, error);
                });
            }
            Err(error) => {
                self.complaints.add_path(path, &error);
                self.rows.push(name, listed, true);
            }
        }
    }

    fn gather(&mut self, operand: &Operand) {
        let Operand { path, directory, inode } = operand;
        let complaints = &mut self.complaints;
        self.reader.push(&mut self.rows, path, directory.as_ref(), inode, |error| {
            complaints.add_path(path, error);
        });
    }

    fn print_batch(&mut self, path: &[u8], is_whole: bool, is_sorted: bool) -> Result<(), Failure> {
        self.print_batch_kept(path, is_whole, is_sorted)?;
        self.rows.clear();
        Ok(())
    }

    /// Sorts and prints what was gathered of a directory.
    fn print_batch_kept(&mut self, path: &[u8], is_whole: bool, is_sorted: bool) -> Result<(), Failure> {
        order::sort(&mut self.rows, self.settings, is_sorted);
        // Of a part, the sum would be wrong.
        let has_total = self.settings.layout == Layout::Long || self.settings.allocated;
        if has_total && is_whole && !self.json {
            let allocated = self.rows.list.iter().filter_map(|row| row.status.as_ref());
            let total = allocated.fold(0_u64, |sum, status| sum.saturating_add(status.allocated));
            self.output.write_all(self.table.total(total).as_bytes())?;
        }
        self.print_rows(Some(path), None)
    }

    fn print_rows(&mut self, directory: Option<&[u8]>, others: Option<&Widths>) -> Result<(), Failure> {
        if self.json {
            return self.print_documents(directory);
        }
        let is_streamed = directory.is_some() && self.settings.is_streamed();
        let mut widths = if is_streamed { Widths::default() } else { self.table.widths(&self.rows) };
        if let Some(others) = others {
            widths.widen(others);
        }
        self.output.write_all(self.table.text(&self.rows, &widths))?;
        Ok(())
    }

    fn print_documents(&mut self, directory: Option<&[u8]>) -> Result<(), Failure> {
        let rows = std::mem::take(&mut self.rows);
        let mut path = directory.unwrap_or_default().to_vec();
        let length = path.len();
        for row in &rows.list {
            path.truncate(length);
            match directory {
                Some(_) => push_name(&mut path, rows.name(row)),
                None => path.extend_from_slice(rows.name(row)),
            }
            self.print_document(&path, row)?;
        }
        self.rows = rows;
        Ok(())
    }

    fn print_document(&mut self, path: &[u8], row: &Row) -> Result<(), Failure> {
        if self.settings.layout != Layout::Long {
            return json::print_short(&mut self.output, path, row.listed);
        }
        if row.is_unreadable {
            return Ok(());
        }
        let inode = match self.volume.inode(row.listed.inode) {
            Ok(inode) => inode,
            Err(error) => {
                self.complaints.add_path(path, &error);
                return Ok(());
            }
        };
        let mut beside = Beside {
            user: self.people.user(inode.uid()),
            group: self.people.group(inode.gid()),
            ..Beside::default()
        };
        let (mut target, mut context) = (None, None);
        if inode.file_type() == Some(FileType::SymbolicLink) {
            match self.volume.read_symlink(&inode) {
                Ok(read) => target = Some(read),
                Err(error) => self.complaints.add_path(path, &error),
            }
        }
        if self.settings.context && inode.may_have_attributes() {
            let read = self.volume.attributes(&inode).and_then(|reader| reader.xattr(b"security.selinux"));
            context = read.ok().map(|mut context| {
                context.pop_if(|byte| *byte == 0);
                context
            });
        }
        (beside.target, beside.context) = (target.as_deref(), context.as_deref());
        self.output.json(&JsonFile::new(path, &inode, &beside))?;
        Ok(())
    }

    /// The directories among the rows.
    fn names_below(&self) -> Below<'a> {
        let mut names = Vec::new();
        let may_be =
            |row: &&Row| row.listed.file_type.is_none_or(|file_type| file_type == FileType::Directory);
        let list: Vec<(Range<usize>, Listed)> = self
            .rows
            .list
            .iter()
            .filter(may_be)
            .map(|row| {
                let begin = names.len();
                names.extend_from_slice(self.rows.name(row));
                (begin..names.len(), row.listed)
            })
            .collect();
        Below::Names { names, list: list.into_iter() }
    }
}

fn push_name(path: &mut Vec<u8>, name: &[u8]) {
    if path.last() != Some(&b'/') {
        path.push(b'/');
    }
    path.extend_from_slice(name);
}
