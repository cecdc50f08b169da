package main

import (
	"context"
	"testing"

	"github.com/kubernasium/kubernasium/trainer/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m, newRoot) }

func execute(t *testing.T, ctx context.Context, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return clitest.Execute(t, ctx, newRoot(), args...)
}

func mustExecute(t *testing.T, args ...string) string {
	t.Helper()
	return clitest.MustExecute(t, newRoot(), args...)
}
