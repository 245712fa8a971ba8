//! A sample of cases through the real `uxfs`, with the promise's limits: 10 seconds, 256 MiB.

use std::{fs::OpenOptions, os::unix::fs::FileExt, path::Path, process::Command, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use uxfs_format::{
    fault::Structure,
    field_table::OnDisk,
    inode::{FileType, InodeCore},
};
use uxfs_lab::{
    field_fuzz::{plan::Damage, sparse_device::DamagedImage},
    mounted::life::neighbour,
};
use uxfs_testkit::{
    limits::{Limits, run_limited},
    sparse,
    structures::Owner,
};

use super::{Arguments, Work, image_path, report::Report};

/// Limit for the shell's `ulimit -d`, in KiB. Resident memory would count pages of this process.
const MEMORY_KIB: u64 = 256 << 10;
/// Of processor time: other work on the machine is no hang.
const SECONDS: u64 = 10;
/// Of the clock, against waiting for ever.
const LONGEST: Duration = Duration::from_secs(120);

/// Runs every reading command over the damaged images of the first cases.
pub fn run(work: &Work, arguments: &Arguments, report: &mut Report<'_>) -> Result<()> {
    if arguments.binary_cases == 0 {
        return Ok(());
    }
    let program = neighbour("uxfs").context("no uxfs beside this program")?;
    let folder = tempfile::tempdir()?;
    let image = folder.path().join("image");
    sparse::pack(&image_path(&arguments.image)?, &folder.path().join("packed"))?;
    sparse::unpack(&folder.path().join("packed"), &image)?;
    let file = OpenOptions::new().write(true).open(&image)?;
    let sound = DamagedImage::sound(Arc::clone(&work.base));
    let step = (work.cases.len() / arguments.binary_cases).max(1);
    for (index, case) in work.cases.iter().enumerate().step_by(step) {
        let damage = work.plan.damage(&sound, case)?;
        if !damage.is_changed {
            continue;
        }
        write_pieces(&file, &damage.instance.pieces, &damage.bytes)?;
        for command in commands(&program, &image, &damage) {
            let limits = Limits { time: LONGEST, ..Limits::default() };
            let outcome = run_limited(&mut shell(&command), &limits)?;
            report.add_commands(1);
            let words = String::from_utf8_lossy(&outcome.stderr);
            let code = words.rsplit("exit code ").next().and_then(|code| code.trim().parse().ok());
            // 0 to 4 are what uxfs may say; a signal, a panic or a failed allocation give others.
            if outcome.timed_out || !matches!(code, Some(0..=4)) {
                report.escape(index, format!("{command}: {}", words.trim()));
            }
        }
        write_pieces(&file, &damage.instance.pieces, &damage.instance.read(&sound)?)?;
    }
    Ok(())
}

fn write_pieces(file: &std::fs::File, pieces: &[(u64, u32)], bytes: &[u8]) -> Result<()> {
    let mut rest = bytes;
    for (offset, length) in pieces {
        let (piece, after) = rest.split_at(*length as usize);
        file.write_all_at(piece, *offset)?;
        rest = after;
    }
    Ok(())
}

/// Output is cut: a damaged size may make a sparse file of any length.
fn shell(command: &str) -> Command {
    let mut shell = Command::new("sh");
    let limited = format!("ulimit -d {MEMORY_KIB}; ulimit -t {SECONDS}; {command}");
    shell.arg("-c").arg(format!("({limited}; echo \"exit code $?\" >&2) | head -c 67108864 > /dev/null"));
    shell
}

fn commands(program: &Path, image: &Path, damage: &Damage<'_>) -> Vec<String> {
    let uxfs =
        |words: &str, rest: &str| format!("'{}' {words} '{}' {rest}", program.display(), image.display());
    let mut commands = vec![
        uxfs("info", ""),
        uxfs("ls -lR", ""),
        uxfs("tree", ""),
        uxfs("find", "/ -ls -empty -o -xattr '*' -o -acl"),
        uxfs("du -a", ""),
        uxfs("ls -laisRZF --color=always", ""),
        uxfs("ls -d", "'/**' '/*/[!x]*'"),
        uxfs("grep -c e", "/"),
        uxfs("diff --also atime,ctime,btime", &format!("'{}'", image.display())),
        uxfs("df", ""),
        uxfs("freespace", ""),
        uxfs("inodes --count", ""),
        uxfs("inodes", ""),
        uxfs("extract", "--tar -"),
    ];
    match damage.instance.owner {
        Owner::Group(group) => {
            for header in ["sb", "agf", "agi", "agfl"] {
                commands.push(uxfs("inspect", &format!("{header} {group}")));
            }
            for tree in ["bno", "cnt", "ino", "fino", "rmap", "refc"] {
                commands.push(uxfs("inspect", &format!("btree {tree} {group}")));
            }
        }
        Owner::Inode(inode) => {
            for command in ["stat", "xattr", "map", "parents", "cat"] {
                commands.push(uxfs(command, &inode.to_string()));
            }
            commands.push(uxfs("inspect", &format!("inode {inode}")));
            commands.push(uxfs("inspect", &format!("attr {inode}")));
            if is_directory(damage) {
                commands.push(uxfs("inspect", &format!("dir {inode}")));
            }
        }
    }
    commands
}

fn is_directory(damage: &Damage<'_>) -> bool {
    damage.instance.structure != Structure::Inode
        || InodeCore::prefix_of(&damage.bytes).and_then(InodeCore::file_type) == Some(FileType::Directory)
}
