use super::*;
use crate::field_table::OnDisk;

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digits = hexadecimal.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// Read with getxattr from one directory: `trusted.SGI_ACL_FILE` and `system.posix_acl_access` (Linux 6.18).
const STORED: &str = "0000000600000001ffffffff0007000000000002000003e80007000000000004ffffffff0005000000000008\
                      000000640005000000000010ffffffff0007000000000020ffffffff00050000";
const SHOWN: &str = "0200000001000700ffffffff02000700e803000004000500ffffffff080005006400000010000700ffffffff\
                     20000500ffffffff";

#[test]
fn a_stored_acl_is_shown_as_linux_does() {
    let acl = PosixAcl::decode(&bytes(STORED)).unwrap();
    assert_eq!(acl.to_xattr(), bytes(SHOWN));
    assert_eq!(acl.encode(), bytes(STORED));
    let text = "user::rwx\nuser:1000:rwx\ngroup::r-x\ngroup:100:r-x\nmask::rwx\nother::r-x\n";
    assert_eq!(acl.to_string(), text);
    assert_eq!((AclHeader::SIZE_BYTES, AclEntryRecord::SIZE_BYTES), (4, 12));
}

#[test]
fn each_check_rejects_its_damage() {
    let stored = bytes(STORED);
    let patched = |offset: usize, value: &[u8]| {
        let mut copy = stored.clone();
        copy[offset..offset + value.len()].copy_from_slice(value);
        PosixAcl::decode(&copy)
    };
    assert_eq!(patched(3, &[7]), Err(AclFault::Length { length_bytes: 76, count: 7 }));
    let count = 0xffff_ffff;
    assert_eq!(patched(0, &[0xff; 4]), Err(AclFault::Length { length_bytes: 76, count }));
    assert_eq!(PosixAcl::decode(&[0; 3]), Err(AclFault::Length { length_bytes: 3, count: 0 }));
    assert_eq!(patched(7, &[3]), Err(AclFault::Tag { index: 0, tag: 3 }));
    assert_eq!(patched(24, &[0, 8]), Err(AclFault::Permissions { index: 1, permissions: 8 }));
    assert_eq!(PosixAcl::decode(&[0; 4]), Ok(PosixAcl { entries: vec![] }));
}

#[test]
fn what_linux_shows_is_stored_as_linux_does() {
    let acl = PosixAcl::from_xattr(&bytes(SHOWN)).unwrap();
    assert_eq!(acl.encode(), bytes(STORED));
    assert_eq!(acl.verify_rules(), Ok(()));
    assert_eq!(acl.mode_bits(), (0o775, false));
    let version = PosixAcl::from_xattr(&[1, 0, 0, 0]);
    assert_eq!(version, Err(AclFault::Form { length_bytes: 4, version: 1 }));
    assert_eq!(PosixAcl::from_xattr(&[]), Err(AclFault::Form { length_bytes: 0, version: 0 }));
    let half = &bytes(SHOWN)[..8];
    assert_eq!(PosixAcl::from_xattr(half), Err(AclFault::Form { length_bytes: 8, version: 2 }));
    let patched = |offset: usize, value: u8| {
        let mut copy = bytes(SHOWN);
        copy[offset] = value;
        PosixAcl::from_xattr(&copy)
    };
    assert_eq!(patched(4, 3), Err(AclFault::Tag { index: 0, tag: 3 }));
    assert_eq!(patched(6, 9), Err(AclFault::Permissions { index: 0, permissions: 9 }));
}

#[test]
fn rules_are_those_of_linux() {
    use AclTag::{Group, GroupObject, Mask, Other, User, UserObject};
    let judge = |tags: &[AclTag]| {
        let entries = tags.iter().map(|tag| AclEntry { tag: *tag, permissions: 6 }).collect();
        PosixAcl { entries }.verify_rules()
    };
    assert_eq!(judge(&[UserObject, GroupObject, Other]), Ok(()));
    assert_eq!(judge(&[UserObject, GroupObject, Mask, Other]), Ok(()));
    assert_eq!(judge(&[UserObject, User(9), User(1), GroupObject, Group(0), Mask, Other]), Ok(()));
    assert_eq!(judge(&[UserObject, User(1), GroupObject, Other]), Err(AclFault::NoMask));
    assert_eq!(judge(&[UserObject, GroupObject, Group(1), Other]), Err(AclFault::NoMask));
    assert_eq!(judge(&[UserObject, GroupObject]), Err(AclFault::Order { index: 2 }));
    assert_eq!(judge(&[]), Err(AclFault::Order { index: 0 }));
    assert_eq!(judge(&[GroupObject, UserObject, Other]), Err(AclFault::Order { index: 0 }));
    assert_eq!(judge(&[UserObject, UserObject, GroupObject, Other]), Err(AclFault::Order { index: 1 }));
    assert_eq!(judge(&[UserObject, GroupObject, Other, Other]), Err(AclFault::Order { index: 3 }));
    assert_eq!(judge(&[UserObject, GroupObject, User(1), Mask, Other]), Err(AclFault::Order { index: 2 }));
    let unnumbered = [UserObject, User(u32::MAX), GroupObject, Mask, Other];
    assert_eq!(judge(&unnumbered), Err(AclFault::Id { index: 1 }));
    let mut many = vec![UserObject];
    many.extend((0..6000).map(User));
    assert_eq!(judge(&many), Err(AclFault::TooMany { count: 6001 }));
}

#[test]
fn an_acl_that_says_no_more_than_the_mode_is_known() {
    let entry = |tag, permissions| AclEntry { tag, permissions };
    let plain = vec![entry(AclTag::UserObject, 7), entry(AclTag::GroupObject, 4), entry(AclTag::Other, 1)];
    let mut masked = plain.clone();
    masked.insert(2, entry(AclTag::Mask, 2));
    assert_eq!(PosixAcl { entries: plain }.mode_bits(), (0o741, true));
    assert_eq!(PosixAcl { entries: masked }.mode_bits(), (0o721, false));
}
