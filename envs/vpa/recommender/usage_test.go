package recommender_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/vpa/recommender"
)

func TestReplay(t *testing.T) {
	// The scenarios lowhigh and oom as files; the values are those of facts worked out by
	// upstream's code.
	r := newRecommender(t)
	var file strings.Builder
	fmt.Fprintln(&file, "mem_b, time_s, oom_request_b, cpu_m")
	for i := range 601 {
		cpu, mem, oom := 500, 2500, ""
		if i%2 == 1 {
			cpu, mem = 1000, 5000
		}
		if i == 600 {
			oom = fmt.Sprint(5000 << 20)
		}
		fmt.Fprintf(&file, "%d,%d,%s,%d\n", mem<<20, 60*i, oom, cpu)
	}
	got := map[int]recommender.Bounds{}
	err := recommender.Replay(r, strings.NewReader(file.String()), 1, func(n int, b recommender.Bounds) error {
		got[n] = b
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 601 {
		t.Errorf("%d recommendations, want 601", len(got))
	}
	type amounts = recommender.Amounts
	want := map[int]recommender.Bounds{
		1:  {Lower: amounts{25, 262144000}, Target: amounts{587, 3136195110}, Upper: amounts{1e14, 1e14}},
		2:  {Lower: amounts{196, 1027523334}, Target: amounts{1168, 6117462922}, Upper: amounts{1683088, 8815264070602}},
		61: {Lower: amounts{559, 5834067270}, Target: amounts{1168, 6117462922}, Upper: amounts{29200, 152936573050}},
	}
	for n, w := range want {
		if diff := cmp.Diff(w, got[n]); diff != "" {
			t.Errorf("after %d samples (-want +got):\n%s", n, diff)
		}
	}
	for n, w := range map[int][3]int64{600: {6088155802, 6117462922, 20823884637}, 601: {7449579960, 7485380854, 25450294903}} {
		if b := got[n]; [3]int64{b.Lower.MemoryBytes, b.Target.MemoryBytes, b.Upper.MemoryBytes} != w {
			t.Errorf("memory after %d samples: %+v, want %v", n, b, w)
		}
	}

	n := 0
	err = recommender.Replay(r, strings.NewReader(file.String()), 100, func(samples int, b recommender.Bounds) error {
		if n += 100; samples != n {
			t.Errorf("recommendation after %d samples, want %d", samples, n)
		}
		if b != got[samples] {
			t.Errorf("after %d samples: %+v, want %+v", samples, b, got[samples])
		}
		return nil
	})
	if err != nil || n != 600 {
		t.Errorf("every 100 samples: last %d, %v; want 600", n, err)
	}

	stop := errors.New("stop")
	if err := recommender.Replay(r, strings.NewReader(file.String()), 1, func(int, recommender.Bounds) error { return stop }); err != stop {
		t.Errorf("error of the callback: %v, want it returned", err)
	}
	if err := recommender.Replay(r, strings.NewReader(file.String()), 0, nil); err == nil {
		t.Error("every 0 samples: no error")
	}
}

func TestUsageReader(t *testing.T) {
	u, err := recommender.NewUsageReader(strings.NewReader("\ufefftime_s,cpu_m,mem_b,oom_request_b\n-1.5,0.25,1e3,\n-1.5,3,1000.5,0\n2,4,5,6\n"))
	if err != nil {
		t.Fatal(err)
	}
	var got []recommender.Usage
	for {
		var row recommender.Usage
		if err := u.Read(&row); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		got = append(got, row)
	}
	want := []recommender.Usage{
		{Time: -15e8, MilliCPU: 1, MemoryBytes: 1000},
		{Time: -15e8, MilliCPU: 3, MemoryBytes: 1001},
		{Time: 2e9, MilliCPU: 4, MemoryBytes: 5, OOM: true, OOMRequest: 6},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

func TestUsageErrors(t *testing.T) {
	const header = "time_s,cpu_m,mem_b,oom_request_b\n"
	for _, c := range []struct{ name, file, want string }{
		{"empty", "", "empty, want a line with the columns time_s, cpu_m, mem_b"},
		{"missing column", "time_s,mem_b\n0,1\n", "line 1: no column cpu_m, only time_s,mem_b"},
		{"unknown column", "time_s,cpu_m,mem_b,disk\n", `line 1: unknown column "disk"`},
		{"repeated column", "time_s,cpu_m,cpu_m\n", "line 1: column cpu_m twice"},
		{"missing field", header + "0,1,2,3\n60,1,2\n", "line 3"},
		{"empty field", header + "0,,2,\n", "line 2, column cpu_m: is empty"},
		{"no number", header + "0,1,2,\n60,1,many,\n", `line 3, column mem_b: "many" is not a finite number`},
		{"NaN", header + "0,1,2,\n60,NaN,2,\n", `line 3, column cpu_m: "NaN" is not a finite number`},
		{"infinite", header + "0,1,+Inf,\n", `line 2, column mem_b: "+Inf" is not a finite number`},
		{"overflow", header + "0,1,1e999,\n", `line 2, column mem_b: "1e999" is not a finite number`},
		{"negative CPU", header + "0,-1,2,\n", "line 2, column cpu_m: -1 is negative"},
		{"negative memory", header + "0,1,-2,\n", "line 2, column mem_b: -2 is negative"},
		{"negative request", header + "0,1,2,-3\n", "line 2, column oom_request_b: -3 is negative"},
		{"too large", header + "0,1,1e15,\n", "line 2, column mem_b: 1e15 is out of range"},
		{"decreasing time", header + "60,1,2,\n59.5,1,2,\n", "line 3, column time_s: time 59.5 is before that of the sample above, 60 s"},
		{"time out of range", header + "1e10,1,2,\n", "line 2, column time_s: 1e10 is out of range"},
		{"quotes", header + "0,\"1,2,\n", "line 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := recommender.Replay(newRecommender(t), strings.NewReader(c.file), 1, func(int, recommender.Bounds) error { return nil })
			if !errors.Is(err, recommender.ErrUsage) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

func FuzzUsage(f *testing.F) {
	f.Add([]byte("time_s,cpu_m,mem_b,oom_request_b\n0,1,2,3\n60,1.5,1e9,\n"))
	f.Add([]byte("time_s,cpu_m,mem_b\n3153600000,100000000000000,1e14\n"))
	r, err := recommender.New(recommender.DefaultConfig())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		err := recommender.Replay(r, bytes.NewReader(file), 1, func(n int, b recommender.Bounds) error {
			for _, a := range []recommender.Amounts{b.Lower, b.Target, b.Upper} {
				if a.MilliCPU < 25 || a.MemoryBytes < 250<<20 || a.MilliCPU > recommender.MaxAmount*6/5 || a.MemoryBytes > recommender.MaxAmount*6/5 {
					t.Errorf("after %d samples: %+v", n, b)
				}
			}
			return nil
		})
		if err != nil && !errors.Is(err, recommender.ErrUsage) {
			t.Errorf("error %v, want one that wraps ErrUsage", err)
		}
	})
}

func newRecommender(tb testing.TB) *recommender.Recommender {
	tb.Helper()
	r, err := recommender.New(recommender.DefaultConfig())
	if err != nil {
		tb.Fatal(err)
	}
	return r
}
