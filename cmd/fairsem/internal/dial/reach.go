package dial

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
	"github.com/fairsem/fairsem/internal/failure"
)

// stepTimeout bounds each step of the first contact.
const stepTimeout = 3 * time.Second

// ErrKind is of a server that answers, but is of another kind than the URL is about.
var ErrKind = errors.New("another kind of server")

// Reach pings the server once, so that a wrong address is reported at once; of a cluster, one primary has to answer. The error is one
// line with the address and advice, and wraps the error of the server or the network, or ErrKind; it is the cause of ctx if that ends.
func (s *Server) Reach(ctx context.Context) error {
	client := s.client(true)
	answer := make(chan error, 1)
	go func() { // ends with the time-outs; waited for below unless ctx ends
		answer <- s.check(ctx, client)
		_ = client.Close() // it has done its work
	}()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// check requires an answer, of the kind of server that the URL is about.
func (s *Server) check(ctx context.Context, client redis.UniversalClient) error {
	err := ping(ctx, client)
	for again := 0; s.hidesWhy(err) && again < 5; again++ {
		err = ping(ctx, client)
	}
	if err != nil {
		form := "no Redis at %s: %s; %s"
		if failure.InWords(err) != "" {
			form = "Redis at %s refuses: %s; %s"
		}
		return failure.Reworded(err, form, s, s.describe(err), s.advice(err))
	}
	if s.kind != "standalone" {
		return nil
	}
	switch mode(ctx, client) {
	case "cluster": // which has some of the names only
		return failure.Reworded(ErrKind, "%s is a node of a cluster: write cluster://, or clusters:// with TLS, instead of redis://", s)
	case "sentinel":
		return failure.Reworded(ErrKind, "%s is a sentinel: write sentinel://%s?master_name=NAME", s, s)
	}
	return nil
}

// hidesWhy reports whether a server with TLS has closed a connection before this side had sent its first command. What it says of the
// certificate of a client comes just before that, and is read only after the first command was sent.
func (s *Server) hidesWhy(err error) bool {
	return err != nil && s.secure && (strings.Contains(err.Error(), "connection reset") || strings.Contains(err.Error(), "broken pipe"))
}

// mode is the mode that a server reports; "": it reports none. Every connection of go-redis begins with HELLO, so
// it needs no more rights.
func mode(ctx context.Context, client redis.UniversalClient) string {
	hello := redis.NewMapStringInterfaceCmd(ctx, "hello")
	if client.Process(ctx, hello) != nil {
		return ""
	}
	mode, _ := hello.Val()["mode"].(string)
	return mode
}

// described are the commands of a first contact that a user may lack the right to.
var described = []string{"ping", "select", "cluster", "cluster|slots", "sentinel", "sentinel|get-master-addr-by-name"}

// describe is the text of an error in one line, for terminals. A server that is no Redis may repeat input that it does not
// understand in its own way, and that may be a password.
func (s *Server) describe(err error) string {
	if failure.IsMissing(err) {
		return fmt.Sprintf("the sentinels know no primary %q", s.primary)
	}
	said := failure.Discreet(err).Error()
	if failure.Denied(err) {
		for _, command := range described {
			if failure.DeniedCommand(err, command) {
				return fmt.Sprintf("NOPERM this user may not run the '%s' command", command)
			}
		}
	}
	if words := failure.InWords(err); words != "" {
		return words
	}
	if !isDial(err) && slices.ContainsFunc(s.secrets, func(secret string) bool { return secret != "" && strings.Contains(said, secret) }) {
		return "it replies with an error that contains the password"
	}
	lines := strings.FieldsFunc(said, func(r rune) bool { return r == '\n' || r == '\r' })
	return text.Clean(strings.Join(lines, ", "))
}

// isDial reports whether no server has replied yet.
func isDial(err error) bool {
	connection, is := errors.AsType[*net.OpError](err)
	return is && connection.Op == "dial"
}

const addCertificate = "add ?" + certParameter + "=FILE&" + keyParameter + "=FILE to the URL"

// advice is the advice about an error. Errors of servers have no types.
func (s *Server) advice(err error) string {
	var timeout net.Error
	var untrusted x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	says := func(text string) bool { return strings.Contains(err.Error(), text) }
	switch {
	case failure.IsMissing(err):
		return "check master_name"
	case failure.Denied(err): // which names the right
		return "address and password are right, but this user needs more rights: fairsem doctor lists them"
	case errors.As(err, &untrusted), says("signed by unknown authority"): // go-redis does not keep every error
		return "name a file with the certificate of its authority: ?" + authorityParameter + "=FILE in the URL"
	case errors.As(err, &host), says("certificate is valid for"), says("certificate is not valid for any"), says("doesn't contain any IP SANs"):
		return "use a host name in the address that its certificate has"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired, says("certificate has expired or is not yet valid"):
		return "its certificate is not valid now: renew it, and check the clock of this machine"
	case says("unknown certificate authority"): // the server's words about the certificate of this client
		return "check " + certParameter + " and " + keyParameter + ": the server does not trust the authority of that certificate"
	case says("certificate required"): // go-redis does not keep every error, and the package tls has no type for it
		return "it wants a certificate of the client: " + addCertificate
	case says("tls: expired certificate"), says("tls: revoked certificate"), says("tls: unsupported certificate"): // as above
		return "check " + certParameter + " and " + keyParameter + ": the server does not accept that certificate"
	case s.hidesWhy(err):
		return "if it wants a certificate of the client, " + addCertificate
	case s.secure && (errors.As(err, &timeout) && timeout.Timeout() || says("first record does not look like a TLS handshake")):
		return "check the address, and whether it speaks TLS there"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "check the address, and whether the server is stopped or overloaded"
	case isDial(err): // nobody has seen the password
		return "check the address, and whether the server runs"
	case !s.secure && errors.Is(err, io.EOF):
		return "if it uses TLS, write rediss://, clusters:// or sentinels://"
	case failure.NotClustered(err):
		return "it is not a cluster: write redis://, or rediss:// with TLS"
	case failure.UnknownCommand(err, "sentinel"):
		return "it is not a sentinel: write redis:// or cluster://"
	case failure.UnknownCommand(err, "cluster"):
		return "if it is a sentinel, write sentinel://, with ?master_name=NAME"
	case errors.Is(err, errNoPrimary):
		return "redis-cli --cluster create assigns slots"
	case failure.NoSuchDatabase(err):
		return "give the number of a database that it has"
	case failure.AcceptedBefore(err):
		return "fairsem doctor says more"
	}
	return "check address, user and password"
}
