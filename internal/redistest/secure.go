package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// StartSecure starts one server that speaks only TLS and requires a password. Its certificate is signed by a certificate
// authority that is made for it and thrown away: [Server.CAFile] is what to trust, and [Server.Client] is the
// administrator. args are as in [Start]; a server that was built without TLS is a failure.
func StartSecure(args ...string) (*Server, error) {
	return launch(setup{config: memoryOnly, args: args, secure: true})
}

// CAFile is the certificate of the authority that a client of a server from [StartSecure] has to trust, in PEM.
func (s *Server) CAFile() string { return filepath.Join(s.dir, caFile) }

// secure gives the server a password, a certificate and the lines of configuration about both.
func (s *Server) secure(port int) (config string, err error) {
	s.password = rand.Text()
	if s.tls, err = certify(s.dir); err != nil {
		return "", fmt.Errorf("redistest: %w", err)
	}
	return fmt.Sprintf("port 0\ntls-port %d\ntls-auth-clients no\nrequirepass %s\n", port, s.password) +
		fmt.Sprintf("tls-ca-cert-file %q\ntls-cert-file %q\ntls-key-file %q\n",
			s.CAFile(), filepath.Join(s.dir, certFile), filepath.Join(s.dir, keyFile)), nil
}

const (
	caFile   = "ca.crt"
	certFile = "server.crt"
	keyFile  = "server.key"

	certified = 24 * time.Hour // how long certificates are good for: longer than any test
)

// certify writes the certificate of an authority, and of a server on 127.0.0.1 with its key, to dir. It returns a
// configuration that trusts them. The key of the authority is thrown away.
func certify(dir string) (*tls.Config, error) {
	now := time.Now()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "fairsem test CA"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certified),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "fairsem test server"},
		NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if err := sign(dir, caFile, ca, ca, caKey, caKey); err != nil {
		return nil, err
	}
	if err := sign(dir, certFile, server, ca, key, caKey); err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	if err := writePEM(dir, keyFile, "PRIVATE KEY", der); err != nil {
		return nil, err
	}
	return trust(filepath.Join(dir, caFile))
}

// sign writes the certificate of key, signed by its parent.
func sign(dir, file string, cert, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) error {
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, key.Public(), parentKey)
	if err != nil {
		return err
	}
	return writePEM(dir, file, "CERTIFICATE", der)
}

func writePEM(dir, file, kind string, der []byte) error {
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	return os.WriteFile(filepath.Join(dir, file), text, 0o600)
}

// trust returns a configuration that trusts the authority in a file, and no other.
func trust(file string) (*tls.Config, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("no certificate in %s", file)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}
