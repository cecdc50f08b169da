package workload

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

func wrap(name string, err error) error { return fmt.Errorf("%s: %w", name, err) }

// input is a file to read, with its name for errors.
type input struct {
	name string
	r    io.Reader
}

// azureVM is a row of the table of virtual machines.
type azureVM struct{ cores, gib float64 }

// azureOpen gives the sizes of the open buckets of Azure's second trace, as in its owner's notebook.
var azureOpen = map[string]float64{">24": 30, ">64": 70}

// readAzure reads Microsoft's public VM trace (2017 or 2019): the table of machines (vmid,
// subscriptionid, deploymentid, vmcreated, vmdeleted, maxcpu, avgcpu, p95maxcpu, vmcategory,
// vmcorecountbucket, vmmemorybucket) and readings (timestamp, vmid, mincpu, maxcpu, avgcpu),
// which have no header lines. CPU is avgcpu of the machine's cores.
//
// The trace has no memory usage, so readAzure assumes it: a machine uses 40 % of its memory, plus another 30 % times
// its CPU utilisation, averaged with a decay over six readings.
func readAzure(vms input, readings []input, g Grid) ([]Series, Report, error) {
	size, err := azureSizes(vms)
	if err != nil {
		return nil, Report{}, err
	}
	c := newCollector(g, false)
	for _, in := range readings {
		if err := azureReadings(in, size, c); err != nil {
			return nil, c.report, err
		}
	}
	for _, t := range c.order {
		slices.SortStableFunc(t.samples, func(a, b sample) int { return cmp.Compare(a.seconds, b.seconds) })
		vm, mean := size[t.id], 0.0
		t.requests.MilliCPU, t.requests.MemoryBytes = round(vm.cores*1000), round(vm.gib*1024*mib)
		for i := range t.samples {
			share := t.samples[i].cpu / (vm.cores * 1000)
			if i == 0 {
				mean = share
			}
			mean += (share - mean) / 6
			t.samples[i].mem = vm.gib * 1024 * mib * (0.4 + 0.3*mean)
		}
	}
	return finished("Azure", c)
}

func azureSizes(vms input) (map[string]azureVM, error) {
	t := newTable(vms.name, vms.r, 11)
	size := map[string]azureVM{}
	for row, err := range t.Rows() {
		if err != nil {
			return nil, err
		}
		var v [2]float64
		for i, what := range []string{"vmcorecountbucket", "vmmemorybucket"} {
			open, ok := azureOpen[row[9+i]]
			if v[i] = open; !ok {
				if v[i], err = t.Number(what, row[9+i]); err != nil {
					return nil, err
				}
			}
			if !(v[i] > 0 && v[i] <= 1e6) {
				return nil, t.Errorf("%s is %v, want more than 0", what, v[i])
			}
		}
		size[row[0]] = azureVM{v[0], v[1]}
	}
	return size, nil
}

func azureReadings(in input, size map[string]azureVM, c *collector) error {
	t := newTable(in.name, in.r, 5)
	for row, err := range t.Rows() {
		if err != nil {
			return err
		}
		vm, ok := size[row[1]]
		if !ok {
			return t.Errorf("machine %q is not in the table of machines", row[1])
		}
		at, err := t.Number("timestamp", row[0])
		if err != nil {
			return err
		}
		percent, err := t.Number("avgcpu", row[4])
		if err != nil {
			return err
		}
		if percent < 0 || percent > 100 {
			return t.Errorf("avgcpu is %v, want 0 to 100", percent)
		}
		if err := c.add(row[1], sample{at, percent / 100 * vm.cores * 1000, 0, 0}); err != nil {
			return t.Errorf("%w", err)
		}
	}
	return nil
}

// AlibabaMemoryGiB is the assumed memory of the largest machine in Alibaba's trace, which normalises memory by it.
const AlibabaMemoryGiB = 256

// alibabaMeta is a row of the table of containers.
type alibabaMeta struct{ requestMilli, limitMilli, memoryBytes float64 }

// readAlibaba reads Alibaba's cluster-trace-v2018: container_meta (container_id, machine_id, time_stamp, app_du,
// status, cpu_request, cpu_limit, mem_size) and container_usage (container_id, machine_id, time_stamp,
// cpu_util_percent, mem_util_percent, and six more), which have no header lines. Percentages of -1 and 101 mark invalid
// rows, which readAlibaba omits, as it does empty ones. CPU is a percentage of the request, of which 100 units are a
// core; memory is a percentage of mem_size, which is in hundredths of [AlibabaMemoryGiB].
func readAlibaba(meta input, usage []input, g Grid) ([]Series, Report, error) {
	of, err := alibabaContainers(meta)
	if err != nil {
		return nil, Report{}, err
	}
	c := newCollector(g, false)
	for _, in := range usage {
		if err := alibabaUsage(in, of, c); err != nil {
			return nil, c.report, err
		}
	}
	for _, t := range c.order {
		m := of[t.id]
		t.requests.MilliCPU, t.requests.MemoryBytes = round(m.requestMilli), round(m.memoryBytes)
		t.limits.MilliCPU, t.limits.MemoryBytes = round(m.limitMilli), round(m.memoryBytes)
	}
	return finished("Alibaba", c)
}

func alibabaContainers(in input) (map[string]alibabaMeta, error) {
	t := newTable(in.name, in.r, 8)
	of := map[string]alibabaMeta{}
	for row, err := range t.Rows() {
		if err != nil {
			return nil, err
		}
		var v [3]float64
		for i, what := range []string{"cpu_request", "cpu_limit", "mem_size"} {
			if v[i], err = t.Number(what, row[5+i]); err != nil {
				return nil, err
			}
		}
		if !(v[0] > 0 && v[2] > 0 && v[1] >= 0) {
			return nil, t.Errorf("cpu_request %v, cpu_limit %v and mem_size %v, want more than 0, 0 or more, more than 0", v[0], v[1], v[2])
		}
		of[row[0]] = alibabaMeta{v[0] * 10, v[1] * 10, v[2] / 100 * AlibabaMemoryGiB * 1024 * mib}
	}
	return of, nil
}

func alibabaUsage(in input, of map[string]alibabaMeta, c *collector) error {
	t := newTable(in.name, in.r, 11)
	for row, err := range t.Rows() {
		if err != nil {
			return err
		}
		m, ok := of[row[0]]
		if !ok {
			return t.Errorf("container %q is not in container_meta", row[0])
		}
		at, err := t.Number("time_stamp", row[2])
		if err != nil {
			return err
		}
		var util [2]float64
		for i, what := range []string{"cpu_util_percent", "mem_util_percent"} {
			util[i] = math.NaN()
			if field := row[3+i]; field != "" && field != "-1" && field != "101" {
				if util[i], err = t.Number(what, field); err != nil {
					return err
				}
				if util[i] < 0 || util[i] > 100 {
					return t.Errorf("%s is %v, want 0 to 100, or -1 or 101 for what is not valid", what, util[i])
				}
			}
		}
		if math.IsNaN(util[0]) && math.IsNaN(util[1]) {
			c.report.Dropped++
			continue
		}
		if err := c.add(row[0], sample{at, util[0] / 100 * m.requestMilli, util[1] / 100 * m.memoryBytes, 0}); err != nil {
			return t.Errorf("%w", err)
		}
	}
	return nil
}

// Assumed size of the largest machine in Google's trace, which normalises amounts by it.
const (
	BorgCores     = 64
	BorgMemoryGiB = 256
)

// borgUsage is a line of Google's instance_usage. Its 64-bit integers arrive as strings.
type borgUsage struct {
	StartTime      borgInt     `json:"start_time"`
	EndTime        borgInt     `json:"end_time"`
	CollectionID   borgInt     `json:"collection_id"`
	InstanceIndex  borgInt     `json:"instance_index"`
	AverageUsage   *borgAmount `json:"average_usage"`
	MaximumUsage   *borgAmount `json:"maximum_usage"`
	AssignedMemory float64     `json:"assigned_memory"`
}

type borgAmount struct{ CPUs, Memory float64 }

type borgInt int64

func (i *borgInt) UnmarshalJSON(b []byte) error {
	v, err := strconv.ParseInt(strings.Trim(string(b), `"`), 10, 64)
	*i = borgInt(v)
	return err
}

// readBorg reads instance_usage of Google's cluster trace of 2019 as JSON lines: CPU of average_usage and memory of
// maximum_usage (or of average_usage if that is missing) for each instance of a collection, in parts of a machine of
// [BorgCores] and [BorgMemoryGiB]. The greatest assigned_memory is the limit. It ignores other fields.
func readBorg(usage []input, g Grid) ([]Series, Report, error) {
	c := newCollector(g, false)
	for _, in := range usage {
		dec := json.NewDecoder(in.r)
		for line := 1; ; line++ {
			var u borgUsage
			err := dec.Decode(&u)
			if errors.Is(err, io.EOF) {
				break
			}
			if err == nil {
				err = u.add(c)
			}
			if err != nil {
				return nil, c.report, fmt.Errorf("%s: record %d: %w", in.name, line, err)
			}
		}
	}
	return finished("Borg", c)
}

func (u *borgUsage) add(c *collector) error {
	if u.EndTime <= u.StartTime {
		return fmt.Errorf("end_time %d, want more than start_time %d", u.EndTime, u.StartTime)
	}
	if u.AverageUsage == nil {
		c.report.Dropped++
		return nil
	}
	mem := u.AverageUsage.Memory
	if u.MaximumUsage != nil {
		mem = max(mem, u.MaximumUsage.Memory)
	}
	id := fmt.Sprintf("%d-%d", u.CollectionID, u.InstanceIndex)
	const unit = BorgMemoryGiB * 1024 * mib
	t := c.of(id)
	t.limits.MemoryBytes = max(t.limits.MemoryBytes, round(u.AssignedMemory*unit))
	return c.add(id, sample{float64(u.StartTime) / 1e6, u.AverageUsage.CPUs * BorgCores * 1000, mem * unit, 0})
}
