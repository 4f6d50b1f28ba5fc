package test

import (
	"context"
	"database/sql"
	"encoding/binary"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"shuultuur/intercept"
	"shuultuur/test/cert"
	"shuultuur/test/peer"
)

// A document is the environment that the commands of a manual page need, and their required
// output. Each page has its own machine, with its own network, the ports of the page, and its
// own /etc, /opt, /run, /root and /var, where it may change anything. $FILES has examples, and
// the settings of the page as 1.yaml, 2.yaml ….
type document struct {
	before   string   // a shell script
	programs []string // without which the test skips the page
	want     []string // part of the output
}

const proxied = `
cp $FILES/gateway.yaml shuultuur.yaml
start
`

// installed is a machine with the settings of the page in the place where packages put them. A
// stand-in replaces the service manager.
const installed = `
mkdir -p /etc/shuultuur /var/lib/shuultuur; cp $FILES/1.yaml /etc/shuultuur/shuultuur.yaml
systemctl() { start /etc/shuultuur/shuultuur.yaml; }
`

var documents = map[string]document{
	"README.md": {
		before:   `mount --bind $REPOSITORY . && cd .`,
		programs: []string{"dig", "make"},
		want:     []string{"EDE: 15 (Blocked)"},
	},
	"docs/cache.md":         {before: `mkdir -p /var/log/squid; cp $FILES/access.log /var/log/squid`},
	"docs/encrypted-dns.md": {before: `ip address add 192.0.2.1/32 dev lo; cp $FILES/dns.* .; cp $FILES/ddr.yaml shuultuur.yaml; start`, programs: []string{"dig"}, want: []string{"dns.example.com"}},
	"docs/events.md": {before: proxied + `
curl -o page -x http://127.0.0.1:8080 http://bet.example/ || true
until shuultuur events | grep -q bet.example; do sleep 0.1; done`, want: []string{"bet.example"}},
	"docs/guide-alerts.md": {before: `cp $FILES/1.yaml shuultuur.yaml; start`, want: []string{`"theme":"self-harm"`, `"state":"closed"`}},
	"docs/guide-home.md": {before: installed + `ip address add 192.168.1.2/24 dev lo; ip address add 192.168.1.66/24 dev lo
curl() { command curl -sS "$@"; } # the page that is fetched is to be refused
`, programs: []string{"dig"},
		want: []string{"EDE: 15 (Blocked)", "403 Forbidden", "BLOCK  http://casino.example/", "policy  kids"}},
	"docs/guide-firewall.md": {before: `cp $REPOSITORY/tool/importer/opnsense/testdata/config.xml config.xml`, want: []string{"They are good"}},
	"docs/guide-fleet.md": {before: `
for n in 2 5 6; do ip address add 10.0.0.$n/32 dev lo; done; cp $FILES/1.yaml shuultuur.yaml; echo bet.example >own.txt
redis-server --bind 10.0.0.5 --protected-mode no --save '' --daemonize yes >/dev/null
until redis-cli -h 10.0.0.5 ping | grep -q PONG; do sleep 0.1; done`, programs: []string{"redis-server"}, want: []string{"shuultuur.yaml: good", "redis"}},
	"docs/guide-pihole.md": {before: `
cp -r $FILES/pihole /etc; groupadd -f shuultuur; useradd -r -g shuultuur shuultuur 2>/dev/null || true; mkdir -p /etc/shuultuur /var/log/pihole
echo 'Nov 26 08:00:00 dnsmasq[1]: query[A] ads.example from 192.168.1.20' >/var/log/pihole/pihole.log
systemctl() { case $1 in restart) start /etc/shuultuur/shuultuur.yaml ;; esac; }
`, want: []string{"They are good", "BLOCK  ads.example"}},
	"docs/guide-reports.md": {before: `cp $FILES/1.yaml shuultuur.yaml; start`, want: []string{`"name":"game.example"`, "%PDF-"}},
	"docs/guide-school.md": {before: installed + `ip address add 10.0.0.2/8 dev lo`,
		want: []string{"BLOCK  https://news.example/", "policy  pupils", "ALLOW  https://bank.example/", "update-ca-certificates"}},
	"docs/guide-squid.md": {before: `mkdir -p /etc/squid; cp -r $FILES/squid/* /etc/squid`},
	"docs/https.md":       {before: proxied},
	"docs/import.md": {before: `
mkdir -p /etc/squid /etc/squidguard /opt/AdGuardHome /var/log/squid
cp -r $FILES/pihole $FILES/e2guardian /etc; cp -r $FILES/squid/* /etc/squid
mkdir -p /etc/dansguardian; echo 'filterport = 8080' >/etc/dansguardian/dansguardian.conf
cp -r $FILES/squidguard/* /etc/squidguard; cp -r $FILES/adguardhome/* /opt/AdGuardHome
mkdir -p /opt/AdGuardHome/data
echo '{"T":"2026-11-20T08:00:00Z","QH":"bet.example","QT":"A","IP":"10.1.2.3","Result":{"IsFiltered":true}}' >/opt/AdGuardHome/data/querylog.json
cp $FILES/access.log /var/log/squid`, want: []string{"They are good"}},
	"docs/lists.md": {before: `
mkdir -p lists/blacklists/casino
echo bet.example >lists/blacklists/casino/domains; cp lists/blacklists/casino/domains own.txt; cp own.txt ads.txt
python3 -m http.server -b 127.0.0.2 8000 >/dev/null 2>&1 &
cp $FILES/lists.yaml shuultuur.yaml
until command curl -sf -o page http://127.0.0.2:8000/; do sleep 0.1; done
start
until shuultuur list history ads | grep -q '^[*]'; do sleep 0.1; done
echo new.example >>ads.txt; touch -d '2 seconds' ads.txt # servers compare seconds
until shuultuur list update; do sleep 0.1; done # the gateway may still be at it`, programs: []string{"python3"}, want: []string{"casino.example"}},
	"docs/operation.md": {before: `
mkdir -p /etc/shuultuur; cp $FILES/gateway.yaml /etc/shuultuur/shuultuur.yaml; cd /etc/shuultuur; start`,
		want: []string{"serves; process", "10.1.2.3"}},
	"docs/replay.md": {before: `
cp $FILES/access.log .; gzip -k access.log; cp access.log.gz access.log.1.gz
cp $FILES/gateway.yaml old.yaml; cp $FILES/gateway.yaml new.yaml
cp $FILES/parent.yaml shuultuur.yaml; start`, programs: []string{"gzip"}},
	"docs/signatures.md": {before: `
cp $FILES/my.rules $FILES/request.txt .; cp my.rules emerging.rules; tar czf emerging.rules.tar.gz emerging.rules
shuultuur load -h >/dev/null 2>&1 || true
cp $FILES/traffic.pcap .
cp emerging.rules.tar.gz ours.tar.gz; cp $FILES/sources.yaml shuultuur.yaml; touch disable.conf
python3 -m http.server -b 127.0.0.2 8000 >/dev/null 2>&1 &
until command curl -sf -o page http://127.0.0.2:8000/; do sleep 0.1; done
start
until shuultuur rules history ours | grep -q '^[*]'; do sleep 0.1; done
echo >>emerging.rules; echo >>emerging.rules; tar czf ours.tar.gz emerging.rules; touch -d '2 seconds' ours.tar.gz # servers compare seconds
until shuultuur rules update; do sleep 0.1; done # the gateway may still be at it`, programs: []string{"tar", "python3"}, want: []string{"1000001", "ours: unchanged", "ours: back to"}},
	"docs/squid.md":       {before: `groupadd -f proxy; useradd -r shuultuur 2>/dev/null || true`},
	"docs/transparent.md": {programs: []string{"iptables"}},
	"admin/README.md":     {before: proxied},
	"identity/README.md": {before: `
ip address add 10.9.0.1/32 dev lo; echo '10.9.0.1 gate' >>/etc/hosts
cp $FILES/dns.* .; cp $FILES/gate.yaml shuultuur.yaml
export TOKEN=0123456789abcdef CURL_CA_BUNDLE=$PWD/dns.pem; start`, want: []string{`"started":1`, `"stopped":1`}},
	"nameserver/README.md": {before: `cp $FILES/dns.* .; cp $FILES/2.yaml shuultuur.yaml; start`, programs: []string{"dig", "kdig"}, want: []string{"SERVFAIL", "alpn"}},
	"resolver/README.md":   {before: `cp $FILES/casino.yaml shuultuur.yaml; echo casino.example >gambling.txt; start`, programs: []string{"dig"}, want: []string{"EDE: 17 (Filtered): (block category gambling policy pupils", "BLOCK  casino.example"}},
	"vote/README.md":       {before: `cp $FILES/votes.yaml shuultuur.yaml; start`, want: []string{"019a52c4-6a0e-7c3e-9a54-0a1b2c3d4e5f"}},
	"zone/README.md": {before: `
cp $FILES/example.com.zone .; cp $FILES/zones.yaml shuultuur.yaml; start`, programs: []string{"dig", "nsupdate", "dnssec-verify"}, want: []string{"ns1.example.com", "Zone fully signed"}},
	"zone/redins/README.md": {before: `
redis-server --port 6379 --save '' --daemonize yes >/dev/null
until redis-cli ping | grep -q PONG; do sleep 0.1; done
mkdir -p keys /etc/shuultuur/keys; cp $FILES/example.com.zone .
shuultuur zone keygen -dir keys example.com >/dev/null
for k in zsk ksk; do for f in pub priv; do redis-cli SET redins:zones:example.com.:$k:$f "$(cat keys/* | head -3)" >/dev/null; done; done
cp $FILES/redins.json config.json; cp $FILES/redis.yaml .; start redis.yaml`, programs: []string{"redis-server", "dig"}, want: []string{"192.0.2.1"}},
}

// manual returns the repository, because only some pages are built into the program.
func manual() fs.FS { return os.DirFS("..") }

// commandPages returns the pages of the manual that have commands.
func commandPages(t *testing.T) map[string][]commandBlock {
	t.Helper()
	all := map[string][]commandBlock{}
	for _, pattern := range []string{"README.md", "*/README.md", "check/*/README.md", "zone/redins/README.md", "docs/*.md"} {
		files, err := fs.Glob(manual(), pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no pages %s: %v", pattern, err)
		}
		for _, file := range files {
			text, err := fs.ReadFile(manual(), file)
			if err != nil {
				t.Fatal(err)
			}
			if blocks := commandBlocks(t, file, string(text)); len(blocks) > 0 {
				all[file] = blocks
			}
		}
	}
	return all
}

// A commandBlock is a fenced block of kind sh.
type commandBlock struct {
	line   int
	lines  []string
	reason string // why no machine can run it; "" when the test runs it
}

var (
	fence     = regexp.MustCompile("^\\s*```(\\S*)\\s*$")
	notRun    = regexp.MustCompile(`^\s*<!-- not run: (.+) -->\s*$`)
	isCommand = regexp.MustCompile(`^\s*(\$ )?(sudo |\./bin/)?(shuultuur|make|curl|dig|kdig|apt|apt-get|dpkg|systemctl|docker|helm|redis-cli|sysctl|iptables|ip6tables|install|service|pip)\s`)
)

// commandBlocks finds the commands of a page. It fails if a block does not name its kind, or
// has commands under another kind.
func commandBlocks(t *testing.T, file, text string) (blocks []commandBlock) {
	kind, reason, open := "", "", false
	var b commandBlock
	before := ""
	for i, line := range strings.Split(text, "\n") {
		m := fence.FindStringSubmatch(line)
		switch {
		case m != nil && !open:
			open, kind, b, reason = true, m[1], commandBlock{line: i + 1}, ""
			if kind == "" {
				t.Errorf("%s:%d: the block has no kind: write ```sh for commands, which a test runs, or text, yaml, json …", file, i+1)
			}
			if r := notRun.FindStringSubmatch(before); r != nil {
				reason = r[1]
			}
		case m != nil:
			open = false
			if kind == "sh" {
				b.reason = reason
				blocks = append(blocks, b)
			}
		case open && kind == "sh":
			b.lines = append(b.lines, line)
		case open && isCommand.MatchString(line):
			t.Errorf("%s:%d: no test runs the command in this block of kind %q; write ```sh", file, i+1, kind)
		}
		before = line
	}
	return blocks
}

// stays matches a command that runs until it is stopped.
var stays = regexp.MustCompile(`^(make run|shuultuur run|shuultuur events -follow|shuultuur import \S+ -to \S+ -beside)\b`)

// script returns a page as a shell script.
func script(page string, d document, blocks []commandBlock) string {
	var s strings.Builder
	s.WriteString(`set -euo pipefail
trap 'echo "FAILED: $at"' ERR
at=preparation
mkdir -p $SCRATCH/cache && mount --bind $GOCACHE $SCRATCH/cache && export GOCACHE=$SCRATCH/cache
for d in etc opt root var; do
	mkdir -p $SCRATCH/$d-new $SCRATCH/$d-work
	mount -t overlay overlay -o lowerdir=/$d,upperdir=$SCRATCH/$d-new,workdir=$SCRATCH/$d-work /$d
done
mount -t tmpfs none /run
ip link set lo up
cd $SCRATCH/here
curl() { command curl -sS --fail-with-body "$@"; }
start() { shuultuur run "$@" & until shuultuur check -running "$@" >/dev/null 2>&1; do kill -0 $! || return 1; sleep 0.1; done; }
`)
	s.WriteString(d.before + "\n")
	for _, b := range blocks {
		if b.reason != "" {
			continue
		}
		for i, line := range b.lines {
			if strings.TrimSpace(line) == "" {
				continue
			}
			if i == 0 || !strings.HasSuffix(b.lines[i-1], "\\") && !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "done") {
				s.WriteString("at='" + page + ":" + strconv.Itoa(b.line+i+1) + "'\n")
			}
			switch {
			case strings.HasPrefix(line, "make run"):
				s.WriteString(line + " & until command curl -sf -o $SCRATCH/page http://127.0.0.1:8081/ready; do kill -0 $!; sleep 0.2; done\n")
			case stays.MatchString(line):
				s.WriteString(line + " & for i in 1 2 3 4 5; do sleep 0.1; kill -0 $!; done\n")
			case strings.HasPrefix(line, "shuultuur why"), strings.HasPrefix(line, "shuultuur doctor"): // the exit status is the answer
				s.WriteString("{ " + line + "\n} || test $? = 1\n")
			default:
				s.WriteString(strings.TrimPrefix(line, "$ ") + "\n")
			}
		}
	}
	return s.String() + "echo END OF PAGE\n"
}

// TestTheCommandsOfTheManualWork runs every block of commands in the README.md
// files and in docs, page by page and in their order, as a reader would.
func TestTheCommandsOfTheManualWork(t *testing.T) {
	pages := commandPages(t)
	if len(pages) < 15 {
		t.Errorf("found only %d pages with commands", len(pages))
	}
	files := exampleFiles(t)
	for page, blocks := range pages {
		t.Run(page, func(t *testing.T) {
			d, known := documents[page]
			runs := false
			for _, b := range blocks {
				runs = runs || b.reason == ""
			}
			switch {
			case !runs:
				return
			case !known:
				t.Fatalf("%s:%d has commands; add a row to documents with what they need", page, blocks[0].line)
			case os.Getuid() != 0:
				t.Skip("only root can give a page its own network and folders")
			}
			for _, p := range append([]string{"unshare"}, d.programs...) {
				peer.Program(t, p)
			}
			t.Parallel()
			tryPage(t, page, d, blocks, files)
		})
	}
	for page := range documents {
		if pages[page] == nil {
			t.Errorf("%s has no commands", page)
		}
	}
}

func tryPage(t *testing.T, page string, d document, blocks []commandBlock, files string) {
	scratch := t.TempDir()
	own := filepath.Join(scratch, "files")
	if err := os.CopyFS(own, os.DirFS(files)); err != nil {
		t.Fatal(err)
	}
	text, err := fs.ReadFile(manual(), page)
	if err != nil {
		t.Fatal(err)
	}
	for i, part := range strings.Split(string(text), "```yaml\n")[1:] {
		block, _, _ := strings.Cut(part, "\n```")
		put(t, filepath.Join(own, strconv.Itoa(i+1)+".yaml"), block+"\n")
	}
	if err := os.Mkdir(filepath.Join(scratch, "here"), 0o755); err != nil {
		t.Fatal(err)
	}
	repository, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	// Go's caches are shared, because building without them takes minutes.
	caches, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	cache := strings.Fields(string(caches))
	cmd := exec.CommandContext(ctx, "unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", script(page, d, blocks))
	cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH")+":/usr/sbin:/sbin", "HOME=/root",
		"FILES="+own, "SCRATCH="+scratch, "REPOSITORY="+repository, "GOCACHE="+cache[0], "GOMODCACHE="+cache[1])
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil && strings.Contains(string(out), "unshare: ") {
		t.Skipf("no namespaces here: %s", out)
	}
	if err != nil || !strings.Contains(string(out), "END OF PAGE") {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range d.want {
		if !strings.Contains(string(out), want) {
			t.Errorf("the commands do not print %q; they print\n%s", want, out)
		}
	}
}

func put(t *testing.T, file, text string) {
	t.Helper()
	err := os.MkdirAll(path.Dir(file), 0o755)
	if err == nil {
		err = os.WriteFile(file, []byte(text), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

const gatewaySettings = `listen: {proxy: 127.0.0.1:8080, admin: 127.0.0.1:8081}
data: ./data
policies: [{name: everyone, rules: [{name: own, action: block, host: [bet.example]}]}]
identity: {addresses: {anna: [10.9.9.9]}, groups: {staff: [anna]}}
events: {sqlite: events.db}
`

// exampleFiles makes a folder with settings, configurations of other programs, and the files
// that the pages name.
func exampleFiles(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"e2guardian", "squid", "squidguard", "pihole", "adguardhome"} {
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join("..", "tool", "importer", name, "testdata"))); err != nil {
			t.Fatal(err)
		}
	}
	dump, err := os.ReadFile(filepath.Join(dir, "pihole", "gravity.sql"))
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, "pihole", "gravity.db"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(string(dump)); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	root, err := intercept.NewRoot(intercept.RootConfig{})
	if err == nil {
		err = root.Write(filepath.Join(dir, "squid", "ca.pem"), false)
	}
	if err != nil {
		t.Fatal(err)
	}
	pem, key := cert.Files(t, dir, "gate")
	for name, file := range map[string]string{"dns.pem": pem, "dns.key": key, "adguardhome/cert.pem": pem, "adguardhome/key.pem": key} {
		if err := os.Link(file, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"access.log": "1700000000.123     45 10.1.2.3 TCP_MISS/200 512 GET http://example.com/ - HIER_DIRECT/192.0.2.1 text/html\n" +
			"1700000000.623     12 10.1.2.3 TCP_DENIED/403 512 GET http://www.bet.example/ - HIER_NONE/- text/html\n",
		"gateway.yaml": gatewaySettings,
		"parent.yaml":  gatewaySettings + "proxy: {parent: \"http://127.0.0.1:8090\"}\n",
		"ddr.yaml":     "listen: {proxy: \"off\", admin: 127.0.0.1:8081}\ndns: {listen: [\"192.0.2.1:53\"], tls: [\"192.0.2.1:853\"], https: [\"192.0.2.1:443\"], recursion: [192.0.2.0/24], name: dns.example.com, cert: dns.pem, key: dns.key, forward: {upstreams: [192.0.2.53]}}\npolicies: [{name: everyone}]\n",
		"sources.yaml": gatewaySettings + "checks: {signature: {sources: {ours: {url: \"http://127.0.0.2:8000/ours.tar.gz\"}}, disable: disable.conf}}\nproxy: {private: [127.0.0.0/8]}\n",
		"lists.yaml":   gatewaySettings + "lists:\n  ut1: {format: ut1, path: lists/blacklists}\n  own: {format: domains, path: own.txt}\n  ads: {url: \"http://127.0.0.2:8000/ads.txt\", format: domains, minimum: 1}\nchecks: {category: {lists: [ut1, own, ads]}}\nproxy: {private: [127.0.0.0/8]}\n",
		"gate.yaml":    "listen: {proxy: 127.0.0.1:8080, admin: 10.9.0.1:8081, token: 0123456789abcdef, tls: {cert: dns.pem, key: dns.key}}\nidentity: {groups: {pupils: []}}\naccess: {names: [gate]}\npolicies: [{name: everyone}]\n",
		"casino.yaml":  "listen: {proxy: 127.0.0.1:8080, admin: 127.0.0.1:8081}\ndns: {listen: [\"127.0.0.1:5353\"], forward: {upstreams: [192.0.2.53]}}\nlists: {gambling: {format: domains, path: gambling.txt}}\nchecks: {category: {lists: [gambling]}}\npolicies: [{name: pupils, dns: {answer: nxdomain, error: filtered}, rules: [{name: gambling, action: block, category: [gambling]}]}]\n",
		"votes.yaml":   gatewaySettings + "votes: {listen: 127.0.0.1:8083, store: votes.db}\n",
		"zones.yaml": "listen: {proxy: 127.0.0.1:8080, admin: 127.0.0.1:8081}\npolicies: [{name: everyone}]\ndns:\n  listen: [\"127.0.0.1:5353\"]\n  forward: {upstreams: [192.0.2.53]}\n  zones:\n    files: [{path: example.com.zone}]\n" +
			"    tsig: [{name: partner, algorithm: hmac-sha256, secret: MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=}]\n    allow: [{zones: [example.com], key: partner}]\n    update: [{zones: [example.com], key: partner}]\n",
		"example.com.zone": "$TTL 300\n$ORIGIN example.com.\n@ SOA ns1 hostmaster 1 3600 600 86400 300\n NS ns1\nns1 A 192.0.2.53\n",
		"my.rules":         "alert http any any -> any any (msg:\"a file that nobody should ask for\"; http.uri; content:\"/evil\"; sid:1000001; rev:1;)\n",
		"request.txt":      "GET /evil HTTP/1.1\r\nHost: www.example.com\r\n\r\n",
		"redis.yaml":       "listen: {proxy: 127.0.0.1:8080, admin: 127.0.0.1:8081}\npolicies: [{name: everyone}]\ndns: {listen: [\"127.0.0.1:5353\"], forward: {upstreams: [192.0.2.53]}, redis: {addresses: [127.0.0.1:6379], set-notify: true}}\n",
		"redins.json":      `{"server": [{"ip": "127.0.0.1", "port": 1053, "protocol": "udp"}], "redis": {"address": "127.0.0.1:6379"}}`,
	} {
		put(t, filepath.Join(dir, name), text)
	}
	if err := os.WriteFile(filepath.Join(dir, "traffic.pcap"), capture(t), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// capture returns a connection with a request for /evil, in the format of
// tcpdump.
func capture(t *testing.T) []byte {
	t.Helper()
	order := binary.LittleEndian
	file := order.AppendUint32(nil, 0xa1b2c3d4)
	file = order.AppendUint16(file, 2)
	file = order.AppendUint16(file, 4)
	file = append(file, make([]byte, 8)...)
	file = order.AppendUint32(file, 1<<16)
	file = order.AppendUint32(file, 101) // raw IP
	client, server := []byte{192, 0, 2, 1}, []byte{192, 0, 2, 2}
	add := func(up bool, flags byte, seq, ack uint32, payload string) {
		from, to, src, dst := client, server, uint16(40000), uint16(80)
		if !up {
			from, to, src, dst = to, from, dst, src
		}
		packet := []byte{0x45, 0}
		packet = binary.BigEndian.AppendUint16(packet, uint16(40+len(payload)))
		packet = append(packet, 0, 0, 0, 0, 64, 6, 0, 0)
		packet = append(append(packet, from...), to...)
		packet = binary.BigEndian.AppendUint16(packet, src)
		packet = binary.BigEndian.AppendUint16(packet, dst)
		packet = binary.BigEndian.AppendUint32(packet, seq)
		packet = binary.BigEndian.AppendUint32(packet, ack)
		packet = append(packet, 5<<4, flags, 0xff, 0xff, 0, 0, 0, 0)
		packet = append(packet, payload...)
		for _, n := range []uint32{1700000000, 0, uint32(len(packet)), uint32(len(packet))} {
			file = order.AppendUint32(file, n)
		}
		file = append(file, packet...)
	}
	const syn, ack, push = 2, 16, 8
	ask := "GET /evil HTTP/1.1\r\nHost: www.example.com\r\n\r\n"
	add(true, syn, 1, 0, "")
	add(false, syn|ack, 1, 2, "")
	add(true, ack, 2, 2, "")
	add(true, ack|push, 2, 2, ask)
	add(false, ack|push, 2, 2+uint32(len(ask)), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	return file
}
