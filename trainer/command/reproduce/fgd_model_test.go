package reproduce

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare/published"
	"github.com/kubernasium/kubernasium/trainer/clitest"
)

// smallTrace writes 12 nodes and a list of 40 pods as the trace has them, and returns the folder.
func smallTrace(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	nodes, pods := "sn,cpu_milli,memory_mib,gpu,model\n", "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
	for i := range 12 {
		nodes += fmt.Sprintf("n%02d,%d,262144,%d,%s\n", i, 16000+8000*(i%4), 2+2*(i%2), []string{"T4", "G2", "P100"}[i%3])
	}
	for i := range 40 {
		pods += fmt.Sprintf("p%02d,%d,8192,1,%d,%s\n", i, 2000+1000*(i%7), []int{1000, 500, 300}[i%3], []string{"", "T4", "", "G2|P100"}[i%4])
	}
	for name, text := range map[string]string{published.NodeFile: nodes, "openb_pod_list_small.csv": pods} {
		envstest.Write(t, filepath.Join(dir, name), text)
	}
	return dir
}

// TestReproduceModels: models trained on 8 nodes play the workloads on 12, under FGD's conditions.
func TestReproduceModels(t *testing.T) {
	dir, folder := smallTrace(t), t.TempDir()
	mustExecute(t, "train", "--algo", "ppo", "--env", gpuEnv, "--env-kwargs", "num_nodes:8", "--params", "policy:NodePolicy", "--params", "net_arch:[8]",
		"--params", "n_envs:2", "--params", "n_steps:32", "--params", "batch_size:32", "-n", "64", "--seeds", "1,2", "--eval-episodes", "1", "--save-freq", "0", "-f", folder)
	found, err := filepath.Glob(filepath.Join(folder, "*", "*", "seed_*", "best_model.safetensors"))
	if err != nil || len(found) != 2 {
		t.Fatalf("models %v, %v; want 2", found, err)
	}
	list := filepath.Join(dir, "openb_pod_list_small.csv")
	one := []string{"reproduce", "fgd", "--nodes", filepath.Join(dir, published.NodeFile), "--pods", list, "--seed", "42", "--json"}
	var fgd, model gpushare.Run
	for run, args := range map[*gpushare.Run][]string{&fgd: one, &model: append(one, "--model", found[0])} {
		if err := json.Unmarshal([]byte(mustExecute(t, args...)), run); err != nil {
			t.Fatal(err)
		}
	}
	if model.Pods != fgd.Pods || model.Seed != 42 || model.Policy != "ppo seed_1" || len(model.Alloc) != 131 {
		t.Errorf("%s, seed %d: %d pods, %d points; want ppo seed_1, 42, the %d pods of FGD, 131", model.Policy, model.Seed, model.Pods, len(model.Alloc), fgd.Pods)
	}
	for x, alloc := range model.Alloc {
		if alloc < 0 || alloc > float64(min(x+2, 100)) {
			t.Errorf("%v %% allocated at %d %% arrived", alloc, x)
		}
	}

	plots := t.TempDir()
	all := []string{"reproduce", "fgd", "--all", "--data", dir, "--list", "small", "--policy", "FGD", "--policy", "Random", "--model", found[0], "--model", found[1], "--plot", plots}
	text := mustExecute(t, all...)
	if !strings.Contains(text, "small, ppo against FGD") {
		t.Errorf("no curve of the models in\n%s", text)
	}
	if _, err := os.Stat(filepath.Join(plots, "fgd_small.png")); err != nil {
		t.Error(err)
	}
	rows := clitest.Decode[[]published.Row](t, mustExecute(t, append(all, "--json")...))
	if len(rows) != 3 || len(rows[0].Runs) != 10 || len(rows[2].Runs) != 20 || rows[2].Runs[0].Failed != model.Failed {
		t.Fatalf("%d rows, want FGD and Random with 10 runs and the models with 20, of which the first fails %d pods", len(rows), model.Failed)
	}
}

func TestReproduceModelErrors(t *testing.T) {
	dir := smallTrace(t)
	one := []string{"reproduce", "fgd", "--nodes", filepath.Join(dir, published.NodeFile), "--pods", filepath.Join(dir, "openb_pod_list_small.csv")}
	cartPoleModel := filepath.Join("..", "..", "..", "models", "pretrained", "classic-CartPole-v1", "ppo.safetensors")
	for _, tc := range []struct {
		args []string
		want string
	}{
		{append(one, "--model", "nowhere.safetensors"), "nowhere.safetensors"},
		{append(one, "--model", cartPoleModel), "classic/CartPole-v1"},
		{append(one, "--model", cartPoleModel, "--ratio", "0"), "--ratio above 0"},
		{append(one, "--model", "a", "--policy", "FGD"), "one --policy or one --model"},
		{append(one, "--policy", "FGD", "--policy", "BestFit"), "one --policy or one --model"},
		{append(one, "--policy", "None"), "policy \"None\""},
		{append(one, "--list", "small"), "--list selects"},
		{[]string{"reproduce", "fgd", "--all", "--data", dir, "--list", "large"}, "openb_pod_list_large.csv"},
	} {
		if _, _, err := execute(t, context.Background(), tc.args...); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: %v, want an error with %q", tc.args, err, tc.want)
		}
	}
}
