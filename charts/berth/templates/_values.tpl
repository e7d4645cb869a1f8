{{/* Changes the objects as the values say: .root, .objects. */}}
{{- define "berth.values" -}}
{{- $root := .root -}}
{{- $values := $root.Values -}}
{{- $state := . -}}
{{- $tags := dict -}}
{{- range $image := (fromYaml ($root.Files.Get "files/images/kustomization.yaml")).images -}}
{{- $_ := set $tags $image.name $image.newTag -}}
{{- end -}}
{{- with get .objects "ConfigMap/berth-system/berth-agent-configuration" -}}
{{- include "berth.configuration" (dict "map" . "values" $values) -}}
{{- end -}}
{{- range $key, $object := .objects -}}
{{- if eq $object.kind "CustomResourceDefinition" -}}
{{- /* Deleting a definition deletes everybody's objects of its kind. */ -}}
{{- $annotations := merge (dict "helm.sh/resource-policy" "keep") ($object.metadata.annotations | default dict) -}}
{{- $_ := set $object.metadata "annotations" $annotations -}}
{{- end -}}
{{- if has $object.kind (list "Deployment" "DaemonSet") -}}
{{- $own := get $values (get (dict "berth-manager" "manager" "berth-workloads" "workloads" "berth-distribution" "distribution" "berth-agent" "agent" "berth-installer" "installer") $object.metadata.name) | default dict -}}
{{- $pod := $object.spec.template.spec -}}
{{- $container := first $pod.containers -}}
{{- $image := get $values.images $container.image | default dict -}}
{{- $repository := $image.repository | default $container.image -}}
{{- with $values.registry -}}
{{- $repository = printf "%s/%s" (trimSuffix "/" .) $repository -}}
{{- end -}}
{{- $_ := set $container "image" (printf "%s:%s" $repository ($image.tag | default $values.tag | default (get $tags $container.image))) -}}
{{- with $values.imagePullSecrets -}}
{{- $_ := set $pod "imagePullSecrets" . -}}
{{- end -}}
{{- if and $values.ownership (has $object.metadata.name (list "berth-manager" "berth-workloads" "berth-distribution")) -}}
{{- $_ := set $container "args" (append $container.args (printf "--ownership=%s" $values.ownership)) -}}
{{- end -}}
{{- with $own.args -}}
{{- $_ := set $container "args" (concat $container.args .) -}}
{{- end -}}
{{- with $own.resources -}}
{{- $_ := set $container "resources" (mergeOverwrite $container.resources .) -}}
{{- end -}}
{{- if hasKey $own "replicas" -}}
{{- $_ := set $object.spec "replicas" $own.replicas -}}
{{- end -}}
{{- with $own.nodeSelector -}}
{{- $_ := set $pod "nodeSelector" (merge . ($pod.nodeSelector | default dict)) -}}
{{- end -}}
{{- range $volume := $pod.volumes -}}
{{- if $volume.configMap -}}
{{- /* Another configuration is another pod. */ -}}
{{- $map := get $state.objects (printf "ConfigMap/berth-system/%s" $volume.configMap.name) -}}
{{- $metadata := $object.spec.template.metadata -}}
{{- $hash := dict "berth.dev/configuration" (toYaml $map.data | sha256sum) -}}
{{- $_ := set $metadata "annotations" (merge $hash ($metadata.annotations | default dict)) -}}
{{- end -}}
{{- if eq $object.metadata.name "berth-agent" -}}
{{- if eq $volume.name "runtime" -}}
{{- $_ := set $volume.hostPath "path" (dir $values.agent.runtime.socket) -}}
{{- else if eq $volume.name "images" -}}
{{- $_ := set $volume.hostPath "path" $values.agent.runtime.root -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if eq $object.metadata.name "berth-agent" -}}
{{- range $mount := $container.volumeMounts -}}
{{- if eq $mount.name "runtime" -}}
{{- $_ := set $mount "mountPath" (dir $values.agent.runtime.socket) -}}
{{- else if eq $mount.name "images" -}}
{{- $_ := set $mount "mountPath" $values.agent.runtime.root -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The agent's configuration with what agent.configuration has over it: .map, .values. Without that it stays as it is, comments too. */}}
{{- define "berth.configuration" -}}
{{- $text := get .map.data "berthd.yaml" -}}
{{- $configuration := fromYaml $text -}}
{{- $own := deepCopy .values.agent.configuration -}}
{{- if hasKey $own "runtimeEndpoint" -}}
{{- fail "agent.configuration.runtimeEndpoint: set agent.runtime.socket, by which its folder is mounted too" -}}
{{- end -}}
{{- $endpoint := printf "unix://%s" .values.agent.runtime.socket -}}
{{- if ne $endpoint $configuration.runtimeEndpoint -}}
{{- $_ := set $own "runtimeEndpoint" $endpoint -}}
{{- end -}}
{{- if $own -}}
{{- $_ := set .map.data "berthd.yaml" (toYaml (mergeOverwrite $configuration $own)) -}}
{{- end -}}
{{- end -}}
