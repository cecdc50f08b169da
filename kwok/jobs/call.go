package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// Create creates a Job.
func (s *Space) Create(ctx context.Context, j *batchv1.Job) error {
	return call(ctx, "create job "+j.Name, func(ctx context.Context, again bool) error {
		_, err := s.client.BatchV1().Jobs(s.namespace).Create(ctx, j, metav1.CreateOptions{})
		if again && apierrors.IsAlreadyExists(err) {
			return nil // the server had carried out the first request
		}
		return err
	})
}

// Resume unsuspends Jobs.
func (s *Space) Resume(ctx context.Context, names ...string) error {
	for _, name := range names {
		err := call(ctx, "resume job "+name, func(ctx context.Context, _ bool) error {
			_, err := s.client.BatchV1().Jobs(s.namespace).Patch(ctx, name, types.StrategicMergePatchType, []byte(`{"spec":{"suspend":false}}`), metav1.PatchOptions{})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Delete deletes Jobs; the garbage collector deletes their pods: see [Space.Gone].
func (s *Space) Delete(ctx context.Context, names ...string) error {
	background := metav1.DeletePropagationBackground
	for _, name := range names {
		err := call(ctx, "delete job "+name, func(ctx context.Context, _ bool) error {
			err := s.client.BatchV1().Jobs(s.namespace).Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &background})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// PatchPod changes a pod, or one of its subresources, with a strategic merge patch.
func (s *Space) PatchPod(ctx context.Context, name string, patch any, subresources ...string) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	return call(ctx, "patch pod "+strings.Join(append([]string{name}, subresources...), "/"), func(ctx context.Context, _ bool) error {
		_, err := s.client.CoreV1().Pods(s.namespace).Patch(ctx, name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, subresources...)
		return err
	})
}

// call makes a request, and retries while the API server exists but cannot serve it, for example when its etcd
// is too slow on a busy machine. An error wraps [cluster.ErrUnavailable] if there is no API server. When ctx
// ends, call still waits for the reply: the server might carry out an abandoned request later.
func call(ctx context.Context, what string, request func(ctx context.Context, again bool) error) error {
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	for pause := firstPause; ; pause *= 2 {
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", what, context.Cause(ctx))
		}
		err := request(asking, pause > firstPause)
		if err == nil {
			return nil
		}
		err = fmt.Errorf("%s: %w", what, Unavailable(asking, err))
		if !apierrors.IsInternalError(err) && !apierrors.IsServerTimeout(err) && !apierrors.IsTimeout(err) && !apierrors.IsServiceUnavailable(err) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-asking.Done():
			return err
		case <-ctx.Done(): // see the comment of call
		}
	}
}

// Unavailable returns an error that also wraps [cluster.ErrUnavailable] if err, the error of a request with
// ctx, is not a reply of an API server.
func Unavailable(ctx context.Context, err error) error {
	var status apierrors.APIStatus
	if err == nil || errors.As(err, &status) || ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("%w: %w", cluster.ErrUnavailable, err)
}
