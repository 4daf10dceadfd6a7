// Package dial makes clients of the URLs by which people name a Redis. It repeats nothing of a URL and of
// what parsers say about it: a password with a special character ends up in any part, and in their messages.
package dial

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Help names the forms of a URL, for flags and errors.
const Help = "redis://user:password@host:6379/0, rediss://host, unix:///path, " +
	"cluster://host:6379?addr=host2:6379 or sentinel://host:26379?master_name=mymaster"

// Server is a Redis that was named by a URL. Exactly one of the options is set.
type Server struct {
	single   *redis.Options
	cluster  *redis.ClusterOptions
	sentinel *redis.FailoverOptions
}

// The schemes that are not go-redis's own, and what it calls them; the second is with TLS.
var (
	clusterSchemes  = []string{"cluster", "clusters"}
	sentinelSchemes = []string{"sentinel", "sentinels"}
	plainSchemes    = []string{"redis", "rediss"}
)

var errURL = errors.New("no address of a Redis server, such as " + Help + "; write special characters of a password as %XX")

// Parse takes a URL apart. Query parameters are those of go-redis. The error does not say where the URL came
// from.
func Parse(rawURL string) (*Server, error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Fragment != "" {
		return nil, errURL
	}
	parse := parseSingle
	if i := slices.Index(clusterSchemes, u.Scheme); i >= 0 {
		u.Scheme, parse = plainSchemes[i], parseCluster
	} else if i := slices.Index(sentinelSchemes, u.Scheme); i >= 0 {
		u.Scheme, parse = plainSchemes[i], parseSentinel
	}
	return parse(u)
}

func parseSingle(u *url.URL) (*Server, error) {
	opts, err := redis.ParseURL(u.String())
	if err != nil {
		return nil, errURL
	}
	return &Server{single: opts}, nil
}

func parseCluster(u *url.URL) (*Server, error) {
	if strings.Trim(u.Path, "/") != "" {
		return nil, errors.New("an address of a cluster with a path: leave it out, a cluster has one database")
	}
	opts, err := redis.ParseClusterURL(u.String())
	if err != nil {
		return nil, errURL
	}
	return &Server{cluster: opts}, nil
}

// parseSentinel takes user and password to be those of the servers, as in every other URL.
func parseSentinel(u *url.URL) (*Server, error) {
	q := u.Query()
	user, password := q.Get("sentinel_username"), q.Get("sentinel_password")
	q.Del("sentinel_username")
	q.Del("sentinel_password")
	u.RawQuery = q.Encode()
	opts, err := redis.ParseFailoverURL(u.String())
	if err != nil {
		return nil, errURL
	}
	if opts.MasterName == "" {
		return nil, errors.New("an address of sentinels without the name of a master: add ?master_name=NAME")
	}
	opts.Username, opts.Password = opts.SentinelUsername, opts.SentinelPassword
	opts.SentinelUsername, opts.SentinelPassword = user, password
	return &Server{sentinel: opts}, nil
}

// Client makes a client, which is the caller's to close. It does no I/O.
func (s *Server) Client() redis.UniversalClient {
	switch {
	case s.cluster != nil:
		opts := *s.cluster
		opts.Addrs = slices.Clone(opts.Addrs) // go-redis writes behind its end
		return redis.NewClusterClient(&opts)
	case s.sentinel != nil:
		opts := *s.sentinel
		return redis.NewFailoverClient(&opts)
	}
	opts := *s.single
	return redis.NewClient(&opts)
}

// String is the address for people: no user, no password.
func (s *Server) String() string {
	switch {
	case s.cluster != nil:
		return "cluster " + strings.Join(s.cluster.Addrs, ", ")
	case s.sentinel != nil:
		return fmt.Sprintf("%s of sentinel %s", s.sentinel.MasterName, strings.Join(s.sentinel.SentinelAddrs, ", "))
	}
	return s.single.Addr
}

// Kind is how it is found and served: "standalone", "cluster" or "sentinel".
func (s *Server) Kind() string {
	switch {
	case s.cluster != nil:
		return "cluster"
	case s.sentinel != nil:
		return "sentinel"
	}
	return "standalone"
}

// patience bounds each step of the first contact.
const patience = 3 * time.Second

// Reach asks the server for a sign of life, once, so that a wrong address is told at once. The error has the
// address and what to do; it is the cause of ctx if that ends.
func (s *Server) Reach(ctx context.Context) error {
	client := s.impatient().Client()
	answer := make(chan error, 1)
	go func() { // ends with the time-outs; waited for below unless ctx ends
		answer <- client.Ping(ctx).Err()
		_ = client.Close() // it has told what it could
	}()
	select {
	case err := <-answer:
		if err != nil {
			err = fmt.Errorf("no Redis at %s: %w; check address, user and password", s, err)
		}
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// impatient is s with one short try of each step.
func (s *Server) impatient() *Server {
	switch {
	case s.cluster != nil:
		o := *s.cluster
		o.MaxRedirects, o.MaxRetries, o.DialerRetries = -1, -1, 1
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout = patience, patience, patience
		return &Server{cluster: &o}
	case s.sentinel != nil:
		o := *s.sentinel
		o.MaxRetries, o.DialerRetries = -1, 1
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout = patience, patience, patience
		return &Server{sentinel: &o}
	}
	o := *s.single
	o.MaxRetries, o.DialerRetries = -1, 1
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = patience, patience, patience
	return &Server{single: &o}
}
