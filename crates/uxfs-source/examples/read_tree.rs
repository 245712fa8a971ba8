//! Reads a directory or an archive and says how fast: `read_tree PATH [THREADS]`.

use std::{path::Path, time::Instant};

use anyhow::{Context, Result};
use uxfs_source::{
    content::Content,
    directory::{DirectoryOptions, DirectorySource},
    entry::Kind,
    stream::{StreamItem, StreamSource},
    tar::{TarOptions, TarSource},
    tree::{Reading, TreeSource},
};

#[derive(Default)]
struct Counts {
    entries: u64,
    inline_bytes: u64,
    other_bytes: u64,
}

impl Counts {
    fn add(&mut self, kind: &Kind) {
        self.entries += 1;
        match kind {
            Kind::Regular { content: Content::Inline(bytes), .. } => self.inline_bytes += bytes.len() as u64,
            Kind::Regular { size_bytes, .. } => self.other_bytes += size_bytes,
            _ => {}
        }
    }
}

fn main() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let path = arguments.next().context("which tree?")?;
    let path = Path::new(&path);
    let mut options = DirectoryOptions { skip_unreadable: true, ..DirectoryOptions::default() };
    if let Some(threads) = arguments.next() {
        options.threads = threads.to_string_lossy().parse()?;
    }
    for reading in [Reading::Everything, Reading::Metadata] {
        let start = Instant::now();
        let mut counts = Counts::default();
        if path.is_dir() {
            let mut source = DirectorySource::open(path, options.clone(), reading)?;
            while let Some(batch) = source.next_batch()? {
                batch.entries.iter().for_each(|entry| counts.add(&entry.kind));
            }
        } else {
            let mut source = TarSource::open(path, TarOptions::default(), reading)?;
            while let Some(item) = source.next_item()? {
                if let StreamItem::Entry(entry) = &item {
                    counts.add(&entry.kind);
                }
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "{reading:?}: {} entries, {} MB inline, {} MB otherwise, {seconds:.3} s, {:.0} entries/s",
            counts.entries,
            counts.inline_bytes >> 20,
            counts.other_bytes >> 20,
            counts.entries as f64 / seconds
        );
    }
    let peak = std::fs::read_to_string("/proc/self/status")?;
    println!("{}", peak.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default());
    Ok(())
}
