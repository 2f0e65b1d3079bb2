//! MXFP4, decoded the obvious way: the definition that every kernel is tested against.
