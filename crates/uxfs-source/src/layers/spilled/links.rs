//! From hard links to files. A link's target may be another link, made before: answers are followed until all name files.

use uxfs_block::spill::{
    SpillError,
    sorter::{Merge, Sorted, Sorter},
};

use super::{
    super::plan::Time,
    sweep::{FileRecord, Origin},
};

/// State of a hard link's target when the link was made.
pub(super) type Answer = Origin;

const ITEM: u8 = 0;
const LINK: u8 = 1;

impl Answer {
    fn write(self) -> [u8; 13] {
        let (kind, time, record) = match self {
            Self::Item(FileRecord { file, record }) => (ITEM, file, record),
            Self::Link(time) => (LINK, time, 0),
        };
        let ([a, b, c, d], [e, f, g, h, i, j, k, l]) = (time.to_le_bytes(), record.to_le_bytes());
        [kind, a, b, c, d, e, f, g, h, i, j, k, l]
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let [kind, a, b, c, d, e, f, g, h, i, j, k, l] = *bytes.first_chunk::<13>()?;
        let (time, record) =
            (Time::from_le_bytes([a, b, c, d]), u64::from_le_bytes([e, f, g, h, i, j, k, l]));
        match kind {
            ITEM => Some(Self::Item(FileRecord { file: time, record })),
            LINK => Some(Self::Link(time)),
            _ => None,
        }
    }
}

/// Gathers the answers to links, known by their times.
pub(super) struct Links {
    answers: Sorter,
    memory_bytes: usize,
}

impl Links {
    pub(super) fn new(memory_bytes: usize) -> Self {
        Self { answers: Sorter::new(memory_bytes), memory_bytes }
    }

    pub(super) fn add(&mut self, link: Time, answer: Answer) -> Result<(), SpillError> {
        self.answers.push(&link.to_be_bytes(), &answer.write())
    }

    /// The answers, of which each names a file.
    pub(super) fn resolve(self) -> Result<Sorted, SpillError> {
        let mut answers = self.answers.finish()?;
        // Each round doubles how many links an answer has been followed over: there are at most 33.
        loop {
            let (mut next, mut open) = (Sorter::new(self.memory_bytes), Sorter::new(self.memory_bytes));
            let mut is_done = true;
            let mut merge = answers.read()?;
            while let Some((link, payload)) = merge.next_record()? {
                match Answer::read(payload).ok_or_else(SpillError::damaged)? {
                    Answer::Item(_) => next.push(link, payload)?,
                    Answer::Link(target) => {
                        is_done = false;
                        open.push(&target.to_be_bytes(), link)?;
                    }
                }
            }
            if is_done {
                return Ok(answers);
            }
            let (open, mut known) = (open.finish()?, AnswerReader::new(&answers)?);
            let mut merge = open.read()?;
            while let Some((target, link)) = merge.next_record()? {
                next.push(link, &known.answer(time_of(target)?)?.write())?;
            }
            answers = next.finish()?;
        }
    }
}

fn time_of(key: &[u8]) -> Result<Time, SpillError> {
    key.first_chunk::<4>().map(|bytes| Time::from_be_bytes(*bytes)).ok_or_else(SpillError::damaged)
}

/// Finds answers, asked for in order of their links.
pub(super) struct AnswerReader {
    merge: Merge,
    last: Option<(Time, Answer)>,
}

impl AnswerReader {
    pub(super) fn new(answers: &Sorted) -> Result<Self, SpillError> {
        Ok(Self { merge: answers.read()?, last: None })
    }

    /// The answer to a link. Each link has one: those without are faults, which ended the sweep.
    pub(super) fn answer(&mut self, link: Time) -> Result<Answer, SpillError> {
        loop {
            if let Some((_, answer)) = self.last.filter(|(last, _)| *last == link) {
                return Ok(answer);
            }
            let (key, payload) = self.merge.next_record()?.ok_or_else(SpillError::damaged)?;
            self.last = Some((time_of(key)?, Answer::read(payload).ok_or_else(SpillError::damaged)?));
        }
    }

    /// The file of a link, once links have been resolved.
    pub(super) fn file(&mut self, link: Time) -> Result<FileRecord, SpillError> {
        match self.answer(link)? {
            Answer::Item(file) => Ok(file),
            Answer::Link(_) => Err(SpillError::damaged()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_of_links_lead_to_their_files() {
        let mut links = Links::new(0);
        // Every third item is a file; the links behind it are links to the link before.
        let (count, chain) = (20_000, 1000);
        for link in (1..count).filter(|time| time % chain != 1) {
            let file = FileRecord { file: link - 1, record: u64::from(link) << 20 };
            let is_first = link % chain == 2;
            links.add(link, if is_first { Answer::Item(file) } else { Answer::Link(link - 1) }).unwrap();
        }
        let mut reader = AnswerReader::new(&links.resolve().unwrap()).unwrap();
        for link in (1..count).filter(|time| time % chain != 1) {
            // Those that a chain ends with belong to the chain that began before.
            let file = (link - 2) / chain * chain + 1;
            let record = u64::from(file + 1) << 20;
            assert_eq!(reader.file(link).unwrap(), FileRecord { file, record }, "{link}");
        }
    }
}
