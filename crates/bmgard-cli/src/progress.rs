//! The progress bar.

use std::io::{IsTerminal, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A field below this many values is done before a bar could be read.
const SHORT: u64 = 1 << 24;

/// A bar over the values of a field, on standard error: only on a terminal, only for long work, and not beside `--json`.
pub fn bar(doing: &'static str, values: u64, json: bool) -> ProgressBar {
    if json || values < SHORT || !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {msg:12} [{bar:40}] {percent:>3} %  {elapsed}");
    let bar = ProgressBar::new(values).with_message(doing);
    // Chunks are long: the spinner and the clock show that something happens in between.
    bar.enable_steady_tick(Duration::from_millis(200));
    match style {
        Ok(style) => bar.with_style(style.progress_chars("=> ")),
        Err(_) => bar,
    }
}
