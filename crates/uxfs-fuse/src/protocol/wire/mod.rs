//! Structures as they lie in requests and replies: host byte order, every one padded to eight bytes.
//!
//! Fields have the names of the kernel's header in whole words; the judge test compares sizes and offsets with that header.
//!
//! | module | holds |
//! |---|---|
//! | [`header`] | headers of requests and replies, forgets, interrupts |
//! | [`attributes`] | attributes of inodes and of the file system |
//! | [`names`] | entries, creation, rename, link, extensions of requests |
//! | [`files`] | open files: open, read, write, sync, space, seek, copy |
//! | [`directories`] | directory records |
//! | [`extended_attributes`] | extended attributes and access checks |
//! | [`locks`] | file locks |
//! | [`ioctl`] | ioctl and poll |
//! | [`initialization`] | INIT |
//! | [`notifications`] | messages of the server |
//! | [`rings`] | FUSE over io_uring |

/// Declares structures with what all have in common.
macro_rules! wire_structures {
    ($(
        $(#[$meta:meta])*
        pub struct $name:ident {
            $($(#[$field_meta:meta])* $visibility:vis $field:ident: $type:ty,)*
        }
    )*) => { $(
        $(#[$meta])*
        #[derive(
            Debug,
            Clone,
            Copy,
            PartialEq,
            Eq,
            Default,
            zerocopy::FromBytes,
            zerocopy::IntoBytes,
            zerocopy::Immutable,
            zerocopy::KnownLayout,
        )]
        #[repr(C)]
        pub struct $name {
            $($(#[$field_meta])* $visibility $field: $type,)*
        }
    )* };
}

pub mod attributes;
pub mod directories;
pub mod extended_attributes;
pub mod files;
pub mod header;
pub mod initialization;
pub mod ioctl;
pub mod locks;
pub mod names;
pub mod notifications;
pub mod rings;

#[cfg(test)]
#[path = "layout_tests.rs"]
mod layout_tests;
