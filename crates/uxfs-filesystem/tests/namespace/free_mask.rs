//! An inode index that says of an inode in use that it is free: nothing is made in its place.

use uxfs_engine::{bulk::create::NewKind, options::LogOptions};
use uxfs_filesystem::operations::create::NewFile;
use uxfs_format::{
    fault::{Fault, Structure},
    inode::InodeFault,
    units::AgNumber,
};
use uxfs_testkit::{
    image::{TestImage, file},
    judges::{self, Judge},
    require,
};
use uxfs_volume::error::Error;

/// Runs commands of `xfs_db` that change the image, checksums included.
pub fn xfs_db(image: &TestImage, commands: &[String]) {
    let mut command = Judge::XfsDb.command();
    command.args(["-x", "-f"]).args(commands.iter().flat_map(|text| ["-c", text])).arg(&image.path);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn an_inode_in_use_is_not_taken_although_the_index_offers_it() {
    require!(Judge::Mkfs, Judge::XfsDb);
    for options in [&[][..], &["-m", "finobt=0,rmapbt=0,reflink=0"]] {
        let image = TestImage::new("free mask", 320, options, 3);
        let (victim, chunk) = {
            let volume = image.mount();
            let (group, inode) = volume.geometry().split_inode_number(file(&volume, 1)).unwrap();
            assert_eq!(group, AgNumber::new(0));
            let chunk = volume.group(group).inode_chunks().unwrap().next().unwrap().unwrap();
            (chunk.index_of(inode).unwrap(), chunk)
        };
        // In exchange for the last one, so that all counts are right; it writes no number above that.
        let mask: u64 = (!chunk.allocated() | 1 << victim) & !(1 << 63);
        let mut commands = Vec::new();
        for root in ["root", "free_root"].iter().take(if options.is_empty() { 2 } else { 1 }) {
            commands.extend([
                "agi 0".to_owned(),
                format!("addr {root}"),
                format!("write recs[1].free {mask:#x}"),
            ]);
        }
        xfs_db(&image, &commands);
        let before = std::fs::read(&image.path).unwrap();

        let file_system = image.mount_logged(LogOptions::default());
        let root = file_system.open_root().unwrap();
        for kind in [NewKind::Regular, NewKind::Directory] {
            let error = file_system.create(&root, b"new", &NewFile::new(kind, 0o755)).unwrap_err();
            let Error::Corrupt(corruption) = &error else { panic!("{error}") };
            assert_eq!(
                (corruption.structure, corruption.location.inode),
                (Structure::Inode, Some(file(&file_system, 1)))
            );
            assert!(
                matches!(corruption.fault, Fault::Inode(InodeFault::InUseThoughFree { mode }) if mode & 0o170000 == 0o100000)
            );
            assert!(error.to_string().contains("the inode index says that it is free"), "{error}");
        }
        // Nothing has changed, and the file system goes on.
        let handle = file_system.open(file(&file_system, 1)).unwrap();
        file_system.write(&handle, 0, b"still there", uxfs_filesystem::file::Touch::NOTHING).unwrap();
        drop((handle, root));
        file_system.close().unwrap();
        assert_ne!(std::fs::read(&image.path).unwrap(), before, "the write is there");
        let volume = image.mount();
        let mut bytes = [0; 11];
        let inode = volume.inode(file(&volume, 1)).unwrap();
        volume.read_file(&inode, 0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"still there");
        judges::judged("xfs_db", "a free mask that lies was refused");
    }
}
