//! The header of a safetensors file: eight bytes of length, JSON, then the data of all tensors without gaps.
//!
//! The crate `safetensors` supplies the types; the checks are made here, because its own keep the last of two tensors
//! of one name, add sizes without a check for overflow, and do not say which tensor or which bytes are at fault.

use std::fmt;
use std::ops::Range;

use safetensors::tensor::TensorInfo;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::error::{SafetensorsFault, TensorType};

/// The limit of the reference implementation.
const HEADER_LIMIT: u64 = 100_000_000;

const GIT_LFS_POINTER: &[u8] = b"version https://git-lfs.github.com/spec/";

/// One tensor of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub name: String,
    pub tensor: TensorType,
    /// Counted from the beginning of the file.
    pub range: Range<usize>,
}

/// The tensors of a whole `file`, by offset. They cover its data exactly, and each has the size of its type and shape.
pub(super) fn read(file: &[u8]) -> Result<Vec<Entry>, SafetensorsFault> {
    if file.starts_with(GIT_LFS_POINTER) {
        return Err(SafetensorsFault::GitLfsPointer);
    }
    let (length, rest) = file
        .split_first_chunk::<8>()
        .ok_or(SafetensorsFault::TooShort { bytes: file.len() })?;
    let claimed = u64::from_le_bytes(*length);
    if claimed > HEADER_LIMIT {
        return Err(SafetensorsFault::HeaderTooLong {
            claimed,
            limit: HEADER_LIMIT,
        });
    }
    let (header, data) =
        rest.split_at_checked(claimed as usize)
            .ok_or(SafetensorsFault::HeaderPastEnd {
                claimed,
                available: rest.len(),
            })?;
    let Listing(mut listing) =
        serde_json::from_slice(header).map_err(|reason| SafetensorsFault::Header { reason })?;

    listing.sort_unstable_by(|(left, _), (right, _)| left.cmp(right));
    if let Some(twice) = listing.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(SafetensorsFault::DuplicateName {
            name: twice[0].0.clone(),
        });
    }
    // Stable, so that empty tensors at one offset stay in the order of their names.
    listing.sort_by_key(|(_, info)| info.data_offsets);
    check_extents(&listing, data.len())?;

    let base = file.len() - data.len();
    let entry = |(name, info): (String, TensorInfo)| Entry {
        name,
        range: base + info.data_offsets.0..base + info.data_offsets.1,
        tensor: TensorType {
            dtype: info.dtype,
            shape: info.shape,
        },
    };
    Ok(listing.into_iter().map(entry).collect())
}

/// Checks that the tensors, sorted by offset, lie end to end and fill `available` bytes.
fn check_extents(
    listing: &[(String, TensorInfo)],
    available: usize,
) -> Result<(), SafetensorsFault> {
    let mut covered = 0;
    let mut previous = "";
    for (name, info) in listing {
        let (begin, end) = info.data_offsets;
        if end.checked_sub(begin) != size(info) || size(info).is_none() {
            return Err(SafetensorsFault::Size {
                name: name.clone(),
                found: TensorType {
                    dtype: info.dtype,
                    shape: info.shape.clone(),
                },
                begin,
                end,
            });
        }
        if begin < covered {
            return Err(SafetensorsFault::Overlap {
                name: name.clone(),
                begin,
                other: previous.to_owned(),
                end: covered,
            });
        }
        if begin > covered {
            return Err(SafetensorsFault::Hole {
                begin: covered,
                end: begin,
            });
        }
        if end > available {
            return Err(SafetensorsFault::Truncated {
                name: name.clone(),
                end,
                available,
            });
        }
        covered = end;
        previous = name;
    }
    if covered < available {
        return Err(SafetensorsFault::Hole {
            begin: covered,
            end: available,
        });
    }
    Ok(())
}

/// Bytes that type and shape take; `None` where the product overflows or ends within a byte.
fn size(info: &TensorInfo) -> Option<usize> {
    let bits = info
        .shape
        .iter()
        .try_fold(info.dtype.bitsize(), |bits, &n| bits.checked_mul(n))?;
    (bits % 8 == 0).then_some(bits / 8)
}

/// Name and description of each tensor in the order of the file, duplicates included.
struct Listing(Vec<(String, TensorInfo)>);

impl<'de> Deserialize<'de> for Listing {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListingVisitor;

        impl<'de> Visitor<'de> for ListingVisitor {
            type Value = Listing;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with one entry per tensor")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Listing, A::Error> {
                let mut listing = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        map.next_value::<IgnoredAny>()?;
                    } else {
                        listing.push((name, map.next_value()?));
                    }
                }
                Ok(Listing(listing))
            }
        }

        deserializer.deserialize_map(ListingVisitor)
    }
}

#[cfg(test)]
mod tests;
