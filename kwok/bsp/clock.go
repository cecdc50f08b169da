package bsp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/kubernasium/kubernasium/kwok/jobs"
)

// clockPath is the path at which a control plane serves its stepped clock.
const clockPath = "/kubernasium.io/clock"

// ErrRealClock is returned by Start if the control plane's clock cannot be stepped.
var ErrRealClock = errors.New("bsp: the control plane's clock is real: start it with --clock=stepped (trainer kwok up -- --clock stepped)")

// clock is KWOK's stepped clock in a control plane without other users.
type clock struct {
	api rest.Interface
	now time.Time
}

func newClock(ctx context.Context, api rest.Interface) (*clock, error) {
	c := &clock{api: api}
	var err error
	if c.now, err = c.ask(ctx, api.Get()); apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, ErrRealClock
	}
	return c, err
}

// advanceTo steps the clock to a time that is not in its past.
func (c *clock) advanceTo(ctx context.Context, to time.Time) error {
	if !to.After(c.now) {
		return nil
	}
	body, err := json.Marshal(map[string]string{"advance": to.Sub(c.now).String()})
	if err != nil {
		return err
	}
	now, err := c.ask(ctx, c.api.Post().Body(body))
	if err != nil {
		return err
	}
	if !now.Equal(to) {
		return fmt.Errorf("bsp: the clock is at %v, want %v: somebody else steps it", now, to)
	}
	c.now = now
	return nil
}

func (c *clock) ask(ctx context.Context, r *rest.Request) (time.Time, error) {
	text, err := r.AbsPath(clockPath).Timeout(callTimeout).DoRaw(ctx)
	if err != nil {
		return time.Time{}, fmt.Errorf("bsp: clock: %w", jobs.Unavailable(ctx, err))
	}
	var reply struct {
		Now time.Time `json:"now"`
	}
	if err := json.Unmarshal(text, &reply); err != nil {
		return time.Time{}, fmt.Errorf("bsp: clock: %w", err)
	}
	return reply.Now, nil
}
