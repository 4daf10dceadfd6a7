package dial

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/url"
	"os"
	"slices"
)

// Parameters of a URL that go-redis does not know. Each names a file, in PEM.
const (
	authorityParameter = "tls_ca"   // certificates of the authorities to trust, and of no others
	certParameter      = "tls_cert" // of the client, for servers that want one
	keyParameter       = "tls_key"
)

// settings sets what the files of a URL say. Without any it does nothing, also with nil.
type settings func(*tls.Config)

// takeFiles takes the parameters that name files out of u. The certificate of the client is read again for each connection, so that a
// command that runs for months presents the renewed one.
func takeFiles(u *url.URL) (settings, error) {
	q := u.Query()
	authority, cert, key := q.Get(authorityParameter), q.Get(certParameter), q.Get(keyParameter)
	trusts, identifies := q.Has(authorityParameter), q.Has(certParameter) || q.Has(keyParameter)
	if !trusts && !identifies {
		return func(*tls.Config) {}, nil
	}
	if !slices.Contains([]string{"rediss", "clusters", "sentinels"}, u.Scheme) {
		return nil, errors.New("a URL with a file for TLS, but without TLS: write rediss://, clusters:// or sentinels://")
	}
	for _, name := range []string{authorityParameter, certParameter, keyParameter} {
		q.Del(name)
	}
	u.RawQuery = q.Encode()
	var pool *x509.CertPool // nil: the ones that the system trusts
	if trusts {
		pool = x509.NewCertPool()
		text, err := os.ReadFile(authority)
		if err != nil || !pool.AppendCertsFromPEM(text) {
			return nil, errors.New("a URL whose " + authorityParameter + " does not name a file, in PEM, with the certificate of an authority")
		}
	}
	var own func(*tls.CertificateRequestInfo) (*tls.Certificate, error)
	if identifies {
		own = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return readPair(cert, key) }
		if _, err := own(nil); err != nil {
			return nil, err
		}
	}
	return func(config *tls.Config) { config.RootCAs, config.GetClientCertificate = pool, own }, nil
}

func readPair(cert, key string) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, errors.New("a URL whose " + certParameter + " and " + keyParameter + " do not name files, in PEM, with a certificate and its key")
	}
	return &pair, nil
}
