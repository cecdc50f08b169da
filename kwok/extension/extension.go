// Package extension serves the requests of an API server to an extension, such as an aggregated API or an
// admission webhook. It uses HTTPS with a certificate that it makes at its start; the API server trusts the
// certificate's authority.
package extension

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"time"
)

const (
	validity      = 10 * 365 * 24 * time.Hour // validity of the certificate, which lives as long as the process
	headerTimeout = 10 * time.Second          // time limit of a request
	closeTimeout  = 5 * time.Second           // for running requests to finish
)

// Config configures a Server.
type Config struct {
	Listen    string         // default: 127.0.0.1 and a free port
	Names     []string       // host names and addresses at which the API server calls
	ClientCAs *x509.CertPool // authority of the certificates that callers must present; nil asks for none
	Handler   http.Handler
}

// A Server is a running server.
type Server struct {
	CABundle []byte // PEM of the authority of its certificate
	Port     int

	http  *http.Server
	ended chan error
}

// Start serves until Close.
func Start(c Config) (*Server, error) {
	c.Listen = cmp.Or(c.Listen, "127.0.0.1:0")
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return nil, err
	}
	cert, bundle, err := certificate(c.Names)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	t := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13}
	if c.ClientCAs != nil {
		t.ClientAuth, t.ClientCAs = tls.RequireAndVerifyClientCert, c.ClientCAs
	}
	s := &Server{
		CABundle: bundle, Port: l.Addr().(*net.TCPAddr).Port, ended: make(chan error, 1),
		http: &http.Server{Handler: c.Handler, TLSConfig: t, ReadHeaderTimeout: headerTimeout},
	}
	go func() { s.ended <- s.http.ServeTLS(l, "", "") }()
	return s, nil
}

// Close stops serving and returns when it has stopped.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	if end := <-s.ended; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return err
}

// certificate returns a self-signed certificate for the names, and its PEM.
func certificate(names []string) (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	c := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "kubernasium"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(validity), // clocks may differ
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IsCA: true,
	}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, n)
		}
	}
	if len(names) == 0 {
		return tls.Certificate{}, nil, fmt.Errorf("extension: no names for the certificate")
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
