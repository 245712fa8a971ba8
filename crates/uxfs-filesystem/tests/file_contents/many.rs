//! Files of very many extents: operations that go in steps.

use uxfs_engine::{inode::edit::EditInode, options::LogOptions, transaction::Transaction};
use uxfs_filesystem::{
    file::{FileEdit, Touch, exchange::ExchangeRange, share::CloneRange, space::SizeChange},
    filesystem::FileSystem,
};
use uxfs_format::inode::Fork;
use uxfs_testkit::{
    image::{TestImage, file},
    judges::{Judge, judged},
    require,
};

use super::{first_difference, linux_recovers, model::Model};

const EXTENTS: usize = 3000;

fn load(file_system: &FileSystem, index: usize) -> EditInode {
    Transaction::begin(file_system).unwrap().load_inode(file(file_system, index)).unwrap()
}

struct Files<'fs> {
    file_system: &'fs FileSystem,
    inodes: [EditInode; 2],
    models: [Model; 2],
    block: usize,
}

impl Files<'_> {
    fn edit(&mut self, index: usize) -> FileEdit<'_> {
        self.file_system.edit_file(&mut self.inodes[index]).unwrap()
    }

    fn check(&self, what: &str) {
        for (inode, model) in self.inodes.iter().zip(&self.models) {
            assert_eq!(inode.size_bytes(), model.size() as u64, "{what}");
            let mut bytes = vec![0; model.size()];
            self.file_system.read_file(inode, 0, &mut bytes).unwrap();
            assert_eq!(first_difference(&bytes, &model.bytes), None, "{what}");
            let mut loaded = Transaction::begin(self.file_system).unwrap();
            assert_eq!(loaded.load_inode(inode.number).unwrap().data, inode.data, "{what}");
        }
    }

    fn extents(&self, index: usize) -> usize {
        self.inodes[index].extents(Fork::Data).len()
    }
}

#[test]
fn three_thousand_extents_in_steps() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    let kinds: [(&str, &[&str]); 3] =
        [("default", &[]), ("block-1k", &["-b", "size=1024"]), ("no-reverse-map", &["-m", "rmapbt=0"])];
    for (name, options) in kinds {
        let image = TestImage::new(&format!("steps, {name}"), 400, options, 2);
        let file_system = image.mount_logged(LogOptions::default());
        let block = file_system.geometry().block_size();
        let inodes = [load(&file_system, 0), load(&file_system, 1)];
        let models = [Model::default(), Model::default()];
        let mut files = Files { file_system: &file_system, inodes, models, block };
        run(&mut files);
        let counters = file_system.journal_counters();
        assert_eq!(counters.overruns, 0, "{name}: steps took more of the log than they asked for");
        let models = files.models;
        file_system.force().unwrap();
        drop(file_system);
        linux_recovers(&image, &models);
        image.must_be_sound();
        judged("model", &format!("{name}: operations on {EXTENTS} extents"));
    }
}

fn run(files: &mut Files<'_>) {
    let (block, touch) = (files.block, Touch::NOTHING);
    for index in 0..EXTENTS {
        let bytes = vec![(index % 255) as u8 + 1; block];
        let offset = 2 * index * block;
        files.edit(0).write(offset as u64, &bytes, touch).unwrap();
        files.models[0].write(offset, &bytes, block);
    }
    files.edit(1).write(3, b"short", touch).unwrap();
    files.models[1].write(3, b"short", block);
    assert_eq!(files.extents(0), EXTENTS);

    let whole = CloneRange { source_bytes: 0, target_bytes: 0, length_bytes: 0 };
    let [source, target] = &mut files.inodes;
    files.file_system.edit_file(target).unwrap().clone_from(Some(source), &whole, touch).unwrap();
    files.models[1] = files.models[0].clone();
    files.check("clone");

    files.edit(0).collapse(10 * block as u64, 5 * block as u64, touch).unwrap();
    files.models[0].collapse(10 * block, 5 * block, block);
    files.check("collapse");
    files.edit(0).insert(700 * block as u64, 9 * block as u64, touch).unwrap();
    files.models[0].insert(700 * block, 9 * block, block);
    files.check("insert");

    let to_end = ExchangeRange { to_end: true, ..ExchangeRange::default() };
    let [first, second] = &mut files.inodes;
    files.file_system.exchange_range(first, Some(second), &to_end, touch).unwrap();
    files.models.swap(0, 1);
    files.check("exchange");
    let part = 1000 * block;
    let range = ExchangeRange { length_bytes: part as u64, ..ExchangeRange::default() };
    let [first, second] = &mut files.inodes;
    files.file_system.exchange_range(first, Some(second), &range, touch).unwrap();
    let olds = files.models.clone();
    files.models[0].put(0, &olds[1], 0, part, block);
    files.models[1].put(0, &olds[0], 0, part, block);
    files.check("exchange of a part");
    let apart = ExchangeRange {
        second_bytes: 2 * part as u64,
        length_bytes: part as u64,
        ..ExchangeRange::default()
    };
    files.file_system.exchange_range(&mut files.inodes[0], None, &apart, touch).unwrap();
    let old = files.models[0].clone();
    files.models[0].put(0, &old, 2 * part, part, block);
    files.models[0].put(2 * part, &old, 0, part, block);
    files.check("exchange in one file");

    files.edit(1).unshare(0, 2 * part as u64, SizeChange::Keep, touch).unwrap();
    files.check("unshare");
    let length = 3000 * block;
    files.edit(1).zero_range(77, length as u64, SizeChange::Keep, touch).unwrap();
    files.models[1].clear(77, length, block);
    files.check("zero");
    files.edit(0).punch(5, length as u64, touch).unwrap();
    files.models[0].clear(5, length, block);
    files.check("punch");
    let size = files.models[1].size() / 5;
    files.edit(1).set_size(size as u64, touch).unwrap();
    files.models[1].resize(size, block);
    files.check("truncate");
    files.edit(1).set_size(0, touch).unwrap();
    files.models[1].resize(0, block);
    assert_eq!(files.inodes[1].blocks(), 0);
}
