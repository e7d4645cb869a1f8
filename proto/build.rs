//! Compiles the `.proto` files here with a compiler written in Rust, so that no `protoc` is needed. Of the
//! CRI it makes the services; the messages are those of `berth-cri`.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let files = ["cri/cri.proto", "admin.proto", "health.proto"];
    for file in files {
        println!("cargo:rerun-if-changed={file}");
    }
    let descriptors = protox::compile(files, ["."])?;
    let services = tonic_prost_build::configure().build_transport(false);
    services.extern_path(".runtime.v1", "::berth_cri").compile_fds(descriptors)?;
    Ok(())
}
