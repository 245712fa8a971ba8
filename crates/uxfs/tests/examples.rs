//! The examples run, on the arguments that they name.

use std::{
    fs,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
};

/// The examples lie beside the tests; `cargo test` builds both.
fn example(name: &str) -> Command {
    let test = std::env::current_exe().unwrap();
    let target: PathBuf = test.parent().and_then(Path::parent).unwrap().join("examples").join(name);
    assert!(target.exists(), "{}: `cargo test -p uxfs` builds it", target.display());
    Command::new(target)
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn examples_do_what_they_say() {
    let folder = tempfile::tempdir().unwrap();
    let (source, image, out) =
        (folder.path().join("tree"), folder.path().join("disk.img"), folder.path().join("out"));
    fs::create_dir_all(source.join("etc")).unwrap();
    fs::write(source.join("etc/machine-id"), "1").unwrap();
    fs::write(source.join("etc/motd"), "welcome").unwrap();
    assert!(output(example("build").arg(&source).arg(&image)).contains("1 directories, 2 files"));
    output(example("edit").arg(&image).arg("machine"));
    let listing = output(example("list").arg(&image));
    assert!(listing.contains("/etc/motd") && !listing.contains("machine-id"), "{listing}");
    assert!(listing.lines().any(|line| line.starts_with("d0700  1000  1000") && line.ends_with("/srv/user")));
    output(example("extract").arg(&image).arg("/etc").arg(&out));
    assert_eq!(fs::read(out.join("hostname")).unwrap(), b"machine");
    let inode = uxfs::Image::open(&image).unwrap().find("/etc/motd").unwrap().metadata().inode;
    assert_eq!(output(example("paths").arg(&image).arg(inode.to_string())), "/etc/motd\n");
    assert_eq!(output(example("repair").arg(&image)).lines().count(), 1);
    // Without its first superblock it is repaired, once.
    fs::OpenOptions::new().write(true).open(&image).unwrap().write_all_at(&[0; 512], 0).unwrap();
    let repaired = output(example("repair").arg(&image));
    assert!(repaired.contains("write the superblock of group 0 from a copy"), "{repaired}");
    assert!(output(example("repair").arg(&image)).contains(" 0 findings"));
    assert!(!example("paths").arg(&image).arg("1").output().unwrap().status.success());
}
