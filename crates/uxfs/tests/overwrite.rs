//! No command writes over what it reads, by whatever name, nor over a file system that was not meant.

use std::{
    fs,
    os::unix::fs::{FileTypeExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use tempfile::TempDir;
use uxfs_testkit::{image::memory_folder, judges::Judge, loop_device::LoopDevice, require, sparse};

use crate::common::{program, succeeds, text, uxfs};

/// An image with files, its dump, a map, and a tree.
struct Bench {
    folder: TempDir,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir_in(memory_folder()).unwrap();
        let bench = Self { folder };
        let tree = bench.at("tree");
        fs::create_dir_all(tree.join("folder")).unwrap();
        for name in ["file", "image", "folder/image"] {
            fs::write(tree.join(name), b"contents").unwrap();
        }
        let image = bench.path("image");
        succeeds(&["mkfs", "--unsupported", "--size", "64M", "--from", text(&tree), &image]);
        succeeds(&["metadump", &image, &bench.path("dump")]);
        let size = fs::metadata(&image).unwrap().len();
        fs::write(bench.at("map"), format!("0 + 1\n0 {size} +\n")).unwrap();
        fs::write(bench.at("mtree"), "#mtree\n./file type=file\n").unwrap();
        fs::write(bench.at("labels"), "/.* system_u:object_r:file_t:s0\n").unwrap();
        fs::write(bench.at("owners"), "0:1\n").unwrap();
        fs::write(bench.at("config"), "[metadata]\ncrc=1\n").unwrap();
        bench
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn path(&self, name: &str) -> String {
        text(&self.at(name)).to_owned()
    }

    /// Other names of a file: itself, a hard link, a symbolic link.
    fn names(&self, name: &str) -> [String; 3] {
        let [hard, soft] = ["hard", "soft"].map(|kind| self.at(&format!("{name}-{kind}")));
        if !hard.exists() {
            fs::hard_link(self.at(name), &hard).unwrap();
            symlink(name, &soft).unwrap();
        }
        [self.path(name), self.path(text(&hard)), self.path(text(&soft))]
    }

    /// A command that would write over what `kept` names: it is refused, and nothing is changed or made.
    #[track_caller]
    fn refuses(&self, arguments: &[&str], kept: &str, words: &str) {
        let before = (fs::read(self.at(kept)).unwrap(), names_in(self.folder.path()));
        let output = uxfs(arguments);
        let told = told(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {told}");
        assert!(told.contains(words), "{arguments:?}: {told}");
        assert!(before.0 == fs::read(self.at(kept)).unwrap(), "{arguments:?}: {kept} was changed");
        assert_eq!(before.1, names_in(self.folder.path()), "{arguments:?}");
    }
}

fn names_in(folder: &Path) -> Vec<PathBuf> {
    let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    names
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), output.stderr.as_slice()].concat()).into_owned()
}

#[test]
fn the_image_is_no_output() {
    let bench = Bench::new();
    let (image, to) = (&bench.path("image"), &bench.path("to"));
    for name in &bench.names("image") {
        let commands: [&[&str]; 9] = [
            &["rescue", image, "--to", to, "--manifest", name],
            &["rescue", image, "--tar", name],
            &["rescue", name, "--tar", image],
            &["extract", image, "--tar", name],
            &["get", image, "/file", name],
            &["metadump", image, name],
            &["check", "--html", name, image],
            &["repair", "--undo", name, image],
            &["undo", "--undo", name, image],
        ];
        for arguments in commands {
            bench.refuses(arguments, "image", "itself would be overwritten");
        }
        // These open it for changes.
        let script = format!("get /file {name}");
        for arguments in [&["put", image, name, "/copy"][..], &["shell", image, "-c", &script]] {
            let output = uxfs(arguments);
            assert_eq!(output.status.code(), Some(2), "{}", told(&output));
            assert!(told(&output).contains("itself would be overwritten"), "{}", told(&output));
            assert_eq!(succeeds(&["ls", image]), "file\nfolder\nimage\n");
        }
    }
}

#[test]
fn other_inputs_are_no_outputs_either() {
    let bench = Bench::new();
    let (image, new) = (&bench.path("image"), &bench.path("new"));
    for name in &bench.names("map") {
        bench.refuses(
            &["rescue", image, "--map", name, "--to", new, "--manifest", &bench.path("map")],
            "map",
            "the map itself",
        );
        bench.refuses(
            &["rescue", image, "--map", &bench.path("map"), "--tar", name],
            "map",
            "the map itself",
        );
    }
    for name in &bench.names("dump") {
        bench.refuses(&["mdrestore", "-f", &bench.path("dump"), name], "dump", "the dump itself");
    }
    let dump = fs::File::open(bench.at("dump")).unwrap();
    let mut command = Command::new(program());
    let output =
        command.args(["mdrestore", "-f", "-", &bench.path("dump")]).stdin(Stdio::from(dump)).output();
    assert_eq!(output.unwrap().status.code(), Some(2));
    let tree = &bench.path("tree");
    for (option, input) in [
        ("--manifest", "mtree"),
        ("--file-contexts", "labels"),
        ("--owner-map", "owners"),
        ("--from", "mtree"),
    ] {
        for name in &bench.names(input) {
            let arguments = ["mkfs", "-f", "--size", "64M", "--from", tree, option, name, &bench.path(input)];
            bench.refuses(&arguments, input, "itself would be overwritten");
        }
    }
    let config = format!("options={}", bench.path("config"));
    bench.refuses(
        &["mkfs", "-f", "--size", "64M", "-c", &config, &bench.path("config")],
        "config",
        "the configuration file itself",
    );
    bench.refuses(&["rescue", image, "--tar", new, "--manifest", new], "image", "two outputs");
    let around = &bench.path("tree/../new");
    bench.refuses(&["rescue", image, "--tar", new, "--manifest", around], "image", "two outputs");
    // Two files are two places.
    succeeds(&["rescue", image, "--tar", new, "--manifest", &bench.path("manifest")]);
}

/// A name in the image that is that of the image file on the host.
#[test]
fn files_do_not_take_the_place_of_the_image() {
    let bench = Bench::new();
    let (image, here) = (&bench.path("image"), &bench.path("."));
    bench.refuses(&["extract", image, "--to", here, "--overwrite"], "image", "take the place of the image");
    bench.refuses(
        &["extract", image, "/image", "--to", here, "--overwrite"],
        "image",
        "take the place of the image",
    );
    bench.refuses(&["extract", image, "/folder/.", "--to", here, "--overwrite"], "image", "take the place");
    bench.refuses(&["get", "-r", image, "/", here], "image", "take the place of the image");
    bench.refuses(&["get", image, "/folder/image", here], "image", "the image itself");
    bench.refuses(&["rescue", image, "--to", here, "--resume"], "image", "lies in the directory");
    // Nothing of that name is there.
    succeeds(&["extract", image, "/file", "--to", here, "--overwrite"]);
    succeeds(&["extract", image, "/folder", "--to", here, "--overwrite"]);
    let elsewhere = &bench.path("elsewhere");
    succeeds(&["extract", image, "--to", elsewhere, "--overwrite"]);
    succeeds(&["get", image, "/image", elsewhere]);
}

#[test]
fn another_file_system_is_not_replaced() {
    let bench = Bench::new();
    let (image, other) = (&bench.path("image"), &bench.path("other"));
    sparse::copy(image, other).unwrap();
    let to = &bench.path("to");
    let make = format!("makecfg={other}");
    let commands: [&[&str]; 7] = [
        &["check", "--html", other, image],
        &["rescue", image, "--tar", other],
        &["rescue", image, "--to", to, "--manifest", other],
        &["extract", image, "--tar", other],
        &["metadump", image, other],
        &["repair", "--undo", other, image],
        &["mkfs", "--size", "300M", "-c", &make, &bench.path("new")],
    ];
    for arguments in commands {
        bench.refuses(arguments, "other", "holds an XFS file system");
    }
}

/// An option of another command, or two swapped arguments, destroy no file.
#[test]
fn only_files_of_the_same_kind_are_replaced() {
    let bench = Bench::new();
    let (image, new) = (&bench.path("image"), &bench.path("new"));
    let commands = |file: &str, to: &str| {
        let words = [
            format!("check --html {file} {image}"),
            format!("rescue {image} --tar {file}"),
            format!("rescue {image} --to {to} --manifest {file}"),
            format!("extract {image} --tar {file}"),
            format!("metadump {image} {file}"),
            format!("mkfs --size 300M -c makecfg={file} {new}"),
        ];
        words.map(|words| words.split(' ').map(str::to_owned).collect::<Vec<_>>())
    };
    let run = |arguments: &[String]| uxfs(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    // A map of ddrescue, which other commands read.
    let map = &bench.path("map");
    for arguments in commands(map, &bench.path("to")) {
        bench.refuses(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), "map", "is not replaced");
    }
    let before = fs::read(map).unwrap();
    assert!(!uxfs(&["repair", "--undo", map, image]).status.success());
    assert!(fs::read(map).unwrap() == before);
    // What a command has made it makes again, and an empty file holds nothing.
    for index in 0..6 {
        let file = bench.path(&format!("made{index}"));
        for time in 0..3 {
            let arguments = &commands(&file, &bench.path(&format!("to{time}")))[index];
            let output = run(arguments);
            assert!(output.status.success(), "{arguments:?}: {}", told(&output));
            assert!(fs::metadata(&file).unwrap().len() > 0, "{arguments:?}");
            if time == 1 {
                fs::write(&file, "").unwrap();
            }
        }
    }
    for (command, words) in [
        ("check", "An existing page is replaced, and no other file"),
        ("rescue", "An existing manifest is replaced, and no other file"),
        ("rescue", "An existing archive is replaced, and no other file"),
        ("extract", "An existing archive is replaced, and no other file"),
        ("metadump", "An existing dump is replaced, and no other file"),
    ] {
        let help = succeeds(&[command, "--help"]).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains(words), "{command}: {help}");
    }
}

/// A loop device and its file are one place, seen from either side; so are two loop devices.
#[test]
fn loop_devices_lead_to_their_files() {
    require!(Judge::Kernel);
    let folder = TempDir::new().unwrap();
    let at = |name: &str| text(&folder.path().join(name)).to_owned();
    let image = at("image");
    succeeds(&["mkfs", "--unsupported", "--size", "64M", &image]);
    succeeds(&["metadump", &image, &at("dump")]);
    let attach = |path: &str, options: &[&str]| LoopDevice::attach(Path::new(path), options).unwrap();
    let devices = [attach(&image, &["-r"]), attach(&image, &["-r"]), attach(&at("dump"), &[])];
    let [one, two, dump] = devices.each_ref().map(|device| text(device.path()));
    let before = fs::read(&image).unwrap();
    let commands: [&[&str]; 11] = [
        &["rescue", one, "--tar", &image],
        &["rescue", &image, "--tar", one],
        &["rescue", one, "--tar", two],
        &["rescue", one, "--to", &at("to"), "--manifest", &image],
        &["extract", one, "--tar", &image],
        &["get", one, "/", &image],
        &["metadump", one, &image],
        &["metadump", &image, one],
        &["check", "--html", &image, one],
        &["repair", "--undo", &image, one],
        &["mdrestore", "-f", &at("dump"), dump],
    ];
    let outputs: Vec<_> = commands.iter().map(|arguments| (arguments, uxfs(arguments))).collect();
    for (arguments, output) in outputs {
        let told = told(&output);
        let is_get = arguments[0] == "get";
        assert!(output.status.code() == Some(2) || is_get, "{arguments:?}: {told}");
        assert!(told.contains("itself would be overwritten") || is_get, "{arguments:?}: {told}");
    }
    assert!(before == fs::read(&image).unwrap());
}

#[test]
fn what_cannot_be_written_as_a_whole_replaces_nothing() {
    let bench = Bench::new();
    let (image, kept, missing) = (&bench.path("image"), &bench.path("kept"), &bench.path("missing/output"));
    let archive = &bench.path("archive");
    succeeds(&["rescue", image, "--tar", archive, "--manifest", kept]);
    let before = [kept, archive].map(|path| fs::read(path).unwrap());
    for arguments in [
        &["rescue", image, "--to", missing, "--manifest", kept][..],
        &["rescue", image, "--tar", missing, "--manifest", kept],
        &["rescue", image, "--tar", archive, "--manifest", missing],
    ] {
        let output = uxfs(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", told(&output));
        assert!(told(&output).contains("no such directory"), "{arguments:?}: {}", told(&output));
        assert!([kept, archive].map(|path| fs::read(path).unwrap()) == before, "{arguments:?}");
    }
    // A limit on the length of files stands for a host that is full.
    let new = &bench.path("new");
    for command in ["metadump IMAGE NEW", "extract IMAGE / --tar NEW"] {
        let command = command.replace("IMAGE", image).replace("NEW", new);
        let output = with_short_files(&command);
        assert!(!output.status.success(), "{command}");
        assert!(!Path::new(new).exists(), "{command}: {}", told(&output));
    }
}

fn with_short_files(command: &str) -> Output {
    let script = format!("ulimit -f 4; exec {} {command}", program());
    Command::new("bash").args(["-c", &script]).output().unwrap()
}

/// A write beyond RLIMIT_FSIZE fails with EFBIG and does not kill the command.
#[test]
fn a_limit_on_the_length_of_files_is_told() {
    let bench = Bench::new();
    let (image, new) = (&bench.path("image"), &bench.path("new"));
    let commands = [
        "mkdir IMAGE /new",
        "admin --label new IMAGE",
        "copy IMAGE NEW",
        "rm IMAGE /file",
        "mkfs --size 300M NEW",
    ];
    for command in commands {
        let command = command.replace("IMAGE", image).replace("NEW", new);
        let output = with_short_files(&command);
        assert_eq!(output.status.code(), Some(1), "{command}: {output:?}");
        assert!(told(&output).contains("File too large"), "{command}: {}", told(&output));
    }
    succeeds(&["check", "-q", image]);
}

/// A device or pipe that is named takes the bytes, as with cp. No file takes the place of a device.
#[test]
fn devices_and_pipes_of_the_host_stay() {
    require!(Judge::Kernel);
    let bench = Bench::new();
    let (image, at) = (&bench.path("image"), |name: &str| bench.path(name));
    fs::create_dir(bench.at("devices")).unwrap();
    // The numbers of /dev/null and /dev/full.
    let nodes = [("devices/file", "3"), ("devices/full", "7"), ("devices/folder", "3")];
    for (node, minor) in nodes {
        assert!(Command::new("mknod").args([&at(node), "c", "1", minor]).status().unwrap().success());
    }
    symlink("file", bench.at("devices/link")).unwrap();
    let stay = || {
        let is_device = |name: &str| fs::metadata(bench.at(name)).unwrap().file_type().is_char_device();
        assert!(nodes.iter().all(|(node, _)| is_device(node)));
        assert!(bench.at("devices/link").is_symlink());
    };
    for target in ["devices/file", "devices/link"] {
        succeeds(&["get", image, "/file", &at(target)]);
        stay();
    }
    let devices = &at("devices");
    for (arguments, words) in [
        (&["get", image, "/file", &at("devices/full")][..], "No space left"),
        (&["get", image, "/file", devices], "a device node is there"),
        (&["get", "-r", image, "/folder", devices], "a device node is there"),
        (&["extract", image, "/", "--to", devices, "--overwrite"], "a device node is there"),
        (&["get", "-r", image, "/folder", &at("devices/file")], "directory"),
        (&["get", "-n", image, "/file", &at("devices/file")], "exists"),
        (&["copy", "-f", image, &at("devices/full")], "neither a file nor a block device"),
    ] {
        let output = uxfs(arguments);
        assert!(!output.status.success(), "{arguments:?}");
        assert!(told(&output).contains(words), "{arguments:?}: {}", told(&output));
        stay();
    }
    // A pipe, and what /dev/stdout is.
    let fifo = &at("fifo");
    assert!(Command::new("mkfifo").arg(fifo).status().unwrap().success());
    let reader = Command::new("cat").arg(fifo).stdout(Stdio::piped()).spawn().unwrap();
    succeeds(&["get", image, "/file", fifo]);
    assert_eq!(reader.wait_with_output().unwrap().stdout, b"contents");
    symlink("/proc/self/fd/1", bench.at("stdout")).unwrap();
    assert_eq!(succeeds(&["get", image, "/file", &at("stdout")]), "contents");
    assert!(bench.at("stdout").is_symlink());
}
