package packages

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Fenced blocks of a page in this language.
func blocks(t *testing.T, name, language string) []string {
	t.Helper()
	var found []string
	for _, rest := range strings.Split(read(t, "docs/"+name), "```"+language+"\n")[1:] {
		found = append(found, strings.Split(rest, "```")[0])
	}
	if len(found) == 0 {
		t.Fatalf("docs/%s has no block of %s", name, language)
	}
	return found
}

// What the commands of the page of uninstalling delete, by their files, their folders, or a kind and names.
func uninstalled(t *testing.T) objects {
	t.Helper()
	flag := regexp.MustCompile(`-([kf]) (\S+)`)
	byName := regexp.MustCompile(`-n (\S+) delete --ignore-not-found (daemonset|configmap|secret) (.*)`)
	kinds := map[string]string{"daemonset": "DaemonSet", "configmap": "ConfigMap", "secret": "Secret"}
	deleted := objects{}
	for _, line := range strings.Split(read(t, "docs/uninstall.md"), "\n") {
		if !strings.HasPrefix(strings.TrimSpace(line), "kubectl ") {
			continue
		}
		if named := byName.FindStringSubmatch(line); named != nil {
			for _, name := range strings.Fields(named[3]) {
				deleted[kinds[named[2]]+"/"+named[1]+"/"+name] = nil
			}
			continue
		}
		found := flag.FindAllStringSubmatch(line, -1)
		if len(found) == 0 {
			t.Errorf("docs/uninstall.md: nobody knows what this deletes: %s", line)
		}
		for at, one := range found {
			if one[1] == "k" && at+1 < len(found) {
				t.Errorf("kubectl takes one -k, the last one, and leaves the others: %s", line)
			}
			var all objects
			var err error
			if one[1] == "f" {
				all, err = parse(read(t, one[2]))
			} else {
				all, err = kustomizeOf(t, []string{filepath.Join("../..", one[2])}, nil)
			}
			if err != nil {
				t.Fatalf("%s: %v", one[0], err)
			}
			for key, object := range all {
				deleted[key] = object
			}
		}
	}
	return deleted
}

// What the page of uninstalling deletes is nobody's object, and no kind of objects; and it is all that any choice of parts has made.
func TestUninstallingDeletesNobodysObjects(t *testing.T) {
	deleted := uninstalled(t)
	stays := func(key string) bool {
		return strings.HasPrefix(key, "CustomResourceDefinition/") || strings.HasPrefix(key, "Namespace/")
	}
	for key := range deleted {
		if stays(key) {
			t.Errorf("docs/uninstall.md deletes %s, and with it everybody's objects", key)
		}
	}
	choices := [][]string{{}}
	for _, component := range components(t) {
		choices = append(choices, needs(t, component))
	}
	for _, choice := range choices {
		made, err := kustomize(t, choice)
		if err != nil {
			t.Fatalf("%v: %v", choice, err)
		}
		for key := range made {
			// The page says that this one stays.
			if _, is := deleted[key]; !is && !stays(key) && key != "ConfigMap/berth-system/berth-agent-configuration" {
				t.Errorf("docs/uninstall.md leaves %s of deploy/%s", key, strings.Join(choice, "+"))
			}
		}
	}
}

// The page of the parts lists them all, and its examples are taken.
func TestPageOfPackagesIsTrue(t *testing.T) {
	text := read(t, "docs/packages.md")
	for _, component := range components(t) {
		if !strings.Contains(text, "\n| `"+component+"` |") {
			t.Errorf("docs/packages.md does not list the component %s", component)
		}
	}
	values := read(t, "charts/berth/values.yaml")
	for _, component := range components(t) {
		if !strings.Contains(values, "\n  "+component+": false\n") {
			t.Errorf("charts/berth/values.yaml does not list the component %s", component)
		}
	}
	for _, block := range blocks(t, "packages.md", "yaml") {
		if !strings.Contains(block, "kind: Kustomization") {
			if _, err := render(block); err != nil {
				t.Errorf("%v in\n%s", err, block)
			}
			continue
		}
		folder := t.TempDir()
		absolute, err := filepath.Abs(deploy)
		if err != nil {
			t.Fatal(err)
		}
		up, err := filepath.Rel(folder, absolute)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(folder, "kustomization.yaml")
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(block, "berth/deploy", up)), 0o600); err != nil {
			t.Fatal(err)
		}
		built, err := run(folder)
		if err != nil {
			t.Fatalf("%v in\n%s", err, block)
		}
		agent := built["DaemonSet/berth-system/berth-agent"]
		if image := containers(agent)[0]["image"]; image != "registry.example.com/berth/berthd:0.1.0" {
			t.Errorf("the agent of the example has the image %v", image)
		}
	}
}
