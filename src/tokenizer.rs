//! Text to token ids and back, reading the checkpoint's `tokenizer.json`.
//!
//! gpt-oss speaks `o200k_harmony`: a byte-level BPE vocabulary, and above it the control tokens of
//! the harmony format. Text from users, files and tools is encoded by [`Tokenizer::encode`], which
//! never yields a control token; only the renderer puts those in, by the ids of [`Special`].

use std::collections::HashMap;
use tokenizers::{AddedToken, PostProcessorWrapper, Tokenizer as Bpe};

mod file;
mod utf8;
use file::{Added, File};
pub use utf8::Utf8Stream;

/// Largest id taken from a file, so that a wild one cannot make the byte table allocate at will.
const MAX_ID: u32 = (1 << 20) - 1;

/// Longest text that is split by the tokenizer's pattern at once. Its regular expression goes back over
/// a run of letters or spaces character by character, and the library panics after some millions.
const PIECE: usize = 256 << 10;

/// Why a tokenizer cannot be used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    /// Not JSON, or JSON that is no tokenizer.
    #[error("`{file}` is not a tokenizer.json ({reason}); fetch the model's own file again")]
    Unreadable { file: String, reason: String },
    /// A tokenizer of another kind than gpt-oss has.
    #[error("`{file}`: expected a byte-level BPE tokenizer as gpt-oss has, found {found}")]
    NotByteLevelBpe { file: String, found: String },
    /// Without these the harmony format cannot be written or read.
    #[error(
        "`{file}` has no special token {}; it is not gpt-oss's tokenizer or not complete",
        names.join(", ")
    )]
    MissingSpecial { file: String, names: Vec<String> },
    /// Text from outside could turn into these control tokens.
    #[error(
        "`{file}` does not mark {} as special (`\"special\": true`), so text could forge control tokens; fetch the model's own file again",
        names.join(", ")
    )]
    NotSpecial { file: String, names: Vec<String> },
    /// Ids that the library would change without a word; the model knows the file's only.
    #[error(
        "`{file}` gives the added token `{token}` the id {id}, where only {expected} can follow; fetch the model's own file again"
    )]
    Misnumbered {
        file: String,
        token: String,
        id: u32,
        expected: u32,
    },
    /// One of the two would be read as the other.
    #[error(
        "`{file}` gives the id {id} to both `{}` and `{}`; fetch the model's own file again",
        tokens[0], tokens[1]
    )]
    SharedId {
        file: String,
        id: u32,
        tokens: [String; 2],
    },
    /// An id far outside any vocabulary.
    #[error("`{file}` gives the token `{token}` the id {id}; ids up to {MAX_ID} are expected")]
    IdTooLarge {
        file: String,
        token: String,
        id: u32,
    },
}

/// The special tokens of harmony, by id. Looked up by name, never by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Special {
    /// `<|start|>`
    pub start: u32,
    /// `<|end|>`: a message is over, the turn is not.
    pub end: u32,
    /// `<|message|>`
    pub message: u32,
    /// `<|channel|>`
    pub channel: u32,
    /// `<|constrain|>`
    pub constrain: u32,
    /// `<|return|>`: the answer is complete.
    pub return_: u32,
    /// `<|call|>`: a tool is called.
    pub call: u32,
    /// `<|endoftext|>`; a vocabulary may do without it.
    pub endoftext: Option<u32>,
}

impl Special {
    /// All of them.
    pub fn ids(&self) -> impl Iterator<Item = u32> {
        let always = [
            self.start,
            self.end,
            self.message,
            self.channel,
            self.constrain,
            self.return_,
            self.call,
        ];
        always.into_iter().chain(self.endoftext)
    }

    /// The ids that end generation: `<|return|>`, `<|call|>` and, as a safety, `<|endoftext|>`.
    /// `<|end|>` ends a message only.
    pub fn stops(&self) -> Vec<u32> {
        [Some(self.return_), Some(self.call), self.endoftext]
            .into_iter()
            .flatten()
            .collect()
    }
}

/// The checkpoint's tokenizer. Cheap to share through an `Arc`.
pub struct Tokenizer {
    bpe: Bpe,
    special: Special,
    bytes: TokenBytes,
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokenizer")
            .field("special", &self.special)
            .field("ids", &self.bytes.ids())
            .finish_non_exhaustive()
    }
}

impl Tokenizer {
    /// Reads a `tokenizer.json`. `source` is for messages only.
    ///
    /// # Errors
    /// See [`Error`]: not JSON, not byte-level BPE, control tokens missing or not marked special,
    /// ids that are shared, out of order or wild.
    pub fn from_json(json: &[u8], source: &str) -> Result<Self, Error> {
        let File { added_tokens, .. } = File::from_json(json, source)?;
        let mut bpe = Bpe::from_bytes(json).map_err(|error| Error::Unreadable {
            file: source.to_owned(),
            reason: error.to_string(),
        })?;
        // Control-token text in what people write stays text.
        bpe.set_encode_special_tokens(true);
        // A tokenizer saved in training may cut or fill what it encodes.
        bpe.with_padding(None);
        bpe.with_truncation(None)
            .expect("no truncation has no parameters to be wrong");
        // It would only add tokens of its own, or copies.
        bpe.with_post_processor(None::<PostProcessorWrapper>);
        let special = find_special(&bpe, source)?;
        let bytes = TokenBytes::new(&bpe, source)?;
        check_numbers(&bpe, added_tokens, source)?;
        Ok(Self {
            bpe,
            special,
            bytes,
        })
    }

    /// The control tokens of the harmony format.
    pub fn special(&self) -> Special {
        self.special
    }

    /// The ids of ordinary text: text that looks like a special token stays text.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        for piece in pieces(text) {
            let encoding = self.bpe.encode_fast(piece, false).expect(
                "byte-level BPE has a token for every byte, which was checked when reading it",
            );
            ids.extend_from_slice(encoding.get_ids());
        }
        ids
    }

    /// The bytes of a token (ordinary or special, the latter by its name); `None` for an id
    /// without a string.
    pub fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        self.bytes.get(id)
    }

    /// Lossy text of ids: unknown ids are left out, broken UTF-8 becomes U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> String {
        let bytes: Vec<u8> = ids
            .iter()
            .filter_map(|&id| self.token_bytes(id))
            .flatten()
            .copied()
            .collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// `text` in pieces of at most [`PIECE`] bytes. They end where no word of gpt-oss's pattern goes on, so
/// that the tokens are those of the whole; only a run without such a place is cut as it comes.
fn pieces(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        if text.is_empty() {
            return None;
        }
        let (piece, rest) = text.split_at(piece_end(text));
        text = rest;
        Some(piece)
    })
}

fn piece_end(text: &str) -> usize {
    if text.len() <= PIECE {
        return text.len();
    }
    let most = text.floor_char_boundary(PIECE);
    // Punctuation takes line breaks and slashes after it into its word.
    let ends_word = |last: char, next: char| match next {
        ' ' => !last.is_whitespace(),
        '/' => false,
        _ => last == '\n' && !next.is_whitespace(),
    };
    let mut next = text[most..].chars().next();
    for (at, character) in text[..most].char_indices().rev() {
        if next.is_some_and(|next| ends_word(character, next)) {
            return at + character.len_utf8();
        }
        next = Some(character);
    }
    most
}

fn find_special(bpe: &Bpe, source: &str) -> Result<Special, Error> {
    let mut added: Vec<(u32, AddedToken)> = bpe.get_added_tokens_decoder().into_iter().collect();
    added.sort_by_key(|&(id, _)| id);
    let find = |name: &str| {
        let token = added.iter().find(|(_, token)| token.content == name);
        token.map(|&(id, _)| id)
    };
    let mut missing = Vec::new();
    let mut id_of = |name: &str| {
        find(name).unwrap_or_else(|| {
            missing.push(name.to_owned());
            0
        })
    };
    let special = Special {
        start: id_of("<|start|>"),
        end: id_of("<|end|>"),
        message: id_of("<|message|>"),
        channel: id_of("<|channel|>"),
        constrain: id_of("<|constrain|>"),
        return_: id_of("<|return|>"),
        call: id_of("<|call|>"),
        endoftext: find("<|endoftext|>"),
    };
    let file = source.to_owned();
    if !missing.is_empty() {
        let names = missing;
        return Err(Error::MissingSpecial { file, names });
    }
    let names: Vec<String> = added
        .into_iter()
        .map(|(_, token)| token)
        .filter(|token| !token.special && token.content.starts_with("<|"))
        .map(|token| token.content)
        .collect();
    if !names.is_empty() {
        return Err(Error::NotSpecial { file, names });
    }
    Ok(special)
}

/// Whether the library kept the ids of the file.
fn check_numbers(bpe: &Bpe, added: Vec<Added>, source: &str) -> Result<(), Error> {
    for Added { id, content, .. } in added {
        // The library drops tokens without text.
        if let Some(expected) = bpe.token_to_id(&content)
            && expected != id
        {
            return Err(Error::Misnumbered {
                file: source.to_owned(),
                token: content,
                id,
                expected,
            });
        }
    }
    Ok(())
}

/// The bytes of every token, end to end in one arena.
struct TokenBytes {
    arena: Vec<u8>,
    /// `arena[offsets[id]..offsets[id + 1]]`; an id without a string has an empty range.
    offsets: Vec<u32>,
}

impl TokenBytes {
    fn new(bpe: &Bpe, source: &str) -> Result<Self, Error> {
        let alphabet = byte_alphabet();
        let mut tokens: Vec<(u32, Vec<u8>)> = Vec::with_capacity(bpe.get_vocab_size(true));
        let mut single_bytes = 0;
        for (token, id) in bpe.get_vocab(false) {
            let bytes: Option<Vec<u8>> = token.chars().map(|c| alphabet.get(&c).copied()).collect();
            let bytes = bytes.ok_or_else(|| Error::NotByteLevelBpe {
                file: source.to_owned(),
                found: format!("the token `{token}`, which is not in the byte-level alphabet"),
            })?;
            single_bytes += usize::from(bytes.len() == 1);
            tokens.push((id, bytes));
        }
        if single_bytes != 256 {
            return Err(Error::NotByteLevelBpe {
                file: source.to_owned(),
                found: format!("tokens for {single_bytes} of the 256 single bytes"),
            });
        }
        // Added tokens stand as they are written.
        let added = bpe.get_added_tokens_decoder();
        tokens.extend(
            added
                .into_iter()
                .map(|(id, t)| (id, t.content.into_bytes())),
        );
        tokens.sort();
        let shared = tokens.windows(2).find(|pair| pair[0].0 == pair[1].0);
        if let Some([(id, one), (_, other)]) = shared {
            return Err(Error::SharedId {
                file: source.to_owned(),
                id: *id,
                tokens: [lossy(one), lossy(other)],
            });
        }

        let last = tokens.last().map_or(0, |&(id, _)| id);
        if last > MAX_ID {
            return Err(Error::IdTooLarge {
                file: source.to_owned(),
                token: tokens.pop().map(|(_, b)| lossy(&b)).unwrap_or_default(),
                id: last,
            });
        }
        let mut arena = Vec::with_capacity(tokens.iter().map(|(_, bytes)| bytes.len()).sum());
        let mut offsets = vec![0];
        for (id, bytes) in tokens {
            let id = id as usize;
            offsets.resize(id + 1, arena.len() as u32);
            arena.extend_from_slice(&bytes);
            offsets.push(arena.len() as u32);
        }
        Ok(Self { arena, offsets })
    }

    fn ids(&self) -> usize {
        self.offsets.len() - 1
    }

    fn get(&self, id: u32) -> Option<&[u8]> {
        let id = id as usize;
        let (&from, &to) = (self.offsets.get(id)?, self.offsets.get(id + 1)?);
        let bytes = self.arena.get(from as usize..to as usize)?;
        (!bytes.is_empty()).then_some(bytes)
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The printable character that stands for each byte in a byte-level vocabulary: printable
/// Latin-1 stands for itself, the other bytes follow from U+0100 on in order (GPT-2's table).
fn byte_alphabet() -> HashMap<char, u8> {
    let mut next_substitute = 0x100..;
    (0..=u8::MAX)
        .filter_map(|byte| {
            let itself = matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
            let character = if itself {
                char::from(byte)
            } else {
                char::from_u32(next_substitute.next()?)?
            };
            Some((character, byte))
        })
        .collect()
}

#[cfg(test)]
mod tests;
