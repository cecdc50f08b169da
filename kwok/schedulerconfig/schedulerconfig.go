// Package schedulerconfig writes the KubeSchedulerConfiguration of a kube-scheduler that has the plugin
// Kubernasium (module kwok/scheduler), and holds the plugin's arguments.
package schedulerconfig

import (
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	componentconfig "k8s.io/component-base/config/v1alpha1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	"github.com/kubernasium/kubernasium/agents/live"
)

// Plugin is the plugin's name in profiles.
const Plugin = "Kubernasium"

// Rate of requests to the API server. Each binding is a request, so kube-scheduler's default of 50 per second
// would limit it to 50 pods per second.
const (
	qps   = 1000
	burst = 2000
)

// Values of Args.Order: the nodes among which the policy chooses.
const (
	OrderRespect  = "respect"  // among the nodes that satisfy users' stated preferences best, within a margin
	OrderPolicy   = "policy"   // among all nodes
	OrderTiebreak = "tiebreak" // among the nodes with kube-scheduler's highest default scores
)

// DefaultMargin is a tenth of the difference that one preference makes: 100 points of NodeAffinity with weight
// 2.
const DefaultMargin = 20

// Args are the plugin's arguments, in pluginConfig of a profile.
type Args struct {
	live.Args // model or baseline, env, options

	Budget       metav1.Duration `json:"budget,omitzero"`        // time limit of a decision, after which kube-scheduler's scores decide; default 100ms
	Order        string          `json:"order,omitempty"`        // precedence of users' preferences and the policy; default OrderRespect
	Margin       *int64          `json:"margin,omitempty"`       // how far a score may be below the best with OrderRespect; default DefaultMargin
	NodeSelector string          `json:"nodeSelector,omitempty"` // label selector of the nodes that pods may use and the policy sees; default all
	ReloadEvery  metav1.Duration `json:"reloadEvery,omitzero"`   // interval of checks of the model file; default 5s
	Serve        Serve           `json:"serve,omitzero"`
}

// Serve are the arguments of the plugin's endpoints: POST /score, GET /healthz and /metrics.
type Serve struct {
	Listen    string `json:"listen,omitempty"`    // address; default: no endpoints
	TokenFile string `json:"tokenFile,omitempty"` // file with the bearer token of requests; default: the variable KUBERNASIUM_TOKEN, if set. An address beyond loopback needs a token
}

// Profile is a scheduler name and the policy that places its pods.
type Profile struct {
	Name string
	Args Args
}

// Lease is the lease that elects one of several instances to schedule.
type Lease struct {
	Namespace, Name string
	Duration        time.Duration
}

// Config describes a kube-scheduler.
type Config struct {
	Kubeconfig string // path of the file; empty is the pod's service account
	Lease      *Lease // nil: no other instance runs
	Profiles   []Profile
	Default    bool // also a profile default-scheduler without the plugin
}

// YAML returns the KubeSchedulerConfiguration.
func (c *Config) YAML() ([]byte, error) {
	alone := configv1.PluginSet{Disabled: []configv1.Plugin{{Name: "*"}}, Enabled: []configv1.Plugin{{Name: Plugin}}}
	k := configv1.KubeSchedulerConfiguration{
		TypeMeta:         metav1.TypeMeta{APIVersion: configv1.SchemeGroupVersion.String(), Kind: "KubeSchedulerConfiguration"},
		ClientConnection: componentconfig.ClientConnectionConfiguration{Kubeconfig: c.Kubeconfig, QPS: qps, Burst: burst},
		LeaderElection:   componentconfig.LeaderElectionConfiguration{LeaderElect: new(bool)},
	}
	if c.Lease != nil {
		*k.LeaderElection.LeaderElect = true
		k.LeaderElection.ResourceNamespace, k.LeaderElection.ResourceName = c.Lease.Namespace, c.Lease.Name
		// The same times as kube-scheduler's 15, 10 and 2 s.
		k.LeaderElection.LeaseDuration.Duration, k.LeaderElection.RenewDeadline.Duration = c.Lease.Duration, c.Lease.Duration*2/3
		k.LeaderElection.RetryPeriod.Duration = c.Lease.Duration * 2 / 15
	}
	if c.Default {
		k.Profiles = append(k.Profiles, configv1.KubeSchedulerProfile{SchedulerName: new("default-scheduler")})
	}
	for i := range c.Profiles {
		p := &c.Profiles[i]
		args, err := json.Marshal(p.Args)
		if err != nil {
			return nil, fmt.Errorf("schedulerconfig: profile %s: %w", p.Name, err)
		}
		k.Profiles = append(k.Profiles, configv1.KubeSchedulerProfile{
			SchedulerName:            &p.Name,
			PercentageOfNodesToScore: new(int32(100)), // the policy sees every feasible node
			Plugins: &configv1.Plugins{
				MultiPoint: configv1.PluginSet{Enabled: []configv1.Plugin{{Name: Plugin}}},
				// The plugin calls kube-scheduler's own score plugins only where they matter.
				PreScore: alone, Score: alone,
				// Before DefaultBinder, because only the plugin's binding states the devices of a pod.
				Bind: configv1.PluginSet{Disabled: alone.Disabled, Enabled: []configv1.Plugin{{Name: Plugin}, {Name: "DefaultBinder"}}},
			},
			PluginConfig: []configv1.PluginConfig{{Name: Plugin, Args: runtime.RawExtension{Raw: args}}},
		})
	}
	return marshal(k)
}

// marshal omits unset fields, which the versioned types would write.
func marshal(k configv1.KubeSchedulerConfiguration) ([]byte, error) {
	text, err := json.Marshal(k)
	if err != nil {
		return nil, err
	}
	var fields any
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	prune(fields)
	return yaml.Marshal(fields)
}

// prune removes empty objects, empty texts and "0s", which mean defaults.
func prune(v any) (empty bool) {
	switch x := v.(type) {
	case map[string]any:
		for key, value := range x {
			if prune(value) {
				delete(x, key)
			}
		}
		return len(x) == 0
	case []any:
		for _, value := range x {
			prune(value)
		}
		return len(x) == 0
	case string:
		return x == "" || x == "0s"
	}
	return v == nil
}
