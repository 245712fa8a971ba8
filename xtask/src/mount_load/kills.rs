//! Both processes of a mount are killed at random moments while threads make files, rename over files, append and remove, and sync.
//!
//! What a thread was told to be durable must be there after the next mount, and beside it a beginning of what the thread did later, in its
//! order. Nothing may be half: a file that was synced and renamed has all its bytes, and a rename changes both names.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Write,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail, ensure};
use uxfs_testkit::seeds::Random;

use super::{Stage, limit, place::Place, processes};

/// Threads, each with a directory of its own.
const WORKERS: u64 = 4;
/// Files of a thread.
const FILES: u64 = 24;
const LONGEST_BYTES: u64 = 60_000;
/// Of a log that is appended to.
const RECORD_BYTES: usize = 96;
/// Blocks of a file that is overwritten in place.
const BLOCKS: u64 = 16;
const BLOCK_BYTES: usize = 4096;
/// Rounds between two judgements of the image.
const JUDGED_EVERY: u64 = 20;
const LONGEST_END: Duration = Duration::from_secs(20);

/// Runs it.
pub fn load(stage: &Stage) -> Result<String> {
    let rounds = stage.rounds.unwrap_or(200);
    let place = Place::mounted(stage, "1G", limit(stage, Duration::from_secs(120 + rounds * 4)))?;
    let mut random = Random::new(stage.seed);
    let mut workers: Vec<Worker> =
        (0..WORKERS).map(|number| Worker::new(place.path(), number, stage.seed)).collect::<Result<_>>()?;
    let mut seen = 0;
    for round in 0..rounds {
        work_until_killed(&place, &mut workers, &mut random)?;
        place.mount()?;
        for worker in &mut workers {
            seen +=
                worker.verify().with_context(|| format!("round {round}, {}", worker.directory.display()))?;
        }
        if round % JUDGED_EVERY == JUDGED_EVERY - 1 {
            place.unmount()?;
            place.is_sound().with_context(|| format!("round {round}"))?;
            place.mount()?;
        }
    }
    let (acknowledged, did) =
        workers.iter().fold((0, 0), |sum, worker| (sum.0 + worker.acknowledged, sum.1 + worker.did));
    place.finish()?;
    Ok(format!(
        "{rounds} kills, {did} operations, {acknowledged} syncs acknowledged, {seen} objects compared"
    ))
}

fn work_until_killed(place: &Place<'_>, workers: &mut [Worker], random: &mut Random) -> Result<()> {
    let most_microseconds = 1 << (10 + random.below(10));
    let wait = Duration::from_micros(2000 + random.below(most_microseconds));
    let kills_both = random.below(3) > 0;
    let is_killed = AtomicBool::new(false);
    thread::scope(|scope| {
        let running: Vec<_> =
            workers.iter_mut().map(|worker| scope.spawn(|| worker.work(&is_killed))).collect();
        thread::sleep(wait);
        is_killed.store(true, Relaxed);
        let killed = if kills_both { place.kill() } else { kill_server(place) };
        for thread in running {
            thread.join().map_err(|_| anyhow!("a thread panicked"))??;
        }
        killed
    })
}

/// Only the process that serves: the other one takes the dead mount away.
fn kill_server(place: &Place<'_>) -> Result<()> {
    let all = processes::of(place.image());
    let server: Vec<_> = all.into_iter().filter(|process| process.serves).collect();
    ensure!(server.len() == 1, "a mount has one process that serves, and this one {server:?}");
    processes::kill(&server);
    processes::wait_for_the_end(place.image(), LONGEST_END)
}

/// What a name leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Absent,
    Directory,
    /// A file with the contents of this version.
    File(u64),
}

/// What one operation does to names.
type Change = Vec<(String, State)>;

/// A thread and all that it was told.
struct Worker {
    number: u64,
    directory: PathBuf,
    random: Random,
    /// What is durable, and what came later.
    durable: BTreeMap<String, State>,
    later: Vec<Change>,
    version: u64,
    /// Records of the log that are durable, and that were written.
    records: (u64, u64),
    /// For each block the version that is durable, and the one that was written.
    blocks: Vec<(u64, u64)>,
    acknowledged: u64,
    did: u64,
}

impl Worker {
    fn new(root: &Path, number: u64, seed: u64) -> Result<Self> {
        let directory = root.join(format!("worker-{number}"));
        fs::create_dir(&directory)?;
        File::create(directory.join("log"))?.sync_all()?;
        let blocks = File::create(directory.join("blocks"))?;
        for block in 0..BLOCKS {
            blocks.write_all_at(&block_contents(number, block, 0), block * BLOCK_BYTES as u64)?;
        }
        blocks.sync_all()?;
        File::open(&directory)?.sync_all()?;
        File::open(root)?.sync_all()?;
        Ok(Self {
            number,
            directory,
            random: Random::new(seed ^ (number << 32)),
            durable: BTreeMap::new(),
            later: Vec::new(),
            version: 0,
            records: (0, 0),
            blocks: vec![(0, 0); BLOCKS as usize],
            acknowledged: 0,
            did: 0,
        })
    }

    /// Works until the mount is gone.
    fn work(&mut self, is_killed: &AtomicBool) -> Result<()> {
        loop {
            match self.step() {
                Ok(()) => self.did += 1,
                Err(_) if is_killed.load(Relaxed) => return Ok(()),
                Err(error) => return Err(error.context("before the mount was killed")),
            }
        }
    }

    fn step(&mut self) -> Result<()> {
        let name = format!("name-{}", self.random.below(FILES));
        match self.random.below(8) {
            0 | 1 => self.replace(&name)?,
            2 => self.write(&name)?,
            3 => self.remove(&name)?,
            4 => self.move_over(&name)?,
            5 => self.make_directory(&name)?,
            6 => return self.append(),
            _ => return self.overwrite(),
        }
        if self.random.below(2) == 0 {
            self.sync_directory()?;
        }
        Ok(())
    }

    fn state(&self, name: &str) -> State {
        let later = self.later.iter().rev().flatten().find(|(changed, _)| changed == name);
        let state = later.map(|(_, state)| *state).or_else(|| self.durable.get(name).copied());
        state.unwrap_or(State::Absent)
    }

    /// Before a change is begun: a crash may show it.
    fn may_become(&mut self, change: &[(&str, State)]) {
        self.later.push(change.iter().map(|(name, state)| ((*name).to_owned(), *state)).collect());
    }

    fn sync_directory(&mut self) -> Result<()> {
        File::open(&self.directory)?.sync_all()?;
        self.acknowledged += 1;
        self.durable.extend(self.later.drain(..).flatten());
        Ok(())
    }

    fn new_file(&mut self, path: &Path) -> Result<u64> {
        self.version += 1;
        let mut file = File::create(path)?;
        file.write_all(&contents(self.number, self.version))?;
        file.sync_all()?;
        Ok(self.version)
    }

    /// As editors do: a new file, synced, is renamed over the old one.
    fn replace(&mut self, name: &str) -> Result<()> {
        if self.state(name) == State::Directory {
            return Ok(());
        }
        let temporary = self.directory.join("temporary");
        let version = self.new_file(&temporary)?;
        self.may_become(&[(name, State::File(version))]);
        Ok(fs::rename(temporary, self.directory.join(name))?)
    }

    /// A file that was not there. Until it is synced it may be there with any part of its bytes, so it is made under another name.
    fn write(&mut self, name: &str) -> Result<()> {
        if self.state(name) != State::Absent {
            return Ok(());
        }
        let temporary = self.directory.join("temporary");
        let version = self.new_file(&temporary)?;
        self.may_become(&[(name, State::File(version))]);
        fs::hard_link(&temporary, self.directory.join(name))?;
        Ok(fs::remove_file(temporary)?)
    }

    fn remove(&mut self, name: &str) -> Result<()> {
        let path = self.directory.join(name);
        match self.state(name) {
            State::Absent => Ok(()),
            State::Directory => {
                self.may_become(&[(name, State::Absent)]);
                Ok(fs::remove_dir(path)?)
            }
            State::File(_) => {
                self.may_become(&[(name, State::Absent)]);
                Ok(fs::remove_file(path)?)
            }
        }
    }

    /// One name over another: both change at once.
    fn move_over(&mut self, name: &str) -> Result<()> {
        let other = format!("name-{}", self.random.below(FILES));
        let (state, target) = (self.state(name), self.state(&other));
        let is_file = matches!(state, State::File(_)) && target != State::Directory && name != other;
        if !is_file {
            return Ok(());
        }
        self.may_become(&[(&other, state), (name, State::Absent)]);
        Ok(fs::rename(self.directory.join(name), self.directory.join(other))?)
    }

    fn make_directory(&mut self, name: &str) -> Result<()> {
        if self.state(name) != State::Absent {
            return Ok(());
        }
        self.may_become(&[(name, State::Directory)]);
        Ok(fs::create_dir(self.directory.join(name))?)
    }

    fn append(&mut self) -> Result<()> {
        let mut file = File::options().append(true).open(self.directory.join("log"))?;
        let count = 1 + self.random.below(20);
        for _ in 0..count {
            self.records.1 += 1;
            file.write_all(&record(self.number, self.records.1))?;
        }
        file.sync_data()?;
        self.acknowledged += 1;
        self.records.0 = self.records.1;
        Ok(())
    }

    fn overwrite(&mut self) -> Result<()> {
        let block = self.random.below(BLOCKS);
        let file = File::options().write(true).open(self.directory.join("blocks"))?;
        let versions = self.blocks.get_mut(block as usize).context("no such block")?;
        versions.1 += 1;
        let bytes = block_contents(self.number, block, versions.1);
        file.write_all_at(&bytes, block * BLOCK_BYTES as u64)?;
        file.sync_data()?;
        versions.0 = versions.1;
        self.acknowledged += 1;
        Ok(())
    }

    /// Looks at all names after a crash; gives their number. What is found is what is known from now on.
    fn verify(&mut self) -> Result<u64> {
        let mut found = BTreeMap::new();
        for entry in fs::read_dir(&self.directory)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if ["log", "blocks", "temporary"].contains(&name.as_str()) {
                continue;
            }
            let state = self.found(&name).with_context(|| format!("{name}, after {:?}", self.later))?;
            found.insert(name, state);
        }
        self.durable = self.state_after_a_beginning(found)?;
        self.later.clear();
        let _ = fs::remove_file(self.directory.join("temporary"));
        self.verify_log()?;
        self.verify_blocks()?;
        // What was found must stay, also after the next crash.
        self.sync_directory()?;
        Ok(self.durable.len() as u64 + BLOCKS + self.records.0)
    }

    /// The durable state with the first of the later changes, however many: that must have been found.
    fn state_after_a_beginning(&self, found: BTreeMap<String, State>) -> Result<BTreeMap<String, State>> {
        let is_there = |(_, state): &(&String, &State)| **state != State::Absent;
        let mut state = self.durable.clone();
        for change in std::iter::once(&Vec::new()).chain(&self.later) {
            state.extend(change.iter().cloned());
            if state.iter().filter(is_there).eq(found.iter()) {
                return Ok(found);
            }
        }
        bail!("found {found:?}\nwhich is not {:?}\nwith a beginning of {:?}", self.durable, self.later)
    }

    /// The state of a name that is there. A file must have one of its versions.
    fn found(&self, name: &str) -> Result<State> {
        let path = self.directory.join(name);
        if fs::symlink_metadata(&path)?.is_dir() {
            return Ok(State::Directory);
        }
        let bytes = fs::read(path)?;
        let later = self.later.iter().flatten().filter(|(changed, _)| changed == name);
        let mut possible = later.map(|(_, state)| *state).chain(self.durable.get(name).copied());
        let is_it =
            |state: &State| matches!(state, State::File(version) if contents(self.number, *version) == bytes);
        possible.find(is_it).with_context(|| format!("{} bytes that no version of it has", bytes.len()))
    }

    fn verify_log(&mut self) -> Result<()> {
        let path = self.directory.join("log");
        let bytes = fs::read(&path)?;
        let (durable, written) = self.records;
        let count = (bytes.len() / RECORD_BYTES) as u64;
        ensure!(
            (durable..=written).contains(&count),
            "the log has {count} records; {durable} are durable, {written} were written"
        );
        for (index, found) in (1..).zip(bytes.chunks_exact(RECORD_BYTES)) {
            let is_right = found == record(self.number, index).as_slice();
            ensure!(is_right || index > durable, "record {index} of {durable} durable ones has other bytes");
        }
        File::options().write(true).open(&path)?.set_len(durable * RECORD_BYTES as u64)?;
        File::open(&path)?.sync_all()?;
        self.records = (durable, durable);
        Ok(())
    }

    fn verify_blocks(&mut self) -> Result<()> {
        let bytes = fs::read(self.directory.join("blocks"))?;
        ensure!(bytes.len() == BLOCK_BYTES * BLOCKS as usize, "{} bytes of blocks", bytes.len());
        for (block, (found, versions)) in (0..).zip(bytes.chunks_exact(BLOCK_BYTES).zip(&mut self.blocks)) {
            let version = (versions.0..=versions.1)
                .find(|version| block_contents(self.number, block, *version) == found);
            let version = version.with_context(|| format!("block {block} is none of {versions:?}"))?;
            *versions = (version, version);
        }
        Ok(())
    }
}

fn contents(number: u64, version: u64) -> Vec<u8> {
    let mut random = Random::new((number << 40) ^ version);
    let most = 1 << random.below(17);
    let mut bytes = vec![0; random.below(most).min(LONGEST_BYTES) as usize];
    random.fill(&mut bytes);
    // No two versions are alike, however short.
    bytes.extend_from_slice(&version.to_le_bytes());
    bytes
}

fn record(number: u64, index: u64) -> Vec<u8> {
    let mut bytes = vec![0; RECORD_BYTES];
    Random::new((number << 48) ^ index ^ 0x5ec0_4d00_0000).fill(&mut bytes);
    bytes
}

fn block_contents(number: u64, block: u64, version: u64) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK_BYTES];
    Random::new((number << 56) ^ (block << 40) ^ version).fill(&mut bytes);
    bytes
}
