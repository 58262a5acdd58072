//! A headless Chromium that is asked over a pipe what it made of a page.

use fathom_testkit::Scratch;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Slow machines need seconds to start a browser.
const LIMIT: Duration = Duration::from_secs(60);

/// One window with one page.
pub struct Browser {
    child: Child,
    commands: ChildStdin,
    answers: Receiver<Value>,
    /// What it told without being asked.
    pub events: Vec<Value>,
    session: Option<String>,
    last_id: u64,
    /// Where it keeps its profile, and puts what is downloaded.
    pub scratch: Scratch,
}

impl Browser {
    /// Starts one. Whatever asks the network ends at a port where nobody listens.
    pub fn start() -> Self {
        let scratch = Scratch::new().unwrap();
        // It reads from descriptor 3 and writes to 4; everything else that it says is of no use.
        let script = r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#;
        let mut child = Command::new("sh")
            .args(["-c", script, "chromium", "--headless=new", "--no-sandbox", "--disable-gpu"])
            .args(["--remote-debugging-pipe", "--no-first-run", "--proxy-server=127.0.0.1:9"])
            .arg(format!("--user-data-dir={}", scratch.join("profile").display()))
            .arg("about:blank")
            .env("HOME", scratch.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let commands = child.stdin.take().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while said.read_until(0, &mut message).is_ok_and(|bytes| bytes > 0) {
                message.pop();
                let Ok(value) = serde_json::from_slice(&message) else { break };
                if sender.send(value).is_err() {
                    break;
                }
                message.clear();
            }
        });
        let (events, session, last_id) = (Vec::new(), None, 0);
        let mut browser = Self { child, commands, answers, events, session, last_id, scratch };
        let pages = browser.ask("Target.getTargets", json!({}));
        let pages = pages["targetInfos"].as_array().unwrap();
        let page = pages.iter().find(|target| target["type"] == "page").expect("a page");
        let asked = json!({"targetId": page["targetId"], "flatten": true});
        let attached = browser.ask("Target.attachToTarget", asked);
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Network", "Log"] {
            browser.ask(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Asks and waits for the answer.
    #[track_caller]
    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let mut message = json!({"id": self.last_id, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = session.clone().into();
        }
        let text = message.to_string() + "\0";
        self.commands.write_all(text.as_bytes()).expect("the browser listens");
        loop {
            let said = self.answers.recv_timeout(LIMIT).expect("the browser answers");
            if said["id"] == self.last_id {
                assert!(said["error"].is_null(), "{method}: {said}");
                return said["result"].clone();
            }
            self.events.push(said);
        }
    }

    /// What an expression on the page comes to.
    #[track_caller]
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "returnByValue": true});
        let done = self.ask("Runtime.evaluate", asked);
        assert!(done["exceptionDetails"].is_null(), "{expression}: {done}");
        done["result"]["value"].clone()
    }

    /// Shows a file in a window that is so wide, in light or dark, and waits until all charts are drawn.
    #[track_caller]
    pub fn show(&mut self, file: &Path, width: u32, scheme: &str) {
        self.look(width, scheme);
        self.ask("Page.navigate", json!({"url": format!("file://{}", file.display())}));
        let undrawn = "document.readyState === 'complete' && document.querySelector('footer') \
                       ? document.querySelectorAll('figure.chart:not(.drawn)').length : -1";
        let began = Instant::now();
        while self.evaluate(undrawn) != 0 {
            assert!(began.elapsed() < LIMIT, "not drawn: {:?}", self.complaints());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The window's width and the reader's taste.
    pub fn look(&mut self, width: u32, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.ask("Emulation.setEmulatedMedia", json!({"features": features}));
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.ask("Emulation.setDeviceMetricsOverride", size);
    }

    /// Waits until a window of another width or taste is painted.
    pub fn settled(&mut self) {
        let frames = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 0))))";
        self.ask("Runtime.evaluate", json!({"expression": frames, "awaitPromise": true}));
    }

    /// What it put on its console: errors of scripts, what the page's policy forbade, what could not be loaded.
    pub fn complaints(&self) -> Vec<&Value> {
        let is_complaint = |event: &&Value| {
            let method = event["method"].as_str().unwrap_or_default();
            ["Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"]
                .contains(&method)
        };
        self.events.iter().filter(is_complaint).collect()
    }

    /// What it asked for, anywhere.
    pub fn requests(&self) -> Vec<&str> {
        let sent = self.events.iter().filter(|e| e["method"] == "Network.requestWillBeSent");
        sent.map(|event| event["params"]["request"]["url"].as_str().unwrap_or_default()).collect()
    }
}

impl Drop for Browser {
    /// Ends it with its helpers, which would go on writing into the profile for a while.
    fn drop(&mut self) {
        let group = format!("-{}", self.child.id());
        let send = |signal: &str| {
            let mut kill = Command::new("kill");
            kill.args([signal, "--", &group]).stderr(Stdio::null());
            kill.status().is_ok_and(|status| status.success())
        };
        send("-KILL");
        drop(self.child.wait());
        let began = Instant::now();
        while send("-KILL") && began.elapsed() < LIMIT {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
