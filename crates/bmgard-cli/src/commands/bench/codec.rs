//! What is measured.

use bmgard::{Compressor, Config, Shape};
use rayon::ThreadPool;

use crate::failure::{Kind, OrFail, Outcome};
use crate::fields::Element;

/// A compressor under measurement; it keeps its latest archive.
pub trait Codec<T> {
    /// The name with its version.
    fn name(&self) -> String;
    /// Where it works.
    fn backend(&self) -> String;
    /// On how many threads.
    fn threads(&self) -> usize;
    /// Compresses into the archive, anew.
    fn compress(&mut self, values: &[T], shape: &Shape) -> Outcome;
    /// The size of the archive.
    fn archive_bytes(&self) -> u64;
    /// Decodes the archive.
    fn decompress(&mut self, values: &mut [T], shape: &Shape) -> Outcome;
}

/// bmgard itself, on a pool of its own.
pub struct Ours {
    compressor: Compressor,
    pool: ThreadPool,
    archive: Vec<u8>,
}

impl Ours {
    /// With so many threads.
    pub fn new(config: Config, threads: usize) -> Outcome<Self> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.or_fail(Kind::Failed, || "cannot start the threads")?;
        Ok(Self { compressor: Compressor::new(config)?, pool, archive: Vec::new() })
    }
}

impl<T: Element> Codec<T> for Ours {
    fn name(&self) -> String {
        format!("bmgard {}", env!("CARGO_PKG_VERSION"))
    }

    fn backend(&self) -> String {
        self.compressor.backend_name().into()
    }

    fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }

    fn compress(&mut self, values: &[T], shape: &Shape) -> Outcome {
        let Self { compressor, pool, archive, .. } = self;
        *archive = pool.install(|| compressor.compress_slice(values, shape))?;
        Ok(())
    }

    fn archive_bytes(&self) -> u64 {
        self.archive.len() as u64
    }

    fn decompress(&mut self, values: &mut [T], _shape: &Shape) -> Outcome {
        let Self { pool, archive, compressor } = self;
        Ok(pool.install(|| compressor.decompress_into(archive, values, &mut |_| {}))?)
    }
}
