//! The archive format, written a second time from `docs/format.md`: takes archives apart and puts them together again with right
//! checksums, so that tests can build archives that lie.

/// What every archive starts with.
pub const SIGNATURE: [u8; 8] = [0x89, 0x42, 0x4D, 0x47, 0x41, 0x52, 0x44, 0x0A];

/// Section ids.
pub const RAW: u32 = 1;
pub const MASK: u32 = 2;
pub const MASK_VALUES: u32 = 3;
pub const PATCH_COUNTS: u32 = 4;
pub const PATCH_OFFSETS: u32 = 5;
pub const PATCH_VALUES: u32 = 6;
pub const CONSTANT: u32 = 7;
pub const CODEBOOKS: u32 = 8;
pub const MASK_FLAGS: u32 = 9;
pub const PREDICTORS: u32 = 10;
pub const ANCHORS: u32 = 11;
pub const TILE_LENGTHS: u32 = 12;
pub const TILES: u32 = 13;
pub const PACKED_TILES: u32 = 14;
pub const PACKED_LENGTHS: u32 = 15;
pub const PACKED_ANCHORS: u32 = 16;
pub const LENGTHS: u32 = 0x100;
pub const PAYLOAD: u32 = 0x200;

/// An archive in parts. Lengths, counts and checksums are not kept but computed, except where a `claimed` field lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    pub version: u16,
    pub reserved: u16,
    pub dtype: u8,
    pub claimed_dims: Option<u8>,
    pub bound_kind: u8,
    pub basis: u8,
    pub coder: u8,
    pub budget: u8,
    pub flags: u8,
    pub zero: u8,
    pub dims: Vec<u64>,
    pub bound: u64,
    pub abs_bound: u64,
    pub fill: u64,
    pub chunk_dims: [u64; 3],
    pub levels: [u8; 2],
    /// What follows the levels.
    pub tail: Vec<u8>,
    pub chunks: Vec<Chunk>,
    /// What follows the last chunk.
    pub trailing: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    pub claimed_length: Option<u64>,
    pub table_reserved: u32,
    pub kind: u8,
    pub local: u8,
    pub global: u8,
    pub claimed_steps: Option<u8>,
    pub claimed_sections: Option<u32>,
    pub steps: Vec<u64>,
    pub sections: Vec<Section>,
    /// What follows the last section.
    pub trailing: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    pub id: u32,
    pub claimed_length: Option<u64>,
    pub bytes: Vec<u8>,
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(count);
    *bytes = rest;
    taken
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

impl Parts {
    /// Takes a good archive apart.
    pub fn parse(archive: &[u8]) -> Self {
        let mut rest = archive;
        assert_eq!(take(&mut rest, 8), SIGNATURE);
        let version = number(take(&mut rest, 2)) as u16;
        let reserved = number(take(&mut rest, 2)) as u16;
        let length = number(take(&mut rest, 4)) as usize;
        let mut body = take(&mut rest, length);
        assert_eq!(number(take(&mut rest, 4)) as u32, crc32fast::hash(&archive[..16 + length]));
        let &[dtype, dim_count, bound_kind, basis, coder, budget, flags, zero] = take(&mut body, 8) else { unreachable!() };
        let mut parts = Self {
            version,
            reserved,
            dtype,
            claimed_dims: None,
            bound_kind,
            basis,
            coder,
            budget,
            flags,
            zero,
            dims: (0..dim_count).map(|_| number(take(&mut body, 8))).collect(),
            bound: number(take(&mut body, 8)),
            abs_bound: number(take(&mut body, 8)),
            fill: number(take(&mut body, 8)),
            chunk_dims: [0; 3].map(|_: u64| number(take(&mut body, 8))),
            levels: [0; 2].map(|_: u8| number(take(&mut body, 1)) as u8),
            tail: body.to_vec(),
            chunks: Vec::new(),
            trailing: Vec::new(),
        };
        let count: u64 = (0..3).map(|axis| parts.effective()[axis].div_ceil(parts.chunk_dims[axis])).product();
        let table = take(&mut rest, count as usize * 16);
        assert_eq!(number(take(&mut rest, 4)) as u32, crc32fast::hash(table));
        for entry in table.chunks(16) {
            let chunk = take(&mut rest, number(&entry[..8]) as usize);
            parts.chunks.push(Chunk::parse(chunk, number(&entry[8..12]) as u32, number(&entry[12..]) as u32));
        }
        assert!(rest.is_empty());
        parts
    }

    /// The three effective dimensions.
    pub fn effective(&self) -> [u64; 3] {
        let mut dims: Vec<u64> = self.dims.iter().copied().filter(|&n| n > 1).collect();
        if dims.len() == 4 {
            let slowest = dims.remove(0);
            dims[0] *= slowest;
        }
        let mut out = [1; 3];
        out[3 - dims.len()..].copy_from_slice(&dims);
        out
    }

    /// Makes the whole field one chunk of these dimensions.
    pub fn reshape(&mut self, dims: &[u64]) {
        self.dims = dims.to_vec();
        self.chunk_dims = self.effective();
    }

    /// Puts it together, all checksums right.
    pub fn seal(&self) -> Vec<u8> {
        let mut body = vec![self.dtype, self.claimed_dims.unwrap_or(self.dims.len() as u8)];
        body.extend([self.bound_kind, self.basis, self.coder, self.budget, self.flags, self.zero]);
        let fields = self.dims.iter().copied().chain([self.bound, self.abs_bound, self.fill]).chain(self.chunk_dims);
        body.extend(fields.flat_map(u64::to_le_bytes));
        body.extend(self.levels);
        body.extend(&self.tail);
        let mut out = SIGNATURE.to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend(self.reserved.to_le_bytes());
        out.extend((body.len() as u32).to_le_bytes());
        out.extend(body);
        out.extend(crc32fast::hash(&out).to_le_bytes());
        let mut table = Vec::new();
        let mut chunks = Vec::new();
        for chunk in &self.chunks {
            let (header, sections) = chunk.seal();
            let length = header.len() + sections.len();
            table.extend(chunk.claimed_length.unwrap_or(length as u64).to_le_bytes());
            table.extend(crc32fast::hash(&header).to_le_bytes());
            table.extend(chunk.table_reserved.to_le_bytes());
            chunks.extend(header);
            chunks.extend(sections);
        }
        out.extend(&table);
        out.extend(crc32fast::hash(&table).to_le_bytes());
        out.extend(chunks);
        out.extend(&self.trailing);
        out
    }
}

impl Chunk {
    fn parse(bytes: &[u8], checksum: u32, table_reserved: u32) -> Self {
        let mut rest = bytes;
        let &[kind, local, global, steps] = take(&mut rest, 4) else { unreachable!() };
        let section_count = number(take(&mut rest, 4)) as usize;
        let steps = (0..steps).map(|_| number(take(&mut rest, 8))).collect();
        let entries = take(&mut rest, section_count * 16);
        assert_eq!(checksum, crc32fast::hash(&bytes[..bytes.len() - rest.len()]));
        let sections = entries.chunks(16).map(|entry| {
            let bytes = take(&mut rest, number(&entry[8..]) as usize).to_vec();
            assert_eq!(number(&entry[4..8]) as u32, crc32fast::hash(&bytes));
            Section { id: number(&entry[..4]) as u32, claimed_length: None, bytes }
        });
        let sections = sections.collect();
        assert!(rest.is_empty());
        Self {
            claimed_length: None,
            table_reserved,
            kind,
            local,
            global,
            claimed_steps: None,
            claimed_sections: None,
            steps,
            sections,
            trailing: Vec::new(),
        }
    }

    /// The header, and what follows it.
    fn seal(&self) -> (Vec<u8>, Vec<u8>) {
        let mut header = vec![self.kind, self.local, self.global, self.claimed_steps.unwrap_or(self.steps.len() as u8)];
        header.extend(self.claimed_sections.unwrap_or(self.sections.len() as u32).to_le_bytes());
        header.extend(self.steps.iter().flat_map(|step| step.to_le_bytes()));
        let mut bytes = Vec::new();
        for section in &self.sections {
            header.extend(section.id.to_le_bytes());
            header.extend(crc32fast::hash(&section.bytes).to_le_bytes());
            header.extend(section.claimed_length.unwrap_or(section.bytes.len() as u64).to_le_bytes());
            bytes.extend(&section.bytes);
        }
        bytes.extend(&self.trailing);
        (header, bytes)
    }

    pub fn has(&self, id: u32) -> bool {
        self.sections.iter().any(|section| section.id == id)
    }

    /// The bytes of a section that the chunk has.
    pub fn section(&mut self, id: u32) -> &mut Vec<u8> {
        let section = self.sections.iter_mut().find(|section| section.id == id);
        &mut section.unwrap_or_else(|| panic!("there is no section {id:#x}")).bytes
    }
}

/// Recomputes the checksums of a damaged archive in place, as far as its lengths still lead to them.
pub fn repair(archive: &mut [u8]) {
    let _ = try_repair(archive);
}

fn try_repair(archive: &mut [u8]) -> Option<()> {
    fn put(archive: &mut [u8], at: usize, checksum: u32) -> Option<()> {
        archive.get_mut(at..at.checked_add(4)?)?.copy_from_slice(&checksum.to_le_bytes());
        Some(())
    }
    fn read(archive: &[u8], at: usize, count: usize) -> Option<u64> {
        Some(number(archive.get(at..at.checked_add(count)?)?))
    }
    let header = 16 + read(archive, 12, 4)? as usize;
    let checksum = crc32fast::hash(archive.get(..header)?);
    put(archive, header, checksum)?;
    // The table is as long as the shape says.
    let dims = usize::from(*archive.get(17)?);
    let field = |index: usize| read(archive, 24 + index * 8, 8);
    let mut effective: Vec<u64> = (0..dims).map(field).collect::<Option<Vec<_>>>()?.into_iter().filter(|&n| n > 1).collect();
    if effective.len() == 4 {
        let slowest = effective.remove(0);
        effective[0] = effective[0].checked_mul(slowest)?;
    }
    let mut count = 1u64;
    for (axis, slot) in (0..3).rev().zip((0..effective.len()).rev().map(Some).chain([None; 3])) {
        count = count.checked_mul(slot.map_or(1, |slot| effective[slot]).div_ceil(field(dims + 3 + axis)?.max(1)))?;
    }
    let table = header + 4;
    let count = usize::try_from(count).ok().filter(|&count| count < archive.len())?;
    let mut chunk = table + count * 16 + 4;
    for entry in (table..).step_by(16).take(count) {
        let sections = read(archive, chunk + 4, 4)? as usize;
        let first = chunk + 8 + usize::from(*archive.get(chunk + 3)?) * 8;
        let mut start = first + sections * 16;
        for section in (first..).step_by(16).take(sections) {
            let end = start.checked_add(usize::try_from(read(archive, section + 8, 8)?).ok()?)?;
            let checksum = crc32fast::hash(archive.get(start..end)?);
            put(archive, section + 4, checksum)?;
            start = end;
        }
        let checksum = crc32fast::hash(archive.get(chunk..first + sections * 16)?);
        put(archive, entry + 8, checksum)?;
        chunk = chunk.checked_add(usize::try_from(read(archive, entry, 8)?).ok()?)?;
    }
    let checksum = crc32fast::hash(archive.get(table..table + count * 16)?);
    put(archive, table + count * 16, checksum)
}
