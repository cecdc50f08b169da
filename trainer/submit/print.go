package submit

import (
	"crypto/rand"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// object converts an object to the form for an API server: without status.
func object(o any) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, err
	}
	delete(content, "status")
	return &unstructured.Unstructured{Object: content}, nil
}

// objects returns all objects of the manifests: the workload first, then those deleted with it, then the claim.
func (m *Manifests) objects() (all []any) {
	all = append(all, m.main())
	if m.Files != nil {
		all = append(all, m.Files)
	}
	if m.Token != nil {
		all = append(all, m.Token)
	}
	if m.Claim != nil {
		all = append(all, m.Claim)
	}
	return all
}

// List returns the manifests as one object for kubectl, a List. It generates a token for the Secret.
func (m *Manifests) List() (map[string]any, error) {
	items, err := m.printed()
	return map[string]any{"apiVersion": "v1", "kind": "List", "items": items}, err
}

// WriteYAML writes the manifests for kubectl, a document for each. It generates a token for the Secret.
func (m *Manifests) WriteYAML(w io.Writer) error {
	items, err := m.printed()
	if err != nil {
		return err
	}
	for i, o := range items {
		text, err := yaml.Marshal(o)
		if err != nil {
			return err
		}
		if i > 0 {
			fmt.Fprintln(w, "---")
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	return nil
}

// printed returns the contents of all objects, with a new token in the Secret.
func (m *Manifests) printed() (items []map[string]any, err error) {
	for _, o := range m.objects() {
		if o == any(m.Token) {
			t := m.Token.DeepCopy()
			t.StringData = map[string]string{tokenKey: rand.Text()}
			o = t
		}
		u, err := object(o)
		if err != nil {
			return nil, err
		}
		items = append(items, u.Object)
	}
	return items, nil
}
