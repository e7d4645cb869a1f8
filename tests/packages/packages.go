// Package packages tests what of Berth is installed in clusters: the kustomizations of deploy/, the chart of charts/, and the rules for
// alerts. Nothing runs for it: no cluster, no node, and of helm and kustomize only the libraries.
package packages
