//! Extended headers of a tar (POSIX pax): `<length> <key>=<value>\n`, the length that of the whole record.

/// Appends a record.
pub fn put(block: &mut Vec<u8>, key: &str, value: &str) {
    // The length counts its own digits.
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while rest + digits(length) != length {
        length = rest + digits(length);
    }
    block.extend_from_slice(format!("{length} {key}={value}\n").as_bytes());
}

fn digits(number: usize) -> usize {
    number.to_string().len()
}

/// The records of a header, in order; none where it is damaged.
pub fn records(mut block: &[u8]) -> Option<Vec<(&str, &[u8])>> {
    let mut found = Vec::new();
    while !block.is_empty() && block[0] != 0 {
        let blank = block.iter().take(20).position(|byte| *byte == b' ')?;
        let length: usize = std::str::from_utf8(&block[..blank]).ok()?.parse().ok()?;
        let record = block.get(blank + 1..length)?.strip_suffix(b"\n")?;
        let equals = record.iter().position(|byte| *byte == b'=')?;
        found.push((std::str::from_utf8(&record[..equals]).ok()?, &record[equals + 1..]));
        block = &block[length..];
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_found() {
        let long = "x\n=".repeat(400);
        for length in (0..130).chain([990, 1200]) {
            let mut block = Vec::new();
            put(&mut block, "path", &long[..length]);
            put(&mut block, "K.v", "");
            let found = records(&block).unwrap();
            assert_eq!(found, [("path", &long.as_bytes()[..length]), ("K.v", &b""[..])], "{length}");
        }
    }

    #[test]
    fn damage_is_told() {
        for bad in [
            "x",
            "5 a=b\n",
            "99 a=b\n",
            "6 ab\n",
            "0 a=b\n",
            "1 a=b\n",
            "7 a=bcd",
            "99999999999999999999999 ",
        ] {
            assert_eq!(records(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(records(b"6 a=b\n\0\0").unwrap(), [("a", &b"b"[..])]);
    }
}
