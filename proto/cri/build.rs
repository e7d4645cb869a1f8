//! Compiles the messages of `cri.proto`; its services, which need tonic, are made in `berth-proto`.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let file = "cri.proto";
    println!("cargo:rerun-if-changed={file}");
    let descriptors = protox::compile([file], ["."])?;
    tonic_prost_build::configure().build_client(false).build_server(false).compile_fds(descriptors)?;
    Ok(())
}
