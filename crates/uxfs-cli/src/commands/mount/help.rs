//! What `uxfs mount --help` says of the options of a mount: a line for each.

/// Behind the arguments.
pub const AFTER: &str = "\
The image is mounted through FUSE: by root, or by a user through fusermount3 (package fuse3). The command returns once the file system is \
there; a process stays, and ends when it is unmounted. An image whose log is dirty is recovered first, also with ro; in memory only where the image cannot \
be written, or another program reads it.

Options for -o, as in /etc/fstab; later ones win:
  ro, rw                    without changes; with them (usual)
  norecovery                with ro: show the image without its log, and write nothing to it
  offset=BYTES              the file system begins there in IMAGE: bytes, or with K, M, G, T
  partition=N|LABEL|UUID    it is this partition of IMAGE (GPT or MBR): its number, name or UUID, or the file system's label or UUID
  uid=USER, gid=GROUP       show all files with this owner, this group: a number, or a name
  allow_other               let other users in (usual for root; fusermount3 must permit it)
  no_allow_other            let only the user in that mounts
  suid, nosuid              set-id bits work; they do not (usual)
  dev, nodev                device files work; they do not (usual)
  allow_suid, allow_dev     as suid and dev, which mount(8) and /etc/fstab leave out
  exec, noexec              programs can be run (usual); they cannot
  noatime                   reading changes no access time
  relatime                  it does where the time is older than the last change or a day (usual)
  strictatime               it always does
  diratime, nodiratime      access times of directories change (usual); they do not
  lazytime, nolazytime      a change of nothing but times is written late, at the latest after a day; at once (usual)
  sync, async               a write is durable when it returns; when the program asks for it (usual)
  dirsync, wsync            a change of a directory is durable when it returns
  commit=SECONDS            longest time that a change stays out of the log (usual: 30, which 0 stands for)
  cache=SIZE                memory for metadata (usual: 256M, or less where memory is scarce)
  direct                    read and write the image past the page cache
  threads=N                 threads that answer requests
  uring, nouring            requests come through io_uring; they do not (usual: where the kernel offers it)
  writeback_cache           the kernel collects writes (usual)
  no_writeback_cache        it passes each on
  max_read=BYTES            longest read that the kernel asks for [512K; longer ones are copied twice]
  log=LEVEL                 what is told: error, warn (usual), info, debug; on standard error with -f, else in the system's log
  debug                     a line for each request, with its reply and the time that it took
  auto_unmount              unmount when the process that mounts ends, however it ends
  fuseblk, nofuseblk        with ro: a block device is mounted as such (usual for root); it is not
  fsname=NAME               the source in the table of mounts, instead of IMAGE
  subtype=NAME              the type in the table of mounts: fuse.NAME
  remount                   with ro or rw: change that of a mount that is there, also of one that began with ro; only for root
Options of mount(8) and systemd (auto, user, nofail, _netdev, x-…), and those of the kernel's XFS that change nothing here (inode64, nouuid, \
logbufs=, discard, noquota …), are accepted, without effect.

Examples:
  uxfs mount disk.img /mnt
  uxfs mount -r --partition 2 disk.img ~/mnt
  uxfs mount -o ro,noatime,uid=ann disk.img ~/mnt
  uxfs umount /mnt";
