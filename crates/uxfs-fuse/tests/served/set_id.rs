//! Writes that take set-id bits away, while the kernel writes back what another one wrote before.

use std::{
    fs::{self, File, Permissions},
    os::unix::fs::{FileExt, PermissionsExt},
    sync::Arc,
    thread,
    time::Duration,
};

use rustix::{process::Uid, thread::set_thread_res_uid};
use uxfs_fuse::{
    protocol::{
        flags::WriteFlags,
        initialization::Negotiated,
        request::{Operation, Request},
    },
    server::{Server, notifier::Notifier, settings::Settings},
    session::{self, Served as _},
    transport::{Answer, Outcome, ReplyBuffer, Service, turns::Effort},
};

use super::{Judge, Served, require};

const USER: u32 = 1000;
/// The reply to a write that takes set-id bits away waits for so long.
const DELAY: Duration = Duration::from_millis(60);

/// A server that is slow to answer such writes.
struct Slow(Arc<Server>);

impl Service for Slow {
    fn answer(&self, request: &[u8], reply: &mut ReplyBuffer<'_>) -> Answer {
        let answer = self.0.answer(request, reply);
        let parsed = Request::parse(request, self.0.negotiated().unwrap_or_default());
        if let Ok(Request { operation: Operation::Write(write), .. }) = parsed
            && write.write_flags.contains(WriteFlags::KILL_SET_ID)
        {
            thread::sleep(DELAY);
        }
        answer
    }

    fn effort(&self, request: &[u8]) -> Effort {
        self.0.effort(request)
    }

    fn answered(&self, request: &[u8], outcome: &Outcome) {
        self.0.answered(request, outcome);
    }

    fn not_taken(&self, reply: &[u8], request: &[u8]) {
        self.0.not_taken(reply, request);
    }
}

impl session::Served for Slow {
    fn settings(&self) -> &Settings {
        self.0.settings()
    }

    fn negotiated(&self) -> Option<Negotiated> {
        self.0.negotiated()
    }

    fn offer_rings(&self) {
        self.0.offer_rings();
    }

    fn notifier(&self) -> &Notifier {
        self.0.notifier()
    }

    fn failed(&self) {
        self.0.failed();
    }
}

/// Linux 6.18 zeroes what lies behind the old end of the file in a page that it writes back, and so what a write past its cache put there.
#[test]
fn a_write_that_takes_set_id_is_not_lost_to_writeback() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    let closed = Served::new("set-id", 300).used_and_closed("allow_other,nouring", Slow, |root| {
        let path = root.join("file");
        let file = File::create_new(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o6777)).unwrap();
        file.write_all_at(&[5; 100], 0).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                // Of this thread alone.
                set_thread_res_uid(Uid::from_raw(USER), Uid::from_raw(USER), Uid::ROOT).unwrap();
                File::options().write(true).open(&path).unwrap().write_all_at(&[7; 50], 200).unwrap();
            });
            thread::sleep(DELAY / 2);
            // Unlike fsync(2) it does not wait for the other write.
            rustix::fs::syncfs(&file).unwrap();
        });
        let mut expected = vec![5; 100];
        expected.extend([0; 100]);
        expected.extend([7; 50]);
        assert_eq!(fs::read(&path).unwrap(), expected);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o777);
    });
    closed.unwrap();
}
