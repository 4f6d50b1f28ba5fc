package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/spnego"
	"github.com/jcmturner/gokrb5/v8/types"
	"golang.org/x/crypto/bcrypt"
)

// How ours knows the client. The cookie of the portal begins a session once, after which the requests are
// those of bySession.
const (
	byPassword    = "password"    // with each request
	bySession     = "session"     // of its address, begun on the portal
	byTicket      = "ticket"      // of Kerberos, with the first request of each connection
	byCertificate = "certificate" // in TLS to the proxy
)

// The person who signs in, and the service and the realm of their tickets.
const (
	benchUser     = "anna"
	benchPassword = "a password for the benchmark"
	benchService  = "HTTP/proxy.school.example"
	benchRealm    = "SCHOOL.EXAMPLE"
)

// signedIn returns a scenario that compares ours with an older program, by turns: to know who asks may
// cost at most 2 % more than it did.
func signedIn(name, about, how string, urls func(*rig) []string) scenario {
	s := scenario{
		name: name, about: about, unit: "pages", connections: 10, urls: urls, signIn: how,
		peers: subject + "," + subject + "-before", timeout: 20 * time.Second, most: 60 * time.Second,
		targets: []target{{subject + "-before", cpuPerFetch, 1.02}},
	}
	if how == byPassword {
		s.header = []string{"Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(benchUser+":"+benchPassword))}
	}
	return s
}

// A knownBy says how a program of ours knows the client.
type knownBy struct {
	identity string                                                  // settings
	listen   string                                                  // more settings of the listeners, with a comma before them
	portal   string                                                  // address of the portal, "" for none
	door     func(ctx context.Context, proxy string) (string, error) // opens an address that signs in and leads to the proxy; nil: none
}

// knownBy writes what a program needs to know the client into a folder.
func (r *peerRig) knownBy(dir string) (k knownBy, err error) {
	switch r.signIn {
	case byPassword, bySession:
		file := filepath.Join(dir, "users")
		hash, err := bcrypt.GenerateFromPassword([]byte(benchPassword), bcrypt.MinCost)
		if err == nil {
			err = os.WriteFile(file, []byte(benchUser+":"+string(hash)+"\n"), 0o600)
		}
		if err != nil {
			return k, err
		}
		if r.signIn == byPassword {
			k.identity = fmt.Sprintf("identity: {basic: {file: %q}}", file)
			return k, nil
		}
		if k.portal, err = freeAddr(); err != nil {
			return k, err
		}
		k.identity = fmt.Sprintf("identity: {basic: {file: %q, networks: [192.0.2.0/24]}, sign-in: {}}", file)
		k.listen = fmt.Sprintf(", portal: %q", k.portal)
	case byTicket:
		keys := keytab.New()
		if err := keys.AddEntry(benchService, benchRealm, benchPassword, time.Now(), 1, 18); err != nil {
			return k, err
		}
		file := filepath.Join(dir, "keytab")
		b, err := keys.Marshal()
		if err == nil {
			err = os.WriteFile(file, b, 0o600)
		}
		k.identity = fmt.Sprintf("identity: {kerberos: {keytab: %q}}", file)
		k.door = func(ctx context.Context, proxy string) (string, error) {
			return openDoor(ctx, func() (net.Conn, string, error) {
				token, err := newToken(keys)
				if err != nil {
					return nil, "", err
				}
				c, err := net.Dial("tcp", proxy)
				return c, "Proxy-Authorization: Negotiate " + token + "\r\n", err
			})
		}
		return k, err
	case byCertificate:
		return r.knownByCertificate(dir)
	}
	return k, nil
}

// newToken makes a ticket of the user, and the token of a connection that presents it.
func newToken(keys *keytab.Keytab) (string, error) {
	service, _ := types.ParseSPNString(benchService)
	user := types.NewPrincipalName(1, benchUser)
	now := time.Now().UTC()
	ticket, session, err := messages.NewTicket(user, benchRealm, service, benchRealm, types.NewKrbFlags(), keys, 18, 1, now, now, now.Add(time.Hour), now.Add(time.Hour))
	if err != nil {
		return "", err
	}
	who := client.NewWithPassword(benchUser, benchRealm, benchPassword, config.New())
	token, err := spnego.NewKRB5TokenAPREQ(who, ticket, session, nil, nil)
	if err != nil {
		return "", err
	}
	b, err := token.Marshal()
	return base64.StdEncoding.EncodeToString(b), err
}

// knownByCertificate makes an authority that signs the certificates of a person and of the proxy.
func (r *peerRig) knownByCertificate(dir string) (k knownBy, err error) {
	authority, authorityKey, err := newOrigin()
	if err != nil {
		return k, err
	}
	signer, err := tls.X509KeyPair(pem.EncodeToMemory(authority), pem.EncodeToMemory(authorityKey))
	if err != nil {
		return k, err
	}
	key, err := newKey()
	if err != nil {
		return k, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: benchUser}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, signer.Leaf, &key.PublicKey, signer.PrivateKey)
	if err != nil {
		return k, err
	}
	cert, private := filepath.Join(dir, "proxy.pem"), filepath.Join(dir, "proxy.key")
	err = errors.Join(os.WriteFile(cert, pem.EncodeToMemory(authority), 0o644), os.WriteFile(private, pem.EncodeToMemory(authorityKey), 0o600))
	k.identity = fmt.Sprintf("identity: {certificates: {ca: %q, required: true}}", cert)
	k.listen = fmt.Sprintf(", tls: {cert: %q, key: %q}", cert, private)
	roots := x509.NewCertPool()
	roots.AddCert(signer.Leaf)
	shown := &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key.PrivateKey}}}
	k.door = func(ctx context.Context, proxy string) (string, error) {
		return openDoor(ctx, func() (net.Conn, string, error) {
			c, err := tls.Dial("tcp", proxy, shown)
			return c, "", err
		})
	}
	return k, err
}

// openDoor listens until ctx ends, and leads each connection to one that dial makes. field is added to its
// first request. What the door does costs the load, and not the proxy.
func openDoor(ctx context.Context, dial func() (c net.Conn, field string, err error)) (address string, err error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	context.AfterFunc(ctx, func() { ln.Close() })
	go func() {
		for {
			near, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer near.Close()
				far, field, err := dial()
				if err != nil {
					fmt.Fprintf(os.Stderr, "signing in: %v\n", err)
					return
				}
				defer far.Close()
				go func() {
					defer near.Close()
					_, _ = io.Copy(near, far) // the load counts what does not arrive
				}()
				r := bufio.NewReader(near)
				line, err := r.ReadString('\n')
				if err != nil {
					return
				}
				if _, err := io.WriteString(far, line+field); err == nil {
					_, _ = io.Copy(far, r)
				}
			}()
		}
	}()
	return ln.Addr().String(), nil
}

// signInAt begins a session of this machine's address.
func signInAt(ctx context.Context, portal string) error {
	form := url.Values{"name": {benchUser}, "password": {benchPassword}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+portal+"/sign-in", strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("signing in on the portal: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusSeeOther {
		return fmt.Errorf("signing in on the portal: %s", res.Status)
	}
	return nil
}
