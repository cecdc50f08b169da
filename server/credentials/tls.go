package credentials

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
)

// TLS returns a configuration with the certificate of certFile and its key of keyFile. With a clientCA, a file of
// certificates, it verifies client certificates; the server decides about clients without one. Each new connection uses
// the present files. WebSocket needs HTTP/1.1, so the configuration offers no other protocol.
func TLS(certFile, keyFile, clientCA string, log *slog.Logger) (*tls.Config, error) {
	paths := []string{certFile, keyFile}
	if clientCA != "" {
		paths = append(paths, clientCA)
	}
	file, err := watch(log, func(texts [][]byte) (*tls.Config, error) {
		cert, err := tls.X509KeyPair(texts[0], texts[1])
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", certFile, keyFile, err)
		}
		c := &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}}
		if clientCA != "" {
			c.ClientAuth, c.ClientCAs = tls.VerifyClientCertIfGiven, x509.NewCertPool()
			if !c.ClientCAs.AppendCertsFromPEM(texts[2]) {
				return nil, fmt.Errorf("%s holds no certificate in PEM", clientCA)
			}
		}
		return c, nil
	}, paths...)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		NextProtos:         []string{"http/1.1"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return file.get(), nil },
	}, nil
}
