package plane

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"os"
	"testing"
)

func TestPKI(t *testing.T) {
	dir := t.TempDir()
	first, err := newPKI(dir, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if len(first.token) != 32 {
		t.Errorf("token of %d digits, want 32", len(first.token))
	}
	again, err := newPKI(dir, []string{"controlplane", "192.0.2.7"}, "")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.ca, again.ca) || first.token != again.token {
		t.Error("a kept folder got another authority or token: old kubeconfigs are void")
	}
	text, err := os.ReadFile(again.serverCert())
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(first.ca)
	for _, name := range []string{"localhost", "127.0.0.1", "::1", "controlplane", "192.0.2.7"} {
		if _, err := cert.Verify(x509.VerifyOptions{DNSName: name, Roots: roots}); err != nil {
			t.Errorf("certificate for %s: %v", name, err)
		}
	}
	if _, err := cert.Verify(x509.VerifyOptions{DNSName: "example.com", Roots: roots}); err == nil {
		t.Error("the certificate is good for example.com")
	}
	given, err := newPKI(dir, nil, "given")
	if err != nil || given.token != "given" {
		t.Errorf("newPKI with a token = %v, %v", given, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, mode %v, want 0600", e.Name(), err, info.Mode())
		}
	}
	if err := os.WriteFile(given.accountKey(), []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := newPKI(dir, nil, ""); err == nil {
		t.Error("a damaged key was taken")
	}
}
