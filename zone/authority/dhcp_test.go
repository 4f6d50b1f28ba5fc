//go:build !small

package authority

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/test/peer"
)

// Two clients with the same name, as RFC 4701 writes them.
const (
	anna = "AAIBY2/AuCccgoJbsaxcQc9TUapptP69lOjxfNuVAA2kjEA="
	bert = "AAABxLmlskllE0MVjd57zHcWmEH3pCQ6VytcKD//7es/deY="
)

// A step of an update between a DHCP server and us.
type dhcpStep struct {
	name   string
	before []miekg.RR
	change []miekg.RR
	want   int
	zone   string // lines that there are afterwards, without the zone's own; "" as before
}

// TestDHCPServersUpdateAsRFC4703Says sends what Kea's D2 sends for each of its ways to resolve
// conflicts (RFC 4703 sections 5.3 to 5.5): a free name, the same client again, another client, a
// second address family, the end of leases, and reverse names.
func TestDHCPServersUpdateAsRFC4703Says(t *testing.T) {
	_, addr := updatedZone(t, apex+"ns A 192.0.2.1\nprinter A 192.0.2.5\n")
	const pc = "pc.example.test."
	rr := func(format string, a ...any) miekg.RR { return rrOf(t, fmt.Sprintf(format, a...)) }
	dhcid := func(name, who string) miekg.RR { return rr("%s 0 IN DHCID %s", name, who) }
	inUse := func(name string) miekg.RR { return bare(name, miekg.TypeANY, miekg.ClassANY) }
	free := func(name string) miekg.RR { return bare(name, miekg.TypeANY, miekg.ClassNONE) }
	no := func(name string, typ uint16) miekg.RR { return bare(name, typ, miekg.ClassNONE) }
	all := func(name string, typ uint16) miekg.RR { return bare(name, typ, miekg.ClassANY) }
	add := func(who, address string) []miekg.RR {
		return []miekg.RR{rr("%s 1200 A %s", pc, address), rr("%s 1200 DHCID %s", pc, who)}
	}
	for _, s := range []dhcpStep{
		{"5.3.1: the name is free", []miekg.RR{free(pc)}, add(anna, "192.0.2.10"), miekg.RcodeSuccess, "pc A 192.0.2.10, pc DHCID " + anna},
		{"5.3.1: it is in use", []miekg.RR{free(pc)}, add(anna, "192.0.2.11"), miekg.RcodeYXDomain, ""},
		{"5.3.2: by the same client", []miekg.RR{inUse(pc), dhcid(pc, anna)}, []miekg.RR{all(pc, miekg.TypeA), rr("%s 1200 A 192.0.2.11", pc)}, miekg.RcodeSuccess, "pc A 192.0.2.11, pc DHCID " + anna},
		{"5.3.2: by another client", []miekg.RR{inUse(pc), dhcid(pc, bert)}, []miekg.RR{all(pc, miekg.TypeA), rr("%s 1200 A 192.0.2.12", pc)}, miekg.RcodeNXRrset, ""},
		{"5.3.2: by nobody's lease", []miekg.RR{inUse("printer.example.test."), dhcid("printer.example.test.", anna)}, []miekg.RR{all("printer.example.test.", miekg.TypeA)}, miekg.RcodeNXRrset, ""},
		{"5.3.2: it has gone meanwhile", []miekg.RR{inUse("gone.example.test."), dhcid("gone.example.test.", anna)}, []miekg.RR{rr("gone.example.test. 60 A 192.0.2.9")}, miekg.RcodeNameError, ""},
		{"5.2: the second family of the same client", []miekg.RR{inUse(pc), dhcid(pc, anna)}, []miekg.RR{all(pc, miekg.TypeAAAA), rr("%s 1200 AAAA 2001:db8::10", pc)}, miekg.RcodeSuccess, "pc A 192.0.2.11, pc AAAA 2001:db8::10, pc DHCID " + anna},
		{"check-exists-with-dhcid: any lease", []miekg.RR{inUse(pc), all(pc, miekg.TypeDHCID)}, []miekg.RR{all(pc, miekg.TypeA), rr("%s 1200 A 192.0.2.13", pc)}, miekg.RcodeSuccess, "pc A 192.0.2.13, pc AAAA 2001:db8::10, pc DHCID " + anna},
		{"check-exists-with-dhcid: no lease", []miekg.RR{inUse("printer.example.test."), all("printer.example.test.", miekg.TypeDHCID)}, []miekg.RR{all("printer.example.test.", miekg.TypeA)}, miekg.RcodeNXRrset, ""},
		{"no-check-with-dhcid: bert takes it", nil, append([]miekg.RR{all(pc, miekg.TypeA), all(pc, miekg.TypeDHCID)}, add(bert, "192.0.2.14")...), miekg.RcodeSuccess, "pc A 192.0.2.14, pc AAAA 2001:db8::10, pc DHCID " + bert},
		{"5.5: anna's lease ends, which has the name no more", []miekg.RR{dhcid(pc, anna)}, []miekg.RR{none(rr("%s A 192.0.2.13", pc))}, miekg.RcodeNXRrset, ""},
		{"5.5: the lease ends: its address", []miekg.RR{dhcid(pc, bert)}, []miekg.RR{none(rr("%s A 192.0.2.14", pc))}, miekg.RcodeSuccess, "pc AAAA 2001:db8::10, pc DHCID " + bert},
		{"5.5: the name stays while it has another address", []miekg.RR{dhcid(pc, bert), no(pc, miekg.TypeA), no(pc, miekg.TypeAAAA)}, []miekg.RR{all(pc, miekg.TypeANY)}, miekg.RcodeYXRrset, ""},
		{"5.5: the other address", []miekg.RR{dhcid(pc, bert)}, []miekg.RR{none(rr("%s AAAA 2001:db8::10", pc))}, miekg.RcodeSuccess, "pc DHCID " + bert},
		{"5.5: the name", []miekg.RR{dhcid(pc, bert), no(pc, miekg.TypeA), no(pc, miekg.TypeAAAA)}, []miekg.RR{all(pc, miekg.TypeANY)}, miekg.RcodeSuccess, "-"},
		{"5.4: a reverse name", nil, []miekg.RR{all("10.example.test.", miekg.TypePTR), all("10.example.test.", miekg.TypeDHCID), rr("10.example.test. 1200 PTR %s", pc), rr("10.example.test. 1200 DHCID %s", anna)}, miekg.RcodeSuccess, "10 PTR " + pc + ", 10 DHCID " + anna},
		{"5.4: it leads to another name", nil, []miekg.RR{all("10.example.test.", miekg.TypePTR), all("10.example.test.", miekg.TypeDHCID), rr("10.example.test. 1200 PTR ns.example.test."), rr("10.example.test. 1200 DHCID %s", bert)}, miekg.RcodeSuccess, "10 PTR ns.example.test., 10 DHCID " + bert},
		{"5.5: it is another client's by now", []miekg.RR{rr("10.example.test. 0 PTR %s", pc)}, []miekg.RR{all("10.example.test.", miekg.TypeANY)}, miekg.RcodeNXRrset, ""},
		{"5.5: it goes", []miekg.RR{rr("10.example.test. 0 PTR NS.example.test.")}, []miekg.RR{all("10.example.test.", miekg.TypeANY)}, miekg.RcodeSuccess, "-"},
	} {
		was := leases(t, addr)
		if got := exchange(t, addr, updateKey, message(s.before, s.change)); got != s.want {
			t.Errorf("%s: %s, want %s", s.name, miekg.RcodeToString[got], miekg.RcodeToString[s.want])
		}
		want := was
		switch s.zone {
		case "":
		case "-":
			want = nil
		default:
			want = strings.Split(s.zone, ", ")
			slices.Sort(want)
		}
		if got := leases(t, addr); !slices.Equal(got, want) {
			t.Errorf("%s: the zone has %q, want %q", s.name, got, want)
		}
	}
}

// leases returns the records of a zone besides those that it began with, without TTLs.
func leases(t *testing.T, addr string) (all []string) {
	t.Helper()
	in, err := new(miekg.Transfer).In(new(miekg.Msg).SetAxfr("example.test."), addr)
	if err != nil {
		t.Fatal(err)
	}
	for e := range in {
		if e.Error != nil {
			t.Fatal(e.Error)
		}
		for _, rr := range e.RR {
			f := strings.Fields(rr.String())
			if name := strings.TrimSuffix(f[0], ".example.test."); name == "pc" || name == "10" || name == "laptop" || name == "gone" {
				all = append(all, name+" "+strings.Join(f[3:], " "))
			}
		}
	}
	slices.Sort(all)
	return all
}

// TestScriptsOfDnsmasqUpdate runs what its dhcp-script hands to nsupdate when a lease begins, is
// renewed with another name, and ends.
func TestScriptsOfDnsmasqUpdate(t *testing.T) {
	_, addr := updatedZone(t, apex+"ns A 192.0.2.1\n")
	host, port, _ := net.SplitHostPort(addr)
	for _, s := range []struct{ what, lines, want string }{
		{"add", "update delete laptop.example.test. A\nupdate add laptop.example.test. 3600 A 192.0.2.20", "laptop A 192.0.2.20"},
		{"old", "update delete laptop.example.test. IN A\nupdate add laptop.example.test. 3600 IN A 192.0.2.21", "laptop A 192.0.2.21"},
		{"add, IPv6", "update delete laptop.example.test. AAAA\nupdate add laptop.example.test. 3600 AAAA 2001:db8::20", "laptop A 192.0.2.21, laptop AAAA 2001:db8::20"},
		{"reverse", "update delete 10.example.test. PTR\nupdate add 10.example.test. 3600 PTR laptop.example.test.", "10 PTR laptop.example.test., laptop A 192.0.2.21, laptop AAAA 2001:db8::20"},
		{"another lease ends", "update delete laptop.example.test. A 192.0.2.99", "10 PTR laptop.example.test., laptop A 192.0.2.21, laptop AAAA 2001:db8::20"},
		{"del", "update delete laptop.example.test.\nupdate delete 10.example.test. PTR", ""},
	} {
		cmd := peer.Command(t, "nsupdate", "-y", "hmac-sha256:updater:"+updateSecret)
		cmd.Stdin = strings.NewReader(fmt.Sprintf("server %s %s\nzone example.test.\n%s\nsend\n", host, port, s.lines))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", s.what, err, out)
		}
		if got := strings.Join(leases(t, addr), ", "); got != s.want {
			t.Errorf("%s: the zone has %q, want %q", s.what, got, s.want)
		}
	}
}

// TestAnUpdateIsMadeOnce sends signed updates again, as a client whose answer was lost does, and as
// somebody who has recorded them.
func TestAnUpdateIsMadeOnce(t *testing.T) {
	file, addr := updatedZone(t, apex+"ns A 192.0.2.1\n")
	signed := func(m *miekg.Msg) []byte {
		t.Helper()
		m.SetTsig(updateKey, miekg.HmacSHA256, 300, time.Now().Unix())
		b, _, err := miekg.TsigGenerate(m, updateSecret, "", false)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	send := func(msg []byte) int {
		t.Helper()
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		co := &miekg.Conn{Conn: c}
		if _, err := co.Write(msg); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 65535)
		n, err := co.Read(b)
		var r miekg.Msg
		if err != nil || r.Unpack(b[:n]) != nil {
			t.Fatalf("reading the answer: %v", err)
		}
		return r.Rcode
	}
	free := []miekg.RR{bare("pc.example.test.", miekg.TypeANY, miekg.ClassNONE)}
	first := signed(message(free, []miekg.RR{rrOf(t, "pc.example.test. 60 A 192.0.2.10")}))
	inVain := signed(message([]miekg.RR{bare("gone.example.test.", miekg.TypeANY, miekg.ClassANY)}, []miekg.RR{rrOf(t, "pc.example.test. 60 A 192.0.2.66")}))
	for _, s := range []struct {
		what string
		msg  []byte
		want int
		zone string
	}{
		{"first", first, miekg.RcodeSuccess, "pc A 192.0.2.10"},
		{"again, for its answer", first, miekg.RcodeSuccess, "pc A 192.0.2.10"},
		{"with another ID", append([]byte{1, 2}, first[2:]...), miekg.RcodeSuccess, "pc A 192.0.2.10"},
		{"a prerequisite fails", inVain, miekg.RcodeNameError, "pc A 192.0.2.10"},
		{"the name goes", signed(message(nil, []miekg.RR{bare("pc.example.test.", miekg.TypeANY, miekg.ClassANY)})), miekg.RcodeSuccess, ""},
		{"a recorded one", first, miekg.RcodeSuccess, ""},
		{"the prerequisite holds now", signed(message(nil, []miekg.RR{rrOf(t, "gone.example.test. 60 A 192.0.2.1")})), miekg.RcodeSuccess, "gone A 192.0.2.1"},
		{"a recorded one that failed", inVain, miekg.RcodeNameError, "gone A 192.0.2.1"},
		{"the same by its own will", signed(message(free, []miekg.RR{rrOf(t, "pc.example.test. 60 A 192.0.2.10")})), miekg.RcodeSuccess, "gone A 192.0.2.1, pc A 192.0.2.10"},
	} {
		if got := send(s.msg); got != s.want {
			t.Errorf("%s: %s, want %s", s.what, miekg.RcodeToString[got], miekg.RcodeToString[s.want])
		}
		if got := strings.Join(leases(t, addr), ", "); got != s.zone {
			text, _ := os.ReadFile(file)
			t.Errorf("%s: the zone has %q, want %q\n%s", s.what, got, s.zone, text)
		}
	}
}

func TestOldUpdatesAreForgotten(t *testing.T) {
	m, now := &made{answers: map[string]madeAnswer{}}, time.Unix(1e9, 0)
	for i := range mostRepeats + 10 {
		m.note(fmt.Sprint(i), i, now.Add(time.Second), now)
	}
	if rcode, ok := m.of("7"); len(m.answers) != mostRepeats || !ok || rcode != 7 {
		t.Errorf("%d are remembered; of the eighth %d, %v", len(m.answers), rcode, ok)
	}
	m.note("new", 0, now.Add(time.Hour), now.Add(2*time.Minute))
	if _, ok := m.of("new"); !ok || len(m.answers) != 1 {
		t.Errorf("%d are remembered, want the new one", len(m.answers))
	}
}
