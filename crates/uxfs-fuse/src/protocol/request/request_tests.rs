//! Requests of every operation, whole, cut short and damaged.

use proptest::prelude::*;
use rustix::fs::OFlags;
use uxfs_format::inode::{DeviceNumber, Timestamp};
use zerocopy::{Immutable, IntoBytes};

use super::{
    Caller, Operation, Request, RequestError, RequestFault,
    operation::{TimeChange, *},
};
use crate::protocol::{
    flags::*,
    initialization::{Capabilities, Negotiated},
    opcode::Opcode,
    wire::{
        attributes::*, extended_attributes::*, files::*, header::*, initialization::InitIn, ioctl::*,
        locks::*, names::*, notifications::NotifyRetrieveIn,
    },
};

const UNIQUE: u64 = 1 << 63 | 0x1234;
const NODE: u64 = 77;
const CALLER: Caller = Caller { user_id: 1000, group_id: 2000, process_id: 3000 };
const BOTH_FORMS: Negotiated = Negotiated { minor: 45, capabilities: Capabilities::SETXATTR_EXT };
/// A security context, and then the group that Linux 6.18 was seen to send.
const GROUP_EXTENSION: [u8; 16] = [16, 0, 0, 0, 32, 0, 0, 0, 1, 0, 0, 0, 0xd0, 7, 0, 0];

/// A request in three parts, as a ring entry gives it.
#[derive(Clone, Default)]
struct Parts {
    header: Vec<u8>,
    structure: Vec<u8>,
    payload: Vec<u8>,
}

impl Parts {
    fn new(opcode: Opcode, structure: &(impl IntoBytes + Immutable), rest: &[u8], extensions: &[u8]) -> Self {
        Self::with_bytes(opcode.number(), structure.as_bytes(), rest, extensions)
    }

    fn with_bytes(opcode: u32, structure: &[u8], rest: &[u8], extensions: &[u8]) -> Self {
        assert_eq!(extensions.len() % 8, 0);
        let payload = [rest, extensions].concat();
        let size = size_of::<InHeader>() + structure.len() + payload.len();
        let header = InHeader {
            size_bytes: size.try_into().unwrap(),
            opcode,
            unique: UNIQUE,
            node_id: NODE,
            user_id: CALLER.user_id,
            group_id: CALLER.group_id,
            process_id: CALLER.process_id,
            extension_units: (extensions.len() / 8).try_into().unwrap(),
            padding: 0,
        };
        Self { header: header.as_bytes().to_vec(), structure: structure.to_vec(), payload }
    }

    fn whole(&self) -> Vec<u8> {
        [&self.header[..], &self.structure, &self.payload].concat()
    }
}

/// Writes the right size into a request.
fn sized(mut bytes: Vec<u8>) -> Vec<u8> {
    let size = u32::try_from(bytes.len()).unwrap();
    bytes[..4].copy_from_slice(&size.to_ne_bytes());
    bytes
}

fn fault(bytes: &[u8]) -> RequestFault {
    Request::parse(bytes, BOTH_FORMS).unwrap_err().fault
}

fn name(bytes: &[u8]) -> Vec<u8> {
    [bytes, &[0]].concat()
}

fn security_extension() -> Vec<u8> {
    // Header, header of the context, name with its NUL, value: 8 + 8 + 17 + 3, padded to 40.
    let mut bytes = [40u32, 1, 3, 0].as_bytes().to_vec();
    bytes.extend(b"security.selinux\0abc");
    bytes.resize(40, 0);
    bytes
}

fn check_extensions(operation: &Operation<'_>) {
    let extensions = match operation {
        Operation::SymbolicLink(link) => link.extensions,
        Operation::MakeNode(node) => node.extensions,
        Operation::MakeDirectory(directory) => directory.extensions,
        Operation::Create(create) | Operation::TemporaryFile(create) => create.extensions,
        other => panic!("{other:?}"),
    };
    let contexts: Vec<_> =
        extensions.security_contexts.map(|context| (context.name, context.value)).collect();
    assert_eq!(contexts, [(&b"security.selinux"[..], &b"abc"[..])]);
    assert_eq!(extensions.groups.iter().collect::<Vec<_>>(), [2000]);
    assert!(extensions.groups.contains(2000) && !extensions.groups.contains(0));
}

/// A request, and whether its operation is the right one.
struct Sample {
    parts: Parts,
    is_right: Box<dyn Fn(&Operation<'_>) -> bool>,
}

fn sample(parts: Parts, is_right: impl Fn(&Operation<'_>) -> bool + 'static) -> Sample {
    Sample { parts, is_right: Box::new(is_right) }
}

fn samples() -> Vec<Sample> {
    let mut all = name_samples();
    all.extend(creation_samples());
    all.extend(attribute_samples());
    all.extend(file_samples());
    all.extend(range_samples());
    all.extend(extended_attribute_samples());
    all.extend(lock_and_ioctl_samples());
    all.extend(session_samples());
    all
}

fn name_samples() -> Vec<Sample> {
    let new_name = b"new".as_slice();
    vec![
        sample(Parts::new(Opcode::Lookup, &(), b"file\0", &[]), |found| *found == Operation::Lookup(b"file")),
        sample(Parts::new(Opcode::Lookup, &(), b"..\0", &[]), |found| *found == Operation::Lookup(b"..")),
        sample(Parts::new(Opcode::Unlink, &(), b"file\0", &[]), |found| *found == Operation::Unlink(b"file")),
        sample(Parts::new(Opcode::RemoveDirectory, &(), b"d\0", &[]), |found| {
            *found == Operation::RemoveDirectory(b"d")
        }),
        sample(Parts::new(Opcode::Rename, &RenameIn { new_parent: 5 }, b"old\0new\0", &[]), move |found| {
            let flags = RenameFlags::empty();
            *found == Operation::Rename(Rename { name: b"old", new_parent: 5, new_name, flags })
        }),
        sample(
            Parts::new(
                Opcode::Rename2,
                &Rename2In { new_parent: 5, flags: 0x12, padding: 0 },
                b"old\0new\0",
                &[],
            ),
            move |found| {
                let flags = RenameFlags::EXCHANGE | RenameFlags::from_bits_retain(0x10);
                *found == Operation::Rename2(Rename { name: b"old", new_parent: 5, new_name, flags })
            },
        ),
        sample(Parts::new(Opcode::Link, &LinkIn { old_node_id: 9 }, b"new\0", &[]), move |found| {
            *found == Operation::Link(Link { old_node_id: 9, new_name })
        }),
    ]
}

fn creation_samples() -> Vec<Sample> {
    let extensions = [security_extension(), GROUP_EXTENSION.to_vec()].concat();
    let node = MakeNodeIn { mode: 0o20_644, device: 0x0070_0812, umask: 0o22, padding: 0 };
    let create = CreateIn {
        flags: (OFlags::WRONLY | OFlags::CREATE).bits(),
        mode: 0o100_644,
        umask: 2,
        open_flags: 1,
    };
    let is_create = |create: &Create<'_>, name: &[u8]| {
        create.name == name
            && create.flags == OFlags::WRONLY | OFlags::CREATE
            && (create.mode, create.umask, create.request_flags)
                == (0o100_644, 2, OpenRequestFlags::KILL_SET_ID)
    };
    vec![
        sample(Parts::new(Opcode::SymbolicLink, &(), b"name\0a/b\0", &extensions), |found| {
            check_extensions(found);
            matches!(found, Operation::SymbolicLink(SymbolicLink { name: b"name", target: b"a/b", .. }))
        }),
        sample(Parts::new(Opcode::MakeNode, &node, b"node\0", &extensions), |found| {
            check_extensions(found);
            let device = DeviceNumber { major: 8, minor: 0x712 };
            matches!(found, Operation::MakeNode(node) if node.device == device
                && (node.name, node.mode, node.umask) == (b"node", 0o20_644, 0o22))
        }),
        sample(
            Parts::new(
                Opcode::MakeDirectory,
                &MakeDirectoryIn { mode: 0o755, umask: 0o22 },
                b"d\0",
                &extensions,
            ),
            |found| {
                check_extensions(found);
                matches!(
                    found,
                    Operation::MakeDirectory(MakeDirectory { name: b"d", mode: 0o755, umask: 0o22, .. })
                )
            },
        ),
        sample(Parts::new(Opcode::Create, &create, b"new\0", &extensions), move |found| {
            check_extensions(found);
            matches!(found, Operation::Create(create) if is_create(create, b"new"))
        }),
        sample(Parts::new(Opcode::TemporaryFile, &create, b"/\0", &extensions), move |found| {
            check_extensions(found);
            matches!(found, Operation::TemporaryFile(create) if is_create(create, b"/"))
        }),
    ]
}

fn attribute_samples() -> Vec<Sample> {
    let times = SetAttributesIn {
        valid: 1 << 3 | 1 << 4 | 1 << 8 | 1 << 10,
        size_bytes: 5,
        access_seconds: (-1i64).cast_unsigned(),
        access_nanoseconds: 999_999_999,
        change_seconds: 7,
        change_nanoseconds: 8,
        // Not of a valid attribute.
        modification_nanoseconds: u32::MAX,
        ..Default::default()
    };
    let all = SetAttributesIn {
        valid: 0b1010_0100_0111,
        handle: 3,
        mode: 0o104_755,
        user_id: 1,
        group_id: 2,
        lock_owner: 4,
        ..Default::default()
    };
    vec![
        sample(Parts::new(Opcode::GetAttributes, &GetAttributesIn::default(), &[], &[]), |found| {
            *found == Operation::GetAttributes(None)
        }),
        sample(
            Parts::new(Opcode::GetAttributes, &GetAttributesIn { flags: 1, padding: 0, handle: 6 }, &[], &[]),
            |found| *found == Operation::GetAttributes(Some(6)),
        ),
        sample(Parts::new(Opcode::SetAttributes, &SetAttributesIn::default(), &[], &[]), |found| {
            *found == Operation::SetAttributes(SetAttributes::default())
        }),
        sample(Parts::new(Opcode::SetAttributes, &times, &[], &[]), |found| {
            let Operation::SetAttributes(set) = found else { return false };
            set.size_bytes == Some(5)
                && set.access == Some(TimeChange::At(Timestamp { seconds: -1, nanoseconds: 999_999_999 }))
                && set.modification == Some(TimeChange::Now)
                && set.change == Some(Timestamp { seconds: 7, nanoseconds: 8 })
                && (set.mode, set.user_id, set.group_id, set.handle, set.lock_owner)
                    == (None, None, None, None, None)
        }),
        sample(Parts::new(Opcode::SetAttributes, &all, &[], &[]), |found| {
            let Operation::SetAttributes(set) = found else { return false };
            set.changes.contains(AttributeChanges::KILL_SET_ID)
                && (set.mode, set.user_id, set.group_id) == (Some(0o104_755), Some(1), Some(2))
                && (set.handle, set.lock_owner) == (Some(3), Some(4))
                && (set.size_bytes, set.access, set.modification, set.change) == (None, None, None, None)
        }),
        sample(
            Parts::new(
                Opcode::Statx,
                &StatxIn { flags: 1, reserved: 0, handle: 6, statx_flags: 0, statx_mask: 0xfff },
                &[],
                &[],
            ),
            |found| *found == Operation::Statx(Statx { handle: Some(6), flags: 0, mask: 0xfff }),
        ),
    ]
}

fn file_samples() -> Vec<Sample> {
    let open = OpenIn { flags: OFlags::RDWR.bits(), open_flags: 1 };
    let is_open =
        |open: &Open| *open == Open { flags: OFlags::RDWR, request_flags: OpenRequestFlags::KILL_SET_ID };
    let read = ReadIn {
        handle: 1,
        offset_bytes: 2,
        size_bytes: 3,
        read_flags: 2,
        lock_owner: 4,
        flags: 1,
        padding: 0,
    };
    let expected_read =
        Read { handle: 1, offset_bytes: 2, size_bytes: 3, lock_owner: Some(4), flags: OFlags::WRONLY };
    let write = WriteIn {
        handle: 1,
        offset_bytes: 2,
        size_bytes: 4,
        write_flags: 5,
        lock_owner: 9,
        flags: 0,
        padding: 0,
    };
    let release = ReleaseIn { handle: 1, flags: 0, release_flags: 2, lock_owner: 3 };
    let expected_release =
        Release { handle: 1, flags: OFlags::RDONLY, release_flags: ReleaseFlags::UNLOCK, lock_owner: 3 };
    let fsync = FsyncIn { handle: 1, flags: 1, padding: 0 };
    let expected_fsync = Fsync { handle: 1, flags: FsyncFlags::DATA_ONLY };
    vec![
        sample(
            Parts::new(Opcode::Open, &open, &[], &[]),
            move |found| matches!(found, Operation::Open(open) if is_open(open)),
        ),
        sample(
            Parts::new(Opcode::OpenDirectory, &open, &[], &[]),
            move |found| matches!(found, Operation::OpenDirectory(open) if is_open(open)),
        ),
        sample(Parts::new(Opcode::Read, &read, &[], &[]), move |found| {
            *found == Operation::Read(expected_read)
        }),
        sample(Parts::new(Opcode::ReadDirectory, &read, &[], &[]), move |found| {
            *found == Operation::ReadDirectory(expected_read)
        }),
        sample(Parts::new(Opcode::ReadDirectoryPlus, &read, &[], &[]), move |found| {
            *found == Operation::ReadDirectoryPlus(expected_read)
        }),
        sample(Parts::new(Opcode::Write, &write, b"data", &[]), |found| {
            let Operation::Write(write) = found else { return false };
            write.write_flags == WriteFlags::CACHE | WriteFlags::KILL_SET_ID
                && (write.handle, write.offset_bytes, write.data, write.lock_owner) == (1, 2, b"data", None)
        }),
        sample(Parts::new(Opcode::Release, &release, &[], &[]), move |found| {
            *found == Operation::Release(expected_release)
        }),
        sample(Parts::new(Opcode::ReleaseDirectory, &release, &[], &[]), move |found| {
            *found == Operation::ReleaseDirectory(expected_release)
        }),
        sample(
            Parts::new(Opcode::Flush, &FlushIn { handle: 1, lock_owner: 2, ..Default::default() }, &[], &[]),
            |found| *found == Operation::Flush(Flush { handle: 1, lock_owner: 2 }),
        ),
        sample(Parts::new(Opcode::Fsync, &fsync, &[], &[]), move |found| {
            *found == Operation::Fsync(expected_fsync)
        }),
        sample(Parts::new(Opcode::FsyncDirectory, &fsync, &[], &[]), move |found| {
            *found == Operation::FsyncDirectory(expected_fsync)
        }),
    ]
}

fn range_samples() -> Vec<Sample> {
    let fallocate = FallocateIn { handle: 1, offset_bytes: 2, size_bytes: 3, mode: 3, padding: 0 };
    let copy = CopyFileRangeIn {
        source_handle: 1,
        source_offset_bytes: 2,
        target_node_id: 3,
        target_handle: 4,
        target_offset_bytes: 5,
        size_bytes: u64::MAX,
        flags: 0,
    };
    let expected_copy = CopyFileRange {
        source_handle: 1,
        source_offset_bytes: 2,
        target_node_id: 3,
        target_handle: 4,
        target_offset_bytes: 5,
        size_bytes: u64::MAX,
        flags: 0,
    };
    let seek = SeekIn { handle: 1, offset_bytes: 2, whence: 3, padding: 0 };
    vec![
        sample(Parts::new(Opcode::Fallocate, &fallocate, &[], &[]), |found| {
            let mode = FallocateMode::KEEP_SIZE | FallocateMode::PUNCH_HOLE;
            *found == Operation::Fallocate(Fallocate { handle: 1, offset_bytes: 2, size_bytes: 3, mode })
        }),
        sample(Parts::new(Opcode::Seek, &seek, &[], &[]), |found| {
            *found == Operation::Seek(Seek { handle: 1, offset_bytes: 2, target: SeekTarget::Data })
        }),
        sample(Parts::new(Opcode::Seek, &SeekIn { whence: 4, ..seek }, &[], &[]), |found| {
            *found == Operation::Seek(Seek { handle: 1, offset_bytes: 2, target: SeekTarget::Hole })
        }),
        sample(Parts::new(Opcode::CopyFileRange, &copy, &[], &[]), move |found| {
            *found == Operation::CopyFileRange(expected_copy)
        }),
        sample(Parts::new(Opcode::CopyFileRange64, &copy, &[], &[]), move |found| {
            *found == Operation::CopyFileRange64(expected_copy)
        }),
        sample(
            Parts::new(
                Opcode::BlockMap,
                &BlockMapIn { block: 1, block_size_bytes: 512, padding: 0 },
                &[],
                &[],
            ),
            |found| *found == Operation::BlockMap(BlockMap { block: 1, block_size_bytes: 512 }),
        ),
    ]
}

fn extended_attribute_samples() -> Vec<Sample> {
    let set = SetExtendedAttributeIn { value_bytes: 3, mode: 2, flags: 1, padding: 0 };
    let get = GetExtendedAttributeIn { size_bytes: 9, padding: 0 };
    vec![
        sample(Parts::new(Opcode::SetExtendedAttribute, &set, b"user.a/b\0\0\x01\0", &[]), |found| {
            let mode = SetExtendedAttributeMode::REPLACE;
            let flags = SetExtendedAttributeFlags::KILL_SET_GROUP_ID;
            let expected = SetExtendedAttribute { name: b"user.a/b", value: &[0, 1, 0], mode, flags };
            *found == Operation::SetExtendedAttribute(expected)
        }),
        sample(Parts::new(Opcode::GetExtendedAttribute, &get, b"user.a\0", &[]), |found| {
            *found == Operation::GetExtendedAttribute(GetExtendedAttribute { name: b"user.a", size_bytes: 9 })
        }),
        sample(Parts::new(Opcode::ListExtendedAttributes, &get, &[], &[]), |found| {
            *found == Operation::ListExtendedAttributes(9)
        }),
        sample(Parts::new(Opcode::RemoveExtendedAttribute, &(), b"user.a\0", &[]), |found| {
            *found == Operation::RemoveExtendedAttribute(b"user.a")
        }),
        sample(Parts::new(Opcode::Access, &AccessIn { mask: 6, padding: 0 }, &[], &[]), |found| {
            *found == Operation::Access(AccessMask::READ | AccessMask::WRITE)
        }),
    ]
}

fn lock_and_ioctl_samples() -> Vec<Sample> {
    let lock = |kind| LockIn {
        handle: 1,
        owner: 2,
        lock: LockRecord { start_bytes: 3, last_bytes: i64::MAX as u64, kind, process_id: 5 },
        flags: 1,
        padding: 0,
    };
    let expected_lock = |kind| LockRequest {
        handle: 1,
        owner: 2,
        lock: Lock { start_bytes: 3, last_bytes: i64::MAX as u64, kind, process_id: 5 },
        flags: LockFlags::WHOLE_FILE,
    };
    let ioctl = IoctlIn { handle: 1, flags: 16, command: 2, argument: 3, input_bytes: 2, output_bytes: 5 };
    vec![
        sample(Parts::new(Opcode::GetLock, &lock(0), &[], &[]), move |found| {
            *found == Operation::GetLock(expected_lock(LockKind::Read))
        }),
        sample(Parts::new(Opcode::SetLock, &lock(1), &[], &[]), move |found| {
            *found == Operation::SetLock(expected_lock(LockKind::Write))
        }),
        sample(Parts::new(Opcode::SetLockWait, &lock(2), &[], &[]), move |found| {
            *found == Operation::SetLockWait(expected_lock(LockKind::Unlock))
        }),
        sample(Parts::new(Opcode::Ioctl, &ioctl, b"in", &[]), |found| {
            let Operation::Ioctl(ioctl) = found else { return false };
            ioctl.flags == IoctlFlags::DIRECTORY
                && (ioctl.handle, ioctl.command, ioctl.argument, ioctl.input, ioctl.output_bytes)
                    == (1, 2, 3, b"in", 5)
        }),
        sample(
            Parts::new(Opcode::Poll, &PollIn { handle: 1, poll_handle: 2, flags: 1, events: 3 }, &[], &[]),
            |found| {
                let flags = PollFlags::SCHEDULE_NOTIFY;
                *found == Operation::Poll(Poll { handle: 1, poll_handle: 2, flags, events: 3 })
            },
        ),
    ]
}

fn session_samples() -> Vec<Sample> {
    let nodes = [ForgetOne { node_id: 5, lookups: 1 }, ForgetOne { node_id: 6, lookups: u64::MAX }];
    let retrieved = NotifyRetrieveIn { offset_bytes: 3, size_bytes: 4, ..Default::default() };
    vec![
        sample(Parts::new(Opcode::ReadLink, &(), &[], &[]), |found| *found == Operation::ReadLink),
        sample(Parts::new(Opcode::StatFileSystem, &(), &[], &[]), |found| {
            *found == Operation::StatFileSystem
        }),
        sample(Parts::new(Opcode::Destroy, &(), &[], &[]), |found| *found == Operation::Destroy),
        sample(Parts::new(Opcode::SyncFileSystem, &SyncfsIn::default(), &[], &[]), |found| {
            *found == Operation::SyncFileSystem
        }),
        sample(Parts::new(Opcode::Forget, &ForgetIn { lookups: 2 }, &[], &[]), |found| {
            *found == Operation::Forget(2)
        }),
        sample(Parts::new(Opcode::Interrupt, &InterruptIn { unique: 8 }, &[], &[]), |found| {
            *found == Operation::Interrupt(8)
        }),
        sample(
            Parts::new(Opcode::BatchForget, &BatchForgetIn { count: 2, padding: 0 }, nodes.as_bytes(), &[]),
            |found| {
                let Operation::BatchForget(nodes) = found else { return false };
                assert_eq!(nodes.len(), 2);
                let nodes: Vec<_> = nodes.map(|node| (node.node_id, node.lookups)).collect();
                nodes == [(5, 1), (6, u64::MAX)]
            },
        ),
        // In a ring its first structure is empty.
        sample(
            Parts::new(Opcode::NotifyReply, &(), &[retrieved.as_bytes(), b"page"].concat(), &[]),
            |found| *found == Operation::NotifyReply(NotifyReply { offset_bytes: 3, data: b"page" }),
        ),
    ]
}

#[test]
fn operations_come_from_one_buffer() {
    for Sample { parts, is_right } in samples() {
        let whole = parts.whole();
        let request = Request::parse(&whole, BOTH_FORMS).unwrap();
        assert!(is_right(&request.operation), "{request:?}");
        assert_eq!((request.unique, request.node_id, request.caller), (UNIQUE, NODE, CALLER));
        // No structure needs its alignment.
        let shifted = [&[0], &whole[..]].concat();
        assert_eq!(Request::parse(&shifted[1..], BOTH_FORMS), Ok(request));
    }
}

#[test]
fn operations_come_from_the_parts_of_a_ring_entry() {
    for Sample { mut parts, is_right } in samples() {
        // The buffer has the last request's bytes behind the structure.
        parts.structure.resize(128, 0xaa);
        let request =
            Request::parse_parts(&parts.header, &parts.structure, &parts.payload, BOTH_FORMS).unwrap();
        assert!(is_right(&request.operation), "{request:?}");
        assert_eq!((request.unique, request.node_id, request.caller), (UNIQUE, NODE, CALLER));
    }
}

#[test]
fn every_operation_has_a_sample() {
    let numbers: Vec<_> = samples()
        .iter()
        .map(|sample| Request::parse(&sample.parts.whole(), BOTH_FORMS).unwrap().opcode)
        .collect();
    let missing: Vec<_> = Opcode::ALL.iter().filter(|opcode| !numbers.contains(opcode)).collect();
    let elsewhere = [
        Opcode::Initialize,
        Opcode::SetupMapping,
        Opcode::RemoveMapping,
        Opcode::CuseInitialize,
        Opcode::CuseInitializeSwapped,
        Opcode::InitializeSwapped,
    ];
    assert_eq!(missing, elsewhere.iter().collect::<Vec<_>>());
}

#[test]
fn truncated_requests_are_errors() {
    for Sample { parts, .. } in samples() {
        let whole = parts.whole();
        for size in 0..whole.len() {
            let truncated = whole[..size].to_vec();
            assert!(Request::parse(&truncated, BOTH_FORMS).is_err());
            if size >= size_of::<InHeader>() {
                let fault = fault(&sized(truncated));
                assert!(!matches!(fault, RequestFault::WrongSize { .. }), "{fault}");
            }
        }
    }
}

#[test]
fn bytes_behind_the_end_are_errors() {
    for Sample { parts, .. } in samples() {
        let mut whole = parts.whole();
        let opcode = Request::parse(&whole, BOTH_FORMS).unwrap().opcode;
        whole.push(0);
        assert!(Request::parse(&whole, BOTH_FORMS).is_err());
        assert!(Request::parse(&sized(whole), BOTH_FORMS).is_err(), "{opcode}");
    }
}

#[test]
fn extensions_of_other_operations_are_errors() {
    for Sample { parts, .. } in samples() {
        let opcode = Request::parse(&parts.whole(), BOTH_FORMS).unwrap().opcode;
        if !opcode.takes_extensions() {
            let parts =
                Parts::with_bytes(opcode.number(), &parts.structure, &parts.payload, &GROUP_EXTENSION);
            let found_bytes = GROUP_EXTENSION.len();
            assert_eq!(fault(&parts.whole()), RequestFault::UnexpectedExtensions { found_bytes }, "{opcode}");
        }
    }
}

#[test]
fn setxattr_has_two_forms() {
    let short = SetExtendedAttributeShortIn { value_bytes: 3, mode: 1 };
    let whole = Parts::new(Opcode::SetExtendedAttribute, &short, b"user.a\0abc", &[]).whole();
    let request = Request::parse(&whole, Negotiated::default()).unwrap();
    let mode = SetExtendedAttributeMode::CREATE;
    let flags = SetExtendedAttributeFlags::empty();
    let expected = SetExtendedAttribute { name: b"user.a", value: b"abc", mode, flags };
    assert_eq!(request.operation, Operation::SetExtendedAttribute(expected));
    assert!(Request::parse(&whole, BOTH_FORMS).is_err());
}

#[test]
fn unknown_operations_are_no_errors() {
    for (number, extensions) in [(7, &[][..]), (48, &[]), (5000, &GROUP_EXTENSION)] {
        let whole = Parts::with_bytes(number, &[], b"anything", extensions).whole();
        let request = Request::parse(&whole, BOTH_FORMS).unwrap();
        assert_eq!(request.operation, Operation::Unknown(Opcode::from_number(number), b"anything"));
    }
}

#[test]
fn initialization_may_be_short_or_long() {
    let init = InitIn {
        major: 7,
        minor: 45,
        max_readahead_bytes: 9,
        flags: 1 << 30 | 1,
        flags2: 4,
        unused: [0; 11],
    };
    let parse = |bytes: &[u8]| {
        let whole = Parts::with_bytes(Opcode::Initialize.number(), &[], bytes, &[]).whole();
        match Request::parse(&whole, Negotiated::default()).map(|request| request.operation) {
            Ok(Operation::Initialize(init)) => Ok(init),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.fault),
        }
    };
    let whole = parse(init.as_bytes()).unwrap();
    assert_eq!((whole.major, whole.minor, whole.max_readahead_bytes), (7, 45, 9));
    let both = Capabilities::ASYNC_READ | Capabilities::INIT_EXT | Capabilities::CREATE_SUPP_GROUP;
    assert_eq!(whole.offered, both);
    assert_eq!(parse(&[init.as_bytes(), &[1; 8]].concat()).unwrap(), whole);
    let short = parse(&init.as_bytes()[..16]).unwrap();
    assert_eq!(short.offered, Capabilities::ASYNC_READ | Capabilities::INIT_EXT);
    assert_eq!(parse(&init.as_bytes()[..15]), Err(RequestFault::InitTruncated { found_bytes: 15 }));
    assert_eq!(parse(&init.as_bytes()[..7]), Err(RequestFault::InitTruncated { found_bytes: 7 }));
    let other = parse(&[8u32, 1].as_bytes()[..8]).unwrap();
    assert_eq!((other.major, other.minor, other.offered), (8, 1, Capabilities::empty()));
}

#[test]
fn each_fault_is_told() {
    let lookup = Parts::new(Opcode::Lookup, &(), b"a\0", &[]).whole();
    assert_eq!(fault(&lookup[..39]), RequestFault::HeaderTruncated { found_bytes: 39 });
    assert_eq!(fault(&lookup[..41]), RequestFault::WrongSize { announced_bytes: 42, found_bytes: 41 });
    let name_fault = |name: &[u8]| fault(&Parts::new(Opcode::Lookup, &(), name, &[]).whole());
    assert_eq!(name_fault(b"abc"), RequestFault::NameUnterminated { found_bytes: 3 });
    assert_eq!(name_fault(b"\0"), RequestFault::NameEmpty);
    assert_eq!(name_fault(b"a/b\0"), RequestFault::NameWithSlash);
    assert_eq!(name_fault(b"a\0bc\0"), RequestFault::TrailingBytes { found_bytes: 3 });
    let read = Parts::new(Opcode::Read, &[0u64; 4], &[], &[]).whole();
    assert_eq!(fault(&read), RequestFault::StructureTruncated { needed_bytes: 40, found_bytes: 32 });
    let write = WriteIn { size_bytes: 5, ..Default::default() };
    let write = Parts::new(Opcode::Write, &write, b"abcd", &[]).whole();
    assert_eq!(fault(&write), RequestFault::DataSize { announced_bytes: 5, found_bytes: 4 });
    let seek = SeekIn { whence: 2, ..Default::default() };
    assert_eq!(fault(&Parts::new(Opcode::Seek, &seek, &[], &[]).whole()), RequestFault::Whence { whence: 2 });
    let lock = LockIn { lock: LockRecord { kind: 3, ..Default::default() }, ..Default::default() };
    assert_eq!(
        fault(&Parts::new(Opcode::SetLock, &lock, &[], &[]).whole()),
        RequestFault::LockType { kind: 3 }
    );
    let set =
        SetAttributesIn { valid: 1 << 5, modification_nanoseconds: 1_000_000_000, ..Default::default() };
    let set = Parts::new(Opcode::SetAttributes, &set, &[], &[]).whole();
    assert_eq!(fault(&set), RequestFault::Nanoseconds { nanoseconds: 1_000_000_000 });
}

#[test]
fn batches_hold_as_many_nodes_as_they_say() {
    let batch = |count, nodes: &[u64]| {
        let batch = BatchForgetIn { count, padding: 0 };
        Parts::new(Opcode::BatchForget, &batch, nodes.as_bytes(), &[]).whole()
    };
    assert!(Request::parse(&batch(0, &[]), BOTH_FORMS).is_ok());
    assert_eq!(fault(&batch(1, &[])), RequestFault::DataSize { announced_bytes: 16, found_bytes: 0 });
    assert_eq!(fault(&batch(1, &[1; 3])), RequestFault::DataSize { announced_bytes: 16, found_bytes: 24 });
    let most = 0x10 * u64::from(u32::MAX);
    assert_eq!(
        fault(&batch(u32::MAX, &[1; 2])),
        RequestFault::DataSize { announced_bytes: most, found_bytes: 16 }
    );
}

#[test]
fn each_fault_of_extensions_is_told() {
    let mkdir = |rest: &[u8], extensions: &[u8]| {
        Parts::new(Opcode::MakeDirectory, &MakeDirectoryIn::default(), rest, extensions).whole()
    };
    let words = |words: &[u32]| mkdir(b"d\0", words.as_bytes());
    let mut long = mkdir(b"d\0", &[]);
    long[36] = 3;
    assert_eq!(fault(&long), RequestFault::ExtensionsTruncated { announced_bytes: 24, found_bytes: 10 });
    assert_eq!(fault(&words(&[7, 32])), RequestFault::ExtensionSize { announced_bytes: 7, found_bytes: 8 });
    assert_eq!(fault(&words(&[0, 32])), RequestFault::ExtensionSize { announced_bytes: 0, found_bytes: 8 });
    assert_eq!(fault(&words(&[9, 32])), RequestFault::ExtensionSize { announced_bytes: 9, found_bytes: 8 });
    assert_eq!(fault(&words(&[8, 32])), RequestFault::ExtensionContents { kind: 32 });
    assert_eq!(fault(&words(&[16, 32, 2, 5])), RequestFault::ExtensionContents { kind: 32 });
    assert_eq!(fault(&words(&[16, 32, u32::MAX, 5])), RequestFault::ExtensionContents { kind: 32 });
    assert_eq!(fault(&words(&[8, 1])), RequestFault::ExtensionContents { kind: 1 });
    // A context whose name has no end, and one whose value is too long.
    assert_eq!(
        fault(&words(&[24, 1, 0, 0, 0x6161_6161, 0x6161_6161])),
        RequestFault::ExtensionContents { kind: 1 }
    );
    assert_eq!(fault(&words(&[24, 1, 7, 0, 0x61, 0])), RequestFault::ExtensionContents { kind: 1 });
    // Of a type that is not known; without any security context.
    assert!(Request::parse(&words(&[8, 33, 8, 0]), BOTH_FORMS).is_ok());
}

#[test]
fn several_security_contexts_are_read() {
    let mut extension = [0u32, 2, 5, 0].as_bytes().to_vec();
    extension.extend(b"a\0first\0\x01\0\0\0\0\0\0\0b\0x");
    extension.resize(extension.len().next_multiple_of(8), 0);
    let size = u32::try_from(extension.len()).unwrap();
    extension[..4].copy_from_slice(&size.to_ne_bytes());
    let whole = Parts::new(Opcode::SymbolicLink, &(), b"n\0t\0", &extension).whole();
    let request = Request::parse(&whole, BOTH_FORMS).unwrap();
    let Operation::SymbolicLink(link) = request.operation else { panic!() };
    assert_eq!(link.extensions.security_contexts.len(), 2);
    let contexts: Vec<_> =
        link.extensions.security_contexts.map(|context| (context.name, context.value)).collect();
    assert_eq!(contexts, [(&b"a"[..], &b"first"[..]), (b"b", b"x")]);
}

#[test]
fn errors_say_which_request_waits() {
    let error = |opcode: Opcode| {
        Request::parse(&Parts::with_bytes(opcode.number(), &[], &[1], &[]).whole(), BOTH_FORMS).unwrap_err()
    };
    assert_eq!(error(Opcode::Lookup).unanswered(), Some(UNIQUE));
    assert_eq!(error(Opcode::Forget).unanswered(), None);
    assert_eq!(Request::parse(&[], BOTH_FORMS).unwrap_err().unanswered(), None);
    assert_eq!(
        error(Opcode::Unlink).to_string(),
        "malformed FUSE request (FUSE_UNLINK): a name of 1 bytes without a NUL"
    );
    let none = RequestError { unique: None, opcode: None, fault: RequestFault::NameEmpty };
    assert_eq!(none.to_string(), "malformed FUSE request (no header): an empty name");
}

/// Uses all that a request borrows.
fn use_all(request: &Request<'_>) -> u64 {
    let extensions = match request.operation {
        Operation::BatchForget(nodes) => return nodes.map(|node| node.lookups & 1).sum(),
        Operation::SymbolicLink(link) => link.extensions,
        Operation::MakeNode(node) => node.extensions,
        Operation::MakeDirectory(directory) => directory.extensions,
        Operation::Create(create) | Operation::TemporaryFile(create) => create.extensions,
        _ => return 0,
    };
    let contexts = extensions.security_contexts;
    assert_eq!(contexts.len(), contexts.count());
    contexts.len() as u64 + extensions.groups.iter().count() as u64
}

fn opcodes() -> impl Strategy<Value = u32> {
    let known = proptest::sample::select(Opcode::ALL).prop_map(Opcode::number);
    prop_oneof![9 => known, 1 => any::<u32>()]
}

proptest! {
    #[test]
    fn any_bytes_are_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200), is_extended: bool) {
        let negotiated = if is_extended { BOTH_FORMS } else { Negotiated::default() };
        if let Ok(request) = Request::parse(&bytes, negotiated) {
            use_all(&request);
        }
        let (header, rest) = bytes.split_at(bytes.len().min(40));
        let (structure, payload) = rest.split_at(rest.len() / 2);
        if let Ok(request) = Request::parse_parts(header, structure, payload, negotiated) {
            use_all(&request);
        }
    }

    #[test]
    fn any_body_is_parsed_or_refused(
        opcode in opcodes(),
        body in proptest::collection::vec(prop_oneof![Just(0u8), 0u8..40, any::<u8>()], 0..160),
        extension_units in 0u16..12,
        is_extended: bool,
    ) {
        let negotiated = if is_extended { BOTH_FORMS } else { Negotiated::default() };
        let mut whole = Parts::with_bytes(opcode, &[], &body, &[]).whole();
        whole[36..38].copy_from_slice(&extension_units.to_ne_bytes());
        if let Ok(request) = Request::parse(&whole, negotiated) {
            use_all(&request);
        }
        let (structure, payload) = body.split_at(body.len() / 2);
        if let Ok(request) = Request::parse_parts(&whole[..40], structure, payload, negotiated) {
            use_all(&request);
        }
    }

    #[test]
    fn a_damaged_byte_is_parsed_or_refused(index in 0usize..64, at: prop::sample::Index, value: u8) {
        let samples = samples();
        let mut whole = samples[index % samples.len()].parts.whole();
        let at = at.index(whole.len());
        whole[at] = value;
        if let Ok(request) = Request::parse(&whole, BOTH_FORMS) {
            use_all(&request);
        }
    }

    #[test]
    fn names_and_data_come_back(
        file_name in proptest::collection::vec(1u8..=255, 1..300),
        value in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let set = SetExtendedAttributeIn { value_bytes: value.len() as u32, ..Default::default() };
        let rest = [name(&file_name), value.clone()].concat();
        let whole = Parts::new(Opcode::SetExtendedAttribute, &set, &rest, &[]).whole();
        let request = Request::parse(&whole, BOTH_FORMS).unwrap();
        let Operation::SetExtendedAttribute(found) = request.operation else { panic!() };
        prop_assert_eq!((found.name, found.value), (&file_name[..], &value[..]));
        let whole = Parts::new(Opcode::Lookup, &(), &name(&file_name), &[]).whole();
        let found = Request::parse(&whole, BOTH_FORMS).map(|request| request.operation);
        prop_assert_eq!(found.is_err(), file_name.contains(&b'/'));
    }
}
