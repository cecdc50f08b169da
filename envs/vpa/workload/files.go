package workload

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/kubernasium/kubernasium/envs/dataset"
)

// Formats that [ReadFiles] reads.
const (
	FormatCSV        = "csv"
	FormatArabesque  = "arabesque"
	FormatAzure      = "azure"
	FormatAlibaba    = "alibaba"
	FormatBorg       = "borg"
	FormatPrometheus = "prometheus"
	FormatPodMetrics = "podmetrics"
	FormatTop        = "top"
)

// Formats returns the formats that ReadFiles reads.
func Formats() []string {
	return []string{FormatCSV, FormatArabesque, FormatAzure, FormatAlibaba, FormatBorg, FormatPrometheus, FormatPodMetrics, FormatTop}
}

// ReadFiles reads a file, or all files of a folder and its subfolders, gzipped or not. With an empty format, the names
// of the files select the format: *vmtable* is Azure, *container_meta* Alibaba, *instance_usage* Borg, *arabesque* the
// earlier project's dump, *.csv plain CSV, *.jsonl PodMetrics, *top* kubectl top, and *.json PodMetrics if the first
// file begins so, otherwise Prometheus.
//
//	csv         *.csv, each with a container.json beside it or not
//	arabesque   *.csv
//	azure       *vmtable*.csv and *readings*.csv
//	alibaba     *container_meta*.csv and *container_usage*.csv
//	borg        *instance_usage*.json
//	prometheus  *.json: the replies to one or two queries
//	podmetrics  *.json and *.jsonl: output of metrics-server's API or of `trainer vpa record`
//	top         *top*, or else *.txt: output of `kubectl top pod`, with times
func ReadFiles(path, format string, g Grid) ([]Series, Report, error) {
	names, err := list(path)
	if err != nil {
		return nil, Report{}, err
	}
	if format == "" {
		if format, err = formatOf(path, names); err != nil {
			return nil, Report{}, err
		}
	}
	o := &opener{}
	defer o.close()
	switch format {
	case FormatCSV, FormatArabesque:
		return readEach(o, names, format, g)
	case FormatAzure:
		tables, readings, err := o.pair(path, names, "vmtable", "readings")
		if err != nil {
			return nil, Report{}, err
		}
		return readAzure(tables, readings, g)
	case FormatAlibaba:
		meta, usage, err := o.pair(path, names, "container_meta", "container_usage")
		if err != nil {
			return nil, Report{}, err
		}
		return readAlibaba(meta, usage, g)
	case FormatBorg:
		usage, err := o.open(matching(names, "instance_usage"))
		if err != nil {
			return nil, Report{}, err
		}
		return readBorg(usage, g)
	case FormatPodMetrics:
		ins, err := o.open(matching(names, ".json"))
		if err != nil {
			return nil, Report{}, err
		}
		return readPodMetrics(ins, g)
	case FormatTop:
		top := matching(names, "top")
		if len(top) == 0 {
			top = matching(names, ".txt")
		}
		ins, err := o.open(top)
		if err != nil {
			return nil, Report{}, err
		}
		return readTop(ins, g)
	case FormatPrometheus:
		return readReplies(o, path, matching(names, ".json"), g)
	}
	return nil, Report{}, fmt.Errorf("format %q, want one of %s", format, strings.Join(Formats(), ", "))
}

// list returns the files under path, sorted by name, without hidden ones.
func list(path string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(path, func(name string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !strings.HasPrefix(d.Name(), ".") {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: no files", path)
	}
	return names, nil
}

func formatOf(path string, names []string) (string, error) {
	for _, f := range []struct{ part, format string }{
		{"vmtable", FormatAzure}, {"container_meta", FormatAlibaba}, {"instance_usage", FormatBorg},
		{"arabesque", FormatArabesque}, {".csv", FormatCSV}, {".jsonl", FormatPodMetrics}, {".json", FormatPrometheus}, {"top", FormatTop},
	} {
		fit := matching(names, f.part)
		if len(fit) == 0 {
			continue
		}
		if f.format == FormatPrometheus && holdsPodMetrics(fit[0]) {
			return FormatPodMetrics, nil
		}
		return f.format, nil
	}
	return "", fmt.Errorf("%s: the names of its files tell no format; give one of %s", path, strings.Join(Formats(), ", "))
}

// podMetricsKind appears near the beginning of a reply of metrics.k8s.io.
var podMetricsKind = regexp.MustCompile(`"kind"\s*:\s*"PodMetrics`)

// holdsPodMetrics reports whether a file begins like PodMetrics. It is false for an unreadable file.
func holdsPodMetrics(name string) bool {
	o := &opener{}
	defer o.close()
	ins, err := o.open([]string{name})
	if err != nil {
		return false
	}
	const begin = 4096
	text, err := io.ReadAll(io.LimitReader(ins[0].r, begin))
	return err == nil && podMetricsKind.Match(text)
}

// matching returns the names whose last element contains part.
func matching(names []string, part string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !strings.Contains(filepath.Base(n), part) })
}

// opener opens files and closes them all.
type opener struct{ closers []io.Closer }

func (o *opener) open(names []string) ([]input, error) {
	var ins []input
	for _, name := range names {
		f, err := dataset.OpenFile(name)
		if err != nil {
			return nil, err
		}
		o.closers = append(o.closers, f)
		in := input{name, f}
		if strings.HasSuffix(name, ".gz") {
			z, err := gzip.NewReader(f)
			if err != nil {
				return nil, wrap(name, err)
			}
			in.r = z
		}
		ins = append(ins, in)
	}
	return ins, nil
}

func (o *opener) close() {
	for _, c := range o.closers {
		_ = c.Close() // read only
	}
}

// pair opens the one file with the first part in its name, and all with the second.
func (o *opener) pair(path string, names []string, one, many string) (input, []input, error) {
	first, rest := matching(names, one), matching(names, many)
	if len(first) != 1 || len(rest) == 0 {
		return input{}, nil, fmt.Errorf("%s: %d files named *%s* and %d named *%s*, want one and one or more", path, len(first), one, len(rest), many)
	}
	ins, err := o.open(append(first, rest...))
	if err != nil {
		return input{}, nil, err
	}
	return ins[0], ins[1:], nil
}

// ContainerFile is the name of a file beside a CSV file with the requests and limits of its containers: a [Container]
// as JSON.
const ContainerFile = "container.json"

// addContainer sets requests and limits from the file at path if it is among names.
func addContainer(path string, names []string, series []Series) error {
	if !slices.Contains(names, path) {
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var c Container
	if err := json.Unmarshal(data, &c); err != nil {
		return wrap(path, err)
	}
	for i := range series {
		series[i].Requests, series[i].Limits = c.Requests.Resources(), c.Limits.Resources()
	}
	return nil
}

// readEach reads CSV files one by one. A pod may appear in only one file.
func readEach(o *opener, names []string, format string, g Grid) ([]Series, Report, error) {
	read := ReadCSV
	if format == FormatArabesque {
		read = ReadArabesque
	}
	var all []Series
	var sum Report
	ins, err := o.open(matching(names, ".csv"))
	if err != nil {
		return nil, sum, err
	}
	seen := map[string]string{}
	for _, in := range ins {
		some, r, err := read(in.name, in.r, g)
		if err != nil {
			return nil, sum, err
		}
		sum.Samples, sum.Dropped, sum.Filled = sum.Samples+r.Samples, sum.Dropped+r.Dropped, sum.Filled+r.Filled
		sum.Holes = append(sum.Holes, r.Holes...)
		for _, s := range some {
			if other, ok := seen[s.ID]; ok {
				return nil, sum, fmt.Errorf("%s: pod %q is in %s too", in.name, s.ID, other)
			}
			seen[s.ID] = in.name
		}
		if err := addContainer(filepath.Join(filepath.Dir(in.name), ContainerFile), names, some); err != nil {
			return nil, sum, err
		}
		all = append(all, some...)
	}
	if len(all) == 0 {
		return nil, sum, errors.New("no file named *.csv or *.csv.gz")
	}
	return all, sum, nil
}

func readReplies(o *opener, path string, names []string, g Grid) ([]Series, Report, error) {
	ins, err := o.open(names)
	if err != nil {
		return nil, Report{}, err
	}
	var replies [][]byte
	for _, in := range ins {
		data, err := io.ReadAll(in.r)
		if err != nil {
			return nil, Report{}, wrap(in.name, err)
		}
		replies = append(replies, data)
	}
	return ReadPrometheus(path, replies, g)
}
