package main

import (
	"cmp"
	"context"
	"os"
	"os/user"
	"time"

	"github.com/spf13/pflag"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/dial"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/run"
)

// connection is the server and the prefix that a command works on.
type connection struct {
	redis  string
	prefix string
}

func (c *connection) flags(f *pflag.FlagSet) {
	f.StringVar(&c.redis, "redis", "", "`URL` of the server: redis, rediss, unix, cluster or sentinel (default $REDIS_URL)")
	f.StringVar(&c.prefix, "prefix", "", "prefix of every key (default $FAIRSEM_PREFIX, or fairsem)")
}

// prefixVariable is the environment variable for --prefix.
const prefixVariable = "FAIRSEM_PREFIX"

// keys returns the prefix of every key.
func (c *connection) keys() string { return cmp.Or(c.prefix, os.Getenv(prefixVariable), "fairsem") }

// urlVariable is the environment variable that names the server, with its password.
const urlVariable = "REDIS_URL"

// server returns the server that is named by flag or variable, or an error of usage.
func (c *connection) server() (*dial.Server, error) {
	source := urlVariable
	if c.redis != "" {
		source = "--redis"
	}
	rawURL := cmp.Or(c.redis, os.Getenv(urlVariable))
	if _, nested := os.LookupEnv(run.TenantVariable); nested && rawURL == "" {
		return nil, exit.Usagef("the server is missing: the fairsem run or limit around this command passes REDIS_URL on only with --pass-redis-url; give it that, or --redis URL here")
	}
	if rawURL == "" {
		return nil, exit.Usagef("the server is missing: give --redis URL or set REDIS_URL")
	}
	return parseURL(rawURL, source)
}

// parseURL parses a URL from source, which is a flag or a variable.
func parseURL(rawURL, source string) (*dial.Server, error) {
	there, err := dial.Parse(rawURL)
	if err != nil {
		return nil, exit.Usagef("%s is %w", source, err)
	}
	return there, nil
}

// inspectTTL bounds how long a command that holds nothing queries a server that does not answer.
const inspectTTL = 5 * time.Second

// open connects for a command that holds nothing. It refuses invalid names.
func (c *connection) open(ctx context.Context, names ...string) (*dial.Session, error) {
	there, err := c.server()
	if err != nil {
		return nil, err
	}
	s, err := there.Open(fairsem.Options{Prefix: c.keys(), TTL: inspectTTL, Label: operator()})
	if err != nil {
		return nil, exit.Invalid(err)
	}
	for _, name := range names {
		if err == nil {
			err = inspect.CheckName(s.Client, name)
		}
	}
	if err == nil {
		err = there.Reach(ctx)
	}
	if err != nil {
		s.Close()
		return nil, exit.Invalid(err)
	}
	return s, nil
}

// operator returns the label of evictions: user@host, as far as it is known.
func operator() string {
	host, _ := os.Hostname() // "" if the machine has no name
	name := "?"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	label := name + "@" + host
	return label[:min(len(label), dial.MaxLabel)]
}
