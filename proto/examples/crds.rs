//! Writes the definitions of `deploy` anew from the types: `cargo run -p berth-proto --example crds`.

use std::{error::Error, fs, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy");
    for (file, document) in berth_proto::crd::documents() {
        let text = serde_saphyr::to_string(&document)?;
        fs::write(dir.join(file), format!("# Generated from the types in proto/src/crd.\n{text}"))?;
    }
    Ok(())
}
