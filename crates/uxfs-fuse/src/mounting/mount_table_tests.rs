use proptest::prelude::*;

use super::*;

const TABLE: &str = "\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw,discard
40 22 0:35 / /mnt/with\\040blank\\011tab\\134backslash\\012newline ro,nosuid,nodev,noexec,nodiratime shared:5 master:1 - \
    fuse.uxfs /images/a\\040b.img rw,sync,user_id=0,group_id=0,default_permissions
41 22 7:0 /sub /mnt/b rw,noatime - fuseblk.uxfs /dev/loop0 ro,lazytime,blksize=4096
42 41 0:36 / /mnt/b rw,relatime - tmpfs tmpfs rw
43 22 0:37 / /mnt/c rw,relatime - fuse \\134 rw,dirsync
a line that is none
44 22 0:38 / /mnt/d rw,relatime shared:9
";

fn table() -> MountTable {
    MountTable::parse(TABLE.as_bytes())
}

fn at(path: &str) -> MountEntry {
    table().at(Path::new(path)).unwrap().clone()
}

#[test]
fn lines_become_entries() {
    assert_eq!(table().entries().map(|entry| entry.id).collect::<Vec<_>>(), [22, 40, 41, 42, 43]);
    assert_eq!(
        at("/mnt/with blank\ttab\\backslash\nnewline"),
        MountEntry {
            id: 40,
            parent_id: 22,
            device: DeviceNumber { major: 0, minor: 35 },
            root: "/".into(),
            mount_point: "/mnt/with blank\ttab\\backslash\nnewline".into(),
            mount_options: "ro,nosuid,nodev,noexec,nodiratime".to_owned(),
            file_system_type: "fuse.uxfs".to_owned(),
            source: "/images/a b.img".into(),
            file_system_options: "rw,sync,user_id=0,group_id=0,default_permissions".to_owned(),
        }
    );
    assert_eq!(at("/mnt/c").source, "\\");
}

#[test]
fn the_uppermost_of_several_mounts_is_found() {
    assert_eq!(at("/mnt/b").file_system_type, "tmpfs");
    assert_eq!(table().at(Path::new("/mnt")), None);
    // A mount that was put below another one is listed after it.
    let text = "2 3 0:2 / /m rw - tmpfs upper rw\n3 1 0:3 / /m rw - tmpfs lower rw\n";
    assert_eq!(MountTable::parse(text.as_bytes()).at(Path::new("/m")).unwrap().source, "upper");
    let covered = table().entries().find(|entry| entry.id == 41).unwrap().clone();
    assert!(table().holds(&covered));
    let other = |change: fn(&mut MountEntry)| {
        let mut entry = covered.clone();
        change(&mut entry);
        table().holds(&entry)
    };
    assert!(other(|entry| entry.mount_options = "ro".to_owned()));
    assert!(!other(|entry| entry.device.minor = 9));
    assert!(!other(|entry| entry.id = 42));
    assert!(!other(|entry| entry.source = "elsewhere".into()));
    assert!(!other(|entry| entry.file_system_type = "tmpfs".to_owned()));
    assert!(!other(|entry| entry.mount_point = "/mnt/c".into()));
}

#[test]
fn options_become_flags() {
    let escaped = at("/mnt/with blank\ttab\\backslash\nnewline");
    let expected = MountFlags::RDONLY
        | MountFlags::NOSUID
        | MountFlags::NODEV
        | MountFlags::NOEXEC
        | MountFlags::NODIRATIME
        | MountFlags::SYNCHRONOUS
        | MountFlags::STRICTATIME;
    assert_eq!(escaped.flags(), expected);
    assert_eq!(at("/mnt/c").flags(), MountFlags::RELATIME | MountFlags::DIRSYNC);
    assert!(escaped.is_read_only() && escaped.is_fuse());
    assert!(!at("/mnt/c").is_read_only() && at("/mnt/c").is_fuse() && !at("/").is_fuse());
    let device = table().entries().find(|entry| entry.id == 41).unwrap().clone();
    assert!(device.is_read_only() && device.is_fuse());
    assert_eq!(device.flags(), MountFlags::NOATIME | MountFlags::LAZYTIME | MountFlags::RDONLY);
}

#[test]
fn this_process_has_a_root() {
    assert!(MountTable::read().unwrap().at(Path::new("/")).is_some());
}

#[test]
fn waiting_for_a_mount_that_stays_ends_at_the_limit() {
    let mut root = MountTable::read().unwrap().at(Path::new("/")).unwrap().clone();
    let start = Instant::now();
    assert!(!wait_until_gone(&root, Some(Duration::from_millis(50))).unwrap());
    assert!(start.elapsed() >= Duration::from_millis(50));
    root.mount_point = "/there/is/none".into();
    assert!(wait_until_gone(&root, None).unwrap());
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = MountTable::parse(&text);
        let _ = unescape(&text);
    }

    #[test]
    fn escaped_paths_come_back(path in proptest::collection::vec(1_u8.., 1..40)) {
        let mut line = b"5 1 0:9 / ".to_vec();
        for byte in &path {
            match byte {
                b' ' | b'\t' | b'\n' | b'\\' => line.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
                _ => line.push(*byte),
            }
        }
        line.extend_from_slice(b" rw - fuse.uxfs source rw");
        let entry = MountEntry::parse(&line).unwrap();
        prop_assert_eq!(entry.mount_point.as_os_str().as_bytes(), &path[..]);
    }
}
