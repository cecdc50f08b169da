//go:build linux

package local

import (
	"context"
	"errors"
	"math"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/kwok/bsp"
)

var ctx = context.Background()

// limit ends a superstep that hangs; in an emulated machine the work takes minutes.
const limit = 15 * time.Minute

// open returns an executor, or skips the test.
func open(t *testing.T, limits func() (Limits, error)) *Executor {
	t.Helper()
	if _, err := exec.LookPath("stress-ng"); err != nil {
		t.Skip("needs stress-ng: apt-get install stress-ng; .ci/run does")
	}
	l, err := limits()
	if err != nil {
		t.Fatal(err)
	}
	e, err := Open(ctx, l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func v1() (Limits, error) { return OpenCgroups(1) }
func v2() (Limits, error) { return OpenCgroups(2) }

// cpu is work that needs nothing but the CPU.
func cpu(t *testing.T, tasks ...string) []bsp.Work {
	t.Helper()
	works, err := bsp.ParseWorks(tasks)
	if err != nil {
		t.Fatal(err)
	}
	return works
}

// burn returns the CPU seconds of the processes that have ended below this one.
func burn(t *testing.T) float64 {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u); err != nil {
		t.Fatal(err)
	}
	return (time.Duration(u.Utime.Nano()) + time.Duration(u.Stime.Nano())).Seconds()
}

// TestLimits: whatever the method, processes use the CPU seconds of their share. A process that uses 0.4 s
// of CPU on 200 millicores takes 2 s; the first 20 ms are free.
func TestLimits(t *testing.T) {
	for name, limits := range map[string]func() (Limits, error){"cgroup v2": v2, "cgroup v1": v1, "affinity and duty cycle": NewDuty} {
		if l, err := limits(); errors.Is(err, ErrNoCgroup) {
			t.Logf("not on this machine: %v", err) // which has one version, and as another user than root perhaps none
			continue
		} else if err == nil {
			_ = l.Close()
		}
		t.Run(name, func(t *testing.T) {
			e := open(t, limits)
			if !strings.Contains(e.Setting(), name) || !strings.Contains(e.Setting(), "stress-ng") {
				t.Errorf("setting %q, want one that names stress-ng and %s", e.Setting(), name)
			}
			c, err := e.Start(ctx, bsp.Job{Works: cpu(t, "vecmath:160"), MilliCPU: []int64{200}, Method: bsp.Resize, Limit: limit})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			before := burn(t)
			d, err := c.Superstep(ctx, []float64{8})
			if err != nil {
				t.Fatal(err)
			}
			used := burn(t) - before
			// The kernel and a duty cycle count by ticks, and a loaded machine gives less than the share, never more.
			if most := 0.2*d[0].Seconds() + 0.15; used > 1.25*most {
				t.Errorf("%v s of CPU in %v, want at most a fifth", used, d[0])
			}
			if used < 0.1 {
				t.Errorf("%v s of CPU in %v, want some", used, d[0])
			}
		})
	}
}

// TestQuota: a share of 250 millicores is 25 ms in each 100 ms, in the files of the kernel's documentation.
func TestQuota(t *testing.T) {
	for version, want := range map[int][2]string{2: {"cpu.max", "25000 100000"}, 1: {"cpu.cfs_quota_us", "25000"}} {
		file, text := (&cgroups{version: version}).quota(250)
		if got := [2]string{file, text}; got != want {
			t.Errorf("version %d: %q, want %q", version, got, want)
		}
	}
}

// TestCgroupDir finds the folder of this process's group in hierarchies as systemd, Docker and Kubernetes mount them.
func TestCgroupDir(t *testing.T) {
	const (
		hybrid = "30 25 0:26 / /sys/fs/cgroup/unified rw,nosuid shared:5 - cgroup2 cgroup2 rw\n" +
			"33 25 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
		container = "700 690 0:26 /kubepods/pod1 /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw,nsdelegate\n"
	)
	for _, tc := range []struct {
		name        string
		version     int
		mounts, own string
		want        string
	}{
		{"v1 beside v2", 1, hybrid, "4:cpu,cpuacct:/user.slice\n0::/user.slice\n", "/sys/fs/cgroup/cpu,cpuacct/user.slice"},
		{"v2 beside v1", 2, hybrid, "4:cpu,cpuacct:/\n0::/init.scope\n", "/sys/fs/cgroup/unified/init.scope"},
		{"host's path in a container", 2, container, "0::/kubepods/pod1/main\n", "/sys/fs/cgroup/main"},
		{"namespace", 2, container, "0::/\n", "/sys/fs/cgroup"},
		{"no v1", 1, container, "0::/\n", ""},
		{"no group", 2, container, "5:cpu:/\n", ""},
	} {
		_, dir, err := cgroupDir(tc.version, tc.mounts, tc.own)
		if dir != tc.want || (err == nil) != (tc.want != "") || err != nil && !errors.Is(err, ErrNoCgroup) {
			t.Errorf("%s: %q, %v; want %q", tc.name, dir, err, tc.want)
		}
	}
}

// TestMethods: after each way of re-planning, supersteps run under the new shares, and processes of none are left.
func TestMethods(t *testing.T) {
	for _, m := range []bsp.Method{bsp.Resize, bsp.RecreateAll, bsp.RecreateChanged} {
		t.Run(string(m), func(t *testing.T) {
			e := open(t, OpenLimits)
			job := bsp.Job{Works: cpu(t, "vecmath:160", "memcpy:9"), MilliCPU: []int64{100, 900}, Method: m, Limit: limit}
			crew, err := e.Start(ctx, job)
			if err != nil {
				t.Fatal(err)
			}
			defer crew.Close()
			slow, err := crew.Superstep(ctx, []float64{3, 1})
			if err != nil {
				t.Fatal(err)
			}
			if err := crew.Replan(ctx, []int64{900, 100}); err != nil {
				t.Fatal(err)
			}
			fast := []time.Duration{time.Hour}
			for try := 0; try < 20 && fast[0] > slow[0]*3/4; try++ { // until other programs do not disturb it
				took, err := crew.Superstep(ctx, []float64{3, 1})
				if err != nil {
					t.Fatal(err)
				}
				if took[0] < fast[0] {
					fast = took
				}
			}
			// About 0.15 s of CPU on a tenth of a core take 1.5 s; the load of the machine bears upon both.
			if len(slow) != 2 || len(fast) != 2 || slow[0] < 600*time.Millisecond || fast[0] > slow[0]*3/4 {
				t.Errorf("on 100 millicores %v, on 900 %v; want the second to be much faster", slow, fast)
			}
		})
	}
}

// TestDead: a task that ends without its work ends the superstep at once, with its name and what it said.
func TestDead(t *testing.T) {
	e := open(t, OpenLimits)
	crew, err := e.Start(ctx, bsp.Job{Works: []bsp.Work{{Task: "vecmath", Ops: 1e8}, {Task: "nothing", Ops: 1}}, MilliCPU: []int64{500, 500}, Method: bsp.Resize, Limit: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer crew.Close()
	begin := time.Now()
	if _, err := crew.Superstep(ctx, []float64{1, 1}); !errors.Is(err, bsp.ErrDead) || !strings.Contains(err.Error(), "superstep 0: ") || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("a stressor that does not exist: %v, want %v", err, bsp.ErrDead)
	}
	if err := crew.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took > time.Minute {
		t.Errorf("it took %v until the superstep was over and everything gone", took)
	}
}

// TestLate: a task that is not at the barrier within the limit ends the superstep.
func TestLate(t *testing.T) {
	for name, limits := range map[string]func() (Limits, error){"limits": OpenLimits, "duty": NewDuty} {
		t.Run(name, func(t *testing.T) {
			e := open(t, limits)
			crew, err := e.Start(ctx, bsp.Job{Works: []bsp.Work{{Task: "vecmath", Ops: 1e8}, {Task: "memcpy", Ops: 1}}, MilliCPU: []int64{100, 900}, Method: bsp.Resize, Limit: 6 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			_, err = crew.Superstep(ctx, []float64{1, 1})
			if !errors.Is(err, bsp.ErrLate) || !strings.Contains(err.Error(), "have not ended: vecmath;") {
				t.Errorf("work without end: %v, want %v of vecmath", err, bsp.ErrLate)
			}
			if err := crew.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestStartRefuses names the bound of a share.
func TestStartRefuses(t *testing.T) {
	e := open(t, NewDuty)
	works := []bsp.Work{{Task: "cap", Ops: 1}, {Task: "zero", Ops: 1}}
	most := e.MaxMilliCPU()
	for _, tc := range []struct {
		job  bsp.Job
		want string
	}{
		{bsp.Job{Works: works, MilliCPU: []int64{1e9, 100}, Method: bsp.Resize, Limit: 1}, "1000000000 millicores, want 10 to "},
		{bsp.Job{Works: works, MilliCPU: []int64{9, 100}, Method: bsp.Resize, Limit: 1}, "9 millicores, want 10 to "},
		{bsp.Job{Works: works, MilliCPU: []int64{most, 100}, Method: bsp.Resize, Limit: 1}, "together, want at most"},
		{bsp.Job{Works: works, MilliCPU: []int64{100}, Method: bsp.Resize, Limit: 1}, "1 shares for 2 tasks"},
		{bsp.Job{Works: works, MilliCPU: []int64{100, 100}, Method: "none", Limit: 1}, `method "none"`},
		{bsp.Job{Works: works, MilliCPU: []int64{100, 100}, Method: bsp.Resize}, "limit of 0s"},
	} {
		if _, err := e.Start(ctx, tc.job); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: %v, want an error with %q", tc.job, err, tc.want)
		}
	}
	crew, err := e.Start(ctx, bsp.Job{Works: works, MilliCPU: []int64{100, 100}, Method: bsp.Resize, Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer crew.Close()
	if _, err := crew.Superstep(ctx, []float64{math.Inf(1), 1}); err == nil || !strings.Contains(err.Error(), "at most 1e+08") {
		t.Errorf("a workload without end: %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := Open(ctx, nil); !errors.Is(err, ErrNoStress) || !strings.Contains(err.Error(), "apt-get install stress-ng") {
		t.Errorf("without stress-ng: %v, want %v", err, ErrNoStress)
	}
}
