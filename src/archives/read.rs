//! Takes an archive apart. It comes from anyone, so nothing in it is trusted.
//!
//! | what | what becomes of it |
//! |---|---|
//! | a name that is absolute, or has `..`, a backslash, an empty segment, or is not UTF-8 or too long | refused, and the rest goes on |
//! | links, devices, pipes, sparse files, encrypted entries, files past the limit of one | refused, and the rest goes on |
//! | more unpacked bytes or entries than the bounds | ends the load; what came before stays |
//! | an end that comes early, or damage to the structure of the archive | ends the load; what came before stays |
//!
//! One leading `./`, as `tar` writes it, is taken away; nothing else about a name is changed. A tar is read in order, a zip
//! by its directory.

mod tar;
mod zip;

use std::collections::HashSet;
use std::io::{self, Read, Seek};

use bytes::Bytes;
use chrono::{DateTime, Utc};
use flate2::read::MultiGzDecoder;
use sha2::{Digest, Sha256};

use super::record::{End, FileRecord, FolderRecord};
use crate::error::{Code, Error, Result};
use crate::path::{FilePath, FolderPath};
use crate::slates::NewSlate;

/// How many times its own size an archive may unpack to, past [`FREE_BYTES`].
const MAX_RATIO: u64 = 500;
/// Unpacked bytes that any archive may have, however small it is.
const FREE_BYTES: u64 = 64 << 20;

/// How much of an archive is read.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Unpacked bytes, names and headers included.
    pub unpacked: u64,
    /// Entries.
    pub entries: u64,
    /// Bytes of one file.
    pub file: u64,
}

/// What kind of archive it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A tar.
    Tar,
    /// A tar within gzip.
    TarGz,
    /// A zip.
    Zip,
}

impl Format {
    /// Tells by the first bytes, of which 512 are enough.
    pub fn detect(start: &[u8]) -> Option<Format> {
        match start {
            [0x1f, 0x8b, ..] => Some(Format::TarGz),
            [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => Some(Format::Zip),
            _ if start.get(257..262) == Some(b"ustar") => Some(Format::Tar),
            _ => None,
        }
    }
}

/// One entry of an archive.
#[derive(Debug)]
pub struct Entry {
    /// Which, from 1.
    pub number: u64,
    /// The path in the slate, or the name as it stands in the archive where it is none; what is not UTF-8 is U+FFFD.
    pub path: String,
    /// What it holds, or why it is refused.
    pub thing: Result<Thing>,
}

/// What an entry holds.
#[derive(Debug)]
pub enum Thing {
    /// A file.
    File(FileEntry),
    /// A folder.
    Folder(FolderEntry),
}

/// A file of an archive.
#[derive(Debug)]
pub struct FileEntry {
    /// Where it goes.
    pub path: FilePath,
    /// The exact bytes.
    pub contents: Bytes,
    /// What an export says of it.
    pub record: Option<FileRecord>,
    /// When it last changed, as a tar says.
    pub modified: Option<DateTime<Utc>>,
}

/// A folder of an archive.
#[derive(Debug)]
pub struct FolderEntry {
    /// Where it goes.
    pub path: FolderPath,
    /// What an export says of it.
    pub record: Option<FolderRecord>,
    /// What the first entry of an export says of the slate.
    pub slate: Option<NewSlate>,
    /// What the last entry of an export says.
    pub end: Option<End>,
}

/// Why a load ended early, and where.
#[derive(Debug)]
pub struct Ended {
    /// The entry that was being read.
    pub entry: u64,
    /// Its path, if that was known.
    pub path: Option<String>,
    /// What is wrong.
    pub error: Error,
}

/// Where entries go, and what has been seen of them.
struct Sink<'a> {
    bounds: Bounds,
    folder: &'a FolderPath,
    each: &'a mut dyn FnMut(Entry),
    number: u64,
    /// Digests of the paths of files.
    files: HashSet<[u8; 16]>,
}

/// Reads an archive of `size` bytes, and gives each entry to `each`, its path that from `folder`.
///
/// # Errors
/// What ends the load early.
pub fn read<R: Read + Seek>(
    source: R,
    size: u64,
    format: Format,
    bounds: Bounds,
    folder: &FolderPath,
    each: &mut dyn FnMut(Entry),
) -> Result<(), Ended> {
    let unpacked = bounds.unpacked.min(FREE_BYTES.max(size.saturating_mul(MAX_RATIO)));
    let bounds = Bounds { unpacked, ..bounds };
    let mut sink = Sink { bounds, folder, each, number: 0, files: HashSet::new() };
    let source = io::BufReader::with_capacity(64 << 10, source);
    match format {
        Format::Tar => tar::read(source, &mut sink),
        Format::TarGz => tar::read(MultiGzDecoder::new(source), &mut sink),
        Format::Zip => zip::read(source, &mut sink),
    }
}

impl Sink<'_> {
    /// Begins an entry.
    fn next(&mut self) -> Result<(), Ended> {
        self.number += 1;
        if self.number > self.bounds.entries {
            let detail = format!("an archive may have {} entries", self.bounds.entries);
            return Err(self.ended(None, Error::new(Code::BodyTooLarge, detail)));
        }
        Ok(())
    }

    fn give(&mut self, name: &[u8], thing: Result<Thing>) {
        let path = match &thing {
            Ok(Thing::File(file)) => file.path.as_str().to_owned(),
            Ok(Thing::Folder(folder)) => format!("{}/", folder.path),
            Err(_) => String::from_utf8_lossy(name).into_owned(),
        };
        (self.each)(Entry { number: self.number, path, thing });
    }

    fn ended(&self, name: Option<&[u8]>, error: Error) -> Ended {
        let path = name.map(|name| String::from_utf8_lossy(name).into_owned());
        Ended { entry: self.number, path, error }
    }

    /// What is told of an end by a failure to read.
    fn broken(&self, name: Option<&[u8]>, error: &io::Error) -> Ended {
        let error = match error.kind() {
            io::ErrorKind::UnexpectedEof => refused("the archive ends early, within this entry"),
            TOO_MUCH => {
                let bytes = self.bounds.unpacked;
                let detail = format!("the archive unpacks to more than the {bytes} bytes that it may");
                Error::new(Code::BodyTooLarge, detail)
            }
            _ => refused(format!("the archive is damaged: {error}")),
        };
        self.ended(name, error)
    }

    /// The path of a file, which no entry before had.
    fn file(&mut self, name: &[u8]) -> Result<FilePath> {
        let path = FilePath::parse(text(name)?).and_then(|path| self.folder.join(&path)).map_err(wrong)?;
        let mut digest = [0; 16];
        digest.copy_from_slice(&Sha256::digest(path.as_str())[..16]);
        if !self.files.insert(digest) {
            return Err(Error::new(
                Code::NameConflict,
                "the archive has an entry of this path before; that one is loaded",
            ));
        }
        Ok(path)
    }

    fn too_large(&self) -> Error {
        Error::new(Code::BodyTooLarge, format!("a file may have {} bytes", self.bounds.file))
    }
}

/// The path of a folder.
fn folder(name: &[u8], below: &FolderPath) -> Result<FolderPath> {
    let path = match text(name)? {
        "." | "./" => return Ok(below.clone()),
        path => FilePath::parse(path.strip_suffix('/').unwrap_or(path)).map_err(wrong)?,
    };
    let path = below.join(&path).map_err(wrong)?;
    FolderPath::parse(path.as_str()).map_err(wrong)
}

/// A name without the `./` at its start.
fn text(name: &[u8]) -> Result<&str> {
    let text = std::str::from_utf8(name).map_err(|_| refused("the name is not UTF-8"))?;
    Ok(text.strip_prefix("./").filter(|rest| !rest.is_empty()).unwrap_or(text))
}

fn wrong(error: crate::path::PathError) -> Error {
    refused(format!("the name {error}"))
}

fn refused(detail: impl Into<String>) -> Error {
    Error::invalid_at("", detail)
}

/// How a reader that is [`Bounded`] says so, through whatever lies above it.
const TOO_MUCH: io::ErrorKind = io::ErrorKind::FileTooLarge;

/// A reader that gives only so much.
struct Bounded<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.left = self.left.checked_sub(read as u64).ok_or(io::Error::from(TOO_MUCH))?;
        Ok(read)
    }
}
