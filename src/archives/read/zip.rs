//! A zip, by its directory.

use std::cell::Cell;
use std::io::{self, Read, Seek, SeekFrom};
use std::rc::Rc;

use bytes::Bytes;
use zip::ZipArchive;
use zip::read::ZipFile;
use zip::result::ZipError;

use super::{Ended, FileEntry, FolderEntry, Sink, TOO_MUCH, Thing, refused};
use crate::error::{Code, Error, Result};

/// Bytes of a directory, which is in memory as a whole: enough for some 300,000 files.
const MAX_DIRECTORY: u64 = 32 << 20;

/// A reader that gives only so much, until it is told that it may give all.
struct Metered<R> {
    inner: R,
    left: Rc<Cell<u64>>,
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        let left = self.left.get();
        if left != u64::MAX {
            self.left.set(left.checked_sub(read as u64).ok_or(io::Error::from(TOO_MUCH))?);
        }
        Ok(read)
    }
}

impl<R: Seek> Seek for Metered<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}

pub(super) fn read<R: Read + Seek>(source: R, sink: &mut Sink) -> Result<(), Ended> {
    let left = Rc::new(Cell::new(MAX_DIRECTORY));
    let opened = ZipArchive::new(Metered { inner: source, left: left.clone() });
    let mut archive = opened.map_err(|error| {
        let error = match error {
            ZipError::Io(error) if error.kind() == TOO_MUCH => Error::new(
                Code::BodyTooLarge,
                format!("the directory of a zip may have {MAX_DIRECTORY} bytes; send a .tar.gz"),
            ),
            error => refused(format!("the archive is no zip, or ends early: {error}")),
        };
        sink.number += 1;
        sink.ended(None, error)
    })?;
    left.set(u64::MAX);
    let mut unpacked = 0;
    for index in 0..archive.len() {
        sink.next()?;
        let listed = archive.name_for_index(index).unwrap_or_default().to_owned();
        let mut entry = match archive.by_index(index) {
            Ok(entry) => entry,
            Err(error) => {
                sink.give(listed.as_bytes(), Err(refused(format!("it cannot be read: {error}"))));
                continue;
            }
        };
        let name = entry.name_raw().to_vec();
        let thing = thing(&mut entry, &name, sink, &mut unpacked);
        if unpacked > sink.bounds.unpacked {
            return Err(sink.broken(Some(&name), &TOO_MUCH.into()));
        }
        sink.give(&name, thing);
    }
    Ok(())
}

fn thing<R: Read>(entry: &mut ZipFile<R>, name: &[u8], sink: &mut Sink, unpacked: &mut u64) -> Result<Thing> {
    // The kinds of stat(2): a file, a folder, or not said.
    match entry.unix_mode().map_or(0, |mode| mode & 0o170_000) {
        0 | 0o100_000 | 0o040_000 => {}
        0o120_000 => return Err(refused("a symbolic link is not loaded")),
        _ => return Err(refused("it is of a kind that is not loaded")),
    }
    if name.ends_with(b"/") {
        let path = super::folder(name, sink.folder)?;
        return Ok(Thing::Folder(FolderEntry { path, record: None, slate: None, end: None }));
    }
    if entry.size() > sink.bounds.file {
        return Err(sink.too_large());
    }
    let path = sink.file(name)?;
    // What the directory says of its size may be wrong.
    let mut contents = Vec::with_capacity(entry.size().min(1 << 20) as usize);
    let read = entry.take(sink.bounds.file + 1).read_to_end(&mut contents);
    *unpacked += contents.len() as u64;
    read.map_err(|error| refused(format!("it cannot be read: {error}")))?;
    if contents.len() as u64 > sink.bounds.file {
        return Err(sink.too_large());
    }
    Ok(Thing::File(FileEntry { path, contents: Bytes::from(contents), record: None, modified: None }))
}
