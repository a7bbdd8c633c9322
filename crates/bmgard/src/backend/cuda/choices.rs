//! What is decided before a chunk's tiles are coded: steps, anchors and predictors. On the device, in the order of the stream, so that the
//! host waits for none of it; or, where there are special values, with the host's help.

use std::ffi::c_void;

use bmgard_core::closed::{Predictor, Quantiser};
use cust::memory::DevicePointer;

use super::closed::{CODES, Layout, MOST_CLASSES, Original, address};
use super::levels::DeviceValue;
use super::mail::{CLOSED, CLOSED_COUNT};
use super::memory::{Buffer, check};
use super::{Cuda, failed, queue};
use crate::archive::SectionId;
use crate::closed::plan::Plan;
use crate::closed::{Choices, Scheme, Task, anchors, step_bits, steps};
use crate::{Error, Result, Value};

/// Threads of a block of `kernels_gpu::closed` that chooses (f32, f64), and of `kernels_gpu::anchors`; of the latter for long lines.
const CHOOSE_BLOCKS: [u32; 2] = [320, 192];
const ANCHORS_BLOCK: u32 = 256;
const LONG_BLOCK: u32 = 1024;
/// Lines of more tiles are long: a block sums one.
const LONG: u32 = 512;
/// Steps of a scheme's choice, at most: the phases of the tiles with the most levels, and one more.
const MOST_STEPS: usize = 13;

/// The driver's answers where the device cannot run all blocks of a kernel together: `CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE` and
/// `CUDA_ERROR_NOT_SUPPORTED`.
const TOO_LARGE: i32 = 720;
const NOT_SUPPORTED: i32 = 801;

/// Places of a counter of blocks: those of different steps lie apart.
const APART: usize = 8;

/// Places of numbers on the device. Those before [`ARRIVED`] come to the host by mail.
const ZEROS: usize = 0;
const FOUND: usize = 4;
pub(super) const TILES_WORST: usize = 7;
pub(super) const OVERFLOW: usize = TILES_WORST + 1;
pub(super) const COUNTS: usize = OVERFLOW + 1;
const PREDICTORS: usize = COUNTS + 1;
const ARRIVED: usize = PREDICTORS + MOST_CLASSES;
const COSTS: usize = ARRIVED + 4 * MOST_STEPS * APART;
const NUMBERS: usize = COSTS + 2 * CODES * MOST_CLASSES;

/// `kernels_gpu::closed::Choice`.
#[derive(Clone, Copy, cust::memory::DeviceCopy)]
#[repr(C)]
struct Choice {
    costs: u64,
    codes: u64,
    zeros: u64,
    arrived: u64,
    schemes: u32,
    phases: u32,
    threshold: f64,
}

/// What was chosen, as the tiles' kernels read it.
pub(super) struct Chosen<T> {
    /// Each level's step and its inverse, the finest first.
    pub(super) steps: Buffer<T>,
    /// One for each tile.
    pub(super) anchors: Buffer<T>,
    /// A bit for each tile whose anchor is stored exactly.
    pub(super) escaped: Buffer<u32>,
    numbers: Numbers,
    by: By<T>,
}

/// Who chose.
enum By<T> {
    Host(Box<Choices<T>>),
    Device {
        /// The steps of which it chose the first or the second.
        schemes: Vec<Vec<T>>,
        /// Predictors, then the section of anchors.
        sections: Buffer<u8>,
    },
}

/// The bytes of a section.
pub(super) enum Bytes {
    Host(Vec<u8>),
    /// An address and a length.
    Device(u64, u64),
}

impl Bytes {
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Host(bytes) => bytes.len() as u64,
            Self::Device(_, len) => *len,
        }
    }
}

/// What is written of choices.
pub(super) struct Written {
    pub(super) steps: Vec<u64>,
    /// The sections before those of the tiles.
    pub(super) sections: Vec<(SectionId, Bytes)>,
    /// The anchors' worst error.
    pub(super) worst: f64,
}

/// Numbers that kernels add up.
struct Numbers(Buffer<u64>);

impl Numbers {
    fn new(cuda: &Cuda) -> Result<Self> {
        let numbers = cuda.buffer(NUMBERS)?;
        numbers.clear(&cuda.stream)?;
        Ok(Self(numbers))
    }

    fn at(&self, place: usize) -> DevicePointer<u64> {
        self.0.pointer().wrapping_offset(place as isize)
    }

    fn address(&self, place: usize) -> u64 {
        self.at(place).as_raw()
    }
}

/// The numbers of a scheme as kernels read them: steps and inverses of the levels, and of the anchors.
fn numbers_of<T: Value>(steps: &[T]) -> impl Iterator<Item = T> {
    steps.iter().flat_map(|&step| {
        let Quantiser { step, inverse } = Quantiser::new(step);
        [step, inverse]
    })
}

/// Where the sections that the device packs start: differences are at a multiple of 8.
fn packed_start(classes: usize) -> u64 {
    ((classes + 1).next_multiple_of(8) - classes - 1) as u64
}

impl<T: Value> Chosen<T> {
    /// A number that the tiles' kernels add up, which was 0.
    pub(super) fn number<S>(&self, place: usize, len: usize) -> Buffer<S>
    where
        S: bytemuck::Pod + cust::memory::DeviceCopy,
    {
        Buffer::borrowed(self.numbers.address(place), len)
    }

    /// Queues what was found to the host.
    pub(super) fn receive(&self, cuda: &Cuda) -> Result<()> {
        cuda.mail.receive_many(self.numbers.address(0), 8 * ARRIVED, CLOSED, &cuda.stream)
    }

    /// Once that has come: whether the device found that the host must choose.
    pub(super) fn is_for_host(&self, cuda: &Cuda) -> bool {
        matches!(self.by, By::Device { .. }) && cuda.mail.number(CLOSED + FOUND + 2) != 0
    }

    /// Once that has come: what there is to write.
    pub(super) fn written(&self, cuda: &Cuda, layout: &Layout, task: &Task<'_, T>) -> Written {
        match &self.by {
            By::Host(choices) => Written {
                steps: choices.step_bits(),
                sections: task.sections(choices).into_iter().map(|(id, bytes)| (id, Bytes::Host(bytes.into_owned()))).collect(),
                worst: choices.anchors.worst,
            },
            By::Device { schemes, sections } => {
                let number = |place: usize| cuda.mail.number(CLOSED + place);
                let classes = layout.plan.classes.len();
                let second = schemes.len() > 1 && share(number(ZEROS), number(ZEROS + 1)) > steps::MOSTLY_ZEROS;
                let width = 64 - number(FOUND).leading_zeros();
                let start = sections.pointer().as_raw() + packed_start(classes);
                let packed = 1 + anchors::size(layout.plan.tile_count(), width) as u64;
                Written {
                    steps: step_bits(&schemes[usize::from(second)]),
                    sections: vec![
                        (SectionId::Predictors, Bytes::Device(start, classes as u64)),
                        (SectionId::Anchors, Bytes::Device(start + classes as u64, packed)),
                    ],
                    worst: f64::from_bits(number(FOUND + 1)),
                }
            }
        }
    }
}

/// The share of symbols that are 0.
fn share(zeros: u64, all: u64) -> f64 {
    zeros as f64 / all.max(1) as f64
}

const _: () = assert!(ARRIVED <= CLOSED_COUNT);

impl Cuda {
    /// Queues choosing, of a chunk without special values; `greatest` is the greatest magnitude of its values, or above it.
    pub(super) fn choose<T: Value + DeviceValue>(
        &self,
        layout: &Layout,
        task: &Task<'_, T>,
        values: &Buffer<T>,
        greatest: Option<T>,
    ) -> Result<Chosen<T>> {
        let (plan, count) = (&layout.plan, layout.count as usize);
        let equal = match greatest.and_then(|greatest| steps::equal_below(plan, task.bound, greatest)) {
            Some(equal) => equal,
            None if !task.values.is_empty() => steps::equal(plan, task.bound, &task.sample()),
            None => steps::equal(plan, task.bound, &self.samples(layout, values)?.1),
        };
        let schemes = vec![equal, steps::shrinking(plan, task.bound)];
        let numbers = Numbers::new(self)?;
        let flat: Vec<T> = schemes.iter().flat_map(|steps| numbers_of(steps)).collect();
        let schemes_there = self.upload(&flat)?;
        let original = Original { values, mask: None };
        self.choose_predictors(layout, task, original, &schemes_there, schemes.len() as u32, None, &numbers)?;

        let (steps, anchors) = (self.buffer(2 * plan.shape.levels())?, self.buffer(count)?);
        let (escaped, differences): (Buffer<u32>, Buffer<u64>) = (self.buffer(count.div_ceil(32))?, self.buffer(count)?);
        let sections: Buffer<u8> = self.buffer(plan.classes.len() + 16 + 8 * count)?;
        let blocks = layout.count.div_ceil(ANCHORS_BLOCK);
        queue!(
            self,
            format!("closed_anchors_{}", T::SUFFIX),
            (blocks, ANCHORS_BLOCK, 0),
            (
                layout.tiles,
                layout.classes.pointer(),
                plan.shape.levels() as u32,
                schemes_there.pointer(),
                schemes.len() as u32,
                steps::MOSTLY_ZEROS,
                numbers.at(ZEROS),
                numbers.at(PREDICTORS),
                values.pointer(),
                task.bound,
                task.forbidden,
                steps.pointer(),
                anchors.pointer(),
                escaped.pointer(),
                differences.pointer(),
                numbers.at(FOUND)
            )
        )?;
        queue!(
            self,
            "closed_pack_anchors",
            (blocks, ANCHORS_BLOCK, 0),
            (
                layout.tiles,
                schemes.len() as u32,
                steps::MOSTLY_ZEROS,
                numbers.at(ZEROS),
                numbers.at(PREDICTORS),
                differences.pointer(),
                numbers.at(FOUND),
                sections.pointer()
            )
        )?;
        Ok(Chosen { steps, anchors, escaped, numbers, by: By::Device { schemes, sections } })
    }

    /// Chooses with anchors that the host quantises: in any chunk.
    pub(super) fn choose_with_host<T: Value + DeviceValue>(
        &self,
        layout: &Layout,
        task: &Task<'_, T>,
        original: Original<'_, T>,
    ) -> Result<Chosen<T>> {
        let (anchors, sample) =
            if task.values.is_empty() { self.samples(layout, original.values)? } else { (task.first_values(&layout.plan), task.sample()) };
        let choices = task.choose_with(layout.plan.clone(), &anchors, &sample, |plan, scheme, grid| {
            self.choose_scheme(layout, plan, task, original, scheme, &grid.values)
        })?;
        let mut escaped = vec![0u32; (layout.count as usize).div_ceil(32)];
        choices.anchors.escaped.iter().for_each(|&tile| escaped[tile / 32] |= 1 << (tile % 32));
        layout.set_predictors(self, &choices.scheme.predictors)?;
        Ok(Chosen {
            steps: self.upload(&quantisers(&choices.scheme))?,
            anchors: self.upload(&choices.anchors.values)?,
            escaped: self.upload(&escaped)?,
            numbers: Numbers::new(self)?,
            by: By::Host(Box::new(choices)),
        })
    }

    /// The first value of each tile, and every so many of the values, none of which is special.
    fn samples<T: Value + DeviceValue>(&self, layout: &Layout, values: &Buffer<T>) -> Result<(Vec<T>, Vec<T>)> {
        let stride = steps::stride(values.len());
        let (anchors, spread): (Buffer<T>, Buffer<T>) = (self.buffer(layout.count as usize)?, self.buffer(values.len().div_ceil(stride))?);
        queue!(
            self,
            format!("closed_sample_{}", T::SUFFIX),
            (layout.count.max(spread.len() as u32).div_ceil(super::closed::BLOCK), super::closed::BLOCK, 0),
            (layout.tiles, values.pointer(), stride as u32, spread.len() as u32, anchors.pointer(), spread.pointer())
        )?;
        Ok((anchors.read(anchors.len(), &self.stream)?, spread.read(spread.len(), &self.stream)?))
    }

    /// The predictors of a scheme, and the share of symbols that are 0.
    fn choose_scheme<T: Value + DeviceValue>(
        &self,
        layout: &Layout,
        plan: &Plan,
        task: &Task<'_, T>,
        original: Original<'_, T>,
        scheme: &Scheme<T>,
        anchors: &[T],
    ) -> Result<(Vec<Predictor>, f64)> {
        let (steps, anchors, numbers) = (self.upload(&quantisers(scheme))?, self.upload(anchors)?, Numbers::new(self)?);
        self.choose_predictors(layout, task, original, &steps, 1, Some(&anchors), &numbers)?;
        let found = numbers.0.read(ARRIVED, &self.stream)?;
        let codes: &[u32] = bytemuck::cast_slice(&found[PREDICTORS..]);
        let predictors = codes.iter().zip(&plan.classes).map(|(&code, class)| Predictor::from_code(code as u8, class.axes));
        let predictors = predictors.collect::<Option<Vec<_>>>().ok_or_else(|| Error::Device("a class has no such predictor".into()))?;
        Ok((predictors, share(found[ZEROS], found[ZEROS + 1])))
    }

    /// Queues choosing the predictors of one or two schemes. Without `anchors` they are computed of the values.
    fn choose_predictors<T: Value + DeviceValue>(
        &self,
        layout: &Layout,
        task: &Task<'_, T>,
        original: Original<'_, T>,
        schemes: &Buffer<T>,
        count: u32,
        anchors: Option<&Buffer<T>>,
        numbers: &Numbers,
    ) -> Result<()> {
        let choice = Choice {
            costs: numbers.address(COSTS),
            codes: numbers.address(PREDICTORS),
            zeros: numbers.address(ZEROS),
            arrived: numbers.address(ARRIVED),
            schemes: count,
            phases: layout.phases,
            threshold: steps::MOSTLY_ZEROS,
        };
        let end = count * (layout.phases + 1);
        let launch = |first: u32, end: u32, boxes: DevicePointer<T>, together: bool| {
            self.queue_choice(layout, task, original, schemes, anchors, choice, first, end, boxes, together)
        };
        if self.together && launch(0, end, DevicePointer::null(), true)? {
            return Ok(());
        }
        // The device cannot hold all blocks at once.
        let boxes: Buffer<T> = self.buffer(layout.coarse as usize * layout.box_values as usize)?;
        (0..end).try_for_each(|step| launch(step, step + 1, boxes.pointer(), false).map(|_| ()))
    }

    /// Queues some steps of choosing; `false` where the device cannot run all blocks together.
    fn queue_choice<T: Value + DeviceValue>(
        &self,
        layout: &Layout,
        task: &Task<'_, T>,
        original: Original<'_, T>,
        schemes: &Buffer<T>,
        anchors: Option<&Buffer<T>>,
        choice: Choice,
        first: u32,
        end: u32,
        boxes: DevicePointer<T>,
        together: bool,
    ) -> Result<bool> {
        let shared = layout.box_values * size_of::<T>() as u32;
        let function = self.loaded.module.get_function(format!("closed_choose_{}", T::SUFFIX)).map_err(failed)?;
        let launch = |arguments: &[*mut c_void]| {
            let threads = CHOOSE_BLOCKS[usize::from(size_of::<T>() == 8)];
            let (blocks, stream) = (layout.coarse, self.stream.as_inner());
            let (function, arguments) = (function.to_raw(), arguments.as_ptr().cast_mut());
            // SAFETY: the arguments are those of the kernel's documentation; the driver only reads the array.
            unsafe {
                if together {
                    cust::sys::cuLaunchCooperativeKernel(function, blocks, 1, 1, threads, 1, 1, shared, stream, arguments)
                } else {
                    let none = std::ptr::null_mut();
                    cust::sys::cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, shared, stream, arguments, none)
                }
            }
        };
        macro_rules! launch {
            ($($argument:expr),* $(,)?) => {{
                fn pointer<A: cust::memory::DeviceCopy>(argument: &A) -> *mut c_void {
                    std::ptr::from_ref(argument).cast_mut().cast()
                }
                launch(&[$(pointer(&$argument)),*])
            }};
        }
        let launched = launch!(
            layout.tiles,
            layout.classes.pointer(),
            layout.phase_starts.pointer(),
            layout.nodes.pointer(),
            layout.plan.shape.levels() as u32,
            schemes.pointer(),
            original.values.pointer(),
            address(original.mask),
            address(anchors),
            task.bound,
            task.forbidden,
            layout.sample.pointer(),
            layout.fine,
            layout.coarse,
            choice,
            first,
            end,
            boxes,
            layout.box_values,
        );
        if together && matches!(launched as i32, TOO_LARGE | NOT_SUPPORTED) {
            return Ok(false);
        }
        check(launched).map(|()| true)
    }

    /// Queues reconstructing a chunk's anchors of their section. `bad` is not 0 afterwards where that has not the right size.
    pub(super) fn read_anchors<T: Value + DeviceValue>(
        &self,
        layout: &Layout,
        (section, len): (u64, u64),
        step: T,
        bad: &Buffer<u32>,
    ) -> Result<Buffer<T>> {
        let count = layout.count;
        let (anchors, sums): (Buffer<T>, Buffer<i64>) = (self.buffer(count as usize)?, self.buffer(count as usize)?);
        let [z, y, x] = layout.tiles.tiles;
        let mut axes: Vec<(u32, u32)> = [(x, 1), (y, x), (z, x * y)].into_iter().filter(|&(n, _)| n > 1).collect();
        if axes.is_empty() {
            axes.push((1, 1));
        }
        for (index, &(n, stride)) in axes.iter().enumerate() {
            let lines = count / n;
            let launch = if n > LONG { (lines, LONG_BLOCK, 0) } else { (lines.div_ceil(ANCHORS_BLOCK / 32), ANCHORS_BLOCK, 0) };
            let last = index + 1 == axes.len();
            queue!(
                self,
                format!("closed_anchor_sums_{}", T::SUFFIX),
                launch,
                (
                    count,
                    if index == 0 { section } else { 0 },
                    len,
                    sums.pointer(),
                    lines,
                    n,
                    stride,
                    step,
                    if last { anchors.pointer() } else { DevicePointer::null() },
                    bad.pointer()
                )
            )?;
        }
        Ok(anchors)
    }
}

/// The steps of the levels, each with its inverse, the finest first.
pub(super) fn quantisers<T: Value>(scheme: &Scheme<T>) -> Vec<T> {
    scheme.quantisers.iter().flat_map(|quantiser| [quantiser.step, quantiser.inverse]).collect()
}
