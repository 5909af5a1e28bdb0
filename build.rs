//! Neither `embed_migrations!` nor `include_dir!` can tell cargo that a file was added; this does.
fn main() {
    println!("cargo:rerun-if-changed=migrations");
    println!("cargo:rerun-if-changed=seeds");
}
