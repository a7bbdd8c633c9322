//! Shapes and types in file names, as the SDRBench collection writes them: `FIELD_100x500x500.f32`.

use std::path::Path;

use bmgard::{DType, Shape};

/// The type that a name's extension tells: `.f32` and `.f64`, and SDRBench's `.d64`.
pub fn dtype(path: &Path) -> Option<DType> {
    match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "f32" => Some(DType::F32),
        "f64" | "d64" => Some(DType::F64),
        _ => None,
    }
}

/// The last part of a name that is a shape of two or more dimensions. A lone number is not taken for a shape: it may as well be a
/// time step.
pub fn shape(path: &Path) -> Option<Shape> {
    let stem = path.file_stem()?.to_str()?;
    stem.rsplit(['_', '-', '.', ' ']).find_map(|part| {
        let written_so = part.contains('x') && part.split('x').all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
        if written_so { part.parse().ok() } else { None }
    })
}

/// Whether a name asks for NumPy's format.
pub fn is_npy(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("npy"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape_of(name: &str) -> Option<String> {
        shape(Path::new(name)).map(|shape| shape.to_string())
    }

    #[test]
    fn shapes_are_read_off_names() {
        for (name, expected) in [
            ("CESM_CAM_T_30x192x288.f32", Some("30x192x288")),
            ("dir_9x9/PRES-98x1200x1200.f32", Some("98x1200x1200")),
            ("a_2x3.bin.f32", Some("2x3")),
            ("a_2x3_4x5.f32", Some("4x5")),
            ("10x20.dat", Some("10x20")),
            ("w_2x3x4x5.d64", Some("2x3x4x5")),
            ("w_2x3x4x5x6.f32", None),
            ("step_0042.f32", None),
            ("box_x.f32", None),
            ("a_0x3.f32", None),
            ("a_3x.f32", None),
            ("a_+3x4.f32", None),
            ("a_2x3", Some("2x3")),
            ("", None),
        ] {
            assert_eq!(shape_of(name).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn types_are_read_off_extensions() {
        let dtype_of = |name: &str| dtype(Path::new(name));
        assert_eq!(dtype_of("a.f32"), Some(DType::F32));
        assert_eq!(dtype_of("a.F32"), Some(DType::F32));
        assert_eq!(dtype_of("a.f64"), Some(DType::F64));
        assert_eq!(dtype_of("a.d64"), Some(DType::F64));
        assert_eq!(dtype_of("a.f32.zst"), None);
        assert_eq!(dtype_of("a.dat"), None);
        assert_eq!(dtype_of("f32"), None);
    }
}
