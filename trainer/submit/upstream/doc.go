// Package upstream tests trainer/submit with the modules of JobSet and Kueue: their types decode the manifests,
// an API server with their CRDs accepts them, and their controllers and webhooks run them.
package upstream
