//! The help of every command is the committed one: a flag that goes or gets another name is seen.

use std::{fs, path::Path};

#[test]
fn help_is_the_committed_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/help.txt");
    let now = kubectl_berth::help();
    if std::env::var_os("BERTH_WRITE_HELP").is_some() {
        fs::write(&path, &now).expect("the file is written");
    }
    let committed = fs::read_to_string(&path).expect("the file is there");
    assert!(committed == now, "{} is old: run this test with BERTH_WRITE_HELP=1\n{now}", path.display());
}
