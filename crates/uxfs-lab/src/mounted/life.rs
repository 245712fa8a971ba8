//! The life of one image: rounds of work, deaths of its mount, and what judges say of it.

use std::{
    fmt,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, ensure};
use rustix::fs::{Mode, mkdirat};
use tempfile::TempDir;
use uxfs_testkit::{
    image::memory_folder,
    judges::Judge,
    mount::{Access, LoopMount},
    seeds::Random,
    sparse,
    verdict::repair_is_silent,
};

use super::{
    member::{End, FILES_OF_MEMBER, Member, SHARED},
    mount::{Mounted, run},
    walk::Observed,
    watchdog::Watchdog,
};

/// How a model runs.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The `uxfs` binary.
    pub program: PathBuf,
    /// Rounds on each image; each is followed by a comparison.
    pub rounds: usize,
    /// Actions of a thread in a round.
    pub actions: usize,
    /// Threads.
    pub threads: u32,
    /// Whether the processes of the mount are killed in half of the rounds.
    pub kills: bool,
    /// Options of the mount.
    pub options: String,
    /// Decides everything but the schedule.
    pub seed: u64,
    /// Where the image of a failure is kept.
    pub keep: Option<PathBuf>,
}

/// What was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Tally {
    pub rounds: usize,
    pub actions: usize,
    pub kills: usize,
    /// Operations that a crash took back.
    pub lost: usize,
    /// By `xfs_repair`, the check, and the kernel.
    pub judged: usize,
}

impl Tally {
    /// Adds another one.
    pub fn add(&mut self, other: Self) {
        self.rounds += other.rounds;
        self.actions += other.actions;
        self.kills += other.kills;
        self.lost += other.lost;
        self.judged += other.judged;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, actions, kills, lost, judged } = self;
        write!(
            f,
            "{rounds} rounds, {actions} actions, {kills} kills ({lost} operations lost), {judged} images judged"
        )
    }
}

/// Options of mkfs: each life has one of them.
const SHAPES: [&[&str]; 6] = [
    &[],
    &["-b", "size=1k"],
    &["-m", "rmapbt=1", "-d", "agcount=5"],
    &["-n", "size=8k", "-i", "size=1024"],
    &["-m", "reflink=0", "-b", "size=2k"],
    &["-n", "parent=1", "-i", "nrext64=1"],
];

/// An image from its birth.
#[derive(Debug)]
struct Life<'a> {
    plan: &'a Plan,
    image: PathBuf,
    options: String,
    random: Random,
    members: Vec<Member>,
    tally: Tally,
}

/// Makes an image and lets threads work on it.
///
/// # Errors
/// The mount is not what the model says, or a judge finds something. The image is kept where the plan says.
pub fn live(plan: &Plan) -> Result<Tally> {
    let folder = tempfile::Builder::new().prefix("uxfs-model-").tempdir_in(memory_folder())?;
    let lived = Life::new(plan, &folder).and_then(Life::run);
    lived
        .inspect_err(|_| keep(plan, &folder))
        .with_context(|| format!("seed {}, {} threads, options `{}`", plan.seed, plan.threads, plan.options))
}

fn keep(plan: &Plan, folder: &TempDir) {
    let Some(to) = &plan.keep else { return };
    let image = to.join(format!("model-{}.img", plan.seed));
    match std::fs::copy(folder.path().join("image"), &image) {
        Ok(_) => eprintln!("kept: {}", image.display()),
        Err(error) => eprintln!("cannot keep {}: {error}", image.display()),
    }
}

impl<'a> Life<'a> {
    fn new(plan: &'a Plan, folder: &TempDir) -> Result<Self> {
        let mut random = Random::new(plan.seed);
        let image = folder.path().join("image");
        let shape = SHAPES[random.index(SHAPES.len())];
        run(Command::new(&plan.program).args(["mkfs", "--size", "400M"]).args(shape).arg(&image))?;
        Ok(Self {
            plan,
            image,
            options: plan.options.clone(),
            random,
            members: Vec::new(),
            tally: Tally::default(),
        })
    }

    fn mount(&self) -> Result<Mounted> {
        Mounted::new(&self.plan.program, &self.image, &self.options)
    }

    fn run(mut self) -> Result<Tally> {
        let mut mounted = self.mount()?;
        self.populate(&mounted)?;
        for round in 0..self.plan.rounds {
            let is_killed = self.plan.kills && self.random.below(2) == 0;
            let what = format!("seed {}, round {round}", self.plan.seed);
            mounted = match is_killed {
                true => self.killed_round(mounted, &what),
                false => self.round(mounted, &what),
            }
            .context(what)?;
            self.tally.rounds += 1;
            if self.members.iter().any(|member| member.made() > FILES_OF_MEMBER as usize * 3 / 4) {
                break;
            }
        }
        self.end(mounted).context("at the end")?;
        self.tally.actions = self.members.iter().map(Member::actions).sum();
        Ok(self.tally)
    }

    fn populate(&mut self, mounted: &Mounted) -> Result<()> {
        let root = mounted.root()?;
        mkdirat(&root, SHARED, Mode::from_raw_mode(0o777))?;
        let umask = umask()?;
        for index in 0..self.plan.threads {
            let mut member = Member::new(&root, index, self.plan.seed, umask)?;
            member.mount_promises(&self.options);
            self.members.push(member);
        }
        Ok(())
    }

    /// Lets all threads work. Gives whether the mount died.
    fn work(&mut self, may_die: &AtomicBool, meanwhile: impl FnOnce() -> Result<()>) -> Result<()> {
        let actions = self.plan.actions;
        let ends: Result<Vec<End>> = thread::scope(|scope| {
            let threads: Vec<_> =
                self.members.iter_mut().map(|member| scope.spawn(|| member.work(actions, may_die))).collect();
            let done = meanwhile();
            let ends = threads.into_iter().map(|thread| match thread.join() {
                Ok(end) => end,
                Err(_) => Err(anyhow!("a thread panicked")),
            });
            let ends = ends.collect();
            done.and(ends)
        });
        ends.map(drop)
    }

    /// Work, and a comparison of all that is there with the model.
    fn round(&mut self, mounted: Mounted, what: &str) -> Result<Mounted> {
        let watchdog = Watchdog::new(&mounted, what.to_owned())?;
        self.members.iter_mut().for_each(Member::start_anew);
        let worked = self.work(&AtomicBool::new(false), || Ok(()));
        let compared = worked.and_then(|()| self.compare(&mounted.root()?));
        watchdog.end()?;
        compared?;
        match self.random.below(3) {
            0 => {
                self.end(mounted)?;
                let mounted = self.mount()?;
                self.take(&mounted)?;
                Ok(mounted)
            }
            _ => Ok(mounted),
        }
    }

    fn compare(&self, root: &OwnedFd) -> Result<Vec<Observed>> {
        let observe = |member: &Member| {
            let observed = member.observe(root)?;
            member.compare(&observed)?;
            Ok(observed)
        };
        self.members.iter().map(observe).collect()
    }

    fn take(&mut self, mounted: &Mounted) -> Result<()> {
        let root = mounted.root()?;
        self.members.iter_mut().try_for_each(|member| member.take(&root))
    }

    /// Work until the processes die; recovery; a comparison with what the model allows.
    fn killed_round(&mut self, mounted: Mounted, what: &str) -> Result<Mounted> {
        let watchdog = Watchdog::new(&mounted, what.to_owned())?;
        self.members.iter_mut().try_for_each(Member::settle)?;
        let may_die = AtomicBool::new(false);
        let both = self.random.below(4) == 0;
        let pause = Duration::from_micros(1000 + self.random.below(600_000));
        let worked = self.work(&may_die, || {
            thread::sleep(pause);
            may_die.store(true, Ordering::SeqCst);
            mounted.kill(both)
        });
        // Threads that were done before do not know of it.
        watchdog.end()?;
        worked?;
        self.members.iter_mut().for_each(Member::lose);
        mounted.bury(both)?;
        self.tally.kills += 1;
        let is_for_the_kernel = Judge::Kernel.is_present() && self.random.below(3) == 0;
        let crashed = is_for_the_kernel.then(|| self.copy("crashed")).transpose()?;
        let mounted = self.mount().context("after a kill")?;
        let watchdog = Watchdog::new(&mounted, format!("{what}, after the kill"))?;
        let root = mounted.root()?;
        let mut recovered = Vec::new();
        for member in &mut self.members {
            let observed = member.observe(&root)?;
            self.tally.lost += member.judge(&observed).context("after a kill")?;
            member.take(&root)?;
            member.mend(&observed)?;
            recovered.push(observed);
        }
        let compared = self.compare(&root);
        watchdog.end()?;
        compared?;
        if let Some(crashed) = crashed {
            self.kernel_recovers(&crashed, &recovered).context("the kernel's recovery")?;
        }
        Ok(mounted)
    }

    /// A copy of the image; holes stay holes.
    fn copy(&self, name: &str) -> Result<PathBuf> {
        let copy = self.image.with_file_name(name);
        run(Command::new("cp").arg("--sparse=always").arg(&self.image).arg(&copy))?;
        Ok(copy)
    }

    /// The kernel recovers the same log to the same tree. It is asked only where our recovery leads to a sound image, because a damaged one
    /// can wedge it.
    fn kernel_recovers(&mut self, crashed: &Path, recovered: &[Observed]) -> Result<()> {
        let ours = crashed.with_file_name("replayed");
        sparse::copy(crashed, &ours)?;
        run(Command::new(&self.plan.program).arg("replay").arg(&ours))?;
        repair_is_silent(&ours)?;
        std::fs::remove_file(&ours)?;
        let kernel = LoopMount::with_options(crashed, Access::ReadWrite, "noatime")?;
        let root = super::walk::open_path(kernel.path())?;
        for (member, recovered) in self.members.iter().zip(recovered) {
            same(recovered, &member.observe(&root)?)?;
        }
        drop(root);
        kernel.unmount()?;
        repair_is_silent(crashed)?;
        std::fs::remove_file(crashed)?;
        self.tally.judged += 1;
        Ok(())
    }

    /// Unmounts. The image is sound, and the kernel sees in it what the mount showed.
    fn end(&mut self, mounted: Mounted) -> Result<()> {
        self.members.iter_mut().for_each(Member::release);
        let watchdog = Watchdog::new(&mounted, "the last look".into())?;
        let last = self.compare(&mounted.root()?).context("before unmounting")?;
        watchdog.end()?;
        mounted.unmount()?;
        self.tally.judged += 1;
        repair_is_silent(&self.image)?;
        run(Command::new(&self.plan.program).arg("check").arg(&self.image)).context("check")?;
        if !Judge::Kernel.is_present() {
            return Ok(());
        }
        let kernel = LoopMount::new(&self.image, Access::ReadOnly)?;
        let root = super::walk::open_path(kernel.path())?;
        let seen = self.compare(&root).context("the kernel's XFS")?;
        drop(root);
        kernel.unmount()?;
        for (member, (last, seen)) in self.members.iter().zip(last.iter().zip(&seen)) {
            same_times(member, last, seen).context("the kernel's XFS")?;
        }
        Ok(())
    }
}

/// The last changes of contents and of anything. Looking changes the last access.
fn same_times(member: &Member, last: &Observed, seen: &Observed) -> Result<()> {
    for (inode, times) in &last.times {
        let found = seen.times.get(inode).context("a file has gone")?;
        ensure!(
            times[1..] == found[1..],
            "inode {inode}: modification and change {:?}, as the mount showed {:?}; {}",
            &found[1..],
            &times[1..],
            member.history_of(*inode).unwrap_or_default()
        );
    }
    Ok(())
}

/// Two recoveries of one log.
fn same(ours: &Observed, theirs: &Observed) -> Result<()> {
    for (inode, found) in &ours.tree.files {
        let other = theirs.tree.files.get(inode).with_context(|| format!("inode {inode} is missing"))?;
        ensure!(found.facts == other.facts, "{:?}, found {:?}", found.facts, other.facts);
        ensure!(found.contents == other.contents, "inode {inode} has other contents");
        let times = [ours, theirs].map(|all| all.times.get(inode).map(|times| times[1..].to_vec()));
        ensure!(times[0] == times[1], "inode {inode}: times {:?} and {:?}", times[0], times[1]);
    }
    ensure!(ours.tree.files.len() == theirs.tree.files.len(), "files are too many");
    Ok(())
}

fn umask() -> Result<u16> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    Ok(u16::from_str_radix(line.context("no umask")?.trim(), 8)?)
}

/// Where a program of the workspace lies beside the one that runs.
pub fn neighbour(name: &str) -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    let folders = own.ancestors().skip(1).take(2).map(Path::to_owned);
    folders.map(|folder| folder.join(name)).find(|path| path.is_file())
}
