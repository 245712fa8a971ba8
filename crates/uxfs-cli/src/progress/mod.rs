//! The one display of long work: on a terminal a line that says what is done, how fast, and how long it will take; nothing in a pipe or a log.
//!
//! | module | holds |
//! |---|---|
//! | [`closing`] | the sentence at the end: how much was done, in what time |
//! | `line` | how the line looks |
//!
//! The line appears after half a second of work. It is one for the whole process: [`suspend`] takes it away while a message is printed.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread,
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget};
use parking_lot::Mutex;
use uxfs_repair::repair::progress::{Event, Phase};

pub mod closing;
mod line;

/// Shorter work shows nothing.
const SHOWN_AFTER: Duration = Duration::from_millis(500);
/// How often the line is drawn.
const DRAWN_EVERY: Duration = Duration::from_millis(200);

/// The line that is on the terminal.
static ON_TERMINAL: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Bytes of contents that were moved by code far from the display.
static MOVED_BYTES: AtomicU64 = AtomicU64::new(0);

/// The option of commands that show progress.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct QuietArgument {
    /// Show no progress and no closing summary
    #[arg(short, long)]
    pub quiet: bool,
}

/// By what the length of work is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// By things, with their name in the plural, and how many there are if that is known. The bytes are told beside them.
    Things(&'static str, Option<u64>),
    /// By bytes, and how many there are if that is known. The number of things with this name is told beside them, unless it is empty.
    Bytes(&'static str, Option<u64>),
}

/// Progress of one piece of long work. Many threads may count at once; where nothing is shown that costs next to nothing.
#[derive(Debug)]
pub struct Progress {
    shown: Option<Shown>,
}

#[derive(Debug)]
struct Shown {
    bar: ProgressBar,
    /// What is told beside the measure: bytes beside things, things beside bytes.
    beside: Arc<AtomicU64>,
    /// Dropped at the end.
    end: Option<Sender<()>>,
    ticker: Option<thread::JoinHandle<()>>,
}

impl Progress {
    /// Shows nothing.
    pub fn hidden() -> Self {
        Self { shown: None }
    }

    /// Begins with a first piece of work: `words` say what is being done. Nothing is shown where `is_quiet`, or standard error is no terminal.
    pub fn new(words: &'static str, measure: Measure, is_quiet: bool) -> Self {
        Self::polled(words, measure, is_quiet, |_: &Bar| {})
    }

    /// As [`new`](Self::new); `poll` sets the numbers each time before the line is drawn.
    pub fn polled(
        words: &'static str,
        measure: Measure,
        is_quiet: bool,
        poll: impl Fn(&Bar) + Send + 'static,
    ) -> Self {
        if is_quiet || !is_shown() {
            return Self::hidden();
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let beside = Arc::new(AtomicU64::new(0));
        let (end, ends) = mpsc::channel();
        let drawn = Bar { bar: bar.clone(), beside: Arc::clone(&beside) };
        drawn.begin(words, measure);
        // Without a thread the line is drawn when something is counted.
        let ticker = thread::Builder::new().name("progress".to_owned());
        let ticker = ticker.spawn(move || draw_until_the_end(&drawn, &ends, &poll)).ok();
        if ticker.is_none() {
            show(&bar);
        }
        Self { shown: Some(Shown { bar, beside, end: Some(end), ticker }) }
    }

    /// Goes over to another piece of work.
    pub fn begin(&self, words: &'static str, measure: Measure) {
        if let Some(shown) = &self.shown {
            Bar { bar: shown.bar.clone(), beside: Arc::clone(&shown.beside) }.begin(words, measure);
        }
    }

    /// Counts `count` more of what the work is measured by.
    pub fn add(&self, count: u64) {
        if let Some(shown) = &self.shown {
            shown.bar.inc(count);
        }
    }

    /// Counts `count` more of what is told beside it.
    pub fn add_beside(&self, count: u64) {
        if let Some(shown) = &self.shown {
            shown.beside.fetch_add(count, Relaxed);
        }
    }

    /// So much is done, in all.
    pub fn set(&self, count: u64) {
        if let Some(shown) = &self.shown {
            shown.bar.set_position(count);
        }
    }

    /// Shows what a repair does.
    pub fn follow(&self, event: Event) {
        match event {
            Event::Begin(phase) => self.begin(phase.words(), measure_of(phase)),
            Event::Inodes(count) => self.add(count),
            _ => {}
        }
    }
}

fn measure_of(phase: Phase) -> Measure {
    match phase {
        Phase::Check { inodes } => Measure::Things("inodes", Some(inodes)),
        _ => Measure::Things("inodes", None),
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(ticker) = self.ticker.take() {
            // It only shows numbers.
            drop(ticker.join());
        }
        *ON_TERMINAL.lock() = None;
        self.bar.finish_and_clear();
    }
}

/// The line, for the thread that draws it.
#[derive(Debug)]
pub struct Bar {
    bar: ProgressBar,
    beside: Arc<AtomicU64>,
}

impl Bar {
    fn begin(&self, words: &'static str, measure: Measure) {
        self.bar.reset();
        self.beside.store(0, Relaxed);
        match measure {
            Measure::Things(_, Some(total)) | Measure::Bytes(_, Some(total)) => self.bar.set_length(total),
            Measure::Things(_, None) | Measure::Bytes(_, None) => self.bar.unset_length(),
        }
        self.bar.set_style(line::style(measure, &self.beside));
        self.bar.set_message(words);
    }

    /// The end is known from now on.
    pub fn set_total(&self, measure: Measure) {
        let (Measure::Things(_, total) | Measure::Bytes(_, total)) = measure;
        if let Some(total) = total
            && self.bar.length() != Some(total)
        {
            self.bar.set_length(total);
            self.bar.set_style(line::style(measure, &self.beside));
        }
    }

    /// So much is done of what the work is measured by, and so much of what is told beside it.
    pub fn set(&self, count: u64, beside: u64) {
        self.bar.set_position(count);
        self.beside.store(beside, Relaxed);
    }
}

fn draw_until_the_end(drawn: &Bar, ends: &Receiver<()>, poll: &impl Fn(&Bar)) {
    let is_going_on = |time| matches!(ends.recv_timeout(time), Err(RecvTimeoutError::Timeout));
    if !is_going_on(SHOWN_AFTER) {
        return;
    }
    show(&drawn.bar);
    loop {
        poll(drawn);
        drawn.bar.tick();
        if !is_going_on(DRAWN_EVERY) {
            return;
        }
    }
}

fn show(bar: &ProgressBar) {
    bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(5));
    *ON_TERMINAL.lock() = Some(bar.clone());
}

/// Counts contents that were moved: pieces of a megabyte, as a rule.
pub fn count_bytes(count: u64) {
    MOVED_BYTES.fetch_add(count, Relaxed);
}

/// How many bytes have been counted.
pub fn moved_bytes() -> u64 {
    MOVED_BYTES.load(Relaxed)
}

/// Whether standard error is a terminal.
pub fn is_shown() -> bool {
    io::IsTerminal::is_terminal(&io::stderr())
}

/// Prints something while the line is not there.
pub fn suspend<T>(print: impl FnOnce() -> T) -> T {
    let shown = ON_TERMINAL.lock().clone();
    match shown {
        Some(bar) => bar.suspend(print),
        None => print(),
    }
}
