//! The `slatebase` binary.
fn main() {}
