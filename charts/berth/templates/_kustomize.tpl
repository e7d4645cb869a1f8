{{/*
What kustomize makes of deploy/, as far as deploy/ uses kustomize: the objects and patches are there alone, and the chart has none of
its own. `files` of the chart is deploy/. A test compares what comes out with what `kubectl kustomize` prints, for all components.

The state of a rendering: .root, the chart's context, and .objects, by their kinds, namespaces and names.
*/}}

{{- define "berth.key" -}}
{{ .kind }}/{{ .metadata.namespace | default "" }}/{{ .metadata.name }}
{{- end -}}

{{/* Reads a folder with a kustomization: .state, .folder. */}}
{{- define "berth.folder" -}}
{{- $state := .state -}}
{{- $folder := .folder -}}
{{- $text := $state.root.Files.Get (printf "files/%s" (clean (printf "%s/kustomization.yaml" $folder))) -}}
{{- if not $text -}}
{{- fail (printf "components: there is no %s in deploy/" $folder) -}}
{{- end -}}
{{- $file := fromYaml $text -}}
{{- range $resource := $file.resources -}}
{{- if hasSuffix ".yaml" $resource -}}
{{- $path := clean (printf "%s/%s" $folder $resource) -}}
{{- range $object := include "berth.read" (dict "state" $state "path" $path) | fromYamlArray -}}
{{- $_ := set $state.objects (include "berth.key" $object) $object -}}
{{- end -}}
{{- else -}}
{{- include "berth.folder" (dict "state" $state "folder" (clean (printf "%s/%s" $folder $resource))) -}}
{{- end -}}
{{- end -}}
{{- range $generator := $file.configMapGenerator -}}
{{- include "berth.configMap" (dict "state" $state "folder" $folder "generator" $generator) -}}
{{- end -}}
{{- range $component := $file.components -}}
{{- include "berth.folder" (dict "state" $state "folder" (clean (printf "%s/%s" $folder $component))) -}}
{{- end -}}
{{- range $patch := $file.patches -}}
{{- include "berth.patch" (dict "state" $state "folder" $folder "patch" $patch) -}}
{{- end -}}
{{- end -}}

{{/* The objects of a file, as a list: .state, .path. */}}
{{- define "berth.read" -}}
{{- $text := .state.root.Files.Get (printf "files/%s" .path) -}}
{{- if not $text -}}
{{- fail (printf "deploy/%s is not in the chart" .path) -}}
{{- end -}}
{{- $objects := list -}}
{{- range $document := splitList "\n---\n" $text -}}
{{- $object := fromYaml $document -}}
{{- if hasKey $object "Error" -}}
{{- fail (printf "%s: %s" $.path $object.Error) -}}
{{- end -}}
{{- if $object.kind -}}
{{- $objects = append $objects $object -}}
{{- end -}}
{{- end -}}
{{- toYaml $objects -}}
{{- end -}}

{{/* A ConfigMap of files: .state, .folder, .generator. Its name has no hash: the pods that read it have one, see berth.values. */}}
{{- define "berth.configMap" -}}
{{- $state := .state -}}
{{- $generator := .generator -}}
{{- $data := dict -}}
{{- range $file := $generator.files -}}
{{- $text := $state.root.Files.Get (printf "files/%s" (clean (printf "%s/%s" $.folder $file))) -}}
{{- $_ := set $data (base $file) $text -}}
{{- end -}}
{{- $key := printf "ConfigMap/%s/%s" $generator.namespace $generator.name -}}
{{- if eq ($generator.behavior | default "create") "replace" -}}
{{- $_ := set (required (printf "%s replaces %s, which is not there" .folder $key) (get $state.objects $key)) "data" $data -}}
{{- else -}}
{{- $metadata := dict "namespace" $generator.namespace "name" $generator.name -}}
{{- with ($generator.options | default dict).labels -}}
{{- $_ := set $metadata "labels" . -}}
{{- end -}}
{{- $_ := set $state.objects $key (dict "apiVersion" "v1" "kind" "ConfigMap" "metadata" $metadata "data" $data) -}}
{{- end -}}
{{- end -}}

{{/* A patch of a kustomization: operations on a target, or (part of) an object: .state, .folder, .patch. */}}
{{- define "berth.patch" -}}
{{- $state := .state -}}
{{- $folder := .folder -}}
{{- $target := .patch.target -}}
{{- if $target -}}
{{- $found := false -}}
{{- range $key, $object := $state.objects -}}
{{- if and (eq $object.kind $target.kind) (eq $object.metadata.name $target.name) -}}
{{- $found = true -}}
{{- range $operation := fromYamlArray $.patch.patch -}}
{{- include "berth.operation" (dict "object" $object "operation" $operation) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if not $found -}}
{{- fail (printf "components: %s changes %s %s, which is not there" $folder $target.kind $target.name) -}}
{{- end -}}
{{- else -}}
{{- $text := .patch.patch -}}
{{- with .patch.path -}}
{{- $text = $state.root.Files.Get (printf "files/%s" (clean (printf "%s/%s" $folder .))) -}}
{{- end -}}
{{- range $document := splitList "\n---\n" $text -}}
{{- $patch := fromYaml $document -}}
{{- $key := include "berth.key" $patch -}}
{{- if not (hasKey $state.objects $key) -}}
{{- fail (printf "components: %s changes %s, which is not there; deploy/%s says what it needs" $folder $key $folder) -}}
{{- end -}}
{{- if eq (get $patch "$patch" | default "") "delete" -}}
{{- $_ := unset $state.objects $key -}}
{{- else -}}
{{- $_ := mergeOverwrite (get $state.objects $key) $patch -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* One operation of a JSON patch: .object, .operation. */}}
{{- define "berth.operation" -}}
{{- $tokens := list -}}
{{- range $token := splitList "/" (trimPrefix "/" .operation.path) -}}
{{- $tokens = append $tokens ($token | replace "~1" "/" | replace "~0" "~") -}}
{{- end -}}
{{- $at := .object -}}
{{- $parent := dict -}}
{{- $name := "" -}}
{{- range $token := initial $tokens -}}
{{- $parent = $at -}}
{{- $name = $token -}}
{{- if kindIs "slice" $at -}}
{{- $at = index $at (int $token) -}}
{{- else -}}
{{- $at = get $at $token -}}
{{- end -}}
{{- end -}}
{{- $last := last $tokens -}}
{{- if eq .operation.op "test" -}}
{{- if ne (get $at $last) .operation.value -}}
{{- fail (printf "components: %s of %s is %v and not %v" .operation.path .object.metadata.name (get $at $last) .operation.value) -}}
{{- end -}}
{{- else if eq $last "-" -}}
{{- $_ := set $parent $name (append $at .operation.value) -}}
{{- else if eq .operation.op "remove" -}}
{{- $_ := unset $at $last -}}
{{- else -}}
{{- $_ := set $at $last .operation.value -}}
{{- end -}}
{{- end -}}
