package plane

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

const certYears = 10 // validity of certificates

// pki is the set of keys and certificates of a control plane, as files. In a kept folder the authorities, the
// service accounts' key and a generated token are kept, so that its kubeconfig stays valid. The other
// certificates are issued again.
type pki struct {
	dir   string
	ca    []byte // PEM
	token string
}

// Paths of a pki's files.
func (p *pki) caCert() string     { return filepath.Join(p.dir, "ca.crt") }
func (p *pki) serverCert() string { return filepath.Join(p.dir, "apiserver.crt") }
func (p *pki) serverKey() string  { return filepath.Join(p.dir, "apiserver.key") }
func (p *pki) frontCA() string    { return filepath.Join(p.dir, "front-proxy-ca.crt") }
func (p *pki) proxyCert() string  { return filepath.Join(p.dir, "front-proxy-client.crt") }
func (p *pki) proxyKey() string   { return filepath.Join(p.dir, "front-proxy-client.key") }
func (p *pki) accountKey() string { return filepath.Join(p.dir, "sa.key") }
func (p *pki) tokenFile() string  { return filepath.Join(p.dir, "tokens.csv") }

// newPKI writes the missing files in dir. The serving certificate names the loopback addresses and
// hosts. token is the bearer token; an empty one is generated or kept.
func newPKI(dir string, hosts []string, token string) (*pki, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	p := &pki{dir: dir, token: token}
	ca, err := newAuthority(dir, "ca")
	if err != nil {
		return nil, err
	}
	p.ca = ca.pem
	server := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			server.IPAddresses = append(server.IPAddresses, ip)
		} else {
			server.DNSNames = append(server.DNSNames, h)
		}
	}
	if err := ca.issue(dir, "apiserver", server); err != nil {
		return nil, err
	}
	// The aggregator presents this certificate to API servers behind an APIService, such as metrics.k8s.io.
	front, err := newAuthority(dir, "front-proxy-ca")
	if err != nil {
		return nil, err
	}
	client := &x509.Certificate{Subject: pkix.Name{CommonName: proxyName}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if err := front.issue(dir, "front-proxy-client", client); err != nil {
		return nil, err
	}
	if _, err := ensureKey(p.accountKey()); err != nil {
		return nil, err
	}
	return p, p.ensureToken()
}

// ensureToken writes the token file, which the API server reads, unless it exists and no token was given.
func (p *pki) ensureToken() error {
	if p.token == "" {
		line, err := os.ReadFile(p.tokenFile())
		switch {
		case err == nil:
			p.token, _, _ = strings.Cut(string(line), ",")
			return nil
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
		raw := make([]byte, 16)
		rand.Read(raw) // never fails
		p.token = hex.EncodeToString(raw)
	}
	if strings.ContainsAny(p.token, ",\"\r\n ") {
		return errors.New("plane: the token has a comma, quote or space, which a token file cannot hold")
	}
	return os.WriteFile(p.tokenFile(), fmt.Appendf(nil, "%s,kubernasium,kubernasium,\"system:masters\"\n", p.token), 0o600)
}

// An authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte
}

// newAuthority reads the authority from NAME.crt and NAME.key in dir, or creates it.
func newAuthority(dir, name string) (*authority, error) {
	key, err := ensureKey(filepath.Join(dir, name+".key"))
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, name+".crt")
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		t := template(&x509.Certificate{
			Subject: pkix.Name{CommonName: "kubernasium-" + name}, IsCA: true, BasicConstraintsValid: true,
		})
		t.KeyUsage |= x509.KeyUsageCertSign
		der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
		if err != nil {
			return nil, fmt.Errorf("sign %s: %w", name, err)
		}
		text = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	certs, err := certutil.ParseCertsPEM(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &authority{cert: certs[0], key: key, pem: text}, nil
}

// issue writes NAME.crt and NAME.key.
func (a *authority) issue(dir, name string, t *x509.Certificate) error {
	key, err := ensureKey(filepath.Join(dir, name+".key"))
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, template(t), a.cert, key.Public(), a.key)
	if err != nil {
		return fmt.Errorf("sign %s: %w", name, err)
	}
	return os.WriteFile(filepath.Join(dir, name+".crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)
}

// template completes t with a serial number, its validity and the usage of its key.
func template(t *x509.Certificate) *x509.Certificate {
	now := time.Now()
	t.SerialNumber = new(big.Int).SetInt64(now.UnixNano())
	t.NotBefore, t.NotAfter = now.Add(-time.Hour), now.AddDate(certYears, 0, 0)
	t.KeyUsage |= x509.KeyUsageDigitalSignature
	return t
}

// ensureKey reads the key in a file, or creates it.
func ensureKey(file string) (crypto.Signer, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		if text, err = keyutil.MakeEllipticPrivateKeyPEM(); err == nil {
			err = os.WriteFile(file, text, 0o600)
		}
	}
	if err != nil {
		return nil, err
	}
	key, err := keyutil.ParsePrivateKeyPEM(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return key.(crypto.Signer), nil
}
