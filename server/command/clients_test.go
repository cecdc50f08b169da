package command

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	client "github.com/kubernasium/kubernasium/clients/go"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/server/wire"
)

// eventually waits until f returns true.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !f(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not come that " + what)
		}
	}
}

// TestQuotas: what one client holds is bounded by its line of the token file, and no other client feels it; a token that
// is withdrawn opens no further connection.
func TestQuotas(t *testing.T) {
	t.Setenv(tokenEnv, "")
	file := filepath.Join(t.TempDir(), "tokens")
	envstest.Write(t, file, "alpha name:alice sessions:1 envs:3\nbeta memory:40000000\n")
	p := start(t, "--listen", "127.0.0.1:0", "--token-file", file)
	open := func(token string, n int) (*client.VecEnv, error) {
		return client.Dial(t.Context(), p.ready.URL, "classic/CartPole-v1", n, client.Options{Token: token, Reconnect: -1})
	}
	refused := func(token string, n int, reason wire.Reason, text string) {
		t.Helper()
		v, err := open(token, n)
		if err == nil {
			_ = v.Close()
		}
		var e *client.Error
		if !errors.As(err, &e) || e.Code != wire.ResourceExhausted || e.Reason != reason || !strings.Contains(e.Msg, text) {
			t.Errorf("%s opens %d environments: %v, want %v with %q", token, n, err, reason, text)
		}
	}
	refused("alpha", 4, wire.TooManyEnvs, "4 more environments beside 0 of alice, want at most 3")
	for range 3 { // each gives back what it held, after its connection has ended
		var v *client.VecEnv
		eventually(t, "alice's session has ended", func() bool {
			var err error
			v, err = open("alpha", 3)
			return err == nil
		})
		refused("alpha", 1, wire.TooManySession, "1 more session beside 1 of alice, want at most 1")
		play(t, p.ready.URL, client.Options{Token: "beta"})
		if err := v.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		eventually(t, "beta's memory is free", func() bool {
			v, err := open("beta", 2048)
			return err == nil && v.Close() == nil
		})
	}
	eventually(t, "beta holds nothing", func() bool {
		_, err := open("beta", 4096)
		return err != nil && strings.Contains(err.Error(), "the client of line 2 holds 0 MiB, want at most 38 MiB")
	})
	refused("beta", 4096, wire.TooMuchMemory, "want at most 38 MiB (memory in the server's --token-file)")
	envstest.Write(t, file, "beta\n")
	eventually(t, "alpha is withdrawn", func() bool {
		v, err := open("alpha", 1)
		if err == nil {
			_ = v.Close()
		}
		return err != nil && strings.Contains(err.Error(), "401")
	})
	eventually(t, "beta's bound goes", func() bool {
		v, err := open("beta", 4096)
		return err == nil && v.Close() == nil
	})
	p.stop()
	p.wait(t)
}

// An authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	a.key, a.cert, _ = a.sign(t, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// sign makes a key and its certificate; an authority without a certificate signs it by itself.
func (a *authority) sign(t *testing.T, c *x509.Certificate) (*ecdsa.PrivateKey, *x509.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.SerialNumber, c.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: "test"}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, by := a.cert, a.key
	if parent == nil {
		parent, by = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return key, cert, der
}

// write signs a certificate and writes it and its key below name.
func (a *authority) write(t *testing.T, name string, usage x509.ExtKeyUsage) (certFile, keyFile string) {
	t.Helper()
	key, _, der := a.sign(t, &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{usage}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	envstest.Write(t, name+".key", string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})))
	envstest.Write(t, name+".crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	return name + ".crt", name + ".key"
}

// TestMutualTLS: with --tls-client-ca only clients with a certificate of that authority get further than the health check,
// and a renewed certificate of the server is shown to the next connection.
func TestMutualTLS(t *testing.T) {
	t.Setenv(tokenEnv, "")
	dir, ours, theirs := t.TempDir(), newAuthority(t), newAuthority(t)
	certFile, keyFile := ours.write(t, filepath.Join(dir, "server"), x509.ExtKeyUsageServerAuth)
	caFile := filepath.Join(dir, "ca.crt")
	envstest.Write(t, caFile, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ours.cert.Raw})))
	p := start(t, "--listen", "127.0.0.1:0", "--tls-cert", certFile, "--tls-key", keyFile, "--tls-client-ca", caFile)
	roots := x509.NewCertPool()
	roots.AddCert(ours.cert)
	with := func(a *authority) *tls.Config {
		if a == nil {
			return &tls.Config{RootCAs: roots}
		}
		c, err := tls.LoadX509KeyPair(a.write(t, filepath.Join(dir, "client"), x509.ExtKeyUsageClientAuth))
		if err != nil {
			t.Fatal(err)
		}
		return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{c}}
	}
	play(t, p.ready.URL, client.Options{TLS: with(ours)})
	for name, c := range map[string]*tls.Config{"no certificate": with(nil), "another authority's": with(theirs)} {
		v, err := client.Dial(context.Background(), p.ready.URL, "classic/CartPole-v1", 1, client.Options{TLS: c, Reconnect: -1})
		if err == nil {
			_ = v.Close()
			t.Errorf("a client with %s is let in", name)
		}
	}
	address := strings.TrimSuffix(strings.TrimPrefix(p.ready.URL, "wss://"), wire.Path)
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: with(nil), DisableKeepAlives: true}}
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/metrics": http.StatusUnauthorized, "/v1/envs": http.StatusUnauthorized} {
		r, err := web.Get("https://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		if r.StatusCode != want {
			t.Errorf("%s without a certificate: status %d, want %d", path, r.StatusCode, want)
		}
	}
	web.Transport.(*http.Transport).TLSClientConfig = with(ours)
	r, err := http.NewRequest(http.MethodGet, "https://"+address+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "example.test" // which no page can have pointed here, as it has no certificate
	if answer, err := web.Do(r); err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("metrics for a client with a certificate, by another name of the host: %v, %v; want 200", answer, err)
	} else {
		_ = answer.Body.Close()
	}
	serial := func() string {
		c, err := tls.Dial("tcp", address, with(nil))
		if err != nil {
			return "" // the certificate is there before its key
		}
		defer func() { _ = c.Close() }()
		return c.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	before := serial()
	ours.write(t, filepath.Join(dir, "server"), x509.ExtKeyUsageServerAuth)
	eventually(t, "the renewed certificate is shown", func() bool { after := serial(); return after != "" && after != before })
	play(t, p.ready.URL, client.Options{TLS: with(ours)})
	p.stop()
	p.wait(t)
}
