//! Mounts of root, of an ordinary user through fusermount3, and of root in a user namespace; and two mounts beside each other.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    process::Command,
    thread,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, ensure};

use super::{Stage, need, place::Place, program, tree::Tree};

const LONGEST: Duration = Duration::from_secs(240);
/// An ordinary user without rights.
const USER: &str = "65534";

/// What each user does: `$1` is the program, `$2` the image, `$3` the directory, `$4` the options. The list of the tree goes to standard
/// output before the end.
const WORK: &str = r#"set -eu
uxfs=$1; image=$2; directory=$3; shift 3
"$uxfs" mount "$@" "$image" "$directory"
trap 'cd /; "$uxfs" umount "$directory" || true' EXIT
cd "$directory"
mkdir -p tree/a/b tree/c
for i in $(seq 300); do echo "$i" > "tree/a/f$i"; done
for i in $(seq 0 3 300); do mv "tree/a/f$i" "tree/c/g$i" 2>/dev/null || true; done
ln tree/a/f1 tree/c/hard
ln -s ../a tree/c/link
chmod 640 tree/a/f2
touch -d @1000000000 tree/a/f4
truncate -s 5M tree/a/f5
dd if=/dev/urandom of=tree/data bs=64k count=40 conv=fsync status=none
cp tree/data tree/copy
cmp tree/data tree/copy
rm tree/a/f7
if chown 0:0 tree/a/f8 2>/dev/null && [ "$(id -u)" != 0 ]; then echo "a file was given away" >&2; exit 1; fi
find tree -printf '%p %y %m %s %n\n' | sort
trap - EXIT
cd /
"$uxfs" umount "$directory"
"#;

/// Runs all ways.
pub fn load(stage: &Stage) -> Result<String> {
    need("fusermount3", "fuse3")?;
    need("setpriv", "util-linux")?;
    need("unshare", "util-linux")?;
    let setpriv = ["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups"];
    let namespace = ["unshare", "--user", "--map-root-user", "--mount"];
    let ways: [(&str, Vec<&str>); 3] = [
        ("root", vec![]),
        ("a user with fusermount3", setpriv.to_vec()),
        ("root of a user namespace", [&setpriv[..], &namespace[..]].concat()),
    ];
    let mut lists = Vec::new();
    for (name, words) in &ways {
        lists.push(one(stage, words).with_context(|| (*name).to_owned())?);
    }
    // Sizes, kinds and links are those of root's mount.
    for ((name, _), list) in ways.iter().zip(&lists) {
        ensure!(Some(list) == lists.first(), "{name} sees another tree:\n{list}");
    }
    two_at_once(stage)?;
    let paths = lists.first().map_or(0, |list| list.lines().count());
    Ok(format!("{} ways to mount, {paths} paths each; two mounts at once", ways.len()))
}

/// Work under another identity, given by words before the command; gives the list of the tree.
fn one(stage: &Stage, words: &[&str]) -> Result<String> {
    let place = Place::new(stage, "300M", LONGEST)?;
    // The image belongs to root inside: its root directory is made writable for all.
    program::run(Command::new(&stage.uxfs).arg("chmod").arg(place.image()).args(["777", "/"]), LONGEST)?;
    if !words.is_empty() {
        let id = USER.parse().ok();
        for path in [place.image(), place.path()] {
            chown(path, id, id)?;
        }
    }
    fs::set_permissions(place.beside("."), fs::Permissions::from_mode(0o777))?;
    let all: Vec<&str> = words.iter().copied().chain(["bash", "-c", WORK, "work"]).collect();
    let (program, rest) = all.split_first().context("no words")?;
    let mut command = Command::new(program);
    command.args(rest).arg(&stage.uxfs).args([place.image(), place.path()]).current_dir("/");
    if !stage.options.is_empty() {
        command.args(["-o", &stage.options]);
    }
    let list = program::run(&mut command, LONGEST)?;
    place.is_sound()?;
    let tree = Tree::in_image(place.image())?;
    ensure!(tree.len() > list.lines().count(), "the kernel sees {} paths", tree.len());
    Ok(list)
}

/// Two images, two mounts, work on both; neither sees the other's files.
fn two_at_once(stage: &Stage) -> Result<()> {
    let places = [Place::mounted(stage, "300M", LONGEST)?, Place::mounted(stage, "300M", LONGEST)?];
    thread::scope(|scope| {
        let threads: Vec<_> = (0..)
            .zip(&places)
            .map(|(number, place)| {
                let root = place.path().to_owned();
                scope.spawn(move || -> Result<()> {
                    for file in 0..3000 {
                        let path = root.join(format!("of-{number}-{}", file % 700));
                        fs::write(&path, format!("{number} {file}"))?;
                        ensure!(fs::read_to_string(&path)? == format!("{number} {file}"), "other bytes");
                    }
                    Ok(())
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?)
    })?;
    for place in places {
        place.finish()?;
    }
    Ok(())
}
