//! Namespaces, users and what a container may do.

use anyhow::{Context, Result, ensure};
use berth_proto::cri::*;
use berth_tests::compare::code;

use super::same;
use super::way::{Way, exec_request};

async fn started_with(way: &Way, name: &str, context: LinuxContainerSecurityContext) -> Result<String> {
    let mut config = way.idle(name);
    config.linux.get_or_insert_default().security_context = Some(context);
    way.started(way.home().await?, config).await
}

/// Runs a script in a container and returns its output; not part of the transcript.
async fn hear(way: &Way, id: &str, script: &str) -> Result<String> {
    let answer = way.quietly(exec_request(id, script)).await??;
    Ok(String::from_utf8(answer.stdout)?)
}

#[tokio::test]
async fn processes_of_the_container_or_of_the_pod() -> Result<()> {
    let shows = ["Container: first is \"sh\\n\"", "Pod: first is \"sleep\\n\""];
    same("processes_of_the_container_or_of_the_pod", &shows, async |way| {
        for pid in [NamespaceMode::Container, NamespaceMode::Pod] {
            let namespace_options = Some(NamespaceOption { pid: pid.into(), ..Default::default() });
            let context = LinuxContainerSecurityContext { namespace_options, ..Default::default() };
            let id = started_with(way, &format!("c{}", i32::from(pid)), context).await?;
            // It is runc's own process until it becomes the container's.
            let first = "until grep -qv runc /proc/1/comm; do sleep 0.05; done; cat /proc/1/comm";
            let first = hear(way, &id, first).await?;
            way.say(format!("{pid:?}: first is {first:?}"));
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn processes_of_another_container() -> Result<()> {
    let shows = ["of the target: true", "CreateContainer: "];
    same("processes_of_another_container", &shows, async |way| {
        let own = NamespaceOption { pid: NamespaceMode::Container.into(), ..Default::default() };
        let of = |options| LinuxContainerSecurityContext {
            namespace_options: Some(options),
            ..Default::default()
        };
        let target = started_with(way, "target", of(own)).await?;
        let aimed = |target_id: String| NamespaceOption {
            pid: NamespaceMode::Target.into(),
            target_id,
            ..Default::default()
        };
        let id = started_with(way, "c", of(aimed(target.clone()))).await?;
        let namespace = "readlink /proc/self/ns/pid";
        let same = hear(way, &id, namespace).await? == hear(way, &target, namespace).await?;
        way.say(format!("of the target: {same}"));
        let mut config = way.idle("lost");
        config.linux.get_or_insert_default().security_context =
            Some(of(aimed("no-such-container".to_owned())));
        way.refused(way.create_request(way.home().await?, config)).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn messages_between_the_containers_of_a_pod() -> Result<()> {
    same("messages_between_the_containers_of_a_pod", &["one namespace: true"], async |way| {
        let one = started_with(way, "one", Default::default()).await?;
        let other = started_with(way, "other", Default::default()).await?;
        let namespace = "readlink /proc/self/ns/ipc; readlink /proc/self/ns/uts; readlink /proc/self/ns/net";
        let same = hear(way, &one, namespace).await? == hear(way, &other, namespace).await?;
        way.say(format!("one namespace: {same}"));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn user_and_groups() -> Result<()> {
    same("user_and_groups", &["1001 1002", "1003"], async |way| {
        let context = LinuxContainerSecurityContext {
            run_as_user: Some(Int64Value { value: 1001 }),
            run_as_group: Some(Int64Value { value: 1002 }),
            supplemental_groups: vec![1003],
            ..Default::default()
        };
        let id = started_with(way, "c", context).await?;
        way.exec(&id, "echo $(id -u) $(id -g)").await?;
        way.exec(&id, "id -G").await.map(drop)
    })
    .await
}

#[tokio::test]
async fn user_by_name() -> Result<()> {
    let shows = ["StartContainer: OK", "exit 0 \"0\\n\"", "CreateContainer: "];
    same("user_by_name", &shows, async |way| {
        let named = |name: &str| LinuxContainerSecurityContext {
            run_as_username: name.to_owned(),
            ..Default::default()
        };
        let id = started_with(way, "c", named("root")).await?;
        way.exec(&id, "id -u").await?;
        let mut config = way.idle("nobody-knows");
        config.linux.get_or_insert_default().security_context = Some(named("nobody-knows"));
        // The message has the random name of a mount in it.
        let refused = way.quietly(way.create_request(way.home().await?, config)).await?;
        let refused = refused.err().context("a user that is not there was taken")?;
        ensure!(refused.message.contains("no users found"), "{refused}");
        way.say(format!("CreateContainer: {}", code(refused.code)));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn file_system_that_is_only_read() -> Result<()> {
    same("file_system_that_is_only_read", &["exit 1", "Read-only file system"], async |way| {
        let context = LinuxContainerSecurityContext { readonly_rootfs: true, ..Default::default() };
        let id = started_with(way, "c", context).await?;
        way.exec(&id, "touch /new").await.map(drop)
    })
    .await
}

#[tokio::test]
async fn capabilities_and_privileges() -> Result<()> {
    same("capabilities_and_privileges", &["CapEff", "exit 1", "NoNewPrivs:\\t1"], async |way| {
        let capabilities = Capability {
            add_capabilities: vec!["SYS_TIME".to_owned()],
            drop_capabilities: vec!["CHOWN".to_owned()],
        };
        let context = LinuxContainerSecurityContext {
            capabilities: Some(capabilities),
            no_new_privs: true,
            ..Default::default()
        };
        let id = started_with(way, "c", context).await?;
        way.exec(&id, "grep CapEff /proc/self/status").await?;
        way.exec(&id, "touch /tmp/file; chown 1:1 /tmp/file").await?;
        way.exec(&id, "grep NoNewPrivs /proc/self/status").await.map(drop)
    })
    .await
}

#[tokio::test]
async fn masked_and_read_only_paths() -> Result<()> {
    same("masked_and_read_only_paths", &["exit 0 \"\"", "exit 1"], async |way| {
        let context = LinuxContainerSecurityContext {
            masked_paths: vec!["/etc/passwd".to_owned()],
            readonly_paths: vec!["/root".to_owned()],
            ..Default::default()
        };
        let id = started_with(way, "c", context).await?;
        way.exec(&id, "cat /etc/passwd").await?;
        way.exec(&id, "touch /root/new").await.map(drop)
    })
    .await
}
