package natsapi

import (
	"crypto/rand"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/kvslots/kvslots/kvslots/subjects"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// This file answers the verbs of micro services. A verb can be sent to all services, to
// all services of one name, and to one instance. micro.AddService would answer verbs to any
// reply subject, with this connection's permissions: a PING with the reply subject of a key would
// write its answer to the bucket. No option of micro is asked before.

func newIdentity(version string) micro.ServiceIdentity {
	return micro.ServiceIdentity{
		Name:     subjects.Service,
		ID:       rand.Text(),
		Version:  semantic(version),
		Metadata: map[string]string{}, // {}, not null
	}
}

func (s *Service) subscribeVerbs() error {
	for verb, say := range map[micro.Verb]func() (any, error){
		micro.PingVerb:  s.ping,
		micro.InfoVerb:  s.info,
		micro.StatsVerb: s.stats,
	} {
		for _, of := range [][2]string{{"", ""}, {subjects.Service, ""}, {subjects.Service, s.identity.ID}} {
			subject, err := micro.ControlSubject(verb, of[0], of[1])
			if err != nil {
				return err
			}
			if err := s.subscribe(subject, "", s.sayTo(say)); err != nil {
				return err
			}
		}
	}
	return nil
}

// sayTo returns a handler that answers a verb, within the rate limit.
func (s *Service) sayTo(say func() (any, error)) nats.MsgHandler {
	return func(m *nats.Msg) {
		if m.Reply == "" || !s.sender.MayAnswer(m.Reply) || !s.verbLimit.Allow() {
			return
		}
		answer, err := say()
		if err == nil {
			var body []byte
			if body, err = wire.Encode(answer); err == nil {
				err = s.nc.Publish(m.Reply, body)
			}
		}
		s.logUnsent(err)
	}
}

func (s *Service) ping() (any, error) {
	return micro.Ping{ServiceIdentity: s.identity, Type: micro.PingResponseType}, nil
}

func (s *Service) info() (any, error) {
	info := micro.Info{ServiceIdentity: s.identity, Type: micro.InfoResponseType, Description: description}
	for _, e := range s.listed {
		info.Endpoints = append(info.Endpoints, micro.EndpointInfo{Name: e.name(), Subject: e.subject, QueueGroup: e.queue()})
	}
	return info, nil
}

func (s *Service) stats() (any, error) {
	stats := micro.Stats{ServiceIdentity: s.identity, Type: micro.StatsResponseType, Started: s.started}
	for _, e := range s.listed {
		of, err := s.counters[e.subject].stats(e)
		if err != nil {
			return nil, err
		}
		stats.Endpoints = append(stats.Endpoints, of)
	}
	return stats, nil
}
