package plane

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestDefaultStages(t *testing.T) {
	stages, err := defaultStages()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range stages {
		names = append(names, s.Name)
	}
	want := []string{"node-initialize", "pod-ready", "pod-delete", "pod-complete", "pod-complete-after"}
	if !slices.Equal(names, want) {
		t.Errorf("stages %v, want %v", names, want)
	}
	if !strings.Contains(podCompleteAfter, DurationAnnotation) {
		t.Errorf("the stage pod-complete-after does not read %s", DurationAnnotation)
	}
}

func TestReadStages(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	two := write("two.yaml", "---\n"+podCompleteAfter+"\n---\n"+strings.ReplaceAll(podCompleteAfter, "pod-complete-after", "other"))
	if stages, err := readStages([]string{two}); err != nil || len(stages) != 2 || stages[1].Name != "other" {
		t.Errorf("readStages(two) = %v, %v, want two stages", stages, err)
	}
	if stages, err := readStages([]string{dir}); err != nil || len(stages) != 2 {
		t.Errorf("readStages(folder) = %v, %v, want two stages", stages, err)
	}
	if _, err := readStages([]string{t.TempDir()}); err == nil {
		t.Error("an empty folder: no error")
	}
	for name, text := range map[string]string{"empty": "# nothing\n", "no YAML": "{", "another kind": "apiVersion: v1\nkind: Pod\n"} {
		if _, err := readStages([]string{write("bad", text)}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := readStages([]string{filepath.Join(dir, "nonesuch")}); err == nil {
		t.Error("a file that is not there: no error")
	}
}
