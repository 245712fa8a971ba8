//! Files that may be an image: a regular file or a block device.

use std::{
    fs::{self, File, FileType},
    io,
    os::unix::fs::FileTypeExt,
    path::Path,
};

use rustix::fs::{self as system, Mode, OFlags};

/// Opens an image. Everything else is refused before it is opened: opening a named pipe waits for another program, and opening
/// a character device may do anything.
///
/// # Errors
/// It is neither a regular file nor a block device; it cannot be opened.
pub fn open_image(path: &Path, flags: OFlags) -> io::Result<File> {
    refuse_other(fs::metadata(path)?.file_type())?;
    // Another file may have taken its place since.
    let file = File::from(system::open(path, flags | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?);
    refuse_other(file.metadata()?.file_type())?;
    // io_uring would otherwise fail instead of waiting for the device.
    system::fcntl_setfl(&file, system::fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

fn refuse_other(found: FileType) -> io::Result<()> {
    let kind = if found.is_file() || found.is_block_device() {
        return Ok(());
    } else if found.is_dir() {
        "a directory"
    } else if found.is_fifo() {
        "a named pipe"
    } else if found.is_socket() {
        "a socket"
    } else {
        "a character device"
    };
    let message = format!("{kind}, but an image is a regular file or a block device");
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn only_files_and_block_devices_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("file"), "x").unwrap();
        let file = open_image(&path("file"), OFlags::RDWR).unwrap();
        assert!(!system::fcntl_getfl(&file).unwrap().contains(OFlags::NONBLOCK));
        system::mknodat(system::CWD, path("pipe"), system::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .unwrap();
        let _socket = UnixListener::bind(path("socket")).unwrap();
        let others = [
            (path("pipe"), "pipe"),
            (path("socket"), "socket"),
            (path(""), "directory"),
            ("/dev/zero".into(), "character"),
        ];
        for (path, word) in others {
            for flags in [OFlags::RDONLY, OFlags::RDWR] {
                let error = open_image(&path, flags).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
                assert!(error.to_string().contains(word), "{error}");
            }
        }
        assert_eq!(open_image(&path("none"), OFlags::RDONLY).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
