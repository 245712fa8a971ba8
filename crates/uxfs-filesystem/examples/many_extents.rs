//! Times operations on files of very many extents. The image lies in memory; every second block of a file is a hole.
//!
//! `cargo run --release -p uxfs-filesystem --example many_extents [NAME…]`
// A measurement: what fails ends it.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};
use uxfs_engine::{extent_map::map::Mapping, options::LogOptions, transaction::Transaction};
use uxfs_filesystem::{
    file::{Touch, exchange::ExchangeRange, share::CloneRange, space::SizeChange},
    filesystem::FileSystem,
    inode::table::InodeHandle,
};
use uxfs_format::units::FileBlock;
use uxfs_testkit::image::{TestImage, file};
use uxfs_volume::inode::Fork;

const BLOCK_BYTES: u64 = 4096;
const MIB_OF_BLOCKS: u64 = 256;
const TOUCH: Touch = Touch::NOTHING;

/// CPU time of the process: on a shared machine it says more than a clock.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn timed<T>(what: &str, count: u64, work: impl FnOnce() -> T) -> T {
    let (begin, processor_begin) = (Instant::now(), processor_time());
    let result = work();
    let (elapsed, processor) = (begin.elapsed().as_secs_f64(), processor_time() - processor_begin);
    let (each, processor) = (processor.as_nanos() as u64 / count.max(1), processor.as_secs_f64());
    println!("{what:<52} {elapsed:>8.3} s, {processor:>8.3} s of processors, {each} ns each");
    result
}

/// An image with two files, of so many extents of one block each. Every third extent of the second one lies where the first
/// has a hole.
fn image_of(extents: [u64; 2]) -> TestImage {
    let size_mib = 512 + 3 * extents.iter().sum::<u64>() / MIB_OF_BLOCKS;
    let image = TestImage::new("many extents", size_mib, &["-l", "size=64m"], 2);
    let file_system = image.mount_bulk();
    for (index, count) in extents.into_iter().enumerate() {
        let mut transaction = Transaction::begin(&file_system).unwrap();
        let mut inode = transaction.load_inode(file(&file_system, index)).unwrap();
        timed(&format!("bulk: append {count} extents"), count, || {
            for number in 0..count {
                let shift = if number % 3 == 0 { index as u64 } else { 0 };
                let at = FileBlock::new(2 * number + shift);
                transaction
                    .extent_maps()
                    .map_blocks(&mut inode, Fork::Data, at, 1, Mapping::default())
                    .unwrap();
            }
        });
        inode.set_size_bytes(2 * count * BLOCK_BYTES);
        transaction.store_inode(&mut inode).unwrap();
        transaction.commit().unwrap();
    }
    file_system.close().unwrap();
    image
}

fn opened(image: &TestImage) -> (Arc<FileSystem>, [InodeHandle; 2]) {
    let file_system = image.mount_logged(LogOptions::default());
    let numbers = [0, 1].map(|index| file(&file_system, index));
    let handles = timed("load both", 1, || numbers.map(|number| file_system.open(number).unwrap()));
    (file_system, handles)
}

fn exchange() {
    let count = 300_000;
    let image = image_of([count; 2]);
    let (file_system, [first, second]) = opened(&image);
    let range = ExchangeRange { length_bytes: count * BLOCK_BYTES, ..ExchangeRange::default() };
    timed("exchange one half of two files of 300,000 extents", count / 2, || {
        file_system.exchange_files(&first, &second, &range, TOUCH).unwrap();
    });
    finish(&image, file_system);
}

fn middle() {
    let count = 300_000;
    let image = image_of([count, 1]);
    let (file_system, [file, _]) = opened(&image);
    let middle = count * BLOCK_BYTES;
    timed("write 10,000 blocks into holes in the middle", 10_000, || {
        for number in 0..10_000 {
            let offset = middle + (2 * number + 1) * BLOCK_BYTES;
            file_system.write(&file, offset, &[7; BLOCK_BYTES as usize], TOUCH).unwrap();
        }
    });
    timed("insert a range in the middle", count / 2, || {
        file_system.insert_range(&file, middle, 8 * BLOCK_BYTES, TOUCH).unwrap();
    });
    timed("collapse a range in the middle", count / 2, || {
        file_system.collapse_range(&file, middle, 8 * BLOCK_BYTES, TOUCH).unwrap();
    });
    finish(&image, file_system);
}

fn punch() {
    let count = 150_000;
    let size_mib = 512 + 4 * count / MIB_OF_BLOCKS;
    let image = TestImage::new("many holes", size_mib, &["-l", "size=64m"], 2);
    let (file_system, [file, other]) = opened(&image);
    for file in [&file, &other] {
        let length = 2 * count * BLOCK_BYTES;
        file_system.allocate_range(file, 0, length, SizeChange::Grow, TOUCH).unwrap();
    }
    timed("punch 150,000 holes, ascending", count, || {
        for number in 0..count {
            let offset = 2 * number * BLOCK_BYTES;
            file_system.punch_range(&file, offset, BLOCK_BYTES, TOUCH).unwrap();
        }
    });
    timed("punch 150,000 holes, anywhere", count, || {
        for number in 0..count {
            let offset = 2 * (number * 7_919 % count) * BLOCK_BYTES;
            file_system.punch_range(&other, offset, BLOCK_BYTES, TOUCH).unwrap();
        }
    });
    finish(&image, file_system);
}

fn remove() {
    let count = 1_000_000;
    let image = image_of([count, 1]);
    let (file_system, [first, second]) = opened(&image);
    let all = CloneRange { source_bytes: 0, target_bytes: 0, length_bytes: 0 };
    timed("clone a file of 1,000,000 extents", count, || {
        file_system.clone_range(&first, &second, &all, TOUCH).unwrap();
    });
    drop(first);
    timed("remove a file of 1,000,000 extents", count, || {
        let root = file_system.open_root().unwrap();
        file_system.unlink(&root, b"file-0").unwrap();
        file_system.inactivate_pending().unwrap();
    });
    finish(&image, file_system);
}

fn finish(image: &TestImage, file_system: Arc<FileSystem>) {
    timed("close", 1, || file_system.close().unwrap());
    drop(file_system);
    image.must_satisfy_repair();
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let all: [(&str, fn()); 4] =
        [("exchange", exchange), ("middle", middle), ("punch", punch), ("remove", remove)];
    for (name, run) in all {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            println!("{name}");
            run();
        }
    }
}
