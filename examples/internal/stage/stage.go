// Package stage provides the examples with a Redis, and with a list of their checks.
package stage

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem"
)

const (
	urlEnv = "REDIS_URL"
	runEnv = "FAIRSEM_EXAMPLE_RUN"
)

// Redis is the server at $REDIS_URL or, if that is not set, one in this process.
type Redis struct {
	*redis.Client
	url, run string
	embedded *miniredis.Miniredis
}

// open connects to the server, or starts the one in this process.
func open(ctx context.Context) (*Redis, error) {
	r := &Redis{url: os.Getenv(urlEnv), run: os.Getenv(runEnv)}
	if r.run == "" {
		r.run = rand.Text()[:10]
	}
	if r.url == "" {
		if err := r.embed(); err != nil {
			return nil, err
		}
	}
	options, err := redis.ParseURL(r.url)
	if err != nil {
		return nil, fmt.Errorf("$%s is not the URL of a Redis server, such as redis://localhost:6379", urlEnv) // err may have the password
	}
	r.Client = redis.NewClient(options)
	if err := r.Ping(ctx).Err(); err != nil {
		r.stop()
		return nil, fmt.Errorf("the Redis server at %s does not answer: %w; without $%s the example starts one", options.Addr, err, urlEnv)
	}
	return r, nil
}

func (r *Redis) embed() error {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true) // else nothing ever expires
	password := rand.Text()
	m.RequireAuth(password) // other users of this machine reach it, too
	if err := m.Start(); err != nil {
		return fmt.Errorf("cannot start a server on 127.0.0.1: %w; name one with $%s", err, urlEnv)
	}
	r.embedded, r.url = m, "redis://:"+password+"@"+m.Addr()
	return nil
}

// Options keep two runs of an example on one server apart. A program whose processes are to share their limits leaves the prefix out.
func (r *Redis) Options() fairsem.Options { return fairsem.Options{Prefix: "fairsem:example-" + r.run} }

// Env has other processes use the same server and the same limits.
func (r *Redis) Env() []string { return append(os.Environ(), urlEnv+"="+r.url, runEnv+"="+r.run) }

// stop closes the connections, and ends the server in this process.
func (r *Redis) stop() {
	_ = r.Close() // nothing is in flight
	if r.embedded != nil {
		r.embedded.Close()
	}
}

// Checks are the claims of an example.
type Checks struct{ made, failed int }

// That prints a claim, and whether it holds.
func (c *Checks) That(holds bool, claim string, args ...any) {
	if c.made++; c.made == 1 {
		fmt.Println("What was checked:")
	}
	verdict := "ok    "
	if !holds {
		verdict = "FAILED"
		c.failed++
	}
	fmt.Printf("  %s  %s\n", verdict, fmt.Sprintf(claim, args...))
}

// Until returns when a name is in such a state.
func Until(ctx context.Context, name *fairsem.Inspector, is func(fairsem.Status) bool) error {
	for {
		s, err := name.Status(ctx)
		if err != nil || is(s) {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Run runs an example on a server, and ends the process, with code 1 if it fails or a claim does not hold.
func Run(example func(context.Context, *Redis, *Checks) error) {
	if err := run(context.Background(), example); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// patience is far more than an example needs. Where Redis lacks something, a state that it waits for may never come.
const patience = 2 * time.Minute

func run(ctx context.Context, example func(context.Context, *Redis, *Checks) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := open(ctx)
	if err != nil {
		return err
	}
	defer r.stop()
	var checks Checks
	if err := example(ctx, r, &checks); err != nil {
		return err
	}
	if checks.failed > 0 {
		return errors.New("not all of what was checked holds")
	}
	return nil
}
