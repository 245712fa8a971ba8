//! `uxfs df`: how full file systems are.

use std::{
    io::Write,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::json;
use uxfs_block::{device::BlockDevice, engine::overlay::OverlayDevice};
use uxfs_engine::engine::statistics::Statistics;
use uxfs_filesystem::{
    filesystem::FileSystem,
    mount::{MountOptions, mount_recovered},
};
use uxfs_volume::error::Error;

use crate::{
    commands::Context,
    failure::{Complaints, Failure, Outcome},
    image::ImageArguments,
    output::{JsonName, Output},
    place::PlaceArguments,
    search::amount::{Unit, UnitArguments},
};

/// Arguments of `uxfs df`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The numbers are those that the kernel gives of the mounted file system: without the log, the space that is kept for \
    btrees, and the blocks that are reserved. A dirty log is replayed in memory; nothing is written.\n\
    Example: uxfs df -h disk.img",
    mut_arg("si", |argument| argument.short('H'))
)]
pub struct Arguments {
    /// Image files or block devices
    #[arg(value_name = "IMAGE", required = true)]
    images: Vec<PathBuf>,
    /// Show inodes instead of space
    #[arg(short, long)]
    inodes: bool,
    /// Show the type
    #[arg(short = 'T', long)]
    print_type: bool,
    #[command(flatten)]
    unit: UnitArguments,
    #[command(flatten)]
    place: PlaceArguments,
    /// Show the file systems as `uxfs repair` would leave them; nothing is written. With a file of `uxfs repair --dry-run --plan`, the
    /// repair is not computed again
    #[arg(long, value_name = "PLAN", num_args = 0..=1, require_equals = true)]
    repaired: Option<Option<PathBuf>>,
    /// Read even while another program changes an image; the output may be inconsistent
    #[arg(long)]
    no_lock: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// A file system and its numbers.
struct Row {
    image: PathBuf,
    label: Vec<u8>,
    uuid: String,
    statistics: Statistics,
}

/// Runs the command.
pub fn run(arguments: &Arguments, context: &Context) -> Outcome {
    let mut complaints = Complaints::default();
    let mut rows = Vec::new();
    for image in &arguments.images {
        match row(arguments, image) {
            Ok(row) => rows.push(row),
            Err(failure) => complaints.tell(&failure),
        }
    }
    let mut output = Output::new();
    if context.json {
        rows.iter().try_for_each(|row| output.json(&document(row)))?;
    } else if !rows.is_empty() {
        print(arguments, &rows, &mut output)?;
    }
    output.finish()?;
    Ok(complaints.exit())
}

fn row(arguments: &Arguments, path: &Path) -> Result<Row, Failure> {
    let image = ImageArguments {
        image: path.to_owned(),
        place: arguments.place.clone(),
        repaired: arguments.repaired.clone(),
        no_lock: arguments.no_lock,
        ..ImageArguments::default()
    };
    let device = image.with_superblock(image.device()?)?;
    let file_system = mount_in_memory(device).map_err(|error| image.not_opened(error))?;
    let superblock = file_system.superblock();
    let label = superblock.label().to_vec();
    let uuid = superblock.uuid.to_string();
    Ok(Row { image: path.to_owned(), label, uuid, statistics: file_system.statistics() })
}

/// Mounts a file system, and keeps what that writes in memory: the recovery of a dirty log above all.
pub(super) fn mount_in_memory(device: Arc<dyn BlockDevice>) -> Result<Arc<FileSystem>, Error> {
    let overlay = Arc::new(OverlayDevice::new(device));
    mount_recovered(overlay, &MountOptions::default()).map(|(file_system, _)| file_system)
}

/// A total, the part of it that is used, and the part that is free.
#[derive(Clone, Copy)]
struct Share {
    total: u64,
    used: u64,
    free: u64,
}

impl Share {
    fn of(total: u64, free: u64) -> Self {
        Self { total, used: total.saturating_sub(free), free }
    }

    /// Rounded up; `None` where there is nothing at all.
    fn percent(self) -> Option<u64> {
        let all = u128::from(self.used) + u128::from(self.free);
        let percent = (u128::from(self.used) * 100).checked_div(all)?;
        let has_rest = percent * all < u128::from(self.used) * 100;
        u64::try_from(percent).ok().map(|percent| percent + u64::from(has_rest))
    }
}

impl Row {
    fn space(&self) -> Share {
        let Statistics { blocks, free_blocks, .. } = self.statistics;
        Share::of(blocks, free_blocks)
    }

    fn inodes(&self) -> Share {
        Share::of(self.statistics.files, self.statistics.free_files)
    }
}

fn document(row: &Row) -> serde_json::Value {
    let (space, inodes) = (row.space(), row.inodes());
    let (image, label) = (JsonName::new(row.image.as_os_str().as_bytes()), JsonName::new(&row.label));
    let block_size_bytes = u64::from(row.statistics.block_size_bytes);
    let bytes = |blocks: u64| blocks.saturating_mul(block_size_bytes);
    let mut document = json!({
        "image": image.text(),
        "type": "xfs",
        "label": label.text(),
        "uuid": row.uuid,
        "block_size_bytes": block_size_bytes,
        "size_bytes": bytes(space.total),
        "used_bytes": bytes(space.used),
        "available_bytes": bytes(space.free),
        "used_percent": space.percent(),
        "inodes": inodes.total,
        "inodes_used": inodes.used,
        "inodes_available": inodes.free,
        "inodes_used_percent": inodes.percent(),
    });
    for (field, name) in [("image_hex", &image), ("label_hex", &label)] {
        if let Some(hex) = name.hex() {
            document[field] = hex.into();
        }
    }
    document
}

/// Prints a table. Its first column is as wide as the longest name, the others are aligned on the right.
fn print(arguments: &Arguments, rows: &[Row], output: &mut Output) -> Result<(), Failure> {
    let unit = arguments.unit.unit().unwrap_or_else(|| Unit::of(1 << 10));
    let size = unit.heading();
    let heads = match arguments.inodes {
        true => ["Inodes", "IUsed", "IFree", "IUse%"],
        false => [&size, "Used", "Available", "Use%"],
    };
    let shown = |row: &Row| {
        let share = if arguments.inodes { row.inodes() } else { row.space() };
        let cell = |number: u64| match arguments.inodes {
            true => unit.counted(number),
            false => unit.shown(number.saturating_mul(row.statistics.block_size_bytes.into())),
        };
        let percent = share.percent().map_or_else(|| "-".to_owned(), |percent| format!("{percent}%"));
        [cell(share.total), cell(share.used), cell(share.free), percent]
    };
    let lines: Vec<_> = rows.iter().map(|row| (row.image.as_os_str().as_bytes(), shown(row))).collect();
    let name_width = lines.iter().map(|(name, _)| name.len()).fold("Filesystem".len(), usize::max);
    let widths: [usize; 4] = std::array::from_fn(|column| {
        let cells = lines.iter().map(|(_, cells)| cells[column].len());
        cells.fold(heads[column].len().max(5), usize::max)
    });
    write!(output, "{:<name_width$}", "Filesystem")?;
    write_cells(arguments, &heads, &widths, "Type", output)?;
    for (name, cells) in &lines {
        output.name(name)?;
        write!(output, "{:width$}", "", width = name_width - name.len())?;
        let cells: [&str; 4] = std::array::from_fn(|column| cells[column].as_str());
        write_cells(arguments, &cells, &widths, "xfs", output)?;
    }
    Ok(())
}

fn write_cells(
    arguments: &Arguments,
    cells: &[&str; 4],
    widths: &[usize; 4],
    kind: &str,
    output: &mut Output,
) -> Result<(), Failure> {
    if arguments.print_type {
        write!(output, " {kind:<4}")?;
    }
    for (cell, width) in cells.iter().zip(widths) {
        write!(output, " {cell:>width$}")?;
    }
    output.write_all(b"\n")?;
    Ok(())
}
