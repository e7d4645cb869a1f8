//! Bounds of what several values have together.

/// Rules on what several values have together: where, the rule, its message.
pub(super) const TOGETHER: &[(&str, &str, &str)] = &[
    (
        "spec.sandboxConfig",
        "(has(self.labels) ? self.labels.map(k, size(k) + size(self.labels[k])).sum() : 0) \
         + (has(self.annotations) ? self.annotations.map(k, size(k) + size(self.annotations[k])).sum() : 0) <= 4096",
        "labels and annotations of the sandbox have more than 4 KiB together: make them smaller",
    ),
    (
        "spec.probes[].probe.exec.command",
        "self.map(word, size(word)).sum() <= 65536",
        "the program and its arguments have more than 64 KiB together: make them smaller, or put them into the image",
    ),
    (
        "spec.probes[].markerPolicy[].annotations",
        "self.map(k, size(k) + size(self[k])).sum() <= 262144",
        "annotations have more than 256 KiB together, as much as a pod's may have: make them smaller",
    ),
    (
        "spec.patchPodMetadata[].annotations",
        "self.map(k, size(k) + size(self[k])).sum() <= 262144",
        "annotations have more than 256 KiB together, as much as a pod's may have: make them smaller",
    ),
    (
        "spec.metadata.annotations",
        "self.map(k, size(k) + size(self[k])).sum() <= 262144",
        "annotations have more than 256 KiB together, as much as a pod's may have: make them smaller",
    ),
];
