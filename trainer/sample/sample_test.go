package sample

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs/dataset/catalog"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/trainer/cli"
)

// inCache makes the user's cache a folder of the test.
func inCache(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"XDG_CACHE_HOME", "HOME", "LocalAppData"} {
		t.Setenv(name, dir)
	}
	return dir
}

func TestDir(t *testing.T) {
	inCache(t)
	empty := t.TempDir()
	t.Setenv(cli.DataVariable, empty)
	for _, s := range sets {
		var notes strings.Builder
		dir, err := Dir(t.Context(), &notes, s.Name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, s.Needs)); err != nil {
			t.Errorf("the sample of %s lacks what its set is known by: %v", s.Name, err)
		}
		for _, want := range []string{"no " + s.Name + " data in " + filepath.Join(empty, s.Name), s.Licence, s.What, dir} {
			if !strings.Contains(notes.String(), want) {
				t.Errorf("Dir(%s) prints %q, want %q in it", s.Name, notes.String(), want)
			}
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel() // so that what is made cannot be made again
		again, err := Dir(ended, io.Discard, s.Name)
		if err != nil || again != dir {
			t.Errorf("a second Dir(%s) = %s, %v; want %s", s.Name, again, err, dir)
		}
	}
	if _, err := Dir(t.Context(), io.Discard, "borg"); err == nil {
		t.Error("there is a sample of borg")
	}
}

// TestDirPrefersData: a set that is in the data folder is taken, without a word.
func TestDirPrefersData(t *testing.T) {
	cache, root := inCache(t), t.TempDir()
	t.Setenv(cli.DataVariable, root)
	want := filepath.Join(root, "openb")
	if err := os.MkdirAll(want, 0o755); err != nil {
		t.Fatal(err)
	}
	envstest.Write(t, filepath.Join(want, "openb_node_list_gpu_node.csv"), "")
	var notes strings.Builder
	if got, err := Dir(t.Context(), &notes, "openb"); got != want || err != nil || notes.Len() > 0 {
		t.Errorf("Dir = %s, %v, printing %q; want %s", got, err, notes.String(), want)
	}
	if found, err := os.ReadDir(cache); err != nil || len(found) > 0 {
		t.Errorf("the cache has %v, %v; want nothing", found, err)
	}
}

// TestFolderWithoutCache: where the user's cache cannot be written, the sample is among temporary files.
func TestFolderWithoutCache(t *testing.T) {
	inCache(t)
	file := envstest.TempFile(t, "file", "")
	for _, name := range []string{"XDG_CACHE_HOME", "HOME", "LocalAppData"} {
		t.Setenv(name, file) // below which there can be no folder
	}
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	t.Setenv("TMP", temp)
	dir, err := sets[2].Folder(t.Context())
	if err != nil || !strings.HasPrefix(dir, temp) {
		t.Errorf("Folder = %s, %v; want it below %s", dir, err, temp)
	}
}

// TestFolderInterrupted: a sample that was not finished leaves no folder.
func TestFolderInterrupted(t *testing.T) {
	cache := inCache(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if dir, err := sets[0].Folder(ctx); err == nil {
		t.Fatalf("Folder = %s after an interrupt", dir)
	}
	err := filepath.WalkDir(cache, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			t.Errorf("%s is left", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestPublished: a file that is embedded whole has the digest of the published one.
func TestPublished(t *testing.T) {
	digests := map[string]string{}
	for _, d := range catalog.All() {
		for _, f := range slices.Concat(d.Files, d.Outputs) {
			digests[f.Path] = f.SHA256
		}
	}
	for _, name := range []string{
		"batch_set_200.csv", "batch_set_300.csv", "batch_set_400.csv", "batch_set_1000.csv", "batch_set_2000.csv",
		"0905-7app-2008-pairwise-normed.csv", "0905-7app-2008-pairwise-normed-per-app.csv",
	} {
		text, err := data.ReadFile("data/metis/" + name)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(text)
		if want := digests["metis/"+name]; hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s has digest %x, the manifest %q", name, sum, want)
		}
	}
}

// TestExcerpts: the rows of an excerpt are rows of the published file: every tenth from the first, or the last ones that
// are read.
func TestExcerpts(t *testing.T) {
	lines := func(text []byte) []string { return strings.Split(strings.TrimSpace(string(text)), "\n") }
	published := func(set, name string) []string {
		text, err := os.ReadFile(filepath.Join(envstest.Data(t, set, name), name))
		if err != nil {
			t.Fatal(err)
		}
		return lines(text)
	}
	embedded := func(set, name string) []string {
		text, err := data.ReadFile("data/" + set + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return lines(text)
	}
	for _, name := range []string{"openb_node_list_gpu_node.csv", "openb_pod_list_default.csv", "openb_pod_list_gpuspec10.csv"} {
		want := published("openb", name)[:1]
		for i, row := range published("openb", name)[1:] {
			if i%10 == 0 {
				want = append(want, row)
			}
		}
		if got := embedded("openb", name); !slices.Equal(got, want) {
			t.Errorf("%s has %d rows, not every tenth of the published: %d", name, len(got), len(want))
		}
	}
	entries, err := data.ReadDir("data/gang/series")
	if err != nil || len(entries) != 8 {
		t.Fatalf("%d series, %v; want 8", len(entries), err)
	}
	for _, e := range entries {
		all := published("gang", "series/"+e.Name())
		all = all[:min(len(all), 5001)] // of which so many are read
		want := append(all[:1:1], all[len(all)-1360:]...)
		if got := embedded("gang", "series/"+e.Name()); !slices.Equal(got, want) {
			t.Errorf("%s is not the header and the last 1360 rows of the published series", e.Name())
		}
	}
	for i, row := range published("metis", "profile_p20_2008.csv") {
		if got := embedded("metis", "profile_p20_2008.csv")[i]; !strings.HasPrefix(row+",", got+",") {
			t.Fatalf("profile, line %d: %s, published %s", i+1, got, row)
		}
	}
}

// TestLicences: each sample that others made has its licence, and a notice with its source.
func TestLicences(t *testing.T) {
	text := map[string]string{"MIT": "MIT License", "Apache-2.0": "Apache License"}
	for _, s := range sets {
		if s.Name == "vpa" { // our own
			continue
		}
		licence, err := data.ReadFile("data/" + s.Name + "/LICENSE")
		if err != nil || !strings.Contains(string(licence), text[s.Licence]) {
			t.Errorf("%s has no licence %s: %v", s.Name, s.Licence, err)
		}
		notice, err := data.ReadFile("data/" + s.Name + "/NOTICE")
		if err != nil || !strings.Contains(string(notice), "Source: https://") || !strings.Contains(string(notice), "Changed by Kubernasium") {
			t.Errorf("%s has no notice with its source and what was changed: %v", s.Name, err)
		}
	}
}

// TestNodeTable: the table of the random forest, which figures are published for, comes before the one that convert
// predicts.
func TestNodeTable(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"node_table_p20.csv", "node_table_rf_p20.csv"} {
		envstest.Write(t, filepath.Join(dir, name), "")
		if got := filepath.Base(NodeTable(dir)); got != name {
			t.Errorf("NodeTable = %s, want %s, the last that was written", got, name)
		}
	}
}
