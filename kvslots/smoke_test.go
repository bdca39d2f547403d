package kvslots

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

func TestSmoke(t *testing.T) {
	srv := kvslotstest.Start(t, "")
	ctx := t.Context()
	s, err := Open(ctx, srv.Connect(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	pool := uuid.New()
	if _, err := s.Inspect(ctx, pool); !errors.Is(err, ErrNoPool) {
		t.Fatal(err)
	}
	st, err := s.Register(ctx, pool, 2)
	fmt.Println(st, err)
	t0 := time.Now()
	a, err := s.Borrow(ctx, pool, 30*time.Second, 0)
	fmt.Println(a, err, time.Since(t0))
	b, err := s.Borrow(ctx, pool, 30*time.Second, 0)
	fmt.Println(b, err)
	t0 = time.Now()
	_, err = s.Borrow(ctx, pool, 30*time.Second, 0)
	fmt.Println(err, time.Since(t0))
	go func() {
		time.Sleep(200 * time.Millisecond)
		fmt.Println(s.Return(ctx, pool, a.ID()))
	}()
	c, err := s.Borrow(ctx, pool, 30*time.Second, 2*time.Second)
	fmt.Println(c, err)
	fmt.Println(s.Renew(ctx, pool, c.ID(), 10*time.Second))
	t0 = time.Now()
	for range 10000 {
		ok, err := s.Return(ctx, pool, c.ID())
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		c, err = s.Borrow(ctx, pool, 30*time.Second, 2*time.Second)
		if err != nil {
			t.Fatal(err)
		}
	}
	fmt.Println("cycle", time.Since(t0)/10000, s.bucket.stats)
	fmt.Println(s.Inspect(ctx, pool))
	fmt.Println(s.Delete(ctx, pool))
	fmt.Println(s.Inspect(ctx, pool))
}
