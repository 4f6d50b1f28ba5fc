//go:build !small

package directory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-ldap/ldap/v3"

	"shuultuur/lib/setting"
	"shuultuur/test/cert"
	"shuultuur/test/peer"
)

const people = `dn: dc=school,dc=example
objectClass: dcObject
objectClass: organization
o: School
dc: school

dn: uid=bold,dc=school,dc=example
objectClass: inetOrgPerson
uid: bold
cn: Bold
sn: Bold
userPassword: secret

dn: cn=class 7,dc=school,dc=example
objectClass: groupOfNames
cn: class 7
member: uid=bold,dc=school,dc=example

dn: cn=pupils,dc=school,dc=example
objectClass: groupOfNames
cn: pupils
member: cn=class 7,dc=school,dc=example
member: cn=everyone,dc=school,dc=example

dn: cn=everyone,dc=school,dc=example
objectClass: groupOfNames
cn: everyone
member: cn=pupils,dc=school,dc=example
`

// domain is a part of an Active Directory domain. Nothing names the members of a
// primary group but their own entries. The SIDs are S-1-5-21-1-2-3-1107 and -513.
const domain = `dn: dc=school,dc=example
objectClass: dcObject
objectClass: organization
o: School
dc: school

dn: cn=Anna,dc=school,dc=example
objectClass: person
objectClass: extensibleObject
cn: Anna
sn: Anna
sAMAccountName: anna
userPrincipalName: anna@school.example
objectSid:: AQUAAAAAAAUVAAAAAQAAAAIAAAADAAAAUwQAAA==
primaryGroupID: 513
userPassword: secret

dn: cn=Domain Users,dc=school,dc=example
objectClass: groupOfNames
objectClass: extensibleObject
cn: Domain Users
objectSid:: AQUAAAAAAAUVAAAAAQAAAAIAAAADAAAAAQIAAA==
member: cn=nobody,dc=school,dc=example

dn: cn=Internet\, filtered,dc=school,dc=example
objectClass: groupOfNames
cn: Internet, filtered
member: cn=Domain Users,dc=school,dc=example

dn: cn=all,dc=school,dc=example
objectClass: groupOfNames
cn: all
member: CN=Internet\2C filtered, DC=School, DC=Example
`

// slapd starts a directory with people in it, which speaks StartTLS.
func slapd(t *testing.T) (addr, ca string) {
	t.Helper()
	addr, ca, _ = slapdWith(t, "dc=school,dc=example", people)
	return addr, ca
}

// A daemon is a server that can be killed and started again.
type daemon struct {
	start func() *exec.Cmd
	*exec.Cmd
}

func (d *daemon) kill() {
	_ = d.Process.Kill()
	_ = d.Wait()
}

func (d *daemon) restart() { d.Cmd = d.start() }

func slapdWith(t *testing.T, suffix, ldif string, more ...string) (addr, ca string, d *daemon) {
	t.Helper()
	peer.NotQuick(t, "slapd")
	for _, f := range []string{"/usr/lib/ldap/back_mdb.so", "/etc/ldap/schema/inetorgperson.schema"} {
		if _, err := os.Stat(f); err != nil {
			t.Skipf(`%v: slapd is not installed; "make test" installs it on Debian`, err)
		}
	}
	dir := t.TempDir()
	c, key := cert.Files(t, dir, "localhost", "127.0.0.1")
	conf := filepath.Join(dir, "slapd.conf")
	for file, text := range map[string]string{
		filepath.Join(dir, "people.ldif"): ldif,
		conf: fmt.Sprintf(`include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
attributetype ( 1.2.840.113556.1.4.146 NAME 'objectSid' EQUALITY octetStringMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.40 SINGLE-VALUE )
attributetype ( 1.2.840.113556.1.4.98 NAME 'primaryGroupID' EQUALITY integerMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 SINGLE-VALUE )
attributetype ( 1.2.840.113556.1.4.221 NAME 'sAMAccountName' EQUALITY caseIgnoreMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 SINGLE-VALUE )
attributetype ( 1.2.840.113556.1.4.656 NAME 'userPrincipalName' EQUALITY caseIgnoreMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 SINGLE-VALUE )
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile %s/pid
TLSCertificateFile %s
TLSCertificateKeyFile %s
database mdb
maxsize 268435456
suffix "%s"
rootdn "cn=admin,%[4]s"
rootpw admin
index uid eq
directory %[1]s
%[5]s
`, dir, c, key, suffix, strings.Join(more, "\n")),
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := peer.Command(t, "slapadd", "-q", "-f", conf, "-l", filepath.Join(dir, "people.ldif")).CombinedOutput(); err != nil {
		t.Skipf("slapadd fails on this machine: %v: %s", err, out)
	}
	addr = "127.0.0.1:" + peer.Port(t)
	d = &daemon{start: func() *exec.Cmd {
		cmd := peer.Start(t, "slapd", "-d", "0", "-f", conf, "-h", "ldap://"+addr)
		await(t, "slapd", func() bool {
			c, err := net.Dial("tcp", addr)
			if err == nil {
				c.Close()
			}
			return err == nil
		})
		return cmd
	}}
	d.restart()
	return addr, c, d
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Skipf("%s did not answer within 5 s", what)
		}
	}
}

func TestADirectoryVerifiesPasswordsAndGivesNestedGroups(t *testing.T) {
	addr, ca := slapd(t)
	cfg := LDAP{
		Servers: setting.OneOrMore[string]{"ldap://127.0.0.1:1", "ldap://" + addr}, StartTLS: true, CA: setting.File(ca),
		Base: "dc=school,dc=example", Bind: "cn=admin,dc=school,dc=example", Password: "admin",
	}
	d, err := NewLDAP(cfg)
	if err != nil {
		t.Fatal(err)
	}
	user, groups, err := d.Verify(t.Context(), "bold", "secret")
	slices.Sort(groups)
	if err != nil || user != "bold" || !slices.Equal(groups, []string{"class 7", "everyone", "pupils"}) {
		t.Errorf("Verify returned %q, %q, %v; want bold in class 7, everyone and pupils", user, groups, err)
	}
	for _, wrong := range [][2]string{{"bold", "guess"}, {"bold", ""}, {"nobody", "secret"}, {"*", "secret"}, {"bold)(uid=*", "secret"}, {"b\x00ld", "secret"}} {
		if _, _, err := d.Verify(t.Context(), wrong[0], wrong[1]); !errors.Is(err, ErrRefused) {
			t.Errorf("Verify%q returned %v, want ErrRefused", wrong, err)
		}
	}
	cfg.Password = "wrong"
	if d, err = NewLDAP(cfg); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Verify(t.Context(), "bold", "secret"); err == nil || !strings.Contains(err.Error(), "bind as the service account") || !strings.Contains(err.Error(), "connect") {
		t.Errorf("the error does not name the steps: %v", err)
	}
}

// TestNamesAndPrimaryGroupsOfActiveDirectory: Windows users write the domain before their name,
// and no group lists those who have it as their primary group.
func TestNamesAndPrimaryGroupsOfActiveDirectory(t *testing.T) {
	at, _, _ := slapdWith(t, "dc=school,dc=example", domain)
	d, err := NewLDAP(LDAP{Servers: []string{"ldap://" + at}, Base: "dc=school,dc=example", Bind: "cn=admin,dc=school,dc=example", Password: "admin"})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	want := []string{"Domain Users", "Internet, filtered", "all"}
	for _, name := range []string{"anna", `SCHOOL\anna`, `school.example\Anna`, "anna@school.example"} {
		user, groups, err := d.Verify(t.Context(), name, "secret")
		slices.Sort(groups)
		if err != nil || user != "anna" || !slices.Equal(groups, want) {
			t.Errorf("Verify of %s returned %q, %q, %v; want %q", name, user, groups, err, want)
		}
	}
	// If there are too many groups to cache, the directory is queried.
	d.graph.never = time.Now().Add(time.Hour)
	user, groups, err := d.Verify(t.Context(), "anna", "secret")
	slices.Sort(groups)
	if err != nil || user != "anna" || !slices.Equal(groups, want) {
		t.Errorf("querying the directory returned %q, %q, %v; want %q", user, groups, err, want)
	}
	for _, name := range []string{`SCHOOL\`, `\anna`, `SCHOOL\other\anna`} {
		if _, _, err := d.Verify(t.Context(), name, "secret"); !errors.Is(err, ErrRefused) {
			t.Errorf("Verify of %s: %v, want ErrRefused", name, err)
		}
	}
}

func TestUsersBindAsThemselves(t *testing.T) {
	at, _ := slapd(t)
	cfg := LDAP{Servers: []string{"ldap://" + at}, Base: "dc=school,dc=example", Bind: "uid=%s,dc=school,dc=example"}
	d, err := NewLDAP(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for range 2 { // the second on the connection of the first
		user, groups, err := d.Verify(t.Context(), `SCHOOL\bold`, "secret")
		slices.Sort(groups)
		if err != nil || user != "bold" || !slices.Equal(groups, []string{"class 7", "everyone", "pupils"}) {
			t.Errorf("Verify returned %q, %q, %v; want bold in class 7, everyone and pupils", user, groups, err)
		}
	}
	for name, password := range map[string]string{"bold": "guess", "nobody": "secret", "bold,dc=school": "secret", "bol*": "secret"} {
		if _, _, err := d.Verify(t.Context(), name, password); !errors.Is(err, ErrRefused) {
			t.Errorf("Verify of %s with the password %s: %v, want ErrRefused", name, password, err)
		}
	}
	cfg.Base = "cn=class 7,dc=school,dc=example"
	if d, err = NewLDAP(cfg); err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, _, err := d.Verify(t.Context(), "bold", "secret"); err == nil || !strings.Contains(err.Error(), "correct base or user") {
		t.Errorf("Verify below a wrong base: %v, want the advice to correct it", err)
	}
	d.cfg.Bind = "%s@school.example"
	for name, want := range map[string]string{"anna": "anna@school.example", "anna@b.example": "anna@b.example", `SCHOOL\anna`: `SCHOOL\anna`} {
		if got := d.bindName(name); got != want {
			t.Errorf("bindName(%q) = %q, want %q", name, got, want)
		}
	}
	cfg.Password = "x"
	if _, err := NewLDAP(cfg); err == nil || !strings.Contains(err.Error(), "password") {
		t.Errorf("NewLDAP with a password that is not used: %v, want an error", err)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	at, _ := slapd(t)
	ends, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ends.Close()
	go func() { // as a server that speaks TLS answers other protocols
		for {
			c, err := ends.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 100))
			c.Close()
		}
	}()
	base := LDAP{Base: "dc=school,dc=example", Bind: "cn=admin,dc=school,dc=example", Password: "admin"}
	for want, change := range map[string]func(*LDAP){
		"compare base with": func(c *LDAP) { c.Base = "dc=elsewhere" },
		"compare bind and":  func(c *LDAP) { c.Password = "wrong" },
		"as ca":             func(c *LDAP) { c.StartTLS = true },
		"speaks no TLS":     func(c *LDAP) { c.Servers[0] = "ldaps://" + at },
		"write ldaps://":    func(c *LDAP) { c.Servers[0] = "ldap://" + ends.Addr().String() },
		"is it running":     func(c *LDAP) { c.Servers[0] = "ldap://127.0.0.1:1" },
	} {
		cfg := base
		cfg.Servers = []string{"ldap://" + at}
		change(&cfg)
		d, err := NewLDAP(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if _, _, err := d.Verify(t.Context(), "bold", "secret"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Verify returned %v, want the advice %q", err, want)
		}
	}
	refused := ldap.NewError(ldap.LDAPResultInvalidCredentials, errors.New("80090308: LdapErr: DSID-0C0903A9, comment: AcceptSecurityContext error, data 533, v1db1"))
	if err := refusal(refused, nil); !errors.Is(err, ErrRefused) || err.Error() != "the account is disabled" {
		t.Errorf("refusal of a disabled account returned %v", err)
	}
	if err := refusal(ldap.NewError(ldap.LDAPResultInvalidCredentials, errors.New("no")), nil); err != ErrRefused {
		t.Errorf("refusal of a wrong password returned %v", err)
	}
}

// A city's directory: 400 classes of 25 pupils in a tree of 100 schools and districts. Once its
// groups are known, a new user costs one query, which also finds the groups above the user's
// own.
func TestAUserOfTenThousandInNestedGroupsCostsOneQuestion(t *testing.T) {
	var ldif strings.Builder
	ldif.WriteString("dn: dc=city,dc=example\nobjectClass: dcObject\nobjectClass: organization\no: City\ndc: city\n")
	for u := range 10_000 {
		fmt.Fprintf(&ldif, "\ndn: uid=u%d,dc=city,dc=example\nobjectClass: inetOrgPerson\nuid: u%[1]d\ncn: u%[1]d\nsn: u%[1]d\n", u)
	}
	group := func(name string, members ...string) {
		fmt.Fprintf(&ldif, "\ndn: cn=%s,dc=city,dc=example\nobjectClass: groupOfNames\ncn: %[1]s\n", name)
		for _, m := range members {
			fmt.Fprintf(&ldif, "member: %s,dc=city,dc=example\n", m)
		}
	}
	above := map[int][]string{} // of each place in the tree
	for c := range 400 {
		var pupils []string
		for u := range 25 {
			pupils = append(pupils, fmt.Sprintf("uid=u%d", 25*c+u))
		}
		group(fmt.Sprintf("class%d", c), pupils...)
		above[50+c%50] = append(above[50+c%50], fmt.Sprintf("cn=class%d", c))
	}
	for p := 99; p > 0; p-- {
		group(fmt.Sprintf("place%d", p), above[p]...)
		above[p/2] = append(above[p/2], fmt.Sprintf("cn=place%d", p))
	}
	group("city", above[0]...)
	to, ca, _ := slapdWith(t, "dc=city,dc=example", ldif.String())
	at, questions := relay(t, to)
	d, err := NewLDAP(LDAP{
		Servers: setting.OneOrMore[string]{"ldap://" + at}, StartTLS: true, CA: setting.File(ca),
		Base: "dc=city,dc=example", Bind: "cn=admin,dc=city,dc=example", Password: "admin",
	})
	if err != nil {
		t.Fatal(err)
	}
	find := func(u int) {
		t.Helper()
		want := []string{fmt.Sprintf("class%d", u/25), "city"}
		for p := 50 + u/25%50; p > 0; p /= 2 {
			want = append(want, fmt.Sprintf("place%d", p))
		}
		found, err := d.Find(t.Context(), fmt.Sprintf("u%d", u))
		user, groups := found.User, found.Groups
		slices.Sort(groups)
		slices.Sort(want)
		if err != nil || user != fmt.Sprintf("u%d", u) || !slices.Equal(groups, want) {
			t.Fatalf("Verify of u%d returned %q, %q, %v; want %q", u, user, groups, err, want)
		}
	}
	find(0) // connects, and learns which group is in which
	await(t, "the tree of groups", func() bool {
		before := questions.Load()
		find(1)
		return questions.Load() == before+1
	})
	before := questions.Load()
	for n := range 100 {
		find(97 * n)
	}
	if got := questions.Load() - before; got != 100 {
		t.Errorf("100 new users cost %d queries, want 100", got)
	}
}

// relay passes connections on to a server, and counts the messages of clients.
func relay(t *testing.T, to string) (addr string, messages *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	messages = new(atomic.Int64)
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			go func() { _, _ = io.Copy(in, out); in.Close() }()
			go func() {
				defer out.Close()
				buf := make([]byte, 64<<10)
				for {
					n, err := in.Read(buf)
					if err != nil {
						return
					}
					messages.Add(1)
					if _, err := out.Write(buf[:n]); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String(), messages
}

// freeradius starts a server with one user.
func freeradius(t *testing.T) (addr string, d *daemon) {
	t.Helper()
	peer.NotQuick(t, "freeradius")
	const modules = "/usr/lib/freeradius"
	if _, err := os.Stat(modules); err != nil {
		t.Skip(`freeradius is not installed; "make test" installs it on Debian`)
	}
	dir, port := t.TempDir(), peer.Port(t)
	for file, text := range map[string]string{
		"users": "bold Cleartext-Password := \"secret\"\n\tFilter-Id = \"pupils\",\n\tFilter-Id += \"choir\"\nBOLD Cleartext-Password := \"secret\"\n\tUser-Name = \"bold\"\n",
		"radiusd.conf": fmt.Sprintf(`prefix = /usr
libdir = %s
logdir = %s
run_dir = %s
correct_escapes = true
security {
	allow_vulnerable_openssl = yes
}
log {
	destination = stdout
}
client local {
	ipaddr = 127.0.0.1
	secret = testing123
	require_message_authenticator = yes
}
thread pool {
	start_servers = 1
	max_servers = 4
	min_spare_servers = 1
	max_spare_servers = 2
}
modules {
	files {
		usersfile = %s/users
	}
	pap {
	}
}
server default {
	listen {
		type = auth
		ipaddr = 127.0.0.1
		port = %s
	}
	authorize {
		update reply {
			Message-Authenticator := 0x00
		}
		files
		pap
	}
	authenticate {
		Auth-Type PAP {
			pap
		}
	}
}
`, modules, dir, dir, dir, port),
		"dictionary": "$INCLUDE /usr/share/freeradius/dictionary\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d = &daemon{start: func() *exec.Cmd {
		return peer.Start(t, "freeradius", "-f", "-l", "stdout", "-d", dir, "-n", "radiusd")
	}}
	d.restart()
	return "127.0.0.1:" + port, d
}

func TestARADIUSServerVerifiesPasswordsAndGivesGroups(t *testing.T) {
	addr, _ := freeradius(t)
	r, err := NewRADIUS(RADIUS{Servers: setting.OneOrMore[string]{addr}, Secret: "testing123"})
	if err != nil {
		t.Fatal(err)
	}
	var groups []string
	await(t, "freeradius", func() bool {
		_, groups, err = r.Verify(t.Context(), "bold", "secret")
		return err == nil
	})
	if !slices.Equal(groups, []string{"pupils", "choir"}) {
		t.Errorf("the groups are %q, want pupils and choir", groups)
	}
	if user, _, err := r.Verify(t.Context(), "BOLD", "secret"); err != nil || user != "bold" {
		t.Errorf("the server calls BOLD %q (%v), want bold", user, err)
	}
	if _, _, err := r.Verify(t.Context(), "bold", "guess"); !errors.Is(err, ErrRefused) {
		t.Errorf("Verify with a wrong password: %v, want ErrRefused", err)
	}
	other, err := NewRADIUS(RADIUS{Servers: setting.OneOrMore[string]{addr}, Secret: "another", Timeout: setting.Duration(300 * time.Millisecond)})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := other.Verify(t.Context(), "bold", "secret"); err == nil || errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "with the same secret") {
		t.Errorf("Verify with a wrong shared secret: %v, want advice", err)
	}
	none, err := NewRADIUS(RADIUS{Servers: setting.OneOrMore[string]{"127.0.0.1:1"}, Secret: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := none.Verify(t.Context(), "bold", "secret"); err == nil || !strings.Contains(err.Error(), "is it running") {
		t.Errorf("Verify without a server: %v, want advice", err)
	}
}

// TestServersOfPasswordsAreKilledUnderLoad: while one is away or hangs, queries end, and
// after its return passwords are verified again.
func TestServersOfPasswordsAreKilledUnderLoad(t *testing.T) {
	const limit = time.Second
	ldapAt, ca, ldapd := slapdWith(t, "dc=school,dc=example", people)
	directory, err := NewLDAP(LDAP{Servers: setting.OneOrMore[string]{"ldap://" + ldapAt}, StartTLS: true, CA: setting.File(ca),
		Base: "dc=school,dc=example", Bind: "cn=admin,dc=school,dc=example", Password: "admin", Timeout: setting.Duration(limit)})
	if err != nil {
		t.Fatal(err)
	}
	radiusAt, radiusd := freeradius(t)
	radius, err := NewRADIUS(RADIUS{Servers: setting.OneOrMore[string]{radiusAt}, Secret: "testing123", Timeout: setting.Duration(limit)})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []struct {
		name   string
		source Source
		at     *daemon
	}{{"LDAP", directory, ldapd}, {"RADIUS", radius, radiusd}} {
		t.Run(s.name, func(t *testing.T) {
			await(t, s.name, func() bool {
				_, _, err := s.source.Verify(t.Context(), "bold", "secret")
				return err == nil
			})
			var verified, failed, wrong, longest atomic.Int64
			ctx, stop := context.WithCancel(t.Context())
			var load sync.WaitGroup
			for range 4 {
				load.Go(func() {
					for ctx.Err() == nil {
						begin := time.Now()
						_, _, err := s.source.Verify(t.Context(), "bold", "secret")
						for took := int64(time.Since(begin)); ; {
							if was := longest.Load(); was >= took || longest.CompareAndSwap(was, took) {
								break
							}
						}
						switch {
						case err == nil:
							verified.Add(1)
						case errors.Is(err, ErrRefused): // an unreachable server must not decide about a password
							wrong.Add(1)
						default:
							failed.Add(1)
						}
						time.Sleep(time.Millisecond)
					}
				})
			}
			more := func(what string, n *atomic.Int64) time.Duration {
				begin := time.Now()
				for was := n.Load(); n.Load() < was+5; time.Sleep(time.Millisecond) {
					if time.Since(begin) > time.Minute {
						t.Fatalf("%s: five queries did not end within a minute", what)
					}
				}
				return time.Since(begin)
			}
			for _, trouble := range []struct {
				name       string
				begin, end func()
			}{
				{"killed", s.at.kill, s.at.restart},
				{"stopped", func() { _ = s.at.Process.Signal(syscall.SIGSTOP) }, func() { _ = s.at.Process.Signal(syscall.SIGCONT) }},
			} {
				more("before it is "+trouble.name, &verified)
				trouble.begin()
				more(trouble.name, &failed)
				trouble.end()
				took := more("after it was "+trouble.name, &verified)
				t.Logf("%s: passwords were verified again after %v; the longest query took %v", trouble.name, took, time.Duration(longest.Load()))
			}
			stop()
			load.Wait()
			if n := wrong.Load(); n > 0 {
				t.Errorf("%d right passwords were refused, want none", n)
			}
		})
	}
}

// TestASilentServerCostsItsTimeOnce: for the next user the other servers are tried first.
func TestASilentServerCostsItsTimeOnce(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // it accepts connections and sends nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var tried atomic.Int64 // how often a silent server was asked
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			tried.Add(1)
			defer c.Close()
		}
	}()
	u, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	go func() {
		for _, _, err := u.ReadFrom(make([]byte, 4096)); err == nil; _, _, err = u.ReadFrom(make([]byte, 4096)) {
			tried.Add(1)
		}
	}()
	const limit = setting.Duration(time.Second)
	ldapAt, ca, _ := slapdWith(t, "dc=school,dc=example", people)
	directory, err := NewLDAP(LDAP{Servers: []string{"ldap://" + l.Addr().String(), "ldap://" + ldapAt}, StartTLS: true, CA: setting.File(ca), Base: "dc=school,dc=example", Timeout: limit})
	if err != nil {
		t.Fatal(err)
	}
	defer directory.Close()
	radiusAt, _ := freeradius(t)
	radius, err := NewRADIUS(RADIUS{Servers: []string{u.LocalAddr().String(), radiusAt}, Secret: "testing123", Timeout: limit})
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]Source{"LDAP": directory, "RADIUS": radius} {
		await(t, name, func() bool {
			_, _, err := s.Verify(t.Context(), "bold", "secret")
			return err == nil
		})
		before := tried.Load()
		for range 5 {
			if d, ok := s.(*Directory); ok { // connections that wait would be used
				for len(d.search)+len(d.verify) > 0 {
					select {
					case c := <-d.search:
						c.Close()
					case c := <-d.verify:
						c.Close()
					}
				}
			}
			if _, _, err := s.Verify(t.Context(), "bold", "secret"); err != nil {
				t.Fatalf("%s: Verify returned %v", name, err)
			}
		}
		if n := tried.Load() - before; n > 1 { // once more if the machine is busy
			t.Errorf("%s: five queries asked the silent server %d times, want none", name, n)
		}
	}
}

// TestUsersAreFoundWhereTheDirectoryRefersTo: by a continuation of a search, and
// by a referral in place of an answer.
func TestUsersAreFoundWhereTheDirectoryRefersTo(t *testing.T) {
	const branch = "ou=branch,dc=school,dc=example"
	far, _, _ := slapdWith(t, branch, "dn: "+branch+"\nobjectClass: organizationalUnit\nou: branch\n\n"+
		"dn: uid=otto,"+branch+"\nobjectClass: inetOrgPerson\nuid: otto\ncn: Otto\nsn: Otto\nuserPassword: far away\n\n"+
		"dn: cn=far,"+branch+"\nobjectClass: groupOfNames\ncn: far\nmember: uid=otto,"+branch+"\n")
	near, _, _ := slapdWith(t, "dc=school,dc=example", people+"\ndn: "+branch+"\nobjectClass: referral\nobjectClass: extensibleObject\nou: branch\nref: ldap://"+far+"/"+branch+"\n")
	for _, base := range []string{"dc=school,dc=example", branch} {
		d, err := NewLDAP(LDAP{Servers: []string{"ldap://" + near}, Base: base})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		user, groups, err := d.Verify(t.Context(), "otto", "far away")
		if err != nil || user != "otto" || len(groups) != 1 || groups[0] != "far" {
			t.Errorf("Verify of a user below %s returned %q, %q, %v", base, user, groups, err)
		}
		if _, _, err := d.Verify(t.Context(), "otto", "wrong"); !errors.Is(err, ErrRefused) {
			t.Errorf("Verify of a user below %s with a wrong password: %v, want ErrRefused", base, err)
		}
		if _, _, err := d.Verify(t.Context(), "nobody", "x"); !errors.Is(err, ErrRefused) {
			t.Errorf("Verify of an unknown user below %s: %v, want ErrRefused", base, err)
		}
	}
}

func TestNamesOfEntriesAreWrittenInManyWays(t *testing.T) {
	for _, same := range [][]string{
		{`cn=a\, b,dc=x`, `CN=A\2C b, DC=x`, `cn=a\2c b,  dc=X`},
		{"cn=ärger,dc=x", `cn=\C3\84rger,dc=x`, "CN=ÄRGER,dc=x"},
		{`cn=\ a,dc=x`, `cn=\20a,dc=x`},
		{`cn=a\\,dc=x`, `cn=a\5c, dc=x`},
		{`cn=a\, dc\=x`, `cn=a\, dc\3dx`},
		{`cn=7 #b=c,dc=x`, `cn=7 \#b\=c,dc=x`, `cn=7\20\23b\3Dc, dc=x`},
		{`cn=\#a\ ,dc=x`, `cn=\23a\20,dc=x`, `cn=\#a\20, dc=x`},
		{`cn=a\ +ou=b\ `, `cn=a\20+ou=b\20`},
	} {
		for _, dn := range same[1:] {
			if got, want := canonical(dn), canonical(same[0]); got != want {
				t.Errorf("canonical(%q) = %q, but canonical(%q) = %q", dn, got, same[0], want)
			}
		}
	}
	if canonical(`cn=a\,dc=x`) == canonical("cn=a,dc=x") {
		t.Error("an escaped comma separates parts of a name")
	}
}

func FuzzCanonical(f *testing.F) {
	for _, dn := range []string{`cn=a\2Cb, dc=x`, `\`, `\5`, `\\20`, "a, \xff", `, \20`} {
		f.Add(dn)
	}
	f.Fuzz(func(t *testing.T, dn string) {
		once := canonical(dn)
		if utf8.ValidString(once) && canonical(once) != once {
			t.Errorf("canonical(%q) = %q, and again %q", dn, once, canonical(once))
		}
	})
}

func TestAllGroupsOfAUserCount(t *testing.T) {
	g := &graph{above: map[string][]int32{}, byUID: map[string][]int32{}}
	const groups = 3000 // each in the next one
	for i := range int32(groups) {
		g.names, g.entry = append(g.names, []string{fmt.Sprintf("g%d", i)}), append(g.entry, fmt.Sprintf("cn=g%d", i))
		if i > 0 {
			g.above[g.entry[i-1]] = []int32{i}
		}
	}
	g.above["uid=anna"] = []int32{0}
	g.above[g.entry[groups-1]] = []int32{0} // a circle ends
	if got := g.groupsOf(&ldap.Entry{DN: "uid=anna"}, "anna"); len(got) != groups {
		t.Errorf("groupsOf found %d of %d groups", len(got), groups)
	}
}
