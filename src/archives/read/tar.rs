//! A tar, in order. Extended headers are read here and not by the library, which would take any length of them into memory
//! and cuts values at their line ends.

use std::io::{self, Read};

use bytes::Bytes;
use chrono::DateTime;
use serde::de::DeserializeOwned;

use super::{Bounded, Ended, FileEntry, FolderEntry, Sink, Thing, refused};
use crate::archives::{pax, record};
use crate::error::{Error, Result};

/// Bytes of an extended header: all metatags of a file fit four times.
const MAX_EXTENDED: u64 = 1 << 20;

/// What extended headers say of the entry that follows them.
#[derive(Default)]
struct Extended {
    /// The name, from GNU's kind.
    name: Option<Vec<u8>>,
    /// Records, from POSIX's kind.
    pax: Vec<u8>,
    /// What is wrong with one.
    error: Option<Error>,
}

pub(super) fn read(source: impl Read, sink: &mut Sink) -> Result<(), Ended> {
    let mut source = Bounded { inner: source, left: sink.bounds.unpacked };
    let export = entries(&mut source, sink)?;
    // The rest is empty blocks, and what tells whether all came as it was sent.
    let rest = io::copy(&mut source, &mut io::sink());
    sink.number += 1;
    rest.map_err(|error| sink.broken(None, &error))?;
    match export {
        Some(false) => Err(sink.ended(None, refused("the archive is an export that ended early"))),
        _ => Ok(()),
    }
}

/// Gives all entries; tells, of an export, whether it ended as it should.
fn entries(source: &mut impl Read, sink: &mut Sink) -> Result<Option<bool>, Ended> {
    let mut archive = tar::Archive::new(source);
    let entries = archive.entries().map_err(|error| sink.broken(None, &error))?;
    let mut extended = Extended::default();
    let mut export = None;
    for entry in entries.raw(true) {
        let mut entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                sink.number += 1;
                return Err(sink.broken(None, &error));
            }
        };
        let kind = entry.header().entry_type().as_byte();
        match kind {
            b'L' | b'x' | b'X' => {
                let told = bytes(&mut entry, MAX_EXTENDED).map_err(|error| {
                    sink.number += 1;
                    sink.broken(None, &error)
                })?;
                match told {
                    None => extended.error = Some(refused("its extended header is too long")),
                    Some(told) if kind == b'L' => extended.name = Some(told),
                    Some(told) => extended.pax.extend(told),
                }
                continue;
            }
            // Long names of links, what is said of all entries, and the label of a tape.
            b'K' | b'g' | b'V' => continue,
            _ => {}
        }
        let Extended { name, pax, error } = std::mem::take(&mut extended);
        sink.next()?;
        let records = pax::records(&pax);
        let damaged = records.is_none().then(|| refused("its extended header is damaged"));
        let records = records.unwrap_or_default();
        let last = |key: &str| records.iter().rev().find(|(name, _)| *name == key).map(|(_, value)| *value);
        let name = match (last("path"), name) {
            (Some(path), _) => path.to_vec(),
            (None, Some(mut name)) => {
                name.truncate(name.iter().position(|byte| *byte == 0).unwrap_or(name.len()));
                name
            }
            (None, None) => entry.header().path_bytes().into_owned(),
        };
        if last("size").is_some_and(|size| size != entry.size().to_string().as_bytes()) {
            // How far it reaches is not what its header says, and no file that may be loaded needs that.
            return Err(sink.ended(Some(&name), sink.too_large()));
        }
        let sparse = kind == b'S' || records.iter().any(|(key, _)| key.starts_with("GNU.sparse."));
        let refusal = error.or(damaged).or_else(|| match kind {
            _ if sparse => Some(refused("a sparse file is not loaded")),
            b'0' | 0 | b'7' | b'5' => None,
            b'1' => Some(refused("a hard link is not loaded")),
            b'2' => Some(refused("a symbolic link is not loaded")),
            b'3' | b'4' => Some(refused("a device is not loaded")),
            b'6' => Some(refused("a pipe is not loaded")),
            _ => Some(refused("it is of a kind that is not loaded")),
        });
        let thing = match refusal {
            Some(error) => Err(error),
            None if kind == b'5' || name.ends_with(b"/") => {
                let found = folder(&name, sink, &last);
                if let Ok(found) = &found {
                    if found.record.is_some() && found.path == *sink.folder {
                        export = Some(false);
                    }
                    if found.end.is_some() {
                        export = Some(true);
                    }
                }
                found.map(Thing::Folder)
            }
            None => {
                let modified = entry.header().mtime().ok().filter(|seconds| *seconds > 0);
                let modified =
                    modified.and_then(|seconds| DateTime::from_timestamp(i64::try_from(seconds).ok()?, 0));
                match file(&name, sink, &last) {
                    Err(error) => Err(error),
                    Ok((path, record)) => match bytes(&mut entry, sink.bounds.file) {
                        Err(error) => return Err(sink.broken(Some(&name), &error)),
                        Ok(None) => Err(sink.too_large()),
                        Ok(Some(contents)) => Ok(Thing::File(FileEntry {
                            path,
                            contents: Bytes::from(contents),
                            record,
                            modified,
                        })),
                    },
                }
            }
        };
        sink.give(&name, thing);
    }
    Ok(export)
}

fn folder<'a>(name: &[u8], sink: &Sink, last: &impl Fn(&str) -> Option<&'a [u8]>) -> Result<FolderEntry> {
    Ok(FolderEntry {
        path: super::folder(name, sink.folder)?,
        record: parse(last, record::FOLDER)?,
        slate: parse(last, record::SLATE)?,
        end: parse(last, record::END)?,
    })
}

type Described = (crate::path::FilePath, Option<record::FileRecord>);

fn file<'a>(name: &[u8], sink: &mut Sink, last: &impl Fn(&str) -> Option<&'a [u8]>) -> Result<Described> {
    let record = parse(last, record::FILE)?;
    Ok((sink.file(name)?, record))
}

fn parse<'a, T: DeserializeOwned>(last: &impl Fn(&str) -> Option<&'a [u8]>, key: &str) -> Result<Option<T>> {
    last(key)
        .map(serde_json::from_slice)
        .transpose()
        .map_err(|error| refused(format!("its record {key} cannot be read: {error}")))
}

/// All bytes of an entry, unless there are more than `most`.
fn bytes<R: Read>(entry: &mut tar::Entry<R>, most: u64) -> io::Result<Option<Vec<u8>>> {
    let size = entry.size();
    if size > most {
        return Ok(None);
    }
    // A header may say any size, so memory is taken as bytes come.
    let mut bytes = Vec::with_capacity(size.min(1 << 20) as usize);
    entry.read_to_end(&mut bytes)?;
    if bytes.len() as u64 == size { Ok(Some(bytes)) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}
