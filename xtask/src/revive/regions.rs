//! Damages that know nothing of structures: what disks, arrays, drivers and people do to stretches of a device.

use std::{fs::File, ops::Range, os::unix::fs::FileExt, process::Command};

use anyhow::{Context, Result, ensure};
use uxfs_block::device::BlockDevice;
use uxfs_format::geometry::Geometry;

use super::damage::{Damage, Scene};

const KIBIBYTE: u64 = 1 << 10;
const MEBIBYTE: u64 = 1 << 20;
/// What a drive writes as a whole.
const SECTOR_BYTES: u64 = 512;
/// Memory that one step of a damage takes.
const STEP_BYTES: u64 = MEBIBYTE;
/// Where LUKS2 begins with the data.
const LUKS_HEADER_BYTES: u64 = 16 * MEBIBYTE;

/// Where the bytes come from that lie there afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Zero,
    Ones,
    Random,
    /// What lay there before the second round of changes.
    Older,
    /// Lines of a log file.
    Text,
    /// Each pair of bytes exchanged.
    BytePairs,
    /// What lies so many bytes before.
    Shifted(u64),
}

impl Source {
    const fn name(self) -> &'static str {
        match self {
            Self::Zero => "zero",
            Self::Ones => "ones",
            Self::Random => "random",
            Self::Older => "older",
            Self::Text => "text",
            Self::BytePairs => "byte-pairs",
            Self::Shifted(512) => "shifted-512",
            Self::Shifted(4096) => "shifted-4k",
            Self::Shifted(_) => "shifted-64k",
        }
    }
}

/// Which bytes are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Where {
    /// So many stretches of this length around metadata: number and bytes.
    Around(usize, u64),
    /// One unit of this many bytes in so many, over the whole device: bytes, period.
    Every(u64, u64),
    /// All of the log.
    Log,
    /// The second half of the log.
    HalfOfLog,
    FirstHalf,
    SecondHalf,
    /// The first 16 MiB.
    Header,
    /// A group that is not group 0.
    Group,
    GroupZero,
    /// The headers of all groups.
    AllHeaders,
    /// The second half of so many blocks of metadata: a write that was interrupted.
    TornBlocks(usize),
    /// Every third sector of so many blocks of metadata.
    TornSectors(usize),
}

impl Where {
    fn name(self) -> String {
        match self {
            Self::Around(count, bytes) => format!("stretch-{}k/{count}", bytes / KIBIBYTE),
            Self::Every(bytes, period) => format!("every-{period}th-of-{bytes}/all"),
            Self::Log => "log/all".into(),
            Self::HalfOfLog => "log/half".into(),
            Self::FirstHalf => "device/first-half".into(),
            Self::SecondHalf => "device/second-half".into(),
            Self::Header => "device/first-16-mib".into(),
            Self::Group => "group/one".into(),
            Self::GroupZero => "group/first".into(),
            Self::AllHeaders => "sector-headers/all".into(),
            Self::TornBlocks(count) => format!("torn-blocks/{count}"),
            Self::TornSectors(count) => format!("torn-sectors/{count}"),
        }
    }
}

/// A damage of stretches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Region {
    Filled(Where, Source),
    /// So many pairs of stretches of this length exchanged.
    Swapped(usize, u64),
    /// So many stretches of this length written over others.
    Copied(usize, u64),
    /// Two groups exchanged.
    SwappedGroups,
    /// A group written over another.
    CopiedGroup,
    /// What this program with these options writes to a new device of this size, by its name in the list.
    OtherProgram(&'static str, &'static str, &'static [&'static str]),
    /// One bit in so many bytes of the device.
    Bits(u64),
    /// So many bits of metadata.
    MetadataBits(usize),
}

const OTHER_PROGRAMS: [(&str, &str, &[&str]); 5] = [
    ("ext4", "mke2fs", &["-q", "-F", "-t", "ext4"]),
    ("xfs", "mkfs.xfs", &["-q", "-f", "-K"]),
    ("xfs-small-blocks", "mkfs.xfs", &["-q", "-f", "-K", "-b", "size=1024", "-d", "agcount=7"]),
    ("xfs-two-groups", "mkfs.xfs", &["-q", "-f", "-K", "-m", "crc=1,rmapbt=0,reflink=0", "-d", "agcount=2"]),
    ("swap", "mkswap", &["-q"]),
];

/// All of them.
pub fn all() -> Vec<Region> {
    use Source::{BytePairs, Older, Ones, Random, Shifted, Text, Zero};
    let filled = |place: Where, sources: &[Source]| -> Vec<Region> {
        sources.iter().map(|source| Region::Filled(place, *source)).collect()
    };
    let mut all = [
        filled(Where::Every(4 * KIBIBYTE, 37), &[Zero, Random, Older]),
        filled(Where::Every(SECTOR_BYTES, 101), &[Zero, Random]),
        filled(Where::Every(64 * KIBIBYTE, 3), &[Zero, Older]),
        filled(Where::Every(64 * KIBIBYTE, 5), &[Older, Random]),
        filled(Where::Every(256 * KIBIBYTE, 4), &[Zero, Older]),
        filled(Where::FirstHalf, &[Zero, Older]),
        filled(Where::SecondHalf, &[Zero, Ones, Older]),
        filled(Where::Header, &[Random]),
        filled(Where::Group, &[Older, Text, Shifted(4096), BytePairs]),
        filled(Where::GroupZero, &[Older, Zero]),
        filled(Where::AllHeaders, &[Older, Text]),
        filled(Where::Log, &[Zero, Random, Older, Text]),
        filled(Where::HalfOfLog, &[Zero, Random, Older]),
        filled(Where::TornBlocks(20), &[Zero, Random, Older, Shifted(4096)]),
        filled(Where::TornBlocks(200), &[Older]),
        filled(Where::TornSectors(20), &[Zero, Older, Text]),
        filled(
            Where::Around(1, MEBIBYTE),
            &[Text, Older, Shifted(512), Shifted(4096), Shifted(65536), BytePairs],
        ),
        filled(Where::Around(20, 64 * KIBIBYTE), &[Text, Older, Shifted(512), Shifted(4096), Zero]),
        filled(Where::Around(100, 4 * KIBIBYTE), &[Shifted(512), Older]),
    ]
    .concat();
    all.extend([
        Region::Swapped(1, MEBIBYTE),
        Region::Swapped(10, 64 * KIBIBYTE),
        Region::Swapped(50, 4 * KIBIBYTE),
        Region::Copied(1, MEBIBYTE),
        Region::Copied(10, 64 * KIBIBYTE),
        Region::Copied(50, 4 * KIBIBYTE),
        Region::SwappedGroups,
        Region::CopiedGroup,
        Region::Bits(MEBIBYTE),
        Region::Bits(32 * KIBIBYTE),
        Region::MetadataBits(20),
        Region::MetadataBits(500),
    ]);
    all.extend(OTHER_PROGRAMS.map(|(name, program, options)| Region::OtherProgram(name, program, options)));
    all
}

impl Region {
    /// As the list of kinds has it.
    pub fn name(self) -> String {
        match self {
            Self::Filled(place, source) => {
                let place = place.name();
                let (first, rest) = place.split_once('/').unwrap_or((&place, ""));
                format!("{first}/{}/{rest}", source.name())
            }
            Self::Swapped(count, bytes) => format!("stretch-{}k/swapped/{count}", bytes / KIBIBYTE),
            Self::Copied(count, bytes) => format!("stretch-{}k/misdirected/{count}", bytes / KIBIBYTE),
            Self::SwappedGroups => "group/swapped/two".into(),
            Self::CopiedGroup => "group/misdirected/one".into(),
            Self::OtherProgram(name, ..) => format!("other-file-system/{name}/all"),
            Self::Bits(bytes) => format!("bits/one-in-{}k/device", bytes / KIBIBYTE),
            Self::MetadataBits(count) => format!("bits/{count}/metadata"),
        }
    }

    /// Damages the scene. Returns a reason where this image cannot be damaged like this.
    pub fn damage(self, damage: &mut Damage<'_>, scene: &Scene<'_>) -> Result<Option<String>> {
        let geometry = &scene.objects.geometry;
        match self {
            Self::Filled(_, Source::Older) if scene.older.is_none() => {
                return Ok(Some("there is no older version of this image".into()));
            }
            Self::Filled(place, source) => {
                for range in ranges(place, damage, scene) {
                    fill(damage, scene, range, source)?;
                }
            }
            Self::Swapped(count, bytes) => {
                let stretches = around(damage, scene, 2 * count, bytes);
                for pair in stretches.chunks_exact(2) {
                    exchange(damage, scene, &pair[0], &pair[1])?;
                }
            }
            Self::Copied(count, bytes) => {
                let stretches = around(damage, scene, 2 * count, bytes);
                for pair in stretches.chunks_exact(2) {
                    copy(damage, scene.device, &pair[0], pair[1].start)?;
                }
            }
            Self::SwappedGroups | Self::CopiedGroup => {
                // The last may be shorter than the others.
                let whole = geometry.ag_count.saturating_sub(1);
                let groups = damage.choose(&(0..whole).collect::<Vec<_>>(), 2);
                let [first, second] = groups.as_slice() else {
                    return Ok(Some("this image has too few groups".into()));
                };
                let (first, second) = (group_range(geometry, *first), group_range(geometry, *second));
                if self == Self::SwappedGroups {
                    exchange(damage, scene, &first, &second)?;
                } else {
                    copy(damage, scene.device, &first, second.start)?;
                }
            }
            Self::OtherProgram(_, program, options) => {
                return other_program(damage, geometry, program, options);
            }
            Self::Bits(bytes) => {
                for start in (0..geometry.data_size_bytes()).step_by(bytes as usize) {
                    flip(damage, scene, start..start + bytes)?;
                }
            }
            Self::MetadataBits(count) => {
                let blocks = scene.objects.blocks();
                for object in damage.choose(&blocks, count) {
                    for (start, length) in &object.pieces {
                        flip(damage, scene, *start..start + u64::from(*length))?;
                    }
                }
            }
        }
        damage.words.push(self.name());
        Ok(damage.patches.is_empty().then(|| "that would change nothing".into()))
    }
}

fn group_range(geometry: &Geometry, group: u32) -> Range<u64> {
    let length = u64::from(geometry.ag_blocks) * u64::from(geometry.block_size_bytes);
    let start = u64::from(group) * length;
    start..(start + length).min(geometry.data_size_bytes())
}

fn one(range: Range<u64>) -> Vec<Range<u64>> {
    std::iter::once(range).collect()
}

fn ranges(place: Where, damage: &mut Damage<'_>, scene: &Scene<'_>) -> Vec<Range<u64>> {
    let geometry = &scene.objects.geometry;
    let size = geometry.data_size_bytes();
    let block = u64::from(geometry.block_size_bytes);
    let log_sector = geometry.log_start.and_then(|start| geometry.sector_of_block(start));
    let log_start = log_sector.map_or(0, Geometry::byte_of_sector);
    let log = log_start..log_start + u64::from(geometry.log_blocks) * block;
    match place {
        Where::Around(count, bytes) => around(damage, scene, count, bytes),
        Where::Every(bytes, period) => {
            let first = damage.below(period);
            let units = (0..size / bytes).skip(first as usize).step_by(period as usize);
            units.map(|unit| unit * bytes..(unit + 1) * bytes).collect()
        }
        Where::Log => one(log),
        Where::HalfOfLog => one(log.start.midpoint(log.end)..log.end),
        Where::FirstHalf => one(0..size / 2),
        Where::SecondHalf => one(size / 2..size),
        Where::Header => one(0..LUKS_HEADER_BYTES.min(size)),
        Where::Group => {
            let groups: Vec<u32> = (1..geometry.ag_count).collect();
            let group = damage.choose(&groups, 1).first().copied().unwrap_or(0);
            one(group_range(geometry, group))
        }
        Where::GroupZero => one(group_range(geometry, 0)),
        Where::AllHeaders => {
            let headers = 4 * u64::from(geometry.sector_size_bytes);
            let start = |group| group_range(geometry, group).start;
            (0..geometry.ag_count).map(|group| start(group)..start(group) + headers).collect()
        }
        Where::TornBlocks(count) => pieces(damage, scene, count)
            .into_iter()
            .map(|piece| piece.start.midpoint(piece.end) / SECTOR_BYTES * SECTOR_BYTES..piece.end)
            .collect(),
        Where::TornSectors(count) => {
            let sectors = |piece: Range<u64>| {
                piece.step_by(3 * SECTOR_BYTES as usize).map(|start| start..start + SECTOR_BYTES)
            };
            pieces(damage, scene, count).into_iter().flat_map(sectors).collect()
        }
    }
}

/// The pieces of `count` blocks of metadata.
fn pieces(damage: &mut Damage<'_>, scene: &Scene<'_>, count: usize) -> Vec<Range<u64>> {
    let chosen = damage.choose(&scene.objects.blocks(), count);
    let all = chosen.iter().flat_map(|object| &object.pieces);
    all.map(|(start, length)| *start..start + u64::from(*length)).collect()
}

/// Different stretches of this length, aligned to it, that hold metadata: up to `count`.
fn around(damage: &mut Damage<'_>, scene: &Scene<'_>, count: usize, bytes: u64) -> Vec<Range<u64>> {
    let size = scene.objects.geometry.data_size_bytes();
    let starts = scene.objects.blocks().into_iter().filter_map(|object| object.pieces.first());
    let mut starts: Vec<u64> = starts.map(|(start, _)| start / bytes * bytes).collect();
    starts.sort_unstable();
    starts.dedup();
    starts.retain(|start| start + bytes <= size);
    damage.choose(&starts, count).into_iter().map(|start| start..start + bytes).collect()
}

fn fill(damage: &mut Damage<'_>, scene: &Scene<'_>, range: Range<u64>, source: Source) -> Result<()> {
    for start in range.clone().step_by(STEP_BYTES as usize) {
        let length = STEP_BYTES.min(range.end - start) as usize;
        let mut bytes = vec![0; length];
        match source {
            Source::Zero => {}
            Source::Ones => bytes.fill(0xff),
            Source::Random => damage.random_bytes(&mut bytes),
            Source::Older => scene.older.context("no older version")?.read(start, &mut bytes)?,
            Source::Text => fill_with_text(&mut bytes, start),
            Source::BytePairs => {
                scene.device.read(start, &mut bytes)?;
                bytes.chunks_exact_mut(2).for_each(|pair| pair.swap(0, 1));
            }
            Source::Shifted(by) => {
                // The first bytes stay: what lay before was not part of the write.
                let kept = by.min(start).min(length as u64);
                scene.device.read(start - kept, &mut bytes)?;
            }
        }
        damage.replace(start, &bytes)?;
    }
    Ok(())
}

fn fill_with_text(bytes: &mut [u8], start: u64) {
    for (line, chunk) in (start..).zip(bytes.chunks_mut(64)) {
        let text = format!(
            "Nov 29 {:02}:{:02}:07 host kernel: [{line:14}] nothing to be seen here......\n",
            line % 24,
            line % 60
        );
        let length = chunk.len().min(text.len());
        chunk[..length].copy_from_slice(&text.as_bytes()[..length]);
    }
}

fn copy(damage: &mut Damage<'_>, from: &dyn BlockDevice, range: &Range<u64>, to: u64) -> Result<()> {
    for start in range.clone().step_by(STEP_BYTES as usize) {
        let mut bytes = vec![0; STEP_BYTES.min(range.end - start) as usize];
        from.read(start, &mut bytes)?;
        damage.replace(to + (start - range.start), &bytes)?;
    }
    Ok(())
}

fn exchange(damage: &mut Damage<'_>, scene: &Scene<'_>, a: &Range<u64>, b: &Range<u64>) -> Result<()> {
    copy(damage, scene.device, a, b.start)?;
    copy(damage, scene.device, b, a.start)
}

/// Flips one bit of the range.
fn flip(damage: &mut Damage<'_>, scene: &Scene<'_>, range: Range<u64>) -> Result<()> {
    let offset = range.start + damage.below(range.end - range.start);
    let mut byte = [0];
    scene.device.read(offset, &mut byte)?;
    byte[0] ^= 1 << damage.below(8);
    damage.replace(offset, &byte)
}

/// Writes what another program writes to a new file of the device's size.
fn other_program(
    damage: &mut Damage<'_>,
    geometry: &Geometry,
    program: &str,
    options: &[&str],
) -> Result<Option<String>> {
    let file = tempfile::NamedTempFile::new_in("/dev/shm")?;
    file.as_file().set_len(geometry.data_size_bytes())?;
    let run = Command::new(program).args(options).arg(file.path()).output();
    let output = match run {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Some(format!("there is no {program}")));
        }
        run => run?,
    };
    ensure!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    for range in data_of(file.as_file())? {
        for start in range.clone().step_by(STEP_BYTES as usize) {
            let mut bytes = vec![0; STEP_BYTES.min(range.end - start) as usize];
            file.as_file().read_exact_at(&mut bytes, start)?;
            damage.replace(start, &bytes)?;
        }
    }
    damage.words.push(format!("{program} {}", options.join(" ")));
    Ok(None)
}

/// The stretches of a file that are not holes.
fn data_of(file: &File) -> Result<Vec<Range<u64>>> {
    use rustix::{
        fs::{SeekFrom, seek},
        io::Errno,
    };
    let mut all = Vec::new();
    let mut end = 0;
    loop {
        let start = match seek(file, SeekFrom::Data(end)) {
            Err(Errno::NXIO) => return Ok(all),
            start => start?,
        };
        end = seek(file, SeekFrom::Hole(start))?;
        all.push(start..end);
    }
}
