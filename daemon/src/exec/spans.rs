//! The span of an effect, with what it is about.

use berth_policy::{ContainerId, Effect, PodEffect, PodRef, RequestEffect, RuntimeEffect, StoreEffect};

use crate::trace::Span;

/// A span with the name of the effect.
pub(super) fn span(effect: &Effect) -> Span {
    match effect {
        Effect::Store(StoreEffect::WriteMarks(marks)) => {
            let span = of_containers("recreate: mark", marks.iter().map(|mark| &mark.container));
            span.set("berth.request", || {
                marks.first().map(|mark| mark.request.to_string()).unwrap_or_default()
            });
            span
        }
        Effect::Store(StoreEffect::ForgetMarks(request)) => {
            let span = Span::own("recreate: forget marks");
            span.set("berth.request", || request.to_string());
            span
        }
        Effect::Store(StoreEffect::MarkSidecars(marks)) => {
            of_containers("job sidecar: mark", marks.iter().map(|mark| &mark.container))
        }
        Effect::Store(StoreEffect::ForgetSidecars(containers)) => {
            of_containers("job sidecar: forget marks", containers.iter())
        }
        Effect::Runtime(RuntimeEffect::RemoveContainers(containers)) => {
            of_containers("recreate: remove", containers.iter())
        }
        Effect::Runtime(RuntimeEffect::StopContainer(stop)) => {
            let span = of_pod("recreate: stop", &stop.pod);
            span.set("container.id", || stop.container.as_str());
            span
        }
        Effect::Request(_, request, effect) => {
            let span = Span::own(match effect {
                RequestEffect::Report(_) => "request: report",
                RequestEffect::Delete => "request: delete",
            });
            span.set("berth.request", || request.to_string());
            span
        }
        Effect::Pod(pod, effect) => {
            let name = match effect {
                PodEffect::HoldUnready(_) => "pod: hold not Ready",
                PodEffect::ReleaseUnready(_) => "pod: release",
                PodEffect::OpenGate => "pod: open gate",
                PodEffect::Tell(_) => "pod: Event",
            };
            of_pod(name, pod)
        }
    }
}

fn of_containers<'a>(name: &'static str, containers: impl Iterator<Item = &'a ContainerId>) -> Span {
    let span = Span::own(name);
    span.set("container.id", || containers.map(ContainerId::as_str).collect::<Vec<_>>().join(", "));
    span
}

fn of_pod(name: &'static str, pod: &PodRef) -> Span {
    let span = Span::own(name);
    span.set("k8s.namespace.name", || pod.namespace.as_str());
    span.set("k8s.pod.name", || pod.name.as_str());
    span.set("k8s.pod.uid", || pod.uid.as_str());
    span
}
