package shadow_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/agents/shadow"
	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
)

// elements parses a page and returns its elements, in their order, with the text of each table cell.
func elements(t *testing.T, page []byte) (all []xml.StartElement, cells []string) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(page))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	var inCell bool
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all, cells
		}
		if err != nil {
			t.Fatal(err)
		}
		switch v := token.(type) {
		case xml.StartElement:
			all = append(all, v.Copy())
			if inCell = v.Name.Local == "td"; inCell {
				cells = append(cells, "")
			}
		case xml.CharData:
			if inCell {
				cells[len(cells)-1] += string(v)
			}
		case xml.EndElement:
			inCell = false
		}
	}
}

// TestHTML: the page needs nothing else, shows the report, and escapes names.
func TestHTML(t *testing.T) {
	s := newScript(t)
	n0, n1 := s.node("n0", 4), s.node("n1", 4)
	two := s.cores(2)
	s.bind(s.pod("a", two), n0)
	s.bind(s.pod("b", two), n1)
	s.pod("<script>alert(1)</script>", s.cores(100))
	r := run(t, s.end(12), withFirst())
	var b bytes.Buffer
	if err := r.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	all, cells := elements(t, b.Bytes())
	count := map[string]int{}
	var lines []string
	for _, e := range all {
		count[e.Name.Local]++
		for _, a := range e.Attr {
			if slices.Contains([]string{"src", "href", "action", "data", "srcset", "onload"}, a.Name.Local) || strings.Contains(a.Value, "://") || strings.Contains(a.Value, "url(") {
				t.Errorf("<%s %s=%q>, want nothing to load", e.Name.Local, a.Name.Local, a.Value)
			}
			if a.Name.Local == "points" {
				lines = append(lines, a.Value)
			}
		}
	}
	for _, name := range []string{"script", "link", "img", "iframe", "object", "embed"} {
		if count[name] > 0 {
			t.Errorf("%d <%s>, want none", count[name], name)
		}
	}
	if count["svg"] != len(r.Metrics) {
		t.Errorf("%d plots, want one for each of %d metrics", count["svg"], len(r.Metrics))
	}
	for _, want := range []string{"nodes_in_use (nodes)", "−1.000", "[−1.000, −1.000]", "better", "default/<script>alert(1)</script>"} {
		if !slices.Contains(cells, want) {
			t.Errorf("no cell %q among %q", want, cells)
		}
	}
	// Nodes in use are 2 and 1 of an axis to 2: y is 30 and 127.5, x from 70 in steps of 820/12.
	for _, want := range []string{"70,30 138.3,30 138.3,30 206.7,30", "70,127.5 138.3,127.5 138.3,127.5 206.7,127.5"} {
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, want) }) {
			t.Errorf("no line that begins with %q", want)
		}
	}
}

// TestHTMLOfTimeWithoutPods: blocks without a value part a line.
func TestHTMLOfTimeWithoutPods(t *testing.T) {
	s := newScript(t)
	n := s.node("n0", 4)
	one := s.cores(1)
	s.bind(s.pod("a", one), n)
	s.at(3).bind(s.pod("b", one), n)
	s.at(4).add(clustertrace.Event{Kind: clustertrace.EndOfSegment})
	s.at(6).add(clustertrace.Event{Kind: clustertrace.Gap})
	r := run(t, s.end(8), withFirst())
	if v := r.Recorded.Series[index(t, r, "pending_time")]; v[0] != 0 || !math.IsNaN(float64(v[1])) || v[3] != 0 {
		t.Errorf("pending time by hour %v, want none in hours to which no pod comes", v)
	}
	var b bytes.Buffer
	if err := r.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "NaN") {
		t.Error("the page has NaN")
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back shadow.Report
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if v := back.Recorded.Series[index(t, r, "pending_time")]; v[0] != 0 || !math.IsNaN(float64(v[1])) {
		t.Errorf("pending time by hour %v after JSON and back", v)
	}
}

func TestFormatNumber(t *testing.T) {
	for _, tc := range []struct {
		v    float64
		want string
	}{
		{0, "0"}, {1, "1.000"}, {-12.345, "−12.35"}, {123456.7, "123457"}, {0.0001, "0"}, {-0.0004, "0"}, {0.25, "0.250"}, {999.96, "1000.0"},
		{math.NaN(), "–"}, {math.Inf(1), "–"},
	} {
		if got := shadow.FormatNumber(tc.v); got != tc.want {
			t.Errorf("FormatNumber(%v) = %q, want %q", tc.v, got, tc.want)
		}
	}
}
