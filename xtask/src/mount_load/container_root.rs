//! The root of a container: unpacked with owners, modes, attributes, capabilities, lists and devices, on a mount and on the kernel's XFS.

use std::{fs, path::Path, process::Command, time::Duration};

use anyhow::{Context, Result};
use uxfs_testkit::{
    image,
    mount::{Access, LoopMount},
};

use super::{Stage, limit, need, place::Place, program, tree::Tree};

const LONGEST: Duration = Duration::from_secs(300);
const IMAGE_BYTES: u64 = 4 << 30;

/// A root with all that containers have, made of this machine's files.
const ROOT: &str = r#"set -eu
mkdir -p "$1"; cd "$1"
mkdir -p dev etc usr/bin usr/lib tmp run var/spool opt/shared root
cp -a /etc/. etc/
cp -a /usr/lib/python3* /usr/lib/git-core usr/lib/ 2>/dev/null || true
cp -a /usr/bin/[a-m]* usr/bin/ 2>/dev/null || true
ln -s usr/bin bin; ln -s usr/lib lib
mknod dev/null c 1 3; mknod dev/tty0 c 4 0; mknod dev/loop7 b 7 7; mknod dev/large c 500 200000; mkfifo run/pipe
chmod 1777 tmp; chmod 2775 opt/shared; chmod 666 dev/null
cp /bin/true usr/bin/raw; setcap cap_net_raw+ep usr/bin/raw
cp /bin/true usr/bin/mounter; chmod 4755 usr/bin/mounter
cp /bin/true usr/bin/group; chown 0:42 usr/bin/group; chmod 2755 usr/bin/group
for i in $(seq 200); do echo "$i" > "var/spool/s$i"; chown "$i:$((i + 1000))" "var/spool/s$i"; done
chown 4000000000:4000000001 var/spool/s1
setfacl -m u:1000:rwx,g:1001:r-x,m::rwx var/spool/s2
setfacl -d -m u:1000:rwx,o::--- opt/shared
setfattr -n user.long -v "$(head -c 30000 /dev/zero | tr '\0' x)" var/spool/s3
setfattr -n trusted.overlay.opaque -v y opt/shared
setfattr -n security.other -v value var/spool/s4
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("run/socket")'
ln usr/bin/raw usr/bin/raw2
truncate -s 200M var/sparse; printf end >> var/sparse
touch -h -d '1969-12-31 23:59:58.5 UTC' tmp; touch -d '2200-01-01 UTC' var/spool/s5
"#;

const TAR: &str = "tar --xattrs --xattrs-include='*' --acls --numeric-owner --sparse";

/// Runs it.
pub fn load(stage: &Stage) -> Result<String> {
    need("setcap", "libcap2-bin")?;
    need("setfacl", "acl")?;
    need("setfattr", "attr")?;
    let place = Place::mounted(stage, "4G", limit(stage, LONGEST * 3))?;
    let root = place.beside("root");
    let mut make = Command::new("bash");
    program::run(make.args(["-c", ROOT, "make"]).arg(&root), LONGEST)?;
    let archive = place.beside("root.tar");
    shell(&format!("{TAR} -C \"$0\" -cf \"$1\" ."), &root, &archive)?;
    fs::remove_dir_all(&root)?;
    let kernel_image = place.beside("kernel-image");
    image::make(&kernel_image, IMAGE_BYTES, &[])?;
    let kernel = LoopMount::new(&kernel_image, Access::ReadWrite)?;
    for directory in [kernel.path(), place.path()] {
        let (unpacked, copied) = (directory.join("unpacked"), directory.join("copied"));
        fs::create_dir(&unpacked)?;
        shell(&format!("{TAR} -C \"$0\" -xpf \"$1\""), &unpacked, &archive)
            .with_context(|| directory.display().to_string())?;
        // All directories get their times from the archive, but for the root.
        shell("cp -a \"$0\" \"$1\" && touch -d @1000000000 \"${1%/*}\"", &unpacked, &copied)?;
    }
    let expected = Tree::of(kernel.path())?.portable();
    let names = expected.len();
    expected
        .must_equal(&Tree::of(place.path())?.portable())
        .context("the mount shows something else than the kernel's XFS")?;
    place.unmount()?;
    place.mount()?;
    expected
        .must_equal(&Tree::of(place.path())?.portable())
        .context("mounted again it shows something else than the kernel's XFS")?;
    kernel.unmount()?;
    place.finish()?;
    Ok(format!("{names} names on the mount as on the kernel's XFS"))
}

fn shell(script: &str, first: &Path, second: &Path) -> Result<String> {
    program::run(Command::new("bash").args(["-c", script]).args([first, second]), LONGEST)
}
