// Package dial connects to the server that a URL names. Its errors contain no message of a parser, and of the URL only names of parameters
// that go-redis knows: a password with a special character can end up in any other part.
package dial

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// forms names the forms of a URL, for flags and errors.
const forms = "redis://user:password@host:6379/0, rediss://host, unix:///path, " +
	"cluster://host:6379?addr=host2:6379 or sentinel://host:26379?master_name=mymaster"

// Server is a Redis that was named by a URL.
type Server struct {
	kind    string   // "standalone", "cluster" or "sentinel"
	address string   // for people
	primary string   // the name under which sentinels know it
	secrets []string // passwords
	secure  bool     // with TLS

	// client makes a client. With brief each step is tried once, and for a short time.
	client func(brief bool) redis.UniversalClient
}

// The schemes that are not go-redis's own, and the ones that are; the second is with TLS.
var (
	clusterSchemes  = []string{"cluster", "clusters"}
	sentinelSchemes = []string{"sentinel", "sentinels"}
	plainSchemes    = []string{"redis", "rediss"}
)

// Parse takes a URL apart. Query parameters are those of go-redis, and tls_ca, tls_cert and tls_key, whose files it reads. The error does not
// say where the URL came from.
func Parse(rawURL string) (*Server, error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Fragment != "" || u.Opaque != "" || u.Scheme == "unix" && u.Host != "" {
		return nil, errURL // go-redis would leave out parts that it does not understand
	}
	if err := check(u); err != nil {
		return nil, err
	}
	set, err := takeFiles(u)
	if err != nil {
		return nil, err
	}
	parse := parseSingle
	if i := slices.Index(clusterSchemes, u.Scheme); i >= 0 {
		u.Scheme, parse = plainSchemes[i], parseCluster
	} else if i := slices.Index(sentinelSchemes, u.Scheme); i >= 0 {
		u.Scheme, parse = plainSchemes[i], parseSentinel
	}
	return parse(u, set)
}

func parseSingle(u *url.URL, set settings) (*Server, error) {
	opts, err := parsed(u, singleOptions)
	if err != nil {
		return nil, err
	}
	set(opts.TLSConfig)
	client := func(brief bool) redis.UniversalClient {
		o := *opts
		if brief {
			once(&o.MaxRetries, &o.DialerRetries, &o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout)
		}
		return redis.NewClient(&o)
	}
	return &Server{kind: "standalone", address: opts.Addr, secrets: []string{opts.Password}, secure: opts.TLSConfig != nil, client: client}, nil
}

func parseCluster(u *url.URL, set settings) (*Server, error) {
	if strings.Trim(u.Path, "/") != "" {
		return nil, errors.New("the URL of a cluster with a path: leave it out, a cluster has one database")
	}
	opts, err := parsed(u, clusterOptions)
	if err != nil {
		return nil, err
	}
	set(opts.TLSConfig)
	client := func(brief bool) redis.UniversalClient {
		o := *opts
		o.Addrs = slices.Clone(o.Addrs) // go-redis writes behind its end
		if brief {
			o.MaxRedirects = -1
			once(&o.MaxRetries, &o.DialerRetries, &o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout)
		}
		return redis.NewClusterClient(&o)
	}
	address := "cluster " + strings.Join(opts.Addrs, ", ")
	return &Server{kind: "cluster", address: address, secrets: []string{opts.Password}, secure: opts.TLSConfig != nil, client: client}, nil
}

func parseSentinel(u *url.URL, set settings) (*Server, error) {
	opts, err := sentinelOptions(u)
	if err != nil {
		return nil, err
	}
	set(opts.TLSConfig)
	client := func(brief bool) redis.UniversalClient {
		o := *opts
		if brief {
			once(&o.MaxRetries, &o.DialerRetries, &o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout)
		}
		return redis.NewFailoverClient(&o)
	}
	address := fmt.Sprintf("%s of sentinel %s", opts.MasterName, strings.Join(opts.SentinelAddrs, ", "))
	secrets := []string{opts.Password, opts.SentinelPassword}
	return &Server{kind: "sentinel", address: address, primary: opts.MasterName, secrets: secrets, secure: opts.TLSConfig != nil, client: client}, nil
}

// sentinelOptions takes user and password to be those of the servers, as in every other URL.
func sentinelOptions(u *url.URL) (*redis.FailoverOptions, error) {
	q := u.Query()
	if q.Has("username") || q.Has("password") { // go-redis takes these to be the ones of the servers
		return nil, errors.New(`the URL of sentinels with username or password after "?": write those of the servers before the host, ` +
			"and those of the sentinels as sentinel_username and sentinel_password")
	}
	user, password := q.Get("sentinel_username"), q.Get("sentinel_password")
	if user != "" && password == "" {
		return nil, errNoPassword
	}
	q.Del("sentinel_username")
	q.Del("sentinel_password")
	u.RawQuery = q.Encode()
	if u.Port() == "" { // go-redis would take the port of a server
		u.Host = net.JoinHostPort(cmp.Or(u.Hostname(), "localhost"), "26379")
	}
	opts, err := parsed(u, failoverOptions)
	if err != nil {
		return nil, err
	}
	if opts.MasterName == "" {
		return nil, errors.New("the URL of sentinels without the name of a primary: add ?master_name=NAME")
	}
	if opts.RouteByLatency || opts.RouteRandomly || opts.ReplicaOnly {
		return nil, errors.New("the URL of sentinels that asks for replicas: leave out route_by_latency, route_randomly and replica_only: only the primary can grant")
	}
	opts.Username, opts.Password = opts.SentinelUsername, opts.SentinelPassword
	opts.SentinelUsername, opts.SentinelPassword = user, password
	return opts, nil
}

func singleOptions(rawURL string) (*redis.Options, error) {
	opts, err := redis.ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	if opts.DB < 0 {
		return nil, errURL // go-redis would take it for 0
	}
	opts.DisableIdentity, opts.MaintNotificationsConfig = true, noNotifications()
	return opts, nil
}

func clusterOptions(rawURL string) (*redis.ClusterOptions, error) {
	opts, err := redis.ParseClusterURL(rawURL)
	if err != nil {
		return nil, err
	}
	if !plain(opts.Addrs) {
		return nil, errURL
	}
	opts.DisableIdentity, opts.MaintNotificationsConfig = true, noNotifications()
	return opts, nil
}

func failoverOptions(rawURL string) (*redis.FailoverOptions, error) {
	opts, err := redis.ParseFailoverURL(rawURL)
	if err != nil {
		return nil, err
	}
	if opts.DB < 0 || !plain(opts.SentinelAddrs) {
		return nil, errURL
	}
	opts.DisableIdentity = true
	return opts, nil
}

// noNotifications has a client send no CLIENT, to which the user of docs/security.md has no right, and query no name server when it is made.
func noNotifications() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// plain reports whether no address has a part of a password in it: text before an @ is no host, and would be shown.
func plain(addrs []string) bool {
	return !slices.ContainsFunc(addrs, func(addr string) bool { return strings.Contains(addr, "@") })
}

// once has a client try each step once, and for a short time. A handshake may need the longer time that the URL gives it.
func once(retries, dials *int, dial, read, write *time.Duration) {
	*retries, *dials = -1, 1
	*dial, *read, *write = max(*dial, stepTimeout), stepTimeout, stepTimeout
}

// Client makes a client, which is the caller's to close. It does no I/O.
func (s *Server) Client() redis.UniversalClient { return s.client(false) }

// String is the address for people: no user, no password.
func (s *Server) String() string { return s.address }

// Kind is how it is found and served: "standalone", "cluster" or "sentinel".
func (s *Server) Kind() string { return s.kind }
