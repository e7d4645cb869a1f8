package packages

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// Rows of docs/compatibility.md that are about a name or a kind of OpenKruise.
var rowsOf = map[string][]int{
	"KRUISE_CONTAINER_PRIORITY":                                    {19},
	"KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE":                    {92},
	"KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT":                       {89, 91, 92},
	"KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE":            {90},
	"SIDECARSET_VERSION":                                           {74},
	"SIDECARSET_VERSION_ALT":                                       {74},
	"version.sidecarset.kruise.io/NAME":                            {74},
	"versionalt.sidecarset.kruise.io/NAME":                         {74},
	"InPlaceUpdateReady":                                           {13},
	"KruisePodReady":                                               {6, 13},
	"apps.kruise.io/cloneset-instance-id":                          {49},
	"apps.kruise.io/cloneset-scaling-exclude-preparing-delete":     {48},
	"apps.kruise.io/container-launch-priority":                     {18},
	"apps.kruise.io/controller-revision-hash":                      {68},
	"apps.kruise.io/fake-nodeimage":                                {16},
	"apps.kruise.io/image-predownload-ignored":                     {43, 64},
	"apps.kruise.io/image-predownload-min-updated-ready-pods":      {43, 64},
	"apps.kruise.io/image-predownload-parallelism":                 {44},
	"apps.kruise.io/image-predownload-timeout-seconds":             {43},
	"apps.kruise.io/inplace-update-grace":                          {42},
	"apps.kruise.io/inplace-update-state":                          {46},
	"apps.kruise.io/matched-workloadspread":                        {118},
	"apps.kruise.io/pre-predownload-created":                       {43, 64},
	"apps.kruise.io/runtime-containers-meta":                       {20},
	"apps.kruise.io/scheduled-at":                                  {65},
	"apps.kruise.io/sidecarset-base":                               {71},
	"apps.kruise.io/sidecarset-canary":                             {71},
	"apps.kruise.io/sidecarset-custom-version":                     {78},
	"apps.kruise.io/specified-delete":                              {34},
	"apps.kruise.io/subset-name":                                   {68},
	"crr.apps.kruise.io/active":                                    {2},
	"crr.apps.kruise.io/node-name":                                 {2},
	"crr.apps.kruise.io/pod-uid":                                   {2},
	"crr.apps.kruise.io/unready-acquired":                          {6},
	"daemonset.kruise.io/progressive-create-pod":                   {63},
	"kruise.io/auto-generate-persistent-pod-state":                 {115},
	"kruise.io/injected-persistent-pod-state":                      {112},
	"kruise.io/node-pod-probe-cleanup":                             {22},
	"kruise.io/persistent-pod-annotations":                         {115},
	"kruise.io/preferred-persistent-topology":                      {114, 115},
	"kruise.io/pub-protect-operations":                             {107, 108},
	"kruise.io/required-persistent-topology":                       {113, 115},
	"kruise.io/resourcedistribution.resource.from":                 {125},
	"kruise.io/resourcedistribution.resource.hashcode":             {125},
	"kruise.io/sidecarset-hash":                                    {71},
	"kruise.io/sidecarset-hash-without-image":                      {71},
	"kruise.io/sidecarset-injected-list":                           {71},
	"kruise.io/sidecarset-inplace-update-state":                    {71},
	"kruise.io/sidecarset-name":                                    {76},
	"kruise.io/sidecarset-working-hotupgrade-container":            {74},
	"lifecycle.apps.kruise.io/state":                               {51},
	"lifecycle.apps.kruise.io/timestamp":                           {51},
	"policy.kruise.io/delete-protection":                           {93},
	"pub.kruise.io/no-protect":                                     {109},
	"pub.kruise.io/protect-total-replicas":                         {110},
	"unavailable-pod.kruise.io/NAME":                               {108},
	"workloadspread.kruise.io/ignore-patch-existing-pods-metadata": {123},
	"AdvancedCronJob":                                              {65, 67},
	"BroadcastJob":                                                 {66},
	"CloneSet":                                                     {26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 47, 48, 49, 50, 51, 52},
	"ContainerRecreateRequest":                                     {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12},
	"DaemonSet":                                                    {60, 61, 62, 63, 64},
	"ImagePullJob":                                                 {14, 15},
	"NodeImage":                                                    {16, 17},
	"NodePodProbe":                                                 {22},
	"PersistentPodState":                                           {112, 113, 114, 115},
	"PodProbeMarker":                                               {22, 23, 24},
	"PodUnavailableBudget":                                         {104, 105, 106, 107, 108, 109, 110, 111},
	"ResourceDistribution":                                         {125, 126, 127, 128},
	"SidecarSet":                                                   {71, 72, 73, 74, 75, 76, 77, 78, 79, 80, 81, 82, 83, 84, 86, 87, 88},
	"StatefulSet":                                                  {51, 52, 54, 55, 56, 57, 58, 59},
	"UnitedDeployment":                                             {68, 69, 129},
	"WorkloadSpread":                                               {117, 118, 119, 120, 121, 122, 123, 124},
}

var row = regexp.MustCompile("(?m)^\\| (\\d+) [^|]*\\| `([a-z ]+)`")

// How a name or a kind does in Berth what it does in OpenKruise, by the rows that are about it; those of Berth are `ours`. A row that
// differs makes all differ, and is named.
func compared(t *testing.T, name string) string {
	t.Helper()
	if strings.Contains(name, "berth.dev/") {
		return "`ours`"
	}
	states := map[string]string{}
	for _, found := range row.FindAllStringSubmatch(read(t, "docs/compatibility.md"), -1) {
		states[found[1]] = found[2]
	}
	numbers, known := rowsOf[name]
	if !known {
		t.Errorf("%s is in no row of docs/compatibility.md: name those that are about it in rowsOf, or add one", name)
	}
	var differing []string
	for _, number := range numbers {
		switch state := states[fmt.Sprint(number)]; state {
		case "as there", "not needed":
		case "differs", "not built":
			differing = append(differing, fmt.Sprint(number))
		default:
			t.Errorf("%s: docs/compatibility.md has no row %d", name, number)
		}
	}
	if len(differing) == 0 {
		return "`as there`"
	}
	return "`differs` (" + strings.Join(differing, ", ") + ")"
}

// Each name that rowsOf has is on a page.
func TestComparedNamesAreThere(t *testing.T) {
	pages := read(t, "docs/annotations.md") + read(t, "docs/kinds.md")
	for name := range rowsOf {
		if !strings.Contains(pages, "| `"+name+"` |") && !strings.Contains(pages, "## "+name+"\n") {
			t.Errorf("no page has %s", name)
		}
	}
}

// Fields of OpenKruise's kinds that only Berth's definitions have, with all below them.
var ours = map[string][]string{
	"AdvancedCronJob":          {"status.conditions", "status.decidedUntil", "status.missed", "status.missedBefore", "status.observedGeneration", "status.starting"},
	"BroadcastJob":             {"status.acceptedFailures", "status.observedGeneration"},
	"ContainerRecreateRequest": {"status.conditions", "status.containerStatusContexts", "status.nodeName", "status.podUID"},
	"ImagePullJob":             {"status.conditions", "status.endedNodes", "status.endedNodesTime"},
	"NodeImage":                {"status.conditions", "status.desiredImages", "status.pulls", "status.sealingKey"},
	"NodePodProbe":             {"status.conditions", "status.desiredPodProbes"},
	"PersistentPodState":       {"status.conditions"},
	"PodProbeMarker":           {"status.conditions"},
	"PodUnavailableBudget":     {"status.conditions"},
	"SidecarSet":               {"status.conditions", "status.history", "status.notInjectedPods", "status.revisions"},
	"WorkloadSpread":           {"status.conditions", "status.observedReplicas"},
}

// The rows of a kind's fields, with `ours` at the ends of those that OpenKruise has not.
func marked(t *testing.T, kind, rows string) string {
	t.Helper()
	for _, path := range ours[kind] {
		begin := "| `" + path + "` | "
		at := strings.Index(rows, begin)
		if at < 0 {
			t.Errorf("%s has no %s", kind, path)
			continue
		}
		end := at + strings.Index(rows[at:], " |\n")
		rows = rows[:end] + " `ours`" + rows[end:]
	}
	return rows
}
