// Command scheduler is kube-scheduler with the plugin Kubernasium. Its flags, configuration, events, metrics
// and leases are kube-scheduler's.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/kubernasium/kubernasium/kwok/scheduler/plugin"
)

func main() {
	cmd := app.NewSchedulerCommand(app.WithPlugin(plugin.Name, plugin.New))
	cmd.Use = "kubernasium-scheduler"
	os.Exit(cli.Run(cmd))
}
