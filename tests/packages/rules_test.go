package packages

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var named = regexp.MustCompile(`\bberth(?:d|_[a-z]+)_[a-z_]+`)

type rule struct {
	Alert       string
	Expr        string
	Annotations map[string]string
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The rules as Prometheus itself reads them, and each of them.
func rules(t *testing.T) ([]byte, []rule) {
	t.Helper()
	var file struct {
		Spec struct {
			Groups []struct {
				Name  string
				Rules []rule
			}
		}
	}
	var plain struct{ Spec any }
	text := []byte(read(t, "deploy/monitoring/rules.yaml"))
	for _, into := range []any{&file, &plain} {
		if err := yaml.Unmarshal(text, into); err != nil {
			t.Fatal(err)
		}
	}
	out, err := yaml.Marshal(plain.Spec)
	if err != nil {
		t.Fatal(err)
	}
	var all []rule
	for _, group := range file.Spec.Groups {
		all = append(all, group.Rules...)
	}
	if len(all) < 15 {
		t.Fatalf("only %d rules", len(all))
	}
	return out, all
}

// Each alert fires on what it is about, and none on what is well.
func TestAlertsFire(t *testing.T) {
	text, all := rules(t)
	tests := read(t, "tests/packages/alerts.yaml")
	for _, one := range all {
		if !strings.Contains(tests, `alertname="`+one.Alert+`"`) {
			t.Errorf("no test of %s in tests/packages/alerts.yaml", one.Alert)
		}
	}
	folder := t.TempDir()
	for name, content := range map[string][]byte{"rules.yaml": text, "alerts.yaml": []byte(tests)} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"check", "rules", "rules.yaml"}, {"test", "rules", "alerts.yaml"}} {
		command := exec.Command("promtool", args...)
		command.Dir = folder
		if said, err := command.CombinedOutput(); err != nil {
			t.Fatalf("promtool %v (of the package prometheus): %v\n%s", args, err, said)
		}
	}
}

// The name of a metric without what a type puts after it.
func plain(metric string) string {
	for _, end := range []string{"_bucket", "_count", "_sum", "_total"} {
		metric = strings.TrimSuffix(metric, end)
	}
	return metric
}

type panel struct {
	Title   string
	Targets []struct{ Expr string }
}

// The panels of the dashboard.
func panels(t *testing.T) []panel {
	t.Helper()
	var board struct{ Panels []panel }
	if err := json.Unmarshal([]byte(read(t, "deploy/monitoring/dashboard.json")), &board); err != nil {
		t.Fatal(err)
	}
	return board.Panels
}

// Prometheus takes what each panel asks, with values for Grafana's variables.
func TestPanelsAreTaken(t *testing.T) {
	variable := regexp.MustCompile(`\$[a-z]+`)
	type record struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	type group struct {
		Name  string   `json:"name"`
		Rules []record `json:"rules"`
	}
	asked := group{Name: "panels"}
	for _, panel := range panels(t) {
		for _, target := range panel.Targets {
			expression := strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")
			expression = variable.ReplaceAllString(expression, "any")
			name := fmt.Sprintf("panel:%d", len(asked.Rules))
			asked.Rules = append(asked.Rules, record{name, expression})
		}
	}
	text, err := yaml.Marshal(map[string][]group{"groups": {asked}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "panels.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	said, err := exec.Command("promtool", "check", "rules", file).CombinedOutput()
	if err != nil || !strings.Contains(string(said), fmt.Sprintf("%d rules found", len(asked.Rules))) {
		t.Fatalf("promtool check rules: %v\n%s\n%s", err, said, text)
	}
}

// Every program of the centre with a port for it is scraped.
func TestCentreIsScraped(t *testing.T) {
	built, err := kustomize(t, append([]string{"workloads"}, without(components(t), "workloads")...))
	if err != nil {
		t.Fatal(err)
	}
	monitor, err := json.Marshal(built["PodMonitor/berth-system/berth"])
	if err != nil {
		t.Fatal(err)
	}
	programs := 0
	for key, object := range built {
		if object["kind"] != "Deployment" {
			continue
		}
		programs++
		labels := at(object, "spec", "template", "metadata", "labels")
		if name := fmt.Sprintf("%q", labels["app.kubernetes.io/name"]); !strings.Contains(string(monitor), name) {
			t.Errorf("deploy/monitoring/pods.yaml has no %s of %s", name, key)
		}
	}
	if programs < 3 {
		t.Errorf("only %d programs", programs)
	}
}

// What a rule or the dashboard names is in the programs.
func TestMetricsAreThere(t *testing.T) {
	known := map[string]metric{}
	for _, one := range metrics(t) {
		known[plain(one.name)] = one
	}
	check := func(where, expression string) {
		found := named.FindAllString(expression, -1)
		if len(found) == 0 {
			t.Errorf("%s names no metric: %s", where, expression)
		}
		for _, name := range found {
			one, there := known[plain(name)]
			if !there {
				t.Errorf("%s: no program has %s", where, name)
			}
			if there && one.kind == "counter" && !strings.HasSuffix(name, "_total") {
				t.Errorf("%s: the counter %s ends with _total", where, name)
			}
			if there && one.kind == "gauge" && name != one.name {
				t.Errorf("%s: %s is a gauge", where, one.name)
			}
		}
	}
	_, all := rules(t)
	for _, one := range all {
		check(one.Alert, strings.ReplaceAll(one.Expr, "berth_manager_(markers|sidecarsets|budgets|jobs|workloadspreads|persistentpodstates)",
			"berth_manager_markers berth_manager_sidecarsets berth_manager_budgets berth_manager_jobs "+
				"berth_manager_workloadspreads berth_manager_persistentpodstates"))
	}
	expressions := 0
	for _, panel := range panels(t) {
		for _, target := range panel.Targets {
			check("panel "+panel.Title, target.Expr)
			expressions++
		}
	}
	if expressions < 20 {
		t.Errorf("the dashboard asks only %d questions", expressions)
	}
}

// Who is woken by an alert finds what to do.
func TestAlertsAreExplained(t *testing.T) {
	page := read(t, "docs/troubleshooting.md")
	_, all := rules(t)
	for _, one := range all {
		if !strings.Contains(page, "`"+one.Alert+"`") {
			t.Errorf("docs/troubleshooting.md does not say what to do about %s", one.Alert)
		}
	}
}
