//! The entries of an exported tar: ustar headers, and extended ones for what these have no field for.

use std::io::{self, Write};

use tar::{EntryType, Header};

use super::pax;

/// Bytes of a block.
const BLOCK: u64 = 512;
/// Bytes of the name field.
const NAME: usize = 100;

/// An entry's head. Its contents and [`padding`] follow.
pub struct Head<'a> {
    /// Its path; that of a folder ends in `/`.
    pub path: &'a str,
    /// Bytes of its contents; none for a folder.
    pub size: Option<u64>,
    /// When it last changed, in seconds since 1970.
    pub modified: u64,
    /// Our records, by key.
    pub records: &'a [(&'static str, String)],
}

/// Writes the head of an entry.
///
/// # Errors
/// Those of `out`.
pub fn head(out: &mut impl Write, head: &Head) -> io::Result<()> {
    let mut extended = Vec::new();
    if head.path.len() > NAME || !head.path.is_ascii() {
        pax::put(&mut extended, "path", head.path);
    }
    for (key, value) in head.records {
        pax::put(&mut extended, key, value);
    }
    let short = &head.path[..head.path.floor_char_boundary(NAME)];
    if !extended.is_empty() {
        let size = extended.len() as u64;
        out.write_all(block(short, EntryType::XHeader, size, head.modified).as_bytes())?;
        out.write_all(&extended)?;
        padding(out, size)?;
    }
    let kind = if head.size.is_some() { EntryType::Regular } else { EntryType::Directory };
    out.write_all(block(short, kind, head.size.unwrap_or_default(), head.modified).as_bytes())
}

fn block(name: &str, kind: EntryType, size: u64, modified: u64) -> Header {
    let mut header = Header::new_ustar();
    // Not `set_path`, which takes only what is a path on the system it runs on.
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mtime(modified);
    header.set_mode(if kind == EntryType::Directory { 0o755 } else { 0o644 });
    header.set_uid(0);
    header.set_gid(0);
    header.set_cksum();
    header
}

/// Fills the last block of contents of this size.
///
/// # Errors
/// Those of `out`.
pub fn padding(out: &mut impl Write, size: u64) -> io::Result<()> {
    let zeros = [0; BLOCK as usize];
    out.write_all(&zeros[..(size.next_multiple_of(BLOCK) - size) as usize])
}

/// The two empty blocks at the end.
///
/// # Errors
/// Those of `out`.
pub fn end(out: &mut impl Write) -> io::Result<()> {
    out.write_all(&[0; 2 * BLOCK as usize])
}
