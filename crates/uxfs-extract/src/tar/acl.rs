//! POSIX access control lists: from the form of the VFS attributes to the text in archives.

use super::pax::Decimal;

const VERSION: u32 = 2;
const ENTRY_BYTES: usize = 8;

/// Appends `user::rwx,user:1000:r-x,…` for the value of `system.posix_acl_access` or `…_default`. Ids stay numbers: the
/// names of the machine that reads an image say nothing about the users in it. `None` where the value is no list.
pub fn append_text(value: &[u8], text: &mut Vec<u8>) -> Option<()> {
    let (version, entries) = value.split_first_chunk::<4>()?;
    if u32::from_le_bytes(*version) != VERSION || entries.len() % ENTRY_BYTES != 0 {
        return None;
    }
    let mut separator: &[u8] = b"";
    for entry in entries.chunks_exact(ENTRY_BYTES) {
        let (tag, rest) = entry.split_first_chunk::<2>()?;
        let (permissions, rest) = rest.split_first_chunk::<2>()?;
        let id = u32::from_le_bytes(*rest.first_chunk::<4>()?);
        let (who, has_id): (&[u8], bool) = match u16::from_le_bytes(*tag) {
            0x01 => (b"user:", false),
            0x02 => (b"user:", true),
            0x04 => (b"group:", false),
            0x08 => (b"group:", true),
            0x10 => (b"mask:", false),
            0x20 => (b"other:", false),
            _ => return None,
        };
        text.extend_from_slice(separator);
        text.extend_from_slice(who);
        if has_id {
            text.extend_from_slice(Decimal::new(id.into()).as_bytes());
        }
        let permissions = u16::from_le_bytes(*permissions);
        let letter = |bit: u16, letter: u8| if permissions & bit != 0 { letter } else { b'-' };
        text.extend_from_slice(&[b':', letter(4, b'r'), letter(2, b'w'), letter(1, b'x')]);
        separator = b",";
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut value = VERSION.to_le_bytes().to_vec();
        for (tag, permissions, id) in entries {
            value.extend(tag.to_le_bytes());
            value.extend(permissions.to_le_bytes());
            value.extend(id.to_le_bytes());
        }
        value
    }

    #[test]
    fn every_tag() {
        let value = list(&[
            (1, 7, u32::MAX),
            (2, 5, 1000),
            (4, 4, u32::MAX),
            (8, 6, 4_000_000_000),
            (16, 7, u32::MAX),
            (32, 0, u32::MAX),
        ]);
        let mut text = Vec::new();
        append_text(&value, &mut text).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "user::rwx,user:1000:r-x,group::r--,group:4000000000:rw-,mask::rwx,other::---"
        );
    }

    #[test]
    fn not_a_list() {
        assert_eq!(append_text(b"", &mut Vec::new()), None);
        assert_eq!(append_text(&[1, 0, 0, 0], &mut Vec::new()), None);
        assert_eq!(append_text(&[2, 0, 0, 0, 1], &mut Vec::new()), None);
        assert_eq!(append_text(&list(&[(3, 7, 0)]), &mut Vec::new()), None);
    }
}
