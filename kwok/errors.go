package kwok

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// ErrDiverged is wrapped by errors of a Cluster whose objects do not match the effect of its ops, because
// another client changed them or a controller does not work. Reset recovers.
var ErrDiverged = errors.New("kwok: the API server's objects differ from what was predicted")

// wrapAPI adds the failed call to an error of the API server. The error wraps [cluster.ErrUnavailable] if the
// server did not answer, or cannot serve now.
func wrapAPI(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("kwok: %s: %w", what, err)
	case unavailable(err):
		return fmt.Errorf("kwok: %s: %w: %w", what, cluster.ErrUnavailable, err)
	}
	return fmt.Errorf("kwok: %s: %w", what, err)
}

// unavailable reports whether err means that no API server answered, or that it cannot serve now.
func unavailable(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	return apierrors.IsServiceUnavailable(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err)
}
