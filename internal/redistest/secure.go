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

// StartSecure starts one server that requires TLS and a password. A certificate authority made for this server signs its
// certificate; clients trust [Server.CAFile]. [Server.Client] has all rights. args are as in [Start]. StartSecure fails if the
// server was built without TLS.
func StartSecure(args ...string) (*Server, error) {
	return start(setup{config: memoryOnly, args: args, secure: true})
}

// CAFile returns the path of the authority's certificate in PEM, which a client of a server from [StartSecure] must trust.
func (s *Server) CAFile() string { return filepath.Join(s.dir, caFile) }

// CertFile returns the path of a certificate that the authority has signed, in PEM. With the arguments "--tls-auth-clients", "yes" a client
// must have one.
func (s *Server) CertFile() string { return filepath.Join(s.dir, certFile) }

// KeyFile returns the path of the key: see CertFile.
func (s *Server) KeyFile() string { return filepath.Join(s.dir, keyFile) }

// secure creates a password and a certificate for the server. It returns the configuration for both.
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

	validity = 24 * time.Hour // of the certificates: longer than any test
)

// certify writes the certificate of an authority to dir, and the certificate and key of a server on 127.0.0.1. It returns a
// configuration that trusts the authority, whose key it does not keep, and has the same certificate for a client.
func certify(dir string) (*tls.Config, error) {
	now := time.Now()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "fairsem test CA"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(validity),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "fairsem test server"},
		NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
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
	config, err := trust(filepath.Join(dir, caFile))
	if err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, certFile), filepath.Join(dir, keyFile))
	config.Certificates = []tls.Certificate{pair} // for a server that asks for one
	return config, err
}

// sign writes the certificate of key, which the parent signs.
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

// trust returns a configuration that trusts only the authority in a file.
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
