//! Nothing leaves the directory, nothing that was there is touched, and what is made is made whole.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use rustix::fs::{XattrFlags, getxattr, setxattr};
use tempfile::TempDir;

use super::*;
use crate::{
    entry::{Body, Entry, Timestamp},
    layout::{FileLayout, FileRange},
    report::Collector,
    sink::Encoder,
};

struct Extraction {
    base: TempDir,
    sink: DirectorySink,
    chunk: Chunk<Record>,
    collector: Collector,
    metadata: Metadata,
}

impl Extraction {
    /// Into `to` beside a directory `outside`; `prepare` fills both before.
    fn new(overwrite: bool, prepare: impl FnOnce(&Path)) -> Self {
        let base = TempDir::new().unwrap();
        fs::create_dir(base.path().join("to")).unwrap();
        fs::create_dir(base.path().join("outside")).unwrap();
        fs::write(base.path().join("outside/victim"), "precious").unwrap();
        prepare(base.path());
        let sink = DirectorySink::create(&base.path().join("to"), DirectoryOptions { overwrite }).unwrap();
        let metadata = Metadata {
            permissions: 0o640,
            user: rustix::process::geteuid().as_raw(),
            group: rustix::process::getegid().as_raw(),
            accessed: Timestamp { seconds: 5, nanoseconds: 6 },
            modified: Timestamp { seconds: 1_700_000_000, nanoseconds: 123_456_789 },
            link_count: 1,
            ..Metadata::default()
        };
        Self { base, sink, chunk: Chunk::new(), collector: Collector::default(), metadata }
    }

    fn add(&mut self, path: &str, body: Body<'_>) {
        let entry = Entry { path: path.as_bytes(), metadata: &self.metadata, attributes: &[], body };
        DirectoryEncoder.entry(&entry, &mut self.chunk);
    }

    fn file(&mut self, path: &str, data: &[u8]) {
        let mut layout = FileLayout::new(data.len() as u64);
        layout.push(FileRange { offset_bytes: 0, length_bytes: data.len() as u64 }, 0);
        self.add(path, Body::File(&layout));
        let span = self.chunk.bytes.append(data);
        DirectoryEncoder.data(0, span, &mut self.chunk);
        DirectoryEncoder.end_file(data.len() as u64, &mut self.chunk);
    }

    fn end(&mut self) {
        DirectoryEncoder.end_directory(&mut self.chunk);
    }

    /// Carries all out and checks that nothing outside has changed.
    fn run(&mut self) -> Result<(), SinkError> {
        let result = self.sink.write(&self.chunk, &mut self.collector);
        self.chunk.clear();
        let outside = self.base.path().join("outside");
        let names: Vec<_> = fs::read_dir(&outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["victim"]);
        assert_eq!(fs::read(outside.join("victim")).unwrap(), b"precious");
        assert_eq!(fs::read_dir(self.base.path()).unwrap().count(), 2);
        result
    }

    fn to(&self, path: &str) -> std::path::PathBuf {
        self.base.path().join("to").join(path)
    }

    fn problems(&self) -> Vec<(String, Aspect, Severity)> {
        let text = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
        self.collector.problems.iter().map(|p| (text(&p.path), p.aspect, p.severity)).collect()
    }
}

#[test]
fn a_link_of_the_image_leads_nowhere() {
    let mut extraction = Extraction::new(false, |_| {});
    extraction.add("", Body::Directory);
    extraction.add("d", Body::Symlink(b"../outside"));
    extraction.add("d", Body::Directory);
    extraction.file("d/victim", b"overwritten");
    extraction.file("d/new", b"planted");
    extraction.add("d/deeper", Body::Directory);
    extraction.end();
    extraction.end();
    extraction.add("f", Body::Symlink(b"../outside/victim"));
    extraction.file("f", b"overwritten");
    extraction.file("after", b"still extracted");
    extraction.end();
    extraction.run().unwrap();
    assert_eq!(fs::read_link(extraction.to("d")).unwrap(), Path::new("../outside"));
    assert_eq!(fs::read(extraction.to("after")).unwrap(), b"still extracted");
    assert_eq!(
        extraction.problems(),
        [
            ("d".to_owned(), Aspect::Directory, Severity::Failed),
            ("f".to_owned(), Aspect::Existence, Severity::Failed)
        ]
    );
}

#[test]
fn overwriting_follows_no_link_either() {
    let mut extraction = Extraction::new(true, |base| {
        symlink("../outside", base.join("to/d")).unwrap();
        symlink("../outside/victim", base.join("to/f")).unwrap();
        fs::hard_link(base.join("outside/victim"), base.join("to/h")).unwrap();
    });
    extraction.add("d", Body::Directory);
    extraction.file("d/new", b"inside");
    extraction.end();
    extraction.file("f", b"mine");
    extraction.file("h", b"mine too");
    extraction.run().unwrap();
    assert_eq!(fs::read(extraction.to("d/new")).unwrap(), b"inside");
    assert_eq!(fs::read(extraction.to("f")).unwrap(), b"mine");
    assert_eq!(fs::read(extraction.to("h")).unwrap(), b"mine too");
    assert_eq!(extraction.problems(), []);
}

#[test]
fn names_that_lead_out_are_refused() {
    let mut extraction = Extraction::new(true, |_| {});
    for path in ["..", ".", "d/..", "x\0y"] {
        extraction.file(path, b"planted");
        extraction.add(path, Body::Directory);
        extraction.file("outside/victim", b"planted");
        extraction.end();
        extraction.add(path, Body::Symlink(b"t"));
        extraction.add(path, Body::Special(Special::Fifo));
        extraction.add(path, Body::HardLink { target: b"../outside/victim", is_device: false });
        extraction.add("l", Body::HardLink { target: b"../outside/victim", is_device: false });
        extraction.add("l", Body::HardLink { target: b"..", is_device: false });
        extraction.add("l", Body::HardLink { target: b"/etc/passwd", is_device: false });
    }
    extraction.run().unwrap();
    assert_eq!(fs::read_dir(extraction.to("")).unwrap().count(), 0);
    assert_eq!(extraction.collector.problems.len(), 8 * 4);
    assert!(extraction.collector.problems.iter().all(|problem| problem.severity == Severity::Failed));
}

#[test]
fn what_was_there_stays_and_is_not_linked_to() {
    let mut extraction = Extraction::new(false, |base| fs::write(base.join("to/f"), "mine").unwrap());
    extraction.metadata.link_count = 2;
    extraction.metadata.inode = 77;
    extraction.file("f", b"from the image");
    extraction.add("g", Body::HardLink { target: b"f", is_device: false });
    extraction.run().unwrap();
    assert_eq!(fs::read(extraction.to("f")).unwrap(), b"mine");
    assert!(!extraction.to("g").exists());
    assert_eq!(extraction.collector.problems.len(), 2);
}

#[test]
fn everything_is_restored() {
    let mut extraction = Extraction::new(false, |_| {});
    let metadata = extraction.metadata;
    extraction.metadata.permissions = 0o1750;
    extraction.add("", Body::Directory);
    extraction.metadata = metadata;
    let mut layout = FileLayout::new(1 << 20);
    layout.push(FileRange { offset_bytes: 512 << 10, length_bytes: 4096 }, 0);
    extraction.add("sparse", Body::File(&layout));
    let span = extraction.chunk.bytes.append(&[b'd'; 4096]);
    DirectoryEncoder.data(512 << 10, span, &mut extraction.chunk);
    DirectoryEncoder.end_file(4096, &mut extraction.chunk);
    extraction.add("link", Body::HardLink { target: b"sparse", is_device: false });
    extraction.add("fifo", Body::Special(Special::Fifo));
    extraction.add("socket", Body::Special(Special::Socket));
    extraction.add("symlink", Body::Symlink(&[b'x'; 1000]));
    extraction.end();
    extraction.run().unwrap();
    assert_eq!(extraction.problems(), []);
    for name in ["", "sparse", "link", "fifo", "socket", "symlink"] {
        let found = fs::symlink_metadata(extraction.to(name)).unwrap();
        assert_eq!((found.mtime(), found.mtime_nsec()), (1_700_000_000, 123_456_789), "{name}");
        let mode = match name {
            "" => 0o1750,
            "symlink" => 0o777,
            _ => 0o640,
        };
        assert_eq!(found.permissions().mode() & 0o7777, mode, "{name}");
    }
    let sparse = fs::metadata(extraction.to("link")).unwrap();
    assert_eq!((sparse.size(), sparse.blocks(), sparse.nlink()), (1 << 20, 8, 2));
    let contents = fs::read(extraction.to("sparse")).unwrap();
    assert_eq!(contents.iter().position(|byte| *byte == b'd'), Some(512 << 10));
    assert_eq!(extraction.collector.counts.entries(), 6);
}

#[test]
fn deep_trees_need_few_descriptors() {
    let mut extraction = Extraction::new(false, |_| {});
    let mut path = String::new();
    for depth in 0..3000 {
        path = if depth == 0 { "d".to_owned() } else { path + "/d" };
        extraction.add(&path, Body::Directory);
    }
    extraction.file(&(path.clone() + "/f"), b"deep");
    for _ in 0..3000 {
        extraction.end();
    }
    extraction.file("f", b"shallow");
    extraction.add("g", Body::HardLink { target: format!("{path}/f").as_bytes(), is_device: false });
    extraction.run().unwrap();
    assert_eq!(extraction.problems(), []);
    assert_eq!(fs::read(extraction.to("g")).unwrap(), b"deep");
    // The temporary directory's own clean-up cannot go so deep.
    assert!(std::process::Command::new("rm").arg("-rf").arg(extraction.to("d")).status().unwrap().success());
}

#[test]
fn lists_of_the_directory_above_are_not_inherited() {
    // user::rwx, user:7:rwx, group::rwx, mask::rwx, other::rwx
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, id) in [(1_u16, u32::MAX), (2, 7), (4, u32::MAX), (16, u32::MAX), (32, u32::MAX)] {
        list.extend(tag.to_le_bytes());
        list.extend(7_u16.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    let mut supported = true;
    let mut extraction = Extraction::new(false, |base| {
        let to = base.join("to");
        supported = setxattr(&to, "system.posix_acl_default", &list, XattrFlags::empty()).is_ok();
    });
    if !supported {
        return eprintln!("no ACLs in the temporary directory: the test did not run");
    }
    extraction.add("d", Body::Directory);
    extraction.file("d/f", b"");
    extraction.end();
    extraction.run().unwrap();
    for name in ["d", "d/f"] {
        for list in ["system.posix_acl_access", "system.posix_acl_default"] {
            let mut value = [0; 256];
            assert!(getxattr(extraction.to(name), list, &mut value).is_err(), "{name} {list}");
        }
        assert_eq!(fs::metadata(extraction.to(name)).unwrap().permissions().mode() & 0o7777, 0o640);
    }
}
