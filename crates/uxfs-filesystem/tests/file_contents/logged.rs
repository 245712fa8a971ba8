//! Open files, from several threads, with the journal.

use std::sync::Arc;

use uxfs_engine::{options::LogOptions, transaction::Transaction};
use uxfs_filesystem::{
    file::{Touch, handles::Seek, share::CloneRange, space::SizeChange},
    filesystem::FileSystem,
    inode::table::InodeHandle,
};
use uxfs_format::units::AgNumber;
use uxfs_testkit::{
    image::{TestImage, file},
    judges::{Judge, judged},
    require,
};

use super::{Random, linux_recovers, model::Model};

fn touch(file_system: &FileSystem) -> Touch {
    Touch::at(file_system.now())
}

/// Two files that one thread writes and clones, beside the others.
fn work(file_system: &FileSystem, files: &[InodeHandle], seed: u64) -> [Model; 2] {
    let block = file_system.geometry().block_size();
    let (mut random, mut models) = (Random::new(seed), [Model::default(), Model::default()]);
    for step in 0..400_u64 {
        let index = random.below(2) as usize;
        let (offset, length) = (random.below(400_000) as usize, 1 + random.below(30_000) as usize);
        match random.below(6) {
            0..=2 => {
                let bytes = vec![(step % 250) as u8 + 1; length];
                file_system.write(&files[index], offset as u64, &bytes, touch(file_system)).unwrap();
                models[index].write(offset, &bytes, block);
            }
            3 => {
                let range = CloneRange { source_bytes: 0, target_bytes: 0, length_bytes: 0 };
                let (source, target) = (1 - index, index);
                let size = models[source].size();
                file_system.set_size(&files[target], 0, touch(file_system)).unwrap();
                let count =
                    file_system.clone_range(&files[source], &files[target], &range, touch(file_system));
                assert_eq!(count.unwrap(), size as u64);
                models[target] = models[source].clone();
            }
            4 => {
                file_system
                    .punch_range(&files[index], offset as u64, length as u64, touch(file_system))
                    .unwrap();
                models[index].clear(offset, length, block);
            }
            _ => {
                let (offset, length) = (offset as u64, length as u64);
                let now = touch(file_system);
                file_system.allocate_range(&files[index], offset, length, SizeChange::Keep, now).unwrap();
                if step % 20 == 0 {
                    file_system.sync_file(&files[index]).unwrap();
                }
            }
        }
        let mut bytes = vec![0; length];
        let count = file_system.read(&files[index], offset as u64, &mut bytes).unwrap();
        let expected = models[index].bytes.get(offset..).unwrap_or_default();
        assert_eq!(bytes[..count], expected[..expected.len().min(length)]);
        let found = file_system.seek(&files[index], offset as u64, Seek::Data).ok();
        assert_eq!(found, models[index].seek(offset, true, block).map(|data| data as u64));
    }
    models
}

#[test]
fn threads_change_files_beside_each_other() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    const THREADS: usize = 4;
    let image = TestImage::new("threads", 400, &["-d", "agcount=4"], 2 * THREADS);
    let file_system = image.mount_logged(LogOptions { has_background: true, ..LogOptions::default() });
    let open = |index| file_system.open(file(&file_system, index)).unwrap();
    let files: Vec<InodeHandle> = (0..2 * THREADS).map(open).collect();
    let models: Vec<Model> = std::thread::scope(|scope| {
        let start = |(number, files)| {
            let file_system: &FileSystem = &file_system;
            scope.spawn(move || work(file_system, files, 5 + number as u64))
        };
        let threads: Vec<_> = files.chunks(2).enumerate().map(start).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    drop(files);
    file_system.inactivate_pending().unwrap();
    file_system.force().unwrap();
    drop::<Arc<FileSystem>>(file_system);
    linux_recovers(&image, &models);
    image.must_be_sound();
    judged("model", &format!("{THREADS} threads, 400 operations each"));
}

#[test]
fn who_finds_the_journal_shut_down_is_told_why() {
    require!(Judge::Mkfs);
    let image = TestImage::new("cause", 320, &[], 1);
    let file_system = image.mount_logged(LogOptions::default());
    let mut transaction = Transaction::begin(&file_system).unwrap();
    let mut inode = transaction.load_inode(file(&file_system, 0)).unwrap();
    inode.set_size_bytes(5);
    transaction.store_inode(&mut inode).unwrap();
    let error = transaction.group(AgNumber::new(1000)).unwrap_err();
    drop(transaction);
    let told = file_system.force().unwrap_err().to_string();
    assert!(told.contains(&error.to_string()) && told.contains("half done"), "{told}");
}

#[test]
fn what_is_allocated_ahead_goes_with_the_last_handle() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let image = TestImage::new("ahead", 320, &[], 2);
    let file_system = image.mount_logged(LogOptions::default());
    let [one, other] = [0, 1].map(|index| file_system.open(file(&file_system, index)).unwrap());
    // In turn, in small pieces.
    for step in 0..100 {
        for file in [&one, &other] {
            let (offset, written) = file_system.append(file, &[7; 1000], touch(&file_system)).unwrap();
            assert_eq!((offset, written), (step * 1000, 1000));
        }
    }
    let blocks = |file: &InodeHandle| file_system.stat(file).unwrap().blocks;
    let mappings = file_system.mappings(&one, 0, 100_000, 100).unwrap().len();
    assert!(mappings <= 4, "{mappings} extents");
    assert!(blocks(&one) > 25);
    let again = one.clone();
    drop(one);
    file_system.inactivate_pending().unwrap();
    assert!(blocks(&again) > 25);
    drop(again);
    // The next write frees the preallocation of closed files.
    file_system.write(&other, 0, &[8], touch(&file_system)).unwrap();
    let one = file_system.open(file(&file_system, 0)).unwrap();
    assert_eq!(blocks(&one), 25);
    // What was asked for stays.
    file_system.allocate_range(&one, 0, 400_000, SizeChange::Keep, touch(&file_system)).unwrap();
    drop((one, other));
    file_system.close().unwrap();
    let again = file_system.open(file(&file_system, 0)).unwrap();
    assert_eq!(again.read().blocks(), 98);
    drop(again);
    drop(file_system);
    let later = image.mount();
    let blocks = |index| later.inode(file(&later, index)).unwrap().blocks();
    assert_eq!((blocks(0), blocks(1)), (98, 25));
    image.must_be_sound();
}
