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
