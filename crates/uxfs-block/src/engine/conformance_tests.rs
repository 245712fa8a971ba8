//! One suite that every device passes, engines and wrappers alike.

use std::{
    fs,
    io::{self, Read, Write},
    os::fd::AsFd,
    sync::Arc,
};

use proptest::prelude::*;
use rustix::pipe::{PipeFlags, pipe_with};
use tempfile::NamedTempFile;

use super::{
    Engine, OpenOptions,
    counting::CountingDevice,
    deferred::DeferredDevice,
    memory::MemoryDevice,
    open,
    overlay::OverlayDevice,
    throttled::{Limits, ThrottledDevice},
    uring,
};
use crate::{
    claim::Lock,
    clock::VirtualClock,
    device::{Alignment, BlockDevice, MAX_RUN_SEGMENTS, ReadSegment, WriteSegment, contiguous_runs},
    window::Window,
};

const SIZE_BYTES: usize = 1 << 20;

/// A device under test, and the file that it lies in.
struct Subject {
    device: Arc<dyn BlockDevice>,
    file: Option<NamedTempFile>,
}

impl Subject {
    fn alone(device: impl BlockDevice + 'static) -> Self {
        Self { device: Arc::new(device), file: None }
    }

    /// Where the machine lacks io_uring or direct I/O the suite runs without, and says so.
    fn in_file(bytes: &[u8], mut options: OpenOptions) -> Self {
        if options.engine == Engine::Uring && !uring::is_permitted() {
            eprintln!("io_uring is not permitted here: tested with another engine");
            options.engine = Engine::Auto;
        }
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(&vec![0xee; options.start_bytes as usize]).unwrap();
        file.write_all(bytes).unwrap();
        options.writable = true;
        let device = open(file.path(), &options).unwrap_or_else(|error| {
            assert!(options.direct && error.source.kind() == io::ErrorKind::Unsupported, "{error}");
            eprintln!("direct I/O is not possible here: tested without");
            open(file.path(), &OpenOptions { direct: false, ..options }).unwrap()
        });
        Self { device, file: Some(file) }
    }
}

fn pattern() -> Vec<u8> {
    (0..SIZE_BYTES).map(|index| (index / 512 * 31 + index % 509) as u8).collect()
}

fn memory(bytes: &[u8]) -> Subject {
    Subject::alone(MemoryDevice::new(bytes.to_vec()))
}

fn counting(bytes: &[u8]) -> Subject {
    Subject::alone(CountingDevice::new(MemoryDevice::new(bytes.to_vec())))
}

fn throttled(bytes: &[u8]) -> Subject {
    let limits = Limits { requests_per_second: 1000.0, bytes_per_second: 1e6, ..Limits::NONE };
    Subject::alone(ThrottledDevice::new(
        MemoryDevice::new(bytes.to_vec()),
        limits,
        Arc::new(VirtualClock::default()),
    ))
}

fn overlay(bytes: &[u8]) -> Subject {
    Subject::alone(OverlayDevice::new(Arc::new(MemoryDevice::new(bytes.to_vec()))))
}

/// One that holds everything back, and one that is written to with the first change.
fn deferred(bytes: &[u8]) -> Subject {
    Subject::alone(DeferredDevice::new(Arc::new(MemoryDevice::new(bytes.to_vec()))))
}

fn deferred_until_now(bytes: &[u8]) -> Subject {
    let Subject { device, file } = sync(bytes);
    let deferred = DeferredDevice::new(device);
    deferred.write(4096, &bytes[4096..8192]).unwrap();
    deferred.arm();
    Subject { device: Arc::new(deferred), file }
}

fn overlay_in_file(bytes: &[u8]) -> Subject {
    Subject::alone(OverlayDevice::with_memory(Arc::new(MemoryDevice::new(bytes.to_vec())), 0))
}

fn sync(bytes: &[u8]) -> Subject {
    Subject::in_file(bytes, OpenOptions { engine: Engine::Sync, ..OpenOptions::default() })
}

fn sync_partition(bytes: &[u8]) -> Subject {
    let options = OpenOptions { engine: Engine::Sync, start_bytes: 12345, ..OpenOptions::default() };
    Subject::in_file(bytes, options)
}

/// A part in the middle of a device.
fn window(bytes: &[u8]) -> Subject {
    let all = [&[0x11; 12345][..], bytes, &[0x22; 999]].concat();
    let device = Arc::new(MemoryDevice::new(all));
    Subject::alone(Window::new(device, 12345, bytes.len() as u64).unwrap())
}

fn sync_direct(bytes: &[u8]) -> Subject {
    Subject::in_file(bytes, OpenOptions { engine: Engine::Sync, direct: true, ..OpenOptions::default() })
}

fn automatic(bytes: &[u8]) -> Subject {
    Subject::in_file(bytes, OpenOptions::default())
}

fn io_uring(bytes: &[u8]) -> Subject {
    Subject::in_file(bytes, OpenOptions { engine: Engine::Uring, ..OpenOptions::default() })
}

fn io_uring_direct(bytes: &[u8]) -> Subject {
    let options =
        OpenOptions { engine: Engine::Uring, direct: true, start_bytes: 8192, ..OpenOptions::default() };
    Subject::in_file(bytes, options)
}

fn read(device: &dyn BlockDevice, offset_bytes: usize, length: usize) -> Vec<u8> {
    let mut buffer = vec![0xaa; length];
    device.read(offset_bytes as u64, &mut buffer).unwrap();
    buffer
}

fn read_all(device: &dyn BlockDevice, ranges: &[(usize, usize)]) -> Vec<Vec<u8>> {
    let mut buffers: Vec<Vec<u8>> = ranges.iter().map(|(_, length)| vec![0xaa; *length]).collect();
    let mut segments: Vec<_> = buffers
        .iter_mut()
        .zip(ranges)
        .map(|(buffer, (offset, _))| ReadSegment { offset_bytes: *offset as u64, buffer })
        .collect();
    device.read_batch(&mut segments).unwrap();
    buffers
}

fn write_all(device: &dyn BlockDevice, pieces: &[(usize, Vec<u8>)]) {
    let segments: Vec<_> =
        pieces.iter().map(|(offset, bytes)| WriteSegment { offset_bytes: *offset as u64, bytes }).collect();
    device.write_batch(&segments).unwrap();
}

fn single_reads(subject: &Subject) {
    let (device, model) = (subject.device.as_ref(), pattern());
    assert_eq!(device.size_bytes(), SIZE_BYTES as u64);
    for (offset, length) in
        [(0, SIZE_BYTES), (0, 0), (SIZE_BYTES, 0), (SIZE_BYTES - 1, 1), (1, 511), (4095, 4098), (512, 512)]
    {
        assert_eq!(read(device, offset, length), model[offset..offset + length], "{offset} {length}");
    }
}

/// What is lent is what is read, also where it does not begin with a page, and as much as the pipe has room for.
fn lent_bytes(subject: &Subject) {
    let (device, model) = (subject.device.as_ref(), pattern());
    let (source, sink) = pipe_with(PipeFlags::NONBLOCK).unwrap();
    let mut source = std::fs::File::from(source);
    for (offset, length) in [(0, 4096), (511, 9000), (SIZE_BYTES - 1, 1), (8192, SIZE_BYTES - 8192)] {
        let Some(lent) = device.lend(offset as u64, length, sink.as_fd()) else { continue };
        let count = lent.unwrap();
        assert!(count == length || count >= 15 * 4096 && length > 16 * 4096, "{offset} {length}: {count}");
        let mut bytes = vec![0; count];
        source.read_exact(&mut bytes).unwrap();
        assert!(bytes == model[offset..offset + count], "{offset} {length}");
    }
    let outside = device.lend(SIZE_BYTES as u64 - 1, 2, sink.as_fd());
    assert!(outside.is_none_or(|lent| lent.is_err()));
    assert_eq!(source.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
}

fn accesses_outside_fail(subject: &Subject) {
    let device = subject.device.as_ref();
    let size = SIZE_BYTES as u64;
    for (offset, length) in
        [(size, 1), (size - 1, 2), (0, SIZE_BYTES + 1), (u64::MAX, 1), (u64::MAX - 511, 512)]
    {
        let error = device.read(offset, &mut vec![0; length]).unwrap_err();
        assert_eq!((error.offset_bytes, error.length_bytes), (offset, length as u64));
        assert!(device.write(offset, &vec![0; length]).is_err());
        assert!(device.discard(offset, length as u64).is_err());
        let (mut good, mut bad) = (vec![0; 512], vec![0; length]);
        let mut segments = [
            ReadSegment { offset_bytes: 0, buffer: &mut good },
            ReadSegment { offset_bytes: offset, buffer: &mut bad },
        ];
        assert!(device.read_batch(&mut segments).is_err());
    }
    assert_eq!(read(device, 0, SIZE_BYTES), pattern(), "nothing was written");
}

fn batched_reads(subject: &Subject) {
    let (device, model) = (subject.device.as_ref(), pattern());
    let neighbours: Vec<_> = (0..MAX_RUN_SEGMENTS + 100).map(|index| (index * 512, 512)).collect();
    let apart: Vec<_> = (0..500).map(|index| (index * 2048, 512)).collect();
    let backwards: Vec<_> = (0..100).rev().map(|index| (index * 4096, 4096)).collect();
    let mixed =
        vec![(8192, 4096), (12288, 512), (0, 512), (0, 512), (512, 0), (512, 1024), (77, 1000), (1077, 3)];
    for ranges in [vec![], vec![(512, 512)], neighbours, apart, backwards, mixed] {
        for (buffer, (offset, length)) in read_all(device, &ranges).iter().zip(&ranges) {
            assert_eq!(*buffer, model[*offset..*offset + *length], "{offset} {length}");
        }
    }
}

fn writes_are_read_back(subject: &Subject) {
    let device = subject.device.as_ref();
    let mut model = pattern();
    let runs = [(0, 4096), (4096, 8192), (65536, 4096), (SIZE_BYTES - 4096, 4096), (20480, 4096)];
    let pieces: Vec<_> =
        runs.iter().map(|(offset, length)| (*offset, vec![(*offset >> 12) as u8 ^ 0x5a; *length])).collect();
    write_all(device, &pieces);
    device.write(40960, &[9; 4096]).unwrap();
    for (offset, bytes) in pieces.iter().chain(&[(40960, vec![9; 4096])]) {
        model[*offset..*offset + bytes.len()].copy_from_slice(bytes);
    }
    device.flush().unwrap();
    assert_eq!(read(device, 0, SIZE_BYTES), model);
    device.discard(65536, 65536).unwrap();
    read(device, 65536, 65536);
    assert_eq!(read(device, 0, 65536), model[..65536]);
    assert_eq!(read(device, 131_072, SIZE_BYTES - 131_072), model[131_072..]);
    if let Some(file) = &subject.file {
        let whole = fs::read(file.path()).unwrap();
        let start = whole.len() - SIZE_BYTES;
        assert_eq!(whole[start..start + 65536], model[..65536], "the file holds what the device does");
        assert!(whole[..start].iter().all(|byte| *byte == 0xee), "nothing lies before the device");
    }
}

fn threads_share_a_device(subject: &Subject) {
    let device = subject.device.as_ref();
    const PART: usize = SIZE_BYTES / 4;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for round in 0..20_usize {
                    let value = (thread * 20 + round) as u8;
                    let offset = |index: usize| thread * PART + (index * 5 + round) % 60 * 4096;
                    let pieces: Vec<_> = (0..12).map(|index| (offset(index), vec![value; 4096])).collect();
                    write_all(device, &pieces);
                    let ranges: Vec<_> =
                        pieces.iter().map(|(offset, bytes)| (*offset, bytes.len())).collect();
                    let buffers = read_all(device, &ranges);
                    assert!(buffers.iter().flatten().all(|byte| *byte == value));
                }
            });
        }
    });
}

#[derive(Debug, Clone)]
enum Step {
    Write(Vec<(usize, usize, u8)>),
    Read(Vec<(usize, usize)>),
    Flush,
}

/// Steps in units of the device's alignment, so that direct ones take them too.
fn steps(units: usize) -> impl Strategy<Value = Vec<Step>> {
    let range = (0..units, 0..9_usize).prop_map(move |(begin, count)| (begin, count.min(units - begin)));
    let write = (range.clone(), any::<u8>()).prop_map(|((begin, count), value)| (begin, count, value));
    let step = prop_oneof![
        4 => prop::collection::vec(write, 1..8).prop_map(Step::Write),
        4 => prop::collection::vec(range, 1..8).prop_map(Step::Read),
        1 => Just(Step::Flush),
    ];
    prop::collection::vec(step, 1..24)
}

fn behaves_like_a_vector(make: fn(&[u8]) -> Subject) {
    let subject = make(&pattern());
    let (device, unit) = (subject.device.as_ref(), subject.device.alignment().offset_bytes.max(512) as usize);
    let model = std::cell::RefCell::new(pattern());
    let config = ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(steps in steps(SIZE_BYTES / unit))| {
        for step in steps {
            match step {
                Step::Flush => device.flush().unwrap(),
                Step::Read(ranges) => {
                    let ranges: Vec<_> = ranges.iter().map(|(at, count)| (at * unit, count * unit)).collect();
                    for (buffer, (at, length)) in read_all(device, &ranges).iter().zip(&ranges) {
                        prop_assert_eq!(buffer.as_slice(), &model.borrow()[*at..*at + *length]);
                    }
                }
                // The order within a batch is not defined: keep what does not overlap anything before it.
                Step::Write(writes) => {
                    let mut pieces: Vec<(usize, Vec<u8>)> = Vec::new();
                    for (at, count, value) in writes {
                        let (at, end) = (at * unit, (at + count) * unit);
                        if pieces.iter().all(|(other, bytes)| end <= *other || other + bytes.len() <= at) {
                            model.borrow_mut()[at..end].fill(value);
                            pieces.push((at, vec![value; count * unit]));
                        }
                    }
                    write_all(device, &pieces);
                }
            }
        }
        prop_assert_eq!(&read(device, 0, SIZE_BYTES), &*model.borrow());
    });
}

macro_rules! conformance {
    ($($make:ident),*) => {$(
        mod $make {
            #[test]
            fn single_reads() {
                super::single_reads(&super::$make(&super::pattern()));
            }

            #[test]
            fn lent_bytes() {
                super::lent_bytes(&super::$make(&super::pattern()));
            }

            #[test]
            fn accesses_outside_fail() {
                super::accesses_outside_fail(&super::$make(&super::pattern()));
            }

            #[test]
            fn batched_reads() {
                super::batched_reads(&super::$make(&super::pattern()));
            }

            #[test]
            fn writes_are_read_back() {
                super::writes_are_read_back(&super::$make(&super::pattern()));
            }

            #[test]
            fn threads_share_a_device() {
                super::threads_share_a_device(&super::$make(&super::pattern()));
            }

            #[test]
            fn behaves_like_a_vector() {
                super::behaves_like_a_vector(super::$make);
            }
        }
    )*};
}

conformance!(
    memory,
    counting,
    throttled,
    overlay,
    overlay_in_file,
    deferred,
    deferred_until_now,
    sync,
    sync_partition,
    window,
    sync_direct,
    automatic,
    io_uring,
    io_uring_direct
);

#[test]
fn read_only_devices_refuse_writes() {
    for engine in [Engine::Sync, if uring::is_permitted() { Engine::Uring } else { Engine::Auto }] {
        let subject = sync(&pattern());
        let path = subject.file.as_ref().unwrap().path();
        let device = open(path, &OpenOptions { engine, ..OpenOptions::default() }).unwrap();
        assert!(device.is_read_only() && !subject.device.is_read_only());
        assert_eq!(device.identity(), subject.device.identity());
        let segments = [0, 4096].map(|offset_bytes| WriteSegment { offset_bytes, bytes: &[0; 512] });
        assert!(device.write(0, &[0; 512]).is_err());
        assert!(device.write_batch(&segments).is_err());
        assert!(device.discard(0, 512).is_err());
        assert_eq!(read(device.as_ref(), 0, SIZE_BYTES), pattern());
    }
}

#[test]
fn direct_devices_say_what_they_need() {
    let subject = sync_direct(&pattern());
    let alignment = subject.device.alignment();
    if alignment == Alignment::NONE {
        return;
    }
    assert!(alignment.offset_bytes >= 512, "{alignment:?}");
    let error = subject.device.write(1, &[0; 512]).unwrap_err();
    assert!(error.to_string().contains("multiples of"), "{error}");
    let path = subject.file.as_ref().unwrap().path();
    let misplaced = OpenOptions { direct: true, start_bytes: 100, ..OpenOptions::default() };
    assert!(open(path, &misplaced).unwrap_err().to_string().contains("must begin at a multiple of"));
}

/// A file need not end with a whole sector.
#[test]
fn direct_devices_read_an_odd_end() {
    let bytes = &pattern()[..10_000];
    let subject = sync_direct(bytes);
    assert_eq!(read(subject.device.as_ref(), 9_000, 1_000), bytes[9_000..]);
    assert_eq!(read_all(subject.device.as_ref(), &[(0, 4096), (8192, 1808)])[1], bytes[8192..]);
}

#[test]
fn other_kinds_of_file_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    assert!(open(directory.path(), &OpenOptions::default()).is_err());
    let error = open(std::path::Path::new("/dev/null"), &OpenOptions::default()).unwrap_err();
    assert!(error.to_string().contains("a character device"), "{error}");
    assert!(open(&directory.path().join("absent"), &OpenOptions::default()).is_err());
}

#[test]
fn runs_are_of_neighbours_in_order() {
    let segment = |offset_bytes, bytes| WriteSegment { offset_bytes, bytes };
    let segments =
        [segment(0, &[0; 4]), segment(4, &[0; 2]), segment(6, &[]), segment(8, &[0; 1]), segment(4, &[0; 4])];
    assert_eq!(contiguous_runs(&segments).collect::<Vec<_>>(), [0..3, 3..4, 4..5]);
    assert_eq!(contiguous_runs(&segments[..0]).count(), 0);
}

#[test]
fn counts_requests_as_the_system_sees_them() {
    let device = CountingDevice::new(MemoryDevice::new(pattern()));
    read_all(&device, &[(0, 512), (512, 512), (4096, 512)]);
    write_all(&device, &[(0, vec![0; 4096])]);
    device.flush().unwrap();
    let counters = device.counters();
    assert_eq!((counters.read_batches, counters.read_requests, counters.read_bytes), (1, 2, 1536));
    assert_eq!((counters.write_batches, counters.write_requests, counters.write_bytes), (1, 1, 4096));
    assert_eq!((counters.flushes, counters.discards), (1, 0));
}

#[test]
fn throttling_takes_the_modelled_time() {
    use std::time::Duration;

    use crate::clock::Clock;

    let time_of = |limits, ranges: &[(usize, usize)]| {
        let clock = Arc::new(VirtualClock::default());
        let device = ThrottledDevice::new(MemoryDevice::new(pattern()), limits, clock.clone());
        read_all(&device, ranges);
        clock.now()
    };
    let apart: Vec<_> = (0..10).map(|index| (index * 8192, 1000)).collect();
    let by_requests = Limits { requests_per_second: 100.0, ..Limits::NONE };
    assert_eq!(time_of(by_requests, &apart), Duration::from_millis(100));
    let by_bytes = Limits { bytes_per_second: 1e6, ..Limits::NONE };
    assert_eq!(time_of(by_bytes, &apart), Duration::from_millis(10));
    let by_latency = Limits { latency: Duration::from_millis(1), queue_depth: 4, ..Limits::NONE };
    assert_eq!(time_of(by_latency, &apart), Duration::from_millis(3));
    assert_eq!(time_of(by_requests, &[(0, 512), (512, 512)]), Duration::from_millis(10), "one run");
}

/// The choice is by what the file can do, and what can be chosen works (`automatic` above).
#[test]
fn the_automatic_engine_suits_the_file() {
    let subject = automatic(&pattern());
    let path = subject.file.as_ref().unwrap().path();
    let file = super::open_file::OpenFile::open(path, &OpenOptions::default()).unwrap();
    let is_uring = uring::is_permitted() && file.answers_without_waiting();
    assert_eq!(subject.device.engine(), if is_uring { "io_uring" } else { "sync" });
}

/// A writer keeps away all others that ask for a lock, and readers keep writers away.
#[test]
fn one_writer_at_a_time() {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(&[1; 4096]).unwrap();
    let options = OpenOptions { writable: true, lock: Lock::Exclusive, ..OpenOptions::default() };
    for engine in [Engine::Auto, Engine::Sync] {
        let first = open(file.path(), &OpenOptions { engine, ..options }).unwrap();
        let second = open(file.path(), &options).unwrap_err();
        assert_eq!(second.source.kind(), io::ErrorKind::ResourceBusy, "{second}");
        assert_eq!(read(open(file.path(), &OpenOptions::default()).unwrap().as_ref(), 0, 4), [1; 4]);
        let shared = OpenOptions { lock: Lock::Shared, ..OpenOptions::default() };
        let reader = open(file.path(), &shared).unwrap_err();
        assert_eq!(reader.source.to_string(), "another program is changing it");
        drop(first);
        let readers = [(); 2].map(|()| open(file.path(), &shared).unwrap());
        let writer = open(file.path(), &options).unwrap_err();
        assert_eq!(writer.source.to_string(), "another program is reading it");
        drop(readers);
        open(file.path(), &options).unwrap();
    }
}

/// Another program shortens the file: what is lost cannot be read or written any more, also once the file has its length again, and no flush
/// says that it is durable.
#[test]
fn a_shortened_file_is_an_error_for_good() {
    for engine in [Engine::Sync, Engine::Auto] {
        for start_bytes in [0, 12345] {
            let options = OpenOptions { engine, start_bytes, ..OpenOptions::default() };
            let fresh = || Subject::in_file(&pattern(), options);
            let length =
                |subject: &Subject| subject.file.as_ref().unwrap().as_file().metadata().unwrap().len();
            let shorten = |subject: &Subject, bytes: u64| {
                let end = length(subject) - bytes;
                subject.file.as_ref().unwrap().as_file().set_len(end).unwrap();
            };
            let is_told = |result: Result<(), crate::device::DeviceError>| {
                let error = result.unwrap_err().to_string();
                assert!(error.contains("another program has shortened the image"), "{error}");
            };
            let (last, size) = (SIZE_BYTES as u64 - 512, SIZE_BYTES as u64);
            // A flush detects it. The rest is readable.
            let subject = fresh();
            subject.device.flush().unwrap();
            shorten(&subject, 1);
            is_told(subject.device.flush());
            is_told(subject.device.check_length());
            is_told(subject.device.write(0, &[1; 512]));
            is_told(subject.device.read(last, &mut [0; 512]));
            subject.device.read(last - 512, &mut [0; 512]).unwrap();
            // A batch of reads detects it.
            let subject = fresh();
            shorten(&subject, size / 2);
            let (mut one, mut two) = ([0; 512], [0; 512]);
            let segments = &mut [
                ReadSegment { offset_bytes: 0, buffer: &mut one },
                ReadSegment { offset_bytes: last, buffer: &mut two },
            ];
            is_told(subject.device.read_batch(segments));
            shorten(&subject, 0);
            is_told(subject.device.flush());
            // A write up to the end would hide it.
            let subject = fresh();
            shorten(&subject, size / 2);
            is_told(subject.device.write(last, &[1; 512]));
            is_told(subject.device.flush());
            // A write before the end grows the file, with zeros in place of the lost bytes.
            let subject = fresh();
            shorten(&subject, size / 2);
            subject.device.write(last - 512, &[1; 512]).unwrap();
            is_told(subject.device.flush());
            is_told(subject.device.read(last - 512, &mut [0; 512]));
            let whole = length(&subject) + 512;
            subject.file.as_ref().unwrap().as_file().set_len(whole).unwrap();
            is_told(subject.device.flush());
        }
    }
}
