package packages

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const (
	deploy = "../../deploy"
	berth  = "../../charts/berth"
)

// Objects by their kinds, namespaces and names.
type objects map[string]map[string]any

// The last part of a name that kustomize gives to what it generates.
var hash = regexp.MustCompile(`-[a-z0-9]{10}$`)

func hasAll(list, parts []string) bool {
	for _, part := range parts {
		if !slices.Contains(list, part) {
			return false
		}
	}
	return true
}

func without(list []string, one string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(other string) bool { return other == one })
}

// Folders with a kustomization below this one, by their paths in it.
func folders(t *testing.T, root string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.Name() == "kustomization.yaml" {
			below, inner := filepath.Rel(root, filepath.Dir(path))
			found = append(found, below)
			return inner
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func kindOf(t *testing.T, folder string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deploy, folder, "kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Kind string }
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatalf("%s: %v", folder, err)
	}
	return file.Kind
}

func parse(text string) (objects, error) {
	all := objects{}
	for _, document := range strings.Split("\n"+text, "\n---\n") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			return nil, fmt.Errorf("%w in\n%s", err, document)
		}
		if len(object) == 0 {
			continue
		}
		metadata, _ := object["metadata"].(map[string]any)
		namespace, _ := metadata["namespace"].(string)
		key := fmt.Sprintf("%v/%s/%v", object["kind"], namespace, metadata["name"])
		if _, twice := all[key]; twice {
			return nil, fmt.Errorf("%s is there twice", key)
		}
		all[key] = object
	}
	return all, nil
}

// What `kubectl kustomize` prints of a kustomization with deploy/ and these components; names of generated objects without hashes.
func kustomize(t *testing.T, components []string) (objects, error) {
	t.Helper()
	paths := []string{}
	for _, component := range components {
		paths = append(paths, filepath.Join(deploy, component))
	}
	return kustomizeOf(t, []string{deploy}, paths)
}

// The same of a kustomization with these folders.
func kustomizeOf(t *testing.T, resources, components []string) (objects, error) {
	t.Helper()
	folder := t.TempDir()
	// A kustomization names folders from its own.
	up := func(paths []string) []string {
		all := []string{}
		for _, path := range paths {
			absolute, err := filepath.Abs(path)
			if err != nil {
				t.Fatal(err)
			}
			relative, err := filepath.Rel(folder, absolute)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, relative)
		}
		return all
	}
	file, err := json.Marshal(map[string]any{"resources": up(resources), "components": up(components)})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "kustomization.yaml"), file, 0o600); err != nil {
		t.Fatal(err)
	}
	return run(folder)
}

// What `kubectl kustomize` prints of a folder.
func run(folder string) (objects, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return nil, err
	}
	text, err := built.AsYaml()
	if err != nil {
		return nil, err
	}
	all, err := parse(string(text))
	if err != nil {
		return nil, err
	}
	plain := objects{}
	for key, object := range all {
		if object["kind"] == "ConfigMap" && hash.MatchString(key) {
			key = hash.ReplaceAllString(key, "")
			metadata := object["metadata"].(map[string]any)
			metadata["name"] = hash.ReplaceAllString(metadata["name"].(string), "")
		}
		plain[key] = object
		for _, volume := range listed(object, "volumes") {
			if source, is := volume["configMap"].(map[string]any); is {
				source["name"] = hash.ReplaceAllString(source["name"].(string), "")
			}
		}
	}
	return plain, nil
}

func at(object map[string]any, path ...string) map[string]any {
	for _, name := range path {
		object, _ = object[name].(map[string]any)
	}
	return object
}

// A list of the pods that an object makes.
func listed(object map[string]any, name string) []map[string]any {
	given, _ := at(object, "spec", "template", "spec")[name].([]any)
	all := make([]map[string]any, 0, len(given))
	for _, one := range given {
		all = append(all, one.(map[string]any))
	}
	return all
}

func containers(object map[string]any) []map[string]any { return listed(object, "containers") }

// The chart, and its templates with these values: what `helm template` prints.
func template(values string) (*chart.Chart, string, error) {
	loaded, err := loader.Load(berth)
	if err != nil {
		return nil, "", err
	}
	given, err := chartutil.ReadValues([]byte(values))
	if err != nil {
		return nil, "", err
	}
	options := chartutil.ReleaseOptions{Name: "berth", Namespace: "berth-system", IsInstall: true, Revision: 1}
	all, err := chartutil.ToRenderValues(loaded, given, options, nil)
	if err != nil {
		return nil, "", err
	}
	rendered, err := engine.Render(loaded, all)
	if err != nil {
		return nil, "", err
	}
	names := make([]string, 0, len(rendered))
	for name := range rendered {
		if filepath.Ext(name) == ".yaml" {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	text := ""
	for _, name := range names {
		text += rendered[name]
	}
	return loaded, text, nil
}

func render(values string) (objects, error) {
	_, text, err := template(values)
	if err != nil {
		return nil, err
	}
	return parse(text)
}

// About the size of the Secret in which helm keeps a release: the chart and what came out of it.
func releaseSize(values string) (int, error) {
	loaded, text, err := template(values)
	if err != nil {
		return 0, err
	}
	release, err := json.Marshal(map[string]any{"chart": loaded, "manifest": text})
	if err != nil {
		return 0, err
	}
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if _, err := writer.Write(release); err != nil {
		return 0, err
	}
	if err := writer.Close(); err != nil {
		return 0, err
	}
	// Once by helm, and once as the data of a Secret.
	return base64.StdEncoding.EncodedLen(base64.StdEncoding.EncodedLen(packed.Len())), nil
}

func hashOf(t *testing.T, all objects) string {
	t.Helper()
	annotations := at(all["DaemonSet/berth-system/berth-agent"], "spec", "template", "metadata", "annotations")
	found, _ := annotations["berth.dev/configuration"].(string)
	return found
}

// The objects of the chart without the two marks that only the chart has: both must be there.
func unmarked(t *testing.T, all objects) objects {
	t.Helper()
	if hashOf(t, all) == "" {
		t.Error("no hash of the configuration")
	}
	for key, object := range all {
		where, mark := object, "helm.sh/resource-policy"
		if object["kind"] != "CustomResourceDefinition" {
			where, mark = at(object, "spec", "template"), "berth.dev/configuration"
		}
		metadata := at(where, "metadata")
		annotations := at(metadata, "annotations")
		if object["kind"] == "CustomResourceDefinition" && annotations[mark] != "keep" {
			t.Errorf("%s goes when the release is uninstalled, with everybody's objects", key)
		}
		delete(annotations, mark)
		if metadata != nil && annotations != nil && len(annotations) == 0 {
			delete(metadata, "annotations")
		}
	}
	return all
}

// An expression with one space for each run of white space: libraries of YAML do not agree on folded lines that are indented.
func squeezed(value any) any {
	switch value := value.(type) {
	case string:
		return strings.Join(strings.Fields(value), " ")
	case []any:
		for at, one := range value {
			value[at] = squeezed(one)
		}
	case map[string]any:
		for name, one := range value {
			if name == "expression" || name == "messageExpression" || reflect.ValueOf(one).Kind() != reflect.String {
				value[name] = squeezed(one)
			}
		}
	}
	return value
}

func compare(t *testing.T, name string, built, rendered objects) {
	t.Helper()
	for key, object := range built {
		other, there := rendered[key]
		if !there {
			t.Errorf("%s: the chart has no %s", name, key)
			continue
		}
		one, err := yaml.Marshal(squeezed(object))
		if err != nil {
			t.Fatal(err)
		}
		two, err := yaml.Marshal(squeezed(other))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(one, two) {
			t.Errorf("%s: %s differs: kustomize\n%s\nchart\n%s", name, key, one, two)
		}
	}
	for key := range rendered {
		if _, there := built[key]; !there {
			t.Errorf("%s: only the chart has %s", name, key)
		}
	}
}
