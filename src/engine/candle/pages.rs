//! Memory for weights of our own: zeros in pages of two megabytes, where the system has them. Reading gigabytes through
//! small pages costs a few percent in looking up where they are.

use std::alloc::{Layout, handle_alloc_error};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use bytemuck::Pod;
use memmap2::MmapMut;

/// A slice of `T` that begins as zeros and never grows.
pub struct Pages<T> {
    map: MmapMut,
    bytes: usize,
    values: PhantomData<T>,
}

impl<T: Pod> Pages<T> {
    /// `len` zeros. Aborts where there is no memory, as a vector does.
    pub fn zeroed(len: usize) -> Self {
        let bytes = len * size_of::<T>();
        let Ok(map) = MmapMut::map_anon(bytes.max(1)) else {
            handle_alloc_error(Layout::array::<T>(len).unwrap_or(Layout::new::<T>()))
        };
        // A wish: without it all is as it was.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        Self {
            map,
            bytes,
            values: PhantomData,
        }
    }
}

impl<T: Pod> Deref for Pages<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        bytemuck::cast_slice(&self.map[..self.bytes])
    }
}

impl<T: Pod> DerefMut for Pages<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        bytemuck::cast_slice_mut(&mut self.map[..self.bytes])
    }
}

#[cfg(test)]
mod tests {
    use super::Pages;

    #[test]
    fn they_begin_as_zeros_and_hold_what_is_written() {
        let mut pages = Pages::<u64>::zeroed(1000);
        assert_eq!(*pages, [0; 1000]);
        pages[999] = 7;
        assert_eq!((pages.len(), pages[998], pages[999]), (1000, 0, 7));
        assert!(Pages::<u64>::zeroed(0).is_empty());
    }
}
