//! Foresight of a pod that is not there.

use super::world::pod;
use crate::{Pod, RestartPolicy, foresee};

/// Levels as `a+b>c`, in the order of the launch and of the exit, then what ends with the job, and after
/// whom.
fn told(pod: &Pod) -> [String; 4] {
    let foreseen = foresee(pod);
    let names =
        |all: &[crate::ContainerName]| all.iter().map(ToString::to_string).collect::<Vec<_>>().join("+");
    let levels = |all: Vec<&crate::Level>| {
        all.into_iter().map(|level| names(&level.containers)).collect::<Vec<_>>().join(">")
    };
    [
        levels(foreseen.launch.iter().collect()),
        levels(foreseen.exit().collect()),
        names(&foreseen.job_sidecars),
        names(&foreseen.mains),
    ]
}

#[test]
fn order() {
    type Row<'a> = (&'a [(&'a str, &'a str)], &'a str, &'a str);
    let table: [Row<'_>; 3] = [
        (&[("web", "0"), ("db", "9"), ("log", "5"), ("api", "5")], "db>log+api>web", "web>log+api>db"),
        (&[("web", "5"), ("db", "5")], "", ""),
        (&[("web", "high"), ("db", "5")], "", ""),
    ];
    for (containers, launch, exit) in table {
        assert_eq!(told(&pod(containers)), [launch, exit, "", ""]);
    }
}

#[test]
fn ends_with_the_job() {
    type Row<'a> = (RestartPolicy, &'a [&'a str], &'a str, &'a str);
    let table: [Row<'_>; 4] = [
        (RestartPolicy::Never, &["log", "mesh"], "mesh+log", "main"),
        (RestartPolicy::Never, &[], "", ""),
        (RestartPolicy::OnFailure, &["mesh", "main", "log"], "", ""),
        (RestartPolicy::Always, &["log"], "", ""),
    ];
    for (policy, sidecars, with_job, mains) in table {
        let mut pod = pod(&[("mesh", "0"), ("main", "0"), ("log", "0")]).restarts(policy);
        for (name, spec) in &mut pod.containers {
            spec.ends_with_job = sidecars.contains(&name.as_str());
        }
        assert_eq!(told(&pod), ["", "", with_job, mains], "{policy:?} {sidecars:?}");
    }
}

/// The kubelet starts it again whatever it exits with: nothing ends with the job then.
#[test]
fn one_that_cannot_end() {
    let mut pod = pod(&[("mesh", "0"), ("main", "0"), ("log", "0")]).restarts(RestartPolicy::Never);
    for (name, log, mains) in [("mesh", "log", "main"), ("log", "", "")] {
        for one in ["mesh", "log"] {
            pod.containers.get_mut(&one.into()).unwrap().ends_with_job = true;
        }
        pod.containers.get_mut(&name.into()).unwrap().restart_policy = Some(RestartPolicy::Always);
        assert_eq!(told(&pod), ["", "", log, mains], "{name}");
        assert!(foresee(&pod).endless.contains(&name.into()));
    }
}
