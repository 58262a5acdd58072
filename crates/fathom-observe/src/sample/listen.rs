//! A bare server of one page over HTTP/1.1: a few threads, each with one request after another, bounded in size and time.

use super::metrics::Totals;
use fathom_model::watch::Sample;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The longest request that is read.
const REQUEST_BYTES_MAX: usize = 8 << 10;
/// How long a client may take for all of its request, or of its answer.
const CLIENT: Duration = Duration::from_secs(5);

/// So many clients are served at a time: one that says nothing holds up nobody else.
const CLIENTS: usize = 8;

/// The kind of the page, as OpenMetrics names itself.
const KIND: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Serves `/metrics` as long as the process lives.
#[derive(Debug)]
pub struct Listener {
    address: SocketAddr,
    totals: Arc<Mutex<Totals>>,
}

impl Listener {
    /// Listens on `ADDRESS:PORT`, or on a port of this machine alone. Other machines are let in only by an address that says
    /// so, such as `0.0.0.0:9184`.
    ///
    /// # Errors
    /// `InvalidInput` for what is no address; those of binding, such as `AddrInUse`.
    pub fn start(address: &str) -> io::Result<Self> {
        let address = parse(address).ok_or_else(|| {
            let text =
                "no address; write a port, such as 9184, or ADDRESS:PORT, such as 127.0.0.1:9184";
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })?;
        let listener = Arc::new(TcpListener::bind(address)?);
        let address = listener.local_addr()?;
        let totals = Arc::new(Mutex::new(Totals::default()));
        for _ in 0..CLIENTS {
            let (listener, shown) = (Arc::clone(&listener), Arc::clone(&totals));
            std::thread::Builder::new().name("metrics".into()).spawn(move || {
                loop {
                    match listener.accept() {
                        // Whatever a client does wrong is its own loss.
                        Ok((client, _)) => drop(answer(client, &shown)),
                        // Out of descriptors: others close some.
                        Err(_) => std::thread::sleep(Duration::from_millis(100)),
                    }
                }
            })?;
        }
        Ok(Self { address, totals })
    }

    /// Where it listens, the port that was chosen for port 0 included.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds an interval to what is served.
    pub fn show(&mut self, sample: &Sample) {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner).add(sample);
    }
}

fn parse(address: &str) -> Option<SocketAddr> {
    let port = address.strip_prefix(':').unwrap_or(address);
    if let Ok(port) = port.parse() {
        return Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    let local = address.strip_prefix("localhost:").and_then(|port| port.parse().ok());
    local
        .map(|port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port))
        .or_else(|| address.parse().ok())
}

fn answer(mut client: TcpStream, totals: &Mutex<Totals>) -> io::Result<()> {
    let request = read_head(&mut client)?;
    let mut words = request.lines().next().unwrap_or_default().split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = path.split('?').next().unwrap_or_default();
    let (status, kind, body) = match (method, path) {
        ("GET" | "HEAD", "/metrics") => {
            ("200 OK", KIND, totals.lock().unwrap_or_else(PoisonError::into_inner).text())
        }
        ("GET" | "HEAD", _) => {
            ("404 Not Found", "text/plain", "figures are at /metrics\n".to_owned())
        }
        _ => ("405 Method Not Allowed", "text/plain", "GET only\n".to_owned()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    let body = if method == "HEAD" { "" } else { &body };
    write_all(&mut client, format!("{head}{body}").as_bytes(), CLIENT)
}

/// Writes everything within a time: a client that takes a little now and then holds up the others no longer than one that
/// takes nothing.
fn write_all(client: &mut TcpStream, mut bytes: &[u8], within: Duration) -> io::Result<()> {
    let begun = Instant::now();
    while !bytes.is_empty() {
        let left = within.checked_sub(begun.elapsed()).filter(|left| !left.is_zero());
        client.set_write_timeout(Some(left.ok_or(io::ErrorKind::TimedOut)?))?;
        match client.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The request up to its empty line.
fn read_head(client: &mut TcpStream) -> io::Result<String> {
    let begun = Instant::now();
    let (mut bytes, mut chunk) = (Vec::new(), [0; 1024]);
    loop {
        // A client that sends one byte a second does not hold up the others for long.
        let left = CLIENT.checked_sub(begun.elapsed()).filter(|left| !left.is_zero());
        client.set_read_timeout(Some(left.ok_or(io::ErrorKind::TimedOut)?))?;
        let count = client.read(&mut chunk)?;
        bytes.extend_from_slice(&chunk[..count]);
        let is_whole = bytes.windows(4).any(|end| end == b"\r\n\r\n");
        if is_whole || count == 0 || bytes.len() > REQUEST_BYTES_MAX {
            return Ok(String::from_utf8_lossy(&bytes).into_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(listener: &Listener, request: &str) -> String {
        let mut client = TcpStream::connect(listener.address()).expect("connects");
        client.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("answered");
        answer
    }

    #[test]
    fn one_page_is_served_and_nothing_else() {
        let mut listener = Listener::start("0").expect("listens");
        assert!(listener.address().ip().is_loopback());
        listener.show(&Sample { length_ns: 3_000_000_000, ..Sample::default() });
        let answer = ask(&listener, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains(KIND), "{head}");
        assert!(head.contains(&format!("Content-Length: {}", body.len())));
        assert!(body.contains("fathom_watched_seconds_total 3\n") && body.ends_with("# EOF\n"));
        let head = ask(&listener, "HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"));
        assert!(ask(&listener, "GET /etc/passwd HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(ask(&listener, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
        // Nonsense without an end of line, longer than what is read.
        let long = "x".repeat(2 * REQUEST_BYTES_MAX);
        let mut client = TcpStream::connect(listener.address()).expect("connects");
        client.write_all(long.as_bytes()).ok();
        drop(client);
        assert!(ask(&listener, "GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
    }

    #[test]
    fn clients_that_say_nothing_hold_up_nobody() {
        let listener = Listener::start("0").expect("listens");
        let connect = |_| TcpStream::connect(listener.address()).expect("connects");
        let mut silent: Vec<TcpStream> = (1..CLIENTS).map(connect).collect();
        assert!(ask(&listener, "GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
        // None of them was given up before that.
        for client in &mut silent {
            client.set_nonblocking(true).expect("set");
            let error = client.read(&mut [0]).expect_err("nothing to read");
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        }
    }

    #[test]
    fn a_client_that_takes_its_answer_in_drops_is_left() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let mut slow = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        let (mut client, _) = listener.accept().expect("connected");
        let is_over = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let seen = Arc::clone(&is_over);
        let reader = std::thread::spawn(move || {
            let mut drop_of_it = vec![0; 200_000];
            while !seen.load(std::sync::atomic::Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(30));
                if slow.read(&mut drop_of_it).expect("read") == 0 {
                    break;
                }
            }
        });
        // At that pace all of it would take minutes, and no single write is late.
        let page = vec![b'x'; 1 << 30];
        let error =
            write_all(&mut client, &page, Duration::from_millis(300)).expect_err("too slow");
        assert!(
            matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock),
            "{error}"
        );
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        drop(client);
        reader.join().expect("read");
    }

    #[test]
    fn other_machines_are_let_in_only_on_request() {
        for text in ["9184", ":9184", "127.0.0.1:9184", "localhost:9184"] {
            assert_eq!(parse(text), "127.0.0.1:9184".parse().ok(), "{text}");
        }
        assert_eq!(parse("0.0.0.0:80"), "0.0.0.0:80".parse().ok());
        assert_eq!(parse("[::1]:80"), "[::1]:80".parse().ok());
        for text in ["", "x", "1.2.3.4", "99999", "localhost"] {
            assert_eq!(parse(text), None, "{text}");
        }
        let error = Listener::start("nonsense").expect_err("no address");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
