//! Files that hold an image in another form: compressed, or as the disk of a virtual machine.

use crate::{failure::Failure, kind::Kind};

/// A form, how files of it begin, and how to get the image out of it.
struct Form {
    beginning: &'static [u8],
    name: &'static str,
    remedy: &'static str,
}

const TO_RAW: &str = "convert it: qemu-img convert -O raw";
const FORMS: [Form; 8] = [
    Form { beginning: &[0x28, 0xb5, 0x2f, 0xfd], name: "compressed with zstd", remedy: "unpack it: zstd -d" },
    Form { beginning: &[0x1f, 0x8b], name: "compressed with gzip", remedy: "unpack it: gzip -d" },
    Form { beginning: b"\xfd7zX", name: "compressed with xz", remedy: "unpack it: xz -d" },
    Form { beginning: b"BZh", name: "compressed with bzip2", remedy: "unpack it: bzip2 -d" },
    Form { beginning: &[4, 0x22, 0x4d, 0x18], name: "compressed with lz4", remedy: "unpack it: lz4 -d" },
    Form { beginning: b"QFI\xfb", name: "a qcow2 disk", remedy: TO_RAW },
    Form { beginning: b"KDMV", name: "a VMDK disk", remedy: TO_RAW },
    Form { beginning: b"vhdx", name: "a VHDX disk", remedy: TO_RAW },
];

/// Whether a file that begins with these four bytes holds an image in another form.
pub fn is_known(magic: u32) -> bool {
    form_of(magic).is_some()
}

/// Why a file that begins with these four bytes is no file system: it holds one in another form. `None` where it has none of these forms.
pub fn is_no_file_system(magic: u32) -> Option<Failure> {
    let form = form_of(magic)?;
    let failure = Failure::refused(Kind::NotAFileSystem, format!("{}, and must be raw here", form.name));
    Some(failure.with_remedy(form.remedy))
}

fn form_of(magic: u32) -> Option<&'static Form> {
    FORMS.iter().find(|form| magic.to_be_bytes().starts_with(form.beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_told_by_their_beginning() {
        for form in &FORMS {
            let magic = [form.beginning, &[9; 4]].concat();
            let failure = is_no_file_system(u32::from_be_bytes(magic[..4].try_into().unwrap())).unwrap();
            let (_, _, words) = failure.parts().unwrap();
            assert!(words.contains(form.name) && words.contains(form.remedy), "{words}");
        }
        for beginning in [b"XFSB", b"\0\0\0\0", b"ustr"] {
            assert!(!is_known(u32::from_be_bytes(*beginning)));
        }
    }
}
