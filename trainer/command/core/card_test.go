package core

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/clitest"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/run"
)

// TestCard publishes two models and sees that they play as before, that their files hold no
// training's state, and what the card says.
func TestCard(t *testing.T) {
	logs, dir := t.TempDir(), t.TempDir()
	train := func(algo string, more ...string) string {
		t.Helper()
		args := append([]string{"train", "--algo", algo, "--env", "classic/CartPole-v1", "-n", "600", "--eval-freq", "0", "--eval-episodes", "2",
			"--params", "n_envs:2", "--seed", "7", "-f", logs, "--json"}, more...)
		res := clitest.Decode[run.Result](t, mustExecute(t, args...))
		return res.Model
	}
	a2c := train("a2c")
	dqn := train("dqn", "--params", "learning_starts:64", "--params", "net_arch:[16]", "--params", "train_freq:8", "--params", "checkpoint_replay_buffer:true",
		"--env-kwargs", "sutton_barto_reward:false") // the default: no other environment
	mustExecute(t, "card", "--model", a2c, "--model", dqn, "--dir", dir, "--episodes", "5")
	folder := filepath.Join(dir, "classic-CartPole-v1")
	for algo, before := range map[string]string{"a2c": a2c, "dqn": dqn} {
		after := filepath.Join(folder, algo+".safetensors")
		f, err := models.ReadFile(after)
		if err != nil {
			t.Fatal(err)
		}
		for _, tensor := range f.Tensors {
			if strings.HasPrefix(tensor.Name, models.StatePrefix) || strings.HasPrefix(tensor.Name, models.OptimizerPrefix) {
				t.Errorf("%s holds %s", after, tensor.Name)
			}
		}
		eval := func(path string) (res evalResult) {
			if err := json.Unmarshal([]byte(mustExecute(t, "eval", "--model", path, "--episodes", "5", "--json")), &res); err != nil {
				t.Fatal(err)
			}
			return res
		}
		if got, want := eval(after).Mean, eval(before).Mean; got != want {
			t.Errorf("%s: mean %v, before %v", after, got, want)
		}
	}
	card := envstest.Read(t, filepath.Join(folder, "card.md"))
	for _, want := range []string{"# classic/CartPole-v1: pretrained models", "| a2c  ", "| dqn  ", "| pole-angle ", "| random ", "| a2c (constant action) ", "| dqn (observations shuffled) ", "a2c does not show that it uses its state: difference to its own constant action", "5 held-out episodes",
		"trainer train --algo a2c --env classic/CartPole-v1 ", "--params n_envs:2", "--seed 7", "--params 'net_arch:[16]'", "`dqn.safetensors`"} {
		if !strings.Contains(card, want) {
			t.Errorf("the card lacks %q:\n%s", want, card)
		}
	}
	if strings.Contains(card, logs) {
		t.Errorf("the card names the log folder:\n%s", card)
	}

	limited := train("a2c", "--env-kwargs", "sutton_barto_reward:true")
	wide := train("a2c", "--params", "net_arch:[512, 512]")
	data := filepath.Join(t.TempDir(), "m.safetensors")
	f, err := models.ReadFile(a2c)
	if err != nil {
		t.Fatal(err)
	}
	f.Meta.Env, f.Meta.EnvKwargs = "k8s/GangWindow-v0", json.RawMessage(`{"data":"/home/x"}`)
	if err := models.WriteFile(data, f); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"card"}, "want --model"},
		{[]string{"card", "--dir", t.TempDir(), "--model", wide}, "want at most 1048576"},
		{[]string{"card", "--dir", t.TempDir(), "--model", data}, "trained with the option data:/home/x, which names files that others lack"},
		{[]string{"card", "--dir", t.TempDir(), "--model", dqn, "--model", limited, "--episodes", "2"}, "one card cannot compare them"},
	} {
		if _, _, err := execute(t, context.Background(), tc.args...); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("trainer %s: %v, want %q", strings.Join(tc.args, " "), err, tc.want)
		}
	}
}

// TestCardBold: a card prints bold what is better than every baseline that is not clairvoyant, and nothing else.
func TestCardBold(t *testing.T) {
	c := &card{comparison: &play.Comparison{Rows: []play.Row{
		{Policy: "bound", Kind: play.KindClairvoyant}, {Policy: "ppo", Kind: play.KindModel, Claim: &play.Claim{Verdict: play.VerdictBetter}},
		{Policy: "a2c", Kind: play.KindModel, Claim: &play.Claim{Verdict: play.VerdictUndecided}}, {Policy: "rule", Kind: play.KindBaseline},
	}}}
	var b strings.Builder
	if err := c.scores().WriteMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "| **ppo** ") || strings.Count(b.String(), "**") != 2 {
		t.Errorf("want ppo bold alone:\n%s", b.String())
	}
}

// outdone are the baselines that every pretrained model of an environment beats.
var outdone = map[string]string{
	"k8s/GangWindow-v0": "static_3", "k8s/GangForecast-v0": "uncorrected", "k8s/PodBalance-v0": "KubeDefault", "k8s/GPUPodScheduling-v0": "Random",
	"k8s/LRAPlacement-v0": "round_robin", "k8s/LRASubcluster-v0": "round_robin", "k8s/LRAOnline-v0": "index_tuned",
}

// TestPretrained plays the models that this repository ships: CartPole's keep the pole up for
// all 500 steps, others beat a baseline on the same episodes: GangWindow's the best static planner, GangForecast's the planner alone,
// PodBalance's the stock scheduler on unlike nodes and pods, those of containers that interfere
// their dealing out in turn, or online the tuned index.
func TestPretrained(t *testing.T) {
	if testing.Short() {
		t.Skip("plays 20 episodes of each model; run without -short")
	}
	paths, err := filepath.Glob(filepath.Join("..", "..", "..", "models", "pretrained", "*", "*.safetensors"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("models/pretrained: %d models, %v", len(paths), err)
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil || info.Size() > maxPretrained {
			t.Errorf("%s: %v, %v", path, info.Size(), err)
		}
		f, err := models.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if want := filepath.Join("..", "..", "..", "models", "pretrained", run.EnvName(f.Meta.Env), f.Meta.Algo+".safetensors"); path != want {
			t.Errorf("%s is a model for %s", path, want)
		}
		if card := envstest.Read(t, filepath.Join(filepath.Dir(path), "card.md")); !strings.Contains(card, f.Meta.Metadata[cli.CommandKey]) {
			t.Errorf("the card of %s lacks its command", path)
		}
		if f.Meta.Env == "classic/CartPole-v1" {
			res := clitest.Decode[evalResult](t, mustExecute(t, "eval", "--model", path, "--episodes", "20", "--json"))
			if res.Mean < 475 { // the environment's threshold
				t.Errorf("%s: mean return %v, want at least 475", path, res.Mean)
			}
			continue
		}
		baseline := outdone[f.Meta.Env]
		if baseline == "" {
			continue // its environment's tests know what is good
		}
		out := mustExecute(t, "compare", "--model", path, "--baseline", baseline, "--episodes", "20", "--json")
		c := clitest.Decode[play.Comparison](t, out)
		if d := c.Rows[0].Difference; c.Rows[0].Kind != play.KindModel || c.Lower && d.High >= 0 || !c.Lower && d.Low <= 0 {
			t.Errorf("%s: %+v, want it better than %s", path, c.Rows[0], baseline)
		}
	}
}

// TestCardUse: what a card says of the number of nodes, and which model it exports.
func TestCardUse(t *testing.T) {
	dense := cardModel{file: "ppo.safetensors"}
	lstm := cardModel{file: "ppo_lstm.safetensors", meta: models.Checkpoint{Spec: models.Spec{LSTMs: []models.LSTM{{}}}}}
	nodes := cardModel{file: "dqn.safetensors", meta: models.Checkpoint{Spec: models.Spec{Nodes: &models.Nodes{}}}}
	for _, tc := range []struct {
		name         string
		models       []cardModel
		want, export string
	}{
		{"dense", []cardModel{dense}, "with options that leave its spaces as they are; others refuse it", "ppo.safetensors"},
		{"nodes", []cardModel{nodes}, "with any number of nodes", ""},
		{"both", []cardModel{nodes, dense, lstm}, "number of nodes but for `ppo.safetensors`, `ppo_lstm.safetensors`", "ppo.safetensors"},
		{"nodes and an LSTM", []cardModel{nodes, lstm}, "number of nodes but for `ppo_lstm.safetensors`", ""},
	} {
		var b strings.Builder
		(&card{folder: "f", models: tc.models}).writeUse(&b)
		text := b.String()
		if !strings.Contains(text, tc.want) || !strings.Contains(text, "eval --model f/"+tc.models[0].file) {
			t.Errorf("%s: want %q in\n%s", tc.name, tc.want, text)
		}
		if exports := strings.Contains(text, "export"); exports != (tc.export != "") || exports && !strings.Contains(text, "export --model f/"+tc.export) {
			t.Errorf("%s: want export of %q in\n%s", tc.name, tc.export, text)
		}
	}
}
