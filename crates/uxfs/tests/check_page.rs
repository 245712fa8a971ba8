//! `uxfs check --html`: a page that no name of an image can change.

use std::{
    fs::{self, File},
    io::Read,
    os::unix::fs::{FileTypeExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value as Json;
use tempfile::TempDir;
use uxfs_testkit::{judges::Judge, require, xfs_db::XfsDb};

use crate::common::{program, succeeds, text, uxfs};

const HOSTILE: &str = "<script>alert(1)<!--&\"'";

fn image_in(folder: &TempDir) -> PathBuf {
    let (image, source) = (folder.path().join("image"), folder.path().join("source"));
    let directory = source.join(HOSTILE);
    fs::create_dir_all(&directory).unwrap();
    for file in 0..40 {
        fs::write(directory.join(format!("file-<b>{file}")), [7; 9000]).unwrap();
    }
    succeeds(&["mkfs", "--size", "300M", "--from", text(&source), text(&image)]);
    image
}

/// The first mebibyte.
fn beginning(image: &Path) -> Vec<u8> {
    let mut bytes = vec![0; 1 << 20];
    File::open(image).unwrap().read_exact(&mut bytes).unwrap();
    bytes
}

/// The data of a page, and the page without them.
fn parts(page: &Path) -> (Json, String) {
    let page = fs::read_to_string(page).unwrap();
    let (before, rest) = page.split_once("<script type=\"application/json\" id=\"data\">").unwrap();
    let (data, after) = rest.split_once("</script>").unwrap();
    (serde_json::from_str(data).unwrap(), [before, after].concat())
}

/// The number that a kind of use has in a cell, 35 for all of it.
fn share(data: &Json, cell: usize, kind: &str) -> u32 {
    let kinds = data["kinds"].as_array().unwrap();
    let kind = kinds.iter().position(|name| name == kind).unwrap();
    let shares = data["cells"]["shares"].as_str().unwrap().as_bytes();
    char::from(shares[cell * kinds.len() + kind]).to_digit(36).unwrap()
}

#[test]
fn the_map_shows_uses_and_damage_whatever_names_are() {
    require!(Judge::XfsDb);
    let folder = TempDir::new().unwrap();
    let (image, page) = (image_in(&folder), folder.path().join("map.html"));
    let output = uxfs(&["check", "--html", text(&page), text(&image)]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let (sound, template) = parts(&page);
    assert_eq!((&sound["findings"], &sound["changes"]), (&Json::Array(vec![]), &Json::Array(vec![])));
    // Every cell is accounted for: headers in the first one of each group, free space at the end of the last.
    let cells = &sound["cells"];
    let of_group = cells["cells_per_group"].as_u64().unwrap() as usize;
    let groups = cells["groups"].as_u64().unwrap() as usize;
    assert_eq!(cells["shares"].as_str().unwrap().len(), groups * of_group * 9);
    for group in 0..groups {
        assert!(share(&sound, group * of_group, "headers") > 0, "{group}");
        for cell in group * of_group..(group + 1) * of_group {
            let kinds = sound["kinds"].as_array().unwrap().iter();
            let sum: u32 = kinds.map(|kind| share(&sound, cell, kind.as_str().unwrap())).sum();
            assert!((27..=44).contains(&sum), "{cell}: {sum}");
        }
    }
    let all = |kind| (0..groups * of_group).filter(|cell| share(&sound, *cell, kind) > 0).count();
    assert!(all("data") > 3 && all("directories") > 0 && all("inodes") > 0 && all("log") > 3);

    // The link count of a file whose path would end the page.
    let name = format!("/{HOSTILE}/file-<b>7");
    let found = succeeds(&["stat", "--json", text(&image), &name]);
    let inode =
        serde_json::from_str::<Json>(found.lines().next().unwrap()).unwrap()["inode"].as_u64().unwrap();
    XfsDb::new(&image).write(&[format!("inode {inode}").as_str(), "write -d core.nlinkv2 7"]).unwrap();
    let output = uxfs(&["check", "--summary", "--html", text(&page), text(&image)]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let (damaged, same_template) = parts(&page);
    assert!(template == same_template);
    let finding = &damaged["findings"][0];
    assert_eq!(
        (damaged["findings"].as_array().unwrap().len(), &finding["number"]),
        (1, &70.into()),
        "{finding}"
    );
    assert!(finding["group"].is_u64() && finding["block"].is_u64(), "{finding}");
    let cell = finding["cells"][0].as_u64().unwrap() as usize;
    assert!(share(&damaged, cell, "inodes") > 0);
    let data = fs::read_to_string(&page).unwrap();
    assert!(!data.contains("file-<b>7") && !data.contains("<script>alert"));
    let shown = finding["paths"].to_string();
    assert!(shown.contains("file-<b>7") && shown.contains("<script>alert(1)<!--&"), "{finding}");

    let before = beginning(&image);
    let output = uxfs(&["check", "--html", text(&image), text(&image)]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(beginning(&image) == before);
    let output = uxfs(&["check", "--html", text(&folder.path().join("no/such/folder")), text(&image)]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.ends_with("/no/such: no such directory\n"), "{told}");
    assert_eq!(uxfs(&["check", "--memory", "1M", text(&image)]).status.code(), Some(2));
}

/// A page is written into what is no regular file, and where a link leads: neither is replaced.
#[test]
fn the_page_takes_the_place_of_regular_files_only() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    let image = at("image");
    succeeds(&["mkfs", "--unsupported", "--size", "32M", text(&image)]);
    let check = |page: &Path| uxfs(&["check", "--html", text(page), text(&image)]);
    assert_eq!(check(&at("page")).status.code(), Some(0));
    symlink("page", at("link")).unwrap();
    symlink("new", at("dangling")).unwrap();
    for (link, target) in [("link", "page"), ("dangling", "new")] {
        assert_eq!(check(&at(link)).status.code(), Some(0), "{link}");
        assert!(at(link).is_symlink(), "{link}");
        parts(&at(target));
    }
    let output = check(folder.path());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).ends_with(": it is a directory\n"), "{output:?}");

    let pipe = at("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read(pipe).unwrap()
    });
    assert_eq!(check(&pipe).status.code(), Some(0));
    assert!(reader.join().unwrap().starts_with(b"<!DOCTYPE html>"));
    assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());

    // Standard output, whatever it is.
    let output = check(Path::new("/dev/stdout"));
    assert!(output.stdout.starts_with(b"<!DOCTYPE html>") && output.stdout.ends_with(b": nothing found\n"));
    let mut command = Command::new(program());
    command.args(["check", "--html", "/dev/stdout", text(&image)]);
    assert!(command.stdout(File::create(at("both")).unwrap()).status().unwrap().success());
    assert!(fs::read(at("both")).unwrap() == output.stdout);

    let full = at("full");
    if !Command::new("mknod").args([text(&full), "c", "1", "7"]).status().unwrap().success() {
        println!("only root can make device nodes");
        return;
    }
    let output = check(&full);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.ends_with("/full: cannot write output: No space left on device\n"), "{told}");
    assert!(fs::symlink_metadata(&full).unwrap().file_type().is_char_device());
}
