//! A shim and its agents, over a real socket: what the tests of the line play on.

use super::*;

/// Time for what happens at once, on a machine with other work to do.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// An authority that lets pass whom it has on its list, and writes down what it hears.
pub(super) struct Authority {
    pub(super) open: Mutex<Vec<&'static str>>,
    /// The number that it was told of last.
    pub(super) told: Mutex<Option<u64>>,
    changes: watch::Sender<u64>,
    table: Mutex<InAdvance>,
    foretold: watch::Sender<u64>,
    pub(super) traces: AtomicBool,
    /// It cannot say what it knows in advance.
    pub(super) fails: AtomicBool,
    heard: mpsc::UnboundedSender<String>,
}

impl Authority {
    pub(super) fn new() -> (Arc<Self>, mpsc::UnboundedReceiver<String>) {
        let (heard, hears) = mpsc::unbounded_channel();
        let new = Self {
            open: Mutex::default(),
            told: Mutex::default(),
            changes: watch::Sender::new(0),
            table: Mutex::default(),
            foretold: watch::Sender::new(0),
            traces: AtomicBool::new(false),
            fails: AtomicBool::new(false),
            heard,
        };
        (Arc::new(new), hears)
    }

    pub(super) fn open(&self, container: &'static str) {
        locked(&self.open).push(container);
        self.changes.send_modify(|changes| *changes += 1);
    }

    pub(super) fn foretell(&self, change: impl FnOnce(&mut InAdvance)) {
        change(&mut locked(&self.table));
        self.foretold.send_modify(|foretold| *foretold += 1);
    }

    fn hear_of(&self, trace: Option<TraceParent>) {
        if let Some(trace) = trace {
            self.hear(format!("trace {trace}"));
        }
    }

    fn hear(&self, word: String) {
        let _ = self.heard.send(word);
    }
}

impl Gate for Authority {
    fn admit(&self, call: &Call) -> Verdict {
        let name = named(&call.request);
        assert_ne!(name, "panics", "as the policy would");
        let open = locked(&self.open).contains(&name);
        self.hear(format!("admit {name} {}", if open { "open" } else { "closed" }));
        match (&call.request, open) {
            (Request::CreateContainer(_), true) => Verdict::Latch(Latch { sandbox: "s".into(), priority: 1 }),
            (Request::StopContainer(_), true) => {
                Verdict::Amend(Amendment::StopTimeout(Duration::from_secs(3)))
            }
            (_, false) => Verdict::Hold {
                until: std::time::Instant::now() + Duration::from_secs(60),
                why: HoldReason::NotReady(vec!["higher".into()]),
            },
        }
    }

    fn traces(&self) -> bool {
        self.traces.load(Ordering::Relaxed)
    }

    fn decide<'a>(&'a self, call: &'a Call, holds: &'a dyn Holds) -> BoxFuture<'a, Decision> {
        self.hear_of(holds.trace());
        Box::pin(async move {
            if named(&call.request) == "panics later" {
                sleep(Duration::from_millis(1)).await;
                panic!("as the policy would");
            }
            decide_by_asking(self, call, holds).await
        })
    }

    fn passed(&self, call: &Call) {
        self.hear(format!("passed {}", named(&call.request)));
    }

    fn observe(&self, event: Event) {
        self.hear(format!("{event:?}"));
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn persist(&self, latch: Latch) -> BoxFuture<'_, ()> {
        Box::pin(async move { self.hear(format!("persist {}", latch.priority)) })
    }

    fn answer<'a>(&'a self, query: Query<'a>) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            match query {
                Query::Status { .. } => Answer::Shown(Showing::OtherDefinition),
                Query::Hook { .. } => Answer::Done,
                Query::Relist(call) => {
                    self.hear(format!("relist {}", call.0));
                    Answer::Nudged(Vec::new())
                }
                Query::Pull { image, trace, .. } => {
                    self.hear_of(trace);
                    Answer::Pulled(format!("sha256:{image}"))
                }
                Query::Create(_) => Answer::Pass,
            }
        })
    }
}

impl Foresight for Authority {
    fn changes(&self) -> watch::Receiver<u64> {
        self.foretold.subscribe()
    }

    fn foretold(&self) -> u64 {
        *self.foretold.borrow()
    }

    fn in_advance(&self) -> Option<InAdvance> {
        (!self.fails.load(Ordering::Relaxed)).then(|| locked(&self.table).clone())
    }

    fn told(&self, foretold: Option<u64>) {
        *locked(&self.told) = foretold;
    }
}

/// The name of the container that a call is about.
pub(super) fn named(request: &Request) -> &str {
    match request {
        Request::CreateContainer(create) => create.container.as_str(),
        Request::StopContainer(stop) => stop.container.as_str(),
    }
}

/// A shim that waits for agents.
pub(super) struct Bed {
    pub(super) gate: Arc<RemoteGate>,
    pub(super) socket: PathBuf,
    pub(super) _dir: tempfile::TempDir,
}

/// An agent; dropped, it is killed.
pub(super) struct Agent {
    pub(super) authority: Arc<Authority>,
    pub(super) hears: mpsc::UnboundedReceiver<String>,
    pub(super) task: JoinHandle<()>,
}

impl Bed {
    pub(super) async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("shim.sock");
        let gate = RemoteGate::new(Metrics::default());
        let runtime = RuntimeEndpoint::from(dir.path().join("runtime.sock"));
        let listener = bind(&socket, &runtime).await.unwrap();
        tokio::spawn(Line::new(listener).serve(gate.clone(), LineEnds::default()));
        Self { gate, socket, _dir: dir }
    }

    /// A new agent, which lists its runtime and says all that it knows.
    pub(super) async fn agent(&self) -> Agent {
        let (authority, hears) = Authority::new();
        self.agent_of(authority, hears).await
    }

    pub(super) async fn agent_of(
        &self,
        authority: Arc<Authority>,
        hears: mpsc::UnboundedReceiver<String>,
    ) -> Agent {
        let resynced = authority.clone();
        let resync = Arc::new(move || -> BoxFuture<'static, ()> {
            let resynced = resynced.clone();
            Box::pin(async move { resynced.hear("resync".to_owned()) })
        });
        let link = AgentLink::new(authority.clone(), authority.clone(), resync, Metrics::default());
        let (mut linked, socket) = (link.linked(), self.socket.clone());
        let task = tokio::spawn(async move { link.run(&socket, CancellationToken::new()).await });
        linked.wait_for(|linked| *linked).await.unwrap();
        self.until(true).await;
        Agent { authority, hears, task }
    }

    pub(super) async fn until(&self, here: bool) {
        let turned = async {
            while self.gate.has_agent() != here {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(PATIENCE, turned).await.expect("the agent comes or goes");
    }

    pub(super) fn decide(&self, call: Call) -> (JoinHandle<Decision>, mpsc::UnboundedReceiver<String>) {
        let gate = self.gate.clone();
        let (told, held) = mpsc::unbounded_channel();
        let decision = tokio::spawn(async move {
            let holds = Told(told, trace().filter(|_| gate.traces()));
            gate.decide(&call, &holds).await
        });
        (decision, held)
    }
}

impl Agent {
    /// Goes on when it hears this; what it hears before counts as heard.
    pub(super) async fn hears(&mut self, word: &str) {
        let heard = async {
            while let Some(heard) = self.hears.recv().await {
                if heard == word {
                    return;
                }
            }
            panic!("the agent is gone");
        };
        timeout(PATIENCE, heard).await.unwrap_or_else(|_| panic!("not heard: {word}"));
    }

    /// All that it has heard so far.
    pub(super) fn heard(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.hears.try_recv().ok()).collect()
    }

    pub(super) async fn kill(self, bed: &Bed) {
        self.task.abort();
        bed.until(false).await;
    }
}

pub(super) struct Told(pub(super) mpsc::UnboundedSender<String>, pub(super) Option<TraceParent>);

impl Holds for Told {
    fn trace(&self) -> Option<TraceParent> {
        self.1
    }

    fn held(&self, why: &HoldReason) {
        let _ = self.0.send(why.label().to_owned());
    }
}

pub(super) fn call(id: u64, request: Request) -> Call {
    let arrived = Instant::now().into_std();
    Call { id: CallId(id), connection: ConnectionId(1), arrived, deadline: None, request }
}

pub(super) fn create(container: &'static str) -> Request {
    Request::CreateContainer(CreateContainer {
        sandbox: "s".into(),
        pod: PodRef { uid: "u".into(), namespace: "ns".to_owned(), name: "pod".to_owned() },
        container: container.into(),
        attempt: 0,
        declared: Declared::default(),
        images: vec!["image".to_owned()],
    })
}

pub(super) fn stop(container: &'static str) -> Request {
    Request::StopContainer(StopContainer { container: container.into(), timeout: Duration::from_secs(30) })
}

pub(super) fn trace() -> Option<TraceParent> {
    TraceParent::parse(b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
}

pub(super) const PASS: Decision = Decision::Pass(None);
