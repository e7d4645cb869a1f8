package packages

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// What changes others' objects: each alone and with each of the others.
var combined = []string{"workloads", "jobs", "takeover", "without-protection"}

// All folders of deploy/ that are components, without those that only others take in.
func components(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, folder := range folders(t, deploy) {
		if kindOf(t, folder) == "Component" && !strings.Contains(folder, "/") && folder != "images" {
			found = append(found, folder)
		}
	}
	if len(found) < 10 {
		t.Fatalf("only these components found: %v", found)
	}
	return found
}

// The component after what it changes: some add a controller to the program of the workloads.
func needs(t *testing.T, component string) []string {
	t.Helper()
	if component == "workloads" {
		return []string{component}
	}
	if strings.Contains(read(t, filepath.Join("deploy", component, "kustomization.yaml")), "name: berth-workloads") {
		return []string{"workloads", component}
	}
	return []string{component}
}

func wanted(components []string) string {
	lines := "namespace: true\ncomponents:\n"
	for _, component := range components {
		lines += "  " + component + ": true\n"
	}
	return lines
}

// The chart and the kustomizations make the same objects, whatever is chosen.
func TestChartIsTheKustomization(t *testing.T) {
	choices := [][]string{{}, components(t)}
	for _, component := range components(t) {
		choices = append(choices, needs(t, component))
	}
	for bits := 0; bits < 1<<len(combined); bits++ {
		var choice []string
		for at, component := range combined {
			if bits&(1<<at) != 0 {
				choice = append(choice, component)
			}
		}
		// Alone it changes a program that is not there, see below.
		if hasAll(choice, []string{"jobs"}) && !hasAll(choice, []string{"workloads"}) {
			continue
		}
		choices = append(choices, choice)
	}
	for _, choice := range choices {
		name := strings.Join(choice, "+")
		if hasAll(choice, []string{"workloads"}) {
			choice = append([]string{"workloads"}, without(choice, "workloads")...)
		}
		built, err := kustomize(t, choice)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		rendered, err := render(wanted(choice))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		compare(t, name, built, unmarked(t, rendered))
	}
}

// No component takes back what another one does: what each does alone is there with all others too.
func TestComponentsDoNotUndoEachOther(t *testing.T) {
	all, err := kustomize(t, append([]string{"workloads"}, without(components(t), "workloads")...))
	if err != nil {
		t.Fatal(err)
	}
	for object, paths := range map[string]map[string]string{
		"Deployment/berth-system/berth-manager": {
			"--admission-certificates=secret": "cert-manager", "--deletion-protection=false": "without-protection",
			"--budget-updates=true": "gated-features",
		},
		"Deployment/berth-system/berth-workloads":          {"--broadcastjobs": "jobs", "--cronjobs": "jobs", "--united-deployments": "uniteddeployments", "--spreads": "spreads", "--pod-states": "podstates", "--marker-finalizers": "marker-finalizers", "--predownload-images-of-daemonsets": "gated-features", "berth-workloads:0.1.0": "images"},
		"DaemonSet/berth-system/berth-agent":               {"berth.dev/path: takeover": "takeover", "name: BERTH_AGENT_NAMESPACE": "takeover"},
		"ConfigMap/berth-system/berth-agent-configuration": {"path: takeover": "takeover"},
		"DaemonSet/berth-system/berth-installer":           {"berthctl:0.1.0": "host"},
		"Role/berth-system/berth-agent":                    {"serviceaccounts/token": "token-renewal", "- berth-agent\n": "token-renewal"},
		"ValidatingAdmissionPolicy//berth-agent-token": {
			"an agent asks only for tokens of its own ServiceAccount": "token-renewal",
		},
		"ValidatingAdmissionPolicy//berth-agent-pods":      {"expression: '''*'''": "open-agent-labels"},
		"ValidatingAdmissionPolicy//berth-probe-markers":   {"expression: '''*'''": "open-agent-labels"},
		"ValidatingAdmissionPolicy//berth-update-requests": {"expression: '''*'''": "open-agent-labels"},
		"ValidatingAdmissionPolicy//berth-workloads":       {"name: no-jobs": "jobs", "name: no-united-deployments": "uniteddeployments", "name: no-spreads": "spreads", "name: no-pod-states": "podstates", "name: no-marker-finalizers": "marker-finalizers"},
	} {
		text, err := yaml.Marshal(all[object])
		if err != nil {
			t.Fatal(err)
		}
		for part, component := range paths {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s has no %q of %s with all components:\n%s", object, part, component, text)
			}
		}
	}
	for object := range all {
		if strings.HasPrefix(object, "Secret/") || strings.Contains(object, "delete-protection") {
			t.Errorf("%s is there again", object)
		}
	}
}

// A component that is not after the one it changes would change nothing and say nothing.
func TestJobsWithoutWorkloadsAreRefused(t *testing.T) {
	for _, choice := range [][]string{{"jobs"}, {"jobs", "workloads"}} {
		if _, err := kustomize(t, choice); err == nil || !strings.Contains(err.Error(), "berth-workloads") {
			t.Errorf("kustomize with %v: %v", choice, err)
		}
	}
	if _, err := render(wanted([]string{"jobs"})); err == nil || !strings.Contains(err.Error(), "berth-workloads") {
		t.Errorf("the chart: %v", err)
	}
}

func TestValuesCount(t *testing.T) {
	objects, err := render(`
components: {workloads: true, host: true, distribution: true}
ownership: berth,CloneSet=openkruise
registry: registry.test/berth/
tag: "2"
images:
  berthd: {repository: agent, tag: "3"}
imagePullSecrets: [{name: pull}]
distribution: {replicas: 1, args: [--log-format=json], nodeSelector: {c: d}, resources: {limits: {memory: 2Gi}}}
manager: {replicas: 3, args: [--pod-readiness-gate], nodeSelector: {a: b}, resources: {limits: {memory: 1Gi}}}
agent:
  configuration: {launchOrder: {enabled: false}}
  runtime: {socket: /run/k3s/containerd/containerd.sock, root: /var/lib/rancher/k3s/agent/containerd}
`)
	if err != nil {
		t.Fatal(err)
	}
	has := map[string][]string{
		"Deployment/berth-system/berth-manager": {
			"replicas: 3", "image: registry.test/berth/berth-manager:2", "- --pod-readiness-gate", "- --namespace=berth-system",
			"a: b", "memory: 1Gi", "cpu: 20m", "name: pull", "- --ownership=berth,CloneSet=openkruise",
		},
		"Deployment/berth-system/berth-workloads": {
			"image: registry.test/berth/berth-workloads:2", "- --ownership=berth,CloneSet=openkruise",
		},
		"Deployment/berth-system/berth-distribution": {
			"replicas: 1", "image: registry.test/berth/berth-workloads:2", "- --log-format=json", "- --resource-distributions", "c: d", "memory: 2Gi",
			"- --ownership=berth,CloneSet=openkruise",
		},
		"DaemonSet/berth-system/berth-installer": {"image: registry.test/berth/berthctl:2", "berth.dev/install: systemd"},
		"DaemonSet/berth-system/berth-agent": {
			"image: registry.test/berth/agent:3", "mountPath: /run/k3s/containerd", "path: /run/k3s/containerd",
			"path: /var/lib/rancher/k3s/agent/containerd", "berth.dev/configuration: ",
		},
		"ConfigMap/berth-system/berth-agent-configuration": {
			"runtimeEndpoint: unix:///run/k3s/containerd/containerd.sock", "enabled: false", "path: beside",
		},
		"CustomResourceDefinition//sidecarsets.apps.kruise.io": {"helm.sh/resource-policy: keep"},
	}
	for object, parts := range has {
		text, err := yaml.Marshal(objects[object])
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range parts {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s has no %q:\n%s", object, part, text)
			}
		}
	}
	if _, there := objects["Namespace//berth-system"]; there {
		t.Error("the Namespace is there without being asked for")
	}
	plain, err := render("crds: false")
	if err != nil {
		t.Fatal(err)
	}
	for object := range plain {
		if strings.HasPrefix(object, "CustomResourceDefinition/") {
			t.Errorf("%s is there with crds: false", object)
		}
	}
	one, other := hashOf(t, plain), hashOf(t, objects)
	if one == "" || one == other {
		t.Errorf("another configuration must be another pod: %q, %q", one, other)
	}
}

// Each program that a component has can be set: where there are values of it, they count.
func TestEveryProgramHasValues(t *testing.T) {
	all, err := kustomize(t, append([]string{"workloads"}, without(components(t), "workloads")...))
	if err != nil {
		t.Fatal(err)
	}
	template, values := read(t, "charts/berth/templates/_values.tpl"), read(t, "charts/berth/values.yaml")
	for key, object := range all {
		if object["kind"] != "Deployment" && object["kind"] != "DaemonSet" {
			continue
		}
		name := at(object, "metadata")["name"].(string)
		own := strings.TrimPrefix(name, "berth-")
		if !strings.Contains(template, fmt.Sprintf("%q %q", name, own)) || !strings.Contains(values, "\n"+own+":\n") {
			t.Errorf("the chart has no values for %s", key)
		}
	}
}

// A wrong value is refused, by a text that names it.
func TestWrongValuesAreRefused(t *testing.T) {
	for values, named := range map[string]string{
		"component: {jobs: true}":                              "component",
		"components: {jobs: yes-please}":                       "jobs",
		"components: {job: true}":                              "there is no job",
		"manager: {replicas: many}":                            "replicas",
		"manager: {replicas: 99}":                              "replicas",
		"manager: {args: [verbose]}":                           "args",
		"distribution: {replicas: many}":                       "replicas",
		"ownership: 'CloneSet=berth'":                          "ownership",
		"ownership: 'berth, CloneSet=openkruise'":              "ownership",
		"agent: {runtime: {socket: run.sock}}":                 "socket",
		"images: {berth: {tag: a}}":                            "berth",
		"tag: 'a b'":                                           "tag",
		"agent: {configuration: {runtimeEndpoint: unix:///x}}": "agent.runtime.socket",
	} {
		if _, err := render(values); err == nil || !strings.Contains(err.Error(), named) {
			t.Errorf("%s: %v", values, err)
		}
	}
}

// A release is kept in a Secret, which holds 1 MiB.
func TestReleaseFits(t *testing.T) {
	size, err := releaseSize(wanted(append([]string{"workloads"}, without(components(t), "workloads")...)))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("a release with everything takes %d bytes", size)
	if size > 800_000 {
		t.Errorf("a release with everything takes %d bytes of 1048576", size)
	}
}

// What is left out of complete/: choices of a node, of a cluster's own tools, and what stands beside an OpenKruise.
var notComplete = []string{"agent-metrics", "cert-manager", "host", "monitoring", "openkruise", "takeover", "token-renewal", "without-protection"}

// The list of everything has each component that is not a choice of its own, and is taken by kustomize.
func TestCompleteIsEverything(t *testing.T) {
	var file struct{ Components []string }
	if err := yaml.Unmarshal([]byte(read(t, "complete/kustomization.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	expected := components(t)
	for _, component := range notComplete {
		expected = without(expected, component)
	}
	for _, component := range expected {
		if !slices.Contains(file.Components, "../deploy/"+component) {
			t.Errorf("complete/ has no %s", component)
		}
	}
	if len(file.Components) != len(expected) {
		t.Errorf("%v and not %v", file.Components, expected)
	}
	built, err := run("../../complete")
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"berth-manager", "berth-workloads", "berth-distribution"} {
		if _, there := built["Deployment/berth-system/"+program]; !there {
			t.Errorf("complete/ has no %s", program)
		}
	}
	manager, err := yaml.Marshal(built["Deployment/berth-system/berth-manager"])
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(manager), "- --observe-filed-revisions=kruise-system\n") {
		t.Errorf("the manager of complete/ does not wait for ControllerRevisions:\n%s", manager)
	}
	for name, has := range map[string]bool{
		"Deployment/berth-system/berth-distribution":    true,
		"ValidatingAdmissionPolicy//berth-distribution": false,
	} {
		text, err := yaml.Marshal(built[name])
		if err != nil {
			t.Fatal(err)
		}
		everywhere := strings.Contains(string(text), "- --distribute-everywhere\n")
		if everywhere != has || strings.Contains(string(text), "takes no copies") {
			t.Errorf("copies of complete/ do not reach every namespace:\n%s", text)
		}
	}
	for _, right := range []string{"Role/kruise-system/berth-manager", "RoleBinding/kruise-system/berth-manager"} {
		if _, there := built[right]; !there {
			t.Errorf("complete/ has no %s", right)
		}
	}
	hasSettings(t, built, "berth-agent")
}

// The service that the installer installs has the settings of the agent.
func TestCompleteReachesTheService(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "complete")
	absolute, err := filepath.Abs(deploy)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	// Its list names the folder beside it.
	if err := os.Symlink(absolute, filepath.Join(folder, "../deploy")); err != nil {
		t.Fatal(err)
	}
	list := strings.Replace(read(t, "complete/kustomization.yaml"), "# - ../deploy/host", "- ../deploy/host", 1)
	texts := map[string]string{"kustomization.yaml": list}
	for _, name := range []string{"kruise-system.yaml", "filed-revisions.yaml"} {
		texts[name] = read(t, "complete/"+name)
	}
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	built, err := run(folder)
	if err != nil {
		t.Fatal(err)
	}
	hasSettings(t, built, "berth-agent")
	hasSettings(t, built, "berth-installer")
}

func hasSettings(t *testing.T, built objects, name string) {
	t.Helper()
	text, err := yaml.Marshal(built["DaemonSet/berth-system/"+name])
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		"name: BERTH_IMAGES_RESERVE\n          value: 5%", "name: BERTH_UPDATES_CONTAINERS_META\n          value: all",
		"name: BERTH_IMAGES_JOBS_IN_SPEC\n          value: \"true\"",
		"name: BERTH_LAUNCH_ORDER_DISTINCT_SECONDS\n          value: \"true\"",
	} {
		if !strings.Contains(string(text), part) {
			t.Errorf("%s of complete/ has no %q:\n%s", name, part, text)
		}
	}
}
