//go:build linux

package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	periodMicros = 100_000 // period of the quota, the kernel's default
	emptyTimeout = 5 * time.Second
	emptyEvery   = 5 * time.Millisecond
)

// ErrNoCgroup is wrapped by the error of [OpenCgroups] if no cgroup can be created.
var ErrNoCgroup = errors.New("local: no cgroup whose CPU can be limited")

// cgroups creates cgroups below one of its own.
type cgroups struct {
	version int
	dir     string
}

// OpenCgroups returns limits by cgroups of version 1 or 2. It creates them below the cgroup of this process, or
// else below the nearest ancestor that permits it.
func OpenCgroups(version int) (Limits, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	mount, dir, err := cgroupDir(version, string(mounts), string(own))
	if err != nil {
		return nil, err
	}
	why := ErrNoCgroup
	for {
		c := &cgroups{version, filepath.Join(dir, fmt.Sprintf("kubernasium-%d", os.Getpid()))}
		err := c.make()
		if err == nil {
			return c, nil
		}
		why = fmt.Errorf("%w; %w", why, err)
		if dir == mount || !strings.HasPrefix(dir, mount) {
			return nil, why
		}
		dir = filepath.Dir(dir)
	}
}

// cgroupDir finds the folder of this process's cgroup in the hierarchy with the cpu controller, and the mount
// point of that hierarchy, in the contents of /proc/self/mountinfo and /proc/self/cgroup.
func cgroupDir(version int, mounts, own string) (mount, dir string, err error) {
	root := ""
	for line := range strings.Lines(mounts) {
		// ID, parent, device, root, mount point, options, optional fields, "-", type, source, options.
		head, tail, _ := strings.Cut(strings.TrimSpace(line), " - ")
		f, g := strings.Fields(head), strings.Fields(tail)
		if len(f) < 5 || len(g) < 3 {
			continue
		}
		if version == 2 && g[0] == "cgroup2" || version == 1 && g[0] == "cgroup" && slices.Contains(strings.Split(g[2], ","), "cpu") {
			root, mount = f[3], f[4]
			break
		}
	}
	if mount == "" {
		return "", "", fmt.Errorf("%w: version %d is not mounted", ErrNoCgroup, version)
	}
	for line := range strings.Lines(own) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) == 3 && (version == 2 && f[0] == "0" || version == 1 && slices.Contains(strings.Split(f[1], ","), "cpu")) {
			below := strings.TrimPrefix(f[2], strings.TrimSuffix(root, "/"))
			return mount, filepath.Join(mount, below), nil
		}
	}
	return "", "", fmt.Errorf("%w: this process is in none of version %d", ErrNoCgroup, version)
}

// make creates the cgroup, and checks that the CPU of cgroups below it can be limited.
func (c *cgroups) make() error {
	if err := os.Mkdir(c.dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	probe := filepath.Join(c.dir, "probe")
	err := c.delegate()
	if err == nil {
		err = os.Mkdir(probe, 0o755)
	}
	if err == nil {
		err = errors.Join(c.write(probe, 1000), os.Remove(probe))
	}
	if err != nil {
		return errors.Join(err, os.Remove(c.dir))
	}
	return nil
}

// delegate enables the cpu controller for the cgroups below; version 1 always does.
func (c *cgroups) delegate() error {
	if c.version == 1 {
		return nil
	}
	if _, err := os.Stat(filepath.Join(c.dir, "cpu.max")); err != nil { // the parent cgroup does not delegate it
		if err := writeFile(filepath.Join(filepath.Dir(c.dir), "cgroup.subtree_control"), "+cpu"); err != nil {
			return err
		}
	}
	return writeFile(filepath.Join(c.dir, "cgroup.subtree_control"), "+cpu")
}

// quota returns the file and the content that set a cgroup's limit.
func (c *cgroups) quota(milliCPU int64) (file, text string) {
	micros := strconv.FormatInt(milliCPU*periodMicros/1000, 10)
	if c.version == 2 {
		return "cpu.max", fmt.Sprintf("%s %d", micros, periodMicros)
	}
	return "cpu.cfs_quota_us", micros
}

func (c *cgroups) write(dir string, milliCPU int64) error {
	file, text := c.quota(milliCPU)
	return writeFile(filepath.Join(dir, file), text)
}

// writeFile writes to a file that exists, in one call.
func writeFile(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// String implements [Limits].
func (c *cgroups) String() string { return fmt.Sprintf("cgroup v%d", c.version) }

// Close implements [Limits].
func (c *cgroups) Close() error { return os.Remove(c.dir) }

// Group implements [Limits].
func (c *cgroups) Group(name string, milliCPU int64) (Group, error) {
	dir, err := os.MkdirTemp(c.dir, name+"-")
	if err != nil {
		return nil, err
	}
	g := &cgroup{c, dir}
	if err := g.Set(milliCPU); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

type cgroup struct {
	of  *cgroups
	dir string
}

func (g *cgroup) Add(pid int) error {
	return writeFile(filepath.Join(g.dir, "cgroup.procs"), strconv.Itoa(pid))
}

func (g *cgroup) Set(milliCPU int64) error { return g.of.write(g.dir, milliCPU) }

// Kill kills processes until the cgroup is empty, because a process may fork meanwhile.
func (g *cgroup) Kill() error {
	for end := time.Now().Add(emptyTimeout); ; time.Sleep(emptyEvery) {
		text, err := os.ReadFile(filepath.Join(g.dir, "cgroup.procs"))
		if err != nil {
			return err
		}
		pids := strings.Fields(string(text))
		if len(pids) == 0 {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("local: %d processes in %s are left %v after they were killed", len(pids), g.dir, emptyTimeout)
		}
		for _, p := range pids {
			pid, err := strconv.Atoi(p)
			if err != nil {
				return err
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return err
			}
		}
	}
}

// Close removes the cgroup. The kernel frees it a little after its last process has ended.
func (g *cgroup) Close() error {
	if err := g.Kill(); err != nil {
		return err
	}
	for end := time.Now().Add(emptyTimeout); ; time.Sleep(emptyEvery) {
		err := os.Remove(g.dir)
		if err == nil || !errors.Is(err, syscall.EBUSY) || time.Now().After(end) {
			return err
		}
	}
}
