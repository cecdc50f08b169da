//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/prometheus/procfs"

	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/launch"
	"github.com/kubernasium/kubernasium/kwok/stages"
	"github.com/kubernasium/kubernasium/tools/cputime"
)

const profileSeconds = 20

// A plane is a running control plane.
type plane struct {
	*launch.ControlPlane
	api    rest.Interface
	stages string // folder of the stages' files
	log    bytes.Buffer
}

// startPlane starts a control plane with additional flags. It shows the log only if the start fails: KWOK logs
// each pod that it plays twice, which happens when a new API server drops its watch.
func startPlane(ctx context.Context, flags []string) (*plane, error) {
	dir, err := os.MkdirTemp("", "benchkwok")
	if err != nil {
		return nil, err
	}
	p := &plane{stages: dir}
	files, err := stages.Write(dir)
	if err == nil {
		args := append([]string{"--stages=" + strings.Join(files, ",")}, flags...)
		p.ControlPlane, err = launch.Start(ctx, launch.Options{Args: args, Stderr: &p.log})
	}
	if err != nil {
		return nil, errors.Join(err, errors.New(p.log.String()), os.RemoveAll(dir))
	}
	rc, err := clientcmd.BuildConfigFromFlags("", p.Kubeconfig)
	if err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	p.api = client.CoreV1().RESTClient()
	return p, nil
}

// Stop stops the control plane and removes its stages.
func (p *plane) Stop() error {
	err := p.ControlPlane.Stop()
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, &p.log)
	}
	return errors.Join(err, os.RemoveAll(p.stages))
}

func (p *plane) options() kwok.Options { return kwok.Options{Kubeconfig: p.Kubeconfig} }

// residentBytes returns the resident memory of the process.
func (p *plane) residentBytes() (float64, error) {
	process, err := procfs.NewProc(p.PID)
	if err != nil {
		return 0, err
	}
	status, err := process.NewStatus()
	return float64(status.VmRSS), err
}

// cpuSeconds returns the CPU time of the process.
func (p *plane) cpuSeconds() (float64, error) {
	process, err := procfs.NewProc(p.PID)
	if err != nil {
		return 0, err
	}
	stat, err := process.Stat()
	return stat.CPUTime(), err
}

// live collects garbage in the control plane, and returns the bytes in use in its heap and in etcd's database.
func (p *plane) live(ctx context.Context) (heap, database float64, err error) {
	if _, err := p.api.Get().AbsPath("/debug/pprof/heap").Param("gc", "1").DoRaw(ctx); err != nil {
		return 0, 0, err
	}
	text, err := p.api.Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, 0, err
	}
	heap, err = metric(string(text), "go_memstats_heap_alloc_bytes")
	if err != nil {
		return 0, 0, err
	}
	database, err = metric(string(text), "apiserver_storage_size_bytes")
	return heap, database, err
}

// metric returns the first sample of a metric in the text format of Prometheus.
func metric(text, name string) (float64, error) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 2 && (f[0] == name || strings.HasPrefix(f[0], name+"{")) {
			return strconv.ParseFloat(f[1], 64)
		}
	}
	return 0, fmt.Errorf("the control plane's metrics have no %s", name)
}

// folderBytes sums the sizes of the files in the data folder.
func (p *plane) folderBytes() (float64, error) {
	var sum int64
	err := filepath.WalkDir(p.DataDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // etcd has just removed a log
		}
		if err != nil {
			return err
		}
		sum += info.Sys().(*syscall.Stat_t).Blocks * 512
		return nil
	})
	return float64(sum), err
}

// saveProfile writes a CPU profile of the control plane.
func (p *plane) saveProfile(ctx context.Context, file string) error {
	text, err := p.api.Get().AbsPath("/debug/pprof/profile").Param("seconds", strconv.Itoa(profileSeconds)).DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	return os.WriteFile(file, text, 0o644)
}

// A stopwatch measures wall time, and the CPU time of this process and a control plane.
type stopwatch struct {
	plane              *plane
	begin              time.Time
	wall, ours, theirs float64 // seconds
}

func (p *plane) time() stopwatch {
	t := stopwatch{plane: p, begin: time.Now(), ours: -cputime.Used().Seconds()}
	theirs, _ := p.cpuSeconds() // if the process has ended, the measurement fails
	t.theirs = -theirs
	return t
}

// stop ends the measurement and returns the wall time in seconds.
func (t *stopwatch) stop() (float64, error) {
	t.wall = time.Since(t.begin).Seconds()
	t.ours += cputime.Used().Seconds()
	theirs, err := t.plane.cpuSeconds()
	t.theirs += theirs
	return t.wall, err
}

func (t *stopwatch) add(u stopwatch) {
	t.wall, t.ours, t.theirs = t.wall+u.wall, t.ours+u.ours, t.theirs+u.theirs
}

// spent adds the CPU time to a row.
func (r *row) spent(t stopwatch) { r.ours, r.theirs, r.spending = t.ours, t.theirs, true }
