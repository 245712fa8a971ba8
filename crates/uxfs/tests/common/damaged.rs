//! Damaged images for commands that walk through trees: none may hang or panic.

use std::{
    fs,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;
use uxfs_format::checksum;
use uxfs_testkit::{
    image,
    mount::{Access, LoopMount},
    seeds::Random,
    sparse,
    xfs_db::XfsDb,
};

use crate::common::program;

/// Damages for each command.
const DAMAGES: u64 = 30;
/// Blocks of one damage.
const BLOCKS: usize = 6;
const LONGEST: Duration = Duration::from_secs(20);

/// An image, and commands on it.
pub struct Damaged {
    folder: TempDir,
}

impl Damaged {
    /// An empty image that the kernel fills.
    fn new(fill: impl FnOnce(&Path)) -> Self {
        let folder = TempDir::with_prefix_in("uxfs-damaged-", image::memory_folder()).unwrap();
        let damaged = Self { folder };
        image::make(&damaged.image(), 300 << 20, &[]).unwrap();
        let mount = LoopMount::new(&damaged.image(), Access::ReadWrite).unwrap();
        fill(mount.path());
        mount.unmount().unwrap();
        damaged
    }

    pub fn image(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    /// Runs a command in which `IMAGE` stands for the image.
    pub fn uxfs(&self, words: &[&str]) -> Output {
        let image = self.image();
        let words = words.iter().map(|word| if *word == "IMAGE" { image.to_str().unwrap() } else { word });
        let mut command = Command::new(program());
        let folder = self.folder.path();
        // Into files: a pipe that is full would look like a hang.
        let (out, error) = (folder.join("out"), folder.join("error"));
        command.args(words).stdin(Stdio::null());
        command.stdout(fs::File::create(&out).unwrap()).stderr(fs::File::create(&error).unwrap());
        let status = ends(command.spawn().unwrap());
        Output { status, stdout: fs::read(out).unwrap(), stderr: fs::read(error).unwrap() }
    }
}

fn ends(mut child: Child) -> std::process::ExitStatus {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if began.elapsed() > LONGEST {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("the command hangs");
        }
        thread::sleep(Duration::from_millis(3));
    }
}

/// A directory with an entry that leads to the directory above it.
pub fn looped() -> Damaged {
    let mut numbers = (0, 0);
    let damaged = Damaged::new(|root| {
        fs::create_dir_all(root.join("outer/inner/loop")).unwrap();
        let number = |path: &str| fs::metadata(root.join(path)).unwrap().ino();
        numbers = (number("outer"), number("outer/inner"));
    });
    let (outer, inner) = numbers;
    let set = format!("write -d u3.sfdir3.list[0].inumber.i4 {outer}");
    XfsDb::new(damaged.image()).write(&[format!("inode {inner}"), set]).unwrap();
    damaged
}

/// Makes the checksums of a block right again.
fn seal(block: &mut [u8]) {
    if block.starts_with(b"IN") {
        for inode in block.chunks_mut(512) {
            checksum::seal(inode, 100);
        }
        return;
    }
    let is_data = block.starts_with(b"XD");
    checksum::seal(block, if is_data { 4 } else { 12 });
}

/// Runs a command on images with random bytes in their metadata, with wrong checksums and with right ones.
pub fn survives(words: &[&str]) {
    let damaged = Damaged::new(|root| {
        for number in 0..300_u32 {
            let folder = root.join(format!("folder-{}/deeper", number % 7));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(format!("a-file-with-a-rather-long-name-{number}")), "contents").unwrap();
            fs::create_dir_all(root.join(format!("wide/directory-{number:04}"))).unwrap();
        }
    });
    let sound = fs::read(damaged.image()).unwrap();
    // Metadata and contents are all that is not zero; the log is, too.
    let blocks: Vec<usize> = (1..sound.len() / 4096)
        .filter(|block| {
            let bytes = &sound[block * 4096..(block + 1) * 4096];
            [&b"IN"[..], b"XDB3", b"XDD3", b"3DTR"].iter().any(|magic| bytes.starts_with(magic))
                || bytes[8..].starts_with(b"\x3d\xf1")
                || bytes[8..].starts_with(b"\x3e\xbe")
        })
        .collect();
    assert!(blocks.len() > 20);
    let mut random = Random::new(words.len() as u64);
    let mut codes = Vec::new();
    for number in 0..DAMAGES {
        let file = fs::OpenOptions::new().write(true).open(damaged.image()).unwrap();
        let hit: Vec<usize> = (0..BLOCKS).map(|_| blocks[random.index(blocks.len())]).collect();
        for block in &hit {
            let mut bytes = sound[block * 4096..(block + 1) * 4096].to_vec();
            for _ in 0..4 {
                let at = random.index(bytes.len());
                bytes[at] = random.next_u64() as u8;
            }
            if number % 3 > 0 {
                seal(&mut bytes);
            }
            file.write_all_at(&bytes, (block * 4096) as u64).unwrap();
        }
        let output = damaged.uxfs(words);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        let code = output.status.code();
        assert!(
            matches!(code, Some(0 | 1 | 3 | 4)) && !told.contains("panicked"),
            "{words:?}: {code:?} {told}"
        );
        codes.push(code);
        for block in &hit {
            file.write_all_at(&sound[block * 4096..(block + 1) * 4096], (block * 4096) as u64).unwrap();
        }
    }
    assert!(codes.contains(&Some(3)), "{words:?}: nothing was hit: {codes:?}");
    let output = damaged.uxfs(words);
    assert_eq!(output.status.code(), Some(0), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Copies of a small image with files in a few directories, each with some bytes of its metadata damaged.
pub struct DamagedCopies {
    folder: TempDir,
    random: Random,
}

impl DamagedCopies {
    /// Bytes that may be hit: all metadata of the small image lies there, behind the superblock, which stays.
    const HIT_BYTES: std::ops::Range<u64> = 4096..400 * 4096;
    /// Places of one copy.
    const PLACES: usize = 40;

    pub fn new(random: Random) -> Self {
        let folder = TempDir::with_prefix_in("uxfs-copies-", image::memory_folder()).unwrap();
        let copies = Self { folder, random };
        for directory in ["a", "a/b", "a/b/c", "d"] {
            let directory = copies.source().join(directory);
            fs::create_dir_all(&directory).unwrap();
            for number in 0..150 {
                let text = format!("needle {number}\n");
                fs::write(directory.join(format!("file-{number}.txt")), text).unwrap();
            }
        }
        let (source, sound) = (copies.source(), copies.sound());
        let words =
            ["mkfs", "-q", "--size", "300M", "--from", source.to_str().unwrap(), sound.to_str().unwrap()];
        ended(&words, LONGEST);
        copies
    }

    /// The files that the image was made of.
    pub fn source(&self) -> PathBuf {
        self.folder.path().join("source")
    }

    /// The image without damage.
    pub fn sound(&self) -> PathBuf {
        self.folder.path().join("sound")
    }

    /// Another copy, in the place of the one before.
    pub fn damage(&mut self) -> PathBuf {
        let copy = self.folder.path().join("copy");
        sparse::copy(self.sound(), &copy).unwrap();
        let file = fs::OpenOptions::new().write(true).open(&copy).unwrap();
        for _ in 0..Self::PLACES {
            let hit = Self::HIT_BYTES;
            let place = hit.start + self.random.below(hit.end - hit.start);
            let bytes = self.random.next_u64().to_le_bytes();
            file.write_all_at(&bytes[..1 + self.random.index(8)], place).unwrap();
        }
        copy
    }
}

/// Runs a command, which ends in time and without a panic. Gives its exit code, its output, and what it says on standard error.
pub fn ended(words: &[&str], most: Duration) -> (i32, Output, String) {
    let began = Instant::now();
    let output = Command::new(program()).args(words).output().unwrap();
    assert!(began.elapsed() < most, "{words:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!said.contains("panicked"), "{words:?}: {said}");
    let code = output.status.code().unwrap();
    assert!(code <= 4, "{words:?}: {code} {said}");
    (code, output, said)
}
