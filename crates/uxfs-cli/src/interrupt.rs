//! Ctrl-C and SIGTERM, for commands that put in order what they have done before they end.

use std::{
    io,
    sync::{Arc, atomic::AtomicBool},
};

use signal_hook::{
    consts::{SIGINT, SIGTERM, SIGXFSZ},
    flag,
};

/// Makes a write beyond RLIMIT_FSIZE fail with EFBIG instead of killing the process. Child programs keep the default action.
pub(crate) fn survive_size_limits() {
    // On failure the signal keeps its default action.
    let _ = flag::register(SIGXFSZ, Arc::default());
}

/// Set by the first signal. The second one ends the process at once: a device may hang.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on these signals do not end the process.
    ///
    /// # Errors
    /// The system does not let them be caught.
    pub fn watch() -> io::Result<Self> {
        let interrupt = Self::default();
        for signal in [SIGINT, SIGTERM] {
            // The order matters: the first signal must not find the flag that it sets.
            flag::register_conditional_default(signal, interrupt.flag())?;
            flag::register(signal, interrupt.flag())?;
        }
        Ok(interrupt)
    }

    /// For those that ask.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}
