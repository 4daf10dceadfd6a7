package main

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// server is the Redis that the demo runs on.
type server struct {
	client   *redis.Client
	url      string // for the workers; it may hold a password and is never shown
	address  string // for people
	embedded *miniredis.Miniredis
}

// openServer starts the embedded server if rawURL is empty, else it connects to the one there.
func openServer(ctx context.Context, rawURL string) (*server, error) {
	if rawURL == "" {
		return startEmbedded()
	}
	opts, err := parseURL(rawURL, "--redis")
	if err != nil {
		return nil, err
	}
	if err := reach(ctx, *opts, ", or leave out --redis to use the embedded server"); err != nil {
		return nil, err
	}
	return &server{client: redis.NewClient(opts), url: rawURL, address: "Redis at " + opts.Addr}, nil
}

// reach makes sure that a server answers. hint is what else one can do if none does.
func reach(ctx context.Context, opts redis.Options, hint string) error {
	if err := probe(ctx, opts); err != nil {
		return fmt.Errorf("no Redis at %s: %w; check address, user and password%s", opts.Addr, err, hint)
	}
	return nil
}

func startEmbedded() (*server, error) {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true) // else nothing ever expires
	if err := m.Start(); err != nil {
		return nil, fmt.Errorf("cannot start the embedded server on 127.0.0.1: %w; allow listening there, or name a server with --redis", err)
	}
	client := redis.NewClient(&redis.Options{Addr: m.Addr()})
	return &server{client: client, url: "redis://" + m.Addr(), address: "the embedded server at " + m.Addr(), embedded: m}, nil
}

// close closes the connections, and stops the server if it is the embedded one.
func (s *server) close() {
	_ = s.client.Close() // nothing is in flight any more
	if s.embedded != nil {
		s.embedded.Close()
	}
}

// parseURL takes a URL from source, which is a flag or a variable. It repeats
// nothing of the URL and of what parsers say about it: a password with a special character ends up in
// any part, and in their messages.
func parseURL(rawURL, source string) (*redis.Options, error) {
	u, err := url.Parse(rawURL)
	if err == nil && u.Fragment == "" {
		if opts, err := redis.ParseURL(rawURL); err == nil {
			return opts, nil
		}
	}
	return nil, usage("%s is no address of a Redis server, such as redis://user:password@host:6379/0, rediss://host or unix:///path; write special characters of a password as %%XX", source)
}

// probeTimeout bounds each step of the first contact.
const probeTimeout = 3 * time.Second

// probe asks the server for a sign of life, once, so that a wrong address is told at once.
func probe(ctx context.Context, opts redis.Options) error {
	opts.MaxRetries, opts.DialerRetries = -1, 1
	opts.DialTimeout, opts.ReadTimeout, opts.WriteTimeout = probeTimeout, probeTimeout, probeTimeout
	client := redis.NewClient(&opts)
	defer func() { _ = client.Close() }() // it has told what it could
	answer := make(chan error, 1)
	go func() { answer <- client.Ping(ctx).Err() }() // ends with the time-outs; waited for below unless ctx ends
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
