//! Ctrl-C, SIGTERM, and a terminal that hangs up or quits take the unfinished temporary file with them.
//!
//! A temporary file removes itself when the program returns or panics, but not when a signal ends the process; a thread that waits
//! for those signals does it then, and lets the signal do what it would have done. A limit on the size of files (`ulimit -f`) is an error
//! of the write, as a full disk is, not the end of the process. Only SIGKILL, an abort or a power cut can leave a hidden `.bmgard-*.tmp`
//! file behind, and nothing ever leaves a half-written file under the name that was asked for.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

static UNFINISHED: Mutex<Option<PathBuf>> = Mutex::new(None);
static WATCH: Once = Once::new();

/// Names the file to remove when a signal ends the process; `None` when there is none any more.
pub fn remove_on_signal(path: Option<&Path>) {
    WATCH.call_once(|| {
        // Without the handler everything still works, short of this clean-up.
        let _ = flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        if let Ok(mut signals) = Signals::new(watched(&status)) {
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

/// The signals to wait for: not those that this process was started to ignore, as `nohup` does. `status` is Linux's /proc/self/status;
/// where there is none, it is not known whether a hang-up is ignored.
fn watched(status: &str) -> Vec<i32> {
    let ignored = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    match ignored {
        Some(ignored) => [SIGHUP, SIGINT, SIGQUIT, SIGTERM].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0).collect(),
        None => vec![SIGINT, SIGTERM],
    }
}

fn lock() -> std::sync::MutexGuard<'static, Option<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_stay_ignored() {
        assert_eq!(watched("Name:\tx\nSigIgn:\t0000000000001000\n"), [SIGHUP, SIGINT, SIGQUIT, SIGTERM]);
        assert_eq!(watched("SigIgn:\t0000000000001001\n"), [SIGINT, SIGQUIT, SIGTERM]);
        assert_eq!(watched(""), [SIGINT, SIGTERM]);
    }
}
