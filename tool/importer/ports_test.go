package importer

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestBesideMovesEveryPort(t *testing.T) {
	dir := t.TempDir()
	file, moved := filepath.Join(dir, "shuultuur.yaml"), filepath.Join(dir, "beside.yaml")
	text := "listen: {proxy: ['[::]:3128', '127.0.0.1:60000'], icap: '127.0.0.1:1344'}\ndns: {listen: [':53'], tls: ['192.0.2.1:853']}\npolicies: [{name: all}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	lines, err := withOtherPorts(file, moved, func(address string) bool { return address != "192.0.2.1:10853" })
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(moved)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"[::]:13128", "127.0.0.1:50000", "127.0.0.1:11344", ":10053", "192.0.2.1:10854", "127.0.0.1:18081", "name: all"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%s is not in\n%s", want, got)
		}
	}
	if len(lines) != 8 || !strings.Contains(strings.Join(lines, "\n"), "dns.listen: :10053 instead of :53") {
		t.Errorf("the new places of the addresses are %q, want six, and how to compare", lines)
	}
	if want := []string{"Ask both the same: dig @127.0.0.1 -p 10053 NAME, and with port 53", "Or judge a log of the other program: shuultuur replay -offline -config " + file + " LOG"}; !slices.Equal(lines[len(lines)-2:], want) {
		t.Errorf("how to compare is said by %q, want %q", lines[len(lines)-2:], want)
	}
}

// TestBesideTakesNoPortThatIsTaken: the server that has the port stays.
func TestBesideTakesNoPortThatIsTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().(*net.TCPAddr).Port
	if isFree(l.Addr().String()) {
		t.Errorf("port %d counts as free while a server has it", taken)
	}
	was := taken - besideBy
	if was < 1 {
		was = taken + besideBy
	}
	dir := t.TempDir()
	file, moved := filepath.Join(dir, "shuultuur.yaml"), filepath.Join(dir, "beside.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "listen: {proxy: '127.0.0.1:%d', admin: 'off'}\n", was), 0o600); err != nil {
		t.Fatal(err)
	}
	lines, err := WithOtherPorts(file, moved)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(lines[0], fmt.Sprintf("127.0.0.1:%d instead", taken)) || !strings.HasSuffix(lines[0], fmt.Sprintf("instead of 127.0.0.1:%d", was)) {
		t.Errorf("with port %d taken, the place of the proxy is %q", taken, lines[0])
	}
}
