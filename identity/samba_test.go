//go:build linux && !small

package identity

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/go-ldap/ldap/v3"
	krb5 "github.com/jcmturner/gokrb5/v8/client"
	krb5config "github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/spnego"

	"shuultuur/identity/directory"
	"shuultuur/identity/kerberos"
	"shuultuur/lib/setting"
	"shuultuur/lib/wait/waittest"
	"shuultuur/test/cert"
	"shuultuur/test/peer"
)

const (
	realm    = "SCHOOL.EXAMPLE"
	people   = "cn=users,dc=school,dc=example"
	password = "Passw0rd!x"
)

// A controller is Samba as the domain controller of school.example.
type controller struct {
	dir  string
	addr string // its ports are fixed by its protocols, so the address is its own
	ca   setting.File
	*ldap.Conn
}

// newController makes a domain and serves it.
func newController(t *testing.T) *controller {
	t.Helper()
	tool := peer.Program(t, "samba-tool")
	peer.Program(t, "samba")
	if os.Getuid() != 0 {
		t.Skip("a domain controller has ports below 1024, and its files have owners: only root can start it")
	}
	c := &controller{dir: t.TempDir(), addr: fmt.Sprintf("127.%d.%d.%d", 1+rand.N(250), rand.N(250), 1+rand.N(250))}
	crt, key := cert.Files(t, c.dir, "dc.school.example", c.addr)
	c.ca = setting.File(crt)
	args := []string{"domain", "provision", "--realm=" + realm, "--domain=SCHOOL", "--host-name=dc", "--adminpass=" + password, "--server-role=dc", "--dns-backend=NONE", "--targetdir=" + c.dir}
	for _, o := range []string{"interfaces=" + c.addr + "/8", "bind interfaces only=yes", "server services=ldap, kdc", "tls certfile=" + crt, "tls keyfile=" + key, "tls cafile=" + crt, "log file=" + c.dir + "/log"} {
		args = append(args, "--option="+o)
	}
	// A file system without extended attributes, or a container, has no domain.
	if out, err := peer.Command(t, tool, args...).CombinedOutput(); err != nil {
		t.Skipf("samba-tool makes no domain on this machine: %v: %s", err, out)
	}
	peer.Start(t, "samba", "-i", "-M", "single", "-s", c.dir+"/etc/smb.conf", "-l", c.dir)
	waittest.Until(t, "the domain controller", func() bool {
		for _, port := range []string{"636", "88"} {
			conn, err := net.Dial("tcp", net.JoinHostPort(c.addr, port))
			if err != nil {
				return false
			}
			conn.Close()
		}
		return true
	})
	var err error
	if c.Conn, err = ldap.DialURL("ldaps://"+c.addr, ldap.DialWithTLSConfig(&tls.Config{InsecureSkipVerify: true})); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Conn.Close() })
	if err := c.Bind("administrator@school.example", password); err != nil {
		t.Fatal(err)
	}
	return c
}

// add adds an entry below the users. Attributes are written name: value.
func (c *controller) add(t *testing.T, class, cn string, attributes ...string) {
	t.Helper()
	q := ldap.NewAddRequest("cn="+cn+","+people, nil)
	q.Attribute("objectClass", []string{class})
	all := map[string][]string{"sAMAccountName": {cn}}
	for _, a := range attributes {
		name, value, _ := strings.Cut(a, ": ")
		if name == "sAMAccountName" {
			delete(all, name)
		}
		all[name] = append(all[name], value)
	}
	for name, values := range all {
		q.Attribute(name, values)
	}
	if err := c.Add(q); err != nil {
		t.Fatalf("add %s: %v", cn, err)
	}
}

// person adds a person with the password.
func (c *controller) person(t *testing.T, cn string, attributes ...string) {
	t.Helper()
	var quoted []byte
	for _, u := range utf16.Encode([]rune(`"` + password + `"`)) {
		quoted = binary.LittleEndian.AppendUint16(quoted, u)
	}
	if !slices.ContainsFunc(attributes, func(a string) bool { return strings.HasPrefix(a, "userAccountControl") }) {
		attributes = append(attributes, "userAccountControl: 512")
	}
	c.add(t, "user", cn, append(attributes, "unicodePwd: "+string(quoted))...)
}

// set replaces an attribute.
func (c *controller) set(t *testing.T, dn, name string, values ...string) {
	t.Helper()
	q := ldap.NewModifyRequest(dn, nil)
	q.Replace(name, values)
	if err := c.Modify(q); err != nil {
		t.Fatalf("%s of %s: %v", name, dn, err)
	}
}

func (c *controller) ldap(change func(*directory.LDAP)) *directory.LDAP {
	l := &directory.LDAP{Servers: setting.OneOrMore[string]{"ldaps://" + c.addr}, CA: c.ca, Base: "dc=school,dc=example", Bind: "cn=filter," + people, Password: password, ActiveDirectory: true}
	if change != nil {
		change(l)
	}
	return l
}

// ticket returns what a browser of a person sends to the proxy.
func (c *controller) ticket(t *testing.T, name string) []byte {
	t.Helper()
	conf, err := krb5config.NewFromString(fmt.Sprintf("[libdefaults]\ndefault_realm = %s\ndns_lookup_kdc = false\nudp_preference_limit = 1\n[realms]\n%[1]s = {\n kdc = %s:88\n}\n", realm, c.addr))
	if err != nil {
		t.Fatal(err)
	}
	cl := krb5.NewWithPassword(name, realm, password, conf, krb5.DisablePAFXFAST(true))
	defer cl.Destroy()
	s := spnego.SPNEGOClient(cl, "HTTP/proxy.school.example")
	if err := s.AcquireCred(); err != nil {
		t.Fatalf("a ticket for %s: %v", name, err)
	}
	token, err := s.InitSecContext()
	if err != nil {
		t.Fatalf("a ticket for %s: %v", name, err)
	}
	b, err := token.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return []byte("Negotiate " + base64.StdEncoding.EncodeToString(b))
}

func basicAuth(name, password string) []byte {
	return []byte("Basic " + base64.StdEncoding.EncodeToString([]byte(name+":"+password)))
}

// TestADomainControllerSaysWhoSomebodyIs: by each way to write a name, with the groups in groups, why
// somebody may not sign in, and by a ticket.
func TestADomainControllerSaysWhoSomebodyIs(t *testing.T) {
	t.Parallel()
	c := newController(t)
	c.person(t, "filter", "userAccountControl: 66048") // its password does not expire
	c.person(t, "Anna Berg", "sAMAccountName: anna", "userPrincipalName: anna@school.example")
	c.person(t, "ben", "userPrincipalName: ben.long@pupils.example")
	c.person(t, "müller", "userPrincipalName: müller@school.example")
	c.person(t, "disabled", "userAccountControl: 514")
	c.person(t, "expired", "accountExpires: 132000000000000000") // in 2019
	c.person(t, "new", "pwdLastSet: 0")
	c.person(t, "locked")
	c.person(t, "proxy", "servicePrincipalName: HTTP/proxy.school.example", "userAccountControl: 66048")
	c.add(t, "group", "7b", "member: cn=Anna Berg,"+people)
	c.add(t, "group", "year 7", "member: cn=7b,"+people)
	c.add(t, "group", "pupils", "member: cn=year 7,"+people, "member: cn=ben,"+people, "member: cn=müller,"+people)
	c.add(t, "group", "teachers")

	annas := []string{"7b", "year 7", "pupils", "Domain Users"}
	for name, change := range map[string]func(*directory.LDAP){
		"by a service account":              nil,
		"without the rule for nested ones":  func(l *directory.LDAP) { l.ActiveDirectory = false },
		"by a service account with its UPN": func(l *directory.LDAP) { l.Bind = "filter@school.example" },
		"by StartTLS":                       func(l *directory.LDAP) { l.Servers[0], l.StartTLS = "ldap://"+c.addr, true },
		"as themselves, by UPN":             func(l *directory.LDAP) { l.Bind, l.Password = "%s@school.example", "" },
		"as themselves, by domain":          func(l *directory.LDAP) { l.Bind, l.Password = `SCHOOL\%s`, "" },
	} {
		id, err := New(Config{Basic: &Basic{LDAP: c.ldap(change)}, Spelling: Spelling{Domains: []string{"SCHOOL", "school.example"}}}, Parts{})
		if err != nil {
			t.Fatal(err)
		}
		addr := netip.MustParseAddr("192.0.2.1")
		for _, tt := range []struct {
			written, user string
			groups        []string
		}{
			{"anna", "anna", annas}, {"ANNA", "anna", annas}, {`SCHOOL\anna`, "anna", annas}, {`school\Anna`, "anna", annas},
			{"anna@school.example", "anna", annas}, {"Anna@SCHOOL.example", "anna", annas},
			{"ben", "ben", []string{"pupils", "Domain Users"}}, {"ben@school.example", "ben", []string{"pupils", "Domain Users"}},
			{"ben.long@pupils.example", "ben", []string{"pupils", "Domain Users"}},
			{"müller", "müller", []string{"pupils", "Domain Users"}},
		} {
			who, err := id.Identify(t.Context(), addr, basicAuth(tt.written, password))
			if err != nil || !strings.EqualFold(who.User, tt.user) {
				t.Errorf("%s, %s: %q, %v; want %q", name, tt.written, who.User, err, tt.user)
				continue
			}
			for _, g := range tt.groups {
				if !slices.Contains(who.Groups, g) {
					t.Errorf("%s, %s: groups %q without %q", name, tt.written, who.Groups, g)
				}
			}
			if slices.Contains(who.Groups, "teachers") {
				t.Errorf("%s, %s: groups %q", name, tt.written, who.Groups)
			}
		}
		for _, tt := range []struct {
			written, password, why string
			proven                 bool
		}{
			{"anna", "guess", "", false}, {"nobody", password, "-", false}, {"anna", "", "", false},
			{"disabled", password, directory.Disabled, true}, {"disabled", "guess", "", false},
			{"expired", password, directory.AccountExpired, true}, {"expired", "guess", "", false},
			{"new", password, directory.MustChange, true}, {"new", "guess", "", false},
		} {
			_, err := id.Identify(t.Context(), netip.AddrFrom4([4]byte{192, 0, 2, byte(rand.N(250))}), basicAuth(tt.written, tt.password))
			refused, _ := errors.AsType[*Challenge](err)
			if refused == nil || refused.Proven != tt.proven || tt.why != "-" && refused.Why != tt.why {
				t.Errorf("%s, %s with %q: %v, %+v; want the reason %q, proven %v", name, tt.written, tt.password, err, refused, tt.why, tt.proven)
			}
		}
		id.Close()
	}
	t.Run("locked by wrong passwords", func(t *testing.T) {
		c.set(t, "dc=school,dc=example", "lockoutThreshold", "3")
		d, err := directory.NewLDAP(*c.ldap(nil))
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if _, _, err := d.Verify(t.Context(), "locked", password); err != nil {
			t.Errorf("before: %v", err)
		}
		for range 3 {
			_, _, err = d.Verify(t.Context(), "locked", "guess")
			if !errors.Is(err, directory.ErrRefused) {
				t.Errorf("a wrong password: %v", err)
			}
		}
		_, _, err = d.Verify(t.Context(), "locked", password)
		if r, _ := errors.AsType[*directory.Refusal](err); r == nil || r.Why != "the account is locked" || r.Proven {
			t.Errorf("the right one afterwards: %v", err)
		}
	})
	t.Run("tickets", func(t *testing.T) { c.tickets(t, annas) })
	t.Run("an expired password", func(t *testing.T) {
		d, err := directory.NewLDAP(*c.ldap(nil))
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		before, err := d.Find(t.Context(), "ben")
		if err != nil || before.Stamp == "" || before.Disabled {
			t.Errorf("ben is %+v, %v", before, err)
		}
		c.age(t, "cn=ben,"+people)
		if after, err := d.Find(t.Context(), "ben"); err != nil || after.Stamp == before.Stamp || after.Stamp == "" {
			t.Errorf("with another password ben is %+v, %v, and was %+v", after, err, before)
		}
		for _, name := range []string{"disabled", "expired"} {
			if f, err := d.Find(t.Context(), name); err != nil || !f.Disabled {
				t.Errorf("%s: %+v, %v", name, f, err)
			}
		}
		_, _, err = d.Verify(t.Context(), "ben", password)
		if r, _ := errors.AsType[*directory.Refusal](err); r == nil || r.Why != directory.PasswordExpired || !r.Proven {
			t.Errorf("the right one: %v", err)
		}
		if _, _, err = d.Verify(t.Context(), "ben", "guess"); err != directory.ErrRefused {
			t.Errorf("a wrong one: %v", err)
		}
	})
}

// age makes a password as old as no client can: it is changed in the database itself.
func (c *controller) age(t *testing.T, dn string) {
	t.Helper()
	tool, err := os.ReadFile(peer.Program(t, "samba-tool"))
	if err != nil {
		t.Fatal(err)
	}
	python, _, _ := strings.Cut(strings.TrimPrefix(string(tool), "#!"), "\n")
	const script = `import sys
from samba.samdb import SamDB
from samba.param import LoadParm
from samba.auth import system_session
lp = LoadParm()
lp.load(sys.argv[1])
SamDB(lp=lp, session_info=system_session(lp)).modify_ldif("dn: " + sys.argv[2] + "\nchangetype: modify\nreplace: pwdLastSet\npwdLastSet: 132000000000000000\n", controls=["local_oid:1.3.6.1.4.1.7165.4.3.12:1"])
`
	if out, err := peer.Command(t, strings.TrimSpace(python), "-c", script, c.dir+"/etc/smb.conf", dn).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// tickets signs people in by tickets, whose groups are SIDs, or are the directory's.
func (c *controller) tickets(t *testing.T, groups []string) {
	keytab := filepath.Join(t.TempDir(), "keytab")
	if out, err := peer.Command(t, "samba-tool", "domain", "exportkeytab", keytab, "--principal=HTTP/proxy.school.example", "-s", c.dir+"/etc/smb.conf").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	sids := map[string][]string{}
	for _, g := range groups {
		res, err := c.Search(ldap.NewSearchRequest("dc=school,dc=example", ldap.ScopeWholeSubtree, ldap.NeverDerefAliases, 1, 10, false, "(&(objectClass=group)(sAMAccountName="+g+"))", []string{"objectSid"}, nil))
		if err != nil || len(res.Entries) != 1 {
			t.Fatalf("%s: %v", g, err)
		}
		sids[g] = []string{sidText(res.Entries[0].GetRawAttributeValue("objectSid"))}
	}
	for name, k := range map[string]*Kerberos{
		"groups of the ticket":    {Config: kerberos.Config{Keytab: setting.File(keytab)}, Groups: sids},
		"groups of the directory": {Config: kerberos.Config{Keytab: setting.File(keytab)}, LDAP: c.ldap(nil)},
	} {
		id, err := New(Config{Kerberos: k}, Parts{})
		if err != nil {
			t.Fatal(err)
		}
		addr := netip.MustParseAddr("192.0.2.1")
		for _, as := range []string{"anna", "ANNA"} {
			token := c.ticket(t, as)
			who, err := id.Identify(t.Context(), addr, token)
			if err != nil || who.User != "anna" || who.Source != "kerberos" {
				t.Errorf("%s: a ticket of %s: %+v, %v", name, as, who, err)
				continue
			}
			for _, g := range groups {
				if !slices.Contains(who.Groups, g) {
					t.Errorf("%s: a ticket of %s: groups %q without %q", name, as, who.Groups, g)
				}
			}
			if _, err := id.Identify(context.Background(), addr, token); err == nil {
				t.Errorf("%s: the same ticket counts twice", name)
			}
		}
		id.Close()
	}
}

// sidText is a SID as people write it ([MS-DTYP] 2.4.2.1).
func sidText(b []byte) string {
	s := fmt.Sprintf("S-%d-%d", b[0], b[7])
	for i := range int(b[1]) {
		s += fmt.Sprintf("-%d", binary.LittleEndian.Uint32(b[8+4*i:]))
	}
	return s
}
