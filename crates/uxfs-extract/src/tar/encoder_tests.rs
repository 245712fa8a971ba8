//! GNU tar and bsdtar read what the encoder writes. What they restore as root from whole images is checked with the walk.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use super::*;
use crate::{entry::Timestamp, layout::FileRange, report::Collector, sink::Sink, tar::stream::TarSink};

fn metadata() -> Metadata {
    Metadata {
        permissions: 0o640,
        user: 3_000_000_000,
        group: 7,
        modified: Timestamp { seconds: 1_700_000_000, nanoseconds: 123_456_789 },
        ..Metadata::default()
    }
}

struct Archive {
    sink: TarSink<Vec<u8>>,
    encoder: TarEncoder,
    collector: Collector,
}

impl Archive {
    fn new() -> Self {
        let sink = TarSink::new(Vec::new());
        let encoder = sink.encoder();
        Self { sink, encoder, collector: Collector::default() }
    }

    fn add(&mut self, path: &[u8], attributes: &[Attribute], body: Body<'_>, data: &[u8]) {
        let metadata = metadata();
        let mut chunk = Chunk::new();
        self.encoder.entry(&Entry { path, metadata: &metadata, attributes, body }, &mut chunk);
        if let Body::File(_) = body {
            let span = chunk.bytes.append(data);
            self.encoder.data(0, span, &mut chunk);
            self.encoder.end_file(data.len() as u64, &mut chunk);
        }
        self.sink.write(&chunk, &mut self.collector).unwrap();
        self.collector.problems.append(&mut chunk.problems);
    }

    fn finish(mut self) -> Vec<u8> {
        self.sink.finish(&mut self.collector).unwrap();
        self.sink.into_inner()
    }
}

/// Runs a tar over `archive`, which must like it; gives what it printed. Tells where there is none.
fn judge(program: &str, arguments: &[&str], archive: &[u8]) -> Option<Vec<u8>> {
    let started = Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C.UTF-8")
        .env("TZ", "UTC")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = started else {
        assert!(std::env::var_os("UXFS_JUDGES").is_none_or(|judges| judges != "required"), "no {program}");
        eprintln!("{program} is not here: its part of the test did not run");
        return None;
    };
    child.stdin.take().unwrap().write_all(archive).unwrap();
    let output = child.wait_with_output().unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && complaints.is_empty(), "{program}: {complaints}");
    Some(output.stdout)
}

#[test]
fn both_tars_list_every_kind() {
    let mut archive = Archive::new();
    let long = [b"d/".as_slice(), &[b'n'; 200], b"/", &[b'm'; 200]].concat();
    archive.add(b"", &[], Body::Directory, b"");
    archive.add(b"d", &[], Body::Directory, b"");
    archive.add(b"d/f", &[], Body::File(&full(5)), b"hello");
    archive.add(&long, &[], Body::Symlink(&[b't'; 500]), b"");
    archive.add(b"d/h", &[], Body::HardLink { target: b"d/f", is_device: false }, b"");
    let device = Device { major: 259, minor: 70_000 };
    archive.add(b"d/b", &[], Body::Special(Special::BlockDevice(device)), b"");
    archive.add(b"d/p", &[], Body::Special(Special::Fifo), b"");
    archive.add(b"d/s", &[], Body::Special(Special::Socket), b"");
    assert_eq!(archive.collector.problems.len(), 1, "the socket");
    let bytes = archive.finish();
    assert_eq!(bytes.len() % 10_240, 0);
    for program in ["tar", "bsdtar"] {
        let Some(list) = judge(program, &["-tvf", "-", "--numeric-owner"], &bytes) else { continue };
        let list = String::from_utf8(list).unwrap();
        let lines: Vec<&str> = list.lines().collect();
        assert_eq!(lines.len(), 7, "{list}");
        assert!(lines[0].starts_with("drw-r-----") && lines[0].ends_with(" ./"), "{list}");
        assert!(lines[2].contains("3000000000") && lines[2].ends_with(" d/f"), "{list}");
        assert!(lines[3].contains(&"m".repeat(200)) && lines[3].ends_with(&"t".repeat(500)), "{list}");
        assert!(lines[4].starts_with('h') && lines[4].ends_with(" d/h link to d/f"), "{list}");
        assert!(lines[5].starts_with('b') && lines[5].contains("259,70000"), "{list}");
        assert!(lines[6].starts_with('p'), "{list}");
    }
}

fn full(length: u64) -> FileLayout {
    let mut layout = FileLayout::new(length);
    layout.push(FileRange { offset_bytes: 0, length_bytes: length }, 0);
    layout
}

#[test]
fn both_tars_fill_the_holes() {
    let size = 100_000;
    let mut layout = FileLayout::new(size);
    layout.push(FileRange { offset_bytes: 8192, length_bytes: 4096 }, 0);
    layout.push(FileRange { offset_bytes: 65_536, length_bytes: 4096 }, 0);
    let mut archive = Archive::new();
    archive.add(b"sparse", &[], Body::File(&layout), &[b'd'; 8192]);
    archive.add(b"empty", &[], Body::File(&FileLayout::new(1 << 40)), &[]);
    archive.add(b"after", &[], Body::File(&full(3)), b"end");
    let bytes = archive.finish();
    let mut expected = vec![0; size as usize];
    expected[8192..12_288].fill(b'd');
    expected[65_536..69_632].fill(b'd');
    for program in ["tar", "bsdtar"] {
        if let Some(contents) = judge(program, &["-xOf", "-", "sparse", "after"], &bytes) {
            assert!(contents == [expected.as_slice(), b"end"].concat(), "{program}");
        }
    }
}

#[test]
fn numbers_and_attributes_are_records() {
    let attributes = [
        Attribute { name: b"user.a=b%c".to_vec(), value: b"1\n\x002".to_vec() },
        Attribute { name: b"security.selinux".to_vec(), value: b"u:r:t:s0\0".to_vec() },
    ];
    let mut archive = Archive::new();
    archive.add(&[0xff; 120], &attributes, Body::Special(Special::Fifo), b"");
    let bytes = archive.finish();
    for record in [
        " hdrcharset=BINARY\n".as_bytes(),
        b" uid=3000000000\n",
        b" mtime=1700000000.123456789\n",
        b" atime=0\n",
        b" SCHILY.xattr.user.a%3Db%25c=1\n\x002\n",
        b" SCHILY.xattr.security.selinux=u:r:t:s0\0\n",
        b" RHT.security.selinux=u:r:t:s0\n",
    ] {
        assert!(
            bytes.windows(record.len()).any(|window| window == record),
            "{:?}",
            String::from_utf8_lossy(record)
        );
    }
}
