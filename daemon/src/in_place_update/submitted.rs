//! The requests of `berthctl update`: whole objects, each in a file of the agent's state directory until its time is over.
//!
//! ```text
//!   prepare --> keep --> <stateDir>/updates/web-x7k2p.json --> desk
//!                           ^                                   |
//!                           '-------------- report <------------'
//! ```
//!
//! What is on the desk is in its file already: an agent that is killed loses none. A file that cannot be read is told once
//! and left alone.

use std::{
    collections::HashMap,
    ffi::OsStr,
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use berth_policy::{
    RequestId, StepOutcome,
    in_place_update::{UpdateReport, UpdateRequest, UpdateSource},
};
use berth_proto::crd::{ContainerUpdateRequest, ContainerUpdateRequestStatus};
use k8s_openapi::jiff::Timestamp;
use tracing::{info, warn};

use super::{
    asked::{self, Flaw, Named},
    desk::{Desk, Entry},
    report,
};
use crate::{
    causes::chain,
    cluster::clock::Clock,
    desired::{FileError, blocking, directory},
};

/// The end of the names of the files. JSON keeps every text as it is.
const SUFFIX: &str = "json";
/// More than any file has: the annotations that are asked for and those that were there, each character as six at most.
const LONGEST: u64 = 4 << 20;

/// Where they are kept.
#[derive(Debug)]
pub(super) struct Submitted {
    directory: PathBuf,
    /// As their files are. Nothing awaits while the lock is held.
    kept: Mutex<Kept>,
}

#[derive(Debug)]
struct Kept {
    clock: Clock,
    /// Of what is on the desk; grows with every change.
    version: u64,
    objects: HashMap<RequestId, Object>,
}

/// A request that can be kept, and where.
#[derive(Clone, Debug)]
pub(super) struct Object {
    id: RequestId,
    namespace: String,
    name: String,
    created: Timestamp,
    path: PathBuf,
    request: ContainerUpdateRequest,
}

/// Why a request cannot be kept.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unfit {
    /// Its values cannot be.
    #[error(transparent)]
    Flaw(#[from] Flaw),
    /// It has no name, namespace, UID or time.
    #[error("metadata is not that of a request")]
    Nameless,
}

impl Submitted {
    pub(super) fn new(state_dir: &Path) -> Self {
        let kept = Kept { clock: Clock::read(), version: 0, objects: HashMap::new() };
        Self { directory: state_dir.join("updates"), kept: Mutex::new(kept) }
    }

    /// Puts those on the desk that an earlier process kept.
    pub(super) async fn load(&self, desk: &Desk) {
        let directory = self.directory.clone();
        let found = blocking(move || read_all(&directory)).await.unwrap_or_else(|error| {
            warn!(directory = ?self.directory, %error, "Updates of berthctl not read");
            Vec::new()
        });
        let mut kept = self.kept();
        for (path, read) in found {
            let object = read.map_err(|error| error.to_string()).and_then(|request| {
                Object::of(path.clone(), request).ok_or_else(|| Unfit::Nameless.to_string())
            });
            match object {
                Ok(object) => drop(kept.objects.insert(object.id.clone(), object)),
                Err(error) => warn!(file = ?path, error, "File is no update of berthctl, it is left alone"),
            }
        }
        let clock = kept.clock;
        let entries = kept.objects.values().map(|object| object.entry(&clock, 0)).collect();
        drop(kept);
        desk.listed(UpdateSource::Admin, entries);
    }

    /// Looks whether a request can be taken at all.
    pub(super) fn prepare(&self, request: ContainerUpdateRequest) -> Result<Object, Unfit> {
        let name = request.metadata.name.clone().unwrap_or_default();
        let path = self.directory.join(format!("{name}.{SUFFIX}"));
        let object = Object::of(path, request).ok_or(Unfit::Nameless)?;
        object.asked(&self.kept().clock).1?;
        Ok(object)
    }

    /// Takes a request. On return it survives the agent, and is on the desk.
    pub(super) async fn keep(&self, object: Object, desk: &Desk) -> Result<(), FileError> {
        let directory = self.directory.clone();
        // Values of annotations are nobody's business but root's.
        let made = blocking(move || DirBuilder::new().recursive(true).mode(0o700).create(directory)).await;
        made.map_err(|source| FileError::Write { path: self.directory.clone(), source })?;
        object.write().await?;
        info!(request = format!("{}/{}", object.namespace, object.name), file = ?object.path, "Update taken");
        self.show(object, desk);
        Ok(())
    }

    /// Writes what the status of a request is to say, unless it says so.
    pub(super) async fn report(&self, id: &RequestId, report: &UpdateReport, desk: &Desk) -> StepOutcome {
        let Some(mut object) = self.object(id) else { return StepOutcome::Gone };
        let old = object.request.status.take().unwrap_or_default();
        let status = ContainerUpdateRequestStatus {
            node_name: old.node_name.clone(),
            pod_uid: old.pod_uid.clone(),
            ..report::status(report, &old, Timestamp::now())
        };
        if status == old {
            return StepOutcome::Done;
        }
        object.request.status = Some(status);
        match object.write().await {
            Ok(()) => {
                self.show(object, desk);
                StepOutcome::Done
            }
            Err(error) => {
                warn!(error = %chain(&error), "Update of berthctl not reported, trying again");
                StepOutcome::Failed
            }
        }
    }

    /// Removes a request that ended long enough ago.
    pub(super) async fn delete(&self, id: &RequestId, desk: &Desk) -> StepOutcome {
        let Some(object) = self.object(id) else { return StepOutcome::Gone };
        let path = object.path.clone();
        if let Err(error) = blocking(move || directory::remove(&path)).await {
            warn!(file = ?object.path, %error, "Update of berthctl not deleted, trying again");
            return StepOutcome::Failed;
        }
        self.kept().objects.remove(id);
        desk.gone(id);
        info!(file = ?object.path, "Update of berthctl deleted, it ended long enough ago");
        StepOutcome::Done
    }

    /// What is in a file now is what counts.
    fn show(&self, object: Object, desk: &Desk) {
        let mut kept = self.kept();
        kept.version += 1;
        kept.clock = kept.clock.kept(Clock::read());
        let entry = object.entry(&kept.clock, kept.version);
        kept.objects.insert(object.id.clone(), object);
        drop(kept);
        desk.seen(entry);
    }

    fn object(&self, id: &RequestId) -> Option<Object> {
        self.kept().objects.get(id).cloned()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Object {
    /// `None` for one without a name, which nobody has submitted.
    fn of(path: PathBuf, request: ContainerUpdateRequest) -> Option<Self> {
        let metadata = &request.metadata;
        Some(Self {
            id: metadata.uid.as_deref()?.into(),
            namespace: metadata.namespace.clone()?,
            name: metadata.name.clone()?,
            created: metadata.creation_timestamp.as_ref()?.0,
            path,
            request,
        })
    }

    fn asked(&self, clock: &Clock) -> (UpdateRequest, Result<(), Flaw>) {
        let named = Named {
            id: self.id.clone(),
            source: UpdateSource::Admin,
            namespace: &self.namespace,
            name: &self.name,
            created: clock.instant(self.created),
        };
        let status = self.request.status.clone().unwrap_or_default();
        asked::request(named, Ok(&self.request.spec), &status, clock)
    }

    fn entry(&self, clock: &Clock, version: u64) -> Entry {
        let (request, sound) = self.asked(clock);
        Entry { request, flaw: sound.err().map(|flaw| flaw.to_string()), version }
    }

    fn text(&self) -> String {
        // Texts, numbers and times: nothing of it can fail.
        serde_json::to_string_pretty(&self.request).unwrap_or_default() + "\n"
    }

    async fn write(&self) -> Result<(), FileError> {
        let (path, text) = (self.path.clone(), self.text());
        let written = blocking(move || directory::write(&path, &text)).await;
        written.map_err(|source| FileError::Write { path: self.path.clone(), source })
    }
}

/// What a file says.
type Read = io::Result<ContainerUpdateRequest>;

/// All files of a directory. One that is missing has none.
fn read_all(directory: &Path) -> io::Result<Vec<(PathBuf, Read)>> {
    directory::tidy(directory);
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension() == Some(OsStr::new(SUFFIX)) {
            let read = directory::read_up_to(&path, LONGEST);
            let read = read.and_then(|text| serde_json::from_str(&text).map_err(io::Error::from));
            found.push((path, read));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::PermissionsExt, time::Duration};

    use berth_policy::in_place_update::{Reason, UpdateOutcome, UpdatePhase};

    use super::{super::keys::LONGEST_ANNOTATIONS, *};

    const REQUEST: &str = r#"
apiVersion: berth.dev/v1alpha1
kind: ContainerUpdateRequest
metadata: {namespace: shop, name: web-x7k2p, uid: u-1, creationTimestamp: "2026-01-02T03:04:05Z"}
spec:
  podName: web
  containers: [{name: main, image: "web:v2"}]
  metadata: {annotations: {config: " two\nlines\t\u00e9\u0001 # no: comment\n"}}
  ttlSecondsAfterFinished: 60
status: {nodeName: node, podUID: p-1}
"#;

    fn request() -> ContainerUpdateRequest {
        serde_saphyr::from_str(REQUEST).unwrap()
    }

    async fn keep(submitted: &Submitted, desk: &Desk) -> RequestId {
        let object = submitted.prepare(request()).unwrap();
        let id = object.id.clone();
        submitted.keep(object, desk).await.unwrap();
        id
    }

    fn ended() -> UpdateReport {
        UpdateReport {
            phase: Some(UpdatePhase::Ended),
            message: "too late".to_owned(),
            outcome: Some(UpdateOutcome::Failed(Reason::DeadlineExceeded)),
            ..UpdateReport::default()
        }
    }

    #[tokio::test]
    async fn what_was_taken_survives_the_agent() {
        let dir = tempfile::tempdir().unwrap();
        let (submitted, desk) = (Submitted::new(dir.path()), Desk::default());
        submitted.load(&desk).await;
        assert!(desk.has_heard(&[UpdateSource::Admin]) && desk.entries().is_empty());
        let id = keep(&submitted, &desk).await;
        let taken = desk.entry(&id).unwrap();
        assert_eq!((taken.request.key.as_str(), taken.flaw), ("shop/web-x7k2p", None));
        assert_eq!(taken.request.source, UpdateSource::Admin);
        assert_eq!(taken.request.pod.uid.as_str(), "p-1");
        let mode = fs::metadata(dir.path().join("updates")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);

        let (next, anew) = (Submitted::new(dir.path()), Desk::default());
        next.load(&anew).await;
        let loaded = anew.entry(&id).unwrap().request;
        assert_eq!(loaded.metadata, taken.request.metadata, "every character of it");
        assert_eq!((&loaded.images, &loaded.revision), (&taken.request.images, &taken.request.revision));
        assert_eq!(loaded.delete_after, Some(Duration::from_secs(60)));
        assert_eq!(next.object(&id).unwrap().request, request());
    }

    #[tokio::test]
    async fn a_report_is_in_the_file_before_it_is_done() {
        let dir = tempfile::tempdir().unwrap();
        let (submitted, desk) = (Submitted::new(dir.path()), Desk::default());
        let id = keep(&submitted, &desk).await;
        assert_eq!(submitted.report(&id, &ended(), &desk).await, StepOutcome::Done);
        let shown = desk.entry(&id).unwrap().request;
        assert_eq!(shown.reported, ended());
        assert!(shown.ended.is_some());
        let file = dir.path().join("updates/web-x7k2p.json");
        let before = fs::metadata(&file).unwrap().modified().unwrap();
        assert_eq!(submitted.report(&id, &ended(), &desk).await, StepOutcome::Done);
        assert_eq!(fs::metadata(&file).unwrap().modified().unwrap(), before, "it says so already");

        let (next, anew) = (Submitted::new(dir.path()), Desk::default());
        next.load(&anew).await;
        let loaded = anew.entry(&id).unwrap().request;
        assert_eq!((loaded.reported, loaded.ended.is_some()), (ended(), true));
        assert_eq!(loaded.pod.uid.as_str(), "p-1", "what it is about stays");

        assert_eq!(next.delete(&id, &anew).await, StepOutcome::Done);
        assert!(!file.exists() && anew.entry(&id).is_none());
        assert_eq!(next.delete(&id, &anew).await, StepOutcome::Gone);
        assert_eq!(next.report(&id, &ended(), &anew).await, StepOutcome::Gone);
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let id = keep(&Submitted::new(dir.path()), &Desk::default()).await;
        let updates = dir.path().join("updates");
        for (name, text) in [
            ("a.json", "{\"spec\""),
            ("b.json", "{}"),
            ("z.json", "\u{0}"),
            ("note.txt", ""),
            (".berthd-x", ""),
        ] {
            fs::write(updates.join(name), text).unwrap();
        }
        fs::create_dir(updates.join("d.json")).unwrap();
        fs::File::create(updates.join("long.json")).unwrap().set_len(LONGEST + 1).unwrap();
        let (submitted, desk) = (Submitted::new(dir.path()), Desk::default());
        submitted.load(&desk).await;
        assert_eq!(desk.entries().len(), 1);
        assert!(desk.entry(&id).is_some());
        assert!(["a.json", "b.json", "z.json", "note.txt"].iter().all(|name| updates.join(name).exists()));
        assert!(!updates.join(".berthd-x").exists(), "a write that was not finished");
    }

    #[tokio::test]
    async fn what_cannot_be_written_is_not_done() {
        let dir = tempfile::tempdir().unwrap();
        let (submitted, desk) = (Submitted::new(dir.path()), Desk::default());
        let id = keep(&submitted, &desk).await;
        fs::remove_dir_all(dir.path().join("updates")).unwrap();
        assert_eq!(submitted.report(&id, &ended(), &desk).await, StepOutcome::Failed);
        assert_eq!(desk.entry(&id).unwrap().request.reported, UpdateReport::default(), "nobody was told");
        fs::write(dir.path().join("updates"), "a file").unwrap();
        let object = submitted.prepare(request()).unwrap();
        assert!(submitted.keep(object, &desk).await.unwrap_err().to_string().contains("updates"));
    }

    #[test]
    fn what_cannot_be_is_not_taken() {
        let submitted = Submitted::new(Path::new("/nowhere"));
        let refused = |change: &dyn Fn(&mut ContainerUpdateRequest)| {
            let mut request = request();
            change(&mut request);
            submitted.prepare(request).unwrap_err().to_string()
        };
        let twice = refused(&|request| request.spec.containers.push(request.spec.containers[0].clone()));
        assert!(twice.contains("lists main twice"), "{twice}");
        let image = refused(&|request| request.spec.containers[0].image = "No Image".to_owned());
        assert!(image.contains("containers[main].image"), "{image}");
        let nothing = refused(&|request| {
            (request.spec.containers, request.spec.metadata) = (Vec::new(), None);
        });
        assert!(nothing.contains("what is to change"), "{nothing}");
        let long = refused(&|request| {
            let annotations = &mut request.spec.metadata.as_mut().unwrap().annotations;
            annotations.insert("long".to_owned(), "x".repeat(LONGEST_ANNOTATIONS));
        });
        assert!(long.contains("a pod has at most 262144"), "{long}");
        let label = refused(&|request| {
            let labels = &mut request.spec.metadata.as_mut().unwrap().labels;
            labels.insert("track".to_owned(), "not one word".to_owned());
        });
        let keys = |request: &mut ContainerUpdateRequest| {
            let annotations = &mut request.spec.metadata.as_mut().unwrap().annotations;
            annotations.insert("Example.com/Config".to_owned(), "capitals".to_owned());
            annotations.insert("two words".to_owned(), String::new());
        };
        assert!(refused(&keys).contains("metadata.annotations[two words]"), "{}", refused(&keys));
        assert!(label.contains("metadata.labels[track] cannot be set: the value"), "{label}");
        assert!(refused(&|request| request.metadata.uid = None).contains("metadata"));
    }
}
