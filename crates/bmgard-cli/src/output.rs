//! Outputs that appear under their name only when they are whole.

use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, BufWriter, Seek, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use bmgard::{Shape, Value};
use ndarray::{ArrayView, IxDyn};
use ndarray_npy::{WritableElement, WriteNpyExt};
use tempfile::{Builder, NamedTempFile};

use crate::failure::{Failure, Kind, OrFail, Outcome};
use crate::input::is_stdio;
use crate::interrupt;
use crate::names;
use crate::report::Channel;

/// Where a command's result goes.
pub enum Target {
    /// Standard output, or a pipe or a device by its name: written straight through.
    Stream {
        /// How messages call it.
        name: String,
        /// The way out.
        stream: Box<dyn Write>,
    },
    /// An ordinary file: a temporary file beside it takes its name at the end.
    File {
        /// The name.
        path: PathBuf,
        /// The temporary file.
        temporary: NamedTempFile,
        /// Whether a file of that name may be replaced.
        overwrite: bool,
    },
}

impl Target {
    /// Checks everything that can be checked before the work is done, and opens the way out.
    pub fn create(path: &Path, input: Option<&Path>, overwrite: bool) -> Outcome<Self> {
        if is_stdio(path) {
            return Ok(Self::Stream { name: "standard output".into(), stream: Box::new(io::stdout()) });
        }
        let cannot = || format!("cannot write {}", path.display());
        // Through a symbolic link the file behind it is replaced, not the link.
        let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        let existing = match fs::metadata(path) {
            Ok(metadata) => Some(metadata),
            // A dangling link counts as nothing; it is replaced.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error).or_fail(Kind::Failed, cannot),
        };
        if let Some(existing) = &existing {
            if input.is_some_and(|input| is_same(input, existing)) {
                return Err(Failure::new(Kind::Usage, format!("{}: it is the input too", cannot())));
            }
            if existing.is_dir() {
                return Err(Failure::new(Kind::Failed, format!("{}: it is a folder", cannot())));
            }
            let kind = existing.file_type();
            if kind.is_fifo() || kind.is_char_device() || kind.is_block_device() || kind.is_socket() {
                let stream = File::options().write(true).open(path).or_fail(Kind::Failed, cannot)?;
                return Ok(Self::Stream { name: path.display().to_string(), stream: Box::new(stream) });
            }
            if !overwrite {
                return Err(exists(path));
            }
        }
        // A new file gets the permissions that the umask leaves, a replaced one keeps its own.
        let mode = existing.map_or(0o666, |existing| existing.mode() & 0o777);
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let temporary = Builder::new()
            .prefix(".bmgard-")
            .suffix(".tmp")
            .permissions(Permissions::from_mode(mode))
            .tempfile_in(folder)
            .or_fail(Kind::Failed, cannot)?;
        interrupt::remove_on_signal(Some(temporary.path()));
        Ok(Self::File { path: path.to_path_buf(), temporary, overwrite })
    }

    /// Where the report goes: not where the data go.
    pub fn report_channel(&self) -> Channel {
        match self {
            Self::Stream { .. } => Channel::Stderr,
            Self::File { .. } => Channel::Stdout,
        }
    }

    /// How messages call it.
    fn name(&self) -> String {
        match self {
            Self::Stream { name, .. } => name.clone(),
            Self::File { path, .. } => path.display().to_string(),
        }
    }

    /// Writes with `write`, buffered.
    pub fn write<E: std::error::Error + Send + Sync + 'static>(&mut self, write: impl FnOnce(&mut dyn Write) -> Result<(), E>) -> Outcome {
        let name = self.name();
        let cannot = || format!("cannot write {name}");
        let stream: &mut dyn Write = match self {
            Self::Stream { stream, .. } => stream,
            Self::File { temporary, .. } => temporary.as_file_mut(),
        };
        let mut buffered = BufWriter::with_capacity(1 << 20, stream);
        write(&mut buffered).or_fail(Kind::Failed, cannot)?;
        buffered.flush().or_fail(Kind::Failed, cannot)
    }

    /// Writes bytes.
    pub fn write_bytes(&mut self, bytes: &[u8]) -> Outcome {
        self.write(|out| out.write_all(bytes))
    }

    /// Writes a field: as .npy where `path`, the name asked for, ends so, else raw.
    pub fn write_field<T: Value + WritableElement>(&mut self, path: &Path, values: &[T], shape: &Shape) -> Outcome {
        if !names::is_npy(path) {
            return self.write_bytes(bytemuck::cast_slice(values));
        }
        let dims: Vec<usize> = shape.dims().iter().map(|&n| n as usize).collect();
        let view = ArrayView::from_shape(IxDyn(&dims), values).or_fail(Kind::Failed, || "the shape and the values differ")?;
        self.write(|out| view.write_npy(out))
    }

    /// Gives the file its name. Until here nothing is to be seen under it.
    pub fn commit(self) -> Outcome {
        let Self::File { path, mut temporary, overwrite } = self else { return Ok(()) };
        let cannot = || format!("cannot write {}", path.display());
        // A disk that is full may say so only here; and after a power cut the name must not stand for a hole.
        temporary.as_file_mut().rewind().and_then(|()| temporary.as_file().sync_all()).or_fail(Kind::Failed, cannot)?;
        let renamed = if overwrite { temporary.persist(&path) } else { temporary.persist_noclobber(&path) };
        interrupt::remove_on_signal(None);
        match renamed {
            Ok(_) => Ok(()),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Err(exists(&path)),
            Err(error) => Err(error.error).or_fail(Kind::Failed, cannot),
        }
    }
}

fn exists(path: &Path) -> Failure {
    Failure::new(Kind::Exists, format!("{} exists; add --overwrite to replace it", path.display()))
}

fn is_same(input: &Path, existing: &Metadata) -> bool {
    fs::metadata(input).is_ok_and(|input| (input.dev(), input.ino()) == (existing.dev(), existing.ino()))
}

/// Zeroed memory for a field, or a failure where there is not enough: a damaged or hostile archive may ask for any amount.
pub fn memory<T: Value>(values: u64) -> Outcome<Box<[T]>> {
    let zeroed = usize::try_from(values).ok().and_then(|count| bytemuck::allocation::try_zeroed_slice_box(count).ok());
    zeroed.ok_or_else(|| {
        let bytes = values.saturating_mul(size_of::<T>() as u64);
        Failure::new(Kind::Failed, format!("not enough memory for {values} {} values ({bytes} bytes)", T::DTYPE))
    })
}
