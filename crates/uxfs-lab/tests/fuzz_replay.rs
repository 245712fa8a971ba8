//! Kept crashes stay fixed, and a slice of what the fuzzers run is run by every test.

use std::{fs, path::PathBuf};

use uxfs_lab::{
    field_fuzz::sparse_device::{DamagedImage, SparseImage},
    fuzz::{TARGETS, forms, log, quota, superblock},
};
use uxfs_testkit::{
    golden::GoldenImage,
    judges::{judged, workspace_directory},
    manifest::Header,
    seeds::Seed,
    sparse, structures, walk,
};

/// Mutants of each seed in this test. `cargo xtask fuzz` runs millions.
const MUTANTS: u64 = 40;
/// Seeds of one kind of structure.
const SEEDS_MAX: usize = 6;

#[test]
fn kept_crashes_stay_fixed() {
    let mut count = 0;
    for target in TARGETS {
        for path in kept(target.name) {
            (target.run)(&fs::read(&path).expect("a kept input is readable"));
            count += 1;
        }
    }
    judged("kept findings", &format!("{count} inputs replayed"));
}

#[test]
fn kept_images_are_read_to_the_end() {
    let folder = tempfile::tempdir().unwrap();
    for packed in kept("images") {
        let image = folder.path().join("image");
        sparse::unpack(&packed, &image).unwrap();
        let header =
            Header { image: packed.display().to_string(), judge: "uxfs".into(), made_by: "hand".into() };
        // Whatever it says: it must not panic, hang or take all memory.
        match walk::from_image(&image, header) {
            Ok(found) => {
                judged("kept findings", &format!("{}: {} paths", packed.display(), found.entries.len()))
            }
            Err(error) => judged("kept findings", &format!("{}: {error:#}", packed.display())),
        }
    }
}

/// The findings of one kind; what they are says `fuzz/artifacts/README.md`.
fn kept(name: &str) -> Vec<PathBuf> {
    let folder = workspace_directory().join("fuzz/artifacts").join(name);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths: Vec<PathBuf> = entries.map(|entry| entry.expect("the folder is readable").path()).collect();
    assert!(!paths.is_empty(), "{}: nothing is kept there, so that nothing is tested", folder.display());
    paths
}

#[test]
fn mutants_of_sound_blocks_never_panic() {
    let seed = Seed::from_environment("mutants_of_sound_blocks_never_panic", 1);
    let mut random = seed.random();
    let path = GoldenImage::named("block-1k").unwrap().unpacked().unwrap();
    let device = DamagedImage::sound(SparseImage::load(&path).unwrap());
    let (_, instances) = structures::list(&device).unwrap();
    let (mut runs, mut kinds) = (0u64, std::collections::HashMap::new());
    for instance in &instances {
        let seen = kinds.entry(instance.structure).or_insert(0);
        *seen += 1;
        if *seen > SEEDS_MAX {
            continue;
        }
        let bytes = instance.read(&device).unwrap();
        for target in TARGETS {
            let Some(input) = target.seed(instance, &bytes) else { continue };
            for _ in 0..MUTANTS {
                let mut mutant = input.clone();
                for _ in 0..=random.below(4) {
                    let at = random.below(mutant.len() as u64) as usize;
                    mutant[at] = random.next_u64() as u8;
                }
                (target.run)(&mutant);
                runs += 1;
            }
        }
    }
    println!("{runs} mutants of {} kinds of structure", kinds.len());
    assert!(runs > 1000, "otherwise this test isn't testing anything");
}

#[test]
fn mutants_of_partition_tables_disks_and_packed_files_never_panic() {
    let mut random = Seed::from_environment("mutants_of_forms", 5).random();
    let mut runs = 0;
    for target in TARGETS.into_iter().filter(|target| forms::NAMES.contains(&target.name)) {
        for seed in kept(target.name).iter().map(|path| fs::read(path).unwrap()) {
            for _ in 0..300 {
                let mut mutant = seed.clone();
                for _ in 0..=random.below(4) {
                    // Headers and tables are more often changed than contents.
                    let range = if random.below(2) == 0 { mutant.len().min(600) } else { mutant.len() };
                    let at = random.below(range as u64) as usize;
                    mutant[at] = random.next_u64() as u8;
                }
                if random.below(8) == 0 {
                    mutant.truncate(random.below(mutant.len() as u64) as usize);
                }
                (target.run)(&mutant);
                runs += 1;
            }
        }
    }
    println!("{runs} mutants");
}

#[test]
fn mutants_of_a_log_are_replayed_into_memory() {
    let seed = Seed::from_environment("mutants_of_a_log_are_replayed_into_memory", 1);
    let mut random = seed.random();
    // The longer ones wrap in a small log, and hold many records.
    for round in 0..42 {
        let mut mutant = log::seed(if round % 21 == 20 { log::INPUT_BYTES_MAX } else { 40 << 10 });
        for _ in 0..if round == 0 { 0 } else { 1 + random.below(4) } {
            let at = random.below(mutant.len() as u64) as usize;
            mutant[at] = random.next_u64() as u8;
        }
        log::log(&mutant);
    }
}

#[test]
fn mutants_of_quota_records_and_of_huge_superblocks_never_panic() {
    let mut random = Seed::from_environment("mutants_of_quota_records", 3).random();
    let path = GoldenImage::named("block-1k").unwrap().unpacked().unwrap();
    let device = DamagedImage::sound(SparseImage::load(&path).unwrap());
    let sound = structures::list(&device).unwrap().1[0].read(&device).unwrap();
    let huge = superblock::seeds(&sound);
    assert_eq!(huge.len(), 4);
    type Run = fn(&[u8]);
    let targets: [(Run, Vec<Vec<u8>>); 2] = [(quota::quota, quota::seeds()), (superblock::superblock, huge)];
    for (run, seeds) in targets {
        for seed in seeds {
            run(&seed);
            for _ in 0..500 {
                let mut mutant = seed.clone();
                for _ in 0..=random.below(4) {
                    let at = random.below(mutant.len() as u64) as usize;
                    mutant[at] = random.next_u64() as u8;
                }
                run(&mutant);
            }
        }
    }
}
