//! Two ranges of one file change places: as the kernel does it, refusals included, and after every crash.

use std::{fs, ops::ControlFlow, path::Path, sync::Arc};

use uxfs_engine::{options::LogOptions, transaction::Transaction};
use uxfs_filesystem::{
    file::{Touch, exchange::ExchangeRange},
    filesystem::FileSystem,
};
use uxfs_lab::crash::{
    image::Image,
    recording::RecordingDevice,
    states::{Kind, Plan, visit},
};
use uxfs_testkit::{
    image::{TestImage, file},
    judges::{Judge, judged},
    mount::{Access, LoopMount},
    require, sparse,
};
use uxfs_volume::error::{Error, OperationError};

use super::{
    Random,
    crash::{linux_must_recover, mount_device, recovered},
    model::Model,
};

/// Blocks of the file that the kernel and uxfs change.
const BLOCKS: u64 = 60;
const ROUNDS: usize = 150;

/// A request in bytes; no length for "up to the ends".
#[derive(Debug)]
struct Request {
    first: u64,
    second: u64,
    length: Option<u64>,
    only_written: bool,
}

impl Request {
    fn new(random: &mut Random, block: u64) -> Self {
        let place = |random: &mut Random| {
            let odd = if random.below(12) == 0 { 512 } else { 0 };
            random.below(BLOCKS) * block + odd
        };
        let (first, second) = (place(random), place(random));
        let length = (1 + random.below(20)) * block - if random.below(12) == 0 { 100 } else { 0 };
        let length = (random.below(15) > 0).then_some(length);
        Self { first, second, length, only_written: random.below(4) == 0 }
    }

    fn by_kernel(&self, path: &Path) -> bool {
        let (first, second) = (self.first, self.second);
        let length = self.length.map_or(String::new(), |length| format!("-l {length}"));
        let written = if self.only_written { "-w" } else { "" };
        let command = format!("exchangerange {written} -s {first} -d {second} {length} {}", path.display());
        let output = Judge::XfsIo.command().arg("-c").arg(command).arg(path).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.is_empty() || said.contains("Invalid argument"), "{self:?}: {said}");
        output.status.success() && said.is_empty()
    }

    fn by_uxfs(&self, file_system: &FileSystem) -> bool {
        let handle = file_system.open(file(file_system, 0)).unwrap();
        let range = ExchangeRange {
            first_bytes: self.first,
            second_bytes: self.second,
            length_bytes: self.length.unwrap_or(0),
            to_end: self.length.is_none(),
            only_written: self.only_written,
            dry_run: false,
            without_intents: false,
        };
        match file_system.exchange_files(&handle, &handle, &range, Touch::NOTHING) {
            Ok(()) => true,
            Err(Error::Operation(OperationError::InvalidRange)) => false,
            Err(error) => panic!("{self:?}: {error}"),
        }
    }
}

/// Data, holes and space that nothing was written to, by turns; in the end a part of a block.
fn fill(file_system: &FileSystem, block: u64) {
    let mut tx = Transaction::begin(file_system).unwrap();
    let mut inode = tx.load_inode(file(file_system, 0)).unwrap();
    tx.commit().unwrap();
    drop(tx);
    let mut edit = file_system.edit_file(&mut inode).unwrap();
    for number in (0..BLOCKS).filter(|number| number % 7 < 4) {
        edit.write(number * block, &vec![number as u8 + 1; block as usize], Touch::NOTHING).unwrap();
    }
    edit.write(BLOCKS * block, &[99; 100], Touch::NOTHING).unwrap();
    edit.free_preallocation().unwrap();
    for number in (0..BLOCKS).filter(|number| number % 14 == 5) {
        let keep = uxfs_filesystem::file::space::SizeChange::Keep;
        edit.allocate_range(number * block, 2 * block, keep, Touch::NOTHING).unwrap();
    }
}

fn contents(file_system: &FileSystem) -> Vec<u8> {
    let handle = file_system.open(file(file_system, 0)).unwrap();
    let inode = handle.read();
    let mut bytes = vec![0; inode.size_bytes() as usize];
    file_system.read_file(&inode, 0, &mut bytes).unwrap();
    bytes
}

#[test]
fn ranges_of_one_file_change_places_as_in_linux() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::XfsIo, Judge::Kernel);
    let kinds: [(&str, &[&str]); 3] =
        [("default", &[]), ("block-1k", &["-b", "size=1024"]), ("no-reverse-map", &["-m", "rmapbt=0"])];
    for (name, options) in kinds {
        let image = TestImage::new(&format!("one file, {name}"), 64, options, 1);
        let file_system = image.mount_logged(LogOptions::default());
        let block = file_system.geometry().block_size() as u64;
        fill(&file_system, block);
        file_system.close().unwrap();
        drop(file_system);
        let copy = image.path.with_extension("kernel");
        sparse::copy(&image.path, &copy).unwrap();
        let mount = LoopMount::new(&copy, Access::ReadWrite).unwrap();
        let path = mount.join("file-0");
        let file_system = image.mount_logged(LogOptions::default());
        let mut random = Random::new(7);
        let (mut done, mut refused) = (0, 0);
        for _ in 0..ROUNDS {
            let request = Request::new(&mut random, block);
            let is_done = request.by_uxfs(&file_system);
            assert_eq!(is_done, request.by_kernel(&path), "{name}: {request:?}");
            assert!(contents(&file_system) == fs::read(&path).unwrap(), "{name}: {request:?}");
            *(if is_done { &mut done } else { &mut refused }) += 1;
        }
        mount.unmount().unwrap();
        file_system.close().unwrap();
        drop(file_system);
        image.must_be_sound();
        assert!(done > 40 && refused > 40, "otherwise this tests less than it says: {done}, {refused}");
        judged("kernel", &format!("exchanges in one file, {name}: {done} done, {refused} refused"));
    }
}

#[test]
fn a_large_exchange_in_one_file_is_done_or_not_begun() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    let image = TestImage::new("one file, crashed", 64, &[], 1);
    let device = Arc::new(RecordingDevice::new(Image::load(&image.path).unwrap()));
    let file_system = mount_device(device.clone(), LogOptions::default());
    let block = file_system.geometry().block_size();
    let mut tx = Transaction::begin(&file_system).unwrap();
    let mut inode = tx.load_inode(file(&file_system, 0)).unwrap();
    tx.commit().unwrap();
    drop(tx);
    let mut old = Model::default();
    for number in 0..800 {
        let bytes = vec![1 + (number % 200) as u8; block];
        let offset = 2 * number * block;
        file_system.edit_file(&mut inode).unwrap().write(offset as u64, &bytes, Touch::NOTHING).unwrap();
        old.write(offset, &bytes, block);
    }
    file_system.close().unwrap();
    drop(file_system);
    device.begin_again();
    let log = LogOptions { is_immediate: true, ..LogOptions::default() };
    let file_system = mount_device(device.clone(), log);
    // Holes meet holes and data data, once an odd number of blocks apart and once in the first and last blocks.
    let (start, other, length) = (100 * block, 901 * block, 650 * block);
    let range = ExchangeRange {
        first_bytes: start as u64,
        second_bytes: other as u64,
        length_bytes: length as u64,
        ..ExchangeRange::default()
    };
    file_system.exchange_range(&mut inode, None, &range, Touch::NOTHING).unwrap();
    let mut new = old.clone();
    new.put(start, &old, other, length, block);
    new.put(other, &old, start, length, block);
    assert!(new.bytes != old.bytes);
    drop(file_system);
    let (mut done, mut undone) = (0, 0);
    let mut plan = Plan::new(1);
    (plan.subsets, plan.torn) = (1, 1);
    let _ = visit(&device.history(), &plan, &mut |state| {
        let what = format!("state {} ({:?})", state.number, state.kind);
        let found = recovered(state.image.clone(), 1, state.number % 8 == 0, &what);
        if state.number % 11 == 5 && matches!(state.kind, Kind::Prefix | Kind::Lost(_)) {
            linux_must_recover(&state.image, &found, &what);
        }
        assert!(found[0] == old.bytes || found[0] == new.bytes, "{what}");
        *(if found[0] == new.bytes { &mut done } else { &mut undone }) += 1;
        ControlFlow::Continue(())
    });
    assert!(done > 20 && undone > 0, "otherwise this tests less than it says: {done}, {undone}");
    judged("recovery", &format!("an exchange in one file: {done} states done, {undone} not begun"));
}
