// Command kubelet is the kubelet of a test node: the client that Berth stands in front of.
package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	os.Exit(cli.Run(command()))
}

// The function is another one from 1.34 on, and this has to compile with each.
func command() *cobra.Command {
	switch command := any(app.NewKubeletCommand).(type) {
	case func(context.Context) *cobra.Command:
		return command(context.Background())
	case func() *cobra.Command:
		return command()
	default:
		panic("the kubelet's command is made in a way we do not know")
	}
}
