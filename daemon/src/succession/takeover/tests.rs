//! Every state of the names, made of real sockets: each way through them, and each interruption on it.

use std::{
    fs,
    os::unix::{fs::PermissionsExt, net::UnixListener},
    path::Path,
    time::{Duration, Instant},
};

use nix::fcntl::{Flock, FlockArg};

use super::{
    Paths, bypass,
    decide::{FORSAKEN, Seen, Shown, Step, Verdict, View, Vigil, to_leave, to_restore, to_take},
    look::{FileId, OwnSocket, answers, look},
    steps::{walk, walk_at_most},
};

const ALL: [Shown; 5] = [Shown::Nothing, Shown::Ours, Shown::Runtime, Shown::Dead, Shown::Other];
/// More changes than any way has.
const CHANGES: usize = 8;

/// A directory in a state, with a berthd and a runtime that listen.
struct Scene {
    dir: tempfile::TempDir,
    paths: Paths,
    own: OwnSocket,
    berthd: Option<UnixListener>,
    _runtime: UnixListener,
}

impl Scene {
    fn new(view: View) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let paths = Paths::of(&at("r")).unwrap();
        let runtime = UnixListener::bind(at("runtime")).unwrap();
        fs::set_permissions(at("runtime"), fs::Permissions::from_mode(0o660)).unwrap();
        drop(UnixListener::bind(at("dead")).unwrap());
        fs::write(at("other"), "precious").unwrap();
        let berthd = UnixListener::bind(paths.own()).unwrap();
        let places =
            [(view.front, paths.front().to_owned()), (view.aside, paths.aside()), (view.next, paths.next())];
        for (shown, place) in places {
            let source = match shown {
                Shown::Nothing => continue,
                Shown::Ours => paths.own(),
                Shown::Runtime => at("runtime"),
                Shown::Dead => at("dead"),
                Shown::Other => at("other"),
            };
            fs::hard_link(source, place).unwrap();
        }
        let own = OwnSocket::Held(FileId::of(&paths.own()).unwrap().unwrap());
        Self { dir, paths, own, berthd: Some(berthd), _runtime: runtime }
    }

    fn look(&self) -> View {
        look(&self.paths, self.own).unwrap()
    }

    /// Berthd dies, and the guardian finds that it has waited long enough.
    fn die(&mut self) {
        self.berthd = None;
        // A process that another test is just starting has the listener, too, until it runs its own program.
        let until = Instant::now() + Duration::from_secs(10);
        while answers(&self.paths.own()).unwrap() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        walk(&self.paths, OwnSocket::Named, to_restore).unwrap();
    }

    fn is_runtime(&self, path: &Path) -> bool {
        FileId::of(path).unwrap() == FileId::of(&self.dir.path().join("runtime")).unwrap()
    }
}

fn views() -> impl Iterator<Item = View> {
    ALL.into_iter().flat_map(|front| {
        ALL.into_iter().flat_map(move |aside| ALL.into_iter().map(move |next| View { front, aside, next }))
    })
}

fn shows(view: View, shown: Shown) -> bool {
    [view.front, view.aside, view.next].contains(&shown)
}

#[test]
fn a_scene_shows_what_it_was_made_of() {
    for view in views() {
        assert_eq!(Scene::new(view).look(), view);
    }
}

#[test]
fn the_place_is_taken_from_every_state_in_which_there_is_a_runtime() {
    for view in views() {
        let scene = Scene::new(view);
        let end = walk(&scene.paths, scene.own, to_take).unwrap();
        let after = scene.look();
        let expected = if shows(view, Shown::Other) {
            Step::Refuse
        } else if shows(view, Shown::Runtime) || view.front == Shown::Ours {
            Step::Stay
        } else {
            Step::Await
        };
        assert_eq!(end, expected, "{view:?} became {after:?}");
        match end {
            Step::Stay if shows(view, Shown::Runtime) => {
                let taken = View { front: Shown::Ours, aside: Shown::Runtime, next: Shown::Nothing };
                assert_eq!(after, taken, "{view:?}");
                if view.front != Shown::Ours {
                    let mode = fs::metadata(scene.paths.front()).unwrap().permissions().mode();
                    assert_eq!(mode & 0o777, 0o660, "{view:?}: whoever may dial the runtime may dial berthd");
                }
            }
            // A runtime that is about to bind its path must find it as it left it.
            _ => assert_eq!(after.front, view.front, "{view:?}"),
        }
    }
}

#[test]
fn the_place_is_left_to_the_runtime() {
    for view in views().filter(|view| !shows(*view, Shown::Other)) {
        let scene = Scene::new(view);
        assert_eq!(walk(&scene.paths, scene.own, to_leave).unwrap(), Step::Stay, "{view:?}");
        let expected = match view.front {
            Shown::Ours if shows(view, Shown::Runtime) => Shown::Runtime,
            Shown::Ours if view.aside == Shown::Dead => Shown::Dead,
            Shown::Ours => Shown::Nothing,
            other => other,
        };
        assert_eq!(scene.look().front, expected, "{view:?}");
        assert_eq!(scene.look().next, Shown::Nothing, "{view:?}");
    }
}

#[test]
fn what_is_no_socket_is_never_touched() {
    for view in views() {
        for rule in [to_take, to_leave, to_restore] {
            let mut scene = Scene::new(view);
            walk(&scene.paths, scene.own, rule).unwrap();
            scene.die();
            let after = scene.look();
            for (before, after) in
                [(view.front, after.front), (view.aside, after.aside), (view.next, after.next)]
            {
                assert_eq!(before == Shown::Other, after == Shown::Other, "{view:?}");
            }
        }
    }
}

/// The heart of it: whatever was going on, after a death the runtime answers at its path, and the path was
/// there all the time.
#[test]
fn after_every_interruption_the_guardian_puts_the_runtime_back() {
    let mut interrupted = 0;
    for view in views().filter(|view| !shows(*view, Shown::Other) && shows(*view, Shown::Runtime)) {
        for rule in [to_take, to_leave] {
            for changes in 0..CHANGES {
                let mut scene = Scene::new(view);
                walk_at_most(changes, &scene.paths, scene.own, rule).unwrap();
                let between = scene.look();
                assert!(
                    view.front == Shown::Nothing || between.front != Shown::Nothing,
                    "{view:?} {changes}"
                );
                interrupted += usize::from(shows(between, Shown::Ours));
                scene.die();
                assert!(
                    scene.is_runtime(scene.paths.front()),
                    "{view:?}, {changes} changes: {:?}",
                    scene.look()
                );
            }
        }
    }
    assert!(interrupted > 100, "{interrupted}");
}

#[test]
fn a_runtime_that_binds_its_path_anew_is_put_aside_again() {
    let scene = Scene::new(View { front: Shown::Ours, aside: Shown::Runtime, next: Shown::Nothing });
    fs::remove_file(scene.paths.front()).unwrap();
    let anew = UnixListener::bind(scene.paths.front()).unwrap();
    let id = FileId::of(scene.paths.front()).unwrap();
    assert_eq!(walk(&scene.paths, scene.own, to_take).unwrap(), Step::Stay);
    assert_eq!(FileId::of(&scene.paths.aside()).unwrap(), id);
    drop(anew);
    assert_eq!(scene.look(), View { front: Shown::Ours, aside: Shown::Dead, next: Shown::Nothing });
}

#[test]
fn a_berthd_whose_own_name_is_gone_does_not_take() {
    let scene = Scene::new(View { front: Shown::Runtime, aside: Shown::Nothing, next: Shown::Nothing });
    fs::remove_file(scene.paths.own()).unwrap();
    assert!(walk(&scene.paths, scene.own, to_take).is_err());
    assert!(scene.is_runtime(scene.paths.front()));
}

/// Anybody who may open the directory of the sockets may lock it, and hold it for ever.
#[test]
fn a_lock_of_somebody_else_holds_up_nothing() {
    let scene = Scene::new(View { front: Shown::Runtime, aside: Shown::Nothing, next: Shown::Nothing });
    let directory = fs::File::open(scene.dir.path()).unwrap();
    let _held = Flock::lock(directory, FlockArg::LockExclusiveNonblock).unwrap();
    assert_eq!(walk(&scene.paths, scene.own, to_take).unwrap(), Step::Stay);
    let mode = fs::metadata(scene.paths.locks()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "only its owner may enter it");
}

#[test]
fn a_directory_of_locks_that_others_may_enter_is_refused() {
    let scene = Scene::new(View { front: Shown::Runtime, aside: Shown::Nothing, next: Shown::Nothing });
    let locks = scene.paths.locks();
    let refused = || walk(&scene.paths, scene.own, to_take).unwrap_err().to_string();
    fs::create_dir(&locks).unwrap();
    fs::set_permissions(&locks, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(refused().contains("mode 0700: remove it"), "{}", refused());
    fs::remove_dir(&locks).unwrap();
    std::os::unix::fs::symlink(scene.dir.path(), &locks).unwrap();
    assert!(refused().contains("mode 0700: remove it"), "{}", refused());
    assert!(scene.is_runtime(scene.paths.front()));
}

#[test]
fn a_backlog_that_is_full_is_an_answer() {
    use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket};
    use std::os::{fd::AsRawFd, unix::net::UnixStream};
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let stuck = socket(AddressFamily::Unix, SockType::Stream, SockFlag::empty(), None).unwrap();
    bind(stuck.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
    assert!(!answers(&path).unwrap(), "nobody listens yet");
    listen(&stuck, Backlog::new(0).unwrap()).unwrap();
    let _waits = UnixStream::connect(&path).unwrap();
    assert!(answers(&path).unwrap());
    drop(stuck);
    assert!(!answers(&path).unwrap());
    assert!(!answers(&dir.path().join("nothing")).unwrap());
}

#[test]
fn the_guardian_waits_and_ends_when_there_is_nothing_to_guard() {
    use Shown::{Dead, Nothing, Ours, Runtime};
    use Verdict::{End, Restore, Watch};
    let begin = Instant::now();
    /// At so many milliseconds, what is at the path and beside it, whether berthd's own name is there, and
    /// the answer.
    type Row = (u64, Shown, Shown, bool, Verdict);
    let table: &[(&str, &[Row])] = &[
        (
            "berthd is gone",
            &[
                (0, Ours, Runtime, true, Watch),
                (500, Dead, Runtime, true, Watch),
                (2500, Dead, Runtime, true, Watch),
                (2501, Dead, Runtime, true, Restore),
                (3000, Runtime, Nothing, true, Watch),
                (60_000, Runtime, Nothing, true, Watch),
            ],
        ),
        (
            "berthd comes back in time",
            &[
                (0, Dead, Runtime, true, Watch),
                (1900, Ours, Runtime, true, Watch),
                (2100, Dead, Runtime, true, Watch),
                (4000, Dead, Runtime, true, Watch),
                (4101, Dead, Runtime, true, Restore),
            ],
        ),
        (
            "the runtime is down too, and comes back at its path",
            &[
                (0, Dead, Dead, true, Watch),
                (9000, Nothing, Dead, true, Watch),
                (9500, Runtime, Dead, true, Watch),
            ],
        ),
        (
            "somebody removed the path",
            &[(0, Nothing, Runtime, true, Watch), (2001, Nothing, Runtime, true, Restore)],
        ),
        (
            "the place was left on purpose",
            &[
                (0, Runtime, Runtime, false, Watch),
                (2000, Runtime, Nothing, false, Watch),
                (2001, Runtime, Nothing, false, End),
            ],
        ),
        (
            "berthd binds its own name anew",
            &[
                (0, Dead, Runtime, false, Watch),
                (500, Ours, Runtime, true, Watch),
                (9000, Ours, Runtime, true, Watch),
            ],
        ),
        (
            "the own name is gone, and so is berthd: first the work, then the end",
            &[
                (0, Dead, Runtime, false, Watch),
                (2001, Dead, Runtime, false, Restore),
                (2500, Runtime, Runtime, false, End),
            ],
        ),
    ];
    for (name, seen) in table {
        let mut vigil = Vigil::default();
        for (at, front, aside, own, expected) in *seen {
            let view = View { front: *front, aside: *aside, next: Nothing };
            let deserted = view.is_deserted();
            let seen = Seen { deserted, own: *own, forsaken: false, bypassed: false, draining: false };
            let verdict = vigil.see(seen, begin + Duration::from_millis(*at));
            assert_eq!(verdict, *expected, "{name}, at {at} ms");
        }
    }
}

#[test]
fn the_guardian_gives_the_place_of_a_shim_back() {
    use Verdict::{End, Leave, Restore, Watch};
    let begin = Instant::now();
    let long = u64::try_from(FORSAKEN.as_millis()).unwrap();
    let seen = |states: &str| Seen {
        deserted: states.contains('d'),
        own: !states.contains('-'),
        forsaken: states.contains('f'),
        bypassed: states.contains('b'),
        draining: states.contains('c'),
    };
    /// At so many milliseconds: `d`eserted, `f`orsaken, `b`ypassed, open `c`alls of a shim that ends, `-`
    /// without berthd's own name; the answer.
    type Row = (u64, &'static str, Verdict);
    let table: &[(&str, &[Row])] = &[
        ("somebody wishes it", &[(0, "", Watch), (500, "b", Leave), (1000, "b-", Watch), (3001, "b-", End)]),
        (
            "no berthd comes",
            &[(0, "f", Watch), (long, "f", Watch), (long + 1, "f", Leave), (long + 2, "-", Watch)],
        ),
        (
            "a berthd comes in between",
            &[(0, "f", Watch), (long - 1, "", Watch), (long, "f", Watch), (2 * long, "f", Watch)],
        ),
        ("the shim dies meanwhile", &[(0, "f", Watch), (500, "df", Watch), (2501, "df", Restore)]),
        ("calls go on", &[(0, "b", Leave), (500, "bc-", Watch), (9000, "bc-", Watch), (9500, "b-", End)]),
        ("a berthd comes meanwhile, and dies", &[(0, "bc", Leave), (9, "cd", Watch), (2010, "cd", Restore)]),
        ("a place that is lost comes first", &[(0, "db", Leave), (2001, "db", Restore)]),
    ];
    for (name, rows) in table {
        let mut vigil = Vigil::default();
        for (at, states, expected) in *rows {
            let verdict = vigil.see(seen(states), begin + Duration::from_millis(*at));
            assert_eq!(verdict, *expected, "{name}, at {at} ms");
        }
    }
}

/// A shim listens in the place, and not the one who looks at the names.
#[test]
fn the_place_of_a_shim_is_left_by_who_only_knows_its_name() {
    for view in views().filter(|view| !shows(*view, Shown::Other)) {
        let scene = Scene::new(view);
        assert_eq!(walk(&scene.paths, OwnSocket::Named, to_leave).unwrap(), Step::Stay, "{view:?}");
        let after = scene.look();
        assert!(after.front != Shown::Ours && after.next == Shown::Nothing, "{view:?}: {after:?}");
        assert_eq!(after.front == Shown::Runtime, scene.is_runtime(scene.paths.front()), "{view:?}");
        if shows(view, Shown::Runtime) && view.front == Shown::Ours {
            assert!(scene.is_runtime(scene.paths.front()), "{view:?}: {after:?}");
        }
    }
}

#[test]
fn a_wish_to_go_past_the_shim_is_seen_and_taken_back() {
    let scene = Scene::new(View { front: Shown::Ours, aside: Shown::Runtime, next: Shown::Nothing });
    let paths = &scene.paths;
    assert!(bypass::is_taken(paths).unwrap() && !bypass::wanted(paths) && !bypass::undo(paths).unwrap());
    bypass::want(paths).unwrap();
    bypass::want(paths).unwrap();
    assert!(bypass::wanted(paths));
    walk(paths, OwnSocket::Named, to_leave).unwrap();
    assert!(!bypass::is_taken(paths).unwrap());
    assert!(bypass::undo(paths).unwrap() && !bypass::wanted(paths));
}

#[test]
fn the_names_beside_a_path_have_to_fit() {
    let path = format!("/{}", "r".repeat(98));
    assert!(Paths::of(Path::new(&path)).is_ok());
    let error = Paths::of(Path::new(&format!("{path}r"))).unwrap_err().to_string();
    assert!(error.contains("at most 99 bytes"), "{error}");
}
