//! What kernels of several ages are answered.

use proptest::prelude::*;

use super::*;

/// What Linux 6.18 offers.
const LINUX_6_18: InitRequest = InitRequest {
    major: 7,
    minor: 45,
    max_readahead_bytes: 131_072,
    offered: Capabilities::from_words(0x73ff_fffb, 0x5fd),
};

const WANTED: InitReply = InitReply {
    wanted: Capabilities::ASYNC_READ
        .union(Capabilities::MAX_PAGES)
        .union(Capabilities::CREATE_SUPP_GROUP)
        .union(Capabilities::SUBMOUNTS),
    max_readahead_bytes: 1 << 20,
    max_background: 256,
    congestion_threshold: 200,
    max_write_bytes: 1 << 20,
    max_pages: 256,
    time_granularity_nanoseconds: 1,
    max_stack_depth: 1,
    request_timeout_seconds: 30,
};

fn accepted(reply: &InitReply, request: &InitRequest) -> (InitOut, Negotiated) {
    match reply.answer(request) {
        InitAnswer::Accepted { reply, negotiated } => (reply, negotiated),
        other => panic!("{other:?}"),
    }
}

#[test]
fn offers_of_linux_are_understood() {
    let offered = LINUX_6_18.offered;
    assert!(
        offered.contains(Capabilities::SETXATTR_EXT | Capabilities::ALLOW_IDMAP | Capabilities::HAS_RESEND)
    );
    assert!(
        !offered.intersects(Capabilities::FILE_OPS | Capabilities::SUBMOUNTS | Capabilities::MAP_ALIGNMENT)
    );
    assert!(!offered.intersects(Capabilities::HAS_INODE_DAX | Capabilities::OVER_IO_URING));
    assert_eq!(Capabilities::from_words(1, u32::MAX), Capabilities::ASYNC_READ);
}

#[test]
fn replies_hold_what_was_offered() {
    let (reply, negotiated) = accepted(&WANTED, &LINUX_6_18);
    // INIT_EXT, as there is a second word.
    assert_eq!((reply.flags, reply.flags2), (1 | 1 << 22 | 1 << 30, 4));
    assert_eq!((reply.major, reply.minor), (7, 45));
    assert_eq!((reply.max_readahead_bytes, reply.max_write_bytes), (131_072, 1 << 20));
    assert_eq!((reply.max_background, reply.congestion_threshold, reply.max_pages), (256, 200, 256));
    // Without their capability.
    assert_eq!((reply.max_stack_depth, reply.request_timeout_seconds), (0, 0));
    assert!(!negotiated.has_extended_setxattr());
    assert_eq!(negotiated.minor, 45);
    assert!(negotiated.capabilities.contains(Capabilities::INIT_EXT | Capabilities::CREATE_SUPP_GROUP));
    assert!(!negotiated.capabilities.contains(Capabilities::SUBMOUNTS));
}

#[test]
fn limits_need_their_capability() {
    let everything = InitReply { wanted: Capabilities::from_bits_retain(u64::MAX), ..WANTED };
    let (reply, negotiated) = accepted(&everything, &LINUX_6_18);
    assert_eq!(negotiated.capabilities, LINUX_6_18.offered);
    assert!(negotiated.has_extended_setxattr());
    assert_eq!((reply.max_stack_depth, reply.request_timeout_seconds), (1, 30));
    let later = InitRequest { offered: Capabilities::from_bits_retain(u64::MAX), ..LINUX_6_18 };
    assert_eq!(accepted(&everything, &later).1.capabilities, Capabilities::all());
    let (reply, _) = accepted(&InitReply::default(), &LINUX_6_18);
    assert_eq!((reply.flags, reply.flags2, reply.max_pages, reply.max_write_bytes), (0, 0, 0, 4096));
    let (reply, _) = accepted(&InitReply { max_write_bytes: 1, ..WANTED }, &LINUX_6_18);
    assert_eq!(reply.max_write_bytes, 4096);
}

#[test]
fn versions_are_negotiated() {
    let version = |major, minor| InitRequest { major, minor, ..LINUX_6_18 };
    assert_eq!(accepted(&WANTED, &version(7, 31)).0.minor, 31);
    assert_eq!(accepted(&WANTED, &version(7, 99)).0.minor, 45);
    assert_eq!(accepted(&WANTED, &version(7, 23)).1.minor, 23);
    let other = VersionOut { major: 7, minor: 45 };
    assert_eq!(WANTED.answer(&version(8, 0)), InitAnswer::OtherMajor { reply: other });
    assert_eq!(WANTED.answer(&version(6, 99)), InitAnswer::TooOld);
    assert_eq!(WANTED.answer(&version(7, 22)), InitAnswer::TooOld);
}

#[test]
fn buffers_are_large_enough() {
    assert_eq!(request_buffer_bytes(4096), 65_536 + 4096);
    assert_eq!(request_buffer_bytes(1 << 20), (1 << 20) + 4096);
    assert_eq!(ring_payload_bytes(4096, 1), 8192);
    assert_eq!(ring_payload_bytes(1 << 20, 32), 1 << 20);
    assert_eq!(ring_payload_bytes(4096, 256), 1 << 20);
}

proptest! {
    #[test]
    fn no_reply_exceeds_the_offer(wanted: u64, flags: u32, flags2: u32, minor in 23u32..60) {
        let offered = Capabilities::from_words(flags, flags2);
        let request = InitRequest { offered, minor, ..LINUX_6_18 };
        let reply = InitReply { wanted: Capabilities::from_bits_retain(wanted), ..WANTED };
        let (reply, negotiated) = accepted(&reply, &request);
        prop_assert!(offered.contains(negotiated.capabilities));
        prop_assert_eq!(Capabilities::from_words(reply.flags, reply.flags2), negotiated.capabilities);
        prop_assert!(reply.flags2 == 0 || reply.flags >> 30 & 1 == 1);
        prop_assert_eq!(reply.minor, minor.min(MINOR));
    }
}
