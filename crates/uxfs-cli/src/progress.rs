//! A progress bar on a terminal, nothing in a pipe or a log.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use uxfs_repair::repair::progress::{Event, Phase};

/// From here on there is room for numbers.
const WIDE_COLUMNS: u16 = 60;
const NARROW_BAR: &str = "{wide_bar} {percent}%";

/// Progress of one piece of long work. Cheap to update from many threads.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar for `total` things (`unit` in the plural), or a counter where the total is not known. Hidden unless
    /// standard error is a terminal, and for the first half second of short work.
    pub fn new(unit: &'static str, total: Option<u64>) -> Self {
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr_with_hz(5));
        let template = match (total, is_narrow()) {
            (Some(_), false) => {
                format!("{{wide_bar}} {{human_pos}}/{{human_len}} {unit} {{per_sec}} {{eta}}")
            }
            (Some(_), true) => NARROW_BAR.to_owned(),
            (None, false) => format!("{{spinner}} {{human_pos}} {unit} {{per_sec}}"),
            (None, true) => "{spinner} {human_pos}".to_owned(),
        };
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.set_style(style);
        }
        // The bar's thread panics where it cannot be started. Without it the bar is drawn when something is counted.
        if is_shown() && std::thread::Builder::new().spawn(|| {}).is_ok() {
            bar.enable_steady_tick(Duration::from_millis(500));
        }
        Self { bar }
    }

    /// Counts `count` more.
    pub fn add(&self, count: u64) {
        self.bar.inc(count);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Whether standard error is a terminal.
pub fn is_shown() -> bool {
    std::io::IsTerminal::is_terminal(&std::io::stderr())
}

/// Whether the terminal has no room for numbers beside a bar: a line that is broken in two cannot be drawn over.
fn is_narrow() -> bool {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stderr()).ok();
    size.is_some_and(|size| size.ws_col > 0 && size.ws_col < WIDE_COLUMNS)
}

/// Progress of filling an image: files and bytes.
#[derive(Debug)]
pub struct Filling {
    bar: ProgressBar,
}

impl Filling {
    /// A line that is empty so far.
    pub fn start() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(5));
        let template = match is_narrow() {
            true => "{spinner} {bytes}",
            false => "{spinner} {msg} files, {bytes} {bytes_per_sec} [{elapsed}]",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self { bar }
    }

    /// The end is known from now on.
    pub fn set_total(&self, bytes: u64) {
        if self.bar.length() == Some(bytes) {
            return;
        }
        self.bar.set_length(bytes);
        let template = match is_narrow() {
            true => NARROW_BAR,
            false => "{wide_bar} {msg} files, {bytes}/{total_bytes} {bytes_per_sec} {eta}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.bar.set_style(style);
        }
    }

    /// Shows what has been done.
    pub fn show(&self, entries: u64, bytes: u64) {
        self.bar.set_message(entries.to_string());
        self.bar.set_position(bytes);
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Progress of a repair: what it does, and how many inodes it has visited.
#[derive(Debug)]
pub struct Repairing {
    bar: ProgressBar,
}

impl Repairing {
    /// A line that is empty so far; none where `is_quiet`.
    pub fn start(is_quiet: bool) -> Self {
        let target =
            if is_quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(5) };
        let bar = ProgressBar::with_draw_target(None, target);
        if is_shown() && !is_quiet && std::thread::Builder::new().spawn(|| {}).is_ok() {
            bar.enable_steady_tick(Duration::from_millis(500));
        }
        Self { bar }
    }

    /// Shows what happened.
    pub fn show(&self, event: Event) {
        match event {
            Event::Begin(phase) => self.begin(phase),
            Event::Inodes(count) => self.bar.inc(count),
            _ => {}
        }
    }

    fn begin(&self, phase: Phase) {
        let template = match phase {
            Phase::Check { inodes } => {
                self.bar.set_length(inodes);
                if is_narrow() { NARROW_BAR } else { "{msg} {wide_bar} {human_pos}/{human_len} inodes {eta}" }
            }
            _ if is_narrow() => "{spinner} {wide_msg}",
            _ => "{spinner} {msg} [{elapsed}]",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.bar.set_style(style);
        }
        self.bar.set_position(0);
        self.bar.set_message(phase.words());
    }
}

impl Drop for Repairing {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
