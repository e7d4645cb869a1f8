//! Following the logs that the runtime writes, in the CRI's line format, until the containers have ended.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use berth_proto::cri::ContainerState;
use tokio::time::sleep;

use super::Playing;
use super::launch::Started;
use crate::output;

const POLL: Duration = Duration::from_millis(200);

/// One log file.
struct Log {
    prefix: String,
    path: PathBuf,
    read: u64,
    /// The beginning of a line whose end is not written yet.
    partial: Vec<u8>,
}

/// Shows the output of the containers until all of them have ended; an error if one of them failed.
pub(crate) async fn follow(playing: &Playing<'_>, containers: &[Started]) -> Result<()> {
    let mut logs: Vec<Log> = containers
        .iter()
        .map(|container| Log {
            prefix: if containers.len() > 1 { format!("[{}] ", container.name) } else { String::new() },
            path: playing.places.logs.join(&container.name).join("0.log"),
            read: 0,
            partial: Vec::new(),
        })
        .collect();
    loop {
        // Asked before reading: what was written until the end is still shown.
        let mut running = false;
        let mut failed = Vec::new();
        for container in containers {
            let status = playing.cri.status(&container.id, &container.name).await?;
            match status.state() {
                ContainerState::ContainerExited if status.exit_code == 0 => {}
                ContainerState::ContainerExited => {
                    failed.push(format!(
                        "container {:?} ended with exit code {}",
                        container.name, status.exit_code
                    ));
                }
                _ => running = true,
            }
        }
        for log in &mut logs {
            let text = log.more().with_context(|| format!("read the log {}", log.path.display()))?;
            output::print(&text)?;
        }
        if !running {
            return if failed.is_empty() { Ok(()) } else { Err(anyhow!("{}", failed.join(", "))) };
        }
        sleep(POLL).await;
    }
}

impl Log {
    /// Reads the text that was written since the last time.
    fn more(&mut self) -> Result<String> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(String::new()),
            Err(error) => return Err(error.into()),
        };
        file.seek(SeekFrom::Start(self.read))?;
        let mut new = Vec::new();
        self.read += file.read_to_end(&mut new)? as u64;
        self.partial.append(&mut new);
        let Some(end) = self.partial.iter().rposition(|byte| *byte == b'\n') else {
            return Ok(String::new());
        };
        let whole: Vec<u8> = self.partial.drain(..=end).collect();
        Ok(render(&String::from_utf8_lossy(&whole), &self.prefix))
    }
}

/// `TIME STREAM TAG CONTENT` lines as what the container wrote. A line in several parts (tag P) is put
/// together.
fn render(log: &str, prefix: &str) -> String {
    let mut out = String::new();
    let mut inside = false;
    for line in log.lines() {
        let mut parts = line.splitn(4, ' ').skip(2);
        let (tag, content) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        if !inside {
            out += prefix;
        }
        out += content;
        inside = tag.split(':').any(|tag| tag == "P");
        if !inside {
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_log() {
        let log = "\
2024-01-01T00:00:00.1Z stdout F hello world
2024-01-01T00:00:00.2Z stderr P one \n2024-01-01T00:00:00.2Z stderr F line
2024-01-01T00:00:00.3Z stdout F \n";
        assert_eq!(render(log, "[a] "), "[a] hello world\n[a] one line\n[a] \n");
    }
}
