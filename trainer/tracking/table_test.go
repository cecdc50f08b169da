package tracking

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTable(t *testing.T) {
	table := NewTable("policy", ">mean", "95 % interval")
	table.Append("ppo", "−52.3", "[−56.1, −48.5]")
	table.Append("first|fit", "7", "a,b\n\"c\"")
	tests := []struct {
		name  string
		write func(io.Writer) error
		want  []string
	}{
		{"text", table.WriteText, []string{
			`policy      mean  95 % interval`,
			`---------  -----  --------------`,
			`ppo        −52.3  [−56.1, −48.5]`,
			`first|fit      7  a,b "c"`,
		}},
		{"markdown", table.WriteMarkdown, []string{
			`| policy     |  mean | 95 % interval  |`,
			`| ---------- | ----: | -------------- |`,
			`| ppo        | −52.3 | [−56.1, −48.5] |`,
			`| first\|fit |     7 | a,b<br>"c"     |`,
		}},
		{"csv", table.WriteCSV, []string{
			`policy,mean,95 % interval`,
			`ppo,−52.3,"[−56.1, −48.5]"`,
			`first|fit,7,"a,b`,
			`""c"""`,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b strings.Builder
			if err := tt.write(&b); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Join(tt.want, "\n")+"\n", b.String()); diff != "" {
				t.Errorf("differs (-want +got):\n%s", diff)
			}
		})
	}
}

// TestReadCSV: a table reads back as it was written but for the alignment of columns; other files are errors.
func TestReadCSV(t *testing.T) {
	table := NewTable("policy", "mean", "95 % interval")
	table.Append("ppo, 5 seeds", "−52.3", "[−56.1, −48.5]")
	table.Append("first|fit", "7", "a,b\n\"c\"")
	var b strings.Builder
	if err := table.WriteCSV(&b); err != nil {
		t.Fatal(err)
	}
	got, err := ReadCSV(strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(table, got); diff != "" {
		t.Errorf("differs (-want +got):\n%s", diff)
	}
	for _, text := range []string{"", "a,b\n1\n", "a,\"b"} {
		if table, err := ReadCSV(strings.NewReader(text)); err == nil {
			t.Errorf("ReadCSV(%q) = %v, want an error", text, table)
		}
	}
}

func TestTableWithoutRows(t *testing.T) {
	var b strings.Builder
	if err := NewTable("a", ">b").WriteMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	if got, want := b.String(), "| a   |   b |\n| --- | --: |\n"; got != want {
		t.Errorf("table = %q, want %q", got, want)
	}
}

func TestAppendPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("Append of one cell to two columns: no panic")
		}
	}()
	NewTable("a", "b").Append("1")
}
