//! Sizes, offsets and numbers: against the table of `docs/fuse-protocol.md`, and against the kernel's own header.

use std::{collections::BTreeMap, fmt::Write as _, fs, io::Write as _, mem::offset_of, process::Command};

use rustix::fs::{RenameFlags, XattrFlags};
use uxfs_testkit::judges;

use super::{
    attributes::*, directories::*, extended_attributes::*, files::*, header::*, initialization::*, ioctl::*,
    locks::*, names::*, notifications::*, rings::*,
};
use crate::protocol::{
    device_ioctl, flags,
    initialization::{Capabilities, REQUEST_BUFFER_BYTES_MIN},
    notification::{InvalidateRange, Notification},
    opcode::Opcode,
    request::extension::{SECURITY_CONTEXTS_MAX, SUPPLEMENTARY_GROUPS_TYPE},
};

/// A structure or a field: what our code has, what the document says, and the minor version that has it.
struct Layout {
    /// C expression that the judge prints.
    expression: String,
    since: u32,
    ours: usize,
    documented: usize,
}

macro_rules! structures {
    ($($name:ident = $kernel:literal, $size:literal, since $since:literal {
        $($field:ident = $kernel_field:literal @ $offset:literal $(since $field_since:literal)?,)*
    })*) => {{
        let mut layouts = Vec::new();
        $(
            layouts.push(Layout {
                expression: format!("sizeof({})", $kernel),
                since: $since,
                ours: size_of::<$name>(),
                documented: $size,
            });
            $(layouts.push(Layout {
                expression: format!("offsetof({}, {})", $kernel, $kernel_field),
                since: [$since $(, $field_since)?].into_iter().max().unwrap(),
                ours: offset_of!($name, $field),
                documented: $offset,
            });)*
        )*
        layouts
    }};
}

fn layouts() -> Vec<Layout> {
    let mut all = header_layouts();
    all.extend(attribute_layouts());
    all.extend(name_layouts());
    all.extend(file_layouts());
    all.extend(other_layouts());
    all.extend(notification_layouts());
    all
}

fn header_layouts() -> Vec<Layout> {
    structures! {
        InHeader = "struct fuse_in_header", 40, since 23 {
            size_bytes = "len" @ 0, opcode = "opcode" @ 4, unique = "unique" @ 8, node_id = "nodeid" @ 16,
            user_id = "uid" @ 24, group_id = "gid" @ 28, process_id = "pid" @ 32,
            extension_units = "total_extlen" @ 36 since 38, padding = "padding" @ 38 since 38,
        }
        OutHeader = "struct fuse_out_header", 16, since 23 {
            size_bytes = "len" @ 0, error = "error" @ 4, unique = "unique" @ 8,
        }
        ForgetIn = "struct fuse_forget_in", 8, since 23 { lookups = "nlookup" @ 0, }
        BatchForgetIn = "struct fuse_batch_forget_in", 8, since 23 { count = "count" @ 0, padding = "dummy" @ 4, }
        ForgetOne = "struct fuse_forget_one", 16, since 23 { node_id = "nodeid" @ 0, lookups = "nlookup" @ 8, }
        InterruptIn = "struct fuse_interrupt_in", 8, since 23 { unique = "unique" @ 0, }
    }
}

fn attribute_layouts() -> Vec<Layout> {
    structures! {
        AttributeRecord = "struct fuse_attr", 88, since 23 {
            inode = "ino" @ 0, size_bytes = "size" @ 8, sectors = "blocks" @ 16, access_seconds = "atime" @ 24,
            modification_seconds = "mtime" @ 32, change_seconds = "ctime" @ 40,
            access_nanoseconds = "atimensec" @ 48, modification_nanoseconds = "mtimensec" @ 52,
            change_nanoseconds = "ctimensec" @ 56, mode = "mode" @ 60, link_count = "nlink" @ 64,
            user_id = "uid" @ 68, group_id = "gid" @ 72, device = "rdev" @ 76, block_size_bytes = "blksize" @ 80,
            flags = "flags" @ 84 since 32,
        }
        AttributesOut = "struct fuse_attr_out", 104, since 23 {
            valid_seconds = "attr_valid" @ 0, valid_nanoseconds = "attr_valid_nsec" @ 8, padding = "dummy" @ 12,
            attributes = "attr" @ 16,
        }
        GetAttributesIn = "struct fuse_getattr_in", 16, since 23 {
            flags = "getattr_flags" @ 0, padding = "dummy" @ 4, handle = "fh" @ 8,
        }
        SetAttributesIn = "struct fuse_setattr_in", 88, since 23 {
            valid = "valid" @ 0, padding = "padding" @ 4, handle = "fh" @ 8, size_bytes = "size" @ 16,
            lock_owner = "lock_owner" @ 24, access_seconds = "atime" @ 32, modification_seconds = "mtime" @ 40,
            change_seconds = "ctime" @ 48, access_nanoseconds = "atimensec" @ 56,
            modification_nanoseconds = "mtimensec" @ 60, change_nanoseconds = "ctimensec" @ 64, mode = "mode" @ 68,
            unused_after_mode = "unused4" @ 72, user_id = "uid" @ 76, group_id = "gid" @ 80,
            unused_after_group = "unused5" @ 84,
        }
        StatxTime = "struct fuse_sx_time", 16, since 39 {
            seconds = "tv_sec" @ 0, nanoseconds = "tv_nsec" @ 8, reserved = "__reserved" @ 12,
        }
        StatxIn = "struct fuse_statx_in", 24, since 39 {
            flags = "getattr_flags" @ 0, reserved = "reserved" @ 4, handle = "fh" @ 8,
            statx_flags = "sx_flags" @ 16, statx_mask = "sx_mask" @ 20,
        }
        StatxRecord = "struct fuse_statx", 256, since 39 {
            mask = "mask" @ 0, block_size_bytes = "blksize" @ 4, attributes = "attributes" @ 8,
            link_count = "nlink" @ 16, user_id = "uid" @ 20, group_id = "gid" @ 24, mode = "mode" @ 28,
            spare_after_mode = "__spare0" @ 30, inode = "ino" @ 32, size_bytes = "size" @ 40,
            sectors = "blocks" @ 48, attributes_mask = "attributes_mask" @ 56, access = "atime" @ 64,
            birth = "btime" @ 80, change = "ctime" @ 96, modification = "mtime" @ 112,
            device_major = "rdev_major" @ 128, device_minor = "rdev_minor" @ 132,
            file_system_major = "dev_major" @ 136, file_system_minor = "dev_minor" @ 140, spare = "__spare2" @ 144,
        }
        StatxOut = "struct fuse_statx_out", 288, since 39 {
            valid_seconds = "attr_valid" @ 0, valid_nanoseconds = "attr_valid_nsec" @ 8, flags = "flags" @ 12,
            spare = "spare" @ 16, attributes = "stat" @ 32,
        }
        StatfsOut = "struct fuse_statfs_out", 80, since 23 {
            blocks = "st.blocks" @ 0, free_blocks = "st.bfree" @ 8, available_blocks = "st.bavail" @ 16,
            files = "st.files" @ 24, free_files = "st.ffree" @ 32, block_size_bytes = "st.bsize" @ 40,
            name_bytes_max = "st.namelen" @ 44, fragment_size_bytes = "st.frsize" @ 48, padding = "st.padding" @ 52,
            spare = "st.spare" @ 56,
        }
    }
}

fn name_layouts() -> Vec<Layout> {
    structures! {
        EntryOut = "struct fuse_entry_out", 128, since 23 {
            node_id = "nodeid" @ 0, generation = "generation" @ 8, entry_valid_seconds = "entry_valid" @ 16,
            attributes_valid_seconds = "attr_valid" @ 24, entry_valid_nanoseconds = "entry_valid_nsec" @ 32,
            attributes_valid_nanoseconds = "attr_valid_nsec" @ 36, attributes = "attr" @ 40,
        }
        CreateOut = "struct { struct fuse_entry_out entry; struct fuse_open_out open; }", 144, since 23 {}
        MakeNodeIn = "struct fuse_mknod_in", 16, since 23 {
            mode = "mode" @ 0, device = "rdev" @ 4, umask = "umask" @ 8, padding = "padding" @ 12,
        }
        MakeDirectoryIn = "struct fuse_mkdir_in", 8, since 23 { mode = "mode" @ 0, umask = "umask" @ 4, }
        CreateIn = "struct fuse_create_in", 16, since 23 {
            flags = "flags" @ 0, mode = "mode" @ 4, umask = "umask" @ 8, open_flags = "open_flags" @ 12 since 33,
        }
        RenameIn = "struct fuse_rename_in", 8, since 23 { new_parent = "newdir" @ 0, }
        Rename2In = "struct fuse_rename2_in", 16, since 23 {
            new_parent = "newdir" @ 0, flags = "flags" @ 8, padding = "padding" @ 12,
        }
        LinkIn = "struct fuse_link_in", 8, since 23 { old_node_id = "oldnodeid" @ 0, }
        ExtensionHeader = "struct fuse_secctx_header", 8, since 36 {
            size_bytes = "size" @ 0, kind = "nr_secctx" @ 4,
        }
        ExtensionHeader = "struct fuse_ext_header", 8, since 39 { size_bytes = "size" @ 0, kind = "type" @ 4, }
        SecurityContextHeader = "struct fuse_secctx", 8, since 36 {
            value_bytes = "size" @ 0, padding = "padding" @ 4,
        }
    }
}

fn file_layouts() -> Vec<Layout> {
    structures! {
        OpenIn = "struct fuse_open_in", 8, since 23 { flags = "flags" @ 0, open_flags = "open_flags" @ 4 since 33, }
        OpenOut = "struct fuse_open_out", 16, since 23 {
            handle = "fh" @ 0, open_flags = "open_flags" @ 8, backing_id = "backing_id" @ 12 since 40,
        }
        ReadIn = "struct fuse_read_in", 40, since 23 {
            handle = "fh" @ 0, offset_bytes = "offset" @ 8, size_bytes = "size" @ 16, read_flags = "read_flags" @ 20,
            lock_owner = "lock_owner" @ 24, flags = "flags" @ 32, padding = "padding" @ 36,
        }
        WriteIn = "struct fuse_write_in", 40, since 23 {
            handle = "fh" @ 0, offset_bytes = "offset" @ 8, size_bytes = "size" @ 16,
            write_flags = "write_flags" @ 20, lock_owner = "lock_owner" @ 24, flags = "flags" @ 32,
            padding = "padding" @ 36,
        }
        WriteOut = "struct fuse_write_out", 8, since 23 { size_bytes = "size" @ 0, padding = "padding" @ 4, }
        ReleaseIn = "struct fuse_release_in", 24, since 23 {
            handle = "fh" @ 0, flags = "flags" @ 8, release_flags = "release_flags" @ 12,
            lock_owner = "lock_owner" @ 16,
        }
        FlushIn = "struct fuse_flush_in", 24, since 23 {
            handle = "fh" @ 0, unused = "unused" @ 8, padding = "padding" @ 12, lock_owner = "lock_owner" @ 16,
        }
        FsyncIn = "struct fuse_fsync_in", 16, since 23 {
            handle = "fh" @ 0, flags = "fsync_flags" @ 8, padding = "padding" @ 12,
        }
        SyncfsIn = "struct fuse_syncfs_in", 8, since 34 { padding = "padding" @ 0, }
        FallocateIn = "struct fuse_fallocate_in", 32, since 23 {
            handle = "fh" @ 0, offset_bytes = "offset" @ 8, size_bytes = "length" @ 16, mode = "mode" @ 24,
            padding = "padding" @ 28,
        }
        SeekIn = "struct fuse_lseek_in", 24, since 24 {
            handle = "fh" @ 0, offset_bytes = "offset" @ 8, whence = "whence" @ 16, padding = "padding" @ 20,
        }
        SeekOut = "struct fuse_lseek_out", 8, since 24 { offset_bytes = "offset" @ 0, }
        CopyFileRangeIn = "struct fuse_copy_file_range_in", 56, since 28 {
            source_handle = "fh_in" @ 0, source_offset_bytes = "off_in" @ 8, target_node_id = "nodeid_out" @ 16,
            target_handle = "fh_out" @ 24, target_offset_bytes = "off_out" @ 32, size_bytes = "len" @ 40,
            flags = "flags" @ 48,
        }
        CopyFileRangeOut = "struct fuse_copy_file_range_out", 8, since 45 { size_bytes = "bytes_copied" @ 0, }
        BlockMapIn = "struct fuse_bmap_in", 16, since 23 {
            block = "block" @ 0, block_size_bytes = "blocksize" @ 8, padding = "padding" @ 12,
        }
        BlockMapOut = "struct fuse_bmap_out", 8, since 23 { block = "block" @ 0, }
        DirectoryRecord = "struct fuse_dirent", 24, since 23 {
            inode = "ino" @ 0, next_offset = "off" @ 8, name_bytes = "namelen" @ 16, kind = "type" @ 20,
        }
        DirectoryPlusRecord = "struct fuse_direntplus", 152, since 23 {
            entry = "entry_out" @ 0, record = "dirent" @ 128,
        }
    }
}

fn other_layouts() -> Vec<Layout> {
    structures! {
        SetExtendedAttributeShortIn = "char[FUSE_COMPAT_SETXATTR_IN_SIZE]", 8, since 33 {}
        SetExtendedAttributeIn = "struct fuse_setxattr_in", 16, since 33 {
            value_bytes = "size" @ 0, mode = "flags" @ 4, flags = "setxattr_flags" @ 8, padding = "padding" @ 12,
        }
        GetExtendedAttributeIn = "struct fuse_getxattr_in", 8, since 23 {
            size_bytes = "size" @ 0, padding = "padding" @ 4,
        }
        ExtendedAttributeSizeOut = "struct fuse_getxattr_out", 8, since 23 {
            size_bytes = "size" @ 0, padding = "padding" @ 4,
        }
        AccessIn = "struct fuse_access_in", 8, since 23 { mask = "mask" @ 0, padding = "padding" @ 4, }
        LockRecord = "struct fuse_file_lock", 24, since 23 {
            start_bytes = "start" @ 0, last_bytes = "end" @ 8, kind = "type" @ 16, process_id = "pid" @ 20,
        }
        LockIn = "struct fuse_lk_in", 48, since 23 {
            handle = "fh" @ 0, owner = "owner" @ 8, lock = "lk" @ 16, flags = "lk_flags" @ 40,
            padding = "padding" @ 44,
        }
        LockOut = "struct fuse_lk_out", 24, since 23 { lock = "lk" @ 0, }
        IoctlIn = "struct fuse_ioctl_in", 32, since 23 {
            handle = "fh" @ 0, flags = "flags" @ 8, command = "cmd" @ 12, argument = "arg" @ 16,
            input_bytes = "in_size" @ 24, output_bytes = "out_size" @ 28,
        }
        IoctlVector = "struct fuse_ioctl_iovec", 16, since 23 { base = "base" @ 0, size_bytes = "len" @ 8, }
        IoctlOut = "struct fuse_ioctl_out", 16, since 23 {
            result = "result" @ 0, flags = "flags" @ 4, input_vectors = "in_iovs" @ 8, output_vectors = "out_iovs" @ 12,
        }
        PollIn = "struct fuse_poll_in", 24, since 23 {
            handle = "fh" @ 0, poll_handle = "kh" @ 8, flags = "flags" @ 16, events = "events" @ 20,
        }
        PollOut = "struct fuse_poll_out", 8, since 23 { events = "revents" @ 0, padding = "padding" @ 4, }
        InitIn = "struct fuse_init_in", 64, since 36 {
            major = "major" @ 0, minor = "minor" @ 4, max_readahead_bytes = "max_readahead" @ 8, flags = "flags" @ 12,
            flags2 = "flags2" @ 16, unused = "unused" @ 20,
        }
        VersionOut = "char[FUSE_COMPAT_INIT_OUT_SIZE]", 8, since 23 {}
        InitOut = "struct fuse_init_out", 64, since 23 {
            major = "major" @ 0, minor = "minor" @ 4, max_readahead_bytes = "max_readahead" @ 8, flags = "flags" @ 12,
            max_background = "max_background" @ 16, congestion_threshold = "congestion_threshold" @ 18,
            max_write_bytes = "max_write" @ 20, time_granularity_nanoseconds = "time_gran" @ 24,
            max_pages = "max_pages" @ 28 since 28, map_alignment = "map_alignment" @ 30 since 31,
            flags2 = "flags2" @ 32 since 36, max_stack_depth = "max_stack_depth" @ 36 since 40,
            request_timeout_seconds = "request_timeout" @ 40 since 43, unused = "unused" @ 42 since 43,
        }
        RingHeader = "struct fuse_uring_req_header", 288, since 42 {
            in_out = "in_out" @ 0, operation = "op_in" @ 128, entry = "ring_ent_in_out" @ 256,
        }
        RingEntry = "struct fuse_uring_ent_in_out", 32, since 42 {
            flags = "flags" @ 0, commit_id = "commit_id" @ 8, payload_bytes = "payload_sz" @ 16,
            padding = "padding" @ 20, reserved = "reserved" @ 24,
        }
        RingCommand = "struct fuse_uring_cmd_req", 24, since 42 {
            flags = "flags" @ 0, commit_id = "commit_id" @ 8, queue_id = "qid" @ 16, padding = "padding" @ 18,
        }
    }
}

fn notification_layouts() -> Vec<Layout> {
    structures! {
        NotifyPollOut = "struct fuse_notify_poll_wakeup_out", 8, since 23 { poll_handle = "kh" @ 0, }
        NotifyInvalidateInodeOut = "struct fuse_notify_inval_inode_out", 24, since 23 {
            node_id = "ino" @ 0, offset_bytes = "off" @ 8, size_bytes = "len" @ 16,
        }
        NotifyInvalidateEntryOut = "struct fuse_notify_inval_entry_out", 16, since 23 {
            parent = "parent" @ 0, name_bytes = "namelen" @ 8, flags = "flags" @ 12 since 38,
        }
        NotifyStoreOut = "struct fuse_notify_store_out", 24, since 23 {
            node_id = "nodeid" @ 0, offset_bytes = "offset" @ 8, size_bytes = "size" @ 16, padding = "padding" @ 20,
        }
        NotifyRetrieveOut = "struct fuse_notify_retrieve_out", 32, since 23 {
            notify_unique = "notify_unique" @ 0, node_id = "nodeid" @ 8, offset_bytes = "offset" @ 16,
            size_bytes = "size" @ 24, padding = "padding" @ 28,
        }
        NotifyRetrieveIn = "struct fuse_notify_retrieve_in", 40, since 23 {
            padding_before = "dummy1" @ 0, offset_bytes = "offset" @ 8, size_bytes = "size" @ 16,
            padding = "dummy2" @ 20, padding_after = "dummy3" @ 24,
        }
        NotifyDeleteOut = "struct fuse_notify_delete_out", 24, since 23 {
            parent = "parent" @ 0, child = "child" @ 8, name_bytes = "namelen" @ 16, padding = "padding" @ 20,
        }
        NotifyPruneOut = "struct fuse_notify_prune_out", 16, since 45 {
            count = "count" @ 0, padding = "padding" @ 4, spare = "spare" @ 8,
        }
    }
}

/// A number of the kernel's header: its name, ours, and the minor version that has it.
struct Number {
    name: String,
    since: u32,
    ours: u64,
}

fn number(name: &str, since: u32, ours: impl Into<u64>) -> Number {
    Number { name: name.to_owned(), since, ours: ours.into() }
}

fn numbers() -> Vec<Number> {
    let mut all = vec![
        number("FUSE_KERNEL_VERSION", 23, crate::protocol::initialization::MAJOR),
        number("FUSE_ROOT_ID", 23, crate::protocol::ROOT_NODE_ID),
        number("FUSE_UNIQUE_RESEND", 40, crate::protocol::UNIQUE_RESENT),
        number("FUSE_INVALID_UIDGID", 41, crate::protocol::INVALID_ID),
        number("FUSE_MIN_READ_BUFFER", 23, REQUEST_BUFFER_BYTES_MIN as u64),
        number("FUSE_MAX_NR_SECCTX", 38, SECURITY_CONTEXTS_MAX),
        number("FUSE_EXT_GROUPS", 39, SUPPLEMENTARY_GROUPS_TYPE),
        number("FUSE_DEV_IOC_CLONE", 23, device_ioctl::CLONE),
        number("FUSE_DEV_IOC_SYNC_INIT", 45, device_ioctl::SYNC_INIT),
        number("FUSE_IO_URING_CMD_REGISTER", 42, RING_REGISTER),
        number("FUSE_IO_URING_CMD_COMMIT_AND_FETCH", 42, RING_COMMIT_AND_FETCH),
    ];
    all.extend(
        Opcode::ALL.iter().map(|opcode| number(opcode.kernel_name(), opcode_since(*opcode), opcode.number())),
    );
    all.extend(
        Capabilities::all()
            .iter_names()
            .map(|(name, bit)| number(&format!("FUSE_{name}"), capability_since(bit), bit.bits())),
    );
    all.extend(flag_numbers());
    all.extend(notification_numbers());
    all
}

fn opcode_since(opcode: Opcode) -> u32 {
    match opcode {
        Opcode::Seek => 24,
        Opcode::CopyFileRange => 28,
        Opcode::SetupMapping | Opcode::RemoveMapping => 31,
        Opcode::SyncFileSystem => 34,
        Opcode::TemporaryFile => 37,
        Opcode::Statx => 39,
        Opcode::CopyFileRange64 => 45,
        _ => 23,
    }
}

fn capability_since(bit: Capabilities) -> u32 {
    match bit.bits().trailing_zeros() {
        0..=17 => 23,
        18..=19 => 25,
        20..=21 => 27,
        22..=23 => 28,
        24..=27 => 32,
        28..=29 => 33,
        30..=33 => 36,
        35 => 38,
        34 | 36 => 39,
        37..=39 => 40,
        40 => 41,
        41 => 42,
        _ => 43,
    }
}

fn flag_numbers() -> Vec<Number> {
    use flags::*;
    let changes = [
        "MODE",
        "UID",
        "GID",
        "SIZE",
        "ATIME",
        "MTIME",
        "FH",
        "ATIME_NOW",
        "MTIME_NOW",
        "LOCKOWNER",
        "CTIME",
        "KILL_SUIDGID",
    ];
    let replies = [
        "DIRECT_IO",
        "KEEP_CACHE",
        "NONSEEKABLE",
        "CACHE_DIR",
        "STREAM",
        "NOFLUSH",
        "PARALLEL_DIRECT_WRITES",
        "PASSTHROUGH",
    ];
    let ioctls = ["COMPAT", "UNRESTRICTED", "RETRY", "32BIT", "DIR", "COMPAT_X32"];
    let mut all = vec![
        number("FUSE_GETATTR_FH", 23, GetAttributesFlags::HANDLE.bits()),
        number("FUSE_ATTR_SUBMOUNT", 32, AttributeFlags::SUBMOUNT.bits()),
        number("FUSE_ATTR_DAX", 36, AttributeFlags::DAX.bits()),
        number("FUSE_OPEN_KILL_SUIDGID", 33, OpenRequestFlags::KILL_SET_ID.bits()),
        number("FUSE_READ_LOCKOWNER", 23, ReadFlags::LOCK_OWNER.bits()),
        number("FUSE_WRITE_CACHE", 23, WriteFlags::CACHE.bits()),
        number("FUSE_WRITE_LOCKOWNER", 23, WriteFlags::LOCK_OWNER.bits()),
        number("FUSE_WRITE_KILL_SUIDGID", 33, WriteFlags::KILL_SET_ID.bits()),
        number("FUSE_RELEASE_FLUSH", 23, ReleaseFlags::FLUSH.bits()),
        number("FUSE_RELEASE_FLOCK_UNLOCK", 23, ReleaseFlags::UNLOCK.bits()),
        number("FUSE_FSYNC_FDATASYNC", 31, FsyncFlags::DATA_ONLY.bits()),
        number("FUSE_SETXATTR_ACL_KILL_SGID", 33, SetExtendedAttributeFlags::KILL_SET_GROUP_ID.bits()),
        number("FUSE_LK_FLOCK", 23, LockFlags::WHOLE_FILE.bits()),
        number("FUSE_POLL_SCHEDULE_NOTIFY", 23, PollFlags::SCHEDULE_NOTIFY.bits()),
        number("FUSE_EXPIRE_ONLY", 38, InvalidateEntryFlags::EXPIRE_ONLY.bits()),
    ];
    let named = |prefix: &str, names: &[&str], bits: Vec<u32>, since: u32| {
        assert_eq!(names.len(), bits.len(), "{prefix}");
        let number = |(name, bits): (&&str, u32)| number(&format!("{prefix}{name}"), since, bits);
        names.iter().zip(bits).map(number).collect::<Vec<_>>()
    };
    all.extend(named("FATTR_", &changes, AttributeChanges::all().iter().map(|bit| bit.bits()).collect(), 33));
    let (newest, older) = replies.split_last().unwrap();
    let bits: Vec<u32> = OpenReplyFlags::all().iter().map(|bit| bit.bits()).collect();
    all.extend(named("FOPEN_", older, bits[..older.len()].to_vec(), 38));
    all.extend(named("FOPEN_", &[*newest], bits[older.len()..].to_vec(), 40));
    all.extend(named("FUSE_IOCTL_", &ioctls, IoctlFlags::all().iter().map(|bit| bit.bits()).collect(), 30));
    all
}

fn notification_numbers() -> Vec<Number> {
    let (parent, child, name) = (1, 2, b"n".as_slice());
    let all = [
        ("POLL", 23, Notification::Poll { poll_handle: 0 }),
        (
            "INVAL_INODE",
            23,
            Notification::InvalidateInode { node_id: 1, range: InvalidateRange::AttributesOnly },
        ),
        ("INVAL_ENTRY", 23, Notification::InvalidateEntry { parent, name, flags: Default::default() }),
        ("STORE", 23, Notification::Store { node_id: 1, offset_bytes: 0, data: name }),
        (
            "RETRIEVE",
            23,
            Notification::Retrieve { notify_unique: 0, node_id: 1, offset_bytes: 0, size_bytes: 0 },
        ),
        ("DELETE", 23, Notification::Delete { parent, child, name }),
        ("RESEND", 40, Notification::Resend),
        ("INC_EPOCH", 44, Notification::IncrementEpoch),
        ("PRUNE", 45, Notification::Prune { node_ids: &[] }),
    ];
    let number = |(name, since, notification): (&str, u32, Notification<'_>)| {
        number(&format!("FUSE_NOTIFY_{name}"), since, notification.code().cast_unsigned())
    };
    all.into_iter().map(number).collect()
}

#[test]
fn structures_lie_as_documented() {
    for Layout { expression, ours, documented, .. } in layouts() {
        assert_eq!(ours, documented, "{expression}");
    }
}

#[test]
fn structures_are_padded_to_eight_bytes() {
    for layout in layouts().iter().filter(|layout| layout.expression.starts_with("sizeof")) {
        assert_eq!(layout.ours % 8, 0, "{}", layout.expression);
    }
}

#[test]
fn flags_of_system_calls_are_those_of_rustix() {
    assert_eq!(flags::RenameFlags::NO_REPLACE.bits(), RenameFlags::NOREPLACE.bits());
    assert_eq!(flags::RenameFlags::EXCHANGE.bits(), RenameFlags::EXCHANGE.bits());
    assert_eq!(flags::RenameFlags::WHITEOUT.bits(), RenameFlags::WHITEOUT.bits());
    assert_eq!(flags::SetExtendedAttributeMode::CREATE.bits(), XattrFlags::CREATE.bits());
    assert_eq!(flags::SetExtendedAttributeMode::REPLACE.bits(), XattrFlags::REPLACE.bits());
    let modes = rustix::fs::FallocateFlags::all().bits() & flags::FallocateMode::all().bits();
    assert_eq!(modes, flags::FallocateMode::all().bits());
    assert_eq!(flags::AccessMask::READ.bits(), rustix::fs::Access::READ_OK.bits().cast_unsigned());
    assert_eq!(flags::AccessMask::WRITE.bits(), rustix::fs::Access::WRITE_OK.bits().cast_unsigned());
    assert_eq!(flags::AccessMask::EXECUTE.bits(), rustix::fs::Access::EXEC_OK.bits().cast_unsigned());
}

/// A C program that prints a line for each expression that the installed header has.
fn judge_program(expected: &BTreeMap<String, (u32, u64)>) -> String {
    let mut program =
        "#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <sys/ioctl.h>\n\
        #include <linux/fuse.h>\nint main(void) {\n\
        printf(\"minor %llu\\n\", (unsigned long long)FUSE_KERNEL_MINOR_VERSION);\n"
            .to_owned();
    for (expression, (since, _)) in expected {
        writeln!(
            program,
            "#if FUSE_KERNEL_MINOR_VERSION >= {since}\n\
             printf(\"%s\\t%llu\\n\", \"{expression}\", (unsigned long long)({expression}));\n#endif"
        )
        .unwrap();
    }
    program.push_str("return 0; }\n");
    program
}

/// Compiles the program and runs it. `None` where there is no compiler or no header.
fn run_judge(program: &str) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let (source, binary) = (folder.path().join("judge.c"), folder.path().join("judge"));
    fs::write(&source, program).unwrap();
    let has_header = Command::new("cc")
        .args(["-E", "-include", "linux/fuse.h", "-x", "c", "/dev/null", "-o", "/dev/null"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !has_header {
        return None;
    }
    let compiled = Command::new("cc").arg(&source).arg("-o").arg(&binary).output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let output = Command::new(&binary).output().unwrap();
    assert!(output.status.success());
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn the_kernels_header_agrees() {
    let mut expected: BTreeMap<String, (u32, u64)> = BTreeMap::new();
    for Layout { expression, since, ours, .. } in layouts() {
        expected.insert(expression, (since, ours as u64));
    }
    for Number { name, since, ours } in numbers() {
        expected.insert(name, (since, ours));
    }
    let Some(printed) = run_judge(&judge_program(&expected)) else {
        assert!(!judges::are_required(), "judge linux/fuse.h missing, and UXFS_JUDGES=required");
        let missing = "linux/fuse.h: no cc, or no header";
        judges::judged(judges::SKIPPED_WORD, missing);
        // Past the test harness's capture: a skipped test must be seen.
        let mut terminal = fs::OpenOptions::new().append(true).open("/dev/stderr").unwrap();
        writeln!(terminal, "{}: {missing}", judges::SKIPPED_WORD).unwrap();
        return;
    };
    let (first, printed) = printed.split_once('\n').unwrap();
    let minor: u32 = first.strip_prefix("minor ").unwrap().parse().unwrap();
    let mut compared = 0;
    for line in printed.lines() {
        let (expression, theirs) = line.split_once('\t').unwrap();
        assert_eq!(theirs.parse::<u64>().unwrap(), expected[expression].1, "{expression}");
        compared += 1;
    }
    let newer = expected.values().filter(|(since, _)| *since > minor).count();
    assert_eq!(compared + newer, expected.len());
    judges::judged(
        "linux/fuse.h",
        &format!("7.{minor}: {compared} sizes, offsets and numbers, {newer} are newer"),
    );
    println!("linux/fuse.h 7.{minor}: {compared} compared, {newer} are newer");
}
