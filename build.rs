//! `embed_migrations!` cannot tell cargo that a migration was added; this does.
fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
