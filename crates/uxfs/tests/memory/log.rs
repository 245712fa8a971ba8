//! Logs that hold as many items as fit: what their recovery takes of memory.

use std::{path::Path, process::Command, time::Duration};

use tempfile::TempDir;
use uxfs_block::{
    device::BlockDevice,
    engine::{OpenOptions, sync::SyncDevice},
};
use uxfs_format::{
    field_table::OnDisk,
    geometry::Geometry,
    log::free_extent::FreedExtent,
    superblock::Superblock,
    units::{AgBlock, AgNumber},
};
use uxfs_journal::{
    LogState,
    area::LogArea,
    journal::{
        items::intent,
        records::{LogGeometry, LogHead, RecordWriter},
    },
};
use uxfs_testkit::{
    image,
    judges::{Judge, judged},
    limits::{Limits, run_limited},
    require,
};

use crate::common::program;

const MEBIBYTE: u64 = 1 << 20;

/// A log that holds nothing but the smallest intents there are, in one transaction.
#[test]
fn a_flood_of_intents_takes_memory_for_the_log_and_little_more() {
    require!(Judge::Mkfs);
    const LOG_BYTES: u64 = 16 * MEBIBYTE;
    let log = format!("size={}m", LOG_BYTES / MEBIBYTE);
    for extents in [0, 1] {
        let folder = TempDir::with_prefix_in("uxfs-flood-", image::memory_folder()).unwrap();
        let path = folder.path().join("image");
        image::make(&path, 320 * MEBIBYTE, &["-l", &log]).unwrap();
        let limits = Limits { time: Duration::from_secs(300), ..Limits::default() };
        let run = || {
            let mut command = Command::new(program());
            command.args(["ls", "--cache-size", "4M"]).arg(&path);
            run_limited(&mut command, &limits).unwrap()
        };
        let usual = run().peak_memory_bytes;
        let written_bytes = flood(&path, extents);
        assert!(written_bytes > LOG_BYTES / 2, "{written_bytes}");
        let outcome = run();
        // What announces nothing is not kept. An intent of 44 bytes is, with its kind, name and place.
        let times = if extents == 0 { 2 } else { 6 };
        let most = usual + written_bytes * times;
        let taken = outcome.peak_memory_bytes.saturating_sub(usual);
        judged("kernel", &format!("{taken} bytes of memory for {written_bytes} bytes of log"));
        assert_eq!(outcome.escape(most), None, "{extents} extents in each: usually {usual}");
        // Nothing to do; or the same block freed a million times.
        assert_eq!(outcome.code, Some(if extents == 0 { 0 } else { 3 }));
    }
}

/// Fills the log with intents of so many extents; gives how many bytes.
fn flood(path: &Path, extents: usize) -> u64 {
    let device = SyncDevice::open(path, &OpenOptions { writable: true, ..OpenOptions::default() }).unwrap();
    let mut sector = [0; 512];
    device.read(0, &mut sector).unwrap();
    let geometry = Geometry::new(Superblock::prefix_of(&sector).unwrap());
    let area = LogArea::new(&device, &geometry).unwrap();
    let LogState::Clean(log) = uxfs_journal::examine(&device, &geometry).unwrap() else { panic!("dirty") };
    let place = LogGeometry {
        start: area.start(),
        blocks: area.blocks(),
        uuid: area.uuid(),
        buffer_size_bytes: 256 << 10,
        unit_bytes: 512,
    };
    let head = LogHead { lsn: log.head, previous_block: log.newest.block() };
    let mut window = Vec::new();
    let mut writer = RecordWriter::new(&device, place, head, log.head, &mut window);
    writer.begin(7, 0);
    let start = geometry.fs_block(AgNumber::new(0), AgBlock::new(5000));
    let extent =
        FreedExtent { start_block: start.unwrap().get().into(), length_blocks: 1.into(), padding: 0.into() };
    let each = intent::free_extents(0, &vec![extent; extents]).len() + 12;
    let count = u64::from(area.blocks()) * 512 / 4 * 3 / each as u64;
    for id in 0..count {
        writer.region(&intent::free_extents(id, &vec![extent; extents]));
        writer.write_if_full().unwrap();
    }
    writer.commit(true).unwrap().1
}
