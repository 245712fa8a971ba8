//! How the kernel says that programs wait for memory: pressure stall information (PSI).

use std::{
    fs::{File, OpenOptions},
    io::Write,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::{FileExt, OpenOptionsExt},
    },
    path::PathBuf,
    time::Duration,
};

/// Wake when some program waited 100 ms out of 2 s. Without privileges the window must be a multiple of 2 s.
const TRIGGER: &[u8] = b"some 100000 2000000\0";
/// The share of time with a stall that counts where there is no trigger: the same.
const STALL_SHARE: f64 = 0.05;

/// A pressure file, read every second until the kernel accepts a trigger on it; or none at all. The first call of
/// [`has_stalled`](Self::has_stalled), a second after the start, sets the trigger: a process that exits with one waits about 10 ms for the
/// kernel to remove it.
#[derive(Debug)]
pub struct StallSource {
    kind: Kind,
    last_total_us: Option<u64>,
}

#[derive(Debug)]
enum Kind {
    Trigger(File),
    Polled { file: File, may_trigger: bool },
    Absent,
}

impl StallSource {
    /// Takes the first of `files` that can be used.
    pub fn open(files: &[PathBuf]) -> Self {
        let polled = |may_trigger| move |file| Kind::Polled { file, may_trigger };
        let kind = files.iter().find_map(open_for_trigger).map(polled(true));
        let kind = kind.or_else(|| files.iter().find_map(|path| File::open(path).ok()).map(polled(false)));
        let kind = kind.unwrap_or(Kind::Absent);
        let mut source = Self { kind, last_total_us: None };
        source.last_total_us = source.total_us();
        source
    }

    /// Ready when the trigger fires.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.kind {
            Kind::Trigger(file) => Some(file.as_fd()),
            _ => None,
        }
    }

    /// Whether programs have waited for memory since the last call, `elapsed` ago.
    pub fn has_stalled(&mut self, has_news: bool, elapsed: Duration) -> bool {
        if let Kind::Trigger(_) = self.kind {
            return has_news;
        }
        self.set_trigger();
        let (before, now) = (self.last_total_us, self.total_us());
        self.last_total_us = now;
        let stalled_us = now.zip(before).map_or(0, |(now, before)| now.saturating_sub(before));
        stalled_us as f64 >= elapsed.as_micros() as f64 * STALL_SHARE && stalled_us > 0
    }

    fn set_trigger(&mut self) {
        match std::mem::replace(&mut self.kind, Kind::Absent) {
            Kind::Polled { mut file, may_trigger: true } => {
                let is_set = file.write_all(TRIGGER).is_ok();
                self.kind =
                    if is_set { Kind::Trigger(file) } else { Kind::Polled { file, may_trigger: false } };
            }
            kind => self.kind = kind,
        }
    }

    /// Time with a stall since the system started.
    fn total_us(&self) -> Option<u64> {
        let (Kind::Trigger(file) | Kind::Polled { file, .. }) = &self.kind else { return None };
        let mut text = [0; 256];
        let count = file.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(text.get(..count)?).ok()?;
        let some = text.lines().find(|line| line.starts_with("some "))?;
        some.split(' ').find_map(|field| field.strip_prefix("total="))?.trim().parse().ok()
    }
}

fn open_for_trigger(path: &PathBuf) -> Option<File> {
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).write(true).custom_flags(nonblocking).open(path).ok()?;
    // A file that is no pressure file would be overwritten, so this one must look like one.
    let mut head = [0; 5];
    file.read_at(&mut head, 0).ok().filter(|count| *count == head.len() && head == *b"some ")?;
    Some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polled_figures_tell_of_stalls() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("memory");
        let write = |total: u64| {
            let text =
                format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={total}\nfull avg10=0.00 total=9\n");
            std::fs::write(&path, text).unwrap();
        };
        write(1000);
        let kind = Kind::Polled { file: File::open(&path).unwrap(), may_trigger: false };
        let mut source = StallSource { kind, last_total_us: None };
        let second = Duration::from_secs(1);
        assert!(!source.has_stalled(false, second), "the first look only takes the figure");
        assert!(!source.has_stalled(false, second));
        write(40_000);
        assert!(!source.has_stalled(false, second), "39 ms in a second is not much");
        write(100_000);
        assert!(source.has_stalled(false, second));
        assert!(!source.has_stalled(false, Duration::ZERO), "nothing happened");
    }

    #[test]
    fn nothing_to_read_is_no_stall() {
        let mut source = StallSource::open(&[PathBuf::from("/nonexistent/memory")]);
        assert!(source.descriptor().is_none() && !source.has_stalled(false, Duration::from_secs(1)));
    }

    /// Where the kernel has PSI this sets a trigger on it; whether it fires is the kernel's affair.
    #[test]
    fn the_systems_own_file_can_be_opened() {
        let mut source = StallSource::open(&super::super::System::default().stall_files());
        source.has_stalled(false, Duration::from_secs(1));
    }
}
