//! What commands print: aligned rows for people, one JSON object for scripts.

use std::io::{self, Write};

use bmgard::ErrorBound;
use serde::Serialize;

use crate::failure::Outcome;

/// Writes to standard error; where that is closed there is nobody to tell.
pub fn to_stderr(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Where a report goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// Standard output.
    Stdout,
    /// Standard error, where standard output carries the data.
    Stderr,
}

impl Channel {
    /// Writes the text. A reader that went away (`| head`) is no failure: the work is done.
    fn write(self, text: &str) {
        match self {
            Self::Stdout => {
                let mut stdout = io::stdout().lock();
                let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
            }
            Self::Stderr => to_stderr(text),
        }
    }

    /// Prints one JSON object, on a line of its own.
    pub fn json(self, object: &impl Serialize) -> Outcome {
        // Only a map with odd keys could fail to serialise, and no report has one.
        let text = serde_json::to_string_pretty(object).unwrap_or_else(|error| format!("{{\"error\": \"{error}\"}}"));
        self.write(&(text + "\n"));
        Ok(())
    }

    /// Prints text as it is.
    pub fn text(self, text: &str) {
        self.write(text);
    }
}

/// Rows of a name and a value, aligned.
#[derive(Default)]
pub struct Rows(Vec<(String, String)>);

impl Rows {
    /// Adds a row.
    pub fn row(&mut self, name: impl Into<String>, value: impl Into<String>) -> &mut Self {
        self.0.push((name.into(), value.into()));
        self
    }

    /// Prints them.
    pub fn print(&self, channel: Channel) {
        let width = self.0.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let lines = self.0.iter().map(|(name, value)| format!("{name:width$}  {value}\n"));
        channel.text(&lines.collect::<String>());
    }
}

/// A table with a head, columns aligned: the first to the left, the others to the right.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = head.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut text = String::new();
        for (column, (cell, &width)) in cells.zip(&widths).enumerate() {
            text += &if column == 0 { format!("{cell:width$}") } else { format!("  {cell:>width$}") };
        }
        text.trim_end().to_string() + "\n"
    };
    let mut text = line(&mut head.iter().copied());
    for row in rows {
        text += &line(&mut row.iter().map(String::as_str));
    }
    text
}

/// A number of bytes with three digits or so, in decimal units.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if count < 1000 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1000.0;
    let mut unit = 0;
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A duration in seconds, with a unit that suits it.
pub fn seconds(value: f64) -> String {
    if value < 1e-3 {
        format!("{:.1} us", value * 1e6)
    } else if value < 1.0 {
        format!("{:.1} ms", value * 1e3)
    } else {
        format!("{value:.2} s")
    }
}

/// A shape as people write it.
pub fn dims(dims: &[u64]) -> String {
    dims.iter().map(u64::to_string).collect::<Vec<_>>().join("x")
}

/// A bound as asked for and as resolved.
pub fn bound(asked: ErrorBound, resolved: f64) -> String {
    match asked {
        ErrorBound::Absolute(_) => format!("{resolved:e} absolute"),
        _ => format!("{asked} = {resolved:.6e} absolute"),
    }
}

/// A PSNR in dB.
pub fn psnr(value: f64) -> String {
    if value == f64::INFINITY { "infinite (an exact copy)".into() } else { format!("{value:.2} dB") }
}

/// A backend with its number of threads, where that matters.
pub fn backend(name: &str, threads: usize) -> String {
    match (name, threads) {
        ("cpu", 1) => "cpu (1 thread)".into(),
        ("cpu", _) => format!("cpu ({threads} threads)"),
        _ => name.into(),
    }
}

/// GB/s of original data, GB = 1e9 bytes.
pub fn gb_per_second(bytes: u64, seconds: f64) -> f64 {
    bytes as f64 / 1e9 / seconds
}

/// The largest error in units of the bound; 0 where both are 0.
pub fn over_bound(max_abs_error: f64, abs_bound: f64) -> f64 {
    if max_abs_error == 0.0 { 0.0 } else { max_abs_error / abs_bound }
}

/// A position in C order as an index tuple, slowest dimension first.
pub fn index(mut position: u64, dims: &[u64]) -> Vec<u64> {
    let mut index: Vec<u64> = dims
        .iter()
        .rev()
        .map(|&n| {
            let i = position % n;
            position /= n;
            i
        })
        .collect();
    index.reverse();
    index
}

/// An index tuple as people write it.
pub fn tuple(index: &[u64]) -> String {
    format!("({})", index.iter().map(u64::to_string).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1000), "1.0 kB");
        assert_eq!(bytes(999_960), "1.0 MB");
        assert_eq!(bytes(536_870_912), "536.9 MB");
        assert_eq!(bytes(u64::MAX), "18.4 EB");
        assert_eq!(seconds(0.00123), "1.2 ms");
    }

    #[test]
    fn positions_become_index_tuples() {
        assert_eq!(index(0, &[2, 3, 4]), [0, 0, 0]);
        assert_eq!(index(23, &[2, 3, 4]), [1, 2, 3]);
        assert_eq!(tuple(&index(6, &[2, 3, 4])), "(0, 1, 2)");
    }

    #[test]
    fn tables_are_aligned() {
        assert_eq!(table(&["a", "bb"], &[vec!["ccc".into(), "1".into()]]), "a    bb\nccc   1\n");
    }
}
