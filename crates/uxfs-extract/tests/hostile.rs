//! Images that lie: names that lead out, one name for two files, directories within themselves. Made by mkfs.xfs and the kernel,
//! then patched and sealed again.

use std::{
    fs::{self, File},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use uxfs_block::engine::sync::SyncDevice;
use uxfs_engine::options::MountOptions;
use uxfs_extract::{
    directory::{DirectoryOptions, DirectorySink},
    report::{Aspect, Collector, Severity},
    tar::stream::TarSink,
    walk::{ExtractOptions, Start, extract},
};
use uxfs_filesystem::mount;
use uxfs_format::{checksum, geometry::Geometry, inode::core::CHECKSUM_OFFSET_BYTES, units::InodeNumber};
use uxfs_testkit::{
    judges::Judge,
    mount::{Access, LoopMount},
    require,
};
use uxfs_volume::volume::Volume;

struct Hostile {
    folder: TempDir,
    image: PathBuf,
}

impl Hostile {
    /// An image filled by `fill`, beside a directory `outside` with one file.
    fn new(fill: impl FnOnce(&Path) -> Result<()>) -> Result<Self> {
        let folder = TempDir::new()?;
        let image = folder.path().join("image");
        File::create(&image)?.set_len(300 << 20)?;
        let made = Judge::Mkfs.command().args(["-q", "-f"]).arg(&image).status()?;
        ensure!(made.success(), "mkfs.xfs failed");
        let mount = LoopMount::new(&image, Access::ReadWrite)?;
        fill(mount.path())?;
        mount.unmount()?;
        fs::create_dir(folder.path().join("outside"))?;
        fs::write(folder.path().join("outside/victim"), "precious")?;
        Ok(Self { folder, image })
    }

    fn open(&self) -> Result<Volume> {
        let device = SyncDevice::open_read_only(&self.image, 0)?;
        Ok(mount::open_volume(Arc::new(device), &MountOptions::default())?)
    }

    fn inode(&self, path: &str) -> Result<InodeNumber> {
        Ok(self.open()?.resolve(path.as_bytes(), false)?.number)
    }

    /// Replaces the one occurrence of `old` in the inode at `path`, which holds a small directory, and seals it.
    fn patch(&self, path: &str, old: &[u8], new: &[u8]) -> Result<()> {
        let filesystem = self.open()?;
        let number = self.inode(path)?;
        let mut bytes = filesystem.inode_bytes(number)?;
        let literal = bytes.get_mut(176..).context("a short inode")?;
        let places: Vec<usize> =
            (0..literal.len() - old.len()).filter(|at| literal[*at..].starts_with(old)).collect();
        ensure!(places.len() == 1, "{} places", places.len());
        literal[places[0]..places[0] + new.len()].copy_from_slice(new);
        ensure!(checksum::seal(&mut bytes, CHECKSUM_OFFSET_BYTES), "cannot seal");
        let geometry = filesystem.geometry();
        let place = geometry.inode_place(number).context("no place")?;
        let sector = geometry.sector_of_group_block(place.group, place.block).context("no sector")?;
        let offset = Geometry::byte_of_sector(sector) + u64::from(place.offset_bytes);
        let file = File::options().write(true).open(&self.image)?;
        std::os::unix::fs::FileExt::write_all_at(&file, &bytes, offset)?;
        Ok(())
    }

    /// Extracts everything to `to`, twice, and as an archive; checks that nothing else has changed.
    fn extract(&self) -> Result<Collector> {
        let filesystem = self.open()?;
        let start = Start { inode: filesystem.geometry().root_inode, name: None };
        let options = ExtractOptions { workers: 2 };
        let mut archive = TarSink::new(Vec::new());
        extract(&filesystem, &start, &options, &mut archive, &mut Collector::default())?;
        let mut collector = Collector::default();
        for overwrite in [false, true] {
            collector = Collector::default();
            let to = self.folder.path().join(if overwrite { "over" } else { "to" });
            let mut sink = DirectorySink::create(&to, DirectoryOptions { overwrite })?;
            extract(&filesystem, &start, &options, &mut sink, &mut collector)?;
            let outside = self.folder.path().join("outside");
            ensure!(fs::read_dir(&outside)?.count() == 1, "something was made outside");
            ensure!(fs::read(outside.join("victim"))? == b"precious", "the victim was changed");
        }
        let mut names: Vec<_> = fs::read_dir(self.folder.path())?
            .map(|entry| entry.map(|entry| entry.file_name()))
            .collect::<Result<_, _>>()?;
        names.sort();
        ensure!(names == ["image", "outside", "over", "to"], "{names:?}");
        Ok(collector)
    }
}

fn files(root: &Path, names: &[&str]) -> Result<()> {
    for name in names {
        fs::write(root.join(name), name)?;
    }
    Ok(())
}

fn names_that_lead_out() -> Result<()> {
    let hostile = Hostile::new(|root| {
        for directory in ["slash", "up", "zero"] {
            fs::create_dir(root.join(directory))?;
            files(&root.join(directory), &["a-b", "xy", "good"])?;
        }
        fs::create_dir(root.join("up/vw"))?;
        files(&root.join("up/vw"), &["outside"])?;
        files(root, &["plain"])
    })?;
    hostile.patch("slash", b"a-b", b"a/b")?;
    hostile.patch("up", b"xy", b"..")?;
    hostile.patch("up", b"vw", b"..")?;
    hostile.patch("zero", b"xy", b"x\0")?;
    let collector = hostile.extract()?;
    let to = hostile.folder.path().join("to");
    ensure!(fs::read(to.join("plain"))? == b"plain", "the rest is lost");
    ensure!(!collector.problems.is_empty(), "no problem was reported");
    for problem in &collector.problems {
        ensure!(problem.severity == Severity::Damaged, "{problem:?}");
    }
    let about = |path: &[u8]| collector.problems.iter().any(|problem| problem.path.starts_with(path));
    ensure!(about(b"slash") && about(b"up") && about(b"zero"), "{:?}", collector.problems);
    Ok(())
}

fn a_link_and_a_directory_of_one_name() -> Result<()> {
    let hostile = Hostile::new(|root| {
        symlink("../outside", root.join("lnk"))?;
        fs::create_dir(root.join("dir"))?;
        files(&root.join("dir"), &["victim", "planted"])?;
        symlink("../outside/victim", root.join("ln2"))?;
        files(root, &["fil", "plain"])
    })?;
    hostile.patch("/", b"dir", b"lnk")?;
    hostile.patch("/", b"fil", b"ln2")?;
    hostile.extract()?;
    for place in ["to", "over"] {
        let plain = hostile.folder.path().join(place).join("plain");
        ensure!(fs::read(plain)? == b"plain", "the rest is lost");
    }
    // The first comes first; what would go through it is refused.
    let link = fs::read_link(hostile.folder.path().join("to/lnk"))?;
    ensure!(link == Path::new("../outside"), "{link:?}");
    Ok(())
}

fn a_directory_within_itself() -> Result<()> {
    let hostile = Hostile::new(|root| {
        fs::create_dir_all(root.join("a/b"))?;
        fs::create_dir(root.join("c"))?;
        files(&root.join("a"), &["file"])
    })?;
    let number = |path| -> Result<[u8; 4]> { Ok(u32::try_from(hostile.inode(path)?.get())?.to_be_bytes()) };
    let (a, b, c) = (number("a")?, number("a/b")?, number("c")?);
    hostile.patch("a", &b, &a)?;
    hostile.patch("/", &c, &a)?;
    let collector = hostile.extract()?;
    let lost: Vec<_> = collector.problems.iter().map(|problem| problem.path.as_slice()).collect();
    ensure!(lost == [b"a/b".as_slice(), b"c"], "{:?}", collector.problems);
    ensure!(collector.problems.iter().all(|problem| problem.aspect == Aspect::Existence), "aspect");
    ensure!(fs::read(hostile.folder.path().join("to/a/file"))? == b"file", "the rest is lost");
    Ok(())
}

#[test]
fn no_name_leads_out() {
    require!(Judge::Kernel, Judge::Mkfs);
    names_that_lead_out().unwrap();
}

#[test]
fn no_link_is_gone_through() {
    require!(Judge::Kernel, Judge::Mkfs);
    a_link_and_a_directory_of_one_name().unwrap();
}

#[test]
fn no_directory_is_walked_twice() {
    require!(Judge::Kernel, Judge::Mkfs);
    a_directory_within_itself().unwrap();
}
