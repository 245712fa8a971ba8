//! File systems that are mounted through FUSE and used as any other: by the standard library and by real programs. Afterwards `xfs_repair`
//! and the kernel look at the image.

mod fixed;
mod holes;
mod ioctls;
mod lending;
mod rings;
mod room;
mod set_id;
mod slow;
mod stale;

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{Read, Seek, SeekFrom, Write},
    os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    thread,
    time::Duration,
};

use tempfile::TempDir;
use uxfs_engine::options::LogOptions;
use uxfs_fuse::{
    mounting::{self, direct, options::FuseMountOptions},
    protocol::initialization::Capabilities,
    server::{Server, settings::Settings},
    session::{self, Served as _},
};
use uxfs_testkit::{image::TestImage, judges::Judge, require, watchdog::Watchdog};
use uxfs_volume::error::Error;

/// An image that is mounted while a test uses it.
struct Served {
    image: TestImage,
    folder: TempDir,
}

impl Served {
    fn new(name: &str, size_mebibytes: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("mount")).unwrap();
        Self { image: TestImage::new(name, size_mebibytes, &[], 0), folder }
    }

    fn mount_point(&self) -> PathBuf {
        self.folder.path().join("mount")
    }

    /// Mounts with these options, uses the mount, unmounts, and closes the file system.
    fn used(&self, options: &str, usage: impl FnOnce(&Path) + Send) {
        self.used_and_closed(options, |server| server, usage).unwrap();
    }

    /// As [`used`](Self::used), served by what `wrap` makes of the server. Gives whether the image is whole.
    fn used_and_closed<S: session::Served>(
        &self,
        options: &str,
        wrap: impl FnOnce(Arc<Server>) -> S,
        usage: impl FnOnce(&Path) + Send,
    ) -> Result<(), Error> {
        let options = FuseMountOptions::parse(options).unwrap();
        let file_system =
            self.image.mount_logged(LogOptions { has_background: true, ..LogOptions::default() });
        let server = Arc::new(Server::new(file_system, Settings::of(&options)));
        let mut mounted =
            mounting::mount(OsStr::new(&self.image.path), &self.mount_point(), &options).unwrap();
        let mount_point = mounted.mount_point().to_path_buf();
        let service = wrap(Arc::clone(&server));
        let _watchdog = Watchdog::new(&[&mount_point]);
        let outcome = thread::scope(|scope| {
            let serving = scope.spawn(|| {
                let prepared = session::prepare(server.settings(), None);
                let devices = session::devices(&mut mounted, None).unwrap();
                session::serve(&service, devices, prepared, || session::set_kernel_limits(&mounted))
            });
            let used = scope.spawn(|| usage(&mount_point)).join();
            if direct::unmount(&mount_point, false).is_err() {
                thread::sleep(Duration::from_millis(200));
                drop(direct::unmount(&mount_point, true));
            }
            serving.join().unwrap().unwrap();
            used
        });
        if options.has_ring == Some(true) {
            let capabilities = server.negotiated().unwrap().capabilities;
            assert!(capabilities.contains(Capabilities::OVER_IO_URING));
        }
        let closed = server.close();
        drop((service, server));
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
        closed
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{program} {arguments:?}: {text}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// With and without the kernel's write cache, through `/dev/fuse` and through rings.
fn all_ways(test: impl Fn(&str)) {
    test("nouring");
    test("nouring,no_writeback_cache");
    if let Some(_rings) = rings::turned_on() {
        test("uring");
    }
}

#[test]
fn files_are_made_changed_and_removed() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    assert!(is_root());
    all_ways(|options| {
        let served = Served::new("operations", 300);
        served.used(options, |root| {
            fs::create_dir(root.join("d")).unwrap();
            fs::write(root.join("d/f"), b"hello").unwrap();
            assert_eq!(fs::read(root.join("d/f")).unwrap(), b"hello");
            fs::rename(root.join("d/f"), root.join("g")).unwrap();
            fs::hard_link(root.join("g"), root.join("h")).unwrap();
            symlink("g", root.join("s")).unwrap();
            assert_eq!(fs::read_link(root.join("s")).unwrap(), Path::new("g"));
            assert_eq!(fs::metadata(root.join("s")).unwrap().nlink(), 2);
            let mut names: Vec<_> =
                fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            assert_eq!(names, ["d", "g", "h", "s"]);
            fs::set_permissions(root.join("g"), fs::Permissions::from_mode(0o640)).unwrap();
            assert_eq!(fs::metadata(root.join("h")).unwrap().mode() & 0o7777, 0o640);
            std::os::unix::fs::chown(root.join("g"), Some(7), Some(8)).unwrap();
            let found = fs::metadata(root.join("h")).unwrap();
            assert_eq!((found.uid(), found.gid()), (7, 8));
            let file = File::options().read(true).write(true).open(root.join("g")).unwrap();
            file.set_len(100_000).unwrap();
            file.write_all_at(b"end", 99_997).unwrap();
            file.sync_all().unwrap();
            let mut bytes = [1; 3];
            file.read_exact_at(&mut bytes, 50_000).unwrap();
            assert_eq!(bytes, [0; 3]);
            fs::remove_file(root.join("h")).unwrap();
            fs::remove_dir(root.join("d")).unwrap();
            assert!(fs::metadata(root.join("d")).is_err());
        });
        served.image.must_be_sound();
    });
}

#[test]
fn an_unlinked_file_lives_while_it_is_open() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    all_ways(|options| {
        let served = Served::new("unlinked", 300);
        served.used(options, |root| {
            let mut file =
                File::options().read(true).write(true).create_new(true).open(root.join("f")).unwrap();
            file.write_all(&[7; 1 << 20]).unwrap();
            fs::remove_file(root.join("f")).unwrap();
            fs::write(root.join("other"), b"other").unwrap();
            file.write_all(&[8; 100]).unwrap();
            file.seek(SeekFrom::Start(0)).unwrap();
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).unwrap();
            assert_eq!((bytes.len(), bytes[5], bytes[(1 << 20) + 5]), ((1 << 20) + 100, 7, 8));
            assert_eq!(file.metadata().unwrap().nlink(), 0);
        });
        served.image.must_be_sound();
    });
}

#[test]
fn a_source_tree_is_copied_compared_and_removed() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    all_ways(|options| {
        let served = Served::new("tree", 500);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        served.used(options, |root| {
            run("cp", &["-a", source.to_str().unwrap(), root.join("one").to_str().unwrap()]);
            run("diff", &["-r", source.to_str().unwrap(), root.join("one").to_str().unwrap()]);
            run("cp", &["-a", root.join("one").to_str().unwrap(), root.join("two").to_str().unwrap()]);
            run("rm", &["-r", root.join("one").to_str().unwrap()]);
            run("diff", &["-r", source.to_str().unwrap(), root.join("two").to_str().unwrap()]);
        });
        served.image.must_be_sound();
    });
}
