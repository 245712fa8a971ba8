//! Random layers of container images.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use uxfs_testkit::seeds::Random;

/// Names are few, so that layers meet.
fn random_path(random: &mut Random) -> String {
    let names: Vec<&str> =
        (0..=random.below(3)).map(|_| ["a", "b", "c", "d"][random.below(4) as usize]).collect();
    names.join("/")
}

/// A layer: files, links and names that say what is gone.
pub fn random_layer(root: &Path, random: &mut Random) {
    fs::create_dir(root).unwrap();
    let mut files: Vec<PathBuf> = Vec::new();
    let set = |path: &Path, number: u64| {
        let name = format!("user.{number}");
        rustix::fs::setxattr(path, name, &[number as u8; 100], rustix::fs::XattrFlags::empty()).unwrap();
    };
    set(root, random.below(5));
    for number in 0..40 {
        let path = root.join(random_path(random));
        let (directory, name) = (path.parent().unwrap(), path.file_name().unwrap().to_str().unwrap());
        if path.symlink_metadata().is_ok() || fs::create_dir_all(directory).is_err() {
            continue;
        }
        match random.below(8) {
            0 => {
                fs::create_dir(&path).unwrap();
                set(&path, random.below(5));
            }
            1 => symlink(format!("target-{number}"), &path).unwrap(),
            2 => fs::write(directory.join(format!(".wh.{name}")), "").unwrap(),
            3 => fs::write(directory.join(".wh..wh..opq"), "").unwrap(),
            4 if !files.is_empty() => {
                fs::hard_link(&files[random.below(files.len() as u64) as usize], &path).unwrap();
            }
            _ => {
                let length = [0, 10, 5000, 200_000][random.below(4) as usize];
                let content: Vec<u8> = (0..length).map(|at| (at / 7 + number) as u8).collect();
                fs::write(&path, content).unwrap();
                files.push(path);
            }
        }
    }
}
