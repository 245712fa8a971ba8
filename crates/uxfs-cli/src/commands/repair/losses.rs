//! Files that a repair loses in whole or in part. Every summary lists them: an empty file at its path looks like the original.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use uxfs_format::units::InodeNumber;
use uxfs_repair::repair::action::{Action, FileLoss};

use crate::{
    counted_kinds::{Amount, CountedKinds},
    output::Output,
    paths::Paths,
};

/// All files that these actions lose, each once, and how.
pub(super) fn all(actions: &[Action]) -> BTreeMap<InodeNumber, FileLoss> {
    let mut lost: BTreeMap<_, _> = actions.iter().filter_map(Action::file_loss).collect();
    // The repair gives up the inode of a damaged directory before it rebuilds the directory under the same number.
    for action in actions {
        if let Action::Directory { inode, .. } = action {
            lost.remove(inode);
        }
    }
    lost
}

/// Prints their number, and the first of each kind by path.
pub(super) fn print(
    output: &mut Output,
    actions: &[Action],
    amount: Amount,
    paths: &mut Paths,
) -> io::Result<()> {
    let lost = all(actions);
    if lost.is_empty() {
        return Ok(());
    }
    writeln!(output, "  files lost, or in part: {}", lost.len())?;
    let names = names_of(actions);
    let mut kinds = CountedKinds::new(amount);
    for (inode, loss) in &lost {
        if !kinds.add(*loss) {
            continue;
        }
        let path = match loss {
            FileLoss::GivenUp => names.get(inode).and_then(|(directory, name)| {
                let directory = paths.of(*directory).into_iter().next()?;
                let slash: &[u8] = if directory.ends_with(b"/") { b"" } else { b"/" };
                Some([directory.as_slice(), slash, name].concat())
            }),
            FileLoss::Empty | FileLoss::Partial => paths.of(*inode).into_iter().next(),
        };
        match path {
            Some(path) => {
                output.write_all(b"    ")?;
                output.name(&path)?;
            }
            None => write!(output, "    inode {inode}")?,
        }
        writeln!(output, ": {}", loss.words())?;
    }
    for (loss, count) in kinds.iter().filter(|(_, count)| kinds.hidden_of(**count) > 0) {
        writeln!(output, "    {} more: {}", kinds.hidden_of(*count), loss.words())?;
    }
    Ok(())
}

/// The last name of each inode that lost one, with its directory.
fn names_of(actions: &[Action]) -> BTreeMap<InodeNumber, (InodeNumber, &[u8])> {
    let removed = actions.iter().filter_map(|action| match action {
        Action::NameRemoved { directory, name, inode, .. } => Some((*inode, (*directory, &name[..]))),
        _ => None,
    });
    removed.collect()
}

#[cfg(test)]
mod tests {
    use uxfs_format::inode::InodeFault;

    use super::*;

    #[test]
    fn a_directory_that_is_rebuilt_is_not_lost() {
        let [directory, file] = [129, 131].map(InodeNumber::new);
        let given_up = |inode| Action::InodeLost { inode, fault: InodeFault::Version { found: 0 } };
        let rebuilt = Action::Directory {
            inode: directory,
            names: 1,
            from_parent_pointers: 1,
            removed: 0,
            is_any_unread: false,
        };
        let lost = all(&[given_up(directory), given_up(file), rebuilt]);
        assert_eq!(lost, BTreeMap::from([(file, FileLoss::GivenUp)]));
    }
}
