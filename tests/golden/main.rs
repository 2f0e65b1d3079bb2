//! Numbers, tokens, texts and files against what the reference implementations give.

mod checkpoint;
mod harmony;
mod tokenizer;
