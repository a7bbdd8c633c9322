//! Real fields.
