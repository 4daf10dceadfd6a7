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
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
	"github.com/fairsem/fairsem/internal/protocol"
)

// connection is the server and the prefix that a command works on.
type connection struct {
	redis  string
	prefix string
	grace  *pflag.Flag // nil: the command writes nothing
}

func (c *connection) flags(f *pflag.FlagSet) {
	textFlag(f, &c.redis, "redis", "`URL` of the server: redis, rediss, unix, cluster or sentinel (default $REDIS_URL)")
	textFlag(f, &c.prefix, "prefix", "prefix of every key (default $FAIRSEM_PREFIX, or fairsem)")
}

// writerFlags are flags with that of the grace period, which the first write after a loss of state determines for all.
func (c *connection) writerFlags(f *pflag.FlagSet) {
	c.flags(f)
	f.Duration("grace", 0, "how long a server that may have lost state grants nothing, as Options.Grace of other programs (default $FAIRSEM_GRACE, or 1s)")
	c.grace = f.Lookup("grace")
}

// graceVariable is the environment variable for --grace.
const graceVariable = "FAIRSEM_GRACE"

// longestGrace is the longest grace period, as the longest lease.
const longestGrace = 24 * time.Hour

// gracePeriod returns the grace period, 0 for the default, or an error of usage.
func (c *connection) gracePeriod() (time.Duration, error) {
	if c.grace == nil {
		return 0, nil
	}
	source, given := graceVariable, os.Getenv(graceVariable)
	if c.grace.Changed {
		source, given = "--grace", c.grace.Value.String()
	}
	if given == "" {
		return 0, nil
	}
	grace, err := time.ParseDuration(given)
	if err != nil {
		return 0, exit.Usagef("%s %q is not a duration such as 10s", source, given)
	}
	if grace <= 0 || grace > longestGrace {
		return 0, exit.Usagef("%s %v must be above 0 and at most %v", source, grace, text.Span(longestGrace))
	}
	return grace, nil
}

// prefixVariable is the environment variable for --prefix.
const prefixVariable = "FAIRSEM_PREFIX"

// keys returns the prefix of every key.
func (c *connection) keys() string {
	return cmp.Or(c.prefix, os.Getenv(prefixVariable), protocol.DefaultKeyspace.Prefix)
}

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
		return nil, exit.Usagef("the server is missing: the fairsem run or limit around this command passes REDIS_URL on only with --pass-redis-url, and only if it has one itself: give it both, or --redis URL here")
	}
	if rawURL == "" {
		return nil, exit.Usagef("the server is missing: give --redis URL or set REDIS_URL")
	}
	there, err := dial.Parse(rawURL)
	if err != nil {
		return nil, exit.Usagef("%s is %w", source, err)
	}
	return there, nil
}

// inspectTTL bounds how long a command that holds nothing queries a server that does not answer, unless its grace period, which is at most
// the TTL, is longer.
const inspectTTL = 5 * time.Second

// open connects for a command that holds nothing. It refuses invalid names.
func (c *connection) open(ctx context.Context, names ...string) (*dial.Session, error) {
	there, err := c.server()
	if err != nil {
		return nil, err
	}
	grace, err := c.gracePeriod()
	if err != nil {
		return nil, err
	}
	s, err := there.Open(fairsem.Options{Prefix: c.keys(), TTL: max(inspectTTL, grace), Grace: grace, Label: operator()})
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
