// Package upstream tests trainer/submit against the modules of JobSet and Kueue: their types decode what is written, an API
// server with their definitions takes it, and their controllers and webhooks run it.
package upstream
