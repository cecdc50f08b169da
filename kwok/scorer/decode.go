package scorer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Limits of a request. Two bytes of JSON can become a structure of a kilobyte, so that a limit of the length
// does not limit memory.
const (
	maxNodes    = 20_000    // four times the number that Kubernetes supports
	maxObject   = 3 << 20   // bytes of a pod or node: twice what etcd stores
	maxElements = 20_000    // values of a pod or node
	maxTotal    = 2_000_000 // values of a request: 400 of each of 5,000 nodes
)

// Decode reads a [Request] as the scheduler does. It keeps only those parts of nodes that decide whether a pod
// may run there, and skips Free. It reads one node at a time, so that a request of 32 MiB uses at most a few
// hundred MiB.
func Decode(r io.Reader) (*Request, error) {
	counted := &counter{r: r}
	dec := json.NewDecoder(counted)
	q := &Request{}
	err := readObject(dec, func(key string) error {
		switch key {
		case "pod":
			return readOne(dec, &q.Pod)
		case "nodes":
			return readNodes(dec, q)
		case "reserve":
			return dec.Decode(&q.Reserve)
		}
		return skip(dec)
	})
	if err == nil && counted.err != nil {
		err = counted.err
	}
	return q, err
}

// readObject reads an object, and calls field after each key.
func readObject(dec *json.Decoder, field func(key string) error) error {
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return errors.Join(err, fmt.Errorf("begins with %v, want an object", t))
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		if err := field(key.(string)); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	_, err := dec.Token()
	return err
}

// skip reads a value of any length without keeping it.
func skip(dec *json.Decoder) error {
	for depth := 0; ; {
		t, err := dec.Token()
		if err != nil {
			return err
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

func readNodes(dec *json.Decoder, q *Request) error {
	q.Nodes = nil
	if t, err := dec.Token(); err != nil || t != json.Delim('[') {
		return errors.Join(err, fmt.Errorf("%v, want an array", t))
	}
	for dec.More() {
		if len(q.Nodes) == maxNodes {
			return fmt.Errorf("more than %d nodes", maxNodes)
		}
		var n corev1.Node
		if err := readOne(dec, &n); err != nil {
			return fmt.Errorf("node %d: %w", len(q.Nodes), err)
		}
		q.Nodes = append(q.Nodes, corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels},
			Spec:       corev1.NodeSpec{Unschedulable: n.Spec.Unschedulable, Taints: n.Spec.Taints},
		})
	}
	_, err := dec.Token()
	return err
}

// readOne reads a pod or a node into v.
func readOne(dec *json.Decoder, v any) error {
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return err
	}
	if len(raw) > maxObject {
		return fmt.Errorf("%d bytes, want at most %d", len(raw), maxObject)
	}
	var c counter
	if c.count(raw); c.elements > maxElements {
		return fmt.Errorf("%d values, want at most %d", c.elements, maxElements)
	}
	return json.Unmarshal(raw, v)
}

// counter counts the values in the JSON that passes through it, and returns an error after maxTotal.
type counter struct {
	r               io.Reader
	elements        int
	quoted, escaped bool
	err             error
}

// Read implements [io.Reader].
func (c *counter) Read(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.r.Read(p)
	if c.count(p[:n]); c.elements > maxTotal {
		c.err = fmt.Errorf("more than %d values", maxTotal)
		return 0, c.err
	}
	return n, err
}

// count adds the values in a part of a text. Each value follows a bracket, a comma or a colon.
func (c *counter) count(text []byte) {
	for _, b := range text {
		switch {
		case c.escaped:
			c.escaped = false
		case c.quoted:
			c.escaped, c.quoted = b == '\\', b != '"'
		case b == '"':
			c.quoted = true
		case b == ',' || b == '{' || b == '[':
			c.elements++
		}
	}
}
