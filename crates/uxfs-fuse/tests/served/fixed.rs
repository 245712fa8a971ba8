//! Files that are immutable, or only to be appended to.

use std::{
    fs::{self, File, Permissions},
    io::Write,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
    process::Command,
    thread,
    time::Duration,
};

use super::{Judge, Served, all_ways, require, run};

fn is_refused(program: &str, arguments: &[&str], path: &Path) {
    let outcome = Command::new(program).args(arguments).arg(path).output().unwrap();
    assert!(!outcome.status.success(), "{program} {arguments:?} is not refused");
}

#[test]
fn a_file_that_may_only_be_appended_to_can_be_touched() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    all_ways(|options| {
        Served::new("append-only", 300).used(options, |root| {
            let path = root.join("file");
            fs::write(&path, b"one").unwrap();
            let file = path.to_str().unwrap();
            run("chattr", &["+a", file]);
            File::options().append(true).open(&path).unwrap().write_all(b" two").unwrap();
            run("touch", &["-c", file]);
            // Times that the caller chooses.
            is_refused("touch", &["-c", "-d", "@5"], &path);
            is_refused("touch", &["-c", "-m", "-d", "@5"], &path);
            assert!(fs::set_permissions(&path, Permissions::from_mode(0o600)).is_err());
            run("chattr", &["-a", file]);
            assert_eq!(fs::read(&path).unwrap(), b"one two");
        });
    });
}

/// A file that is open for writing when it becomes immutable is written on, as in other file systems, and keeps the time of it.
#[test]
fn a_file_that_became_immutable_while_it_was_open_is_written_and_synced() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    all_ways(|options| {
        let served = Served::new("immutable", 300);
        let mut written = 0;
        served.used(options, |root| {
            let path = root.join("file");
            let mut file = File::create_new(&path).unwrap();
            file.write_all(b"one").unwrap();
            file.sync_all().unwrap();
            run("chattr", &["+i", path.to_str().unwrap()]);
            thread::sleep(Duration::from_millis(1100));
            file.write_all(b" two").unwrap();
            file.sync_all().unwrap();
            written = file.metadata().unwrap().mtime();
            is_refused("touch", &["-c"], &path);
            is_refused("touch", &["-c", "-m", "-d", "@5"], &path);
            is_refused("chmod", &["600"], &path);
            assert!(File::options().write(true).open(&path).is_err());
            drop(file);
            assert_eq!(fs::read(&path).unwrap(), b"one two");
        });
        served.used(options, |root| {
            assert_eq!(fs::metadata(root.join("file")).unwrap().mtime(), written, "{options}");
            run("chattr", &["-i", root.join("file").to_str().unwrap()]);
        });
        served.image.must_be_sound();
    });
}
