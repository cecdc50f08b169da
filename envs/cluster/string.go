package cluster

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
)

// String returns s as text: a line for the clock, for each node and for each pod, in order of
// index. It leaves out zeros, except for times that have passed. Amounts of resources are CPU, then
// memory:
//
//	now 5s
//	node 0 a meta=0 allocatable=4,8Gi requested=500m,1Gi pods=1/110 gpus=2x1000 free=500/1000,1000/1000
//	pod 0 p-0 meta=1 Running node=0 requests=500m,1Gi gpus=1x500 devices=0b1 created=0s started=5s
func (s *State) String() string {
	b := fmt.Appendf(nil, "now %v\n", s.Now)
	for i := range s.Nodes {
		b = append(s.appendNode(b, int32(i)), '\n')
	}
	for i := range s.Pods {
		b = append(s.appendPod(b, int32(i)), '\n')
	}
	return string(b)
}

func (s *State) appendNode(b []byte, i int32) []byte {
	n := &s.Nodes[i]
	b = fmt.Appendf(b, "node %d %s meta=%d", i, s.NodeName(i), n.Meta)
	b = appendPair(b, "allocatable", n.Allocatable)
	b = appendPair(b, "requested", n.Requested)
	b = appendPair(b, "usage", n.Usage)
	if n.NumPods != 0 || n.MaxPods != 0 {
		b = strconv.AppendInt(appendKey(b, "pods"), int64(n.NumPods), 10)
		if n.MaxPods != 0 {
			b = strconv.AppendInt(append(b, '/'), int64(n.MaxPods), 10)
		}
	}
	if n.Unschedulable {
		b = append(b, " cordoned"...)
	}
	if n.Removed {
		b = append(b, " removed"...)
	}
	b = appendGPUs(b, n.NumDevices, n.MilliGPU)
	for j, d := range s.NodeDevices(i) {
		if j == 0 {
			b = appendKey(b, "free")
		} else {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, "%d/%d", d.Free, d.Capacity)
	}
	return b
}

func (s *State) appendPod(b []byte, i int32) []byte {
	p := &s.Pods[i]
	b = fmt.Appendf(b, "pod %d %s meta=%d %v", i, s.PodName(i), p.Meta, p.Phase)
	if p.Node >= 0 {
		b = strconv.AppendInt(appendKey(b, "node"), int64(p.Node), 10)
	}
	b = appendPair(b, "requests", p.Requests)
	b = appendPair(b, "limits", p.Limits)
	b = appendPair(b, "usage", p.Usage)
	b = appendGPUs(b, p.GPUs, p.MilliGPU)
	if p.Devices != 0 {
		b = fmt.Appendf(appendKey(b, "devices"), "%#b", p.Devices)
	}
	b = appendTime(b, "created", p.Created, true)
	b = appendTime(b, "started", p.Started, p.Node >= 0)
	b = appendTime(b, "ended", p.Ended, p.Phase > Running)
	return appendTime(b, "duration", p.Duration, false)
}

func appendPair(b []byte, key string, r Resources) []byte {
	if r == (Resources{}) {
		return b
	}
	return appendMemory(append(appendCPU(appendKey(b, key), r.MilliCPU), ','), r.MemoryBytes)
}

func appendGPUs(b []byte, count, milli int32) []byte {
	if count == 0 && milli == 0 {
		return b
	}
	return fmt.Appendf(appendKey(b, "gpus"), "%dx%d", count, milli)
}

func appendTime(b []byte, key string, t time.Duration, always bool) []byte {
	if t == 0 && !always {
		return b
	}
	return append(appendKey(b, key), t.String()...)
}

// Diff returns "" if a and b are [State.Equal]. Otherwise it returns the lines of their String that
// differ, with "-" before a's and "+" before b's, and the metadata that differs.
func Diff(a, b *State) string {
	if a.Equal(b) {
		return ""
	}
	var out []byte
	if a.Now != b.Now {
		out = fmt.Appendf(out, "- now %v\n+ now %v\n", a.Now, b.Now)
	}
	out = appendDiff(out, a, b, len(a.Nodes), len(b.Nodes), (*State).appendNode)
	out = appendDiff(out, a, b, len(a.Pods), len(b.Pods), (*State).appendPod)
	return string(appendDiff(out, a, b, a.NumMetas(), b.NumMetas(), (*State).appendMeta))
}

func (s *State) appendMeta(b []byte, i int32) []byte {
	return fmt.Appendf(b, "meta %d %+v", i, s.tab.metas[i])
}

// appendDiff compares the na and nb lines that line gives of a and of b.
func appendDiff(out []byte, a, b *State, na, nb int, line func(*State, []byte, int32) []byte) []byte {
	for i := range max(na, nb) {
		var x, y []byte
		if i < na {
			x = line(a, nil, int32(i))
		}
		if i < nb {
			y = line(b, nil, int32(i))
		}
		if bytes.Equal(x, y) {
			continue
		}
		if i < na {
			out = fmt.Appendf(out, "- %s\n", x)
		}
		if i < nb {
			out = fmt.Appendf(out, "+ %s\n", y)
		}
	}
	return out
}
