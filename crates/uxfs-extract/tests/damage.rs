//! Damaged images, each with one field wrong and the checksum right: an extraction ends, soon, and in no other way than with
//! what could be saved and a list of what could not. `UXFS_FUZZ_CASES` says how many are tried.

use std::{
    io::{self, Write},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use uxfs_engine::options::MountOptions;
use uxfs_extract::{
    report::{Aspect, Collector},
    tar::stream::TarSink,
    walk::{ExtractOptions, Start, extract},
};
use uxfs_filesystem::mount;
use uxfs_lab::field_fuzz::{
    plan::Plan,
    sparse_device::{DamagedImage, SparseImage},
};
use uxfs_testkit::{golden::GoldenImage, seeds::Seed};

/// No case may take longer.
const LIMIT: Duration = Duration::from_secs(10);

/// Takes everything.
struct Nowhere;

impl Write for Nowhere {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn damage_fields_of(name: &str, count: usize) -> Result<()> {
    let seed = Seed::from_environment("damage", 1);
    let base = SparseImage::load(&GoldenImage::named(name)?.unpacked()?)?;
    let sound = DamagedImage::sound(Arc::clone(&base));
    let plan = Plan::new(&sound)?;
    let options = MountOptions {
        ignore_dirty_log: true,
        cache_budget_bytes: Some(16 << 20),
        ..MountOptions::default()
    };
    let (mut mounted, mut told) = (0, 0);
    for case in plan.cases(count, seed.random().next_u64()) {
        let damage = plan.damage(&sound, &case)?;
        let image = DamagedImage::new(Arc::clone(&base), &damage.instance.pieces, &damage.bytes);
        let begin = Instant::now();
        let Ok(filesystem) = mount::open_volume(Arc::new(image), &options) else { continue };
        mounted += 1;
        let start = Start { inode: filesystem.geometry().root_inode, name: None };
        let mut collector = Collector::default();
        let mut sink = TarSink::new(Nowhere);
        extract(&filesystem, &start, &ExtractOptions { workers: 2 }, &mut sink, &mut collector)
            .with_context(|| format!("{name}: {} of {:?}", damage.field, damage.instance))?;
        told += usize::from(collector.problems.iter().any(|problem| problem.aspect != Aspect::Socket));
        let taken = begin.elapsed();
        ensure!(taken < LIMIT, "{name}: {taken:?} for {} of {:?}", damage.field, damage.instance);
    }
    eprintln!("{name}: {count} damaged fields, {mounted} mounted, {told} extractions told of damage");
    ensure!(mounted > 0 && told > 0, "nothing was tried");
    Ok(())
}

#[test]
fn one_field_wrong() {
    let count = std::env::var("UXFS_FUZZ_CASES").ok().and_then(|count| count.parse().ok()).unwrap_or(100);
    for name in ["default", "block-1k"] {
        damage_fields_of(name, count / 2).unwrap();
    }
}
