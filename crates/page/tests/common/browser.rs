//! Drives a headless Chromium through the DevTools protocol over its debugging pipe: JSON messages that end with a zero
//! byte, on file descriptors 3 and 4. No port is opened, and no crate beyond serde_json is needed.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Longest wait for an answer; only a hanging browser takes that long.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    next: u64,
    session: String,
    /// Console errors, exceptions, blocked content and requests since the page was opened.
    pub(crate) complaints: Vec<String>,
    _home: tempfile::TempDir,
}

/// The browser's program, if this machine has one.
fn program() -> Option<PathBuf> {
    let asked = std::env::var_os("ELLWAND_CHROMIUM").map(PathBuf::from);
    let folders: Vec<PathBuf> = std::env::var_os("PATH").iter().flat_map(std::env::split_paths).collect();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let find = |name: &str| folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
    asked.or_else(|| names.into_iter().find_map(find))
}

impl Browser {
    /// Starts the browser; `None`, after printing the reason, if the machine has none.
    pub(crate) fn start(width: u32, height: u32) -> Option<Self> {
        let Some(program) = program() else {
            assert!(std::env::var_os("ELLWAND_REQUIRE").is_none_or(|all| !all.to_string_lossy().contains("chromium")));
            println!("skipped: no Chromium on PATH (Debian: apt-get install chromium) and no ELLWAND_CHROMIUM");
            return None;
        };
        let home = tempfile::tempdir().unwrap();
        // The shell passes its own input and output to the browser as descriptors 3 and 4.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null"])
            .arg(program)
            .args(["--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--hide-scrollbars"])
            .arg(format!("--window-size={width},{height}"))
            .arg(format!("--user-data-dir={}", home.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let to = child.stdin.take().unwrap();
        let mut reader = BufReader::new(child.stdout.take().unwrap());
        let (send, from) = channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while reader.read_until(0, &mut message).is_ok_and(|read| read > 0) {
                message.pop();
                let Ok(value) = serde_json::from_slice(&message) else { break };
                message.clear();
                if send.send(value).is_err() {
                    break;
                }
            }
        });
        let mut browser =
            Self { child, to, from, next: 1, session: String::new(), complaints: Vec::new(), _home: home };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attached = browser.call("Target.attachToTarget", json!({"targetId": target["targetId"], "flatten": true}));
        browser.session = attached["sessionId"].as_str().unwrap().to_string();
        for domain in ["Page", "Runtime", "Log", "Network", "DOM"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser.size(width, height);
        Some(browser)
    }

    pub(crate) fn size(&mut self, width: u32, height: u32) {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", metrics);
    }

    pub(crate) fn theme(&mut self, theme: &str) {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": theme}]});
        self.call("Emulation.setEmulatedMedia", features);
    }

    /// Opens a file and waits until the page reports that it is ready.
    pub(crate) fn open(&mut self, path: &Path, hash: &str) {
        self.call("Page.navigate", json!({"url": "about:blank"}));
        self.complaints.clear();
        self.call("Page.navigate", json!({"url": format!("file://{}{hash}", path.display())}));
        self.wait("document.documentElement?.dataset.ready");
    }

    /// Sends a command and returns its result.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.next;
        self.next += 1;
        let mut message = json!({"id": id, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.from.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(answer) if answer["id"] == json!(id) => {
                    assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                    return answer["result"].clone();
                }
                Ok(event) => self.note(&event),
                Err(RecvTimeoutError::Timeout) => panic!("{method}: no answer from the browser"),
                Err(RecvTimeoutError::Disconnected) => panic!("{method}: the browser ended"),
            }
        }
    }

    fn note(&mut self, event: &Value) {
        let params = &event["params"];
        match event["method"].as_str().unwrap_or("") {
            "Runtime.exceptionThrown" => self.complaints.push(params["exceptionDetails"].to_string()),
            // Plotly warns with console.trace.
            "Runtime.consoleAPICalled" if ["error", "warning", "trace"].iter().any(|one| params["type"] == *one) => {
                self.complaints.push(params["args"].to_string());
            }
            "Log.entryAdded" => self.complaints.push(params["entry"]["text"].to_string()),
            "Network.requestWillBeSent" => {
                let url = params["request"]["url"].as_str().unwrap_or("");
                // Requests other than the page itself; data and blob addresses stay inside the browser.
                if !["file:", "data:", "blob:", "about:"].iter().any(|own| url.starts_with(own)) {
                    self.complaints.push(format!("request: {url}"));
                }
            }
            _ => {}
        }
    }

    /// The value of a JavaScript expression, after awaiting its promise.
    pub(crate) fn eval(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let result = self.call("Runtime.evaluate", params);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {}", result["exceptionDetails"]);
        result["result"]["value"].clone()
    }

    /// The text that an expression gives, with ordinary spaces.
    pub(crate) fn text(&mut self, expression: &str) -> String {
        self.eval(expression).as_str().unwrap_or_default().replace('\u{a0}', " ")
    }

    /// Waits until an expression is truthy.
    pub(crate) fn wait(&mut self, expression: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.eval(&format!("Boolean({expression})")).as_bool().unwrap_or(false) {
            assert!(Instant::now() < deadline, "never true: {expression}\n{:#?}", self.complaints);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Presses, moves and releases the mouse along points of the page.
    pub(crate) fn drag(&mut self, points: &[(f64, f64)], shift: bool) {
        let modifiers = if shift { 8 } else { 0 };
        let mut event = |kind: &str, (x, y): (f64, f64), buttons: u32| {
            let params = json!({"type": kind, "x": x, "y": y, "button": "left", "buttons": buttons,
                "clickCount": 1, "modifiers": modifiers});
            self.call("Input.dispatchMouseEvent", params);
        };
        let (Some(first), Some(last)) = (points.first(), points.last()) else { return };
        event("mouseMoved", *first, 0);
        event("mousePressed", *first, 1);
        points.iter().for_each(|point| event("mouseMoved", *point, 1));
        event("mouseReleased", *last, 0);
    }

    /// Clicks the middle of the element that a selector finds.
    pub(crate) fn click(&mut self, selector: &str) {
        let (x, y) = self.middle(selector);
        self.drag(&[(x, y)], false);
    }

    /// The middle of an element, scrolled into view.
    pub(crate) fn middle(&mut self, selector: &str) -> (f64, f64) {
        let rect = self.rect(selector);
        (rect.0 + rect.2 / 2.0, rect.1 + rect.3 / 2.0)
    }

    /// Left, top, width and height of an element in the window, scrolled into view, after pending drawing has settled.
    pub(crate) fn rect(&mut self, selector: &str) -> (f64, f64, f64, f64) {
        let quoted = json!(selector);
        let rect = self.eval(&format!(
            "(async () => {{ await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done))); \
             const e = document.querySelector({quoted}); if (!e) return null; e.scrollIntoView({{block: 'center'}}); \
             const r = e.getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; }})()"
        ));
        let at = |index: usize| rect[index].as_f64().unwrap_or_else(|| panic!("nothing matches {selector}"));
        (at(0), at(1), at(2), at(3))
    }

    pub(crate) fn key(&mut self, key: &str) {
        let mut press = json!({"type": "keyDown", "key": key});
        if key.len() == 1 {
            press["text"] = json!(key);
        }
        self.call("Input.dispatchKeyEvent", press);
        self.call("Input.dispatchKeyEvent", json!({"type": "keyUp", "key": key}));
    }

    pub(crate) fn type_text(&mut self, text: &str) {
        self.call("Input.insertText", json!({"text": text}));
    }

    /// Gives a file to a file input, as the picker would.
    pub(crate) fn pick(&mut self, selector: &str, file: &Path) {
        let root = self.call("DOM.getDocument", json!({}));
        let node = self.call("DOM.querySelector", json!({"nodeId": root["root"]["nodeId"], "selector": selector}));
        self.call("DOM.setFileInputFiles", json!({"nodeId": node["nodeId"], "files": [file]}));
    }

    /// Drags a file from outside over the middle of the window; the browser turns this into events of the page.
    pub(crate) fn drag_file(&mut self, file: &Path, events: &[&str]) {
        let data = json!({"items": [], "files": [file], "dragOperationsMask": 1});
        for event in events {
            let params = json!({"type": event, "x": 400, "y": 300, "data": data});
            self.call("Input.dispatchDragEvent", params);
        }
    }

    /// A picture of the whole page.
    pub(crate) fn screenshot(&mut self, path: &Path) {
        let metrics = self.call("Page.getLayoutMetrics", json!({}));
        let size = &metrics["cssContentSize"];
        let clip = json!({"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1});
        let shot = self.call("Page.captureScreenshot", json!({"clip": clip, "captureBeyondViewport": true}));
        use base64::Engine;
        let data = shot["data"].as_str().unwrap();
        std::fs::write(path, base64::engine::general_purpose::STANDARD.decode(data).unwrap()).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
