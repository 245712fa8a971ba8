//! JSON documents that several commands share. `docs/json.md` describes them; change both together.

use serde::Serialize;
use uxfs_volume::inode::{
    DeviceNumber, FileType, Fork, ForkFormat, Inode, InodeFlags, InodeFlags2, Timestamp,
};

use crate::output::JsonName;

/// A time: seconds since 1970 and nanoseconds of that second.
#[derive(Debug, Serialize)]
pub struct JsonTime {
    seconds: i64,
    nanoseconds: u32,
}

impl From<Timestamp> for JsonTime {
    fn from(time: Timestamp) -> Self {
        Self { seconds: time.seconds, nanoseconds: time.nanoseconds }
    }
}

/// A device number.
#[derive(Debug, Serialize)]
pub struct JsonDevice {
    major: u32,
    minor: u32,
}

/// All metadata of an inode.
#[derive(Debug, Serialize)]
pub struct JsonInode {
    inode: u64,
    generation: u32,
    r#type: &'static str,
    mode: String,
    link_count: u32,
    uid: u32,
    gid: u32,
    project_id: u32,
    size_bytes: u64,
    allocated_blocks: u64,
    access_time: JsonTime,
    modification_time: JsonTime,
    change_time: JsonTime,
    creation_time: JsonTime,
    flags: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<JsonDevice>,
    data_format: &'static str,
    data_extents: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    attribute_format: Option<&'static str>,
    attribute_extents: u64,
    change_count: u64,
    extent_size_blocks: u32,
    cow_extent_size_blocks: u32,
}

impl JsonInode {
    /// Copies it from an inode.
    pub fn new(inode: &Inode) -> Self {
        let device = matches!(inode.file_type(), Some(FileType::CharacterDevice | FileType::BlockDevice))
            .then(|| {
                let DeviceNumber { major, minor } = inode.device_number();
                JsonDevice { major, minor }
            });
        Self {
            inode: inode.number.get(),
            generation: inode.generation(),
            r#type: inode.file_type().map_or("free", type_name),
            mode: format!("{:04o}", inode.permissions()),
            link_count: inode.link_count(),
            uid: inode.uid(),
            gid: inode.gid(),
            project_id: inode.project_id(),
            size_bytes: inode.size_bytes(),
            allocated_blocks: inode.blocks(),
            access_time: inode.access_time().into(),
            modification_time: inode.modification_time().into(),
            change_time: inode.change_time().into(),
            creation_time: inode.creation_time().into(),
            flags: flag_names(inode),
            device,
            data_format: inode.fork_format(Fork::Data).map_or("missing", format_name),
            data_extents: inode.extent_count(Fork::Data),
            attribute_format: inode.fork_format(Fork::Attribute).map(format_name),
            attribute_extents: inode.extent_count(Fork::Attribute),
            change_count: inode.change_count(),
            extent_size_blocks: inode.extent_size_blocks(),
            cow_extent_size_blocks: inode.cow_extent_size_blocks(),
        }
    }
}

/// A file with its path: a line of `ls -l` and of `find`.
#[derive(Debug, Serialize)]
pub struct JsonFile<'a> {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_hex: Option<String>,
    #[serde(flatten)]
    inode: JsonInode,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_hex: Option<String>,
}

/// What a document of a file has beside the inode.
#[derive(Debug, Default)]
pub struct Beside<'a> {
    /// Name of the owner.
    pub user: Option<&'a str>,
    /// Name of the group.
    pub group: Option<&'a str>,
    /// Security context, where it is wanted and there is one.
    pub context: Option<&'a [u8]>,
    /// Target of a symbolic link.
    pub target: Option<&'a [u8]>,
}

impl<'a> JsonFile<'a> {
    /// Copies it from an inode.
    pub fn new(path: &[u8], inode: &Inode, beside: &Beside<'a>) -> Self {
        let (path, target) = (JsonName::new(path), beside.target.map(JsonName::new));
        Self {
            path: path.text().to_owned(),
            path_hex: path.hex().map(str::to_owned),
            inode: JsonInode::new(inode),
            user: beside.user,
            group: beside.group,
            context: beside.context.map(|context| String::from_utf8_lossy(context).into_owned()),
            target: target.as_ref().map(|target| target.text().to_owned()),
            target_hex: target.as_ref().and_then(|target| target.hex().map(str::to_owned)),
        }
    }
}

/// A file type in words.
pub fn type_name(file_type: FileType) -> &'static str {
    match file_type {
        FileType::Regular => "regular",
        FileType::Directory => "directory",
        FileType::SymbolicLink => "symlink",
        FileType::CharacterDevice => "character_device",
        FileType::BlockDevice => "block_device",
        FileType::Fifo => "fifo",
        FileType::Socket => "socket",
    }
}

/// A fork's format in words, as xfs_db has them.
pub fn format_name(format: ForkFormat) -> &'static str {
    match format {
        ForkFormat::Device => "dev",
        ForkFormat::Local => "local",
        ForkFormat::Extents => "extents",
        ForkFormat::Btree => "btree",
        ForkFormat::MetadataBtree => "meta_btree",
    }
}

/// The names of all flags that are set, in lower case.
pub fn flag_names(inode: &Inode) -> Vec<String> {
    let first = inode.flags().iter_names().map(|(name, _): (&str, InodeFlags)| name);
    let second = inode.flags2().iter_names().map(|(name, _): (&str, InodeFlags2)| name);
    first.chain(second).map(str::to_ascii_lowercase).collect()
}
