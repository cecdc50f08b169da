package workload

import (
	"strings"
	"testing"
	"time"
)

// sound sees that what a reader accepts is sound.
func sound(t *testing.T, all []Series, err error) {
	if err != nil {
		return
	}
	if len(all) == 0 {
		t.Fatal("neither a series nor an error")
	}
	for _, s := range all {
		for _, u := range append(s.Usage, s.Requests, s.Limits) {
			if u.MilliCPU < 0 || u.MilliCPU > maxAmount || u.MemoryBytes < 0 || u.MemoryBytes > maxAmount {
				t.Fatalf("%q has %v", s.ID, u)
			}
		}
	}
}

var short = Grid{Interval: time.Minute, MaxGap: time.Minute}

func FuzzAzure(f *testing.F) {
	f.Add("vm1,s,d,0,600,80,50,70,Interactive,2,4\n", "300,vm1,0,90,75\n0,vm1,0,30,25\n")
	f.Add("v,s,d,0,1,1,1,1,c,>24,>64\n", "0,v,1,2,NaN\n")
	f.Fuzz(func(t *testing.T, vms, readings string) {
		all, _, err := readAzure(input{"vms", strings.NewReader(vms)}, []input{{"readings", strings.NewReader(readings)}}, short)
		sound(t, all, err)
	})
}

func FuzzAlibaba(f *testing.F) {
	f.Add("c_1,m_1,0,app_1,started,400,800,2\n", "c_1,m_1,60,101,25,,,,,,\nc_1,m_1,0,4,50,1.72,0.0,0.0,0.02,0.03,5.0\n")
	f.Fuzz(func(t *testing.T, meta, usage string) {
		all, _, err := readAlibaba(input{"meta", strings.NewReader(meta)}, []input{{"usage", strings.NewReader(usage)}}, short)
		sound(t, all, err)
	})
}

func FuzzBorg(f *testing.F) {
	f.Add(`{"start_time":"0","end_time":"60000000","collection_id":"7","instance_index":1,"average_usage":{"cpus":0.1,"memory":0.1},"assigned_memory":0.2}`)
	f.Fuzz(func(t *testing.T, text string) {
		all, _, err := readBorg([]input{{"usage", strings.NewReader(text)}}, short)
		sound(t, all, err)
	})
}

func FuzzConfig(f *testing.F) {
	f.Add(`{"type":"low_high","timesteps":5,"period":2}`)
	f.Add(`{"type":"borg","timesteps":5,"law":{"cpu":100,"memory":10,"weekend":1,"fade_s":60,"burst_factor":1,"burst_s":60,"burst_memory":1}}`)
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ReadConfig(strings.NewReader(text))
		if err != nil || c.Timesteps > 10000 {
			return
		}
		s, err := c.Series()
		sound(t, []Series{s}, err)
		if err == nil && len(s.Usage) != c.Timesteps {
			t.Fatalf("%d samples, want %d", len(s.Usage), c.Timesteps)
		}
	})
}

func FuzzPodMetrics(f *testing.F) {
	f.Add(`{"kind":"PodMetricsList","items":[{"metadata":{"name":"p"},"timestamp":"2026-11-22T10:00:00Z","containers":[{"name":"c","usage":{"cpu":"250m","memory":"1Mi"}}]}]}
{"kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"1E"}}}]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		all, _, err := readPodMetrics([]input{{"usage", strings.NewReader(text)}}, short)
		sound(t, all, err)
	})
}

func FuzzTop(f *testing.F) {
	f.Add("2026-11-22T10:00:00Z\nPOD NAME CPU(cores) MEMORY(bytes)\nweb-0 main 250m 128Mi\n# 1795000000\nweb-0 main 1 1Gi\n")
	f.Add("1795000000 web-0 <unknown> 1Gi\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, _, err := readTop([]input{{"top", strings.NewReader(text)}}, short)
		sound(t, all, err)
	})
}
