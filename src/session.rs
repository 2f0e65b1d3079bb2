//! One conversation: generator, tokenizer and parser together. A turn is a stream of events.
