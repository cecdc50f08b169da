package gang

import (
	"os"
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/yaml"
)

// TestManifests: the Jobs of profiler and runner are Jobs, and call commands that there are, with their flags.
func TestManifests(t *testing.T) {
	for _, name := range []string{"profile", "run"} {
		text, err := os.ReadFile("../../../kwok/bsp/gangworker/manifests/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		var j batchv1.Job
		if err := yaml.UnmarshalStrict(text, &j); err != nil {
			t.Fatal(err)
		}
		args := j.Spec.Template.Spec.Containers[0].Args
		if args[0] != "gang" || args[1] != name {
			t.Errorf("%s: %q", name, args)
		}
		cmd, flags, err := New().Find(args[1:])
		if err == nil {
			err = cmd.ParseFlags(flags)
		}
		if err != nil || cmd.Name() != name {
			t.Errorf("%s: %q: %v", name, args, err)
		}
		for _, flag := range []string{"image", "namespace", "allow-real-nodes", "workloads"} {
			if !cmd.Flags().Changed(flag) {
				t.Errorf("%s: no --%s in %q", name, flag, slices.Sorted(slices.Values(flags)))
			}
		}
	}
}
