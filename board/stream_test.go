package board_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/board"
	"github.com/kubernasium/kubernasium/envs/envstest"
)

// message is a message of the stream, whose data is of kind T.
type message[T any] struct {
	Topic   string `json:"topic"`
	Skipped int    `json:"skipped"`
	Data    T      `json:"data"`
}

// openStream opens the stream of topics and reads its first bytes.
func openStream(t *testing.T, page string, topics ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, page+"api/stream?"+url.Values{"topic": topics}.Encode(), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || kind != "text/event-stream" {
		t.Fatalf("%s of %s", resp.Status, kind)
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, len(": hello\n\n"))); err != nil {
		t.Fatal(err)
	}
	return resp
}

// listen opens the stream of topics and returns a function that reads the next message.
func listen[T any](t *testing.T, page string, topics ...string) (next func() message[T]) {
	t.Helper()
	lines := bufio.NewReader(openStream(t, page, topics...).Body)
	return func() message[T] {
		t.Helper()
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if text, ok := strings.CutPrefix(line, "data: "); ok {
				var n message[T]
				if err := json.Unmarshal([]byte(text), &n); err != nil {
					t.Fatalf("%v: %s", err, text)
				}
				return n
			}
		}
	}
}

// TestStreamOfTraining: a training's rows come once each, as they are written; a row that is half written waits for its end,
// and a file that is written again comes whole.
func TestStreamOfTraining(t *testing.T) {
	logs := writeLogs(t)
	page := serve(t, board.Config{Logs: logs, Every: 5 * time.Millisecond})
	id := "ppo/k8s-PodBalance-v0_1/seed_2"
	next := listen[board.RunUpdate](t, page, "run:"+id)
	first := next()
	if got := len(first.Data.Progress.Values[0]); first.Topic != "run:"+id || got != 3 || first.Data.From.Progress != 0 || first.Data.Config["n_steps"] != 128.0 || len(first.Data.Comparison) != 5 {
		t.Fatalf("first message: %+v", first)
	}
	path := filepath.Join(logs, id, "progress.csv")
	write := func(text string, flags int) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_WRONLY|flags, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	v := func(x float64) *float64 { return &x }
	write("400,8,-6\n500,9,", os.O_APPEND)
	second := next()
	if diff := cmp.Diff([][]*float64{{v(400)}, {v(8)}, {v(-6)}}, second.Data.Progress.Values); diff != "" || second.Data.From.Progress != 3 || second.Data.Config != nil {
		t.Errorf("after a row and a half (-want +got):\n%s\n%+v", diff, second.Data)
	}
	write("-5\n", os.O_APPEND)
	third := next()
	if diff := cmp.Diff([][]*float64{{v(500)}, {v(9)}, {v(-5)}}, third.Data.Progress.Values); diff != "" || third.Data.From.Progress != 4 {
		t.Errorf("after the other half (-want +got):\n%s", diff)
	}
	var whole board.RunData
	call(t, page, "GET", "/api/runs/"+id, nil, &whole)
	if diff := cmp.Diff([]*float64{v(100), v(200), v(300), v(400), v(500)}, whole.Progress.Values[0]); diff != "" {
		t.Errorf("GET after five rows (-want +got):\n%s", diff)
	}
	// A longer file of another training: the same number of columns, other rows.
	write("time/total_timesteps,time/fps,train/loss\n"+strings.Repeat("1,2,3\n", 40), os.O_TRUNC)
	fourth := next()
	for fourth.Data.From.Progress != 0 || len(fourth.Data.Progress.Columns) == 0 { // the moment between truncation and writing may be seen
		fourth = next()
	}
	if got := fourth.Data.Progress; got.Columns[2] != "train/loss" || len(got.Values[2]) != 40 || *got.Values[2][39] != 3 {
		t.Errorf("a file written anew: %v", got.Columns)
	}
}

// TestStreamOfRuns: a training that begins later appears, what does not change is not sent again, and a topic that is not
// there says so beside those that are.
func TestStreamOfRuns(t *testing.T) {
	logs := writeLogs(t)
	page := serve(t, board.Config{Logs: logs, Every: 5 * time.Millisecond})
	next := listen[json.RawMessage](t, page, "runs", "nonsense", "run:../../etc", "episode:7", "metrics")
	got := map[string]string{}
	for range 5 {
		n := next()
		got[n.Topic] = string(n.Data)
	}
	for _, topic := range []string{"nonsense", "run:../../etc", "episode:7", "metrics"} {
		if !strings.Contains(got[topic], `"error":`) {
			t.Errorf("topic %s: %s, want an error", topic, got[topic])
		}
	}
	if n := strings.Count(got["runs"], `"id"`); n != 3 {
		t.Errorf("%d runs in %s, want 3", n, got["runs"])
	}
	if err := os.MkdirAll(filepath.Join(logs, "dqn"), 0o755); err != nil {
		t.Fatal(err)
	}
	envstest.Write(t, filepath.Join(logs, "dqn", "progress.csv"), "time/total_timesteps\n1\n")
	if n := next(); n.Topic != "runs" || strings.Count(string(n.Data), `"id"`) != 4 { // the next message, though the page has looked many times
		t.Errorf("after another training: %s %s", n.Topic, n.Data)
	}
	if code := call(t, page, "GET", "/api/stream", nil, nil); code != http.StatusBadRequest {
		t.Errorf("no topic: %d, want 400", code)
	}
}

// TestTopicComesLater asks for a training and an episode that do not exist yet. The stream says so once, and sends both
// from their beginning when they come. A topic that no page has stays an error.
func TestTopicComesLater(t *testing.T) {
	logs, elsewhere := t.TempDir(), t.TempDir()
	page := serve(t, board.Config{Logs: logs, Every: 5 * time.Millisecond})
	next := listen[map[string]any](t, page, "run:dqn", "episode:1", "nonsense")
	for range 3 {
		if n := next(); n.Data["error"] == nil {
			t.Errorf("%s: %v, want an error", n.Topic, n.Data)
		}
	}
	// The folder comes with its file: the page would show one without it, too.
	envstest.Write(t, filepath.Join(elsewhere, "dqn", "progress.csv"), "time/total_timesteps\n1\n2\n")
	if err := os.Rename(filepath.Join(elsewhere, "dqn"), filepath.Join(logs, "dqn")); err != nil {
		t.Fatal(err)
	}
	if n := next(); n.Topic != "run:dqn" || fmt.Sprint(n.Data["progress"]) != "map[columns:[time/total_timesteps] values:[[1 2]]]" {
		t.Errorf("after the training's first rows: %+v", n)
	}
	var ep board.EpisodeInfo
	call(t, page, "POST", "/api/episodes", map[string]any{"env": "classic/CartPole-v1", "policy": "random"}, &ep)
	call(t, page, "POST", "/api/episodes/1/step", map[string]any{"steps": 1}, &ep)
	n := next()
	for n.Topic == "episode:1" && fmt.Sprint(n.Data["steps"]) != "1" { // it may be seen before its step
		n = next()
	}
	if n.Topic != "episode:1" || n.Data["id"] != "1" {
		t.Errorf("after the episode's first step: %+v", n)
	}
}

// stuck is a viewer that takes nothing until it is released.
type stuck struct {
	*httptest.ResponseRecorder
	mu      sync.Mutex
	release chan struct{}
	began   chan struct{}
	once    sync.Once
}

func (s *stuck) Write(b []byte) (int, error) {
	s.once.Do(func() { close(s.began) })
	<-s.release
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ResponseRecorder.Write(b)
}

func (s *stuck) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Body.String()
}

// TestSlowViewer: while a viewer takes nothing the episode plays to its end and another viewer sees that;
// when the slow one is ready it gets the newest state, and how many it has missed.
func TestSlowViewer(t *testing.T) {
	s := board.New(board.Config{Open: openBaseline, AllowControl: true})
	srv := httptest.NewServer(s)
	defer srv.Close()
	defer s.Close()
	page := srv.URL + "/"
	var ep board.EpisodeInfo
	call(t, page, "POST", "/api/episodes", map[string]any{"env": "k8s/PodBalance-v0", "policy": "Greedy", "options": map[string]any{"nodes": 3}}, &ep)
	call(t, page, "POST", "/api/episodes/"+ep.ID+"/step", map[string]any{"steps": 1}, &ep) // so that there is a state to show
	topic := "episode:" + ep.ID
	ctx, leave := context.WithCancel(t.Context())
	slow := &stuck{ResponseRecorder: httptest.NewRecorder(), release: make(chan struct{}), began: make(chan struct{})}
	left := make(chan struct{})
	go func() {
		defer close(left)
		s.ServeHTTP(slow, httptest.NewRequestWithContext(ctx, "GET", "http://localhost/api/stream?topic="+topic, nil))
	}()
	<-slow.began
	call(t, page, "POST", "/api/episodes/"+ep.ID+"/play", map[string]any{"steps_per_s": 300}, &ep)
	next := listen[board.EpisodeUpdate](t, page, topic)
	n := next()
	returns := n.Data.Returns
	if len(n.Data.Nodes) != 3 {
		t.Errorf("%d nodes in the first message, want 3", len(n.Data.Nodes))
	}
	for n.Data.Done == "" {
		n = next()
		if n.Data.Nodes != nil || n.Data.From > len(returns) {
			t.Fatalf("message of step %d: %d nodes again, returns from %d after %d", n.Data.Steps, len(n.Data.Nodes), n.Data.From, len(returns))
		}
		returns = append(returns[:n.Data.From], n.Data.Returns...)
	}
	if len(returns) != n.Data.Steps || returns[len(returns)-1] != n.Data.Frame.Return {
		t.Errorf("%d returns after %d steps, the last is %v of %v", len(returns), n.Data.Steps, returns[len(returns)-1], n.Data.Frame.Return)
	}
	close(slow.release)
	var last message[board.EpisodeUpdate]
	for last.Data.Done == "" {
		for _, line := range strings.Split(slow.text(), "\n") {
			if text, ok := strings.CutPrefix(line, "data: "); ok {
				if err := json.Unmarshal([]byte(text), &last); err == nil && last.Data.Done != "" {
					break
				}
			}
		}
		time.Sleep(time.Millisecond)
	}
	if last.Skipped == 0 || last.Data.Steps != n.Data.Steps {
		t.Errorf("the slow viewer ends at step %d with %d skipped, want %d and some", last.Data.Steps, last.Skipped, n.Data.Steps)
	}
	if got := strings.Count(slow.text(), "data: "); got > 3 {
		t.Errorf("%d messages for the slow viewer", got)
	}
	leave()
	<-left
}

// TestPlayNeedsViewer: an episode plays only while somebody looks, and stops where it ends.
func TestPlayNeedsViewer(t *testing.T) {
	page := serve(t, board.Config{})
	var ep board.EpisodeInfo
	call(t, page, "POST", "/api/episodes", map[string]any{"env": "classic/CartPole-v1", "policy": "random"}, &ep)
	path := "/api/episodes/" + ep.ID
	call(t, page, "POST", path+"/play", map[string]any{"steps_per_s": 5000}, &ep)
	for range 20 { // looks that follow nothing
		call(t, page, "GET", path, nil, &ep)
	}
	if ep.Steps != 0 || ep.Rate != 5000 {
		t.Errorf("%d steps without a viewer at %v a second", ep.Steps, ep.Rate)
	}
	next := listen[board.EpisodeUpdate](t, page, "episode:"+ep.ID)
	n := next()
	for n.Data.Done == "" {
		n = next()
	}
	if n.Data.Done != "terminated" || n.Data.Rate != 0 || n.Data.Steps < 5 {
		t.Errorf("%+v", n.Data)
	}
	for _, rate := range []string{"-1", "1e9"} {
		if code := call(t, page, "POST", path+"/play", map[string]any{"steps_per_s": json.Number(rate)}, nil); code != http.StatusBadRequest {
			t.Errorf("%s steps a second: %d, want 400", rate, code)
		}
	}
}

// TestReadOnly: without control nothing begins or plays, and everything can be looked at.
func TestReadOnly(t *testing.T) {
	s := board.New(board.Config{Open: openBaseline, Logs: writeLogs(t)})
	srv := httptest.NewServer(s)
	defer srv.Close()
	defer s.Close()
	id, err := s.Begin(t.Context(), "classic/CartPole-v1", nil, 0, "random", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", "/" + id + "/step", "/" + id + "/play", "/" + id + "/fork"} {
		if code := call(t, srv.URL, "POST", "/api/episodes"+path, map[string]any{}, nil); code != http.StatusForbidden {
			t.Errorf("POST /api/episodes%s: %d, want 403", path, code)
		}
	}
	for _, path := range []string{"/api/runs", "/api/environments", "/api/episodes", "/api/episodes/" + id, "/api/episodes/" + id + "/why", "/api/shadows"} {
		if code := call(t, srv.URL, "GET", path, nil, nil); code != http.StatusOK {
			t.Errorf("GET %s: %d, want 200", path, code)
		}
	}
	var info board.PageInfo
	call(t, srv.URL, "GET", "/api/page", nil, &info)
	if want := (board.PageInfo{Episodes: true, Logs: true}); info != want {
		t.Errorf("page %+v, want %+v", info, want)
	}
}

// TestPairedDifferences: of policy a with costs 1, 2, 3, 6 and b with 2, 2, 2, 2 in the same episodes the differences are
// -1, 0, 1, 4: mean 1, standard deviation 2.1602, and the 97.5 % quantile of Student's t with 3 degrees is 3.1824, so the
// interval is 1 ± 3.4374.
func TestPairedDifferences(t *testing.T) {
	logs := t.TempDir()
	if err := os.Mkdir(filepath.Join(logs, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	rows := "policy,kind,seed,return,length,cost\n"
	for i, cost := range []int{1, 2, 3, 6} {
		rows += fmt.Sprintf("a,model,%d,0,1,%d\n", i, cost)
	}
	for i := range 4 {
		rows += fmt.Sprintf("b,baseline,%d,0,1,2\n", i)
	}
	rows += "c,baseline,9,0,1,2\n" // other episodes
	for name, text := range map[string]string{"comparison.csv": "policy,mean cost,95 % interval\na,3,\nb,2,\nc,2,\n", "comparison_episodes.csv": rows} {
		envstest.Write(t, filepath.Join(logs, "run", name), text)
	}
	var run board.RunData
	call(t, serve(t, board.Config{Logs: logs}), "GET", "/api/runs/run", nil, &run)
	p := run.Paired
	if p == nil || p.Metric != "cost" || p.Episodes != 4 || !cmp.Equal(p.Policies, []string{"a", "b"}) {
		t.Fatalf("paired %+v", p)
	}
	for _, tc := range []struct{ got, want float64 }{{p.Differences[0][1].Mean, 1}, {p.Differences[0][1].Low, 1 - 3.4374}, {p.Differences[0][1].High, 1 + 3.4374}, {p.Differences[1][0].High, 3.4374 - 1}} {
		if tc.got < tc.want-1e-3 || tc.got > tc.want+1e-3 {
			t.Errorf("%v, want %v", tc.got, tc.want)
		}
	}
}
