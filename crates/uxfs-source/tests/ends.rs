//! The ends of archives: checksums of packed ones, padding, and what follows.

use std::{
    fs,
    io::{Cursor, Write},
    path::Path,
    process::Command,
};

use uxfs_source::{
    error::{ArchiveFault, Problem, Reason, SourceError},
    stream::{StreamItem, StreamSource},
    tar::{TarOptions, TarSource},
    tree::Reading,
};
use uxfs_testkit::{judges::Judge, require};

use crate::common::folder;

/// An archive of one file of noise, with so many blocks of zeros behind it.
fn archive(folder: &Path, name: &str, zero_blocks: usize) -> Vec<u8> {
    let mut noise = vec![0; 300_000];
    let mut state = 88_172_645_463_325_252_u64;
    for byte in &mut noise {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        *byte = state as u8;
    }
    fs::write(folder.join(name), noise).unwrap();
    let output =
        Judge::GnuTar.command().args(["-b1", "-cf", "-", "-C"]).arg(folder).arg(name).output().unwrap();
    let mut bytes = output.stdout;
    bytes.resize(bytes.len() + zero_blocks * 512, 0);
    bytes
}

/// Not read for ever, as a pipe or packed; what has an end is an archive without members.
#[test]
fn streams_of_zeros_alone_are_refused() {
    for ignores_zeros in [false, true] {
        let options = TarOptions { ignores_zeros, ..TarOptions::default() };
        let mut source = TarSource::from_stream("zeros", std::io::repeat(0), options.clone()).unwrap();
        let refused = source.next_item();
        assert!(
            matches!(refused, Err(SourceError::Archive { fault: ArchiveFault::Zeros(_), .. })),
            "{refused:?}"
        );
        let few = std::io::Read::take(std::io::repeat(0), 20 << 20);
        assert!(TarSource::from_stream("zeros", few, options).unwrap().next_item().unwrap().is_none());
    }
}

/// The names in an archive, and the problems of reading it, the same from a file and from a pipe.
fn read(
    folder: &Path,
    bytes: &[u8],
    options: &TarOptions,
) -> Result<(Vec<String>, Vec<Problem>), SourceError> {
    let path = folder.join("read");
    fs::write(&path, bytes).unwrap();
    let mut results = Vec::new();
    for piped in [false, true] {
        let mut source = match piped {
            true => TarSource::from_stream("read", Cursor::new(bytes.to_vec()), options.clone())?,
            false => TarSource::open(&path, options.clone(), Reading::Everything)?,
        };
        let mut names = Vec::new();
        results.push(loop {
            match source.next_item() {
                Ok(Some(StreamItem::Entry(entry))) => names.push(entry.path.escape_ascii().to_string()),
                Ok(Some(item)) => panic!("{item:?}"),
                Ok(None) => break Ok((names, source.take_problems())),
                Err(error) => break Err(error),
            }
        });
    }
    let reasons = |result: &Result<(Vec<String>, Vec<Problem>), SourceError>| match result {
        Ok((names, problems)) => {
            (names.clone(), problems.iter().map(|found| found.reason.to_string()).collect())
        }
        Err(_) => (Vec::new(), vec!["an error".to_owned()]),
    };
    assert_eq!(reasons(&results[0]), reasons(&results[1]));
    results.remove(0)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 0);
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn packed_archives_are_verified_to_their_ends() {
    require!(Judge::GnuTar, Judge::Pzstd, Judge::Xz);
    let folder = folder();
    let short = archive(folder.path(), "file", 0);
    let long = archive(folder.path(), "file", 8192);
    let is_refused = |program: &str, bytes: &[u8]| {
        let path = folder.path().join("packed");
        fs::write(&path, bytes).unwrap();
        !Command::new(program).arg("-tq").stdin(fs::File::open(&path).unwrap()).status().unwrap().success()
    };
    let skippable = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, b'a', b'b', b'c'];
    for plain in [&short, &long] {
        let (first, second) = plain.split_at(plain.len() / 3);
        let forms = [
            ("gzip", gzip(plain)),
            ("gzip", [gzip(first), gzip(second)].concat()),
            ("gzip", [gzip(plain), gzip(&[0; 1000]), gzip(b"")].concat()),
            ("zstd", zstd(plain)),
            ("zstd", [skippable.to_vec(), zstd(first), zstd(second), skippable.to_vec()].concat()),
            ("xz", xz(plain)),
            ("xz", [xz(first), vec![0; 8], xz(second)].concat()),
        ];
        for (index, (program, packed)) in forms.iter().enumerate() {
            let (names, problems) = read(folder.path(), packed, &TarOptions::default()).unwrap();
            assert_eq!((names.as_slice(), problems.len()), (["file".to_owned()].as_slice(), 0), "{index}");
            assert!(!is_refused(program, packed));
            // Among the data, in the last checksum, and cut off.
            let (mut data, mut sum) = (packed.clone(), packed.clone());
            data[150_000] ^= 0x10;
            let place = sum.len()
                - if *program == "zstd" { 1 + skippable.len() * usize::from(index % 2 == 0) } else { 6 };
            sum[place] ^= 0x10;
            for damaged in [data, sum, packed[..packed.len() - 5].to_vec()] {
                assert!(is_refused(program, &damaged), "{program} takes {index}");
                let fault = read(folder.path(), &damaged, &TarOptions::default()).unwrap_err();
                let is_packing = |fault: &SourceError| {
                    matches!(fault, SourceError::Archive { fault: ArchiveFault::Compression(_), .. })
                };
                assert!(is_packing(&fault), "{program}, {index}: {fault}");
            }
        }
    }
}

#[test]
fn what_follows_an_archive_is_told_or_read() {
    require!(Judge::GnuTar);
    let folder = folder();
    let (one, other) = (archive(folder.path(), "one", 1000), archive(folder.path(), "other", 18));
    let garbage = vec![7; 2000];
    let joined = [one.as_slice(), &other].concat();
    let read_on = TarOptions { ignores_zeros: true, ..TarOptions::default() };
    let behind = |start: usize, length: usize| Reason::BehindArchive {
        start_bytes: start as u64,
        length_bytes: length as u64,
    };
    let packed = |start: usize| Reason::BehindPacked { start_bytes: start as u64, length_bytes: 2000 };
    let gzipped = gzip(&one);
    let (one_bytes, other_bytes) = (one.len(), other.len());
    for (bytes, expected) in [
        (one.clone(), None),
        (joined.clone(), Some(behind(one_bytes, other_bytes))),
        ([one.as_slice(), &garbage].concat(), Some(behind(one_bytes, 2000))),
        ([gzip(&one), gzip(&other)].concat(), Some(behind(one_bytes, other_bytes))),
        ([zstd(&one), zstd(&other)].concat(), Some(behind(one_bytes, other_bytes))),
        (xz(&joined), Some(behind(one_bytes, other_bytes))),
        // Padding, of whole blocks or not, in an archive and behind a packed one.
        ([one.as_slice(), &[0; 1_000_000]].concat(), None),
        ([one.as_slice(), &[0; 700]].concat(), None),
        ([gzipped.as_slice(), &[0; 3000]].concat(), None),
        (
            [zstd(&one).as_slice(), &[0; 3001], &zstd(&other), &[0; 7]].concat(),
            Some(behind(one_bytes, other_bytes)),
        ),
        ([xz(&one).as_slice(), &[0; 3000]].concat(), None),
        ([gzipped.as_slice(), &[0; 99], &gzip(&other)].concat(), Some(behind(one_bytes, other_bytes))),
        ([gzipped.as_slice(), &garbage].concat(), Some(packed(gzipped.len()))),
        ([gzipped.as_slice(), &[0; 5], &garbage].concat(), Some(packed(gzipped.len() + 5))),
    ] {
        let (names, problems) = read(folder.path(), &bytes, &TarOptions::default()).unwrap();
        assert_eq!(names, ["one"]);
        let reasons: Vec<_> = problems.into_iter().map(|problem| problem.reason).collect();
        assert_eq!(reasons, expected.into_iter().collect::<Vec<_>>());
    }
    // Garbage that begins as a member does.
    for length in 1..4 {
        let bytes = [gzipped.as_slice(), &[0x1f, 7, 7][..length]].concat();
        let (_, problems) = read(folder.path(), &bytes, &read_on).unwrap();
        let reason = Reason::BehindPacked { start_bytes: gzipped.len() as u64, length_bytes: length as u64 };
        assert_eq!(problems.into_iter().map(|problem| problem.reason).collect::<Vec<_>>(), [reason]);
    }
    // As tar --ignore-zeros lists them.
    for bytes in
        [joined.clone(), [gzip(&one), gzip(&other)].concat(), [joined.as_slice(), &[0; 100]].concat()]
    {
        let (names, problems) = read(folder.path(), &bytes, &read_on).unwrap();
        let mut list = Judge::GnuTar.command();
        let listed = list.args(["-i", "-tf"]).arg(folder.path().join("read")).output().unwrap().stdout;
        if bytes.len().is_multiple_of(512) && !bytes.starts_with(&[0x1f]) {
            assert_eq!(String::from_utf8(listed).unwrap(), names.join("\n") + "\n");
        }
        assert_eq!((names, problems.len()), (vec!["one".to_owned(), "other".to_owned()], 0));
    }
    // zstd(1) and xz(1) take this for damage.
    for packed in [zstd(&one), xz(&one)] {
        let fault = read(folder.path(), &[packed.as_slice(), &garbage].concat(), &read_on).unwrap_err();
        assert!(matches!(fault, SourceError::Archive { fault: ArchiveFault::Compression(_), .. }), "{fault}");
    }
    let fault = read(folder.path(), &[one.as_slice(), &garbage].concat(), &read_on).unwrap_err();
    assert!(matches!(fault, SourceError::Archive { fault: ArchiveFault::Checksum { .. }, .. }), "{fault}");
}
