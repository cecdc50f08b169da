package compliance_test

import (
	"testing"

	_ "github.com/kubernasium/kubernasium/envs/all"
	"github.com/kubernasium/kubernasium/server/compliance"
	"github.com/kubernasium/kubernasium/server/guard"
	"github.com/kubernasium/kubernasium/server/host"
	"github.com/kubernasium/kubernasium/server/host/hosttest"
)

func TestCompliance(t *testing.T) {
	s := hosttest.Start(t, func(c *host.Config) { c.Guard.Accept = guard.Only("a token") })
	compliance.Run(t, s.WS, compliance.Options{Token: "a token"})
}

// few are limits of which the suite takes all.
func few(c *host.Config) { c.Limits.EnvsMake, c.Limits.EnvsSession, c.Limits.Snapshots = 128, 256, 200 }

func TestComplianceWithInfos(t *testing.T) {
	if testing.Short() {
		t.Skip("hundreds of episodes of an environment that plans; run without -short")
	}
	s := hosttest.Start(t, few)
	compliance.Run(t, s.WS, compliance.Options{Env: "k8s/GangWindow-v0"})
}

func TestComplianceWithParts(t *testing.T) {
	s := hosttest.Start(t, few)
	compliance.Run(t, s.WS, compliance.Options{Env: "k8s/PodBalance-v0"})
}
