//! Times the block layer: `cargo run --release -p uxfs-block --example block_bench -- DIRECTORY…`
//!
//! The cost of a cache hit, and in each directory the speed of reading missing buffers by each engine, one by one and in
//! batches, through the page cache and, on real disks, past it. Prints one line for each measurement. Hits are in
//! processor time.

use std::{
    fs::File,
    io::Write,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use uxfs_block::{
    cache::{Cache, CacheOptions, Piece, Unverified},
    device::{BlockDevice, DeviceError},
    engine::{Engine, OpenOptions, memory::MemoryDevice, open},
};

const BLOCK_BYTES: u64 = 4096;
const FILE_BYTES: u64 = 512 << 20;
const BATCH: usize = 128;
const READS: usize = 40_000;

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> Outcome {
    hits()?;
    for directory in std::env::args().skip(1) {
        misses(Path::new(&directory))?;
    }
    Ok(())
}

fn block(index: u64) -> Piece {
    Piece { offset_bytes: index * BLOCK_BYTES, length_bytes: BLOCK_BYTES as u32 }
}

/// Time that this thread has had a processor: the machine may be busy with other things.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|field| field.parse().ok()).unwrap_or(0))
}

/// A sequence without a pattern that an engine or disk could follow.
fn scattered(count: usize, blocks: u64) -> impl Iterator<Item = u64> {
    let step = |state: &u64| {
        Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
    };
    std::iter::successors(Some(42), step).map(move |state: u64| (state >> 24) % blocks).take(count)
}

fn hits() -> Outcome {
    let blocks = 16_384;
    let device = Arc::new(MemoryDevice::new(vec![0; (blocks * BLOCK_BYTES) as usize]));
    let cache = Cache::new(device, &CacheOptions::with_budget(128 << 20));
    for index in 0..blocks {
        cache.read(&[block(index)], &Unverified)?;
    }
    let order: Vec<Piece> = scattered(1 << 16, blocks).map(block).collect();
    let lookups = |pieces: &[Piece]| -> Duration {
        let begin = processor_time();
        for _ in 0..32 {
            for piece in pieces {
                std::hint::black_box(cache.read(std::slice::from_ref(piece), &Unverified).is_ok());
            }
        }
        (processor_time() - begin) / (32 * pieces.len() as u32)
    };
    println!("hit, one buffer over and over     {:>6} ns", lookups(&[block(7); 1 << 16]).as_nanos());
    println!("hit, 64 buffers                   {:>6} ns", lookups(&order[..64].repeat(1024)).as_nanos());
    println!("hit, 16384 buffers, no order      {:>6} ns", lookups(&order).as_nanos());
    let (one, other) = order.split_at(order.len() / 2);
    let both = std::thread::scope(|scope| {
        let thread = scope.spawn(|| lookups(one));
        lookups(other).max(thread.join().unwrap_or_default())
    });
    println!("hit, 16384 buffers, two threads   {:>6} ns each", both.as_nanos());
    Ok(())
}

fn misses(directory: &Path) -> Outcome {
    let path = directory.join("uxfs-block-bench.tmp");
    let mut file = File::create(&path)?;
    for _ in 0..FILE_BYTES >> 20 {
        file.write_all(&[0x5a; 1 << 20])?;
    }
    file.sync_data()?;
    for (name, engine) in [("sync", Engine::Sync), ("io_uring", Engine::Uring)] {
        for direct in [false, true] {
            let how = if direct { "direct" } else { "cached" };
            match open(&path, &OpenOptions { engine, direct, ..OpenOptions::default() }) {
                Ok(device) => measure(directory, &format!("{name:<8} {how}"), device)?,
                Err(error) => println!("{}: {name} {how}: {error}", directory.display()),
            }
        }
    }
    std::fs::remove_file(&path)?;
    Ok(())
}

fn measure(directory: &Path, name: &str, device: Arc<dyn BlockDevice>) -> Outcome {
    let pieces: Vec<Piece> = scattered(READS, FILE_BYTES / BLOCK_BYTES).map(block).collect();
    let dense: Vec<Piece> = (0..READS as u64).map(|index| block(index * 3)).collect();
    let report = |what: &str,
                  budget: u64,
                  pieces: &[Piece],
                  run: &dyn Fn(&Cache) -> Result<(), DeviceError>|
     -> Outcome {
        let cache = Cache::new(device.clone(), &CacheOptions::with_budget(budget));
        let (begin, processor_begin) = (Instant::now(), processor_time());
        run(&cache)?;
        let processor = processor_time() - processor_begin;
        let seconds = begin.elapsed().as_secs_f64();
        let counters = cache.counters();
        println!(
            "{} {name} {what:<28} {:>8.0} buffers/s {:>6.0} MB/s, {:>6} ns of processor each (read {:.1}x)",
            directory.display(),
            pieces.len() as f64 / seconds,
            pieces.len() as f64 * BLOCK_BYTES as f64 / seconds / 1e6,
            processor.as_nanos() / pieces.len() as u128,
            (counters.bytes_read + counters.gap_bytes_read) as f64 / counters.bytes_read as f64,
        );
        Ok(())
    };
    let one_by_one = |pieces: &[Piece], cache: &Cache| {
        pieces.iter().try_for_each(|piece| match cache.read(std::slice::from_ref(piece), &Unverified) {
            Err(uxfs_block::cache::ReadError::Device(error)) => Err(error),
            _ => Ok(()),
        })
    };
    let batched = |pieces: &[Piece], cache: &Cache| {
        pieces.chunks(BATCH).for_each(|batch| cache.prefetch(batch.iter().map(std::slice::from_ref)));
        Ok(())
    };
    let (roomy, tight) = (256 << 20, 16 << 20);
    let few = &pieces[..READS / 4];
    report("one by one", roomy, few, &|cache| one_by_one(few, cache))?;
    report("one by one, evicting", tight, few, &|cache| one_by_one(few, cache))?;
    report("in batches", roomy, &pieces, &|cache| batched(&pieces, cache))?;
    report("in batches, evicting", tight, &pieces, &|cache| batched(&pieces, cache))?;
    report("every third block, batches", roomy, &dense, &|cache| batched(&dense, cache))
}
