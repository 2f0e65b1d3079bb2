//! Numbers, tokens and texts against what the reference implementations give.

mod harmony;
mod tokenizer;
