package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/web"
)

type serveOptions struct {
	connection  connection
	listen      string
	interval    time.Duration
	hosts       []string
	allowWrites bool
	tokenFile   string
	insecure    bool
	tlsCert     string
	tlsKey      string
	json        bool
	perTenant   bool
	busy        bool

	pattern string
	token   string
	tls     *tls.Config // nil: without
}

// Bounds of the values that serve accepts.
const (
	intervalMost = time.Minute
	tokenLeast   = 16
)

// Settings of serve without a flag.
const (
	serveTimeout = 3 * time.Second
	serveNames   = 1000
)

// tokenVariable is the environment variable that replaces --token-file.
const tokenVariable = "FAIRSEM_SERVE_TOKEN"

func newServe() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve [PATTERN]",
		Short: "Serve a page with all semaphores, and metrics",
		Long: `Serves a page with the present state of all semaphores, their last ten minutes, their
holders and their waiters; /metrics for Prometheus; and /healthz, which is 200 while
Redis answers PING, in a cluster any primary, and 503 once it has not for a few seconds,
or while the user of fairsem serve lacks the right to a query. The address of the page is
written to standard output.

With PATTERN, in which * stands for any text, ? for a character, [a-z] for one of
some, and \* for the character *, only the names that match are queried and shown, in
/metrics, too. Requests for any other name are refused with 404. In a PATTERN without
*, ? or [ a \ is just a character. With --busy the page lists only names with a holder
or a waiter; /metrics has all.

With --tenant-metrics /metrics has what each tenant holds, its waiters, its share and
its limit. Each poll then also reads the tenants of each name in use, at most 1000 of
a name, for at most as long as --interval or a second. Prometheus has a series for
each tenant and figure, so at most 1000 tenants have their own. The others of a name,
and those not read, are summed: their tenant is \others. No tenant has that label, as
a backslash is doubled. Bytes that are not UTF-8 are written as escapes, such as \xff,
and tenants without a name have an empty label.

The load on Redis does not depend on the number of viewers. A poll every --interval
queries the known names, at most 1000. New names are found by a scan of all keys of
the server, in at most 2 % of its time: a minute or so for a million keys. A name
that is requested in full is shown at once, even beyond the 1000, for 8 names a second
(16 after a quiet time); where more are requested, the page says how old the holders and waiters are
that it shows. A name beyond the 1000 has no plots and no rate. At most 96 requests and
96 streams are served at a time; of these, and of the 8 names, one address gets half.
Other sites cannot read the page. With TLS, or by localhost or a loopback address, they
cannot make a browser load it either; otherwise browsers do not say which site asks.

Anyone who can reach the page can read it, so it is served to this machine only
unless --listen says otherwise. --tls-cert and --tls-key encrypt it. They are read
once: restart fairsem serve after a renewal. The page changes nothing unless
--allow-writes is given: then those who know the token can evict, resize, pause and
resume. Each change is written to standard error with its origin, and so are wrong
tokens: for each address ten at once and then ten a minute; if there were more, one line a
minute says so. Beyond this machine changes need TLS, or --insecure where a proxy in
front has TLS. The token comes from --token-file or FAIRSEM_SERVE_TOKEN and has at least 16
characters. Use a random one: the right token is accepted however many wrong ones
came before. People log in with it, programs send it along:

  printf 'Authorization: Bearer %s\n' "$TOKEN" | curl -H @- \
    -d name=NAME -d limit=5 http://localhost:7420/act/resize

(any user of a machine can read its command lines.)

For a browser or a Prometheus that requests the page by a name other than localhost
or an address, give --host: without it, pages of other sites could read this one, so
other names are refused with 421. A proxy in front,
such as for TLS, must pass on the Host header, and X-Forwarded-Proto so that cookies
are sent with TLS only.

Exit code: 128+n when signal n ends it; 125 if fairsem failed itself, as when the
server does not answer or the port is taken; 2 for a wrong command line.`,
		Example: `  fairsem serve --redis redis://localhost:6379
  fairsem serve --listen 0.0.0.0:7420 --host fairsem.internal
  fairsem serve 'team-a/*' --busy
  fairsem serve --allow-writes --token-file /run/secrets/fairsem
  fairsem serve --listen 0.0.0.0:7420 --tls-cert page.crt --tls-key page.key`,
		Args:              onePattern,
		ValidArgsFunction: completeNames,
		RunE:              ownFailure(o.complete, o.serve),
	}
	o.flags(cmd)
	return cmd
}

func (o *serveOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	o.connection.writerFlags(f)
	o.listen = "127.0.0.1:7420"
	textFlag(f, &o.listen, "listen", "`ADDRESS`:PORT of the page; port 0: any")
	f.DurationVar(&o.interval, "interval", time.Second, "how often to poll Redis")
	f.StringArrayVar(&o.hosts, "host", nil, "`NAME` by which browsers may request the page, beside localhost and addresses")
	f.BoolVar(&o.allowWrites, "allow-writes", false, "let those who know the token evict, resize, pause and resume")
	textFlag(f, &o.tokenFile, "token-file", "`FILE` with the token (default $"+tokenVariable+")")
	textFlag(f, &o.tlsCert, "tls-cert", "`FILE` with the certificate of the page and its intermediate certificates")
	textFlag(f, &o.tlsKey, "tls-key", "`FILE` with the key of the certificate")
	f.BoolVar(&o.busy, "busy", false, "list only names with a holder or a waiter")
	f.BoolVar(&o.perTenant, "tenant-metrics", false, "poll the tenants of all names, for /metrics")
	f.BoolVar(&o.insecure, "insecure", false, "allow changes from beyond this machine without TLS")
	f.BoolVar(&o.json, "json", false, "write the address of the page as JSON")
}

// hostName matches the names of hosts that browsers send: of any other alphabet they send the xn-- form.
var hostName = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?$`)

// complete refuses invalid combinations of flags, and reads the token and the certificate.
func (o *serveOptions) complete(cmd *cobra.Command) (err error) {
	if o.pattern, err = parsePattern(cmd.Flags().Args()); err != nil {
		return err
	}
	if err := checkListen(o.listen); err != nil {
		return err
	}
	for _, host := range o.hosts {
		if !hostName.MatchString(host) {
			return exit.Usagef("--host %q is not a host name: give it without a scheme or a port, and each name with a --host of its own", host)
		}
	}
	switch {
	case o.interval < shortestInterval || o.interval > intervalMost:
		return exit.Usagef("--interval %v is not between %v and %v", o.interval, shortestInterval, intervalMost)
	case o.tokenFile != "" && !o.allowWrites:
		return exit.Usagef("--token-file needs --allow-writes: give both or neither")
	case o.insecure && (!o.allowWrites || o.tlsCert != ""):
		return exit.Usagef("--insecure is for --allow-writes without TLS: leave it out")
	case o.allowWrites && o.tlsCert == "" && !o.insecure && !isLocal(o.listen):
		return exit.Usagef("--allow-writes beyond this machine without TLS sends the token unencrypted: give --tls-cert and --tls-key, or --insecure if a proxy in front has TLS")
	case o.allowWrites:
		if err := o.fetchToken(); err != nil {
			return err
		}
	}
	return o.loadCertificate()
}

// isLocal reports whether only this machine can reach an address. A name other than localhost may resolve to any address.
func isLocal(address string) bool {
	host, _, _ := net.SplitHostPort(address) // it was checked
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// loadCertificate refuses a certificate without its key.
func (o *serveOptions) loadCertificate() error {
	if (o.tlsCert == "") != (o.tlsKey == "") {
		return exit.Usagef("--tls-cert and --tls-key need each other: give both or neither")
	}
	if o.tlsCert == "" {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(o.tlsCert, o.tlsKey)
	if err != nil {
		return exit.Usagef("--tls-cert and --tls-key are not a certificate with its key: %v", err)
	}
	o.tls = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	return nil
}

func checkListen(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return exit.Usagef("--listen %q is not an address and port, such as 127.0.0.1:7420 or [::1]:7420", address)
	}
	return nil
}

// fetchToken reads the token. Its errors never contain it.
func (o *serveOptions) fetchToken() error {
	source, token := tokenVariable, os.Getenv(tokenVariable)
	if o.tokenFile != "" {
		raw, err := os.ReadFile(o.tokenFile)
		if err != nil {
			return exit.Usagef("--token-file cannot be read: %v", err)
		}
		source, token = "--token-file", string(raw)
	}
	o.token = strings.TrimSpace(token)
	switch {
	case o.token == "":
		return exit.Usagef("--allow-writes needs a token: give --token-file FILE or set %s", tokenVariable)
	case utf8.RuneCountInString(o.token) < tokenLeast:
		return exit.Usagef("the token of %s is too short: at least %d characters, such as those of `openssl rand -hex 16`", source, tokenLeast)
	case strings.ContainsFunc(o.token, unicode.IsControl):
		return exit.Usagef("the token of %s is not one line of printable characters", source)
	}
	return nil
}

func (o *serveOptions) serve(cmd *cobra.Command) error {
	ctx := cmd.Context()
	s, err := o.connection.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	// A write to a closed pipe must not end this process: the reader of its log may have ended. It is never reset, because the page lasts as
	// long as the process.
	exit.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	listener, err := new(net.ListenConfig).Listen(ctx, network(o.listen), o.listen)
	if err != nil {
		return cannotListen(ctx, o.listen, err)
	}
	if err := o.announce(cmd, listener.Addr(), s.Server.String()); err != nil {
		_ = listener.Close() // nobody has connected
		return err
	}
	if o.tls != nil {
		listener = tls.NewListener(listener, o.tls)
	}
	page := web.New(web.Options{
		Client:   s.Client,
		Redis:    s.Server.String(),
		Interval: o.interval,
		Timeout:  serveTimeout,
		Names:    serveNames,
		Pattern:  o.pattern,
		Busy:     o.busy,

		TenantMetrics: o.perTenant,

		Hosts: o.hosts,
		Token: o.token,
		Log:   cmd.ErrOrStderr(),
		Ping:  s.Ping,
	})
	return page.Serve(ctx, listener)
}

// network returns the network of an address to listen on. With "tcp" 0.0.0.0 would be every address of IPv6, too.
func network(address string) string {
	host, _, _ := net.SplitHostPort(address) // it was checked
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is4() {
		return "tcp4"
	}
	return "tcp"
}

func cannotListen(ctx context.Context, address string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if detail, is := errors.AsType[*net.OpError](err); is {
		err = detail.Err
	}
	advice := "give another address with --listen"
	if errors.Is(err, syscall.EADDRINUSE) {
		advice = "stop the program that listens there, or " + advice
	}
	return fmt.Errorf("cannot listen on %s: %w; %s", address, err, advice)
}

// announce writes the address of the page, and a warning if other machines can reach it. Standard output may be closed, but where the address
// cannot be written, as on a full disk, a program would wait for it in vain.
func (o *serveOptions) announce(cmd *cobra.Command, at net.Addr, redis string) error {
	url := o.pageURL(at)
	line := url + "\n"
	if o.json {
		line = string(text.JSON(map[string]any{"url": url, "writes": o.allowWrites}))
	}
	if _, err := fmt.Fprint(cmd.OutOrStdout(), line); err != nil {
		return err
	}
	notify := func(format string, args ...any) {
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "fairsem: %s\n", text.Clean(fmt.Sprintf(format, args...)))
	}
	which := ""
	if o.pattern != "" {
		which = fmt.Sprintf(" that match %s", text.Brief(o.pattern))
	}
	notify("the semaphores on %s%s are at %s until a signal ends this, such as Ctrl-C", redis, which, url)
	switch tcp, ok := at.(*net.TCPAddr); {
	case !ok || tcp.IP.IsLoopback():
	case o.tls != nil:
		notify("warning: anyone who can reach %s can read the page", at)
	default:
		notify("warning: the page is not encrypted, and anyone who can reach %s can read it", at)
	}
	return nil
}

// pageURL returns the URL of the page on this machine.
func (o *serveOptions) pageURL(at net.Addr) string {
	host, port, _ := net.SplitHostPort(at.String()) // it is one
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	scheme := "http://"
	if o.tls != nil {
		scheme = "https://"
	}
	return scheme + net.JoinHostPort(cmp.Or(host, "localhost"), port) + "/"
}
