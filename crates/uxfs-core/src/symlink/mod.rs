//! Changing the targets of symbolic links: [`edit`]. Reading them is [`uxfs_volume::symlink`].

pub mod edit;
