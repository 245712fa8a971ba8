//! Archives, manifests and prototype files that may hold anything: errors, and nothing else.

use std::{collections::BTreeMap, fs, io::Cursor};

use proptest::prelude::*;
use uxfs_source::{
    content::Content,
    entry::{Kind, Metadata, Timestamp},
    error::{ArchiveFault, SourceError},
    host_names::HostNames,
    labels::Labels,
    layers::Layers,
    manifest::{ManifestSource, Overlay},
    owner_map::OwnerMap,
    protofile::{ProtofileOptions, ProtofileSource},
    stream::{MAX_PATH_BYTES, StreamItem, StreamSource},
    tar::{TarOptions, TarSource},
    tree::{LaterContent, Reading, TreeSource},
};

const BLOCK: usize = 512;

/// Puts the sum into a header.
fn seal(block: &mut [u8]) {
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

/// A member with its data.
fn member(name: &str, flag: u8, size: u64, magic: &[u8; 8], data: &[u8]) -> Vec<u8> {
    let mut block = vec![0; BLOCK];
    block[..name.len()].copy_from_slice(name.as_bytes());
    block[100..108].copy_from_slice(b"0000644\0");
    block[108..116].copy_from_slice(b"0001750\0");
    block[116..124].copy_from_slice(b"0001750\0");
    block[124..136].copy_from_slice(format!("{size:011o}\0").as_bytes());
    block[136..148].copy_from_slice(b"14567012345\0");
    block[156] = flag;
    if matches!(flag, b'1' | b'2') {
        block[157..163].copy_from_slice(b"target");
    }
    block[257..265].copy_from_slice(magic);
    seal(&mut block);
    block.extend_from_slice(data);
    block.resize(block.len().next_multiple_of(BLOCK), 0);
    block
}

const POSIX: &[u8; 8] = b"ustar\x0000";
const GNU: &[u8; 8] = b"ustar  \0";

fn record(key: &str, value: &str) -> String {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    format!("{length} {key}={value}\n")
}

fn pax(flag: u8, records: &[(&str, &str)]) -> Vec<u8> {
    let text: String = records.iter().map(|(key, value)| record(key, value)).collect();
    member("pax", flag, text.len() as u64, POSIX, text.as_bytes())
}

/// One of everything that has a parser.
fn archive() -> Vec<u8> {
    let mut gnu_sparse = member("sparse", b'S', 1024, GNU, &[]);
    for (index, (offset, length)) in
        [(0_u64, 512_u64), (8192, 256), (16_384, 128), (32_768, 64)].iter().enumerate()
    {
        let at = 386 + 24 * index;
        gnu_sparse[at..at + 24].copy_from_slice(format!("{offset:011o}\0{length:011o}\0").as_bytes());
    }
    gnu_sparse[482] = 1;
    gnu_sparse[483..495].copy_from_slice(format!("{:011o}\0", 100_000).as_bytes());
    seal(&mut gnu_sparse[..BLOCK]);
    let mut extension = vec![0; BLOCK];
    extension[..24].copy_from_slice(format!("{:011o}\0{:011o}\0", 65_536, 64).as_bytes());
    let everything = pax(
        b'x',
        &[
            ("path", "dir/file"),
            ("mtime", "-1.5"),
            ("atime", "5.25"),
            ("uid", "4000000000"),
            ("SCHILY.xattr.user.a", "value"),
            ("LIBARCHIVE.xattr.user.b", "dmFsdWU"),
            ("RHT.security.selinux", "u:r:t:s0"),
            ("SCHILY.acl.access", "user::rwx,user:5:r-x,group::r--,mask::rwx,other::---"),
            ("SCHILY.acl.default", "user::rwx,group::r--,other::---"),
        ],
    );
    let sparse_1 = [("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0"), ("GNU.sparse.realsize", "9000")];
    let mut front = b"2\n0\n100\n8192\n100\n".to_vec();
    front.resize(BLOCK, 0);
    front.resize(BLOCK + 200, b'd');
    let sparse_01 =
        [("GNU.sparse.size", "9000"), ("GNU.sparse.numblocks", "1"), ("GNU.sparse.map", "4096,100")];
    let sparse_00 =
        [("GNU.sparse.size", "9000"), ("GNU.sparse.offset", "4096"), ("GNU.sparse.numbytes", "100")];
    let path = "l".repeat(300);
    [
        pax(b'g', &[("comment", "global"), ("gid", "7")]),
        member("./", b'5', 0, POSIX, &[]),
        everything,
        member("short", b'0', 700, POSIX, &[b'x'; 700]),
        member("target", b'0', 100_000, GNU, &[b'y'; 100_000]),
        member("@LongLink", b'L', 301, GNU, format!("{path}\0").as_bytes()),
        member("@LongLink", b'K', 301, GNU, format!("{path}\0").as_bytes()),
        member("link", b'2', 0, GNU, &[]),
        member("hard", b'1', 0, GNU, &[]),
        gnu_sparse,
        extension,
        vec![b's'; 1024],
        pax(b'x', &sparse_1),
        member("GNUSparseFile.0/s", b'0', front.len() as u64, POSIX, &front),
        pax(b'x', &sparse_01),
        member("s1", b'0', 100, POSIX, &[b'd'; 100]),
        pax(b'x', &sparse_00),
        member("s0", b'0', 100, POSIX, &[b'd'; 100]),
        member("null", b'3', 0, POSIX, &[]),
        member("fifo", b'6', 0, POSIX, &[]),
        member("dumpdir", b'D', 600, GNU, &[b'D'; 600]),
        pax(b'x', &[("comment", "a hard link may have data in pax")]),
        member("hard2", b'1', 700, POSIX, &[b'h'; 700]),
        member("a/.wh.gone", b'0', 600, POSIX, &[b'w'; 600]),
        member("a/.wh..wh..opq", b'0', 0, POSIX, &[]),
        vec![0; 2 * BLOCK],
    ]
    .concat()
}

/// How many items, and a sum of all their data.
type Sum = (usize, u64);

/// Reads all that a source tells, with all content.
fn read_all(source: &mut dyn StreamSource) -> Result<Sum, SourceError> {
    let mut items = 0;
    let mut sum = 0_u64;
    let mut add = |bytes: &[u8]| {
        sum = bytes.iter().fold(sum, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    };
    let mut buffer = vec![0; 5000];
    while let Some(item) = source.next_item()? {
        items += 1;
        let StreamItem::Entry(entry) = item else { continue };
        assert!(entry.path.len() <= MAX_PATH_BYTES && !entry.path.contains(&0));
        let is_clean = |part: &[u8]| !matches!(part, b"" | b"." | b"..");
        assert!(entry.path.is_empty() || entry.path.split(|byte| *byte == b'/').all(is_clean));
        assert!(entry.metadata.mode <= 0o7777);
        match entry.kind {
            Kind::Regular { size_bytes, content: Content::Stream(ranges) } => {
                let mut end = 0;
                for range in &ranges {
                    assert!(range.length_bytes > 0 && range.offset_bytes >= end);
                    end = range.offset_bytes + range.length_bytes;
                }
                assert!(end <= size_bytes);
                loop {
                    match source.read_data(&mut buffer)? {
                        0 => break,
                        read => add(&buffer[..read]),
                    }
                }
            }
            Kind::Regular { size_bytes, content: Content::File(file) } => {
                let file = file.open()?;
                for range in file.data_ranges()? {
                    assert!(range.offset_bytes + range.length_bytes <= size_bytes);
                    let mut data = vec![0; range.length_bytes as usize];
                    assert_eq!(file.read_at(&mut data, range.offset_bytes)?, 0);
                    add(&data);
                }
            }
            Kind::Regular { size_bytes, content: Content::Inline(bytes) } => {
                assert_eq!(size_bytes, bytes.len() as u64);
                add(&bytes);
            }
            _ => {}
        }
    }
    assert!(source.next_item()?.is_none());
    Ok((items, sum))
}

fn read_both_ways(bytes: &[u8], whiteouts: bool) -> (Result<Sum, SourceError>, Result<Sum, SourceError>) {
    let options = TarOptions { whiteouts, ..TarOptions::default() };
    let piped = TarSource::from_stream("pipe", Cursor::new(bytes.to_vec()), options.clone());
    let piped = piped.and_then(|mut source| read_all(&mut source));
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    let opened = TarSource::open(file.path(), options, Reading::Everything);
    (piped, opened.and_then(|mut source| read_all(&mut source)))
}

/// For each path: type, size and a sum of the data.
type Told = BTreeMap<Vec<u8>, (&'static str, u64, u64)>;

fn add_up(sum: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(sum, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)))
}

fn read_tree(source: &mut dyn TreeSource) -> Result<Told, SourceError> {
    let mut told = Told::new();
    let mut later: BTreeMap<u32, Vec<Vec<u8>>> = BTreeMap::new();
    while let Some(batch) = source.next_batch()? {
        for entry in batch.entries {
            let path = [&batch.path, b"/".as_slice(), &entry.name].concat();
            let word = entry.kind.word();
            let (mut size, mut sum) = (0, 0);
            if let Kind::Regular { size_bytes, content } = entry.kind {
                size = size_bytes;
                match content {
                    Content::Inline(bytes) => sum = add_up(0, &bytes),
                    Content::File(file) => {
                        let file = file.open()?;
                        for range in file.data_ranges()? {
                            let mut data = vec![0; range.length_bytes as usize];
                            assert_eq!(file.read_at(&mut data, range.offset_bytes)?, 0);
                            sum = add_up(sum, &data);
                        }
                    }
                    Content::Later { token, .. } => later.entry(token).or_default().push(path.clone()),
                    Content::Hole => {}
                    Content::Stream(_) => panic!("a stream in a tree"),
                }
            }
            assert!(told.insert(path, (word, size, sum)).is_none(), "told twice");
        }
    }
    while let Some(LaterContent { token, content }) = source.next_content()? {
        let mut sum = 0;
        let mut buffer = vec![0; 5000];
        match content {
            Content::Inline(bytes) => sum = add_up(0, &bytes),
            _ => loop {
                match source.read_data(&mut buffer)? {
                    0 => break,
                    read => sum = add_up(sum, &buffer[..read]),
                }
            },
        }
        for path in later.remove(&token).expect("content of no file") {
            told.get_mut(&path).unwrap().2 = sum;
        }
    }
    assert!(later.is_empty());
    Ok(told)
}

/// As trees, plain and packed: the same, or an error of both.
fn read_as_trees(bytes: &[u8], whiteouts: bool) -> Option<Told> {
    let packed = zstd::encode_all(bytes, 1).unwrap();
    let trees = [bytes, &packed].map(|bytes| {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), bytes).unwrap();
        let options = TarOptions { whiteouts, ..TarOptions::default() };
        let stream = TarSource::open(file.path(), options, Reading::Metadata)?;
        read_tree(&mut Layers::new(vec![Box::new(stream)])?)
    });
    let [plain, packed] = trees.map(Result::ok);
    assert_eq!(plain, packed);
    plain
}

#[test]
fn the_archive_itself_is_good() {
    assert!(read_as_trees(&archive(), true).is_some_and(|told| told.len() > 10));
    let (piped, opened) = read_both_ways(&archive(), true);
    let (piped, opened) = (piped.unwrap(), opened.unwrap());
    assert_eq!(piped, opened);
    assert_eq!(piped.0, 15);
    // The names by which layers mark removals are plain files where layers are not interpreted.
    assert_eq!(read_both_ways(&archive(), false).0.unwrap().0, 15);
}

fn fault(bytes: &[u8]) -> ArchiveFault {
    let (piped, opened) = read_both_ways(bytes, false);
    let (Err(piped), Err(SourceError::Archive { fault, .. })) = (piped, opened) else { panic!("read") };
    let SourceError::Archive { fault: same, .. } = piped else { panic!("{piped}") };
    assert_eq!(same, fault);
    fault
}

#[test]
fn each_fault_by_name() {
    let file = |name| member(name, b'0', 0, POSIX, &[]);
    let with = |records: &[(&str, &str)]| [pax(b'x', records), file("f")].concat();
    let after_sparse = |records: &[(&str, &str)], data: &[u8]| {
        [pax(b'x', records), member("f", b'0', data.len() as u64, POSIX, data)].concat()
    };
    let is_map = |fault| matches!(fault, ArchiveFault::SparseMap(_));
    assert!(matches!(fault(&file("../f")), ArchiveFault::PathEscapes(_)));
    assert!(matches!(fault(&with(&[("path", "a/../f")])), ArchiveFault::PathEscapes(_)));
    assert!(matches!(fault(&with(&[("path", &"a/".repeat(3000))])), ArchiveFault::PathTooLong(_)));
    assert!(matches!(fault(&with(&[("path", "a\0b")])), ArchiveFault::BadName(_)));
    assert!(matches!(fault(&file(".")), ArchiveFault::BadName(_)));
    assert_eq!(fault(&with(&[("uid", "99999999999")])), ArchiveFault::Number { field: "uid" });
    assert!(matches!(fault(&with(&[("SCHILY.acl.access", "user::q")])), ArchiveFault::Acl { .. }));
    assert_eq!(fault(&member("f", b'Z', 0, POSIX, &[])), ArchiveFault::UnknownType(b'Z'));
    assert_eq!(fault(&member("f", b'M', 0, GNU, &[])), ArchiveFault::MultiVolume);
    assert_eq!(fault(&pax(b'x', &[])), ArchiveFault::Truncated { within: "a member" });
    assert_eq!(
        fault(&member("f", b'0', 1 << 30, POSIX, b"few")),
        ArchiveFault::Truncated { within: "a file" }
    );
    let huge = member("f", b'x', 1 << 32, POSIX, &[]);
    assert!(matches!(fault(&huge), ArchiveFault::TooLarge { limit: 0x400_0000, .. }));
    let records = b"9 path=x\n12 nonsense\n";
    assert_eq!(fault(&[member("x", b'x', 21, POSIX, records), file("f")].concat()), ArchiveFault::Record);
    for map in ["0,5,4,5", "8,8", "0,4", "18446744073709551615,5"] {
        let found = fault(&after_sparse(&[("GNU.sparse.size", "10"), ("GNU.sparse.map", map)], &[1; 8]));
        assert!(is_map(found.clone()) || matches!(found, ArchiveFault::Number { .. }), "{map}: {found}");
    }
    let one = [("GNU.sparse.major", "1"), ("GNU.sparse.realsize", "10")];
    for front in ["x\n", "1\n0\n", "\n", "99999999999999999999\n"] {
        assert!(is_map(fault(&after_sparse(&one, front.as_bytes()))), "{front:?}");
    }
    let many = format!("{}\n", 1_u64 << 40);
    let mut block = many.into_bytes();
    block.resize(BLOCK, 0);
    assert!(matches!(fault(&after_sparse(&one, &block)), ArchiveFault::TooLarge { .. }));
    assert!(matches!(
        fault(&[b"\x1f\x8b nonsense".as_slice(), &[1; 600]].concat()),
        ArchiveFault::Compression(_)
    ));
}

/// Seals all that looks like a header again, so that damage gets further.
fn seal_all(bytes: &mut [u8]) {
    for block in bytes.chunks_exact_mut(BLOCK) {
        if block[257..262] == *b"ustar" {
            seal(block);
        }
    }
}

/// A manifest with one of everything.
const MTREE: &str = "#mtree v2.0\n/set type=file uid=1 gname=root mode=0644\n. type=dir\n\
    a\\040b time=1.2 size=0 xattr.user.x=YWJj optional \\\n link=x\nsub type=dir\nx type=link link=a\\\\b\n..\n\
    ./full/path type=char device=native,1,3\n/unset uid all\ny type=block device=0x803 nlink=2\n";
const DUMP: &str = "/ 0 40755 2 0 0 0 1.2 - - - user.a=b\\x00\n/a 3 100644 1 1 2 0 -1.5 - abc - trusted.x=\n\
    /b 3 @100644 1 1 2 0 1.5 /a - -\n/c 0 20644 1 0 0 259 0.0 - - -\n/d 1 120777 1 0 0 0 0.0 x - -\n";
const PROTOTYPE: &str =
    "boot 1 2\nd--755 0 0\na d-g700 1 2\nb l--777 1 2 target\n$ c c--600 0 0 1 2 : comment\n$\n$\n";
const CONTEXTS: &str =
    "/.* u:r:a:s0\n/usr(/.*)? -d u:r:b:s0\n/etc/a\\.b -- <<none>>\n/(a|b)/[^/]* u:r:c:s0\n";
const OWNERS: &str = "0:100000:65536, u:1-5:7\n*:9 # all\n";

/// Damage: which byte becomes what.
fn damage(text: &str) -> impl Strategy<Value = Vec<u8>> + use<> {
    let bytes = text.as_bytes().to_vec();
    let letters = prop_oneof![any::<u8>(), prop::sample::select(b" \n\\=:/,-.$0179".to_vec())];
    let changes = prop::collection::vec((0..bytes.len(), letters, 0..3_u8), 1..6);
    changes.prop_map(move |changes| {
        let mut bytes = bytes.clone();
        for (place, byte, how) in changes {
            let place = place.min(bytes.len().saturating_sub(1));
            match how {
                0 if !bytes.is_empty() => bytes[place] = byte,
                1 => bytes.insert(place, byte),
                _ if !bytes.is_empty() => drop(bytes.remove(place)),
                _ => {}
            }
        }
        bytes
    })
}

fn read_texts(bytes: &[u8]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text");
    fs::write(&path, bytes).unwrap();
    // Only that they end, and not in a panic.
    let names = HostNames::default();
    let _ = read_all(&mut ManifestSource::open(&path, folder.path(), Timestamp::default(), &names).unwrap());
    let _ = read_all(&mut ProtofileSource::open(&path, ProtofileOptions::default()).unwrap());
    if let Ok(mut overlay) = Overlay::open(&path, &names, 0) {
        let mut metadata = Metadata::default();
        for name in ["", "a", "a b", "full/path"] {
            overlay.apply(name.as_bytes(), &Kind::Fifo, &mut metadata).unwrap();
        }
        overlay.unmatched(2).unwrap();
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(map) = OwnerMap::parse("text", text, &HostNames::default()) {
        let _ = [0, 1, 5, 65_535, u32::MAX].map(|id| (map.user(id), map.group(id)));
    }
    if let Ok(labels) = Labels::from_text("text", text) {
        let _ = labels.label(b"usr/bin", &Kind::Fifo);
    }
}

#[test]
fn the_texts_themselves_are_good() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text");
    fs::write(folder.path().join("a b"), b"").unwrap();
    for (text, items) in [(MTREE, 6), (DUMP, 5)] {
        fs::write(&path, text).unwrap();
        let mut source =
            ManifestSource::open(&path, folder.path(), Timestamp::default(), &HostNames::default()).unwrap();
        assert_eq!(read_all(&mut source).unwrap().0, items);
    }
    fs::write(&path, PROTOTYPE).unwrap();
    let mut source = ProtofileSource::open(&path, ProtofileOptions::default()).unwrap();
    assert_eq!(read_all(&mut source).unwrap().0, 4);
    Labels::from_text("text", CONTEXTS).unwrap();
    OwnerMap::parse("text", OWNERS, &HostNames::default()).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn damaged_archives(
        changes in prop::collection::vec((0..archive().len(), any::<u8>()), 1..8),
        cut in prop::option::of(0..archive().len()),
        sealed in any::<bool>(),
        whiteouts in any::<bool>(),
    ) {
        let mut bytes = archive();
        for (place, byte) in changes {
            bytes[place] = byte;
        }
        if sealed {
            seal_all(&mut bytes);
        }
        bytes.truncate(cut.unwrap_or(bytes.len()));
        let (piped, opened) = read_both_ways(&bytes, whiteouts);
        prop_assert_eq!(piped.ok(), opened.ok());
        read_as_trees(&bytes, true);
    }

    /// Headers are where damage says most.
    #[test]
    fn damaged_headers(
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0..BLOCK, any::<u8>()), 1..4),
    ) {
        let mut bytes = archive();
        let headers: Vec<usize> =
            (0..bytes.len() / BLOCK).filter(|block| bytes[block * BLOCK + 257..].starts_with(b"ustar")).collect();
        for (header, place, byte) in changes {
            bytes[headers[header.index(headers.len())] * BLOCK + place] = byte;
        }
        seal_all(&mut bytes);
        let (piped, opened) = read_both_ways(&bytes, true);
        prop_assert_eq!(piped.ok(), opened.ok());
        read_as_trees(&bytes, true);
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
        read_both_ways(&bytes, true).0.ok();
        read_as_trees(&bytes, true);
        read_texts(&bytes);
    }

    #[test]
    fn damaged_texts(
        mtree in damage(MTREE), dump in damage(DUMP), prototype in damage(PROTOTYPE),
        contexts in damage(CONTEXTS), owners in damage(OWNERS),
    ) {
        for text in [mtree, dump, prototype, contexts, owners] {
            read_texts(&text);
        }
    }
}
