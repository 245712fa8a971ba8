//! A read under way, for which others wait.

use parking_lot::{Condvar, Mutex};

use super::buffer::Buffer;

/// States: `UnderWay` → `Landed` or `Failed`, once ([`Flight::land`]).
#[derive(Debug, Default)]
pub(super) struct Flight {
    state: Mutex<State>,
    over: Condvar,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    UnderWay,
    Landed(Buffer),
    Failed,
}

impl Flight {
    /// Ends the flight with what was read, or with nothing.
    pub fn land(&self, buffer: Option<Buffer>) {
        *self.state.lock() = buffer.map_or(State::Failed, State::Landed);
        self.over.notify_all();
    }

    /// Waits for its end.
    pub fn wait(&self) -> Option<Buffer> {
        let mut state = self.state.lock();
        loop {
            match &*state {
                State::UnderWay => self.over.wait(&mut state),
                State::Landed(buffer) => return Some(buffer.clone()),
                State::Failed => return None,
            }
        }
    }
}
