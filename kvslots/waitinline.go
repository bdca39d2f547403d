package kvslots

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/clock"
)

// forever is longer than any wait.
const forever time.Duration = 1 << 62

func times(opts []Option) (ttl, wait time.Duration, err error) {
	var o Options
	err = o.Apply(opts)
	ttl, wait = o.Times()
	return ttl, wait, err
}

// waitInLine calls try, which sends a request, until one is granted, with one request key, so with one place in line,
// across failures of single gateways. The last one asks for no wait, and so leaves the line.
func waitInLine(ctx context.Context, wait time.Duration, try func(wait time.Duration, key Option) error) error {
	until := clock.Now() + min(wait, forever)
	for key, pause, last := uuid.NewString(), time.Duration(0), error(nil); ; pause = min(2*pause+10*time.Millisecond, time.Second) {
		const longest = time.Hour // clamped to Config.MaxWait
		left := until - clock.Now()
		asked := max(min(left, longest), 0)
		err := try(asked, func(o *Options) error {
			o.RequestKey, o.Uncounted = key, left > longest || left <= 0 && last != nil
			return nil
		})
		last, left = err, until-clock.Now()
		switch {
		case err == nil, ctx.Err() != nil, asked == 0:
			return err
		case errors.Is(err, ErrNoSlot): // the place in line is kept
			pause = 0
		case !errors.Is(err, ErrUnavailable) || left <= 0 || retryAfter(err) > left:
			return err
		}
		if !clock.Sleep(ctx, min(max(pause, retryAfter(err)), left)) {
			return context.Cause(ctx)
		}
	}
}
