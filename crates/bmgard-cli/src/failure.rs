//! What can go wrong, and the exit code that scripts see for it.

use std::fmt::Display;
use std::process::ExitCode;

use bmgard::Error;

use crate::report;

/// What every command returns.
pub type Outcome<T = ()> = Result<T, Failure>;

/// The exit codes other than 0; users rely on the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The bound is broken, or another check of the data failed.
    Check = 1,
    /// Flags, shape, type or bound make no sense, alone or with the file.
    Usage = 2,
    /// An input file is missing, unreadable, or not what it should be.
    BadFile = 3,
    /// The device, or writing, failed.
    Failed = 4,
    /// The output exists and `--overwrite` was not given.
    Exists = 5,
}

/// An error together with its exit code.
#[derive(Debug)]
pub struct Failure {
    kind: Kind,
    error: anyhow::Error,
}

impl Failure {
    /// A failure with nothing beneath it.
    pub fn new(kind: Kind, message: impl Display) -> Self {
        Self { kind, error: anyhow::Error::msg(message.to_string()) }
    }

    /// Says what was being done; the former message becomes the cause.
    pub fn context(self, message: impl Display) -> Self {
        Self { kind: self.kind, error: self.error.context(message.to_string()) }
    }

    /// The same error under another exit code.
    pub fn with_kind(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }

    /// The kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The exit code.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.kind as u8)
    }

    /// Writes the message and its causes to standard error.
    pub fn print(&self) {
        let mut text = format!("error: {}\n", self.error);
        for cause in self.error.chain().skip(1) {
            text += &format!("  caused by: {cause}\n");
        }
        report::to_stderr(&text);
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let kind = match error {
            Error::InvalidBound { .. }
            | Error::InvalidShape { .. }
            | Error::LengthMismatch { .. }
            | Error::InvalidLevels { .. }
            | Error::InvalidConfig(_)
            | Error::WrongType { .. } => Kind::Usage,
            Error::NotAnArchive(_) | Error::UnsupportedVersion { .. } | Error::Corrupt(_) => Kind::BadFile,
            _ => Kind::Failed,
        };
        Self { kind, error: error.into() }
    }
}

/// Turns any error into a [`Failure`].
pub trait OrFail<T> {
    /// With this exit code, saying what was being done.
    fn or_fail<M: Display>(self, kind: Kind, doing: impl FnOnce() -> M) -> Outcome<T>;
}

impl<T, E: std::error::Error + Send + Sync + 'static> OrFail<T> for Result<T, E> {
    fn or_fail<M: Display>(self, kind: Kind, doing: impl FnOnce() -> M) -> Outcome<T> {
        self.map_err(|error| Failure { kind, error: anyhow::Error::new(error).context(doing().to_string()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_errors_have_their_exit_codes() {
        let kind = |error: Error| Failure::from(error).kind();
        assert_eq!(kind(Error::InvalidBound { value: 0.0 }), Kind::Usage);
        assert_eq!(kind(Error::Corrupt("x".into())), Kind::BadFile);
        assert_eq!(kind(Error::Device("x".into())), Kind::Failed);
        assert_eq!(kind(Error::BackendUnavailable { backend: "cuda", reason: "x".into() }), Kind::Failed);
    }
}
