//! Operations by paths, told to the kernel and to uxfs alike.

use std::collections::BTreeMap;

use uxfs_testkit::seeds::Random;

/// Names from the root to a file.
pub type Path = Vec<Vec<u8>>;

/// What a new file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    Regular,
    Directory,
    Symlink(Vec<u8>),
    Fifo,
    Socket,
    Character(u32, u32),
    Block(u32, u32),
}

/// A name in a directory.
#[derive(Clone, PartialEq, Eq)]
pub struct Place {
    pub directory: Path,
    pub name: Vec<u8>,
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.directory.iter().chain([&self.name]).try_for_each(|name| write!(f, "/{}", shown(name)))
    }
}

/// A name that people can read: long ones all have one letter.
pub fn shown(name: &[u8]) -> String {
    match name {
        [first, ..] if name.len() > 3 => format!("{}*{}", char::from(*first), name.len()),
        _ => name.escape_ascii().to_string(),
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    Create {
        place: Place,
        kind: Kind,
        permissions: u16,
    },
    Link {
        from: Place,
        to: Place,
    },
    Unlink(Place),
    RemoveDirectory(Place),
    /// With Linux's flags: 1 no replace, 2 exchange, 4 whiteout.
    Rename {
        from: Place,
        to: Place,
        flags: u32,
    },
    Chmod(Place, u16),
    Chown(Place, u32, u32),
    /// Access and modification.
    SetTimes(Place, (i64, u32), (i64, u32)),
    /// Immutable, only to be appended to.
    SetFlags(Place, bool, bool),
    /// Hands its project down, and which; for directories.
    SetProject(Place, bool, u32),
}

/// All that is seen of a file, and which of its times the last operation has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub mode: u32,
    pub links: u64,
    pub uid: u32,
    pub gid: u32,
    pub device: (u32, u32),
    pub target: Vec<u8>,
    /// Of files that are no directories.
    pub size: u64,
    /// The same for names of one file.
    pub inode: usize,
    pub has_new_modification_time: bool,
    pub has_new_change_time: bool,
}

/// Every path.
pub type Snapshot = BTreeMap<Path, Seen>;

/// An implementation that performs operations: uxfs or Linux.
pub trait Side {
    /// `Err` has the number of the error.
    fn perform(&mut self, operation: &Operation) -> Result<(), i32>;

    fn look(&mut self) -> Snapshot;
}

/// Numbers inodes by their first path, and remembers times.
#[derive(Debug, Default)]
pub struct Memory {
    times: BTreeMap<u64, [(i64, u32); 2]>,
}

/// Modification and change, with the inode's number.
pub type Times = (u64, [(i64, u32); 2]);

impl Memory {
    /// Fills in what depends on what was seen before.
    pub fn remember(&mut self, mut seen: Vec<(Path, Seen, Times)>) -> Snapshot {
        seen.sort_by(|one, other| one.0.cmp(&other.0));
        let (mut numbers, mut times) = (BTreeMap::new(), BTreeMap::new());
        let mut snapshot = Snapshot::new();
        for (path, mut file, (inode, now)) in seen {
            let next = numbers.len();
            file.inode = *numbers.entry(inode).or_insert(next);
            let before = self.times.get(&inode);
            file.has_new_modification_time = before.is_none_or(|before| before[0] != now[0]);
            file.has_new_change_time = before.is_none_or(|before| before[1] != now[1]);
            times.insert(inode, now);
            snapshot.insert(path, file);
        }
        self.times = times;
        snapshot
    }
}

/// Makes operations on few names, so that many of them fail.
pub struct Generator {
    random: Random,
    weights: [u64; 10],
}

impl Generator {
    /// Each seed switches some operations off.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut weights = [40, 12, 15, 12, 40, 6, 5, 4, 4, 2];
        for weight in &mut weights[1..] {
            if random.below(5) == 0 {
                *weight = 0;
            }
        }
        Self { random, weights }
    }

    pub fn next(&mut self, snapshot: &Snapshot) -> Operation {
        let mut left = self.random.below(self.weights.iter().sum());
        let chosen = self.weights.iter().position(|weight| {
            let is_it = left < *weight;
            left = left.saturating_sub(*weight);
            is_it
        });
        match chosen.unwrap_or(0) {
            0 => {
                let (place, kind) = (self.place(snapshot), self.kind());
                let permissions = [0o644, 0o755, 0o2755, 0o4711, 0o2644, 0o1777][self.below(6)];
                Operation::Create { place, kind, permissions }
            }
            1 => Operation::Link { from: self.file(snapshot), to: self.place(snapshot) },
            2 => Operation::Unlink(self.file(snapshot)),
            3 => Operation::RemoveDirectory(self.file(snapshot)),
            4 => {
                let flags = [0, 0, 0, 1, 2, 2, 4, 5, 3][self.below(9)];
                let from = self.file(snapshot);
                let to = if self.below(2) == 0 { self.file(snapshot) } else { self.place(snapshot) };
                Operation::Rename { from, to, flags }
            }
            5 => {
                let permissions = [0o600, 0o2755, 0o4755, 0o6711, 0o2644, 0o1777][self.below(6)];
                Operation::Chmod(self.file(snapshot), permissions)
            }
            6 => {
                let owner = self.random.below(5) as u32;
                Operation::Chown(self.file(snapshot), owner, owner + 7)
            }
            7 => {
                let time =
                    |random: &mut Random| (random.below(4_000_000_000) as i64, random.below(1000) as u32);
                let access = time(&mut self.random);
                Operation::SetTimes(self.file(snapshot), access, time(&mut self.random))
            }
            8 => {
                let set = self.below(4) == 0;
                let (is_immutable, is_append) = (set && self.below(2) == 0, set && self.below(2) == 0);
                Operation::SetFlags(self.file(snapshot), is_immutable, is_append)
            }
            _ => {
                let (inherits, project) = (self.below(2) == 0, self.random.below(3) as u32);
                Operation::SetProject(self.file(snapshot), inherits, project)
            }
        }
    }

    fn below(&mut self, limit: usize) -> usize {
        self.random.below(limit as u64) as usize
    }

    fn kind(&mut self) -> Kind {
        match self.below(12) {
            0..5 => Kind::Regular,
            5..8 => Kind::Directory,
            8 => Kind::Symlink(vec![b't'; [1, 30, 192, 193, 1000][self.below(5)]]),
            9 => Kind::Fifo,
            10 => Kind::Socket,
            _ if self.below(2) == 0 => Kind::Character(5, self.random.below(300) as u32),
            _ => Kind::Block(300, 7),
        }
    }

    fn directory(&mut self, snapshot: &Snapshot) -> Path {
        let is_directory = |file: &Seen| file.mode & 0o170_000 == 0o040_000;
        let all: Vec<&Path> =
            snapshot.iter().filter(|(_, file)| is_directory(file)).map(|(path, _)| path).collect();
        all[self.below(all.len())].clone()
    }

    /// Any name, often one that is there.
    fn place(&mut self, snapshot: &Snapshot) -> Place {
        let name = match self.below(60) {
            0 => b".".to_vec(),
            1 => b"..".to_vec(),
            2 => vec![b'x'; 255],
            3 => vec![b'x'; 256],
            4 => vec![b'y'; 120],
            _ => vec![b'a' + self.below(7) as u8; 1 + self.below(2) * 40],
        };
        Place { directory: self.directory(snapshot), name }
    }

    /// Mostly one that is there.
    fn file(&mut self, snapshot: &Snapshot) -> Place {
        if self.below(6) == 0 || snapshot.len() < 2 {
            let place = self.place(snapshot);
            // What is above the root is another file system for the kernel.
            let is_outside = place.directory.is_empty() && place.name == b"..";
            return if is_outside { Place { name: b"a".to_vec(), ..place } } else { place };
        }
        let index = 1 + self.below(snapshot.len() - 1);
        let path = snapshot.keys().nth(index).unwrap();
        let (name, directory) = path.split_last().unwrap();
        Place { directory: directory.to_vec(), name: name.clone() }
    }
}
