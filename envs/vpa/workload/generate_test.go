package workload_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/workload"
)

const mib = 1 << 20

// amounts returns samples of pairs of millicores and MiB.
func amounts(pairs ...[2]int64) []cluster.Resources {
	var out []cluster.Resources
	for _, p := range pairs {
		out = append(out, cluster.Resources{MilliCPU: p[0], MemoryBytes: p[1] * mib})
	}
	return out
}

func series(t *testing.T, config string) []cluster.Resources {
	t.Helper()
	c, err := workload.ReadConfig(strings.NewReader(config))
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Series()
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Usage) != c.Timesteps {
		t.Fatalf("%d samples, want %d", len(s.Usage), c.Timesteps)
	}
	return s.Usage
}

// TestLaws works the rules of the earlier project's generators by hand.
func TestLaws(t *testing.T) {
	for _, tc := range []struct {
		config string
		want   []cluster.Resources
	}{
		{`{"type":"constant","timesteps":3}`, amounts([2]int64{100, 1000}, [2]int64{100, 1000}, [2]int64{100, 1000})},
		{`{"type":"low_high","timesteps":5}`, amounts([2]int64{500, 2500}, [2]int64{1000, 5000}, [2]int64{500, 2500}, [2]int64{1000, 5000}, [2]int64{500, 2500})},
		{`{"type":"low_high","timesteps":5,"period":2}`, amounts([2]int64{500, 2500}, [2]int64{500, 2500}, [2]int64{1000, 5000}, [2]int64{1000, 5000}, [2]int64{500, 2500})},
		// θ is 0, π/2, π, 3π/2, 2π: half, full, half, none, half of the height.
		{`{"type":"sinusoidal","timesteps":5,"num_peaks":2}`, amounts([2]int64{500, 2500}, [2]int64{1000, 5000}, [2]int64{500, 2500}, [2]int64{0, 0}, [2]int64{500, 2500})},
		// No steps: half of the height throughout.
		{`{"type":"step","timesteps":2,"max_steps":[0,0]}`, amounts([2]int64{500, 2500}, [2]int64{500, 2500})},
		// A law without noise: level 100, in bursts never.
		{`{"type":"random_walk","timesteps":2,"law":{"cpu":100,"memory":10,"weekend":1,"fade_s":60,"burst_factor":1,"burst_s":60,"burst_memory":1}}`,
			amounts([2]int64{100, 10}, [2]int64{100, 10})},
	} {
		if diff := cmp.Diff(tc.want, series(t, tc.config)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.config, diff)
		}
	}
}

// TestSinusoidalPeaks: five half periods from half height on have three maxima.
func TestSinusoidalPeaks(t *testing.T) {
	u := series(t, `{"type":"sinusoidal"}`)
	peaks := 0
	for i := 1; i < len(u)-1; i++ {
		if u[i].MilliCPU > u[i-1].MilliCPU && u[i].MilliCPU >= u[i+1].MilliCPU {
			peaks++
		}
	}
	if peaks != 3 || u[0].MilliCPU != 500 || u[len(u)-1].MilliCPU != 500 {
		t.Errorf("%d maxima from %d to %d, want 3 from 500 to 500", peaks, u[0].MilliCPU, u[len(u)-1].MilliCPU)
	}
}

// TestStepWalk: each sample is the one before plus −1, 0 or 1 hundredth of the height, each
// about as often.
func TestStepWalk(t *testing.T) {
	u := series(t, `{"type":"step","timesteps":20000,"step_unit":[0.0001,0.0001]}`)
	counts := map[int64]int{}
	for i := 1; i < len(u); i++ {
		// A ten-thousandth of 5000 MiB is half a MiB: 524288 bytes.
		counts[(u[i].MemoryBytes-u[i-1].MemoryBytes)/524288]++
	}
	for _, k := range []int64{-1, 0, 1} {
		// A third of 20000 has a standard deviation of 67: five of them.
		if c := counts[k]; c < 6667-335 || c > 6667+335 {
			t.Errorf("%d steps of %d, want about 6667", c, k)
		}
	}
	if len(counts) != 3 {
		t.Errorf("steps %v, want -1, 0 and 1 only", counts)
	}
}

// TestSeedParameters: our defaults are the earlier project's parameters.
func TestSeedParameters(t *testing.T) {
	root := os.Getenv("KUBERNASIUM_DATA")
	if root == "" {
		root = filepath.Join("..", "..", "..", "..", "shared", "data") // beside the repository's root
	}
	data, err := os.ReadFile(filepath.Join(root, "vpa", "seed_workloads.json"))
	if err != nil {
		t.Skipf("%v: set KUBERNASIUM_DATA to the folder that holds vpa/ to enable this test", err)
	}
	var file struct {
		Container  workload.Container `json:"container_default"`
		Generators map[string]struct {
			Timesteps    int              `json:"timesteps"`
			TimeInterval float64          `json:"time_interval"`
			Seed         uint64           `json:"seed"`
			Usage        workload.Amounts `json:"usage"`
			MinUsage     workload.Amounts `json:"min_usage"`
			MaxUsage     workload.Amounts `json:"max_usage"`
			NumPeaks     int              `json:"num_peaks"`
			Start        [2]float64       `json:"start_fraction"`
			Unit         [2]float64       `json:"step_unit"`
			MaxSteps     [2]int           `json:"max_steps"`
		} `json:"generators"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	for kind, theirs := range map[string]string{"constant": "constant", "low_high": "lowhigh", "sinusoidal": "sinusoidal", "step": "step"} {
		got, err := workload.DefaultConfig(kind)
		if err != nil {
			t.Fatal(err)
		}
		g := file.Generators[theirs]
		want := workload.Config{
			Type: kind, Timesteps: g.Timesteps, TimeInterval: g.TimeInterval, Seed: g.Seed, Usage: g.Usage, MinUsage: g.MinUsage,
			MaxUsage: g.MaxUsage, NumPeaks: g.NumPeaks, Start: g.Start, Unit: g.Unit, MaxSteps: g.MaxSteps, Container: file.Container,
		}
		if kind == "low_high" {
			want.Period = 1
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
	}
}

func TestConfigErrors(t *testing.T) {
	for _, tc := range []struct{ config, want string }{
		{`{"type":"waves"}`, `workload type "waves", want one of constant, low_high`},
		{`{"type":"constant","timestep":3}`, `unknown field "timestep"`},
		{`{"type":"constant","timesteps":0}`, "timesteps is 0, want 1 to"},
		{`{"type":"low_high","period":0}`, "period is 0, want 1 or more"},
		{`{"type":"low_high","max_usage":{"memory":-1,"cpu":5}}`, "want each from 0 to 1e9"},
		{`{"type":"step","start_fraction":[2,0]}`, "start_fraction is 2, want 0 to 1"},
		{`{"type":"azure","law":{"cpu":100}}`, "fade_s is 0, want 1 to"},
		{`[]`, "workload config"},
	} {
		if _, err := workload.ReadConfig(strings.NewReader(tc.config)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.config, err, tc.want)
		}
	}
}

// means returns the mean CPU and the mean memory of usage.
func means(usage []cluster.Resources) (cpu, mem float64) {
	for _, u := range usage {
		cpu, mem = cpu+float64(u.MilliCPU), mem+float64(u.MemoryBytes)
	}
	n := float64(len(usage))
	return cpu / n, mem / n
}

// TestPublishedStatistics draws workloads named after traces and compares with what was
// published of the traces (README.md names the sources).
func TestPublishedStatistics(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	const n = 4000
	t.Run("azure", func(t *testing.T) {
		// 60 % of machines use less than 20 % of their CPU on average, and half of the machines
		// have one core, 30 % two, 14 % four, 5 % eight, 1 % sixteen. So P(mean < 200 m) is the
		// sum over sizes of P(utilisation < 0.2/cores), by Φ((ln(0.2/cores) − ln 0.14)/1.2):
		// 0.5·0.6168 + 0.3·0.3896 + 0.14·0.1959 + 0.05·0.0759 + 0.01·0.0223 = 0.4567.
		low := 0
		for range n {
			if workload.Draw(workload.Azure, 1, 300, rng).Law.CPU < 200 {
				low++
			}
		}
		// A standard deviation of 0.008: five of them.
		if got := float64(low) / n; math.Abs(got-0.4567) > 0.04 {
			t.Errorf("%v of machines below 200 m, want about 0.457", got)
		}
	})
	t.Run("alibaba", func(t *testing.T) {
		// CPU has a daily cycle, memory is about constant.
		for range 50 {
			c := workload.Draw(workload.Alibaba, 1440, 60, rng)
			u := c.Append(t.Context(), nil, rng)
			_, mem := means(u)
			worst := 0.0
			var wave, norm float64 // projection of CPU on the day's wave
			cpu, _ := means(u)
			for i, x := range u {
				worst = max(worst, math.Abs(float64(x.MemoryBytes)/mem-1))
				phase := math.Sin(2 * math.Pi * ((c.Law.Start+60*float64(i))/86400 - 0.375))
				wave += phase * (float64(x.MilliCPU)/cpu - 1)
				norm += phase * phase
			}
			if worst > 0.1 {
				t.Errorf("memory differs by %v from its mean", worst)
			}
			if amplitude := wave / norm; amplitude < 0.1 {
				t.Errorf("amplitude of the day is %v, want 0.1 or more", amplitude)
			}
		}
	})
	t.Run("borg", func(t *testing.T) {
		// Hill's estimate of the tail's index from the largest tenth below the cut: about 0.7.
		var sizes []float64
		for range n {
			sizes = append(sizes, workload.Draw(workload.Borg, 1, 300, rng).Law.CPU)
		}
		slices.Sort(sizes)
		over := 0
		for _, s := range sizes {
			if s > 500 {
				over++
			}
		}
		// P(size > 10·low) of a Pareto of index 0.7 from 50 m, cut off at 16 cores:
		// (10^-0.7 − 320^-0.7)/(1 − 320^-0.7) = 0.1852.
		if got := float64(over) / n; math.Abs(got-0.1852) > 0.03 {
			t.Errorf("%v of jobs above ten times the least, want 0.185", got)
		}
	})
}

// TestConfigIsRecipe: a config that has drawn its law gives its series again, by way of JSON.
func TestConfigIsRecipe(t *testing.T) {
	c, err := workload.DefaultConfig(workload.Borg)
	if err != nil {
		t.Fatal(err)
	}
	c.Timesteps = 50
	first, err := c.Series()
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first.Usage, series(t, string(data))); diff != "" {
		t.Errorf("again (-first +again):\n%s", diff)
	}
}

// TestDrawsAreValid draws every type many times.
func TestDrawsAreValid(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for _, kind := range workload.Types() {
		for range 200 {
			c := workload.Draw(kind, 30, 60, rng)
			if err := c.Validate(); err != nil {
				t.Fatal(err)
			}
			if u := c.Append(t.Context(), nil, rng); workload.Max(u) == (cluster.Resources{}) {
				t.Errorf("%s: no usage at all: %+v", kind, c)
			}
		}
	}
}
