//! A small Hugging Face hub on loopback, with its storage on another port, as the real one has it.
//!
//! It answers what a client asks of a hub: `/api/models/{id}/revision/{rev}` and
//! `/{id}/resolve/{rev}/{file}` with HEAD, GET and `Range`; weights are redirected to the storage. It keeps
//! a log, asks for a token if told to, and can answer wrongly in the ways that servers do.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

/// The commit that `main` is, unless a test says otherwise.
pub const COMMIT: &str = "6cee5e81ee83917806bbde320786a8fb61efebee";

/// What the server holds and how it misbehaves.
pub struct Hub {
    pub id: String,
    pub commit: String,
    pub files: BTreeMap<String, Vec<u8>>,
    /// The only token that is let in; nothing lets everybody in.
    pub token: Option<String>,
    /// Answers everything with this status and this `X-Error-Code`.
    pub refuse: Option<(u16, &'static str)>,
    /// Bytes of bodies that the storage still sends before it hangs up in the middle of one.
    pub budget: Option<usize>,
    /// Whether the storage knows `Range`.
    pub ranges: bool,
    /// The storage has nothing any more.
    pub gone: bool,
    /// The storage cannot be reached.
    pub lost: bool,
    /// Sizes that the hub states in place of the true ones.
    pub stated_sizes: BTreeMap<String, usize>,
}

/// The running server; it lives until the test's process ends.
pub struct HubServer {
    pub url: String,
    state: Arc<Mutex<State>>,
    gate: Arc<Gate>,
}

/// How many bytes of bodies the storage may still send; nothing lets everything through.
#[derive(Default)]
struct Gate {
    allowed: Mutex<Option<usize>>,
    changed: Condvar,
}

impl Gate {
    /// Waits until some of `wanted` bytes may go, and takes as many as may.
    fn take(&self, wanted: usize) -> usize {
        let closed = |allowed: &mut Option<usize>| *allowed == Some(0);
        let allowed = self.allowed.lock().expect("nobody panics with it");
        let mut allowed = self
            .changed
            .wait_while(allowed, closed)
            .expect("nobody panics with it");
        let taken = allowed.map_or(wanted, |allowed| wanted.min(allowed));
        *allowed = allowed.map(|allowed| allowed - taken);
        taken
    }
}

struct State {
    hub: Hub,
    /// One line per request: `hub GET /path` or `storage GET /path bytes=5-`.
    log: Vec<String>,
    /// The `Authorization` header of each request, in the same order.
    tokens: Vec<Option<String>>,
}

impl HubServer {
    /// A hub that holds `files` as `openai/gpt-oss-20b`.
    pub fn start(files: &[(&str, Vec<u8>)]) -> Self {
        let state = Arc::new(Mutex::new(State {
            hub: Hub {
                id: "openai/gpt-oss-20b".to_owned(),
                commit: COMMIT.to_owned(),
                files: files
                    .iter()
                    .map(|(name, content)| ((*name).to_owned(), content.clone()))
                    .collect(),
                token: None,
                refuse: None,
                budget: None,
                ranges: true,
                gone: false,
                lost: false,
                stated_sizes: BTreeMap::new(),
            },
            log: Vec::new(),
            tokens: Vec::new(),
        }));
        let gate = Arc::new(Gate::default());
        let storage = {
            let state = Arc::clone(&state);
            serve(&gate, move |request| storage(&mut lock(&state), request))
        };
        let url = {
            let state = Arc::clone(&state);
            serve(&Arc::default(), move |request| {
                hub(&mut lock(&state), request, &storage)
            })
        };
        Self { url, state, gate }
    }

    /// Lets the storage send so many bytes more and then wait; `None` lets it send everything.
    pub fn let_through(&self, bytes: Option<usize>) {
        *self.gate.allowed.lock().expect("nobody panics with it") = bytes;
        self.gate.changed.notify_all();
    }

    /// Changes what the server holds or does.
    pub fn set<T>(&self, change: impl FnOnce(&mut Hub) -> T) -> T {
        change(&mut lock(&self.state).hub)
    }

    /// The requests since the last call.
    pub fn take_log(&self) -> Vec<String> {
        let mut state = lock(&self.state);
        state.tokens.clear();
        std::mem::take(&mut state.log)
    }

    /// The requests so far, each with the `Authorization` header that it had.
    pub fn tokens(&self) -> Vec<(String, Option<String>)> {
        let state = lock(&self.state);
        state
            .log
            .iter()
            .cloned()
            .zip(state.tokens.iter().cloned())
            .collect()
    }
}

/// The SHA-256 of `content` in hexadecimal, which is the etag of a large file.
pub fn sha256(content: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, content);
    digest
        .as_ref()
        .iter()
        .fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").expect("a String takes everything");
            text
        })
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

struct Request {
    method: String,
    path: String,
    range: Option<String>,
    token: Option<String>,
}

struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    /// How much of the body is sent before the connection is closed.
    sent: usize,
}

impl Reply {
    fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        Self {
            status,
            headers: Vec::new(),
            sent: body.len(),
            body,
        }
    }

    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

/// Serves every connection with `answer` and gives the address.
fn serve(gate: &Arc<Gate>, answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener
        .local_addr()
        .expect("a bound socket has an address");
    let answer = Arc::new(answer);
    let gate = Arc::clone(gate);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (answer, gate) = (Arc::clone(&answer), Arc::clone(&gate));
            // A client that goes away in the middle is part of the tests.
            thread::spawn(move || handle(stream, &gate, &*answer).ok());
        }
    });
    format!("http://{address}")
}

fn handle(
    stream: TcpStream,
    gate: &Gate,
    answer: &dyn Fn(&Request) -> Reply,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (Some(method), Some(path)) = (words.next(), words.next()) else {
        return Ok(());
    };
    let mut request = Request {
        method,
        path,
        range: None,
        token: None,
    };
    loop {
        let mut line = String::new();
        if reader.by_ref().read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').unwrap_or((&line, ""));
        match name.to_ascii_lowercase().as_str() {
            "range" => request.range = Some(value.trim().to_owned()),
            "authorization" => request.token = Some(value.trim().to_owned()),
            _ => {}
        }
    }
    let reply = answer(&request);
    let mut head = format!("HTTP/1.1 {} Status\r\nConnection: close\r\n", reply.status);
    for (name, value) in &reply.headers {
        write!(head, "{name}: {value}\r\n").expect("a String takes everything");
    }
    write!(head, "Content-Length: {}\r\n\r\n", reply.body.len())
        .expect("a String takes everything");
    let mut stream = stream;
    stream.write_all(head.as_bytes())?;
    if request.method != "HEAD" {
        let mut rest = &reply.body[..reply.sent];
        while !rest.is_empty() {
            let (next, later) = rest.split_at(gate.take(rest.len()));
            stream.write_all(next)?;
            rest = later;
        }
    }
    stream.flush()
}

fn note(state: &mut State, host: &str, request: &Request) {
    let range = request
        .range
        .as_ref()
        .map(|range| format!(" {range}"))
        .unwrap_or_default();
    state
        .log
        .push(format!("{host} {} {}{range}", request.method, request.path));
    state.tokens.push(request.token.clone());
}

fn hub(state: &mut State, request: &Request, storage: &str) -> Reply {
    note(state, "hub", request);
    let hub = &state.hub;
    if let Some((status, code)) = hub.refuse {
        return Reply::new(status, "no").with("X-Error-Code", code);
    }
    if hub.token.is_some()
        && request.token != hub.token.as_ref().map(|token| format!("Bearer {token}"))
    {
        return Reply::new(401, "Invalid username or password.");
    }
    let knows =
        |revision: &str| revision == "main" || revision == "v1" || hub.commit.starts_with(revision);
    if let Some(revision) = request
        .path
        .strip_prefix(&format!("/api/models/{}/revision/", hub.id))
    {
        if !knows(revision) {
            return Reply::new(404, "Invalid rev id").with("X-Error-Code", "RevisionNotFound");
        }
        let files: Vec<_> = hub
            .files
            .keys()
            .map(|name| serde_json::json!({"rfilename": name}))
            .collect();
        let info = serde_json::json!({"id": hub.id, "sha": hub.commit, "siblings": files});
        return Reply::new(200, info.to_string());
    }
    let found = request
        .path
        .strip_prefix(&format!("/{}/resolve/", hub.id))
        .and_then(|rest| rest.split_once('/'))
        .filter(|(revision, _)| knows(revision))
        .and_then(|(_, name)| Some((name, hub.files.get(name)?)));
    let Some((name, content)) = found else {
        return Reply::new(404, "Entry not found").with("X-Error-Code", "EntryNotFound");
    };
    let hash = sha256(content);
    let size = hub.stated_sizes.get(name).copied().unwrap_or(content.len());
    if name.ends_with(".safetensors") {
        let storage = if hub.lost {
            "http://127.0.0.1:1"
        } else {
            storage
        };
        return Reply::new(302, "Found")
            .with("Location", format!("{storage}/{hash}?signature=1"))
            .with("X-Repo-Commit", &hub.commit)
            .with("X-Linked-Size", size.to_string())
            .with("X-Linked-Etag", format!("\"{hash}\""));
    }
    Reply::new(200, content.clone())
        .with("ETag", format!("\"{}\"", &hash[..40]))
        .with("X-Repo-Commit", &hub.commit)
}

fn storage(state: &mut State, request: &Request) -> Reply {
    note(state, "storage", request);
    let hub = &mut state.hub;
    let hash = request
        .path
        .trim_start_matches('/')
        .split('?')
        .next()
        .unwrap_or_default();
    if hub.gone {
        return Reply::new(404, "no such object");
    }
    let Some(content) = hub.files.values().find(|content| sha256(content) == hash) else {
        return Reply::new(403, "expired");
    };
    let start = request
        .range
        .as_ref()
        .filter(|_| hub.ranges)
        .and_then(|range| {
            range
                .strip_prefix("bytes=")?
                .strip_suffix('-')?
                .parse::<usize>()
                .ok()
        });
    let mut reply = match start {
        Some(start) if start >= content.len() => {
            Reply::new(416, "").with("Content-Range", format!("bytes */{}", content.len()))
        }
        Some(start) => {
            let range = format!("bytes {start}-{}/{}", content.len() - 1, content.len());
            Reply::new(206, &content[start..]).with("Content-Range", range)
        }
        None => Reply::new(200, content.clone()),
    };
    if let Some(budget) = &mut hub.budget {
        reply.sent = reply.sent.min(*budget);
        *budget -= reply.sent;
    }
    reply
}
