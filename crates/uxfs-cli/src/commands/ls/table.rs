//! Rows as text: the fields in front of names, aligned over all rows, and names in columns.

use std::os::unix::ffi::OsStrExt;

use unicode_width::UnicodeWidthStr;
use uxfs_volume::inode::FileType;

use crate::{
    commands::ls::{
        arguments::{Layout, Marks, Settings, SizeStyle},
        paint::Paint,
        row::{Beside, Leads, Row, Rows, Status},
    },
    edit::people::PeopleNames,
    text,
};

/// Least columns of a name with what is between names.
const COLUMN_MIN: usize = 3;
/// Columns where nothing else says how many there are.
const USUAL_WIDTH: usize = 80;

/// Writes rows.
#[derive(Debug)]
pub struct Table<'a> {
    settings: &'a Settings,
    names: PeopleNames,
    paint: Option<Paint>,
    is_terminal: bool,
    /// The text that is being made.
    output: Vec<u8>,
    /// Scratch for a name as it is shown.
    shown: Vec<u8>,
}

/// Widths of the fields of rows.
#[derive(Debug, Default)]
pub struct Widths {
    inode: usize,
    allocated: usize,
    links: usize,
    owner: usize,
    group: usize,
    context: usize,
    size: usize,
    major: usize,
    minor: usize,
    time: usize,
    has_beside: bool,
}

impl Widths {
    /// Makes them wide enough for other rows, too.
    pub fn widen(&mut self, others: &Self) {
        let Self { inode, allocated, links, owner, group, context, size, major, minor, time, has_beside } =
            self;
        for (width, other) in [
            (inode, others.inode),
            (allocated, others.allocated),
            (links, others.links),
            (owner, others.owner),
            (group, others.group),
            (context, others.context),
            (size, others.size),
            (major, others.major),
            (minor, others.minor),
            (time, others.time),
        ] {
            *width = (*width).max(other);
        }
        *has_beside |= others.has_beside;
        let device = if self.minor > 0 { self.major + 2 + self.minor } else { 0 };
        self.size = self.size.max(device);
    }
}

impl<'a> Table<'a> {
    /// For these settings.
    pub fn new(settings: &'a Settings, names: PeopleNames, paint: Option<Paint>, is_terminal: bool) -> Self {
        Self { settings, names, paint, is_terminal, output: Vec::new(), shown: Vec::new() }
    }

    /// The sum of the allocated sizes, as a line.
    pub fn total(&self, allocated: u64) -> String {
        let mut total = Vec::new();
        blocks_text(&mut total, allocated, self.settings.size_style);
        format!("total {}\n", String::from_utf8_lossy(&total))
    }

    /// Rows as text, which stays until the next ones.
    pub fn text(&mut self, rows: &Rows, widths: &Widths) -> &[u8] {
        self.output.clear();
        match self.settings.layout {
            Layout::Long => {
                for row in &rows.list {
                    self.long(rows, row, widths);
                    self.output.push(b'\n');
                }
            }
            Layout::Single => {
                for row in &rows.list {
                    self.short(rows, row, widths);
                    self.output.push(b'\n');
                }
            }
            Layout::Down => self.grid(rows, widths, true),
            Layout::Across => self.grid(rows, widths, false),
        }
        &self.output
    }

    /// The widths that these rows need.
    pub fn widths(&mut self, rows: &Rows) -> Widths {
        let mut widths = Widths::default();
        let (is_long, settings) = (self.settings.layout == Layout::Long, self.settings);
        let mut text = Vec::new();
        let (mut last_uid, mut last_gid) = (None, None);
        for row in &rows.list {
            if settings.inode {
                widths.inode = widths.inode.max(digits(row.listed.inode.get()));
            }
            if settings.context {
                widths.context = widths.context.max(rows.context(row).len());
            }
            let Some(status) = &row.status else {
                for width in [&mut widths.allocated, &mut widths.links, &mut widths.owner] {
                    *width = (*width).max(1);
                }
                for width in [&mut widths.group, &mut widths.size] {
                    *width = (*width).max(1);
                }
                continue;
            };
            if settings.allocated {
                text.clear();
                blocks_text(&mut text, status.allocated, settings.size_style);
                widths.allocated = widths.allocated.max(text.len());
            }
            if !is_long {
                continue;
            }
            widths.has_beside |= status.beside != Beside::Nothing;
            widths.links = widths.links.max(digits(u64::from(status.links)));
            if settings.owner && last_uid != Some(status.uid) {
                last_uid = Some(status.uid);
                widths.owner = widths.owner.max(person_width(self.names.user(status.uid), status.uid));
            }
            if settings.group && last_gid != Some(status.gid) {
                last_gid = Some(status.gid);
                widths.group = widths.group.max(person_width(self.names.group(status.gid), status.gid));
            }
            match (status.device, settings.size_style) {
                (Some(device), _) => {
                    widths.major = widths.major.max(digits(u64::from(device.major)));
                    widths.minor = widths.minor.max(digits(u64::from(device.minor)));
                }
                (None, SizeStyle::Plain) => widths.size = widths.size.max(digits(status.size)),
                (None, style) => {
                    text.clear();
                    size_text(&mut text, status.size, style);
                    widths.size = widths.size.max(text.len());
                }
            }
        }
        if widths.minor > 0 {
            widths.size = widths.size.max(widths.major + 2 + widths.minor);
        }
        if is_long && rows.list.iter().any(|row| row.status.is_none()) {
            text.clear();
            settings.time_style.write(&mut text, Default::default());
            widths.time = text.len();
        }
        widths
    }

    /// The fields in front of every layout but contexts.
    fn front(&mut self, row: &Row, widths: &Widths) {
        if self.settings.inode {
            right_number(&mut self.output, row.listed.inode.get(), widths.inode);
            self.output.push(b' ');
        }
        if self.settings.allocated {
            let begin = self.output.len();
            match &row.status {
                Some(status) => blocks_text(&mut self.output, status.allocated, self.settings.size_style),
                None => self.output.push(b'?'),
            }
            align_right(&mut self.output, begin, widths.allocated);
            self.output.push(b' ');
        }
    }

    fn short(&mut self, rows: &Rows, row: &Row, widths: &Widths) {
        self.front(row, widths);
        if self.settings.context {
            let begin = self.output.len();
            self.put_text(rows.context(row));
            align_right(&mut self.output, begin, widths.context);
            self.output.push(b' ');
        }
        self.put_name(rows, row);
        self.put_mark(row);
    }

    fn long(&mut self, rows: &Rows, row: &Row, widths: &Widths) {
        self.front(row, widths);
        let Some(status) = &row.status else {
            self.unreadable(row, widths);
            self.put_name(rows, row);
            return;
        };
        self.output.extend_from_slice(&text::mode_string(status.mode));
        match status.beside {
            Beside::List => self.output.push(b'+'),
            Beside::Context => self.output.push(b'.'),
            Beside::Nothing if widths.has_beside => self.output.push(b' '),
            Beside::Nothing => {}
        }
        self.output.push(b' ');
        right_number(&mut self.output, u64::from(status.links), widths.links);
        self.output.push(b' ');
        if self.settings.owner {
            person(&mut self.output, self.names.user(status.uid), status.uid, widths.owner);
        }
        if self.settings.group {
            person(&mut self.output, self.names.group(status.gid), status.gid, widths.group);
        }
        if self.settings.context {
            let begin = self.output.len();
            self.put_text(rows.context(row));
            align_left(&mut self.output, begin, widths.context);
            self.output.push(b' ');
        }
        self.put_size(status, widths);
        self.output.push(b' ');
        self.settings.time_style.write(&mut self.output, status.time);
        self.output.push(b' ');
        self.put_name(rows, row);
        self.put_target(rows, row, status);
    }

    fn put_size(&mut self, status: &Status, widths: &Widths) {
        match (status.device, self.settings.size_style) {
            (Some(device), _) => {
                let major = widths.size - widths.minor.min(widths.size);
                right_number(&mut self.output, u64::from(device.major), major.saturating_sub(2));
                self.output.extend_from_slice(b", ");
                right_number(&mut self.output, u64::from(device.minor), widths.minor);
            }
            (None, SizeStyle::Plain) => right_number(&mut self.output, status.size, widths.size),
            (None, style) => {
                let begin = self.output.len();
                size_text(&mut self.output, status.size, style);
                align_right(&mut self.output, begin, widths.size);
            }
        }
    }

    /// The fields of an inode that could not be read.
    fn unreadable(&mut self, row: &Row, widths: &Widths) {
        self.output.push(row.listed.file_type.map_or(b'?', FileType::letter));
        self.output.extend_from_slice(b"?????????");
        let people = [(self.settings.owner, widths.owner), (self.settings.group, widths.group)];
        let people = people.iter().filter(|(is_shown, _)| *is_shown).map(|(_, width)| *width);
        let context = self.settings.context.then_some(widths.context);
        let before = [widths.links].into_iter().chain(people).chain(context);
        let beside = usize::from(widths.has_beside);
        self.output.resize(self.output.len() + beside, b' ');
        for width in before.chain([widths.size, widths.time]) {
            self.output.push(b' ');
            let begin = self.output.len();
            self.output.push(b'?');
            align_right(&mut self.output, begin, width);
        }
        self.output.push(b' ');
    }

    /// Text from the image; on a terminal without what could steer it.
    fn put_text(&mut self, text: &[u8]) {
        shown(&mut self.output, text, self.is_terminal);
    }

    fn put_name(&mut self, rows: &Rows, row: &Row) {
        let name = rows.name(row);
        match &mut self.paint {
            Some(paint) => {
                self.shown.clear();
                shown(&mut self.shown, name, self.is_terminal);
                paint.name(&mut self.output, row, name, &self.shown);
            }
            None => self.put_text(name),
        }
    }

    fn put_target(&mut self, rows: &Rows, row: &Row, status: &Status) {
        let Some(target) = rows.target(status) else { return self.put_mark(row) };
        self.output.extend_from_slice(b" -> ");
        match &mut self.paint {
            Some(paint) => {
                self.shown.clear();
                shown(&mut self.shown, target, self.is_terminal);
                paint.target(&mut self.output, status, target, &self.shown);
            }
            None => self.put_text(target),
        }
        if let Leads::To(mode) = status.leads {
            self.output.extend(mark_of_mode(mode, self.settings.marks));
        }
    }

    fn put_mark(&mut self, row: &Row) {
        self.output.extend(self.mark(row));
    }

    fn mark(&self, row: &Row) -> Option<u8> {
        match (self.settings.marks, &row.status) {
            (Marks::None, _) => None,
            (marks, Some(status)) => mark_of_mode(status.mode, marks),
            (marks, None) => mark_of_type(row.listed.file_type?, marks),
        }
    }

    /// Names in columns that are as narrow as they can be.
    fn grid(&mut self, rows: &Rows, widths: &Widths, is_down: bool) {
        let lengths: Vec<usize> = rows.list.iter().map(|row| self.length(rows, row, widths)).collect();
        let (columns, lines) = self.columns(&lengths, is_down);
        let place = |line: usize, column: usize| {
            if is_down { column * lines + line } else { line * columns + column }
        };
        let column_widths: Vec<usize> = (0..columns)
            .map(|column| {
                let lengths = (0..lines).filter_map(|line| lengths.get(place(line, column)));
                lengths.max().copied().unwrap_or(0) + 2
            })
            .collect();
        for line in 0..lines {
            let mut gap = 0;
            for (column, width) in column_widths.iter().enumerate() {
                let index = place(line, column);
                let (Some(row), Some(length)) = (rows.list.get(index), lengths.get(index)) else { break };
                self.output.resize(self.output.len() + gap, b' ');
                self.short(rows, row, widths);
                gap = width - length;
            }
            self.output.push(b'\n');
        }
    }

    /// Most columns that fit, and how many lines there are.
    fn columns(&self, lengths: &[usize], is_down: bool) -> (usize, usize) {
        let count = lengths.len();
        let width = self.settings.width.unwrap_or_else(|| terminal_width(self.is_terminal));
        if width == 0 || count == 0 {
            return (count.max(1), count.min(1));
        }
        for columns in (2..=(width / COLUMN_MIN).min(count)).rev() {
            let lines = count.div_ceil(columns);
            let mut needed = 0;
            for column in 0..columns {
                let end = ((column + 1) * lines).min(count);
                let widest = match is_down {
                    true => lengths.get(column * lines..end).unwrap_or_default().iter().max(),
                    false => lengths.iter().skip(column).step_by(columns).max(),
                };
                // Behind the last column there is nothing.
                let gap = if column + 1 == columns { 0 } else { 2 };
                needed += widest.map_or(COLUMN_MIN, |widest| (widest + gap).max(COLUMN_MIN));
            }
            if needed < width {
                return (columns, lines);
            }
        }
        (1, count)
    }

    /// Columns that a name takes, with what is in front of it.
    fn length(&mut self, rows: &Rows, row: &Row, widths: &Widths) -> usize {
        let mut length = self.mark(row).map_or(0, |_| 1);
        for (is_shown, width) in [
            (self.settings.inode, widths.inode),
            (self.settings.allocated, widths.allocated),
            (self.settings.context, widths.context),
        ] {
            length += if is_shown { width + 1 } else { 0 };
        }
        self.shown.clear();
        shown(&mut self.shown, rows.name(row), self.is_terminal);
        length + self.shown.utf8_chunks().map(|chunk| chunk.valid().width()).sum::<usize>()
    }
}

fn shown(output: &mut Vec<u8>, text: &[u8], is_terminal: bool) {
    if is_terminal && !text.iter().all(|byte| (b' '..0x7f).contains(byte)) {
        // Writing to memory does not fail.
        drop(text::write_escaped(output, text));
    } else {
        output.extend_from_slice(text);
    }
}

fn terminal_width(is_terminal: bool) -> usize {
    let asked = std::env::var_os("COLUMNS");
    let asked = asked.and_then(|columns| std::str::from_utf8(columns.as_bytes()).ok()?.parse().ok());
    let of_terminal = || {
        let size = is_terminal.then(|| rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok()).flatten();
        size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0)
    };
    asked.or_else(of_terminal).unwrap_or(USUAL_WIDTH)
}

fn mark_of_type(file_type: FileType, marks: Marks) -> Option<u8> {
    match (file_type, marks) {
        (_, Marks::None) => None,
        (FileType::Directory, _) => Some(b'/'),
        (_, Marks::Directories) => None,
        (FileType::SymbolicLink, _) => Some(b'@'),
        (FileType::Fifo, _) => Some(b'|'),
        (FileType::Socket, _) => Some(b'='),
        _ => None,
    }
}

fn mark_of_mode(mode: u16, marks: Marks) -> Option<u8> {
    let file_type = match mode & 0o170_000 {
        0o040_000 => FileType::Directory,
        0o120_000 => FileType::SymbolicLink,
        0o010_000 => FileType::Fifo,
        0o140_000 => FileType::Socket,
        0o100_000 if mode & 0o111 != 0 && marks == Marks::All => return Some(b'*'),
        _ => return None,
    };
    mark_of_type(file_type, marks)
}

/// Decimal digits of a number.
fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |power| power as usize + 1)
}

fn right_number(output: &mut Vec<u8>, number: u64, width: usize) {
    let length = digits(number);
    let begin = output.len();
    output.resize(begin + width.max(length), b' ');
    let mut rest = number;
    for place in output.iter_mut().rev().take(length) {
        *place = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

/// Puts blanks in front of what was written from `begin` on.
fn align_right(output: &mut Vec<u8>, begin: usize, width: usize) {
    let length = output.len() - begin;
    if length < width {
        output.resize(begin + width, b' ');
        if let Some(text) = output.get_mut(begin..) {
            text.rotate_right(width - length);
        }
    }
}

fn align_left(output: &mut Vec<u8>, begin: usize, width: usize) {
    let end = output.len().max(begin + width);
    output.resize(end, b' ');
}

fn person_width(name: Option<&str>, number: u32) -> usize {
    name.map_or_else(|| digits(u64::from(number)), UnicodeWidthStr::width)
}

fn person(output: &mut Vec<u8>, name: Option<&str>, number: u32, width: usize) {
    match name {
        Some(name) => {
            output.extend_from_slice(name.as_bytes());
            output.resize(output.len() + width.saturating_sub(name.width()), b' ');
        }
        None => right_number(output, u64::from(number), width),
    }
    output.push(b' ');
}

/// An allocated size: in KiB, or with a unit.
fn blocks_text(output: &mut Vec<u8>, bytes: u64, style: SizeStyle) {
    match style {
        SizeStyle::Plain => right_number(output, bytes.div_ceil(1024), 0),
        style => size_text(output, bytes, style),
    }
}

/// A size, rounded up where it has a unit.
fn size_text(output: &mut Vec<u8>, bytes: u64, style: SizeStyle) {
    let SizeStyle::Human(base) = style else { return right_number(output, bytes, 0) };
    if bytes < base {
        return right_number(output, bytes, 0);
    }
    let units: &[u8] = if base == 1000 { b"kMGTPE" } else { b"KMGTPE" };
    let mut divisor = 1_u128;
    for (index, unit) in units.iter().enumerate() {
        divisor *= u128::from(base);
        let tenths = (u128::from(bytes) * 10).div_ceil(divisor);
        let whole = u128::from(bytes).div_ceil(divisor);
        if whole >= u128::from(base) && index + 1 < units.len() {
            continue;
        }
        if tenths < 100 {
            right_number(output, tenths as u64 / 10, 0);
            output.push(b'.');
            right_number(output, tenths as u64 % 10, 0);
        } else {
            right_number(output, whole as u64, 0);
        }
        return output.push(*unit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_up() {
        let text = |bytes: u64, base: u64| {
            let mut text = Vec::new();
            size_text(&mut text, bytes, SizeStyle::Human(base));
            String::from_utf8(text).unwrap()
        };
        assert_eq!(text(1023, 1024), "1023");
        assert_eq!(text(1025, 1024), "1.1K");
        assert_eq!(text(10_137, 1024), "9.9K");
        assert_eq!(text(10_138, 1024), "10K");
        assert_eq!(text((1 << 20) - 1, 1024), "1.0M");
        assert_eq!(text(999_999, 1000), "1.0M");
        assert_eq!(text(1500, 1000), "1.5k");
        assert_eq!(text(u64::MAX, 1024), "16E");
    }
}
