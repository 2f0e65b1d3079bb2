//! The tensors of all files by name, from which each role takes its own exactly once.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::PathBuf;

use safetensors::Dtype;

use super::bytes::{Bf16, Bytes};
use super::error::{Error, TensorFault, TensorType};
use super::files::{Files, Index, Named};
use super::header;

struct Tensor {
    file: PathBuf,
    tensor: TensorType,
    bytes: Bytes,
}

/// The tensors not yet taken, and what was wrong so far.
pub(super) struct Tensors {
    directory: PathBuf,
    left: BTreeMap<String, Tensor>,
    faults: Vec<TensorFault>,
}

impl Tensors {
    /// Reads the headers of all weight files.
    pub fn read(files: &Files) -> Result<Self, Error> {
        let mut tensors = Self {
            directory: files.directory.clone(),
            left: BTreeMap::new(),
            faults: Vec::new(),
        };
        for file in &files.weights {
            tensors.add(file)?;
        }
        // Where a tensor is in two shards, the index is right about one of them; that fault is told instead.
        if let Some(index) = &files.index
            && tensors.faults.is_empty()
        {
            tensors.check_index(index)?;
        }
        Ok(tensors)
    }

    fn add(&mut self, file: &Named) -> Result<(), Error> {
        let entries = header::read(&file.bytes).map_err(|fault| Error::Safetensors {
            path: file.path.clone(),
            fault,
        })?;
        for entry in entries {
            let tensor = Tensor {
                file: file.path.clone(),
                tensor: entry.tensor,
                bytes: file.bytes.slice(entry.range),
            };
            match self.left.entry(entry.name) {
                Entry::Vacant(place) => {
                    place.insert(tensor);
                }
                Entry::Occupied(first) => self.faults.push(TensorFault::Twice {
                    name: first.key().clone(),
                    first: first.get().file.clone(),
                    second: tensor.file,
                }),
            }
        }
        Ok(())
    }

    fn check_index(&self, index: &Index) -> Result<(), Error> {
        let misplaced = |(name, shard): &(&String, &String)| {
            self.left
                .get(*name)
                .is_none_or(|tensor| !tensor.file.ends_with(shard))
        };
        let tensors: Vec<_> = index
            .weight_map
            .iter()
            .filter(misplaced)
            .map(|(name, shard)| (name.clone(), shard.clone()))
            .collect();
        if tensors.is_empty() {
            Ok(())
        } else {
            Err(Error::NotInShard {
                index: index.path.clone(),
                tensors,
            })
        }
    }

    /// Number of tensors not yet taken.
    pub fn len(&self) -> usize {
        self.left.len()
    }

    /// Whether a tensor not yet taken has a name like this.
    pub fn any(&self, matches: impl Fn(&str) -> bool) -> bool {
        self.left.keys().any(|name| matches(name))
    }

    /// Takes the BF16 tensor `name`.
    pub fn bf16(&mut self, name: &str, shape: &[usize]) -> Bf16 {
        Bf16 {
            bytes: self.take(name, Dtype::BF16, shape).unwrap_or_default(),
            shape: shape.to_vec(),
        }
    }

    /// Takes the BF16 tensor `name` whose rows are those of several tensors one after the other; `shape` is that of
    /// the whole with the rows left out.
    pub fn bf16_parts<const N: usize>(
        &mut self,
        name: &str,
        rows: [usize; N],
        shape: &[usize],
    ) -> [Bf16; N] {
        let stacked = |rows: usize| [&[rows], shape].concat();
        let whole = self.take(name, Dtype::BF16, &stacked(rows.iter().sum()));
        let width = 2 * shape.iter().product::<usize>();
        let mut begin = 0;
        rows.map(|rows| {
            let range = begin..begin + rows * width;
            begin = range.end;
            Bf16 {
                bytes: whole
                    .as_ref()
                    .map(|bytes| bytes.slice(range))
                    .unwrap_or_default(),
                shape: stacked(rows),
            }
        })
    }

    /// Takes the tensor `name` of bytes.
    pub fn u8(&mut self, name: &str, shape: &[usize]) -> Bytes {
        self.take(name, Dtype::U8, shape).unwrap_or_default()
    }

    /// `None` if the tensor is missing or wrong: noted for [`Self::finish`], so that all such are told at once.
    fn take(&mut self, name: &str, dtype: Dtype, shape: &[usize]) -> Option<Bytes> {
        let expected = TensorType {
            dtype,
            shape: shape.to_vec(),
        };
        let name = name.to_owned();
        match self.left.remove(&name) {
            Some(tensor) if tensor.tensor == expected => return Some(tensor.bytes),
            Some(tensor) => self.faults.push(TensorFault::Wrong {
                name,
                file: tensor.file,
                found: tensor.tensor,
                expected,
            }),
            None => self.faults.push(TensorFault::Missing { name, expected }),
        }
        None
    }

    /// Fails if anything was missing or wrong, or is left over.
    pub fn finish(mut self) -> Result<(), Error> {
        let unexpected = self
            .left
            .into_iter()
            .map(|(name, tensor)| TensorFault::Unexpected {
                name,
                file: tensor.file,
                found: tensor.tensor,
            });
        self.faults.extend(unexpected);
        if self.faults.is_empty() {
            Ok(())
        } else {
            Err(Error::Tensors {
                directory: self.directory,
                faults: self.faults,
            })
        }
    }
}
