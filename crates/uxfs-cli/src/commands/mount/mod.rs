//! `uxfs mount`: a file system that the kernel shows, through FUSE.
//!
//! | module | holds |
//! |---|---|
//! | here | arguments; mounting and serving in one process |
//! | `background` | serving in a process of its own, once the file system is mounted |

mod background;

use std::{
    ffi::OsStr,
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    thread,
    time::Duration,
};

use uxfs_block::{
    claim::Lock,
    device::BlockDevice,
    engine::{OpenOptions, open, overlay::OverlayDevice},
};
use uxfs_engine::options::{LogOptions, MountOptions};
use uxfs_filesystem::filesystem::FileSystem;
use uxfs_fuse::{
    mounting::{self, direct, fusermount, mounted::Mounted, options::FuseMountOptions},
    server::{Server, settings::Settings},
    session,
    transport::ring::availability,
};
use uxfs_volume::error::Error;

use crate::{
    commands::Context,
    failure::{About, Exit, Failure, Outcome},
    image::{EngineArgument, not_for_changes},
    interrupt::Interrupt,
};

/// How often a mount that is to end looks for that.
const LOOK: Duration = Duration::from_millis(100);

/// Arguments of `uxfs mount`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The image is mounted through FUSE: by root, or by a user through fusermount3 (package fuse3). The command returns once \
    the file system is there; a process stays, and ends when it is unmounted. An image whose log is dirty is recovered first.\n\
    Options for -o, as in /etc/fstab: ro, norecovery, allow_other, suid, dev, noexec, uid=, gid=, noatime, relatime, strictatime, \
    nodiratime, sync, dirsync, commit=SECONDS, cache=SIZE, offset=BYTES, threads=N, uring, nouring, no_writeback_cache, auto_unmount, fsname=, subtype=, \
    max_read=, remount.\n\
    Examples:\n  uxfs mount disk.img /mnt\n  uxfs mount -o ro,offset=1048576 disk.img ~/mnt\n  uxfs umount /mnt"
)]
pub struct Arguments {
    /// Image file or block device
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
    /// Directory on which it is mounted
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
    /// Options, separated by commas
    #[arg(short, value_name = "OPTIONS")]
    options: Vec<String>,
    /// Stay in the foreground
    #[arg(short, long)]
    foreground: bool,
    /// I/O engine
    #[arg(long, value_enum, default_value_t, help_heading = "Input and output")]
    engine: EngineArgument,
    /// Tell the process that waits for it when the file system is there
    #[arg(long, hide = true)]
    is_awaited: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments, _: &Context) -> Outcome {
    let mut options = FuseMountOptions::default();
    for list in &arguments.options {
        options.apply(list).map_err(|error| Failure::usage(error.to_string()))?;
    }
    refuse_unknown(&options)?;
    if options.has_ring == Some(true) {
        availability::queues().map_err(|error| Failure::unsupported(error.to_string()))?;
    }
    if options.is_remount {
        let remounted = mounting::remount(&arguments.directory, &options);
        return remounted.map(|()| Exit::Success).map_err(|error| Failure::failed(error.to_string()));
    }
    if !arguments.foreground && !arguments.is_awaited {
        return background::run();
    }
    arguments.serve(&options).about(arguments.image.display())
}

/// Options that are understood and cannot be followed yet are not ignored.
fn refuse_unknown(options: &FuseMountOptions) -> Result<(), Failure> {
    let refused = [
        (options.partition.is_some(), "partition=", "give the place of the partition with offset="),
        (options.has_lazy_times, "lazytime", "times are written with the next checkpoint of the log"),
        (options.is_debug, "debug", "there is no log of requests"),
    ];
    match refused.iter().find(|(is_asked, ..)| *is_asked) {
        Some((_, word, remedy)) => {
            Err(Failure::usage(format!("the option {word} is not there yet")).with_remedy(remedy))
        }
        None => Ok(()),
    }
}

impl Arguments {
    fn serve(&self, options: &FuseMountOptions) -> Outcome {
        let interrupt = Interrupt::watch().map_err(|error| Failure::failed(error.to_string()))?;
        let image = std::fs::canonicalize(&self.image)
            .map_err(|error| Failure::failed(uxfs_block::words::in_words(&error).to_string()))?;
        let file_system = self.mount(options)?;
        let server = Arc::new(Server::new(file_system, Settings::of(options)));
        let mut mounted = mounting::mount(OsStr::new(&image), &self.directory, options)
            .map_err(|error| Failure::failed(error.to_string()))?;
        let mount_point = mounted.mount_point().to_path_buf();
        let is_direct = mounted.is_direct();
        let flag = interrupt.flag();
        // A signal unmounts: then the requests end.
        thread::spawn(move || {
            while !flag.load(Ordering::Relaxed) {
                thread::sleep(LOOK);
            }
            let is_lazy = true;
            if is_direct {
                drop(direct::unmount(&mount_point, is_lazy));
            } else {
                drop(fusermount::unmount(&mount_point, is_lazy));
            }
        });
        let on_ready = |_: &Mounted| {
            if self.is_awaited {
                background::tell();
            }
        };
        let served = session::serve(&server, &mut mounted, options.threads, on_ready);
        server.close().map_err(not_for_changes)?;
        served.map(|()| Exit::Success).map_err(|error| Failure::failed(error.to_string()))
    }

    fn mount(&self, options: &FuseMountOptions) -> Result<Arc<FileSystem>, Failure> {
        let only_reads = options.is_read_only;
        let open_options = OpenOptions {
            engine: self.engine.into(),
            direct: options.has_direct_image_io,
            start_bytes: options.offset_bytes.unwrap_or(0),
            writable: !only_reads,
            lock: if only_reads { Lock::Shared } else { Lock::Exclusive },
        };
        let device = open(&self.image, &open_options).map_err(Error::from)?;
        // A mount for reading recovers the log and frees unlinked inodes in an overlay: the image stays as it is.
        let device: Arc<dyn BlockDevice> = match only_reads {
            true => Arc::new(OverlayDevice::new(device)),
            false => device,
        };
        let interval = options.commit_interval.unwrap_or(LogOptions::USUAL_CHECKPOINT_INTERVAL);
        let log =
            LogOptions { has_background: true, checkpoint_interval: Some(interval), ..LogOptions::default() };
        let mount_options = MountOptions {
            ignore_dirty_log: options.ignores_log,
            cache_budget_bytes: options.cache_size_bytes,
            log,
            ..MountOptions::default()
        };
        FileSystem::mount_logged(device, &mount_options).map_err(not_for_changes)
    }
}
