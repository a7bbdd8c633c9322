//! Ctrl-C and SIGTERM take the unfinished temporary file with them.
//!
//! A temporary file removes itself when the program returns or panics, but not when a signal ends the process; a thread that waits
//! for those signals does it then, and lets the signal do what it would have done. Only SIGKILL or a power cut can leave a hidden
//! `.bmgard-*.tmp` file behind, and nothing ever leaves a half-written file under the name that was asked for.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, PoisonError};
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

static UNFINISHED: Mutex<Option<PathBuf>> = Mutex::new(None);
static WATCH: Once = Once::new();

/// Names the file to remove when a signal ends the process; `None` when there is none any more.
pub fn remove_on_signal(path: Option<&Path>) {
    WATCH.call_once(|| {
        // Without the handler everything still works, short of this clean-up.
        if let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) {
            thread::spawn(move || {
                for signal in signals.forever() {
                    if let Some(path) = &*lock() {
                        let _ = fs::remove_file(path);
                    }
                    let _ = emulate_default_handler(signal);
                }
            });
        }
    });
    *lock() = path.map(Path::to_path_buf);
}

fn lock() -> std::sync::MutexGuard<'static, Option<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}
