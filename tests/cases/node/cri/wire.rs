//! Requests that no CRI library makes: unknown methods and services, broken and compressed messages, foreign
//! headers.

use anyhow::Result;
use berth_proto::cri::VersionRequest;
use berth_tests::fake::framed;
use bytes::{BufMut, Bytes, BytesMut};

use super::same;
use super::way::message;

const VERSION: &str = "/runtime.v1.RuntimeService/Version";
/// One that berthd reads.
const LIST: &str = "/runtime.v1.RuntimeService/ListContainers";
/// One that berthd may hold.
const STOP: &str = "/runtime.v1.RuntimeService/StopContainer";

#[tokio::test]
async fn method_that_is_not_there() -> Result<()> {
    same("method_that_is_not_there", &["Unimplemented", "unknown method"], async |way| {
        let body = framed(b"\x0a\x03abc");
        way.send("/runtime.v1.RuntimeService/FlyToTheMoon", &[], body.clone()).await?;
        way.send("/runtime.v1.ImageService/FlyToTheMoon", &[], body.clone()).await?;
        way.send("/runtime.v1.RuntimeService/", &[], body).await?;
        way.say("unknown method");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn service_that_is_not_there() -> Result<()> {
    same("service_that_is_not_there", &["Unimplemented", "Unimplemented"], async |way| {
        way.send("/runtime.v2.RuntimeService/Version", &[], framed(b"")).await?;
        way.send("/berth.v1.Berth/StopContainer", &[], framed(b"")).await?;
        way.send("/", &[], framed(b"")).await?;
        way.send("/nothing", &[], framed(b"")).await
    })
    .await
}

/// containerd serves more than CRI on this socket: its own API, which `ctr` speaks.
#[tokio::test]
async fn services_beside_cri() -> Result<()> {
    same("services_beside_cri", &["/containerd.services.version.v1.Version/Version: Ok"], async |way| {
        way.send("/containerd.services.version.v1.Version/Version", &[], framed(b"")).await?;
        let namespaces = "/containerd.services.namespaces.v1.Namespaces/List";
        way.send(namespaces, &[], framed(b"")).await?;
        way.send("/grpc.health.v1.Health/Check", &[], framed(b"")).await
    })
    .await
}

#[tokio::test]
async fn older_version_of_cri() -> Result<()> {
    same("older_version_of_cri", &["/runtime.v1alpha2.RuntimeService/Version: "], async |way| {
        let body = message(VersionRequest::default());
        way.send("/runtime.v1alpha2.RuntimeService/Version", &[], body).await?;
        way.send("/runtime.v1alpha2.RuntimeService/StopContainer", &[], framed(b"\x0a\x03abc")).await
    })
    .await
}

#[tokio::test]
async fn message_that_is_none() -> Result<()> {
    same("message_that_is_none", &["Version: Internal", "StopContainer: Internal"], async |way| {
        for path in [VERSION, LIST, STOP] {
            way.send(path, &[], framed(&[0xff, 0xff])).await?;
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn body_that_is_cut_off() -> Result<()> {
    same("body_that_is_cut_off", &["Version: ", "StopContainer: "], async |way| {
        for path in [VERSION, LIST, STOP] {
            // It announces ten bytes and has three.
            way.send(path, &[], Bytes::from_static(&[0, 0, 0, 0, 10, 1, 2, 3])).await?;
            way.send(path, &[], Bytes::from_static(&[0, 0])).await?;
            way.send(path, &[], Bytes::new()).await?;
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn two_messages_in_one_request() -> Result<()> {
    same("two_messages_in_one_request", &["Version: ", "StopContainer: "], async |way| {
        let absent = framed(b"\x0a\x06absent");
        for path in [VERSION, LIST, STOP] {
            way.send(path, &[], [absent.clone(), absent.clone()].concat().into()).await?;
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn compressed_requests() -> Result<()> {
    same("compressed_requests", &["StopContainer: ", "StopContainer: Unimplemented"], async |way| {
        for encoding in ["gzip", "none-such"] {
            for path in [VERSION, STOP] {
                let packed = gzip(b"\x0a\x06absent")?;
                let mut body = BytesMut::new();
                body.put_u8(1);
                body.put_u32(u32::try_from(packed.len())?);
                body.put_slice(&packed);
                way.send(path, &[("grpc-encoding", encoding)], body.freeze()).await?;
            }
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn compressed_without_a_word() -> Result<()> {
    same("compressed_without_a_word", &["StopContainer: "], async |way| {
        for path in [VERSION, LIST, STOP] {
            way.send(path, &[], Bytes::from_static(&[1, 0, 0, 0, 3, 1, 2, 3])).await?;
            // A flag that nobody has defined.
            way.send(path, &[], Bytes::from_static(&[7, 0, 0, 0, 0])).await?;
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn headers_nobody_knows() -> Result<()> {
    same("headers_nobody_knows", &["Version: Ok", "StopContainer: "], async |way| {
        let large = "x".repeat(100_000);
        let headers = [("x-berth-test", "a value"), ("x-large", &large), ("x-binary-bin", "AAECAw==")];
        for path in [VERSION, STOP] {
            way.send(path, &headers, framed(b"\x0a\x06absent")).await?;
        }
        Ok(())
    })
    .await
}

/// gzip without compression: one stored block.
fn gzip(data: &[u8]) -> Result<Vec<u8>> {
    let length = u16::try_from(data.len())?;
    let mut packed = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff, 1];
    packed.extend(length.to_le_bytes());
    packed.extend((!length).to_le_bytes());
    packed.extend(data);
    let checksum = !data.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| sum >> 1 ^ if sum & 1 == 1 { 0xedb8_8320 } else { 0 })
    });
    packed.extend(checksum.to_le_bytes());
    packed.extend(u32::from(length).to_le_bytes());
    Ok(packed)
}
