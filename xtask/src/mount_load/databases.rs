//! SQLite and PostgreSQL on a mount that is killed: every transaction that was acknowledged is there afterwards, and the database is sound.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::unix::fs::chown,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use uxfs_testkit::seeds::Random;

use super::{
    Stage, limit, need,
    place::Place,
    program::{self, Running},
};
use crate::process::children_of;

const ROUNDS: u64 = 20;
const MINUTE: Duration = Duration::from_secs(60);
const LONGEST_END: Duration = Duration::from_secs(20);
/// How SQLite commits.
const JOURNALS: [&str; 4] = ["DELETE", "WAL", "TRUNCATE", "PERSIST"];
/// Clients of a database, each with a table or with numbers of its own.
const CLIENTS: u64 = 3;

/// A client of SQLite: after each commit it tells the number that it has committed. EXTRA: with FULL the directory is not synced after a
/// journal has been removed, and a crash may take the last commit back. SQLite takes a directory that it cannot open for synced, as one whose
/// server has died between the removal and the opening (seen in a trace: ECONNABORTED, and the commit succeeds). So a commit is told only once
/// the server has answered after it: statvfs(2) always asks it, and makes nothing durable.
const SQLITE_CLIENT: &str = "import os, sqlite3, sys
c = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
c.execute('PRAGMA journal_mode=' + sys.argv[2])
c.execute('PRAGMA synchronous=EXTRA')
c.execute('CREATE TABLE IF NOT EXISTS t (n INTEGER PRIMARY KEY, b BLOB)')
n = c.execute('SELECT coalesce(max(n), 0) FROM t').fetchone()[0]
while True:
    c.execute('BEGIN IMMEDIATE')
    for _ in range(1 + n % 7):
        n += 1
        c.execute('INSERT INTO t VALUES (?, randomblob(?))', (n, n * 37 % 5000))
    if n % 5 == 0:
        c.execute('UPDATE t SET b = randomblob(900) WHERE n > ? AND n % 3 = 0', (n - 60,))
    c.execute('COMMIT')
    os.statvfs(sys.argv[1])
    os.write(1, b'%d\\n' % n)
";
/// Prints what a database holds.
const SQLITE_CHECK: &str = "import sqlite3, sys
c = sqlite3.connect(sys.argv[1])
assert c.execute('PRAGMA integrity_check').fetchall() == [('ok',)], c.execute('PRAGMA integrity_check').fetchall()
print(*c.execute('SELECT count(*), coalesce(max(n), 0) FROM t').fetchone())
";

/// Clients of SQLite, and kills.
pub fn sqlite(stage: &Stage) -> Result<String> {
    need("python3", "python3")?;
    let rounds = stage.rounds.unwrap_or(ROUNDS);
    let place = Place::mounted(stage, "2G", limit(stage, MINUTE * (2 + rounds as u32)))?;
    let (mut random, mut total) = (Random::new(stage.seed), 0);
    for round in 0..rounds {
        let journal = JOURNALS[round as usize % JOURNALS.len()];
        let mut clients = Vec::new();
        for number in 0..CLIENTS {
            let told = place.beside(&format!("told-{number}"));
            let mut command = Command::new("python3");
            command.args(["-c", SQLITE_CLIENT]).arg(database(&place, number)).arg(journal);
            command.stdin(Stdio::null()).stdout(File::create(&told)?).stderr(Stdio::null());
            clients.push((number, told, Running::start(&mut command)?));
        }
        thread::sleep(Duration::from_millis(500 + random.below(2000)));
        place.kill()?;
        let mut told = BTreeMap::new();
        for (number, path, mut client) in clients {
            client.end()?;
            told.insert(number, last_number(&path)?);
        }
        place.mount()?;
        for (number, durable) in told {
            let held = sqlite_holds(&database(&place, number), durable);
            total += held.with_context(|| format!("round {round}, {journal}, database {number}"))?;
        }
        total = if round + 1 == rounds { total } else { 0 };
    }
    let paths = place.finish()?;
    Ok(format!(
        "{rounds} kills, {CLIENTS} databases with {total} rows, all that was acknowledged; {paths} paths"
    ))
}

fn database(place: &Place<'_>, number: u64) -> PathBuf {
    place.join(format!("database-{number}"))
}

/// The last number in a file of lines. A line that is cut off was not told.
fn last_number(path: &Path) -> Result<u64> {
    let text = fs::read_to_string(path)?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    Ok(whole.lines().last().and_then(|line| line.trim().parse().ok()).unwrap_or(0))
}

/// The database is sound, without gaps, and holds what was acknowledged; gives its rows.
fn sqlite_holds(path: &Path, durable: u64) -> Result<u64> {
    if durable == 0 && !path.exists() {
        return Ok(0);
    }
    let said = program::attempt(Command::new("python3").args(["-c", SQLITE_CHECK]).arg(path), MINUTE)?;
    if durable == 0 && said.words.contains("no such table") {
        return Ok(0);
    }
    ensure!(said.status.success(), "{}", program::tail(&said.words));
    let numbers: Vec<u64> = said.words.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [count, last] = numbers[..] else { anyhow::bail!("{}", said.words) };
    ensure!(count == last, "{count} rows up to number {last}");
    ensure!(last >= durable, "row {durable} was acknowledged, and the last one is {last}");
    Ok(count)
}

/// A server and clients, and kills.
pub fn postgresql(stage: &Stage) -> Result<String> {
    let server = Server::new(stage)?;
    let rounds = stage.rounds.unwrap_or(ROUNDS);
    let place = Place::mounted(stage, "3G", limit(stage, MINUTE * (5 + rounds as u32)))?;
    server.initialize(&place)?;
    let mut random = Random::new(stage.seed);
    let mut durable = BTreeMap::new();
    for round in 0..rounds {
        let mut running = server.start(&place, round)?;
        server.holds(&place, &durable).with_context(|| format!("round {round}"))?;
        let mut clients = Vec::new();
        for number in 0..CLIENTS {
            clients.push((number, server.client(&place, number)?));
        }
        thread::sleep(Duration::from_millis(1000 + random.below(3000)));
        running.remember_children();
        place.kill()?;
        running.end()?;
        for (number, (path, mut client)) in clients {
            client.end()?;
            let last = last_number(&path)?;
            let known: &mut u64 = durable.entry(number).or_default();
            *known = last.max(*known);
        }
        place.mount()?;
    }
    let mut running = server.start(&place, 0)?;
    let rows = server.holds(&place, &durable)?;
    server.check(&place)?;
    // A clean end, so that the tree is quiet.
    running.stop()?;
    let paths = place.finish()?;
    Ok(format!("{rounds} kills, {rows} rows, all that was acknowledged; {paths} paths"))
}

/// The programs of PostgreSQL, run by its user.
struct Server {
    programs: PathBuf,
    user: u32,
    group: u32,
}

impl Server {
    fn new(_: &Stage) -> Result<Self> {
        let versions = fs::read_dir("/usr/lib/postgresql").context("install the package postgresql")?;
        let newest = versions.flatten().map(|entry| entry.path().join("bin")).max();
        let programs = newest.context("no version of PostgreSQL")?;
        let passwd = fs::read_to_string("/etc/passwd")?;
        let line = passwd.lines().find(|line| line.starts_with("postgres:")).context("no user postgres")?;
        let mut ids = line.split(':').skip(2).map(str::parse);
        let mut next = || Ok::<_, anyhow::Error>(ids.next().context("no such field")??);
        Ok(Self { programs, user: next()?, group: next()? })
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &self.user.to_string(), "--regid", &self.group.to_string()]);
        command.args(["--clear-groups", "--"]).arg(self.programs.join(name)).env("LC_ALL", "C");
        command.current_dir("/");
        command
    }

    /// A new database, with checksums of its pages.
    fn initialize(&self, place: &Place<'_>) -> Result<()> {
        let data = place.join("data");
        fs::create_dir(&data)?;
        for directory in [&data, &place.beside("sockets")] {
            fs::create_dir_all(directory)?;
            chown(directory, Some(self.user), Some(self.group))?;
        }
        let mut command = self.command("initdb");
        program::run(command.args(["-k", "-A", "trust", "-D"]).arg(&data), 2 * MINUTE)?;
        let mut running = self.start(place, 0)?;
        for number in 0..CLIENTS {
            self.ask(place, &format!("CREATE TABLE t{number} (n bigint PRIMARY KEY, b text)"))?;
        }
        running.stop()
    }

    /// Recovers, and is ready.
    fn start(&self, place: &Place<'_>, round: u64) -> Result<RunningServer> {
        let sync = ["fdatasync", "fsync", "open_datasync"][round as usize % 3];
        let mut command = self.command("postgres");
        command.arg("-D").arg(place.join("data"));
        let settings =
            ["shared_buffers=24MB", "max_wal_size=64MB", "checkpoint_timeout=30s", "listen_addresses="];
        for setting in settings.map(str::to_owned).into_iter().chain([
            // In the directory of the database: a server that is killed leaves its segments behind.
            "dynamic_shared_memory_type=mmap".to_owned(),
            format!("wal_sync_method={sync}"),
            format!("unix_socket_directories={}", place.beside("sockets").display()),
        ]) {
            command.args(["-c", &setting]);
        }
        let said = File::options().create(true).append(true).open(place.beside("server-log"))?;
        command.stdin(Stdio::null()).stdout(said.try_clone()?).stderr(said);
        let mut running = RunningServer { parent: Running::start(&mut command)?, children: Vec::new() };
        let begun = Instant::now();
        while self.ask(place, "SELECT 1").is_err() {
            let has_ended = running.parent.child().try_wait()?.is_some();
            if has_ended || begun.elapsed() > MINUTE {
                let words = fs::read_to_string(place.beside("server-log"))?;
                anyhow::bail!("PostgreSQL does not start: {}", program::tail(&words));
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(running)
    }

    fn psql(&self, place: &Place<'_>) -> Command {
        let mut command = self.command("psql");
        command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", "postgres", "-h"]);
        command.arg(place.beside("sockets"));
        command
    }

    fn ask(&self, place: &Place<'_>, question: &str) -> Result<String> {
        program::run(self.psql(place).args(["-c", question]), MINUTE)
    }

    /// Inserts number after number; each is told once it is committed.
    fn client(&self, place: &Place<'_>, number: u64) -> Result<(PathBuf, Running)> {
        let table = format!("t{number}");
        let last: u64 =
            self.ask(place, &format!("SELECT coalesce(max(n), 0) FROM {table}"))?.trim().parse()?;
        let script = place.beside(&format!("script-{number}"));
        let mut text = String::new();
        for n in last + 1..last + 20_000 {
            text.push_str(&format!(
                "INSERT INTO {table} VALUES ({n}, repeat(md5('{n}'), {})) RETURNING n;\n",
                n % 90
            ));
        }
        fs::write(&script, text)?;
        let told = place.beside(&format!("told-{number}"));
        let mut command = self.psql(place);
        command.stdin(File::open(&script)?).stdout(File::create(&told)?).stderr(Stdio::null());
        Ok((told, Running::start(&mut command)?))
    }

    /// Every table has what was acknowledged, without gaps, and the right text; gives the rows of all.
    fn holds(&self, place: &Place<'_>, durable: &BTreeMap<u64, u64>) -> Result<u64> {
        let mut rows = 0;
        for number in 0..CLIENTS {
            let question = format!(
                "SELECT count(*), coalesce(max(n), 0), count(*) FILTER (WHERE b <> repeat(md5(n::text), (n % 90)::int)) FROM t{number}"
            );
            let answer = self.ask(place, &question)?;
            let numbers: Vec<u64> = answer.trim().split('|').filter_map(|word| word.parse().ok()).collect();
            let [count, last, wrong] = numbers[..] else { anyhow::bail!("{answer}") };
            let durable = durable.get(&number).copied().unwrap_or(0);
            ensure!(wrong == 0, "{wrong} rows of table {number} have other text");
            ensure!(count == last, "table {number}: {count} rows up to number {last}");
            ensure!(
                last >= durable,
                "table {number}: row {durable} was acknowledged, the last one is {last}"
            );
            rows += count;
        }
        Ok(rows)
    }

    /// Every index and every heap.
    fn check(&self, place: &Place<'_>) -> Result<()> {
        let mut command = self.command("pg_amcheck");
        command.args(["--install-missing", "--heapallindexed", "-d", "postgres", "-h"]);
        program::run(command.arg(place.beside("sockets")), 2 * MINUTE).map(drop)
    }
}

/// A server and the processes that it started, which end with it.
struct RunningServer {
    parent: Running,
    children: Vec<u32>,
}

impl RunningServer {
    /// Before the server may end: children of a process that has ended are another's.
    fn remember_children(&mut self) {
        if matches!(self.parent.child().try_wait(), Ok(None)) {
            self.children.extend(children_of(self.parent.child().id()));
        }
    }

    /// Ends it as a crash would.
    fn end(&mut self) -> Result<()> {
        self.remember_children();
        self.parent.end()?;
        end_children(&std::mem::take(&mut self.children))
    }

    /// Ends it as an administrator would.
    fn stop(&mut self) -> Result<()> {
        self.remember_children();
        kill_process(Pid::from_child(self.parent.child()), Signal::INT)?;
        ensure!(self.parent.wait(MINUTE)?.is_some(), "the server does not end");
        end_children(&std::mem::take(&mut self.children))
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Ends the servers of connections, whose parent has ended: one may wait for another that ended with a lock.
fn end_children(processes: &[u32]) -> Result<()> {
    let begun = Instant::now();
    for id in processes {
        let path = format!("/proc/{id}/cmdline");
        let is_there = || fs::read_to_string(&path).is_ok_and(|line| line.contains("postgres"));
        while is_there() {
            ensure!(begun.elapsed() < LONGEST_END, "process {id} of PostgreSQL does not end");
            if let Some(id) = i32::try_from(*id).ok().and_then(Pid::from_raw) {
                let _ = kill_process(id, Signal::KILL);
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
    Ok(())
}
