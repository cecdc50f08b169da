package client_test

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	client "github.com/kubernasium/kubernasium/clients/go"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/server/host/hosttest"
)

// spread is [client.Spread], closed when the test ends.
func spread(t *testing.T, urls []string, id string, n int, opts client.Options) *client.Joined {
	t.Helper()
	j, err := client.Spread(ctx, urls, id, n, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return j
}

// TestSpreadChangesNoBit: the trajectories of a vector on one, two and four servers are those of this process, for sizes
// that are not equal, and for fewer environments than servers.
func TestSpreadChangesNoBit(t *testing.T) {
	var urls []string
	for range 4 {
		urls = append(urls, hosttest.Start(t).WS)
	}
	for _, tc := range []struct {
		id      string
		n       int
		servers int
		weights []float64
		want    []int // worked by hand
	}{
		{"classic/CartPole-v1", 7, 1, nil, []int{7}},
		{"classic/CartPole-v1", 7, 2, []float64{1, 1}, []int{4, 3}},
		{"classic/CartPole-v1", 7, 4, []float64{1, 1, 1, 1}, []int{2, 2, 2, 1}},
		{"classic/CartPole-v1", 7, 4, []float64{1, 4, 2, 0}, []int{1, 4, 2}},
		{"classic/CartPole-v1", 10, 4, []float64{8, 4, 1.1, 1}, []int{5, 3, 1, 1}}, // 5.67, 2.84, 0.78, 0.71: the three largest remainders get one
		{"classic/CartPole-v1", 2, 4, []float64{1, 1, 3, 3}, []int{1, 1}},
		{"k8s/GangWindow-v0", 3, 4, []float64{1, 1, 1, 1}, []int{1, 1, 1}},
	} {
		for _, mode := range modes {
			t.Run(fmt.Sprintf("%s/%d/%v/%v", tc.id, tc.n, tc.weights, mode), func(t *testing.T) {
				var kwargs map[string]any
				if strings.HasPrefix(tc.id, "k8s") {
					kwargs = map[string]any{"steps": 25}
				}
				j := spread(t, urls[:tc.servers], tc.id, tc.n, client.Options{Options: kwargs, Autoreset: mode, MaxEpisodeSteps: 20, Weights: tc.weights})
				w := local(t, tc.id, tc.n, envs.VecOptions{Options: kwargs, Autoreset: mode, MaxEpisodeSteps: 20})
				if d := cmp.Diff(tc.want, j.Sizes()); d != "" {
					t.Errorf("sizes (-want +got):\n%s", d)
				}
				seed := uint64(3)
				for _, opts := range []envs.VecResetOptions{{}, {Seed: &seed}, {}} { // the first uses seed 0, the last continues the streams
					if got, want := trajectory(t, j, opts, 60), trajectory(t, w, opts, 60); got != want {
						t.Errorf("on servers %s, here %s", got, want)
					}
				}
			})
		}
	}
}

// delayed returns the URL of a proxy to a server that holds back what it forwards for a moment.
func delayed(t *testing.T, url string, by time.Duration) string {
	t.Helper()
	address, path, _ := strings.Cut(strings.TrimPrefix(url, "ws://"), "/")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	pipe := func(to, from net.Conn) {
		defer to.Close()
		buf := make([]byte, 1<<16)
		for {
			k, err := from.Read(buf)
			time.Sleep(by)
			if _, failed := to.Write(buf[:k]); err != nil || failed != nil {
				return
			}
		}
	}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return // it was closed
			}
			out, err := net.Dial("tcp", address)
			if err != nil {
				_ = in.Close() // the server is gone
				continue
			}
			go pipe(out, in)
			go pipe(in, out)
		}
	}()
	return "ws://" + l.Addr().String() + "/" + path
}

// TestSpreadMeasures: a server behind a slow wire gets fewer environments than one that is near, and one that does not
// answer gets none. The steps are those of this process.
func TestSpreadMeasures(t *testing.T) {
	near, far := hosttest.Start(t), hosttest.Start(t)
	urls := []string{delayed(t, far.WS, 20*time.Millisecond), "ws://127.0.0.1:1", near.WS}
	j := spread(t, urls, "classic/CartPole-v1", 64, client.Options{})
	sizes := j.Sizes()
	if len(sizes) == 1 { // the slow one may get none, when it takes 64 times as long
		sizes = append([]int{0}, sizes...)
	}
	if len(sizes) != 2 || sizes[0] >= sizes[1] || sizes[0]+sizes[1] != 64 {
		t.Errorf("sizes %v, want fewer environments on the slow server, and none on the one that is gone", j.Sizes())
	}
	seed := uint64(1)
	w := local(t, "classic/CartPole-v1", 64, envs.VecOptions{})
	if got, want := trajectory(t, j, envs.VecResetOptions{Seed: &seed}, 20), trajectory(t, w, envs.VecResetOptions{Seed: &seed}, 20); got != want {
		t.Errorf("on servers %s, here %s", got, want)
	}
}

// What is wrong for one server is wrong for all, and is said once.
func TestSpreadRefuses(t *testing.T) {
	a, b := hosttest.Start(t), hosttest.Start(t)
	urls := []string{a.WS, b.WS}
	var unknown *envs.UnknownIDError
	for name, tc := range map[string]struct {
		urls []string
		id   string
		n    int
		opts client.Options
		want func(error) bool
	}{
		"no such environment": {urls, "k8s/Nothing-v0", 2, client.Options{}, func(err error) bool { return errors.As(err, &unknown) }},
		"no such option":      {urls, "k8s/GangWindow-v0", 2, client.Options{Options: map[string]any{"x": 1}}, func(err error) bool { return errors.Is(err, envs.ErrInvalidOption) }},
		"no environments":     {urls, "classic/CartPole-v1", 0, client.Options{}, func(err error) bool { return strings.Contains(err.Error(), "0 environments on 2 servers") }},
		"no servers":          {nil, "classic/CartPole-v1", 1, client.Options{}, func(err error) bool { return strings.Contains(err.Error(), "on 0 servers") }},
		"weights of others":   {urls, "classic/CartPole-v1", 1, client.Options{Weights: []float64{1}}, func(err error) bool { return strings.Contains(err.Error(), "[1] for 2 servers") }},
		"weights of nothing":  {urls, "classic/CartPole-v1", 1, client.Options{Weights: []float64{0, 0}}, func(err error) bool { return strings.Contains(err.Error(), "want a positive one") }},
		"nobody there": {[]string{"ws://127.0.0.1:1", "ws://127.0.0.1:2"}, "classic/CartPole-v1", 2, client.Options{}, func(err error) bool {
			return strings.Contains(err.Error(), "127.0.0.1:1") && strings.Contains(err.Error(), "127.0.0.1:2")
		}},
	} {
		j, err := client.Spread(ctx, tc.urls, tc.id, tc.n, tc.opts)
		if err == nil || !tc.want(err) || j != nil {
			t.Errorf("%s: %v", name, err)
		} else if name != "nobody there" && strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want it once", name, err)
		}
	}
}

// TestJoinedSnapshot: snapshots and forks of a vector on two servers, with the rows of this process.
func TestJoinedSnapshot(t *testing.T) {
	j := spread(t, []string{hosttest.Start(t).WS, hosttest.Start(t).WS}, "classic/CartPole-v1", 5, client.Options{Weights: []float64{3, 2}})
	seed := uint64(4)
	if _, err := j.Reset(ctx, envs.VecResetOptions{Seed: &seed}); err != nil {
		t.Fatal(err)
	}
	play := func() []float32 {
		var all []float32
		for range 4 {
			b, err := j.Step(ctx, []float32{0, 1, 0, 1, 0})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, b.Obs...)
		}
		return all
	}
	s, err := j.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	want := play()
	b, err := s.Restore(ctx)
	if err != nil || b.EpisodeLength[4] != 0 {
		t.Fatalf("Restore: %v, lengths %v", err, b.EpisodeLength)
	}
	if !slices.Equal(play(), want) {
		t.Error("other observations after Restore")
	}
	if err := s.Forget(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Restore(ctx); !errors.Is(err, client.ErrUnknownSnapshot) {
		t.Errorf("Restore of what was forgotten: %v, want ErrUnknownSnapshot", err)
	}
	if b, err = j.Fork(ctx, 4, []int{3}); err != nil || !slices.Equal(b.Obs[12:16], b.Obs[16:20]) {
		t.Errorf("Fork of 4 to 3: %v, %v", b, err)
	}
	if _, err := j.Fork(ctx, 4, []int{3, 2}); !errors.Is(err, envs.ErrCannotClone) {
		t.Errorf("Fork to another server: %v, want ErrCannotClone", err)
	}
	if _, err := j.Fork(ctx, 0, []int{5}); err == nil {
		t.Error("Fork to environment 5 of 5: no error")
	}
	for i := range 5 {
		text, err := j.RenderANSI(i)
		if err != nil || text == "" {
			t.Errorf("RenderANSI(%d) = %q, %v", i, text, err)
		}
	}
	if _, err := j.RenderRGB(5); err == nil {
		t.Error("RenderRGB(5) of 5: no error")
	}
	first, err := j.RenderANSI(3)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := j.RenderANSI(4); err != nil || first != second {
		t.Errorf("the fork renders as %q, its source as %q", first, second)
	}
	zero, err := j.RenderANSI(0)
	if err != nil || zero == first {
		t.Errorf("row 0 renders as row 3 of another server: %q, %v", zero, err)
	}
	if one, err := j.RenderANSI(1); err != nil || one == zero {
		t.Errorf("row 1 renders as row 0: %q, %v", one, err)
	}
}
