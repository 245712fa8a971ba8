//! `uxfs mkfs` as its users meet it: as itself and as mkfs.xfs, on files that exist and that do not, on what holds something
//! already or is in use.

use std::{
    fs::{self, File},
    os::unix::fs::{FileExt, symlink},
    path::Path,
    process::{Command, Output},
};

use tempfile::TempDir;
use uxfs_testkit::{
    judges::Judge,
    loop_device::LoopDevice,
    mount::{Access, LoopMount},
    require,
    sparse::Contents,
    verdict,
};

use crate::common::program;

fn uxfs(arguments: &[&str], image: &Path) -> Output {
    Command::new(program()).args(arguments).arg(image).output().unwrap()
}

fn words(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn succeeds(arguments: &[&str], image: &Path) -> String {
    let output = uxfs(arguments, image);
    assert!(output.status.success(), "{arguments:?}: {}", words(&output));
    words(&output)
}

/// Fails with this exit code, saying this.
fn fails(arguments: &[&str], image: &Path, code: i32, saying: &str) {
    let output = uxfs(arguments, image);
    let words = words(&output);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {words}");
    assert!(words.contains(saying), "{arguments:?}: {words}");
}

fn image(folder: &TempDir) -> std::path::PathBuf {
    folder.path().join("image")
}

#[test]
fn a_size_makes_the_file() {
    let folder = TempDir::new().unwrap();
    let image = image(&folder);
    fails(&["mkfs"], &image, 1, "--size");
    // What cannot be is found out before anything stays behind.
    fails(&["mkfs", "--size", "100M"], &image, 2, "300 MiB");
    assert!(!image.exists());
    fails(&["mkfs", "--size", "1G", "-N", "-d", "su=64k"], &image, 2, "stripe");
    fails(&["mkfs", "--size", "1G", "-d", "size=1g"], &image, 2, "given twice");
    succeeds(&["mkfs", "-N", "--size", "1G"], &image);
    assert!(!image.exists());
    let summary = succeeds(&["mkfs", "--size", "1G", "-L", "data"], &image);
    assert!(summary.starts_with(&format!("meta-data={:<22} isize=512", image.display())), "{summary}");
    assert_eq!(fs::metadata(&image).unwrap().len(), 1 << 30);
    let info = succeeds(&["info"], &image);
    assert!(info.starts_with(&summary) && info.contains("label    =data\n"), "{info}");
    assert!(succeeds(&["ls", "-a"], &image).contains("..\n"));
    // Larger, over what is there.
    succeeds(&["mkfs", "-f", "-q", "--size", "2G"], &image);
    assert_eq!(fs::metadata(&image).unwrap().len(), 2 << 30);
}

#[test]
fn through_a_link_it_is_mkfs_xfs() {
    let folder = TempDir::new().unwrap();
    let (link, image) = (folder.path().join("mkfs.xfs"), image(&folder));
    symlink(program(), &link).unwrap();
    File::create(&image).unwrap().set_len(1 << 30).unwrap();
    let run = |arguments: &[&str]| Command::new(&link).args(arguments).output().unwrap();
    let name = image.display().to_string();
    // As systemd-repart and others call it: options joined to their letter, repeated, and behind the device.
    let output = run(&[
        "-fN",
        "-dsize=500m",
        &name,
        "-L",
        "x",
        "-m",
        "reflink=0",
        "-m",
        "uuid=c1b9d5a2-f162-11cf-9ece-0020afc76f16",
        "-K",
    ]);
    let text = words(&output);
    assert!(
        output.status.success() && text.contains("blocks=128000") && text.contains("reflink=0"),
        "{text}"
    );
    assert!(run(&["-V"]).status.success());
    assert!(run(&["-q", "-f", &name]).status.success());
    assert!(!run(&["-q", &name]).status.success(), "it holds a file system now");
    let created = folder.path().join("created");
    let option = format!("file,name={},size=400m", created.display());
    assert!(run(&["-q", "-d", &option]).status.success());
    assert_eq!(fs::metadata(&created).unwrap().len(), 400 << 20);
    let twice = run(&["-N", "-d", &option, &name]);
    assert!(words(&twice).contains("given twice"), "{}", words(&twice));
}

#[test]
fn what_holds_something_is_left_alone() {
    let folder = TempDir::new().unwrap();
    let image = image(&folder);
    let file = File::create(&image).unwrap();
    file.set_len(1 << 30).unwrap();
    file.write_all_at(&[0x53, 0xef], 1080).unwrap();
    for arguments in [&["mkfs"][..], &["mkfs", "-N"]] {
        fails(arguments, &image, 1, "ext4");
    }
    assert_eq!(fs::read(&image).unwrap()[1080..1082], [0x53, 0xef]);
    succeeds(&["mkfs", "-f", "-q"], &image);
    fails(&["mkfs"], folder.path(), 1, "neither a file nor a block device");
}

#[test]
fn what_is_refused_for_its_time_or_its_prototype_leaves_the_old_contents() {
    let folder = TempDir::new().unwrap();
    let image = image(&folder);
    succeeds(&["mkfs", "-q", "--size", "1G"], &image);
    let before = Contents::read(&image).unwrap();
    let prototype = folder.path().join("prototype");
    let host = folder.path().join("none");
    let texts = ["/\n0 0\nd--755 0 0\nname x--644 0 0\n$\n", "/\n0 0\nd--755 0 0\nname ---644 0 0 NONE\n$\n"];
    for text in texts {
        fs::write(&prototype, text.replace("NONE", host.to_str().unwrap())).unwrap();
        fails(&["mkfs", "-f", "-p", prototype.to_str().unwrap()], &image, 1, "line 4");
    }
    let mut command = Command::new(program());
    command.env("SOURCE_DATE_EPOCH", "16299260426").args(["mkfs", "-f"]).arg(&image);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", words(&output));
    assert!(words(&output).contains("cannot be stored"), "{}", words(&output));
    assert!(Contents::read(&image).unwrap() == before, "the old file system is still there");
}

#[test]
fn old_contents_do_not_matter() {
    require!(Judge::XfsRepair, Judge::Kernel);
    let folder = TempDir::new().unwrap();
    let image = image(&folder);
    let garbage: Vec<u8> =
        (0..1u32 << 20).flat_map(|word| (word.wrapping_mul(0x9e37_79b9)).to_le_bytes()).collect();
    for options in [&["mkfs", "-f", "-q", "--unsupported"][..], &["mkfs", "-f", "-q", "-K", "--unsupported"]]
    {
        let file = File::create(&image).unwrap();
        for part in 0..16 {
            file.write_all_at(&garbage, part * garbage.len() as u64).unwrap();
        }
        succeeds(options, &image);
        verdict::repair_is_silent(&image).unwrap();
        let mount = LoopMount::new(&image, Access::ReadWrite).unwrap();
        fs::write(mount.join("file"), [1; 100_000]).unwrap();
        // Mounted, nothing helps.
        fails(&["mkfs", "-f"], &image, 1, "mounted");
        fails(&["mkfs", "-f", "-N"], &image, 1, "mounted");
        mount.unmount().unwrap();
        verdict::repair_is_silent(&image).unwrap();
    }
}

#[test]
fn the_same_variables_give_the_same_bytes() {
    let folder = TempDir::new().unwrap();
    let make = |name: &str| {
        let path = folder.path().join(name);
        let output = Command::new(program())
            .args(["mkfs", "-q", "--size", "300M", "-m", "uuid=c1b9d5a2-f162-11cf-9ece-0020afc76f16"])
            .arg(&path)
            .env("SOURCE_DATE_EPOCH", "1700000000")
            .env("DETERMINISTIC_SEED", "1")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", words(&output));
        fs::read(path).unwrap()
    };
    assert!(make("first") == make("second"));
}

#[test]
fn configuration_files() {
    require!(Judge::Mkfs);
    let folder = TempDir::new().unwrap();
    let image = image(&folder);
    File::create(&image).unwrap().set_len(1 << 30).unwrap();
    let config = folder.path().join("config");
    fs::write(&config, "# old\n[metadata]\nreflink = 0\n[naming]\nparent=0\n").unwrap();
    let options = format!("options={}", config.display());
    let defaults = format!("defaults={}", config.display());
    assert!(succeeds(&["mkfs", "-N", "-c", &options], &image).contains("reflink=0"));
    fails(&["mkfs", "-N", "-c", &options, "-m", "reflink=1"], &image, 2, "more than once");
    assert!(succeeds(&["mkfs", "-N", "-c", &defaults, "-m", "reflink=1"], &image).contains("reflink=1"));
    fs::write(&config, "[metadata]\nnothing=0\n").unwrap();
    fails(&["mkfs", "-N", "-c", &options], &image, 2, "line 2");
    fails(&["mkfs", "-N", "-c", "options=/nonexistent"], &image, 1, "/nonexistent");
    // Written, they are those of mkfs.xfs.
    let sets = [
        "",
        "-b size=1k -i size=512",
        "-i size=1024,maxpct=7 -n size=8k,version=ci",
        "-m finobt=0 -n parent=0",
        "-m autofsck=check -d extszinherit=4,projinherit=9,daxinherit=1 -r extsize=8k",
        "-d extszinherit=0,projinherit=0,rtinherit=1,cowextsize=5 -i maxpct=25",
    ];
    for set in sets {
        let (ours, theirs) = (folder.path().join("ours"), folder.path().join("theirs"));
        let mut arguments = vec!["mkfs"];
        arguments.extend(set.split_whitespace());
        let make = format!("makecfg={}", ours.display());
        arguments.extend(["-c", &make]);
        succeeds(&arguments, &image);
        let mut command = Judge::Mkfs.command();
        command.args(set.split_whitespace()).arg("-c").arg(format!("makecfg={}", theirs.display()));
        assert!(command.arg(&image).output().unwrap().status.success());
        assert_eq!(fs::read_to_string(&ours).unwrap(), fs::read_to_string(&theirs).unwrap(), "{set}");
        fs::remove_file(&theirs).unwrap();
    }
}

#[test]
fn json_says_what_was_made() {
    let folder = TempDir::new().unwrap();
    let image = image(&folder);
    let output = uxfs(&["mkfs", "--json", "--size", "1G", "-L", "x"], &image);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["group_count"], 4);
    assert_eq!(document["label"], "x");
    assert_eq!(document["dry_run"], false);
    assert!(document["written_bytes"].as_u64().unwrap() < 1 << 20);
    let again = uxfs(&["mkfs", "--json"], &image);
    let error: serde_json::Value = serde_json::from_slice(&again.stderr).unwrap();
    assert_eq!(error["error"]["exit_code"], 1);
}

#[test]
fn what_is_not_supported_is_said_by_name() {
    let folder = TempDir::new().unwrap();
    let image = image(&folder);
    for (options, name) in [
        (["-r", "rtdev=/dev/null"], "realtime"),
        (["-m", "metadir=1"], "metadata directory"),
        (["-m", "uquota"], "quota"),
        (["-l", "logdev=/dev/null"], "another device"),
        (["-m", "crc=0"], "version 4"),
    ] {
        fails(&["mkfs", "--size", "1G", options[0], options[1]], &image, 4, name);
        assert!(!image.exists());
    }
}

#[test]
fn block_devices() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    let folder = TempDir::new().unwrap();
    let image = image(&folder);
    File::create(&image).unwrap().set_len(20 << 30).unwrap();
    for sectors in [&[][..], &["-b", "4096"]] {
        let device = LoopDevice::attach(&image, sectors).unwrap();
        let theirs = Judge::Mkfs.command().args(["-f", "-N"]).arg(device.path()).output().unwrap();
        assert_eq!(succeeds(&["mkfs", "-f", "-N"], device.path()).trim_end(), words(&theirs).trim_end());
        for keep in [&["mkfs", "-f", "-q"][..], &["mkfs", "-f", "-q", "-K"]] {
            succeeds(keep, device.path());
            let output = Judge::XfsRepair.command().arg("-n").arg(device.path()).output().unwrap();
            assert!(output.status.success(), "{}", words(&output));
        }
        fails(&["mkfs"], device.path(), 1, "XFS");
        fails(&["mkfs", "-f", "--size", "30G"], device.path(), 1, "cannot be made larger");
        let mount = LoopMount::new(device.path(), Access::ReadWrite).unwrap();
        fails(&["mkfs", "-f"], device.path(), 1, "mounted");
        // Nor through the file behind it.
        fails(&["mkfs", "-f"], &image, 1, "mounted");
        mount.unmount().unwrap();
    }
}
