//! A server that is slow to answer some requests, so that others overtake them, and counts the replies that were lent.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use uxfs_fuse::{
    protocol::{
        initialization::Negotiated,
        request::{Request, operation::Operation},
    },
    server::{Server, notifier::Notifier, settings::Settings},
    session::{self, Served as _},
    transport::{Answer, Outcome, ReplyBuffer, Service, turns::Effort},
};

/// An answer waits for so long.
pub const DELAY: Duration = Duration::from_millis(60);

/// Answers the requests that it is told of, waits, and gives the answers then. Before those that have no answer it waits.
pub struct Slow {
    pub server: Arc<Server>,
    pub is_slow: fn(&Request<'_>) -> bool,
    pub lent: Arc<AtomicU64>,
}

/// Whether the kernel forgets nodes.
pub fn forgets(request: &Request<'_>) -> bool {
    matches!(request.operation, Operation::Forget(_) | Operation::BatchForget(_))
}

impl Slow {
    fn is_slow(&self, request: &[u8]) -> bool {
        let negotiated = self.server.negotiated().unwrap_or_default();
        Request::parse(request, negotiated).is_ok_and(|request| (self.is_slow)(&request))
    }
}

impl Service for Slow {
    fn answer(&self, request: &[u8], reply: &mut ReplyBuffer<'_>) -> Answer {
        let is_slow = self.is_slow(request);
        let negotiated = self.server.negotiated().unwrap_or_default();
        let is_forget = Request::parse(request, negotiated).is_ok_and(|request| forgets(&request));
        if is_slow && is_forget {
            thread::sleep(DELAY);
        }
        let answer = self.server.answer(request, reply);
        self.lent.fetch_add(reply.lent().is_some().into(), Ordering::Relaxed);
        if is_slow && !is_forget {
            thread::sleep(DELAY);
        }
        answer
    }

    fn effort(&self, request: &[u8]) -> Effort {
        if self.is_slow(request) { Effort::Waits } else { self.server.effort(request) }
    }

    fn answered(&self, request: &[u8], outcome: &Outcome) {
        self.server.answered(request, outcome);
    }

    fn not_taken(&self, reply: &[u8], request: &[u8]) {
        self.server.not_taken(reply, request);
    }
}

impl session::Served for Slow {
    fn settings(&self) -> &Settings {
        self.server.settings()
    }

    fn negotiated(&self) -> Option<Negotiated> {
        self.server.negotiated()
    }

    fn offer_rings(&self) {
        self.server.offer_rings();
    }

    fn notifier(&self) -> &Notifier {
        self.server.notifier()
    }

    fn failed(&self) {
        self.server.failed();
    }
}
