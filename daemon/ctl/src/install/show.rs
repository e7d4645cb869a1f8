//! Words for what is going to be done, or is being done.

use super::facts::Facts;
use super::host::Before;
use super::journal::Undo;
use super::plan::{Action, Plan};

/// One line for an action.
pub(crate) fn action(action: &Action) -> String {
    match action {
        Action::MakeDir { path } => format!("make {path}/"),
        Action::Copy { from, path } => format!("copy {} to {path}", from.display()),
        Action::Replace { from, path, .. } => format!("replace {path} by {}", from.display()),
        Action::Write { path, .. } => format!("write {path}"),
        Action::Remove { path } => format!("remove {path}"),
        Action::Reload => "systemctl daemon-reload".to_owned(),
        Action::Enable { unit } => format!("systemctl enable {unit}"),
        Action::Start { unit } => format!("systemctl start {unit}"),
        Action::Restart { unit } => format!("systemctl restart {unit}"),
        Action::AwaitBerthd => "wait until berthd answers and reaches the runtime".to_owned(),
        Action::AwaitShim => "wait until berth-shim answers, and berthd is connected to it".to_owned(),
        Action::Redirect { unit, path, .. } => {
            format!("write {path}, systemctl daemon-reload, systemctl restart {unit}")
        }
        Action::AwaitNode => "wait until the kubelet has called the node Ready, through Berth".to_owned(),
        Action::HandOverShim => {
            "let berth-shim hand over to the new program, as berthctl upgrade --shim does".to_owned()
        }
        Action::HandOver => "let berthd hand over to the new program, as berthctl upgrade does".to_owned(),
    }
}

/// One line for a step of the way back.
pub(crate) fn undo(step: &Undo) -> String {
    match step {
        Undo::Restore { path, before: Before::Absent, only_if: None } => format!("remove {path}"),
        Undo::Restore { path, before: Before::Absent, only_if: Some(_) } => {
            format!("remove {path}, unless it was changed")
        }
        Undo::Restore { path, .. } => format!("put {path} back as it was"),
        Undo::TakeBack { path, .. } => format!("put the program {path} back"),
        Undo::HandOverShim => "let berth-shim hand over to that program, where it runs".to_owned(),
        Undo::Reload => "systemctl daemon-reload".to_owned(),
        Undo::RestartKubelet { unit } => format!("systemctl restart {unit}"),
        Undo::Restart { unit } => format!("systemctl restart {unit}, for the settings that were put back"),
        Undo::Stop { unit } => format!("systemctl stop {unit}"),
        Undo::Disable { unit } => format!("systemctl disable {unit}"),
        Undo::RemoveSockets => format!("remove {}/", super::places::RUN_DIR),
        Undo::RemoveFolder { path } => format!("remove {path}/, if it is empty"),
    }
}

/// A whole plan with the contents of its files.
pub(crate) fn plan(facts: &Facts, plan: &Plan) -> String {
    let mut text = String::new();
    if let Some(kubelet) = &facts.kubelet {
        text += &format!("# kubelet: {}, now at {}\n", kubelet.flavour.unit(), kubelet.endpoint);
    }
    text += &format!("# runtime: {}\n", plan.runtime);
    for note in &plan.notes {
        text += &format!("# {note}\n");
    }
    for step in &plan.actions {
        text += &format!("{}\n", action(step));
        match step {
            Action::Write { content, .. } | Action::Redirect { content, .. } => {
                for line in content.lines() {
                    text += format!("    {line}").trim_end();
                    text.push('\n');
                }
            }
            _ => {}
        }
    }
    text
}
