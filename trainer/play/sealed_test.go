package play

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/models"
)

func TestCheckSeed(t *testing.T) {
	for _, tc := range []struct {
		first  uint64
		n      int
		sealed bool
	}{
		{0, 100, false}, {CompareSeed, 1000, false}, {2_999_999_999, 1, false}, {2_999_999_999, 2, true}, {3_000_000_000, 1, true},
		{3_999_999_999, 1, true}, {4_000_000_000, 5, false}, {1<<64 - 2, 2, false}, {1<<64 - 2, 3, true}, // seeds begin again at 0
	} {
		if err := CheckSeed(tc.first, tc.n); (err != nil) != tc.sealed {
			t.Errorf("%d seeds from %d on: %v", tc.n, tc.first, err)
		}
	}
	if err := (&Config{Baseline: "x", Seed: 3_000_000_007, Episodes: 1}).Check(); err == nil || !strings.Contains(err.Error(), "compare --sealed") {
		t.Errorf("a policy with a sealed seed: %v", err)
	}
}

// TestSealedOnce lets a toy environment's block be used: once by each set of policies. No registered
// environment's block is played in tests.
func TestSealedOnce(t *testing.T) {
	cart, err := envs.Lookup("classic/CartPole-v1")
	if err != nil {
		t.Fatal(err)
	}
	toy := *cart
	toy.ID = "toy/CartPole-v1"
	ledger := filepath.Join(t.TempDir(), "sealed.csv")
	one := CompareConfig{Spec: &toy, Baselines: []string{"random"}, Episodes: 3, Sealed: ledger}
	first, err := Compare(t.Context(), one)
	if err != nil || first.Seed != 3_000_000_000 || !strings.Contains(first.Sealed, "used up") {
		t.Fatalf("%+v, %v; want seeds of the sealed block and a note", first, err)
	}
	text, err := os.ReadFile(ledger)
	if lines := strings.Split(string(text), "\n"); err != nil || len(lines) != 3 || lines[0] != "env,options,episodes,policies,digest" || !strings.HasPrefix(lines[1], "toy/CartPole-v1,{},3,random,") {
		t.Fatalf("%v: the file has\n%s", err, text)
	}
	again, err := Compare(t.Context(), one)
	if err != nil || again.Rows[0].Mean != first.Rows[0].Mean || !strings.Contains(again.Sealed, "the same policies again as in line 2") {
		t.Errorf("again: %+v, %v", again, err)
	}
	more, policies, overlapping := one, one, one
	more.Episodes = 4
	policies.Baselines = []string{"random", "pole-angle"}
	overlapping.SealedFirst = 2
	for _, c := range []CompareConfig{more, policies, overlapping} {
		if _, err := Compare(t.Context(), c); err == nil || !strings.Contains(err.Error(), "is used up: line 2 of") || !strings.Contains(err.Error(), "--sealed-first 3 begins") {
			t.Errorf("%d episodes from %d on of %v: %v, want it refused", c.Episodes, c.SealedFirst, c.Baselines, err)
		}
	}
	usual := policies // its options are the same, but one is given
	usual.Given = map[string]any{"sutton_barto_reward": false}
	if _, err := Compare(t.Context(), usual); err == nil || !strings.Contains(err.Error(), "is used up: line 2 of") {
		t.Errorf("an option with its default: %v, want it refused", err)
	}
	other := policies
	other.Given = map[string]any{"sutton_barto_reward": true}
	if _, err := Compare(t.Context(), other); err != nil {
		t.Errorf("other options: %v", err)
	}
	if after, _ := os.ReadFile(ledger); strings.Count(string(after), "\n") != 3 {
		t.Errorf("the file has\n%s, want two uses", after)
	}
	later := policies
	later.SealedFirst = 3
	if next, err := Compare(t.Context(), later); err != nil || next.Seed != 3_000_000_003 || !strings.Contains(next.Sealed, "used up") {
		t.Fatalf("other policies on episodes that none has played: %+v, %v", next, err)
	}
	if after, _ := os.ReadFile(ledger); !strings.Contains(string(after), ",3..5,random; pole-angle,") {
		t.Errorf("the file has\n%s, want the episodes 3..5", after)
	}
	later.Baselines, later.SealedFirst = []string{"pole-angle"}, 5
	if _, err := Compare(t.Context(), later); err == nil || !strings.Contains(err.Error(), "line 4 of") || !strings.Contains(err.Error(), "--sealed-first 6 begins") {
		t.Errorf("an episode that others have played: %v, want it refused", err)
	}
	later.SealedFirst = -1
	if _, err := Compare(t.Context(), later); err == nil || !strings.Contains(err.Error(), "--sealed-first -1, want") {
		t.Errorf("a negative episode: %v", err)
	}
	later.Sealed, later.SealedFirst = "", 3
	if _, err := Compare(t.Context(), later); err == nil || !strings.Contains(err.Error(), "--sealed-first 3, want") {
		t.Errorf("a first episode without --sealed: %v", err)
	}
	one.Sealed, one.Seed = "", 3_000_000_001
	if _, err := Compare(t.Context(), one); err == nil || !strings.Contains(err.Error(), "sealed block") {
		t.Errorf("a sealed seed without --sealed: %v", err)
	}
}

// TestSealedModels: the digest is of a model's contents, not of its name.
func TestSealedModels(t *testing.T) {
	spec, err := envs.Lookup("k8s/GangWindow-v0")
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join("..", "..", "models", "pretrained", "k8s-GangWindow-v0")
	use := func(c CompareConfig) string {
		c.Spec, c.Episodes = spec, 3
		u, err := c.sealedUse(nil)
		if err != nil {
			t.Fatal(err)
		}
		return u.digest
	}
	digest := func(path string) string { return use(CompareConfig{Models: []string{path}}) }
	data := envstest.Read(t, filepath.Join(folder, "ppo.safetensors"))
	copied := envstest.TempFile(t, "other.safetensors", data)
	if a, b := digest(filepath.Join(folder, "ppo.safetensors")), digest(copied); a != b {
		t.Errorf("digests %s and %s of equal files", a, b)
	}
	over := CompareConfig{Searches: []string{"rollout:base=" + copied}}
	searched := use(over)
	f, err := models.ReadFile(copied)
	if err != nil {
		t.Fatal(err)
	}
	f.Meta.Timesteps++ // in all else the same
	if err := models.WriteFile(copied, f); err != nil {
		t.Fatal(err)
	}
	if a, b := digest(filepath.Join(folder, "ppo.safetensors")), digest(copied); a == b {
		t.Errorf("digest %s of two models", a)
	}
	if again := use(over); again == searched {
		t.Errorf("digest %s of searches over two models", again)
	}
}
