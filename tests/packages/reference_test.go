package packages

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// Folders with the sources of Berth's programs: all crates but those that only tests have.
func sources(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, folder := range []string{"daemon", "manager", "proto", "shim", "sidecarset", "workloads"} {
		for _, pattern := range []string{"src", "*/src"} {
			found, err := filepath.Glob(filepath.Join("../..", folder, pattern))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, found...)
		}
	}
	return without(all, "../../daemon/fake/src")
}

// A page that is made from the code. With BERTH_WRITE set it is written; without, it must be what is there.
func page(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("../../docs", name)
	if os.Getenv("BERTH_WRITE") != "" {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	there, err := os.ReadFile(path)
	if err != nil || string(there) != text {
		t.Errorf("docs/%s is old (%v): run BERTH_WRITE=1 tests/packages/test.sh Reference", name, err)
	}
}

// Files below the folders of sources, without tests, by their paths.
func code(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, root := range sources(t) {
		err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".rs" {
				return err
			}
			text, err := os.ReadFile(path)
			below, _ := filepath.Rel("../..", path)
			all[below] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(all) < 300 {
		t.Fatalf("only %d sources", len(all))
	}
	return all
}

func keys[V any](of map[string]V) []string {
	all := make([]string, 0, len(of))
	for key := range of {
		all = append(all, key)
	}
	sort.Strings(all)
	return all
}

type metric struct{ name, kind, help string }

var (
	registered = regexp.MustCompile(`register(_with_unit)?\(\s*"(\w+)",\s*(?:"([^"]*)"|(\w+)),\s*(?:Unit::(\w+),\s*)?(?:(\w+)\.)?(\w+)`)
	prefixed   = regexp.MustCompile(`sub_registry_with_prefix\("(\w+)"\)`)
	implied    = regexp.MustCompile(`(?m)^impl (\w+) \{`)
)

// The type of a field of a struct, or of a variable, as far as it is one of a metric.
func typeOf(t *testing.T, path, text, owner, name string) string {
	t.Helper()
	body := text
	if at := strings.Index(text, "struct "+owner+" {"); at >= 0 {
		body = text[at : at+strings.Index(text[at:], "\n}")]
	}
	found := regexp.MustCompile(`(?m)\b` + name + `: (.*)`).FindStringSubmatch(body)
	if found == nil || !regexp.MustCompile("Counter|Gauge|Histogram|Holds").MatchString(found[1]) {
		found = regexp.MustCompile(`let ` + name + ` = (.*)`).FindStringSubmatch(text)
	}
	if found == nil {
		t.Fatalf("%s: no type of %s", path, name)
	}
	for part, kind := range map[string]string{"Counter": "counter", "Gauge": "gauge", "Histogram": "histogram", "Holds": "histogram"} {
		if strings.Contains(found[1], part) {
			return kind
		}
	}
	t.Fatalf("%s: %s is no metric: %s", path, name, found[1])
	return ""
}

// Metrics that the programs register, with the names under which they are scraped.
func metrics(t *testing.T) []metric {
	t.Helper()
	var all []metric
	for path, text := range code(t) {
		if !strings.Contains(text, "prometheus_client") {
			continue
		}
		prefixes := []string{"berth_agent"}
		if found := prefixed.FindStringSubmatch(text); found != nil {
			prefixes = found[1:2]
		} else if strings.Contains(path, "manager/base/") {
			// Code of both central programs, which bring their own prefix.
			prefixes = []string{"berth_manager", "berth_workloads"}
		}
		for _, at := range registered.FindAllStringSubmatchIndex(text, -1) {
			part := func(number int) string {
				if at[2*number] < 0 {
					return ""
				}
				return text[at[2*number]:at[2*number+1]]
			}
			owner := ""
			for _, found := range implied.FindAllStringSubmatch(text[:at[0]], -1) {
				owner = found[1]
			}
			help := part(3)
			if variable := part(4); variable != "" {
				before := regexp.MustCompile(`let `+variable+` =\s*"([^"]*)"`).FindAllStringSubmatch(text[:at[0]], -1)
				help = before[len(before)-1][1]
			}
			name, kind := part(2), typeOf(t, path, text, owner, part(7))
			if unit := part(5); unit != "" {
				name += "_" + strings.ToLower(unit)
			}
			if kind == "counter" {
				name += "_total"
			}
			help = regexp.MustCompile(`\\\n\s*`).ReplaceAllString(help, "")
			for _, prefix := range prefixes {
				all = append(all, metric{prefix + "_" + name, kind, help})
			}
		}
	}
	slices.SortFunc(all, func(one, other metric) int { return strings.Compare(one.name, other.name) })
	if len(all) < 45 {
		t.Fatalf("only %d metrics", len(all))
	}
	return all
}

const made = "<!-- Made from the code: BERTH_WRITE=1 tests/packages/test.sh Reference -->\n\n"

func TestReferenceOfMetrics(t *testing.T) {
	text := "# Metrics\n\n" + made + "After this page you know each number that the programs tell, and its name for Prometheus.\n\n" +
		"`berth_manager_` and `berth_workloads_` are at `/metrics` of their pods (port `metrics`), `berth_agent_` and `berth_shim_` at that of\n" +
		"`httpAddress` on each node, and of `metrics.address` where there is one. [Operations](operations.md) says what to watch.\n\n"
	for _, program := range []struct{ prefix, title string }{
		{"berth_manager_", "berth-manager"}, {"berth_workloads_", "berth-workloads"}, {"berth_shim_", "berth-shim"},
		{"berth_agent_", "berthd"},
	} {
		text += "## " + program.title + "\n\n| Metric | Type | |\n|---|---|---|\n"
		for _, one := range metrics(t) {
			if strings.HasPrefix(one.name, program.prefix) {
				text += fmt.Sprintf("| `%s` | %s | %s |\n", one.name, one.kind, one.help)
			}
		}
		text += "\n"
	}
	page(t, "metrics.md", strings.TrimSuffix(text, "\n"))
}

func TestReferenceOfConfiguration(t *testing.T) {
	page(t, "configuration.md", "# Configuration\n\n"+made+
		"After this page you know each field of `/etc/berth/berthd.yaml`, its default, and what another value does.\n\n"+
		"It is what `berthd config print-defaults` prints. A field that is left out has its default; one that is not known is an error, with its\n"+
		"line. `berthd config validate` checks a file. Flags and env ([commands](cli.md)) count more than the file.\n\n```yaml\n"+
		read(t, "daemon/src/config/defaults.yaml")+"```\n")
}

// Name, and help of a command and all below it.
func help(t *testing.T, program string, words ...string) string {
	t.Helper()
	command := exec.Command(filepath.Join(programs(), program), append(slices.Clone(words), "--help")...)
	// Nothing of the surroundings is shown as a value.
	command.Env = []string{}
	said, err := command.Output()
	if err != nil {
		t.Fatalf("%s %v --help: %v: build it first, or name its folder in BERTH_BIN_DIR", program, words, err)
	}
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	for at, line := range lines {
		lines[at] = strings.TrimRight(line, " ")
	}
	text := fmt.Sprintf("### `%s`\n\n```text\n%s\n```\n\n", strings.Join(append([]string{program}, words...), " "), strings.Join(lines, "\n"))
	within := false
	for _, line := range lines {
		if within && strings.HasPrefix(line, "  ") && line[2] != ' ' {
			if word := strings.Fields(line)[0]; word != "help" {
				text += help(t, program, append(slices.Clone(words), word)...)
			}
		}
		within = line == "Commands:" || within && line != ""
	}
	return text
}

func programs() string {
	if folder := os.Getenv("BERTH_BIN_DIR"); folder != "" {
		return folder
	}
	if folder := os.Getenv("CARGO_TARGET_DIR"); folder != "" {
		return filepath.Join(folder, "debug")
	}
	return "../../target/debug"
}

func TestReferenceOfCommands(t *testing.T) {
	text := "# Commands\n\n" + made + "After this page you know each command of each program, its flags, and the env that stands for them.\n\n"
	for _, program := range []string{"berthctl", "kubectl-berth", "berthd", "berth-shim", "berth-manager", "berth-workloads"} {
		// kubectl finds a plugin by its name, and people know it by kubectl's.
		said := strings.ReplaceAll(help(t, program), "### `kubectl-berth", "### `kubectl berth")
		text += "## " + strings.ReplaceAll(program, "kubectl-", "kubectl ") + "\n\n" + said
	}
	page(t, "cli.md", strings.TrimSuffix(text, "\n"))
}

type schema struct {
	Type                 string
	Description          string
	Default              any
	Enum                 []any
	Properties           map[string]schema
	Items                *schema
	AdditionalProperties *schema
	Either               bool `json:"x-kubernetes-int-or-string"`
}

type version struct {
	Name    string
	Storage bool
	Schema  struct{ OpenAPIV3Schema schema }
}

// The longest path of a field that has a row of its own: what is deeper is mostly Kubernetes' own.
const deepest = 4

func fields(path string, one schema, depth int) string {
	if one.Items != nil {
		return fields(path+"[]", *one.Items, depth)
	}
	text := ""
	for _, name := range keys(one.Properties) {
		field := one.Properties[name]
		kind := field.Type
		switch {
		case field.Either:
			kind = "integer or string"
		case field.Type == "array" && field.Items != nil && field.Items.Either:
			kind = "list of integers or strings"
		case field.Type == "array" && field.Items != nil:
			kind = "list of " + field.Items.Type + "s"
		case field.AdditionalProperties != nil:
			kind = "map"
		}
		more := ""
		if field.Default != nil {
			value, is := field.Default.(string)
			if !is {
				packed, err := json.Marshal(field.Default)
				if err != nil {
					panic(err)
				}
				value = string(packed)
			}
			more += fmt.Sprintf(" Default: `%s`.", value)
		}
		if len(field.Enum) > 0 {
			values := []string{}
			for _, value := range field.Enum {
				if value != nil {
					values = append(values, fmt.Sprintf("`%v`", value))
				}
			}
			more += " One of " + strings.Join(values, ", ") + "."
		}
		said := strings.ReplaceAll(strings.ReplaceAll(field.Description, "\n", " "), "|", "\\|")
		text += fmt.Sprintf("| `%s.%s` | %s | %s%s |\n", path, name, kind, said, more)
		if depth < deepest {
			text += fields(path+"."+name, field, depth+1)
		}
	}
	return text
}

func TestReferenceOfKinds(t *testing.T) {
	var files []string
	for _, folder := range folders(t, deploy) {
		if filepath.Base(folder) == "crds" {
			found, err := filepath.Glob(filepath.Join(deploy, folder, "*.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, found...)
		}
	}
	kinds := map[string]string{}
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var definition struct {
			Spec struct {
				Group, Scope string
				Names        struct {
					Kind, Plural string
					ShortNames   []string
				}
				Versions []version
			}
		}
		if err := yaml.Unmarshal(text, &definition); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		spec := definition.Spec
		stored := slices.IndexFunc(spec.Versions, func(one version) bool { return one.Storage })
		if stored < 0 {
			t.Fatalf("%s: no version is stored", file)
		}
		whole := spec.Versions[stored].Schema.OpenAPIV3Schema
		served := fmt.Sprintf("`%s/%s`", spec.Group, spec.Versions[stored].Name)
		for at, other := range spec.Versions {
			if at != stored {
				served += fmt.Sprintf(", and `%s` beside it", other.Name)
			}
		}
		names := "`kubectl get " + spec.Names.Plural + "." + spec.Group + "`"
		for _, name := range spec.Names.ShortNames {
			names += ", `" + name + "`"
		}
		scope := map[string]string{"Namespaced": "in a namespace", "Cluster": "of the whole cluster"}[spec.Scope]
		origin := "Berth's own"
		if spec.Group != "berth.dev" {
			origin = "Compared with OpenKruise: " + compared(t, spec.Names.Kind)
		}
		kinds[spec.Names.Kind+" "+spec.Group] = fmt.Sprintf("## %s\n\n%s %s, %s; %s. %s.\n\n| Field | Type | |\n|---|---|---|\n%s\n", spec.Names.Kind,
			whole.Description, served, scope, names, origin,
			marked(t, spec.Names.Kind, fields("spec", whole.Properties["spec"], 1)+fields("status", whole.Properties["status"], 1)))
	}
	if len(kinds) < 14 {
		t.Fatalf("only these kinds found: %v", keys(kinds))
	}
	text := "# Kinds and fields\n\n" + made + "After this page you know each field of each kind, and what its value does. `kubectl explain` says the same.\n\n" +
		"Fields more than four levels below `spec` or `status` are left out here. `kubectl get berth -A` lists the objects of all kinds. Where a kind\n" +
		"`differs`, the numbers are rows of [the list by feature](compatibility.md). OpenKruise's kind lacks the fields with `ours` and those below them.\n\n"
	for _, kind := range keys(kinds) {
		text += kinds[kind]
	}
	for _, line := range strings.Split(text, "\n") {
		if cells := strings.Split(line, " | "); strings.HasPrefix(line, "| `") && strings.TrimSpace(strings.Trim(cells[len(cells)-1], "|")) == "" {
			t.Errorf("a field without a description: %s", line)
		}
	}
	page(t, "kinds.md", strings.TrimSuffix(text, "\n"))
}

// What is between the parts of the code, and nobody writes or reads.
var inner = regexp.MustCompile(`/v1(alpha|beta)1$|^berth.dev/(agent|manager|pull|pinned-until|next-since|nudge)$`)

var constant = regexp.MustCompile(`((?:[ \t]*///[^\n]*\n)*)[ \t]*(?:pub(?:\([a-z]+\))? )?const \w+: &str =\s*"` +
	`((?:[a-z.]+\.)?(?:kruise\.io|berth\.dev)/[A-Za-z0-9./-]+|KRUISE_\w+|SIDECARSET_\w+|InPlaceUpdateReady|KruisePodReady)";`)

func TestReferenceOfAnnotations(t *testing.T) {
	said, packages := map[string]string{}, map[string][]string{}
	for path, text := range code(t) {
		for _, found := range constant.FindAllStringSubmatch(text, -1) {
			name := found[2]
			if inner.MatchString(name) {
				continue
			}
			words := []string{}
			for _, line := range strings.Split(found[1], "\n") {
				words = append(words, strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "///"))...)
			}
			// The same name in several programs: the longest text, and of two the first.
			if now := strings.Join(words, " "); len(now) > len(said[name]) || len(now) == len(said[name]) && now < said[name] {
				said[name] = now
			} else if _, there := said[name]; !there {
				said[name] = ""
			}
			program := strings.Split(path, "/")[0]
			if !slices.Contains(packages[name], program) {
				packages[name] = append(packages[name], program)
				sort.Strings(packages[name])
			}
		}
	}
	// No constant has these: the API server alone reads them, they are made of parts, or nothing does.
	for _, other := range []struct{ name, file, text, said, program string }{
		{"berth.dev/agent-labels", "deploy/policies/agent-pods.yaml", "'berth.dev/agent-labels'",
			"Annotation of a Namespace: keys of the labels and annotations that agents may write on its pods, with commas.", "deploy/policies"},
		{"berth.dev/install", "deploy/agent/agent.yaml", "key: berth.dev/install, operator: NotIn, values: [systemd]",
			"Label of a Node: with `systemd` the agent's DaemonSet keeps away, and the installer of the component `host` comes.", "deploy/agent, deploy/host"},
		{"berth.dev/takes-distributions", "deploy/distribution/policy.yaml", "'berth.dev/takes-distributions'",
			"Label of a Namespace: `true` lets ResourceDistributions copy into `kube-system` and `kube-public`.", "deploy/distribution"},
		{"unavailable-pod.kruise.io/NAME", "manager/src/wire/pods.rs", `"unavailable-pod.kruise.io/"`,
			"Label of a pod that is not available to budgets, whatever its readiness and its value say.", "manager"},
		{"version.sidecarset.kruise.io/NAME", "sidecarset/src/names.rs", `"version.sidecarset.kruise.io/{twin}"`,
			"Annotation of a pod: version of the twin of this name; 0 rests.", "daemon, sidecarset"},
		{"versionalt.sidecarset.kruise.io/NAME", "sidecarset/src/names.rs", `"versionalt.sidecarset.kruise.io/{twin}"`,
			"Annotation of a pod: version of the other twin.", "daemon, sidecarset"},
		{"SIDECARSET_VERSION", "sidecarset/src/inject/env.rs", `"SIDECARSET_VERSION"`,
			"Env of a twin, which injection gives it: its version.", "sidecarset"},
		{"SIDECARSET_VERSION_ALT", "sidecarset/src/inject/env.rs", `"SIDECARSET_VERSION_ALT"`,
			"Env of a twin, which injection gives it: the version of the other one.", "sidecarset"},
		{"KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE", "tests/cases/node/jobs/several.rs", `"KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE"`,
			"Env of a job sidecar; accepted, and changes nothing.", "nobody"},
	} {
		if !strings.Contains(read(t, other.file), other.text) {
			t.Errorf("%s does not have %s", other.file, other.text)
		}
		said[other.name], packages[other.name] = other.said, []string{other.program}
	}
	if len(said) < 40 {
		t.Fatalf("only these found: %v", keys(said))
	}
	text := "# Annotations, labels, env and gates\n\n" + made +
		"After this page you know each annotation, label, env and gate by which pods and objects say something to Berth, or Berth to them.\n\n" +
		"Names of `kruise.io` are OpenKruise's; those of `berth.dev` are Berth's own, `ours`. Where the effect of a name `differs`, the numbers are\n" +
		"rows of [the list by feature](compatibility.md). The pages of the features say when to use them.\n"
	for _, part := range []struct {
		title string
		is    func(string) bool
	}{
		{"Env of containers", func(name string) bool { return strings.ToUpper(name) == name }},
		{"Readiness gates", func(name string) bool { return !strings.Contains(name, "/") && strings.ToUpper(name) != name }},
		{"Annotations and labels of OpenKruise", func(name string) bool { return strings.Contains(name, "kruise.io/") }},
		{"Annotations and labels of Berth", func(name string) bool { return strings.Contains(name, "berth.dev/") }},
	} {
		text += "\n## " + part.title + "\n\n| Name | | Compared with OpenKruise | Read or written by |\n|---|---|---|---|\n"
		for _, name := range keys(said) {
			if part.is(name) {
				text += fmt.Sprintf("| `%s` | %s | %s | %s |\n", name, said[name], compared(t, name), strings.Join(packages[name], ", "))
			}
		}
	}
	page(t, "annotations.md", text)
}
