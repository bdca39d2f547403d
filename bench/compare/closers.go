package main

import (
	"context"
	"errors"
	"time"
)

type closers []func() error

func (c *closers) add(f func() error) { *c = append(*c, f) }

func (c *closers) close() (err error) {
	for i := len(*c) - 1; i >= 0; i-- {
		err = errors.Join(err, (*c)[i]())
	}
	*c = nil
	return err
}

// closeTimeout bounds the closing of each part of a testbed.
const closeTimeout = 20 * time.Second

func bounded(f func(ctx context.Context) error) func() error {
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		return f(ctx)
	}
}
