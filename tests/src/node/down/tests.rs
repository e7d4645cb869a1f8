use super::*;

/// Checks that nobody makes a run that is being removed a run again, which its remover could not remove then.
#[test]
fn a_run_without_an_owner_is_left_to_its_remover() {
    let dir = tempfile::tempdir().unwrap();
    assert!(lock(dir.path()).unwrap().is_none());
    assert!(!dir.path().join(OWNER).exists(), "it has an owner again");
    fs::write(dir.path().join(OWNER), "").unwrap();
    let owner = lock(dir.path()).unwrap();
    assert!(owner.is_some(), "a leftover");
    assert!(lock(dir.path()).unwrap().is_none(), "its owner is alive");
    drop(owner);
    assert!(lock(dir.path()).unwrap().is_some(), "a leftover again");
}

#[test]
fn a_folder_goes_when_the_last_has_written_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("7");
    fs::create_dir_all(run.join("cni-addresses")).unwrap();
    fs::write(run.join(OWNER), "").unwrap();
    let written = run.clone();
    let until = Instant::now() + Duration::from_millis(200);
    let writer = std::thread::spawn(move || {
        while Instant::now() < until {
            // Either fails once the folder is gone.
            let _ = fs::create_dir(written.join("late"));
            let _ = fs::write(written.join("late/file"), "");
        }
    });
    remove_folder(&run).unwrap();
    assert!(!run.exists());
    writer.join().unwrap();
    assert!(!run.exists());
    remove_folder(&run).unwrap();
}
