//! A listener at `/dev/log`, where mounts in the background write what goes wrong, if nothing else listens there.

use std::{
    fs,
    os::unix::net::UnixDatagram,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

const SYSTEM: &str = "/dev/log";
/// How often it looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);
const LONGEST_LINE_BYTES: usize = 64 << 10;

/// What mounts have said.
pub struct SystemLog {
    lines: Arc<Mutex<Vec<String>>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl SystemLog {
    /// Listens, unless something else does.
    pub fn listen() -> Self {
        let (lines, is_over) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<AtomicBool>::default());
        let answers = UnixDatagram::unbound().and_then(|socket| socket.connect(SYSTEM)).is_ok();
        let thread = if answers { None } else { start(&lines, &is_over) };
        if thread.is_none() {
            println!("mount-load: what mounts say goes to the system's log");
        }
        Self { lines, is_over, thread }
    }

    /// All that was said since the last call, by processes with these numbers.
    pub fn take(&self, processes: &[u32]) -> Vec<String> {
        thread::sleep(2 * LOOK);
        let mut all = self.lines.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let is_theirs = |line: &String| processes.iter().any(|id| line.contains(&format!("uxfs[{id}]")));
        std::mem::take(&mut *all).into_iter().filter(is_theirs).collect()
    }
}

fn start(lines: &Arc<Mutex<Vec<String>>>, is_over: &Arc<AtomicBool>) -> Option<JoinHandle<()>> {
    // What a listener that has ended left behind.
    let _ = fs::remove_file(SYSTEM);
    let socket = UnixDatagram::bind(SYSTEM).ok()?;
    socket.set_read_timeout(Some(LOOK)).ok()?;
    let (lines, is_over) = (Arc::clone(lines), Arc::clone(is_over));
    Some(thread::spawn(move || {
        let mut line = vec![0; LONGEST_LINE_BYTES];
        while !is_over.load(Relaxed) {
            let Ok(length) = socket.recv(&mut line) else { continue };
            let text = String::from_utf8_lossy(line.get(..length).unwrap_or_default()).into_owned();
            lines.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(text);
        }
    }))
}

impl Drop for SystemLog {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
            let _ = fs::remove_file(Path::new(SYSTEM));
        }
    }
}
