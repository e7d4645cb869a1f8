//! Rows of the table as they come over the line, each read and bounded.

use std::collections::{HashMap, HashSet};

use berth_policy::{
    ConnectionId, ContainerId, ContainerName, EnvValues, Foretold, HookTurn, PodUid, SandboxId,
    ShownInAdvance,
};

use super::size::MAX_ROWS;
use crate::remote::{
    answers::showing_of,
    calls::{Beyond, list, name},
    message::{ContainerRow, PodRow, SandboxRow},
};

/// Creations in a sandbox that go on without a question.
#[derive(Debug)]
pub(super) enum Row {
    /// All of them: nothing is ordered.
    All,
    /// The ones of these containers.
    Of(HashSet<ContainerName>),
}

impl Row {
    /// Names in it.
    pub(super) fn names(&self) -> impl Iterator<Item = &ContainerName> {
        let open = match self {
            Self::All => None,
            Self::Of(open) => Some(open),
        };
        open.into_iter().flatten()
    }
}

pub(super) fn list_of_rows<T, U>(
    rows: &[T],
    each: impl Fn(&T) -> Result<U, Beyond>,
) -> Result<Vec<U>, Beyond> {
    if rows.len() > MAX_ROWS {
        return Err(Beyond("a part of the table"));
    }
    rows.iter().map(each).collect()
}

pub(super) fn sandbox_of(row: &SandboxRow) -> Result<(SandboxId, Option<Row>), Beyond> {
    let known = match row {
        SandboxRow { gone: true, .. } => None,
        SandboxRow { all: true, .. } => Some(Row::All),
        SandboxRow { open, .. } => {
            Some(Row::Of(list(open, |container| Ok(name(container)?.into()))?.into_iter().collect()))
        }
    };
    Ok((name(&row.sandbox)?.into(), known))
}

pub(super) fn container_of(row: &ContainerRow) -> Result<(ContainerId, Option<Foretold>), Beyond> {
    let id = name(&row.container)?.into();
    if row.gone {
        return Ok((id, None));
    }
    let hook = match row.hook {
        1 => Some(HookTurn::Run),
        2 => Some(HookTurn::AlreadyRun),
        _ => None,
    };
    let status = showing_of(row.status)
        .map(|showing| ShownInAdvance { showing, only_to: row.only_to.map(ConnectionId) });
    let ContainerRow { stop_passes, changing, quiet, .. } = *row;
    Ok((id, Some(Foretold { stop_passes, status, hook, changing, quiet })))
}

pub(super) fn pod_of(row: &PodRow) -> Result<(PodUid, HashMap<ContainerName, EnvValues>), Beyond> {
    let values = list(&row.containers, |of| {
        let values = list_of_rows(&of.values, |value| Ok((value.name.clone(), value.value.clone())))?;
        Ok((ContainerName::from(name(&of.container)?), EnvValues(values)))
    })?;
    Ok((name(&row.pod)?.into(), values.into_iter().collect()))
}
