package natsapi

import (
	"context"

	"github.com/kvslots/kvslots/kvslots/wire"
)

// register answers kvslots.register (README.md, "Subjects").
func (s *Service) register(ctx context.Context, r *request) (any, error) {
	id, err := wire.ParsePoolID(r.body)
	if err != nil {
		return nil, err
	}
	request, err := wire.ParseRegister(r.body)
	if err != nil {
		return nil, err
	}
	state, err := s.pools.Register(ctx, id, request.Count)
	if err != nil {
		return nil, err
	}
	return wire.NewPool(id, state), nil
}

// inspect answers kvslots.inspect (README.md, "Subjects").
func (s *Service) inspect(ctx context.Context, r *request) (any, error) {
	id, err := wire.ParsePoolID(r.body)
	if err != nil {
		return nil, err
	}
	state, err := s.pools.Inspect(ctx, id)
	if err != nil {
		return nil, err
	}
	return wire.NewPool(id, state), nil
}

// remove answers kvslots.delete (README.md, "Subjects").
func (s *Service) remove(ctx context.Context, r *request) (any, error) {
	id, err := wire.ParsePoolID(r.body)
	if err != nil {
		return nil, err
	}
	if err := s.pools.Delete(ctx, id); err != nil {
		return nil, err
	}
	return wire.Deleted{Deleted: true}, nil
}
