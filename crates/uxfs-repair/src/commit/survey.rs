//! Which of the two contents in an undo file a device holds.

use uxfs_block::{
    device::BlockDevice,
    engine::unreadable::{is_filler, read_or_fill},
};

use super::{
    Result, SECTOR_BYTES,
    error::CommitError,
    head::Head,
    undo_file::{Record, UndoFile},
};

/// Which of the two contents in an undo file a device holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// The old ones everywhere.
    NotApplied,
    /// Some of both, or the marked superblock: a repair or an undo was cut off. [`apply`](super::apply) and
    /// [`undo`](super::undo) take it up.
    Partly,
    /// The new ones everywhere.
    Applied,
    /// Somewhere neither: the device was changed since.
    Other,
}

impl State {
    /// For programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotApplied => "not_applied",
            Self::Partly => "partly",
            Self::Applied => "applied",
            Self::Other => "other",
        }
    }
}

/// Says which contents the device holds. The file is verified first.
///
/// # Errors
/// The file is damaged; the device has another size, or fails.
pub fn state_of(file: &UndoFile, device: &dyn BlockDevice) -> Result<State> {
    let head = file.verify()?;
    file.must_fit(device)?;
    Ok(survey(file, &head, device)?.state())
}

/// What sectors were seen, of those in which old and new differ.
#[derive(Debug, Default)]
pub struct Survey {
    has_old: bool,
    has_new: bool,
    has_mark: bool,
    /// The first sector that is neither.
    foreign: Option<u64>,
}

impl Survey {
    pub fn state(&self) -> State {
        if self.foreign.is_some() {
            State::Other
        } else if !self.has_new && !self.has_mark {
            State::NotApplied
        } else if !self.has_old && !self.has_mark {
            State::Applied
        } else {
            State::Partly
        }
    }

    /// The state, or the error for one that is not to be written over.
    pub fn refuse_foreign(&self) -> Result<State> {
        match self.foreign {
            Some(offset_bytes) => Err(CommitError::Foreign { offset_bytes }),
            None => Ok(self.state()),
        }
    }

    fn add(&mut self, record: &Record<'_>, found: &[u8], marked: Option<&[u8]>) {
        let sectors = found.chunks(SECTOR_BYTES).zip(record.old.chunks(SECTOR_BYTES));
        let sectors = sectors.zip(record.new.chunks(SECTOR_BYTES)).zip((0_u64..).step_by(SECTOR_BYTES));
        let mut marks = marked.unwrap_or_default().chunks(SECTOR_BYTES);
        for (((found, old), new), within) in sectors {
            let mark = marks.next();
            match (found == old, found == new) {
                (true, true) => {}
                (true, false) => self.has_old = true,
                (false, true) => self.has_new = true,
                (false, false) if mark == Some(found) => self.has_mark = true,
                (false, false) => {
                    self.foreign.get_or_insert(record.offset_bytes.saturating_add(within));
                }
            }
        }
    }
}

/// Compares the device with a file that has been verified.
pub fn survey(file: &UndoFile, head: &Head, device: &dyn BlockDevice) -> Result<Survey> {
    let mut survey = Survey::default();
    let mut found = vec![0; head.old.len()];
    read(device, 0, &mut found, &head.old)?;
    let record = Record { offset_bytes: 0, old: &head.old, new: &head.new };
    survey.add(&record, &found, Some(&head.marked));
    let start = HeadStart::of(head, &found);
    let mut behind = Survey::default();
    let mut records = file.records_behind_head()?;
    while let Some(record) = records.next()? {
        found.resize(record.old.len(), 0);
        read(device, record.offset_bytes, &mut found, record.old)?;
        behind.add(&record, &found, None);
    }
    if !start.permits(&behind) {
        survey.foreign.get_or_insert(0);
    }
    survey.has_old |= behind.has_old;
    survey.has_new |= behind.has_new;
    survey.foreign = survey.foreign.or(behind.foreign);
    Ok(survey)
}

/// The first sector of the device, in which the mark is. It is written before all others with the mark, and after all others without it:
/// where it is not marked, neither a repair nor an undo that was cut off leaves a mixture behind it. A mixture is new damage then, which
/// may well look as the old one did.
#[derive(Debug, Clone, Copy)]
struct HeadStart {
    is_old: bool,
    is_new: bool,
    is_marked: bool,
}

impl HeadStart {
    fn of(head: &Head, found: &[u8]) -> Self {
        let first = |bytes: &[u8]| bytes.get(..SECTOR_BYTES) == found.get(..SECTOR_BYTES);
        Self { is_old: first(&head.old), is_new: first(&head.new), is_marked: first(&head.marked) }
    }

    fn permits(self, behind: &Survey) -> bool {
        self.is_marked || (self.is_old && !behind.has_new) || (self.is_new && !behind.has_old)
    }
}

/// Reads from the device. Sectors that cannot be read hold what they held before, if they could not be read then.
fn read(device: &dyn BlockDevice, offset_bytes: u64, found: &mut [u8], old: &[u8]) -> Result<()> {
    let Some(error) = read_or_fill(device, offset_bytes, found)? else { return Ok(()) };
    let mut sectors = found.chunks(SECTOR_BYTES).zip(old.chunks(SECTOR_BYTES));
    match sectors.all(|(found, old)| !is_filler(found) || found == old) {
        true => Ok(()),
        false => Err(error.into()),
    }
}
